//! What members say of themselves, each signed over exactly the payload it is read from.

use super::merkle::Hash;
use crate::auth::pae;
use crate::protocol::member::{Incarnation, NodeId};
use crate::protocol::service::Service;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The usual `reach`: others can dial the member.
pub const INBOUND: &str = "inbound";
/// The `reach` of a member that nobody can dial.
pub const OUTBOUND: &str = "outbound";

/// `register`: SWIM's alive message, signed by the member over this payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Register {
    /// For which federation.
    pub origin: String,
    /// Who speaks.
    pub node: NodeId,
    /// 32 hex digits, never used twice by this node.
    pub nonce: String,
    /// Seconds since 1970 on the member's clock.
    pub ts: u64,
    /// `ed25519`.
    pub mode: String,
    /// Alive at this incarnation.
    pub incarnation: Incarnation,
    /// Where its agent answers.
    pub urls: Vec<String>,
    /// What it offers.
    pub services: Vec<Service>,
    /// `inbound` or `outbound`.
    pub reach: String,
    /// Free words for people and later rules, such as a place.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

/// `leave`: the member says goodbye, signed by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leave {
    /// For which federation.
    pub origin: String,
    /// Who leaves.
    pub node: NodeId,
    /// 32 hex digits.
    pub nonce: String,
    /// Seconds since 1970 on the member's clock.
    pub ts: u64,
    /// The algorithm it signs with.
    pub mode: String,
    /// At this incarnation.
    pub incarnation: Incarnation,
}

/// `drain`: the member asks to be given no new traffic, or takes that back; signed by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drain {
    /// For which federation.
    pub origin: String,
    /// Who.
    pub node: NodeId,
    /// 32 hex digits.
    pub nonce: String,
    /// Seconds since 1970 on the member's clock.
    pub ts: u64,
    /// The algorithm it signs with.
    pub mode: String,
    /// Orders the member's drains: raised for each. Without one a drain cannot be merged, for
    /// nothing that is signed would tell an old one from a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<Incarnation>,
    /// Whether it drains from now on.
    pub on: bool,
    /// Seconds since 1970 at which it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

/// `rotate`: another key speaks for the member, signed by the old one and proved by the new one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotate {
    /// For which federation.
    pub origin: String,
    /// Whose key.
    pub node: NodeId,
    /// 32 hex digits.
    pub nonce: String,
    /// Seconds since 1970 on the member's clock.
    pub ts: u64,
    /// The algorithm of the old key, which signs.
    pub mode: String,
    /// The algorithm of the new key: `ed25519`.
    pub alg: String,
    /// The new public key, padded base64.
    pub key: String,
    /// Signature by the new key over [`Rotate::possession`].
    pub proof: String,
}

impl Rotate {
    /// What the new key signs to show that it is held.
    pub fn possession(origin: &str, node: &NodeId, nonce: &str, key: &str) -> Vec<u8> {
        pae::encode("rotate-possession", &format!("{origin}\n{node}\n{nonce}\n{key}\n"))
    }
}

/// The head of a `merge` request: what the lines after it are, signed by whoever brings them. Makes
/// no line of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MergeHead {
    /// For which federation.
    pub origin: String,
    /// Who brings them.
    pub node: NodeId,
    /// 32 hex digits.
    pub nonce: String,
    /// Seconds since 1970 on the member's clock.
    pub ts: u64,
    /// The algorithm it signs with.
    pub mode: String,
    /// Lines of the journal on top of which they were said: `seq` of the first of them.
    pub fork: u64,
    /// Leaf hash of the last of them.
    pub head: Hash,
    /// How many they are.
    pub count: u64,
}

/// Most members one observation tells of (design section 8).
pub const SEEN_MAX: usize = 64;

/// `observe`: what a member saw in one tick, signed by itself. Makes no line of its own; verdicts
/// quote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observe {
    /// For which federation.
    pub origin: String,
    /// Who saw it.
    pub node: NodeId,
    /// 32 hex digits.
    pub nonce: String,
    /// Seconds since 1970 on the member's clock; a later one replaces an earlier one.
    pub ts: u64,
    /// The algorithm it signs with.
    pub mode: String,
    /// The member's own tick.
    pub tick: u64,
    /// Its local health, 0 (well) to 8.
    pub health: u64,
    /// Lines of the journal it stands on.
    pub size: u64,
    /// Whom it asked, and what came of it; at most [`SEEN_MAX`].
    pub seen: Vec<Sighting>,
}

/// One member as another saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sighting {
    /// Who was asked.
    pub node: NodeId,
    /// At the incarnation that the observer's journal says.
    pub inc: Incarnation,
    /// What came of it.
    pub saw: Saw,
}

/// What one member can say of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Saw {
    /// It answered well.
    Answered,
    /// Its machine was heard, the answer was not good.
    Failed,
    /// Nothing was heard.
    Unheard,
}
