//! `invite`: the join string, alone on standard output.

use super::context::Context;
use super::{Ending, print};
use crate::auth::{keys, mac};
use crate::cli::Invite;
use crate::config::duration_ms;
use crate::cycle::enrolment::{Wanted, invite};
use crate::error::{Failure, Kind};
use crate::protocol::member::NodeId;
use crate::protocol::service::ServiceName;

pub(super) fn run(context: &Context, typed: &Invite) -> Ending {
    let usage = |message: String| Failure::new(Kind::Usage, message);
    let node = NodeId::parse(&typed.node).map_err(|error| usage(error.to_string()))?;
    let services = typed
        .services
        .iter()
        .map(|name| ServiceName::parse(name))
        .collect::<Result<_, _>>()
        .map_err(|error| usage(format!("--service: {error}")))?;
    let ttl_s = duration_ms(&typed.ttl).map_err(|error| usage(format!("--ttl: {error}")))? / 1_000;
    if ttl_s == 0 {
        return Err(usage("--ttl 0 would be over at once".to_owned()).into());
    }
    if ![keys::ED25519, mac::HMAC_SHA256].contains(&typed.alg.as_str()) {
        let known = format!("expected {} or {}", keys::ED25519, mac::HMAC_SHA256);
        return Err(usage(format!("--alg '{}', {known}", typed.alg.escape_debug())).into());
    }
    let wanted = Wanted { node, services, ttl_s, alg: typed.alg.clone(), replace: typed.replace };
    let invitation = invite(&context.host, &context.config, wanted)?;
    print::out(&format!("{}\n", *invitation.render()))?;
    Ok(None)
}
