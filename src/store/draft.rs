//! A line that is not in the journal yet: what it says, before seq, prev and ts are known.

use crate::journal::chain::Tip;
use crate::journal::line::{Author, Line, VERSION};
use crate::journal::record::Record;

/// A line to be written: its kind, payload and, for signed kinds, its author.
#[derive(Clone, Debug)]
pub struct Draft {
    kind: String,
    payload: String,
    author: Option<Author>,
}

impl Draft {
    /// A submitted line: the payload stays exactly as it was signed.
    pub fn submitted(kind: &str, payload: &str, author: Author) -> Self {
        Draft { kind: kind.to_owned(), payload: payload.to_owned(), author: Some(author) }
    }

    /// A line of this node's own decisions.
    pub fn local(kind: &str, payload: String) -> Self {
        Draft { kind: kind.to_owned(), payload, author: None }
    }

    /// The line it becomes after `tip`. Its ts is the anchor's clock, never below the line before.
    pub fn line(self, tip: &Tip, now_s: u64) -> Line {
        Line {
            author: self.author,
            payload: self.payload,
            prev: tip.head,
            seq: tip.size,
            ts: now_s.max(tip.ts),
            kind: self.kind,
            version: VERSION,
        }
    }
}

impl From<Record> for Draft {
    fn from(record: Record) -> Self {
        Draft { kind: record.kind().to_owned(), payload: record.payload(), author: None }
    }
}
