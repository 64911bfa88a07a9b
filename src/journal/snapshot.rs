//! The fold at some size, so that a tick's cost does not grow with the journal.
//!
//! A snapshot is never believed further than its own checksum and the head it names: any mismatch
//! means a full replay, never a refusal to start.

use super::merkle::Hash;
use super::replay::Fold;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Raised whenever the fold's meaning or form changes: older snapshots then replay in full.
pub const FOLD_VERSION: u64 = 3;

/// The contents of `snapshot.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// Which fold made it.
    pub fold_version: u64,
    /// Length of the journal in bytes at that size.
    pub bytes: u64,
    /// Lines folded.
    pub size: u64,
    /// Leaf hash of the last of them.
    pub head: Hash,
    /// `ts` of the last of them.
    pub ts: u64,
    /// The subtree hashes of the tree at that size, largest first.
    pub frontier: Vec<Hash>,
    /// What the fold knows.
    pub fold: Fold,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed {
    sha256: Hash,
    snapshot: Snapshot,
}

impl Snapshot {
    /// The file's bytes: the snapshot and its own SHA-256.
    pub fn render(&self) -> Vec<u8> {
        let sealed = Sealed { sha256: self.sha256(), snapshot: self.clone() };
        let mut bytes = serde_json::to_vec(&sealed).expect("maps here have string keys only");
        bytes.push(b'\n');
        bytes
    }

    /// Reads a snapshot; the error says why it is to be ignored.
    pub fn parse(bytes: &[u8]) -> Result<Snapshot, String> {
        let sealed: Sealed = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if sealed.snapshot.fold_version != FOLD_VERSION {
            return Err(format!(
                "fold version {}, expected {FOLD_VERSION}",
                sealed.snapshot.fold_version
            ));
        }
        if sealed.snapshot.sha256() != sealed.sha256 {
            return Err("its checksum does not match".to_owned());
        }
        Ok(sealed.snapshot)
    }

    /// Its own SHA-256, which stands beside it in the file.
    pub fn sha256(&self) -> Hash {
        let bytes = serde_json::to_vec(self).expect("maps here have string keys only");
        Hash(Sha256::digest(&bytes).into())
    }
}
