//! `grant`, `revoke` and `rotate-key --log`: the operator's word, on the anchor.

use super::context::Context;
use super::{Ending, print};
use crate::cli::Grant as Typed;
use crate::cycle::enrolment;
use crate::error::{Failure, Kind};
use crate::protocol::member::NodeId;
use crate::protocol::service::ServiceName;

pub(super) fn grant(context: &Context, typed: &Typed) -> Ending {
    let usage = |message: String| Failure::new(Kind::Usage, message);
    let service = ServiceName::parse(&typed.service).map_err(usage)?;
    let node = NodeId::parse(&typed.node).map_err(|error| usage(error.to_string()))?;
    let seq = enrolment::grant(&context.host, &context.config, (service, node, !typed.off))?;
    told(context, if typed.off { "granted no more" } else { "granted" }, seq)
}

pub(super) fn revoke(context: &Context, node: &str) -> Ending {
    let node = NodeId::parse(node).map_err(|error| Failure::new(Kind::Usage, error.to_string()))?;
    let seq = enrolment::revoke(&context.host, &context.config, &node)?;
    told(context, "revoked", seq)
}

pub(super) fn rotate_log_key(context: &Context) -> Ending {
    let seq = enrolment::rotate_log_key(&context.host, &context.config)?;
    told(context, "another log key signs from now on, the old one along for a week", Some(seq))
}

fn told(context: &Context, done: &str, seq: Option<u64>) -> Ending {
    if !context.common.quiet {
        let line = seq.map_or("no change".to_owned(), |seq| format!("line {seq}"));
        print::out(&format!("{done}: {line}\n"))?;
    }
    Ok(None)
}
