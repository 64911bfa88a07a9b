//! The offline proof of one line (c2sp.org/tlog-proof@v1): index, path and checkpoint in one text.
//!
//! Whoever keeps this text and the log's verifier key can check the line years later, without
//! asking anybody. The line itself is not in it: the checker hashes the line that it holds, so a
//! valid proof of some other line is worth nothing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::auth::vkey::VerifierKey;
use crate::journal::checkpoint::{Checkpoint, open_checkpoint};
use crate::journal::merkle::{Hash, HashError, leaf_hash};
use crate::journal::note::{NoteError, SignedNote};
use crate::journal::proof::{Inclusion, ProofError, verify_inclusion};

/// The first line: which format, which version.
const HEADER: &str = "c2sp.org/tlog-proof@v1";
/// Most hashes a path can have, as sizes are u64.
const PATH_HASHES_MAX: usize = 64;

/// An offline proof, well-formed but not yet checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlogProof {
    /// Bytes for the application; nothing vouches for them.
    pub extra: Option<Vec<u8>>,
    /// Position of the line, from 0.
    pub index: u64,
    /// Inclusion path, the leaf's sibling first.
    pub path: Vec<Hash>,
    /// The signed note, byte for byte as published.
    pub checkpoint: String,
}

/// Why an offline proof is not well-formed or does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlogProofError {
    /// The first line names another format.
    #[error("expected `{HEADER}` on the first line")]
    Header,
    /// No empty line before the checkpoint.
    #[error("expected an empty line before the checkpoint")]
    NoCheckpoint,
    /// The optional second line is not `extra` and base64.
    #[error("expected `extra` and padded standard base64")]
    Extra,
    /// The index line is missing or not a plain decimal.
    #[error("expected `index` and a decimal without leading zeros")]
    Index,
    /// A line of the path is not a hash.
    #[error(transparent)]
    Hash(#[from] HashError),
    /// More hashes than any tree has levels.
    #[error("expected at most {PATH_HASHES_MAX} hashes")]
    TooLong,
    /// The checkpoint is malformed or its signature does not hold.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// The path does not lead from the line to the checkpoint's root.
    #[error(transparent)]
    Proof(#[from] ProofError),
}

impl TlogProof {
    /// Prints the proof; [`parse_tlog_proof`] reads this spelling and no other.
    pub fn render(&self) -> String {
        let extra = self.extra.as_ref().map(|bytes| format!("extra {}\n", STANDARD.encode(bytes)));
        let path: String = self.path.iter().map(|hash| hash.to_base64() + "\n").collect();
        let extra = extra.unwrap_or_default();
        format!("{HEADER}\n{extra}index {}\n{path}\n{}", self.index, self.checkpoint)
    }

    /// Checks the checkpoint's signature and that `line`, without its line feed, is at the index.
    ///
    /// # Errors
    /// [`TlogProofError::Note`] for a checkpoint not by `vkey`, [`TlogProofError::Proof`] for a
    /// line that is not there.
    pub fn verify(&self, line: &[u8], vkey: &VerifierKey) -> Result<Checkpoint, TlogProofError> {
        let (checkpoint, _) = open_checkpoint(&self.checkpoint, vkey)?;
        verify_inclusion(&Inclusion {
            leaf: leaf_hash(line),
            index: self.index,
            size: checkpoint.size,
            path: &self.path,
            root: checkpoint.root,
        })?;
        Ok(checkpoint)
    }
}

/// The text of an offline proof without extra bytes; `checkpoint_note` goes in unchanged.
pub fn render_tlog_proof(index: u64, path: &[Hash], checkpoint_note: &str) -> String {
    let checkpoint = checkpoint_note.to_string();
    TlogProof { extra: None, index, path: path.to_vec(), checkpoint }.render()
}

/// Reads the text of an offline proof, one spelling only. Nothing is verified yet.
///
/// # Errors
/// [`TlogProofError`] for anything but a well-formed proof with a well-formed checkpoint.
pub fn parse_tlog_proof(text: &str) -> Result<TlogProof, TlogProofError> {
    // The first empty line ends the path; the checkpoint's own body comes after it.
    let (head, checkpoint) = text.split_once("\n\n").ok_or(TlogProofError::NoCheckpoint)?;
    let mut lines = head.split('\n').peekable();
    if lines.next() != Some(HEADER) {
        return Err(TlogProofError::Header);
    }
    let extra = lines.next_if(|line| line.starts_with("extra")).map(parse_extra).transpose()?;
    let index = lines.next().and_then(parse_index).ok_or(TlogProofError::Index)?;
    let path = lines.map(Hash::parse_base64).collect::<Result<Vec<_>, _>>()?;
    if path.len() > PATH_HASHES_MAX {
        return Err(TlogProofError::TooLong);
    }
    Checkpoint::parse(&SignedNote::parse(checkpoint)?.body)?;
    Ok(TlogProof { extra, index, path, checkpoint: checkpoint.to_string() })
}

fn parse_extra(line: &str) -> Result<Vec<u8>, TlogProofError> {
    let text = line.strip_prefix("extra ").ok_or(TlogProofError::Extra)?;
    STANDARD.decode(text).map_err(|_| TlogProofError::Extra)
}

fn parse_index(line: &str) -> Option<u64> {
    let text = line.strip_prefix("index ")?;
    let index: u64 = text.parse().ok()?;
    (index.to_string() == text).then_some(index)
}
