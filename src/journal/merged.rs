//! Lines that were said while nobody serialised, in the journal: a `merge` line tells whose branch
//! came, and each line of it stands in a `merged` line, byte for byte as it was signed.

use super::line::Line;
use super::merkle::Hash;
use super::record::Record;
use crate::auth::pae;
use crate::protocol::member::NodeId;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Kinds of line that a branch may bring into the journal. Keys change in the order of the journal
/// alone: a branch cannot say whether the key that signs it still held.
pub const MERGED_KINDS: [&str; 3] = ["register", "leave", "drain"];

/// Most merged words of one member that are remembered: as many as one request brings.
pub const REMEMBERED_MAX: usize = 1_024;

/// `merge`: a branch came in; its new lines follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Merge {
    /// Lines of the journal on top of which it was said.
    pub fork: u64,
    /// Leaf hash of its last line.
    pub head: Hash,
    /// Who brought it.
    pub node: NodeId,
    /// How many lines it had, those included that were here already.
    pub count: u64,
}

/// `merged`: one line of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The line as it stood in the branch.
    pub line: Line,
    /// What it says: of a kind in [`MERGED_KINDS`].
    pub said: Record,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    line: String,
}

impl Merged {
    /// A line of a branch; `None` where no line of its kind is merged.
    pub fn of(line: Line) -> Option<Merged> {
        if !MERGED_KINDS.contains(&line.kind.as_str()) || line.author.is_none() {
            return None;
        }
        let said = Record::of(&line);
        (said != Record::Unknown).then_some(Merged { line, said })
    }

    /// Reads a payload.
    pub fn read(payload: &str) -> Option<Merged> {
        let stored: Stored = serde_json::from_str(payload).ok()?;
        let raw = STANDARD.decode(&stored.line).ok()?;
        Merged::of(Line::parse(&raw).ok()?)
    }

    /// The payload.
    pub fn payload(&self) -> String {
        let line = STANDARD.encode(self.line.render());
        serde_json::to_string(&Stored { line }).expect("a string always has a JSON form")
    }

    /// Who said it.
    pub fn node(&self) -> Option<&NodeId> {
        self.said.node()
    }

    /// What makes it the same word however it is wrapped: SHA-256 of the bytes that were signed.
    /// Place and time of the line around it are nobody's signature.
    pub fn word(&self) -> Hash {
        Hash(Sha256::digest(pae::encode(&self.line.kind, &self.line.payload)).into())
    }
}

/// The newest merged words of each member, with the lines that hold them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MergedWords {
    nodes: BTreeMap<NodeId, Vec<(u64, Hash)>>,
}

impl MergedWords {
    /// The line that holds this word of the member.
    pub fn line_of(&self, node: &NodeId, word: Hash) -> Option<u64> {
        let words = self.nodes.get(node)?;
        words.iter().rev().find(|(_, held)| *held == word).map(|(seq, _)| *seq)
    }

    /// Whether some of that member's may be forgotten.
    pub fn are_full(&self, node: &NodeId) -> bool {
        self.nodes.get(node).is_some_and(|words| words.len() >= REMEMBERED_MAX)
    }

    /// Remembers one, and forgets the oldest beyond [`REMEMBERED_MAX`].
    pub fn remember(&mut self, node: &NodeId, word: Hash, seq: u64) {
        let words = self.nodes.entry(node.clone()).or_default();
        words.push((seq, word));
        let surplus = words.len().saturating_sub(REMEMBERED_MAX);
        words.drain(..surplus);
    }
}
