//! What a signed word may say, held against the journal as it is.

use super::{Desk, Times, authenticate, check_nonce, unavailable};
use crate::auth::envelope;
use crate::auth::gate::{Refusal, check_ts};
use crate::auth::keys;
use crate::config::Config;
use crate::journal::keyring::KeyRecord;
use crate::journal::line::Author;
use crate::journal::record::{Record, Register, Rotate};
use crate::journal::replay::Fold;
use crate::journal::statement::{INBOUND, OUTBOUND};
use crate::protocol::member::{Incarnation, Liveness, NodeId};
use crate::protocol::membership::Drained;
use crate::protocol::registration::{
    Admission, Reason, admit, check_jump, check_tags, check_target, well_formed,
};
use crate::store::accepted_clock::AcceptedClock;
use crate::store::disk::Disk;
use crate::store::draft::Draft;
use crate::store::identity::Identity;
use crate::store::used_nonces::UsedNonces;

/// A register that came back from a doubted member, checked like one that was posted. `None` where
/// it says nothing new.
pub(in crate::cycle) fn refutation(
    (disk, config, identity): (&Disk<'_>, &Config, &Identity),
    (fold, last_s): (&Fold, u64),
    (accused, body): (&NodeId, &str),
) -> Result<Option<(Register, Draft)>, Refusal> {
    let envelope = envelope::parse(body.as_bytes()).map_err(Refusal::Malformed)?;
    let node =
        NodeId::parse(&envelope.node).map_err(|error| Refusal::Malformed(error.to_string()))?;
    if node != *accused {
        return Err(Refusal::Malformed(format!("the register is of '{node}'")));
    }
    let now_s = disk.host.clock().wall_ms / 1_000;
    // A key that was retired is not in time again by a clock that went back.
    let accepted = AcceptedClock::load(disk).map_err(unavailable)?;
    let keys_s = Times::of(now_s, last_s, accepted).keys_s;
    let key = authenticate((disk, fold), ("register", &envelope, &node), keys_s)?;
    envelope.agrees(&identity.origin).map_err(Refusal::Malformed)?;
    check_ts(envelope.ts, now_s)?;
    let used = UsedNonces::load(disk, now_s).map_err(unavailable)?;
    check_nonce(fold, &used, (&node, &envelope), now_s)?;
    let Record::Register(register) = Record::read("register", &envelope.payload) else {
        return Err(Refusal::Malformed("the payload is no register".to_owned()));
    };
    if check_register(&register, fold, allows_loopback(config, &identity.id, fold))?.is_some() {
        return Ok(None);
    }
    let sig = envelope.sig.clone().unwrap_or_default();
    let author = Author { alg: key.alg, kid: key.kid, sig };
    Ok(Some((register, Draft::submitted("register", &envelope.payload, author))))
}

/// `Ok(Some(seq))` where the journal says the same already.
pub(super) fn of(
    desk: &Desk<'_>,
    record: &Record,
    signer: &KeyRecord,
) -> Result<Option<u64>, Refusal> {
    let fold = desk.ledger.fold();
    match record {
        Record::Register(register) => {
            let loopback = allows_loopback(desk.config, &desk.identity.id, fold);
            check_register(register, fold, loopback)
        }
        Record::Leave(leave) => {
            let member = fold.membership.member(&leave.node);
            let held = member.map(|member| (member.standing, member.last_line));
            match held {
                Some((standing, seq)) if standing.liveness == Liveness::Left => Ok(Some(seq)),
                Some((standing, _)) if leave.incarnation < standing.incarnation => {
                    Err(Refusal::Conflict(format!(
                        "stale: incarnation {} is below {}",
                        leave.incarnation.value(),
                        standing.incarnation.value()
                    )))
                }
                _ => {
                    check_said(desk.config, fold, record).map(|()| None).map_err(Refusal::Malformed)
                }
            }
        }
        Record::Drain(drain) => {
            check_step(fold, &drain.node, drain.incarnation.unwrap_or_default())
                .map_err(Refusal::Malformed)?;
            let member = fold.membership.member(&drain.node);
            let wanted = drain.until.map_or(Drained::Open, Drained::Until);
            let wanted = drain.on.then_some(wanted);
            let same = member.is_some_and(|member| member.drain == wanted);
            Ok(member.filter(|_| same).map(|member| member.last_line))
        }
        Record::Rotate(rotate) => check_rotation(fold, rotate, signer),
        _ => Err(Refusal::Malformed("members do not submit this kind".to_owned())),
    }
}

fn check_words(register: &Register) -> Result<(), String> {
    if ![INBOUND, OUTBOUND].contains(&register.reach.as_str()) {
        return Err("reach, expected inbound or outbound".to_owned());
    }
    check_tags(&register.tags)
}

/// What a registration must be whatever else was said, and in whichever order it comes in.
pub(in crate::cycle) fn check_announced(
    config: &Config,
    fold: &Fold,
    register: &Register,
) -> Result<(), String> {
    check_words(register)?;
    let loopback = fold.anchor().is_none_or(|anchor| allows_loopback(config, anchor, fold));
    well_formed(&register.clone().into(), loopback)?;
    let held = fold.membership.member(&register.node);
    held.map_or(Ok(()), |held| check_jump(register.incarnation, held.standing.incarnation))
}

/// The rules for what a line says, but for those that depend on what else was said.
pub(in crate::cycle) fn check_said(
    config: &Config,
    fold: &Fold,
    said: &Record,
) -> Result<(), String> {
    match said {
        Record::Register(register) => check_announced(config, fold, register),
        Record::Leave(leave) => check_step(fold, &leave.node, leave.incarnation),
        Record::Drain(drain) => {
            let told = drain.incarnation;
            let told = told.ok_or("a drain without incarnation could be an old one")?;
            check_step(fold, &drain.node, told)
        }
        _ => Ok(()),
    }
}

/// A goodbye or a drain too may use up no incarnations: it would be the last word for good.
fn check_step(fold: &Fold, node: &NodeId, told: Incarnation) -> Result<(), String> {
    let held = fold.membership.member(node);
    held.map_or(Ok(()), |held| {
        check_jump(told, held.standing.incarnation.max(held.drain_word().incarnation))
    })
}

fn check_register(
    register: &Register,
    fold: &Fold,
    loopback: bool,
) -> Result<Option<u64>, Refusal> {
    check_words(register).map_err(Refusal::Malformed)?;
    let told = register.clone().into();
    match admit(&told, &fold.membership, &fold.grants, loopback) {
        Admission::Accept => Ok(None),
        Admission::Unchanged(seq) => Ok(Some(seq)),
        Admission::Refuse(Reason::Content(reason)) => Err(Refusal::Malformed(reason)),
        Admission::Refuse(Reason::Stale(reason)) => Err(Refusal::Conflict(reason)),
        Admission::Refuse(Reason::NotGranted(name)) => Err(Refusal::NotGranted(name)),
    }
}

/// `Some(seq)` where the key speaks for the node already: an answer that was lost is asked again.
fn check_rotation(
    fold: &Fold,
    rotate: &Rotate,
    signer: &KeyRecord,
) -> Result<Option<u64>, Refusal> {
    if rotate.alg != keys::ED25519 {
        let why = format!(
            "alg '{}', a key is rotated to {} only",
            rotate.alg.escape_debug(),
            keys::ED25519
        );
        return Err(Refusal::Malformed(why));
    }
    let key = keys::parse_public(&rotate.key).map_err(Refusal::Malformed)?;
    let possession = Rotate::possession(&rotate.origin, &rotate.node, &rotate.nonce, &rotate.key);
    if !keys::verify(&key, &possession, &rotate.proof) {
        return Err(Refusal::Signature);
    }
    let held = fold.keys.of(&rotate.node).and_then(|keys| keys.current.key.as_ref());
    if held != Some(&rotate.key) {
        return Ok(None);
    }
    if signer.key.as_ref() == held {
        return Err(Refusal::Conflict("this key speaks for the node already".to_owned()));
    }
    Ok(fold.membership.member(&rotate.node).map(|member| member.last_line))
}

/// Loopback targets make sense only where the anchor itself lives on loopback, or an operator says so.
fn allows_loopback(config: &Config, anchor: &NodeId, fold: &Fold) -> bool {
    let member = fold.membership.member(anchor);
    let own = member.map(|member| member.urls.as_slice()).unwrap_or_default();
    let on_loopback =
        |url: &String| check_target(url, false).is_err() && check_target(url, true).is_ok();
    config.allow_loopback || own.is_empty() || own.iter().any(on_loopback)
}
