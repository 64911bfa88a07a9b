//! `verify`: the disk held against what was signed, and with `--against` against what others show.

use super::context::Context;
use super::{Ending, print, progress};
use crate::cli::Verify;
use crate::cycle::against::{Agreement, against};
use crate::store::audit::{Audit, Depth, audit_with};
use std::cmp::Ordering;

pub(super) fn run(context: &Context, typed: &Verify) -> Ending {
    let depth = if typed.full { Depth::Full } else { Depth::Journal };
    let bar = progress::bar(progress::BYTES);
    let audit = audit_with(&context.disk(), depth, &progress::show(&bar));
    bar.finish_and_clear();
    let audit = audit?;
    let url = typed.against.as_deref();
    let agreed = url.map(|url| against(&context.host, &context.config, url)).transpose()?;
    if typed.json {
        let mut value = serde_json::to_value(&audit).unwrap_or_default();
        if let Some(agreed) = &agreed {
            value["against"] = serde_json::to_value(agreed).unwrap_or_default();
        }
        print::json(&value)?;
        return Ok(None);
    }
    let agreed = agreed.as_ref().map(told).unwrap_or_default();
    print::out(&format!("{}{agreed}", found(&audit, typed.full)))?;
    Ok(None)
}

fn found(audit: &Audit, full: bool) -> String {
    let mut text =
        format!("verified {}: {} lines, root {}\n", audit.origin, audit.size, audit.root);
    if full {
        text.push_str(&format!(
            "  {} signatures, {} tiles and bundles, index and snapshot agree\n",
            audit.signatures, audit.tiles
        ));
    }
    if audit.by_checkpoint_alone > 0 {
        text.push_str(&format!(
            "  {} lines of members with a shared key, which rest on the checkpoint alone\n",
            audit.by_checkpoint_alone
        ));
    }
    if audit.unsigned_lines > 0 || audit.torn_bytes > 0 {
        text.push_str(&format!(
            "  beyond the checkpoint: {} whole lines and {} torn bytes, which the next tick takes care of\n",
            audit.unsigned_lines, audit.torn_bytes
        ));
    }
    text
}

fn told(agreed: &Agreement) -> String {
    let Agreement { url, ours, theirs } = agreed;
    let how = match theirs.cmp(ours) {
        Ordering::Equal => "the same checkpoint".to_owned(),
        Ordering::Less => format!("its {theirs} lines are the first of ours"),
        Ordering::Greater => format!("its {theirs} lines continue our {ours}"),
    };
    format!("  agrees with {url}: {how}\n")
}
