//! Which key speaks for which node, by journal order alone.

use crate::protocol::member::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How long the old key still works after a rotation, in seconds on the anchor's clock.
pub const OVERLAP_S: u64 = 3_600;

/// One key as the journal tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRecord {
    /// `ed25519` or `hmac-sha256`.
    pub alg: String,
    /// Signed-note key id of (node id, 0x01, key), hex.
    pub kid: String,
    /// Public key, padded base64; a shared key is nobody's to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// The keys of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keys {
    /// Speaks for the node.
    pub current: KeyRecord,
    /// Speaks for it until that second.
    pub retiring: Option<(KeyRecord, u64)>,
    /// Whether nobody speaks for it any more.
    pub revoked: bool,
    /// Every invitation that let it in; none of them ever works again.
    pub burned: Vec<Burned>,
}

/// A burned invitation and what it was burned for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burned {
    /// SHA-256 of its secret.
    pub invite: String,
    /// With which nonce.
    pub nonce: String,
    /// For which key.
    pub kid: String,
    /// `seq` of the `enroll` line.
    pub seq: u64,
}

/// All keys, by node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyRing {
    nodes: BTreeMap<NodeId, Keys>,
}

impl KeyRing {
    /// The keys of a node.
    pub fn of(&self, node: &NodeId) -> Option<&Keys> {
        self.nodes.get(node)
    }

    /// Nodes that sign with a key they share with the anchor.
    pub fn shared(&self) -> Vec<NodeId> {
        let shared = |keys: &&Keys| keys.current.key.is_none() && !keys.revoked;
        self.nodes.iter().filter(|(_, keys)| shared(keys)).map(|(id, _)| id.clone()).collect()
    }

    /// How this invitation was burned. Looked for among all that ever were: one of before the
    /// newest enrolment must not let anybody in again.
    pub fn burned(&self, secret_sha256: &str) -> Option<&Burned> {
        let mut burned = self.nodes.values().flat_map(|keys| &keys.burned);
        burned.find(|burned| burned.invite == secret_sha256)
    }

    /// Keys that may sign for `node` at `now_s`, the current one first.
    pub fn valid(&self, node: &NodeId, now_s: u64) -> Vec<&KeyRecord> {
        let Some(keys) = self.nodes.get(node).filter(|keys| !keys.revoked) else {
            return Vec::new();
        };
        let retiring = keys.retiring.as_ref().filter(|(_, until_s)| now_s < *until_s);
        std::iter::once(&keys.current).chain(retiring.map(|(key, _)| key)).collect()
    }

    /// From here on this key speaks for this node.
    pub fn enrol(
        &mut self,
        node: &NodeId,
        current: KeyRecord,
        burned: Option<(String, String)>,
        seq: u64,
    ) {
        let before = self.nodes.remove(node).map(|keys| keys.burned).unwrap_or_default();
        let burned =
            burned.map(|(invite, nonce)| Burned { invite, nonce, kid: current.kid.clone(), seq });
        let burned = before.into_iter().chain(burned).collect();
        self.nodes.insert(node.clone(), Keys { current, retiring: None, revoked: false, burned });
    }

    /// Another key speaks for it; the old one for [`OVERLAP_S`] more.
    pub fn rotate(&mut self, node: &NodeId, next: KeyRecord, now_s: u64) {
        if let Some(keys) = self.nodes.get_mut(node).filter(|keys| !keys.revoked) {
            let old = std::mem::replace(&mut keys.current, next);
            keys.retiring = Some((old, now_s + OVERLAP_S));
        }
    }

    /// Nobody speaks for it, at once.
    pub fn revoke(&mut self, node: &NodeId) {
        if let Some(keys) = self.nodes.get_mut(node) {
            keys.revoked = true;
            keys.retiring = None;
        }
    }
}
