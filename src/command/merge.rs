//! `merge`: brings what was said while no anchor answered, now.

use super::context::Context;
use super::{Ending, print};
use crate::cycle::merging::{Merging, bring, bring_own};
use crate::cycle::rounds::{PATIENCE, take_lock};
use crate::cycle::sync::{Run, run as sync};
use crate::error::{Failure, Kind};
use crate::host::Host;
use crate::store::branch::Branch;
use crate::store::identity::Identity;
use serde_json::json;

pub(super) fn run(context: &Context, as_json: bool) -> Ending {
    let disk = context.disk();
    let anchor = Identity::require(&disk)?.is_anchor();
    let busy = || Failure::new(Kind::Busy, "another run of this member is at work");
    let _whole = take_lock(&context.host, &disk.layout.keys(), PATIENCE)?.ok_or_else(busy)?;
    let branch = Branch::load(&disk)?;
    if let Some(damage) = branch.damage(&disk).filter(|_| branch.is_empty()) {
        return Err(damage.into());
    }
    let merging = if branch.is_empty() {
        Merging::default()
    } else if anchor {
        bring_own(disk, &context.config)?
    } else {
        let turn = context.host.clock().wall_ms / 1_000;
        let run = Run { until_boot_ms: u64::MAX, turn, from: &[], progress: &|_, _| {} };
        let synced = sync(disk, &context.config, &run)?;
        bring(disk, &context.config, (synced, &run))?
    };
    tell(context, &merging, as_json)?;
    ending(&merging)
}

fn ending(merging: &Merging) -> Ending {
    let waiting = merging.waiting;
    if waiting == 0 {
        return Ok(None);
    }
    if let Some(trouble) = &merging.trouble {
        return Err(Failure::failed(trouble.clone()).hint("what waits stays").into());
    }
    if !merging.synced.anchor_answered {
        return Err(Failure::failed(format!("no anchor answers; lines that wait: {waiting}"))
            .hint("the next tick that reaches one merges them")
            .into());
    }
    if merging.refused.is_empty() {
        let why = format!("lines that wait still: {waiting}, and the anchor refused none of them");
        return Err(Failure::failed(why).hint("run it again").into());
    }
    Ok(Some(Kind::Partial))
}

fn tell(context: &Context, merging: &Merging, as_json: bool) -> Result<(), Failure> {
    let Merging { synced, merged, conflicts, refused, trouble, waiting } = merging;
    let told = synced.warnings.iter().chain(conflicts).chain(refused);
    told.for_each(|warning| print::warn(warning));
    if as_json {
        return print::json(&json!({
            "merged": merged,
            "conflicts": conflicts,
            "refused": refused,
            "waiting": waiting,
            "trouble": trouble,
            "size": synced.size,
            "anchor_answered": synced.anchor_answered,
            "warnings": synced.warnings,
        }));
    }
    if context.common.quiet {
        return Ok(());
    }
    print::out(&match (merged, waiting) {
        (0, 0) => "nothing waits in branch.ndjson\n".to_owned(),
        (_, 0) => format!("merged: {merged}\n"),
        _ => format!("merged: {merged}, waiting: {waiting}\n"),
    })
}
