//! `accept-loss`: an operator says that the silent are really lost.

use super::context::Context;
use super::{Ending, print};
use crate::cycle::loading::accept_loss;
use crate::cycle::rounds::{PATIENCE, take_lock};
use crate::error::{Failure, Kind};
use crate::store::identity::Identity;

pub(super) fn run(context: &Context) -> Ending {
    let disk = context.disk();
    let identity = Identity::require(&disk)?;
    if !identity.is_anchor() {
        let anchor = identity.anchors.first().cloned().unwrap_or_default();
        return Err(Failure::failed(format!("this node judges nobody: its anchor is {anchor}"))
            .hint("run it on the anchor")
            .into());
    }
    let busy = || Failure::new(Kind::Busy, "a tick is at work");
    let _whole = take_lock(&context.host, &disk.layout.keys(), PATIENCE)?.ok_or_else(busy)?;
    let Some(memory) = accept_loss(&disk)? else {
        return Err(Failure::new(
            Kind::No,
            "nobody is doubted and no tick was blind: nothing to accept",
        )
        .into());
    };
    if !context.common.quiet {
        print::out(&format!(
            "accepted: {} suspects and {} blind ticks; from the next tick on no cap and no blindness holds them, until no suspect is left\n",
            memory.suspects.len(),
            memory.blind_ticks
        ))?;
    }
    Ok(None)
}
