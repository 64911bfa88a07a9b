//! The floor: what we have signed and can never take back.

use super::checkpoint::{Checkpoint, open_checkpoint};
use super::merkle::Hash;
use crate::auth::vkey::VerifierKey;
use serde::{Deserialize, Serialize};

/// The contents of `state/committed.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Floor {
    /// Length of the journal in bytes at that size.
    pub bytes: u64,
    /// Leaf hash of its last line.
    pub head: Hash,
    /// The signed checkpoint, verbatim.
    pub note: String,
    /// Merkle root at that size.
    pub root: Hash,
    /// Lines.
    pub size: u64,
    /// `ts` of its last line.
    pub ts: u64,
}

impl Floor {
    /// Checks that the note is ours and says what the numbers beside it say.
    pub fn checked(&self, vkey: &VerifierKey) -> Result<Checkpoint, String> {
        let (checkpoint, _) =
            open_checkpoint(&self.note, vkey).map_err(|error| error.to_string())?;
        if checkpoint.size != self.size || checkpoint.root != self.root {
            return Err(format!(
                "it says size {} root {}, but its own note says size {} root {}",
                self.size, self.root, checkpoint.size, checkpoint.root
            ));
        }
        Ok(checkpoint)
    }
}
