//! `self.json` and the keys: who this member is.

use super::disk::Disk;
use crate::auth::keys::parse_seed;
use crate::auth::vkey::VerifierKey;
use crate::error::Failure;
use crate::host::{Keep, Readers};
use crate::journal::checkpoint::open_checkpoint;
use crate::journal::replay::Fold;
use crate::protocol::member::{Incarnation, NodeId};
use crate::protocol::service::Service;
use ed25519_dalek::SigningKey;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// The contents of `self.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Our node id.
    pub id: NodeId,
    /// The federation's name.
    pub origin: String,
    /// The log's verifier key: whose checkpoints we believe.
    pub vkey: String,
    /// A log key that is about to sign what we hold: stored before, so that no moment of the change
    /// leaves a note here that we cannot read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Where the anchor answers, tried in turn; empty on the anchor itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anchors: Vec<String>,
    /// Our own incarnation, synced here before it is announced.
    #[serde(default)]
    pub incarnation: Incarnation,
    /// Where our agent answers, as last announced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<String>,
    /// Whether nobody can dial us, as last announced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outbound: bool,
    /// What we offer, as last announced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<Service>,
}

impl Identity {
    /// Reads `self.json`; `None` where no federation was founded or joined.
    pub fn load(disk: &Disk<'_>) -> Result<Option<Identity>, Failure> {
        let path = disk.layout.identity();
        let Some(bytes) = disk.read(&path)? else {
            return Ok(None);
        };
        let identity: Identity = serde_json::from_slice(&bytes).map_err(|error| {
            Failure::config(format!("{} does not read: {error}", path.display()))
                .hint("restore it from a backup; it is small and never changes by itself")
        })?;
        Ok(Some(identity))
    }

    /// Reads `self.json` or says how to get one.
    pub fn require(disk: &Disk<'_>) -> Result<Identity, Failure> {
        Identity::load(disk)?.ok_or_else(|| {
            Failure::config(format!("no federation in {}", disk.layout.dir().display()))
                .hint("on a member: join, or put self.json and keys/ back from a backup; init founds a federation; --dir names another folder")
        })
    }

    /// Whether we serialise and sign.
    pub fn is_anchor(&self) -> bool {
        self.anchors.is_empty()
    }

    /// Writes `self.json`, durably.
    pub fn store(&self, disk: &Disk<'_>) -> Result<(), Failure> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("plain fields have a JSON form");
        bytes.push(b'\n');
        disk.put(&disk.layout.identity(), &bytes, (Keep::Durable, Readers::Owner))
    }

    /// The log's key, checked to be named after the origin.
    pub fn verifier(&self) -> Result<VerifierKey, Failure> {
        self.named_after_origin(&self.vkey)
    }

    /// The key to read a note of ours with: the log's, or the one that is about to be.
    pub fn verifier_of(&self, note: &[u8]) -> Result<VerifierKey, Failure> {
        let vkey = self.verifier()?;
        let Some(next) = &self.next else { return Ok(vkey) };
        let next = self.named_after_origin(next)?;
        let only_next =
            open_checkpoint(note, &vkey).is_err() && open_checkpoint(note, &next).is_ok();
        Ok(if only_next { next } else { vkey })
    }

    fn named_after_origin(&self, vkey: &str) -> Result<VerifierKey, Failure> {
        let vkey = VerifierKey::parse(vkey)
            .map_err(|error| Failure::config(format!("self.json: vkey: {error}")))?;
        if vkey.name() != self.origin {
            return Err(Failure::config(format!(
                "self.json: vkey is named '{}', expected the origin '{}'",
                vkey.name(),
                self.origin
            )));
        }
        Ok(vkey)
    }

    /// Takes over the log key that the journal names, once it has signed what we published: then
    /// whoever knows either key can read it. Where another node serialises from there on, it is the
    /// one we follow; where that is us, we follow nobody. Until then both keys are believed.
    pub fn follow(&mut self, disk: &Disk<'_>, fold: &Fold, note: &str) -> Result<(), Failure> {
        let Some(log) = fold.log.as_ref().filter(|log| log.vkey != self.vkey) else {
            return Ok(());
        };
        let signed =
            VerifierKey::parse(&log.vkey).is_ok_and(|vkey| open_checkpoint(note, &vkey).is_ok());
        if !signed {
            // Of several epochs that came at once the note may be of one in between.
            let by = self.verifier_of(note.as_bytes())?.to_string();
            *self = Identity { vkey: by, next: Some(log.vkey.clone()), ..Identity::require(disk)? };
            return self.store(disk);
        }
        // Whatever else changed meanwhile is somebody else's to say.
        *self = Identity { vkey: log.vkey.clone(), next: None, ..Identity::require(disk)? };
        if let Some(succession) = &log.succession {
            let ours = succession.anchor == self.id;
            self.anchors = if ours { Vec::new() } else { succession.urls.clone() };
        }
        self.store(disk)
    }

    /// Another node serialises from now on: we follow it like everybody else.
    pub fn step_down(&mut self, disk: &Disk<'_>, urls: &[String]) -> Result<(), Failure> {
        if urls.is_empty() {
            return Err(Failure::integrity("another node serialises, but nobody says where")
                .hint("write its URL into self.json, as anchors"));
        }
        *self = Identity { anchors: urls.to_vec(), ..Identity::require(disk)? };
        self.store(disk)
    }

    /// Notes a log key that is about to sign what we hold.
    pub fn expect_next(&mut self, disk: &Disk<'_>, vkey: &str) -> Result<(), Failure> {
        if self.vkey == vkey || self.next.as_deref() == Some(vkey) {
            return Ok(());
        }
        // A killed run may have published under the key that was expected before: whatever comes
        // next, what is here must stay readable.
        let published = disk.read(&disk.layout.root())?;
        let by = published.map_or_else(|| self.verifier(), |note| self.verifier_of(&note))?;
        let vkey = vkey.to_owned();
        *self = Identity { vkey: by.to_string(), next: Some(vkey), ..Identity::require(disk)? };
        self.store(disk)
    }
}

/// Reads one seed of `keys/`.
pub fn load_key(disk: &Disk<'_>, name: &str) -> Result<SigningKey, Failure> {
    let path = disk.layout.key(name);
    let bytes = disk
        .read(&path)?
        .map(Zeroizing::new)
        .ok_or_else(|| Failure::config(format!("{} is missing", path.display())))?;
    let text = std::str::from_utf8(&bytes).unwrap_or_default();
    parse_seed(text).map_err(|error| Failure::config(format!("{}: {error}", path.display())))
}
