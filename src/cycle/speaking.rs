//! A member's word about itself, signed with its own key.

use super::admission::{self, Accepted};
use super::branching;
use super::delivering::{self, Letter, Undelivered, accepted, post};
use super::founding::{hex_chance, make_key};
use super::rounds::{PATIENCE, take_lock};
use super::sync;
use crate::auth::envelope::Envelope;
use crate::auth::gate::Refusal;
use crate::auth::{keys, mac, pae};
use crate::config::Config;
use crate::error::{Failure, Kind};
use crate::host::{Host, Keep, Lock, Readers};
use crate::journal::keyring::KeyRecord;
use crate::journal::record::{Drain, Leave, Record, Register, Rotate};
use crate::journal::statement::{INBOUND, OUTBOUND};
use crate::protocol::service::Service;
use crate::store::branch::Branch;
use crate::store::disk::Disk;
use crate::store::identity::{Identity, load_key};
use crate::store::shared_keys::unhex;
use crate::store::view::View;
use ed25519_dalek::SigningKey;
use std::collections::BTreeMap;
use zeroize::Zeroizing;

/// What a member says of itself when it registers.
#[derive(Clone, Debug, Default)]
pub struct Offer {
    /// Where its agent answers; empty keeps what the journal says.
    pub urls: Vec<String>,
    /// What it offers; empty keeps what the journal says.
    pub services: Vec<Service>,
    /// Whether nobody can dial it; `None` keeps what the journal says.
    pub outbound: Option<bool>,
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

/// What became of a word.
#[derive(Clone, Debug)]
pub enum Said {
    /// It is in the journal.
    Accepted(Accepted),
    /// No anchor answered, or it takes no words now: it waits in the branch.
    Kept {
        /// Lines in `branch.ndjson` now; it is the last.
        line: usize,
        /// What came of asking.
        why: String,
    },
}

/// Signs and delivers one word. With no anchor that takes it, it is kept in the branch, but for a change of
/// keys: in which order two keys held, only the anchor can say.
pub fn say(host: &dyn Host, config: &Config, word: &Word) -> Result<Said, Failure> {
    let disk = Disk { host, layout: &config.layout };
    Identity::require(&disk)?;
    let _one_word = one_at_a_time(&disk)?;
    // Read under the lock: another word may have raised the incarnation meanwhile.
    let mut identity = Identity::require(&disk)?;
    adopt_named_key(&disk, &identity)?;
    let before = identity.clone();
    let signer = Signer::load(&disk, &identity)?;
    let claims = Claims::now(&disk)?;
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
        Word::Drain { on, for_s } => {
            drain(&disk, &mut identity, (*on, *for_s), (&claims, signer.mode()))?
        }
        Word::RotateKey => rotate(&disk, &identity, (&claims, signer.mode()))?,
    };
    let kind = record.kind();
    let envelope = signer.seal(&identity, claims, (kind, record.payload()));
    // What may not be said must not be said again with every later word; the number is used up.
    let unsaid = || Identity { incarnation: identity.incarnation, ..before.clone() }.store(&disk);
    let accepted = match deliver(host, config, &identity, (kind, &envelope)) {
        Ok(accepted) => accepted,
        // An anchor that takes no words now, such as one that has just taken over, is as good as away.
        Err(
            undelivered @ (Undelivered::Away(_) | Undelivered::Refused(delivering::NOT_NOW, _)),
        ) if branching::may_wait(kind) => {
            let why = Failure::from(undelivered).message;
            let kept = branching::keep(&disk, config, (kind, &envelope));
            let line = kept.map_err(|failure| unsaid().err().unwrap_or(failure));
            let told = |failure: Failure| Failure {
                message: format!("{why}; nor can it wait: {}", failure.message),
                ..failure
            };
            return Ok(Said::Kept { line: line.map_err(told)?, why });
        }
        Err(Undelivered::Refused(400 | 403, failure)) => {
            unsaid()?;
            return Err(failure);
        }
        Err(undelivered) => return Err(undelivered.into()),
    };
    if matches!(word, Word::RotateKey) {
        change_keys(&disk, config, &identity)?;
    }
    Ok(Said::Accepted(accepted))
}

pub(super) fn one_at_a_time(disk: &Disk<'_>) -> Result<Lock, Failure> {
    take_lock(disk.host, &disk.layout.keys(), PATIENCE)?
        .ok_or_else(|| Failure::new(Kind::Busy, "another process of this member is at work"))
}

/// What every statement says of itself.
pub(super) struct Claims {
    pub(super) nonce: String,
    pub(super) ts: u64,
}

impl Claims {
    pub(super) fn now(disk: &Disk<'_>) -> Result<Claims, Failure> {
        Ok(Claims { nonce: hex_chance(disk)?, ts: disk.host.clock().wall_ms / 1_000 })
    }
}

/// What a member signs with.
pub(super) enum Signer {
    Ed25519(SigningKey),
    Shared(mac::Secret),
}

impl Signer {
    pub(super) fn load(disk: &Disk<'_>, identity: &Identity) -> Result<Signer, Failure> {
        let path = disk.layout.key("shared");
        let Some(text) = disk.read_text(&path)?.map(Zeroizing::new) else {
            return load_key(disk, "node").map(Signer::Ed25519);
        };
        let key = unhex(text.trim_end()).ok_or_else(|| {
            Failure::config(format!("{} is no key of {}", path.display(), identity.id))
        })?;
        Ok(Signer::Shared(key))
    }

    /// A statement with its signature, ready to be sent.
    pub(super) fn seal(
        &self,
        identity: &Identity,
        claims: Claims,
        (kind, payload): (&str, String),
    ) -> Envelope {
        Envelope {
            mode: self.mode().to_owned(),
            node: identity.id.to_string(),
            nonce: claims.nonce,
            ts: claims.ts,
            sig: Some(self.sign(&pae::encode(kind, &payload))),
            payload,
            proof: None,
        }
    }

    pub(super) fn mode(&self) -> &'static str {
        match self {
            Signer::Ed25519(_) => keys::ED25519,
            Signer::Shared(_) => mac::HMAC_SHA256,
        }
    }

    /// Whether this is the key that the journal tells of.
    pub(super) fn is(&self, record: &KeyRecord) -> bool {
        let public = match self {
            Signer::Ed25519(key) => Some(keys::render_public(&key.verifying_key())),
            Signer::Shared(_) => None,
        };
        record.alg == self.mode() && record.key == public
    }

    pub(super) fn sign(&self, message: &[u8]) -> String {
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
    identity.outbound = offer.outbound.unwrap_or(identity.outbound);
    identity.incarnation = identity.incarnation.raised();
    identity.store(disk)?;
    Ok(registration(identity, (claims, mode)))
}

/// Raised like a registration: of two drains the later one must count, whichever is merged first.
fn drain(
    disk: &Disk<'_>,
    identity: &mut Identity,
    (on, for_s): (bool, Option<u64>),
    (claims, mode): (&Claims, &str),
) -> Result<Record, Failure> {
    identity.incarnation = identity.incarnation.raised();
    identity.store(disk)?;
    Ok(Record::Drain(Drain {
        origin: identity.origin.clone(),
        node: identity.id.clone(),
        nonce: claims.nonce.clone(),
        ts: claims.ts,
        mode: mode.to_owned(),
        incarnation: Some(identity.incarnation),
        on,
        until: for_s.map(|seconds| claims.ts + seconds),
    }))
}

/// What the member says of itself as `self.json` has it.
pub(super) fn registration(identity: &Identity, (claims, mode): (&Claims, &str)) -> Record {
    Record::Register(Register {
        origin: identity.origin.clone(),
        node: identity.id.clone(),
        nonce: claims.nonce.clone(),
        ts: claims.ts,
        mode: mode.to_owned(),
        incarnation: identity.incarnation,
        urls: identity.urls.clone(),
        services: identity.services.clone(),
        reach: if identity.outbound { OUTBOUND } else { INBOUND }.to_owned(),
        tags: BTreeMap::new(),
    })
}

/// The next key stands on disk before it is announced, so that no crash loses it.
fn rotate(
    disk: &Disk<'_>,
    identity: &Identity,
    (claims, mode): (&Claims, &str),
) -> Result<Record, Failure> {
    if Branch::load(disk)?.speaks_for(&identity.id) {
        return Err(Failure::failed("lines wait in branch.ndjson that the key in use has signed")
            .hint("run: crowny-fed merge, then change the key"));
    }
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

/// After the anchor's "done" the journal has to say so too: a lying answer must not make us throw
/// away the only key that is believed.
fn change_keys(disk: &Disk<'_>, config: &Config, identity: &Identity) -> Result<(), Failure> {
    if !identity.is_anchor() {
        let run = sync::Run { until_boot_ms: u64::MAX, turn: 0, from: &[], progress: &|_, _| {} };
        sync::run(*disk, config, &run)?;
    }
    if adopt_named_key(disk, identity)? {
        return Ok(());
    }
    Err(Failure::failed("the anchor says done, but its journal does not name the new key")
        .hint("the old key stays in use; the next tick or word takes the new one once the journal names it"))
}

/// Signs with the next key once the published journal says that it speaks for us: an answer that was
/// lost, or a run that was killed, locks nobody out. Returns whether it did.
pub(super) fn adopt_named_key(disk: &Disk<'_>, identity: &Identity) -> Result<bool, Failure> {
    if disk.length(&disk.layout.key("node-next"))?.is_none() {
        return Ok(false);
    }
    let Ok(view) = View::open(*disk) else { return Ok(false) };
    let next = keys::render_public(&load_key(disk, "node-next")?.verifying_key());
    let current = view.fold.keys.of(&identity.id).map(|keys| &keys.current);
    let named = current.is_some_and(|record| record.key.as_ref() == Some(&next));
    if named {
        adopt_next_key(disk)?;
    }
    Ok(named)
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
) -> Result<Accepted, Undelivered> {
    if identity.is_anchor() {
        return admission::submit(host, config, kind, envelope.render().as_bytes())
            .map_err(|refusal| Undelivered::Refused(0, refused(refusal)));
    }
    // Where it answers now, which the journal may know better than the invitation did.
    let disk = Disk { host, layout: &config.layout };
    let known = View::open(disk).map(|view| sync::anchor_urls(identity, &view.fold));
    let anchors = known.unwrap_or_else(|_| identity.anchors.clone());
    let answer = post(host, &anchors, &Letter::word(host, kind, envelope))?;
    accepted(answer, identity).map_err(|failure| Undelivered::Refused(0, failure))
}

fn refused(refusal: Refusal) -> Failure {
    Failure::failed(format!("refused: {refusal}"))
}
