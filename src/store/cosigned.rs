//! `state/witnesses.json`: where each witness stands and what it cosigned last.
//!
//! Its lines are kept here as well as in the root file, because one that arrives while another
//! witness holds the root file back has nowhere else to go, and because a run that ends between
//! the two writes is then finished without asking again.

use super::disk::Disk;
use crate::auth::vkey::CosignerKey;
use crate::error::Failure;
use crate::host::{Keep, Readers};
use crate::journal::cosignature::verify_cosignature;
use crate::journal::note::NoteSignature;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of one witness.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Last {
    /// Lines of this log that it says it saw: what the next proof starts from. Only a hint; a wrong
    /// one costs one question more.
    pub size: u64,
    /// The last cosignature of it that we verified, as a signature line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
}

/// The file: what is known, by verifier key, so that another key begins anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cosigned(BTreeMap<String, Last>);

impl Cosigned {
    /// Reads the file. Lost or unreadable it is as good as empty: a witness that is asked from 0
    /// answers where it stands.
    pub fn load(disk: &Disk<'_>) -> Result<Cosigned, Failure> {
        let bytes = disk.read(&disk.layout.witnesses())?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default())
    }

    /// Writes the file; `state` must be locked.
    pub fn store(&self, disk: &Disk<'_>) -> Result<(), Failure> {
        let mut bytes = serde_json::to_vec(self).expect("a map with string keys has a JSON form");
        bytes.push(b'\n');
        disk.put(&disk.layout.witnesses(), &bytes, (Keep::Durable, Readers::Usual))
    }

    /// Where a witness stands, as far as we know.
    pub fn size(&self, key: &CosignerKey) -> u64 {
        self.0.get(&key.to_string()).map_or(0, |last| last.size)
    }

    /// Notes where a witness stands.
    pub fn stands_at(&mut self, key: &CosignerKey, size: u64) {
        self.0.entry(key.to_string()).or_default().size = size;
    }

    /// Notes a verified cosignature.
    pub fn signed(&mut self, key: &CosignerKey, line: &NoteSignature) {
        let text = line.render().trim_end().to_owned();
        self.0.entry(key.to_string()).or_default().line = Some(text);
    }

    /// The last cosignature of a witness, and its time in seconds, where it is over `body`.
    pub fn over(&self, key: &CosignerKey, body: &str) -> Option<(NoteSignature, u64)> {
        let line = self.line(key)?;
        let time_s = verify_cosignature(body, &line, key).ok()?;
        Some((line, time_s))
    }

    /// The last cosignature of a witness, over whatever it was.
    pub fn line(&self, key: &CosignerKey) -> Option<NoteSignature> {
        let text = self.0.get(&key.to_string())?.line.as_ref()?;
        NoteSignature::parse(text).ok()
    }

    /// Takes over what another copy knows of one witness.
    pub fn take(&mut self, other: &Cosigned, key: &CosignerKey) {
        let key = key.to_string();
        if let Some(last) = other.0.get(&key) {
            self.0.insert(key, last.clone());
        }
    }

    /// Forgets witnesses that are no more.
    pub fn keep_only<'k>(&mut self, keys: impl Iterator<Item = &'k CosignerKey>) {
        let kept: BTreeSet<String> = keys.map(ToString::to_string).collect();
        self.0.retain(|key, _| kept.contains(key));
    }
}
