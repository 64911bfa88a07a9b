//! Refutation: who is doubted says so itself, signed, one incarnation above the one accused.
//!
//! The accuser tells it by the line that doubts it, proven under the log's signature, so nobody can
//! make a member raise its number by merely saying something. One raise for each accused
//! incarnation: the same accusation again is answered with the same number.

use super::rounds::take_lock;
use super::speaking::{Claims, Signer, registration};
use crate::auth::envelope::Envelope;
use crate::auth::gate::{Refusal, SKEW_S_MAX};
use crate::auth::pae;
use crate::config::Config;
use crate::error::Failure;
use crate::host::Host;
use crate::journal::line::Line;
use crate::journal::record::Record;
use crate::journal::tlog_proof::parse_tlog_proof;
use crate::protocol::member::{Incarnation, Liveness};
use crate::protocol::membership::Membership;
use crate::store::disk::Disk;
use crate::store::identity::Identity;
use crate::wire::health::{self, Accusation, Standing};
use std::time::Duration;

/// Our signature on where we stand; `None` where our key cannot be read.
pub fn vouch(
    disk: &Disk<'_>,
    identity: &Identity,
    (c, standing): (&str, &Standing),
) -> Option<String> {
    let signer = Signer::load(disk, identity).ok()?;
    let payload = health::payload(&identity.origin, c, standing);
    Some(signer.sign(&pae::encode(health::KIND, &payload)))
}

/// The accused's side of `POST /q/health`: the signed register that refutes, `None` where another
/// run of this member is at work and will do so itself.
pub fn refute(
    host: &dyn Host,
    config: &Config,
    accusation: &Accusation,
) -> Result<Option<Envelope>, Refusal> {
    let disk = Disk { host, layout: &config.layout };
    let unavailable = |failure: Failure| Refusal::Unavailable(failure.message);
    let identity = Identity::require(&disk).map_err(unavailable)?;
    let now_s = host.clock().wall_ms / 1_000;
    if accusation.ts.abs_diff(now_s) > SKEW_S_MAX {
        return Err(Refusal::Malformed(format!("ts is more than {SKEW_S_MAX} s off")));
    }
    let accused = accused(&identity, accusation)?;
    let held = take_lock(host, &config.layout.keys(), Duration::ZERO).map_err(unavailable)?;
    let Some(_one_word) = held else { return Ok(None) };
    raise(&disk, accused).map(Some).map_err(unavailable)
}

/// At which incarnation we are accused, as a line under the log's signature says.
fn accused(identity: &Identity, accusation: &Accusation) -> Result<Incarnation, Refusal> {
    let bad = |why: String| Refusal::Malformed(format!("the accusation: {why}"));
    let proof = parse_tlog_proof(&accusation.proof).map_err(|error| bad(error.to_string()))?;
    let vkey = identity
        .verifier_of(proof.checkpoint.as_bytes())
        .map_err(|failure| Refusal::Unavailable(failure.message))?;
    proof.verify(accusation.line.as_bytes(), &vkey).map_err(|error| bad(error.to_string()))?;
    let line = Line::parse(accusation.line.as_bytes()).map_err(|error| bad(error.to_string()))?;
    match Record::of(&line) {
        Record::Verdict(verdict)
            if verdict.node == identity.id
                && verdict.service.is_none()
                && matches!(verdict.to, Liveness::Suspect | Liveness::Dead) =>
        {
            Ok(verdict.inc)
        }
        _ => Err(bad(format!("its line does not doubt {}", identity.id))),
    }
}

/// A signed register above the accused incarnation, which is synced before it is told. The lock on
/// `keys/` is held.
fn raise(disk: &Disk<'_>, accused: Incarnation) -> Result<Envelope, Failure> {
    // Read under the lock: another word may have raised it meanwhile.
    let mut identity = Identity::require(disk)?;
    if identity.incarnation <= accused {
        identity.incarnation = accused.raised();
        identity.store(disk)?;
    }
    let signer = Signer::load(disk, &identity)?;
    let claims = Claims::now(disk)?;
    let record = registration(&identity, (&claims, signer.mode()));
    Ok(signer.seal(&identity, claims, (record.kind(), record.payload())))
}

/// In our own tick: what the journal holds against us, answered. The lock on `keys/` is held.
pub(super) fn in_own_tick(
    disk: &Disk<'_>,
    identity: &Identity,
    membership: &Membership,
) -> Result<Option<Envelope>, Failure> {
    let doubted = membership
        .member(&identity.id)
        .filter(|member| matches!(member.standing.liveness, Liveness::Suspect | Liveness::Dead));
    doubted.map(|member| raise(disk, member.standing.incarnation)).transpose()
}
