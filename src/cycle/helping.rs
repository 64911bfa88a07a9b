//! Indirect probes (SWIM's ping-req): others are asked to try whom we do not reach.
//!
//! The helper passes our own challenge on and returns the subject's whole answer, so it cannot
//! claim to have reached somebody. It may claim the opposite; that is one voice among several.

use super::admission::authenticate;
use super::agents::Agent;
use super::peers;
use super::probing::Whom;
use super::speaking::{Claims, Signer};
use super::sync::{anchor_urls, targets};
use crate::auth::envelope;
use crate::auth::gate::{Refusal, check_ts};
use crate::config::Config;
use crate::error::Failure;
use crate::host::Host;
use crate::protocol::contact::{Contact, Help, Said, Sign};
use crate::protocol::member::{Liveness, NodeId};
use crate::protocol::subject::Subject;
use crate::store::disk::Disk;
use crate::store::identity::Identity;
use crate::store::view::View;
use crate::wire::call::{Answer, Call, Extent, Method, Read};
use crate::wire::health::is_challenge;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The kind that is signed.
const KIND: &str = "ping-req";
/// Where it is posted.
pub const PATH: &str = "/q/ping-req";
/// Longest a helper tries, in milliseconds: its one thread has others to answer.
const HELP_MS_MAX: u64 = 1_000;

/// What a helper is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    pub(super) subject: &'a NodeId,
    pub(super) c: &'a str,
}

/// The signed payload. Member ids only: nobody is sent to an address of the asker's choice.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PingReq {
    origin: String,
    node: NodeId,
    nonce: String,
    ts: u64,
    mode: String,
    subject: NodeId,
    c: String,
}

/// A helper's answer.
#[derive(Debug, Serialize, Deserialize)]
pub struct Helped {
    /// The subject's whole answer, where one came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Why none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Members that may help: alive, dialled, and not failing themselves.
pub(super) fn helpers(
    whom: &Whom<'_>,
    silent: &BTreeSet<&NodeId>,
    contacts: &BTreeMap<Subject, Contact>,
) -> Vec<NodeId> {
    let good = |id: &NodeId| {
        contacts.get(&Subject::node(id)).is_none_or(|contact| contact.sign() == Sign::Good)
    };
    let members = whom.fold.membership.members();
    members
        .filter(|(id, member)| {
            let alive = member.enrolled && member.standing.liveness == Liveness::Alive;
            alive
                && !member.outbound
                && !member.urls.is_empty()
                && !silent.contains(id)
                && good(id)
                && **id != whom.identity.id
        })
        .map(|(id, _)| id.clone())
        .collect()
}

/// Some of the helpers, by chance.
pub(super) fn choose(
    disk: &Disk<'_>,
    helpers: &[NodeId],
    (subject, count): (&NodeId, u64),
) -> Vec<NodeId> {
    let mut left: Vec<&NodeId> = helpers.iter().filter(|id| *id != subject).collect();
    let mut chosen = Vec::new();
    while (chosen.len() as u64) < count && !left.is_empty() {
        let at = usize::try_from(below(disk.host, left.len() as u64)).unwrap_or(0);
        chosen.push(left.swap_remove(at.min(left.len() - 1)).clone());
    }
    chosen
}

/// A number below `bound` from the kernel's generator; 0 where that fails.
pub(super) fn below(host: &dyn Host, bound: u64) -> u64 {
    let mut bytes = [0; 8];
    match host.chance(&mut bytes) {
        Ok(()) => u64::from_le_bytes(bytes) % bound.max(1),
        Err(_) => 0,
    }
}

/// The call that asks `helper`.
pub(super) fn call(
    disk: &Disk<'_>,
    config: &Config,
    (whom, signer): (&Whom<'_>, &Signer),
    (helper, request): (&NodeId, &Request<'_>),
) -> Result<Option<Call>, Failure> {
    let url = whom.fold.membership.member(helper).and_then(|member| member.urls.first());
    let targets = targets(config, &anchor_urls(whom.identity, whom.fold));
    let Some(plain) = url.and_then(|url| peers::health_call(config, url, targets)) else {
        return Ok(None);
    };
    let claims = Claims::now(disk)?;
    let payload = PingReq {
        origin: whom.identity.origin.clone(),
        node: whom.identity.id.clone(),
        nonce: claims.nonce.clone(),
        ts: claims.ts,
        mode: signer.mode().to_owned(),
        subject: request.subject.clone(),
        c: request.c.to_owned(),
    };
    let payload = serde_json::to_value(&payload).unwrap_or_default().to_string();
    let body = signer.seal(whom.identity, claims, (KIND, payload)).render().into_bytes();
    let headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
    Ok(Some(Call { method: Method::Post, path: PATH.to_owned(), headers, body, ..plain }))
}

/// What a helper's answer says.
pub(super) fn read(agent: &Agent<'_>, helper: NodeId, answer: &Answer) -> Help {
    let silent = Help { helper: helper.clone(), said: Said::Silent, reason: None };
    let Ok(reply) = answer else { return silent };
    let helped = (reply.status == 200 && reply.extent == Extent::Whole)
        .then(|| serde_json::from_slice::<Helped>(&reply.body).ok())
        .flatten();
    let Some(helped) = helped else {
        let reason = Some(format!("answered {}", reply.status));
        return Help { reason, ..silent };
    };
    match helped.answer {
        Some(answer) if agent.own(answer.as_bytes()).is_some() => {
            Help { said: Said::Reached, ..silent }
        }
        Some(_) => {
            let reason = Some("an answer that is not the member's own".to_owned());
            Help { said: Said::CouldNot, reason, ..silent }
        }
        None => Help { said: Said::CouldNot, reason: helped.reason, ..silent },
    }
}

/// The helper's side: tries the subject once, for a member that asks with its signature.
pub fn help(host: &dyn Host, config: &Config, body: &[u8]) -> Result<Helped, Refusal> {
    let envelope = envelope::parse(body).map_err(Refusal::Malformed)?;
    let asker =
        NodeId::parse(&envelope.node).map_err(|error| Refusal::Malformed(error.to_string()))?;
    let disk = Disk { host, layout: &config.layout };
    let unavailable = |failure: Failure| Refusal::Unavailable(failure.message);
    let identity = Identity::require(&disk).map_err(unavailable)?;
    envelope.expect_for(&identity.origin).map_err(Refusal::Malformed)?;
    let view = View::open(disk).map_err(unavailable)?;
    let now_s = host.clock().wall_ms / 1_000;
    authenticate((&disk, &view.fold), (KIND, &envelope, &asker), now_s)?;
    envelope.agrees(&identity.origin).map_err(Refusal::Malformed)?;
    check_ts(envelope.ts, now_s)?;
    let asked: PingReq = serde_json::from_str(&envelope.payload)
        .map_err(|error| Refusal::Malformed(format!("the payload is no {KIND}: {error}")))?;
    if !is_challenge(&asked.c) {
        return Err(Refusal::Malformed("c, expected 32 lower-case hex digits".to_owned()));
    }
    if asked.subject == identity.id {
        return Err(Refusal::Malformed("whoever asks for us has reached us".to_owned()));
    }
    let member = view.fold.membership.member(&asked.subject);
    let url = member.filter(|member| member.enrolled).and_then(|member| member.urls.first());
    let targets = targets(config, &anchor_urls(&identity, &view.fold));
    let Some(plain) = url.and_then(|url| peers::health_call(config, url, targets)) else {
        return Ok(Helped { answer: None, reason: Some("no such member here".to_owned()) });
    };
    let most = HELP_MS_MAX.min(config.profile.timeout_ms / 2);
    let call = Call {
        path: format!("/q/health?c={}", asked.c),
        timeout: Duration::from_millis(most),
        read: Read::Body { max: crate::wire::call::BODY_MAX / 4 },
        ..plain
    };
    let until = host.clock().boot_ms + most;
    Ok(match host.dial(&[call], until).into_iter().next() {
        Some(Ok(reply)) if reply.extent == Extent::Whole => {
            let answer = String::from_utf8_lossy(&reply.body).into_owned();
            Helped { answer: Some(answer), reason: None }
        }
        Some(Ok(_)) => Helped { answer: None, reason: Some("answer cut short".to_owned()) },
        Some(Err(fault)) => Helped { answer: None, reason: Some(fault.word().to_owned()) },
        None => Helped { answer: None, reason: Some("unasked".to_owned()) },
    })
}
