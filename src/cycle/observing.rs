//! What a member saw in its tick: told by the member, kept by the anchor.
//!
//! An observation makes no line of its own. The anchor keeps the newest of each member, signed as
//! it came, and quotes it where a verdict rests on it. A later `ts` replaces an earlier one, so a
//! replayed observation is an old one and changes nothing.

use super::admission::{anchor_identity, authenticate, unavailable};
use super::speaking::{Claims, Signer};
use crate::auth::envelope;
use crate::auth::gate::{Refusal, check_ts};
use crate::config::Config;
use crate::error::Failure;
use crate::host::{Host, Keep, Readers};
use crate::journal::statement::{Observe, SEEN_MAX, Saw, Sighting};
use crate::protocol::contact::Contact;
use crate::protocol::member::NodeId;
use crate::protocol::membership::Membership;
use crate::protocol::registration::parse_url;
use crate::protocol::subject::Subject;
use crate::store::disk::Disk;
use crate::store::identity::Identity;
use crate::store::view::View;
use crate::wire::call::{Call, Method, Read, Targets};
use std::collections::BTreeMap;
use std::time::Duration;

/// Largest answer read.
const ANSWER_BYTES_MAX: usize = 4 * 1024;

/// What an anchor answers to a word it took: 202 to an observation, 200 to a line.
const ANSWERS: [u16; 2] = [200, 202];

/// The kind that is signed, and the path it is posted to.
pub(super) const KIND: &str = "observe";

/// The anchor's side: checks an observation and keeps it. Returns the tick it tells of.
pub fn receive(host: &dyn Host, config: &Config, body: &[u8]) -> Result<u64, Refusal> {
    let envelope = envelope::parse(body).map_err(Refusal::Malformed)?;
    let node =
        NodeId::parse(&envelope.node).map_err(|error| Refusal::Malformed(error.to_string()))?;
    let disk = Disk { host, layout: &config.layout };
    let identity = anchor_identity(&disk)?;
    envelope.expect_for(&identity.origin).map_err(Refusal::Malformed)?;
    let view = View::open(disk).map_err(unavailable)?;
    let now_s = host.clock().wall_ms / 1_000;
    authenticate((&disk, &view.fold), (KIND, &envelope, &node), now_s)?;
    envelope.agrees(&identity.origin).map_err(Refusal::Malformed)?;
    check_ts(envelope.ts, now_s)?;
    let told = parse(&envelope.payload).map_err(Refusal::Malformed)?;
    // As the journal spells it, so that one member has one file.
    let name = view.fold.membership.members().map(|(id, _)| id).find(|id| **id == node);
    let path = disk.layout.observation(name.unwrap_or(&node).as_str());
    let held = disk.read(&path).map_err(unavailable)?.and_then(|bytes| read(&bytes));
    let newer = |held: &Observe| (held.ts, held.tick) >= (told.ts, told.tick);
    if let Some(held) = held.filter(newer) {
        return Err(Refusal::Conflict(format!(
            "stale: an observation of {node} at ts {} and tick {} is here already",
            held.ts, held.tick
        )));
    }
    if let Some(folder) = path.parent() {
        disk.folder(folder, true).map_err(unavailable)?;
    }
    let kept = (Keep::Cached, Readers::Usual);
    disk.put_beside(&path, envelope.render().as_bytes(), kept).map_err(unavailable)?;
    Ok(told.tick)
}

/// An observation as it is kept: the envelope with the signed payload in it.
pub fn read(kept: &[u8]) -> Option<Observe> {
    let envelope = envelope::parse(kept).ok()?;
    parse(&envelope.payload).ok()
}

fn parse(payload: &str) -> Result<Observe, String> {
    let told: Observe = serde_json::from_str(payload)
        .map_err(|error| format!("the payload is no {KIND}: {error}"))?;
    if told.seen.len() > SEEN_MAX {
        return Err(format!("{} members seen, at most {SEEN_MAX}", told.seen.len()));
    }
    Ok(told)
}

/// What a member has to tell of its tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told<'a> {
    pub(super) tick: u64,
    pub(super) size: u64,
    pub(super) membership: &'a Membership,
    pub(super) contacts: &'a BTreeMap<Subject, Contact>,
    pub(super) health: u64,
}

/// The member's side: signs what it saw and keeps it where its server finds it.
pub(super) fn signed(
    disk: &Disk<'_>,
    identity: &Identity,
    told: &Told<'_>,
) -> Result<Vec<u8>, Failure> {
    let signer = Signer::load(disk, identity)?;
    let claims = Claims::now(disk)?;
    let observe = Observe {
        origin: identity.origin.clone(),
        node: identity.id.clone(),
        nonce: claims.nonce.clone(),
        ts: claims.ts,
        mode: signer.mode().to_owned(),
        tick: told.tick,
        health: told.health,
        size: told.size,
        seen: sightings(told),
    };
    let payload = serde_json::to_value(&observe).unwrap_or_default().to_string();
    let word = signer.seal(identity, claims, (KIND, payload)).render().into_bytes();
    let path = disk.layout.observation(identity.id.as_str());
    if let Some(folder) = path.parent() {
        disk.folder(folder, true)?;
    }
    disk.put_beside(&path, &word, (Keep::Cached, Readers::Usual))?;
    Ok(word)
}

/// Posts a signed word to the anchor's URLs in turn: `None` where none answered, else why it was
/// refused, or nothing.
pub(super) fn post(
    disk: &Disk<'_>,
    (kind, body): (&str, &[u8]),
    (anchors, until_boot_ms): (&[String], u64),
) -> Result<Option<String>, Failure> {
    for url in anchors {
        let Ok(address) = parse_url(url) else { continue };
        let call = Call {
            method: Method::Post,
            host_header: address.authority(),
            address,
            path: format!("/{kind}"),
            headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
            body: body.to_vec(),
            timeout: Duration::from_millis(super::server::ASK_MS),
            read: Read::Body { max: ANSWER_BYTES_MAX },
            targets: Targets::Any,
        };
        match disk.host.dial(&[call], until_boot_ms).into_iter().next() {
            // Only an anchor answers so; a front's page is no answer.
            Some(Ok(reply)) if ANSWERS.contains(&reply.status) => return Ok(Some(String::new())),
            Some(Ok(reply)) if reply.status < 500 => {
                let told: serde_json::Value =
                    serde_json::from_slice(&reply.body).unwrap_or_default();
                let why = told.get("message").and_then(|m| m.as_str()).unwrap_or("no reason");
                let refused = format!("{url} refused our {kind} with {}: {why}", reply.status);
                return Ok(Some(refused));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// At most [`SEEN_MAX`], those who did not answer first: they are what the anchor needs to hear.
fn sightings(told: &Told<'_>) -> Vec<Sighting> {
    let nodes = told
        .contacts
        .iter()
        .filter(|(subject, contact)| subject.service.is_none() && !contact.outcome.is_local());
    let mut seen: Vec<Sighting> = nodes
        .filter_map(|(subject, contact)| {
            let member = told.membership.member(&subject.node)?;
            let saw = match &contact.outcome {
                outcome if outcome.is_success() => Saw::Answered,
                outcome if outcome.was_heard() => Saw::Failed,
                _ => Saw::Unheard,
            };
            let inc = member.standing.incarnation;
            Some(Sighting { node: subject.node.clone(), inc, saw })
        })
        .collect();
    seen.sort_by_key(|sighting| sighting.saw == Saw::Answered);
    seen.truncate(SEEN_MAX);
    seen
}
