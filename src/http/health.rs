//! `/q/health`: where this node stands, signed for whoever asks with a challenge. It is what peers
//! wait for, so nothing in it grows with the journal.

use super::message::Response;
use super::router::Face;
use crate::auth::gate::Refusal;
use crate::cycle::{peers, refuting};
use crate::error::{Failure, Kind};
use crate::protocol::memory::Memory;
use crate::store::disk::Disk;
use crate::store::identity::Identity;
use crate::store::view::Published;
use crate::wire::health::{Accusation, CHALLENGE_DIGITS, Standing, is_challenge};
use serde_json::{Value, json};

/// `GET`: always 200 while we can answer at all; what is not known is null. It never writes.
pub(super) fn plain(
    face: &Face<'_>,
    disk: Disk<'_>,
    challenge: Option<&str>,
) -> Result<Response, Failure> {
    if challenge.is_some_and(|c| !is_challenge(c)) {
        let why = format!("c, expected {CHALLENGE_DIGITS} lower-case hex digits");
        return Err(Failure::new(Kind::Usage, why));
    }
    Ok(Response::json(&answer(face, disk, challenge)))
}

/// `POST`: the same for one who is doubted, with the refutation. The incarnation is raised and
/// synced first, so that the answer says it already.
pub(super) fn accused(face: &Face<'_>, body: &[u8]) -> Result<Response, Refusal> {
    let accusation: Accusation = serde_json::from_slice(body)
        .map_err(|error| Refusal::Malformed(format!("the accusation: {error}")))?;
    if !is_challenge(&accusation.c) {
        return Err(Refusal::Malformed(format!(
            "c, expected {CHALLENGE_DIGITS} lower-case hex digits"
        )));
    }
    let refuted = refuting::refute(face.host, face.config, &accusation)?;
    let disk = Disk { host: face.host, layout: &face.config.layout };
    let mut told = answer(face, disk, Some(&accusation.c));
    if let Some(register) = refuted {
        told["refute"] = serde_json::from_str(&register.render()).unwrap_or_default();
    }
    Ok(Response::json(&told))
}

fn answer(face: &Face<'_>, disk: Disk<'_>, challenge: Option<&str>) -> Value {
    let published = Published::read(&disk).ok();
    let identity = Identity::load(&disk).ok().flatten();
    let memory: Option<Memory> = disk
        .read(&face.config.layout.tick())
        .ok()
        .flatten()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let node = face.config.own.as_ref().or(identity.as_ref().map(|identity| &identity.id));
    let standing = Standing {
        node: node.map(ToString::to_string).unwrap_or_default(),
        incarnation: identity.as_ref().map(|identity| identity.incarnation.value()),
        size: published.as_ref().map(|published| published.checkpoint.size),
        head: published.as_ref().and_then(|published| published.head(&disk)),
        tick: memory.map(|memory| memory.tick),
    };
    let mut told = json!({
        "node": node,
        "status": "ok",
        "version": env!("CARGO_PKG_VERSION"),
        "config_sha256": peers::gateway_sha256(&disk, face.config).ok().flatten(),
        "incarnation": standing.incarnation,
        "size": standing.size,
        "head": standing.head,
        "tick": standing.tick,
        "ts": face.host.clock().wall_ms / 1_000,
    });
    if let (Some(c), Some(identity)) = (challenge, &identity) {
        told["c"] = c.into();
        told["sig"] = refuting::vouch(&disk, identity, (c, &standing)).into();
    }
    told
}
