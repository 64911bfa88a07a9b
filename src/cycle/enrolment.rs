//! How a key comes into the federation: an invitation by the operator, burned once by the node.

use super::admission::{Accepted, Desk, unavailable};
use super::founding::{make_key, signed};
use super::rounds::{PATIENCE, take_lock};
use crate::auth::envelope::{self, Envelope};
use crate::auth::gate::{Refusal, check_ts};
use crate::auth::invite::{Invite, OPEN_MAX, secret_sha256};
use crate::auth::vkey::VerifierKey;
use crate::auth::{keys, mac, pae};
use crate::config::Config;
use crate::error::{Failure, Kind};
use crate::host::Host;
use crate::journal::keyring::Keys;
use crate::journal::record::{Anchor, Enroll, Grant, Record, Revoke};
use crate::journal::replay::Fold;
use crate::protocol::member::NodeId;
use crate::protocol::service::ServiceName;
use crate::store::disk::Disk;
use crate::store::draft::Draft;
use crate::store::identity::{Identity, load_key};
use crate::store::invites::{self, Open};
use crate::store::log_keys;
use crate::store::shared_keys;
use crate::store::view::View;
use serde::Deserialize;
use zeroize::Zeroizing;

/// What the operator wants to hand out.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// For which node.
    pub node: NodeId,
    /// Names bound to it.
    pub services: Vec<ServiceName>,
    /// How long it may be used, in seconds.
    pub ttl_s: u64,
    /// `ed25519` or `hmac-sha256`.
    pub alg: String,
    /// Whether it ends the node's lost key.
    pub replace: bool,
}

/// Makes an invitation and stores what is needed to recognise it.
pub fn invite(host: &dyn Host, config: &Config, wanted: Wanted) -> Result<Invite, Failure> {
    let disk = Disk { host, layout: &config.layout };
    let identity = require_anchor(&disk)?;
    let view = View::open(disk)?;
    let url = own_url(&view, &identity)?;
    if wanted.node == identity.id {
        return Err(Failure::failed("the anchor's own key is not replaced by an invitation")
            .hint("crowny-fed rotate-key changes it while it is not lost"));
    }
    let held = view.fold.keys.of(&wanted.node).is_some_and(|keys| !keys.revoked);
    if held && !wanted.replace {
        return Err(Failure::failed(format!("'{}' is enrolled already", wanted.node))
            .hint("--replace invites it again and ends its lost key"));
    }
    let _one_at_a_time = take_lock(host, &config.layout.state(), PATIENCE)?
        .ok_or_else(|| Failure::new(Kind::Busy, "another process works on the journal"))?;
    let now_s = host.clock().wall_ms / 1_000;
    let mut open = invites::load(&disk, now_s)?;
    // One that was burned stays until its time is over, so that its enrolment can be asked again.
    open.retain(|held| {
        held.node != wanted.node || view.fold.keys.burned(&held.secret_sha256).is_some()
    });
    if open.len() >= OPEN_MAX {
        return Err(Failure::failed(format!(
            "{OPEN_MAX} invitations are open, which is the limit"
        )));
    }
    let mut secret = Zeroizing::new([0_u8; 32]);
    host.chance(&mut *secret)
        .map_err(|error| Failure::failed(format!("no randomness: {error}")))?;
    let expiry = now_s + wanted.ttl_s;
    let bootstrap = mac::bootstrap_key(&secret, &identity.origin, wanted.node.as_str());
    open.push(Open {
        node: wanted.node.clone(),
        alg: wanted.alg.clone(),
        expiry,
        services: wanted.services,
        replace: wanted.replace,
        secret_sha256: secret_sha256(&secret),
        bootstrap: bootstrap.iter().map(|byte| format!("{byte:02x}")).collect(),
    });
    invites::store(&disk, &open)?;
    let vkey = identity.verifier()?;
    Ok(Invite { url, vkey, node: wanted.node.to_string(), alg: wanted.alg, expiry, secret })
}

/// What a node signs to be let in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    #[serde(rename = "origin")]
    _origin: String,
    #[serde(rename = "node")]
    _node: NodeId,
    nonce: String,
    #[serde(rename = "ts")]
    _ts: u64,
    mode: String,
    #[serde(default)]
    key: Option<String>,
}

/// `POST /enroll`: the invitation's key over the payload, and for Ed25519 a proof of possession.
pub fn enroll(host: &dyn Host, config: &Config, body: &[u8]) -> Result<Accepted, Refusal> {
    let envelope = envelope::parse(body).map_err(Refusal::Malformed)?;
    let node =
        NodeId::parse(&envelope.node).map_err(|error| Refusal::Malformed(error.to_string()))?;
    let disk = Disk { host, layout: &config.layout };
    let now_s = host.clock().wall_ms / 1_000;
    let open = invites::load(&disk, now_s).map_err(unavailable)?;
    let invite = open
        .into_iter()
        .find(|invite| invite.node == node && opens(invite, &envelope))
        .ok_or(Refusal::Signature)?;
    let request: Request = serde_json::from_str(&envelope.payload)
        .map_err(|error| Refusal::Malformed(format!("the payload is no enrolment: {error}")))?;
    if request.mode != invite.alg {
        return Err(Refusal::Malformed(format!(
            "mode '{}', the invitation is for {}",
            request.mode.escape_debug(),
            invite.alg
        )));
    }
    let desk = Desk::for_request(disk, config)?;
    envelope.agrees(&desk.identity.origin).map_err(Refusal::Malformed)?;
    let offered = offered_key(&request, &invite, &envelope, &node)?;
    check_ts(envelope.ts, desk.times.gate_s)?;
    if let Some(burned) = desk.ledger.fold().keys.burned(&invite.secret_sha256) {
        if burned.nonce == request.nonce && burned.kid == offered.kid {
            let seq = burned.seq;
            return desk.told(seq).map_err(unavailable);
        }
        return Err(Refusal::Replay(format!(
            "the invitation was used: it made line {}",
            burned.seq
        )));
    }
    burn(desk, (&node, &invite), offered, request.nonce)
}

fn opens(invite: &Open, envelope: &Envelope) -> bool {
    let Some(bootstrap) = shared_keys::unhex(&invite.bootstrap) else {
        return false;
    };
    let signed = pae::encode("enroll", &envelope.payload);
    let tag = envelope.sig.as_deref().and_then(keys::decode_sig);
    tag.is_some_and(|tag| mac::verify(&*bootstrap, &signed, &tag))
}

/// The key a node brings: a public one, or the shared one both sides derive.
struct Offered {
    kid: String,
    public: Option<String>,
    shared: Option<mac::Secret>,
}

fn offered_key(
    request: &Request,
    invite: &Open,
    envelope: &Envelope,
    node: &NodeId,
) -> Result<Offered, Refusal> {
    if invite.alg == mac::HMAC_SHA256 {
        let bootstrap = shared_keys::unhex(&invite.bootstrap).ok_or(Refusal::Signature)?;
        let shared = mac::node_key(&bootstrap, &request.nonce);
        let kid = keys::shared_kid(node.as_str(), &shared);
        return Ok(Offered { kid, public: None, shared: Some(shared) });
    }
    let text = request
        .key
        .as_ref()
        .ok_or_else(|| Refusal::Malformed("the payload names no key".to_owned()))?;
    let key = keys::parse_public(text).map_err(Refusal::Malformed)?;
    let signed = pae::encode("enroll", &envelope.payload);
    let possessed = envelope.proof.as_ref().is_some_and(|proof| keys::verify(&key, &signed, proof));
    if !possessed {
        return Err(Refusal::Signature);
    }
    Ok(Offered { kid: keys::kid(node.as_str(), &key), public: Some(text.clone()), shared: None })
}

fn burn(
    desk: Desk<'_>,
    (node, invite): (&NodeId, &Open),
    offered: Offered,
    nonce: String,
) -> Result<Accepted, Refusal> {
    let ring = &desk.ledger.fold().keys;
    // Whoever stole a key must not be let in again with it.
    let ended = |keys: &Keys| {
        let before = keys.burned.iter().any(|burned| burned.kid == offered.kid);
        before || keys.current.kid == offered.kid
    };
    if ring.of(node).is_some_and(ended) {
        return Err(Refusal::Conflict(format!(
            "the key {} spoke for '{node}' before: remove keys/node.key on that machine, and join with a new one",
            offered.kid
        )));
    }
    let held = ring.of(node).filter(|keys| !keys.revoked).map(|keys| keys.current.kid.clone());
    let mut drafts = Vec::new();
    if let Some(kid) = held {
        if !invite.replace {
            return Err(Refusal::Conflict(format!("name held: '{node}' has a key already")));
        }
        drafts.push(Draft::from(Record::Revoke(Revoke { node: node.clone(), kid })));
    }
    if let Some(shared) = &offered.shared {
        shared_keys::add(&desk.disk, (node, &offered.kid), shared).map_err(unavailable)?;
    }
    drafts.push(Draft::from(Record::Enroll(Enroll {
        node: node.clone(),
        alg: invite.alg.clone(),
        kid: offered.kid,
        key: offered.public,
        invite: Some(invite.secret_sha256.clone()),
        nonce: Some(nonce),
        services: invite.services.clone(),
    })));
    let last = drafts.len() as u64 - 1;
    desk.commit(drafts, last).map_err(unavailable)
}

/// `grant`: binds a service name to a node, or takes that back. `None` where nothing changed.
pub fn grant(
    host: &dyn Host,
    config: &Config,
    (service, node, on): (ServiceName, NodeId, bool),
) -> Result<Option<u64>, Failure> {
    operate(host, config, |fold| {
        let held = fold.grants.get(&service).is_some_and(|nodes| nodes.contains(&node));
        if held == on {
            return Ok(None);
        }
        Ok(Some(Record::Grant(Grant { service: service.clone(), node: node.clone(), on })))
    })
}

/// `revoke`: nobody speaks for the node from this line on. `None` where nobody did already.
pub fn revoke(host: &dyn Host, config: &Config, node: &NodeId) -> Result<Option<u64>, Failure> {
    let seq = revoke_key(host, config, node)?;
    let disk = Disk { host, layout: &config.layout };
    let mut open = invites::load(&disk, host.clock().wall_ms / 1_000)?;
    let keys = View::open(disk)?.fold.keys;
    open.retain(|held| held.node != *node || keys.burned(&held.secret_sha256).is_some());
    invites::store(&disk, &open)?;
    Ok(seq)
}

fn revoke_key(host: &dyn Host, config: &Config, node: &NodeId) -> Result<Option<u64>, Failure> {
    operate(host, config, |fold| {
        let keys = fold
            .keys
            .of(node)
            .ok_or_else(|| Failure::new(Kind::No, format!("no key of '{node}' is enrolled")))?;
        if fold.anchor() == Some(node) {
            return Err(Failure::failed("the anchor's own key is not revoked: hand over first"));
        }
        let record = Record::Revoke(Revoke { node: node.clone(), kid: keys.current.kid.clone() });
        Ok((!keys.revoked).then_some(record))
    })
}

/// `rotate-key --log`: another key signs checkpoints from the next one on, and for a week both do.
/// The new seed stands on disk before the line that names it.
pub fn rotate_log_key(host: &dyn Host, config: &Config) -> Result<u64, Failure> {
    let disk = Disk { host, layout: &config.layout };
    require_anchor(&disk)?;
    let _one_change = take_lock(host, &config.layout.keys(), PATIENCE)?
        .ok_or_else(|| Failure::new(Kind::Busy, "another process of this member is at work"))?;
    let desk = Desk::open(disk, config, PATIENCE)?;
    let origin = desk.identity.origin.clone();
    let log = desk.ledger.fold().log.clone();
    let epoch = log.as_ref().map_or(0, |log| log.epoch) + 1;
    let until_s = log.and_then(|log| log.before).map_or(0, |(_, until_s)| until_s);
    let now_s = desk.times.line_s;
    if now_s < until_s {
        return Err(Failure::failed(format!(
            "the log key before still signs along for {} s: members that know only that one would be lost",
            until_s - now_s
        )));
    }
    let old = load_key(&disk, &log_keys::name(epoch - 1))?;
    make_key(&disk, &log_keys::name(epoch))?;
    let new = load_key(&disk, &log_keys::name(epoch))?;
    let vkey = VerifierKey::of(&origin, &new)
        .map_err(|error| Failure::config(error.to_string()))?
        .to_string();
    let floor = desk.ledger.floor();
    let record = Record::Anchor(Anchor {
        proof: keys::sign(&new, &Anchor::possession(&origin, epoch, &vkey)),
        size: floor.size,
        root: floor.root,
        origin: origin.clone(),
        epoch,
        vkey,
        anchor: None,
        urls: Vec::new(),
    });
    desk.commit(vec![signed(record, &origin, &old)], 0).map(|accepted| accepted.seq)
}

/// One line of the operator's own, written by the anchor.
fn operate(
    host: &dyn Host,
    config: &Config,
    decide: impl Fn(&Fold) -> Result<Option<Record>, Failure>,
) -> Result<Option<u64>, Failure> {
    let disk = Disk { host, layout: &config.layout };
    require_anchor(&disk)?;
    let desk = Desk::open(disk, config, PATIENCE)?;
    let Some(record) = decide(desk.ledger.fold())? else {
        return Ok(None);
    };
    desk.commit(vec![Draft::from(record)], 0).map(|accepted| Some(accepted.seq))
}

/// Who we are, if we serialise and sign.
pub fn require_anchor(disk: &Disk<'_>) -> Result<Identity, Failure> {
    let identity = Identity::require(disk)?;
    if identity.is_anchor() {
        return Ok(identity);
    }
    Err(Failure::config("this node is not the anchor".to_owned())
        .hint(format!("run this where {} is served", identity.anchors[0])))
}

fn own_url(view: &View<'_>, identity: &Identity) -> Result<String, Failure> {
    let member = view.fold.membership.member(&identity.id);
    member.and_then(|member| member.urls.first().cloned()).ok_or_else(|| {
        Failure::failed("this anchor has no URL, so nobody could answer an invitation")
            .hint("crowny-fed register --url http://HOST:9160")
    })
}
