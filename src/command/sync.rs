//! `sync`: fetches what this member's journal lacks, now.

use super::context::Context;
use super::{Ending, print, progress};
use crate::cli::Sync;
use crate::cycle::rounds::{PATIENCE, take_lock};
use crate::cycle::sync::{Run, Synced, run as sync};
use crate::error::{Failure, Kind};
use crate::host::Host;
use crate::protocol::registration::parse_url;
use crate::store::identity::Identity;
use serde_json::json;

pub(super) fn run(context: &Context, typed: &Sync) -> Ending {
    let disk = context.disk();
    if Identity::require(&disk)?.is_anchor() {
        return Err(Failure::failed(
            "this is the anchor: it writes the journal, others sync from it",
        )
        .hint("on a member: crowny-fed sync")
        .into());
    }
    let busy = || Failure::new(Kind::Busy, "another run of this member is at work");
    let _whole = take_lock(&context.host, &disk.layout.keys(), PATIENCE)?.ok_or_else(busy)?;
    for url in &typed.from {
        parse_url(url).map_err(|error| Failure::new(Kind::Usage, format!("--from: {error}")))?;
    }
    let bar = progress::bar(progress::LINES);
    let progress = progress::show(&bar);
    let turn = context.host.clock().wall_ms / 1_000;
    let synced = sync(
        disk,
        &context.config,
        &Run { until_boot_ms: u64::MAX, turn, from: &typed.from, progress: &progress },
    );
    bar.finish_and_clear();
    let synced = synced?;
    tell(context, typed, &synced)?;
    if !synced.anchor_answered && synced.from.is_none() {
        return Err(Failure::failed("no anchor answered, and no member has newer lines")
            .hint("the next tick tries again; what is here stays")
            .into());
    }
    if let Some(claimed) = synced.claimed {
        let why = format!("{} lines are here, the anchor says it has {claimed}", synced.size);
        return Err(Failure::failed(why).hint("the warnings say why; run it again").into());
    }
    Ok(None)
}

fn tell(context: &Context, typed: &Sync, synced: &Synced) -> Result<(), Failure> {
    synced.warnings.iter().for_each(|warning| print::warn(warning));
    if typed.json {
        return print::json(&json!({
            "before": synced.before,
            "size": synced.size,
            "from": synced.from,
            "anchor_answered": synced.anchor_answered,
            "warnings": synced.warnings,
        }));
    }
    if context.common.quiet {
        return Ok(());
    }
    let fetched = synced.size - synced.before;
    print::out(&match &synced.from {
        Some(url) if fetched > 0 => format!("{fetched} lines from {url}, {} now\n", synced.size),
        _ => format!("{} lines, nothing newer\n", synced.size),
    })
}
