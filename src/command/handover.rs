//! `handover`: the offer of the node that takes over, and the anchor's word that it does.

use super::context::Context;
use super::{Ending, print};
use crate::cli::Handover;
use crate::cycle::handover::{hand_over, offer};
use anyhow::Context as _;
use std::io::Read;

/// Longest offer read.
const OFFER_BYTES_MAX: u64 = 16 * 1024;

pub(super) fn run(context: &Context, typed: &Handover) -> Ending {
    let Some(taken) = &typed.taken else {
        let text = offer(&context.host, &context.config)?;
        print::out(&format!("{text}\n"))?;
        return Ok(None);
    };
    let mut text = taken.clone();
    if taken == "-" {
        text.clear();
        std::io::stdin()
            .take(OFFER_BYTES_MAX)
            .read_to_string(&mut text)
            .context("cannot read the offer from standard input")?;
    }
    let done = hand_over(&context.host, &context.config, (&text, typed.force))?;
    if !context.common.quiet {
        print::out(&format!(
            "line {}: {} serialises in epoch {}; its next tick takes over, and this node follows it\n",
            done.line, done.node, done.epoch
        ))?;
    }
    Ok(None)
}
