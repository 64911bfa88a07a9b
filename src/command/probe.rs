//! `probe`: one round by hand.

use super::context::Context;
use super::{Ending, print};
use crate::cli::Lang;
use crate::cycle::rounds;
use crate::error::Kind;
use crate::protocol::roster::Rejected;

pub(super) fn run(context: &Context) -> Ending {
    let round = rounds::probe(&context.host, &context.config)?;
    round.warning.iter().for_each(|warning| print::warn(warning));
    if !context.common.quiet {
        let rows = round.rows.iter().map(|row| {
            vec![
                row.id.to_string(),
                format!("{}:{}", row.host, row.port),
                format!("{} {}", row.judgement.word(), row.judgement.english()),
                format!("{:03}", row.http),
                format!("{}.{:03}", row.ms / 1_000, row.ms % 1_000),
                row.in_sync.word().to_owned(),
                row.reason.clone(),
            ]
        });
        let head = match context.common.lang {
            Lang::En => ["peer", "host:port", "verdict", "http", "seconds", "in sync", "reason"],
            Lang::Ko => ["노드ID", "호스트:포트", "판정", "http", "초", "동기화", "사유"],
        };
        print::out(&print::table(&head, rows.collect()))?;
    }
    Ok(rejected(&context.config.peers, &round.roster.rejected))
}

/// Names every roster line that was set aside; the code then says that not all was done.
pub(super) fn rejected(path: &std::path::Path, rejected: &[Rejected]) -> Option<Kind> {
    for bad in rejected {
        print::warn(&format!(
            "row set aside: {} line {}: {}",
            path.display(),
            bad.line,
            bad.reason
        ));
    }
    (!rejected.is_empty()).then_some(Kind::Partial)
}
