//! The hash chain: each line names the leaf hash of the line before.
//!
//! Chain hash and tree leaf are the same 32 bytes, so a line cannot satisfy the one and cheat the
//! other (immudb CVE-2022-36111).

use super::line::{Line, LineError};
use super::merkle::{Hash, leaf_hash};
use sha2::{Digest, Sha256};

/// Where the chain stands: what the next line must say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tip {
    /// Lines so far = `seq` of the next.
    pub size: u64,
    /// Leaf hash of the last line, or the origin's anchor hash before line 0.
    pub head: Hash,
    /// `ts` of the last line; the next may not be below.
    pub ts: u64,
}

/// Why a line does not continue the chain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// The bytes are no line.
    #[error("{0}")]
    Line(#[from] LineError),
    /// A line is missing, doubled or misplaced.
    #[error("seq {found}, expected {expected}")]
    Seq {
        /// As written.
        found: u64,
        /// As it should be.
        expected: u64,
    },
    /// The line before is another one.
    #[error("prev {found}, expected {expected}")]
    Prev {
        /// As written.
        found: Hash,
        /// As it should be.
        expected: Hash,
    },
    /// Older than the line before.
    #[error("ts {found} is below the line before ({least})")]
    Ts {
        /// As written.
        found: u64,
        /// The least it may be.
        least: u64,
    },
}

/// `prev` of line 0, so that no journal can be spliced into another federation:
/// SHA-256("crowny-fed/journal/v1\n" + origin + "\n").
pub fn origin_hash(origin: &str) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update(b"crowny-fed/journal/v1\n");
    hasher.update(origin.as_bytes());
    hasher.update(b"\n");
    Hash(hasher.finalize().into())
}

impl Tip {
    /// The tip before line 0.
    pub fn origin(origin: &str) -> Self {
        Tip { size: 0, head: origin_hash(origin), ts: 0 }
    }

    /// Checks that `bytes` (without LF) is the next line, and steps over it.
    pub fn accept(&mut self, bytes: &[u8]) -> Result<Line, ChainError> {
        let line = Line::parse(bytes)?;
        if line.seq != self.size {
            return Err(ChainError::Seq { found: line.seq, expected: self.size });
        }
        if line.prev != self.head {
            return Err(ChainError::Prev { found: line.prev, expected: self.head });
        }
        if line.ts < self.ts {
            return Err(ChainError::Ts { found: line.ts, least: self.ts });
        }
        self.size += 1;
        self.head = leaf_hash(bytes);
        self.ts = line.ts;
        Ok(line)
    }
}
