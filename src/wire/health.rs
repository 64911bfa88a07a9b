//! The answer of `/q/health`: an agent's own signed word about where it stands.
//!
//! The asker sends a random `c`; only the node's key can answer it, so a gateway that still answers
//! in front of a dead agent is told from the agent itself. A HMAC member shares no key with other
//! members: from it a plain 200 has to do.

use crate::auth::{keys, pae};
use crate::journal::keyring::KeyRecord;
use crate::journal::merkle::Hash;
use crate::protocol::member::NodeId;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The kind under which health is signed.
pub const KIND: &str = "health";
/// Digits of `c`.
pub const CHALLENGE_DIGITS: usize = 32;

/// Where a node says it stands.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Standing {
    /// Who answers.
    pub node: String,
    /// At which incarnation it last announced itself.
    pub incarnation: Option<u64>,
    /// Lines of its journal.
    pub size: Option<u64>,
    /// Leaf hash of the last of them.
    pub head: Option<Hash>,
    /// Its tick.
    pub tick: Option<u64>,
}

/// The whole answer, as far as it is read.
#[derive(Debug, Deserialize)]
struct Answer {
    #[serde(flatten)]
    standing: Standing,
    c: Option<String>,
    sig: Option<String>,
    refute: Option<Value>,
}

/// An answer that is the node's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// What it says.
    pub standing: Standing,
    /// A complete signed register, where it refutes what it was accused of.
    pub refute: Option<String>,
}

/// The signed text.
pub fn payload(origin: &str, c: &str, standing: &Standing) -> String {
    json!({
        "c": c,
        "head": standing.head,
        "incarnation": standing.incarnation,
        "node": standing.node,
        "origin": origin,
        "size": standing.size,
        "tick": standing.tick,
    })
    .to_string()
}

/// Whether a text can be a challenge.
pub fn is_challenge(c: &str) -> bool {
    c.len() == CHALLENGE_DIGITS && c.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// `POST /q/health`: the question to a member that is doubted, with the line that doubts it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accusation {
    /// Seconds since 1970 on the asker's clock.
    pub ts: u64,
    /// The challenge.
    pub c: String,
    /// The journal line, without LF.
    pub line: String,
    /// Its tlog-proof.
    pub proof: String,
}

/// What is asked of whom.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// For which federation.
    pub origin: &'a str,
    /// Whom.
    pub node: &'a NodeId,
    /// With which challenge.
    pub c: &'a str,
    /// Keys that speak for it now.
    pub keys: &'a [&'a KeyRecord],
}

impl Question<'_> {
    /// Reads an answer; `None` where it is not the node's own.
    pub fn own(&self, body: &[u8]) -> Option<Own> {
        let answer: Answer = serde_json::from_slice(body).ok()?;
        let named = NodeId::parse(&answer.standing.node).is_ok_and(|node| node == *self.node);
        let own = Own {
            refute: answer.refute.map(|refute| refute.to_string()),
            standing: answer.standing,
        };
        // Its key is between it and the anchor.
        if named && self.keys.iter().all(|record| record.key.is_none()) {
            return Some(own);
        }
        if !named || answer.c.as_deref() != Some(self.c) {
            return None;
        }
        let signed = pae::encode(KIND, &payload(self.origin, self.c, &own.standing));
        let sig = answer.sig?;
        let holds = |record: &&KeyRecord| {
            let key = record.key.as_deref().and_then(|key| keys::parse_public(key).ok());
            key.is_some_and(|key| keys::verify(&key, &signed, &sig))
        };
        self.keys.iter().any(holds).then_some(own)
    }
}
