//! `join`: burns an invitation read from standard input, where `ps` does not see it.

use super::context::Context;
use super::register::{offer, outbound};
use super::{Ending, print};
use crate::auth::invite::Invite;
use crate::cli::Join;
use crate::cycle::joining::join;
use crate::cycle::speaking::Offer;
use crate::error::{Failure, Kind};
use anyhow::Context as _;
use std::io::Read;
use zeroize::Zeroizing;

/// Longest join string read.
const JOIN_BYTES_MAX: u64 = 8 * 1024;

pub(super) fn run(context: &Context, typed: &Join) -> Ending {
    let mut text = Zeroizing::new(String::new());
    if typed.invite == "-" {
        std::io::stdin()
            .take(JOIN_BYTES_MAX)
            .read_to_string(&mut text)
            .context("cannot read the invitation from standard input")?;
    } else {
        text.push_str(&typed.invite);
    }
    let invite = Invite::parse(&text).map_err(|error| Failure::new(Kind::Usage, error))?;
    let offer = Offer { outbound: outbound(typed.reach), ..offer(&typed.urls, &typed.services)? };
    let accepted = join(&context.host, &context.config, &invite, &offer)?;
    if !context.common.quiet {
        print::out(&format!(
            "joined {} as '{}': line {}, anchor {}\n",
            invite.vkey.name(),
            invite.node,
            accepted.seq,
            invite.url
        ))?;
    }
    Ok(None)
}
