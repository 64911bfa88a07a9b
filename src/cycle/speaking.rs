//! A member's side: joining, and every later word about itself, signed with its own key.

use super::admission::{self, Accepted};
use super::founding::{hex_chance, make_key};
use super::rounds::{PATIENCE, take_lock};
use crate::auth::envelope::Envelope;
use crate::auth::gate::Refusal;
use crate::auth::invite::Invite;
use crate::auth::{keys, mac, pae};
use crate::config::Config;
use crate::error::{Failure, Kind};
use crate::host::{Host, Keep, Lock, Readers};
use crate::journal::checkpoint::open_checkpoint;
use crate::journal::record::{Drain, Leave, Record, Register, Rotate};
use crate::protocol::member::{Incarnation, NodeId};
use crate::protocol::registration::parse_url;
use crate::protocol::service::Service;
use crate::store::disk::Disk;
use crate::store::identity::{Identity, load_key};
use crate::store::shared_keys::unhex;
use crate::wire::call::{Call, Extent, Method, Read, Targets};
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use zeroize::Zeroizing;

/// The time one request to the anchor may take, in milliseconds.
const ASK_MS: u64 = 10_000;
/// Largest answer read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// What a member says of itself when it registers.
#[derive(Clone, Debug, Default)]
pub struct Offer {
    /// Where its agent answers; empty keeps what the journal says.
    pub urls: Vec<String>,
    /// What it offers; empty keeps what the journal says.
    pub services: Vec<Service>,
}

/// What a member has to say.
#[derive(Clone, Debug)]
pub enum Word {
    /// Here I am, with this.
    Register(Offer),
    /// Goodbye.
    Leave,
    /// No new traffic, please; or again.
    Drain {
        /// From now on.
        on: bool,
        /// For how many seconds; `None` until taken back.
        for_s: Option<u64>,
    },
    /// Another key speaks for me.
    RotateKey,
}

/// Signs and delivers one word.
pub fn say(host: &dyn Host, config: &Config, word: &Word) -> Result<Accepted, Failure> {
    let disk = Disk { host, layout: &config.layout };
    Identity::require(&disk)?;
    let _one_word = one_at_a_time(&disk)?;
    // Read under the lock: another word may have raised the incarnation meanwhile.
    let mut identity = Identity::require(&disk)?;
    let signer = Signer::load(&disk, &identity)?;
    let claims = Claims { nonce: hex_chance(&disk)?, ts: host.clock().wall_ms / 1_000 };
    let record = match word {
        Word::Register(offer) => register(&disk, &mut identity, offer, (&claims, signer.mode()))?,
        Word::Leave => Record::Leave(Leave {
            origin: identity.origin.clone(),
            node: identity.id.clone(),
            nonce: claims.nonce.clone(),
            ts: claims.ts,
            mode: signer.mode().to_owned(),
            incarnation: identity.incarnation,
        }),
        Word::Drain { on, for_s } => Record::Drain(Drain {
            origin: identity.origin.clone(),
            node: identity.id.clone(),
            nonce: claims.nonce.clone(),
            ts: claims.ts,
            mode: signer.mode().to_owned(),
            on: *on,
            until: for_s.map(|seconds| claims.ts + seconds),
        }),
        Word::RotateKey => rotate(&disk, &identity, (&claims, signer.mode()))?,
    };
    let kind = record.kind();
    let payload = record.payload();
    let envelope = Envelope {
        mode: signer.mode().to_owned(),
        node: identity.id.to_string(),
        nonce: claims.nonce,
        ts: claims.ts,
        sig: Some(signer.sign(&pae::encode(kind, &payload))),
        payload,
        proof: None,
    };
    let accepted = deliver(host, config, &identity, (kind, &envelope))?;
    if matches!(word, Word::RotateKey) {
        adopt_next_key(&disk)?;
    }
    Ok(accepted)
}

/// Burns an invitation, keeps who we are, and registers.
pub fn join(
    host: &dyn Host,
    config: &Config,
    invite: &Invite,
    offer: &Offer,
) -> Result<Accepted, Failure> {
    let disk = Disk { host, layout: &config.layout };
    let id = NodeId::parse(&invite.node)
        .map_err(|error| Failure::config(format!("the invitation: {error}")))?;
    if let Some(identity) = Identity::load(&disk)?
        && (identity.origin != invite.vkey.name() || identity.id != id)
    {
        return Err(Failure::failed(format!(
            "{} belongs to '{}' already",
            disk.layout.dir().display(),
            identity.origin
        ))
        .hint("use another --dir"));
    }
    disk.folder(disk.layout.dir(), false)?;
    for private in [disk.layout.keys(), disk.layout.state(), disk.layout.state().join("tmp")] {
        disk.folder(&private, true)?;
    }
    let identity = Identity {
        origin: invite.vkey.name().to_owned(),
        vkey: invite.vkey.to_string(),
        anchors: vec![invite.url.clone()],
        incarnation: Incarnation::FIRST,
        urls: Vec::new(),
        services: Vec::new(),
        id,
    };
    {
        let _one_word = one_at_a_time(&disk)?;
        let standing = enrol(&disk, invite, &identity)?;
        let mut identity = Identity::load(&disk)?.unwrap_or(identity);
        identity.incarnation = identity.incarnation.max(standing);
        identity.store(&disk)?;
    }
    let accepted = say(host, config, &Word::Register(offer.clone()))?;
    disk.remove(&disk.layout.key("enrolment-nonce"))?;
    Ok(accepted)
}

fn one_at_a_time(disk: &Disk<'_>) -> Result<Lock, Failure> {
    take_lock(disk.host, &disk.layout.keys(), PATIENCE)?
        .ok_or_else(|| Failure::new(Kind::Busy, "another process of this member is at work"))
}

/// The nonce is kept until all is done: an interrupted enrolment is the same request again. Returns
/// the incarnation that the anchor holds of this node, perhaps from a machine that was lost.
fn enrol(disk: &Disk<'_>, invite: &Invite, identity: &Identity) -> Result<Incarnation, Failure> {
    make_key(disk, "node")?;
    let nonce = kept_nonce(disk)?;
    let ts = disk.host.clock().wall_ms / 1_000;
    let mut payload = json!({
        "origin": identity.origin, "node": identity.id, "nonce": nonce, "ts": ts, "mode": invite.alg,
    });
    let node_key = load_key(disk, "node")?;
    if invite.alg == keys::ED25519 {
        payload["key"] = keys::render_public(&node_key.verifying_key()).into();
    }
    let payload = payload.to_string();
    let signed = pae::encode("enroll", &payload);
    let bootstrap = mac::bootstrap_key(&invite.secret, &identity.origin, identity.id.as_str());
    let proof = (invite.alg == keys::ED25519).then(|| keys::sign(&node_key, &signed));
    let envelope = Envelope {
        mode: invite.alg.clone(),
        node: identity.id.to_string(),
        nonce: nonce.clone(),
        ts,
        payload,
        sig: Some(keys::encode_sig(&*mac::mac(&*bootstrap, &[&signed]))),
        proof,
    };
    let answer = post(disk.host, (&identity.anchors, "enroll", &envelope))?;
    let accepted = accepted(answer, identity)?;
    if invite.alg == mac::HMAC_SHA256 {
        let shared = mac::node_key(&bootstrap, &nonce);
        let hex: Zeroizing<String> =
            Zeroizing::new(shared.iter().map(|byte| format!("{byte:02x}")).collect());
        let text = Zeroizing::new(format!("{}\n", *hex));
        disk.put(&disk.layout.key("shared"), text.as_bytes(), (Keep::Durable, Readers::Owner))?;
    }
    Ok(accepted.incarnation.unwrap_or_default())
}

fn kept_nonce(disk: &Disk<'_>) -> Result<String, Failure> {
    let path = disk.layout.key("enrolment-nonce");
    if let Some(text) = disk.read_text(&path)? {
        return Ok(text.trim().to_owned());
    }
    let nonce = hex_chance(disk)?;
    disk.put(&path, format!("{nonce}\n").as_bytes(), (Keep::Durable, Readers::Owner))?;
    Ok(nonce)
}

struct Claims {
    nonce: String,
    ts: u64,
}

/// What a member signs with.
enum Signer {
    Ed25519(SigningKey),
    Shared(mac::Secret),
}

impl Signer {
    fn load(disk: &Disk<'_>, identity: &Identity) -> Result<Signer, Failure> {
        let path = disk.layout.key("shared");
        let Some(text) = disk.read_text(&path)?.map(Zeroizing::new) else {
            return load_key(disk, "node").map(Signer::Ed25519);
        };
        let key = unhex(text.trim_end()).ok_or_else(|| {
            Failure::config(format!("{} is no key of {}", path.display(), identity.id))
        })?;
        Ok(Signer::Shared(key))
    }

    fn mode(&self) -> &'static str {
        match self {
            Signer::Ed25519(_) => keys::ED25519,
            Signer::Shared(_) => mac::HMAC_SHA256,
        }
    }

    fn sign(&self, message: &[u8]) -> String {
        match self {
            Signer::Ed25519(key) => keys::sign(key, message),
            Signer::Shared(key) => keys::encode_sig(&*mac::mac(&**key, &[message])),
        }
    }
}

/// The incarnation is synced before it is announced (design section 4): after a crash between the
/// two it is higher than anybody was told, never lower.
fn register(
    disk: &Disk<'_>,
    identity: &mut Identity,
    offer: &Offer,
    (claims, mode): (&Claims, &str),
) -> Result<Record, Failure> {
    if !offer.urls.is_empty() {
        identity.urls.clone_from(&offer.urls);
    }
    if !offer.services.is_empty() {
        identity.services.clone_from(&offer.services);
    }
    identity.incarnation = identity.incarnation.raised();
    identity.store(disk)?;
    Ok(Record::Register(Register {
        origin: identity.origin.clone(),
        node: identity.id.clone(),
        nonce: claims.nonce.clone(),
        ts: claims.ts,
        mode: mode.to_owned(),
        incarnation: identity.incarnation,
        urls: identity.urls.clone(),
        services: identity.services.clone(),
        reach: "inbound".to_owned(),
        tags: BTreeMap::new(),
    }))
}

/// The next key stands on disk before it is announced, so that no crash loses it.
fn rotate(
    disk: &Disk<'_>,
    identity: &Identity,
    (claims, mode): (&Claims, &str),
) -> Result<Record, Failure> {
    make_key(disk, "node-next")?;
    let next = load_key(disk, "node-next")?;
    let key = keys::render_public(&next.verifying_key());
    let possession = Rotate::possession(&identity.origin, &identity.id, &claims.nonce, &key);
    Ok(Record::Rotate(Rotate {
        origin: identity.origin.clone(),
        node: identity.id.clone(),
        nonce: claims.nonce.clone(),
        ts: claims.ts,
        mode: mode.to_owned(),
        alg: keys::ED25519.to_owned(),
        proof: keys::sign(&next, &possession),
        key,
    }))
}

fn adopt_next_key(disk: &Disk<'_>) -> Result<(), Failure> {
    let next = disk.read(&disk.layout.key("node-next"))?.map(Zeroizing::new).unwrap_or_default();
    disk.put(&disk.layout.key("node"), &next, (Keep::Durable, Readers::Owner))?;
    disk.remove(&disk.layout.key("shared"))?;
    disk.remove(&disk.layout.key("node-next"))
}

/// The anchor speaks to itself without a socket, everybody else over HTTP.
fn deliver(
    host: &dyn Host,
    config: &Config,
    identity: &Identity,
    (kind, envelope): (&str, &Envelope),
) -> Result<Accepted, Failure> {
    if identity.is_anchor() {
        return admission::submit(host, config, kind, envelope.render().as_bytes())
            .map_err(refused);
    }
    accepted(post(host, (&identity.anchors, kind, envelope))?, identity)
}

/// The anchor's answer, believed only under the log's signature: somebody else's "done" must not
/// make us throw a key away.
fn accepted(answer: Value, identity: &Identity) -> Result<Accepted, Failure> {
    let accepted: Accepted = serde_json::from_value(answer)
        .map_err(|error| Failure::failed(format!("the anchor's answer does not read: {error}")))?;
    let (checkpoint, _) = open_checkpoint(&accepted.checkpoint, &identity.verifier()?)
        .map_err(|error| Failure::integrity(format!("the answer is not by our anchor: {error}")))?;
    if accepted.seq >= checkpoint.size {
        return Err(Failure::integrity(format!(
            "the answer names line {}, its checkpoint has {} lines",
            accepted.seq, checkpoint.size
        )));
    }
    Ok(accepted)
}

fn refused(refusal: Refusal) -> Failure {
    Failure::failed(format!("refused: {refusal}"))
}

/// Posts to the anchor's URLs in turn until one answers.
fn post(
    host: &dyn Host,
    (anchors, kind, envelope): (&[String], &str, &Envelope),
) -> Result<Value, Failure> {
    let mut trouble = Vec::new();
    for url in anchors {
        let address = parse_url(url).map_err(Failure::config)?;
        let call = Call {
            method: Method::Post,
            host_header: address.authority(),
            address,
            path: format!("/{kind}"),
            headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
            body: envelope.render().into_bytes(),
            timeout: Duration::from_millis(ASK_MS),
            read: Read::Body { max: ANSWER_BYTES_MAX },
            targets: Targets::Any,
        };
        let until = host.clock().boot_ms + ASK_MS;
        match host.dial(&[call], until).into_iter().next() {
            Some(Ok(reply)) if reply.extent == Extent::Whole => {
                return answered(url, reply.status, &reply.body);
            }
            Some(Ok(_)) => trouble.push(format!("{url}: the answer was cut short")),
            Some(Err(fault)) => trouble.push(format!("{url}: {fault}")),
            None => trouble.push(format!("{url}: not asked")),
        }
    }
    Err(Failure::failed(format!("no anchor answered: {}", trouble.join("; "))))
}

fn answered(url: &str, status: u16, body: &[u8]) -> Result<Value, Failure> {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    if status == 200 {
        return Ok(value);
    }
    let told = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let message = told("message").unwrap_or_else(|| "no reason given".to_owned());
    let failure = Failure::failed(format!("{url} refused with {status}: {message}"));
    Err(match told("hint") {
        Some(hint) => failure.hint(hint),
        None => failure,
    })
}
