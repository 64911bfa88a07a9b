//! The first lines of a journal, and what it takes to believe more: lines that chain, whose
//! root is the one under the log's signature, and of which every submitted one is by its author.
//!
//! Lines enter a prefix one by one and are believed only together, when [`Prefix::proves`] a
//! checkpoint: a chain needs no secret, so anybody can make lines that continue ours.

use super::chain::{ChainError, Tip};
use super::checkpoint::Checkpoint;
use super::merkle::{Frontier, Hash};
use super::proof::{Consistency, ProofError, verify_consistency};
use super::replay::Fold;

/// The lines so far: their end, the tree over them and what they mean.
#[derive(Clone, Debug)]
pub struct Prefix {
    /// What the next line must continue.
    pub tip: Tip,
    /// The tree over them.
    pub frontier: Frontier,
    /// What they mean.
    pub fold: Fold,
    /// Their length in bytes, line feeds included.
    pub bytes: u64,
    /// The first line that is not by the member it speaks for.
    pub forged: Option<Forged>,
}

/// A line that its author did not sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forged {
    /// Its index.
    pub seq: u64,
    /// Its bytes without LF.
    pub raw: Vec<u8>,
    /// What is wrong with it.
    pub reason: String,
}

/// Why lines do not lead to a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unproven {
    /// There are more lines than the checkpoint covers.
    #[error("{found} lines, but the checkpoint covers {covered}")]
    Beyond {
        /// Lines at hand.
        found: u64,
        /// Lines under the checkpoint.
        covered: u64,
    },
    /// As many lines as it covers, and another root.
    #[error("the lines give root {found} at size {size}, but {signed} is signed")]
    Root {
        /// Lines.
        size: u64,
        /// Their root.
        found: Hash,
        /// The signed one.
        signed: Hash,
    },
    /// Fewer lines, and no proof that they are its beginning.
    #[error("{found} lines are not shown to be the first of {covered}: {reason}")]
    Proof {
        /// Lines at hand.
        found: u64,
        /// Lines under the checkpoint.
        covered: u64,
        /// What is wrong with the proof.
        reason: ProofError,
    },
}

impl Prefix {
    /// No line yet.
    pub fn origin(origin: &str) -> Prefix {
        Prefix {
            tip: Tip::origin(origin),
            frontier: Frontier::new(),
            fold: Fold::default(),
            bytes: 0,
            forged: None,
        }
    }

    /// Takes in the next line, without its line feed.
    ///
    /// # Errors
    /// [`ChainError`] where it does not continue the lines so far; nothing is taken then.
    pub fn take(&mut self, raw: &[u8]) -> Result<(), ChainError> {
        let line = self.tip.accept(raw)?;
        if self.forged.is_none() {
            let refused = self.fold.check_author(&line).err();
            self.forged = refused.map(|reason| Forged { seq: line.seq, raw: raw.to_vec(), reason });
        }
        self.fold.apply(&line);
        self.frontier.push(self.tip.head);
        self.bytes += raw.len() as u64 + 1;
        Ok(())
    }

    /// Whether these lines are those of `checkpoint`, or with `path` the first of them.
    ///
    /// # Errors
    /// [`Unproven`] where they are not, or nothing shows it.
    pub fn proves(&self, checkpoint: &Checkpoint, path: &[Hash]) -> Result<(), Unproven> {
        let (found, covered) = (self.tip.size, checkpoint.size);
        let root = self.frontier.root();
        if found > covered {
            return Err(Unproven::Beyond { found, covered });
        }
        if found == covered {
            let same = root == checkpoint.root;
            let differs = Unproven::Root { size: found, found: root, signed: checkpoint.root };
            return same.then_some(()).ok_or(differs);
        }
        let claim = Consistency {
            old_size: found,
            old_root: root,
            new_size: covered,
            new_root: checkpoint.root,
            path,
        };
        verify_consistency(&claim).map_err(|reason| Unproven::Proof { found, covered, reason })
    }
}
