//! Nonces of accepted lines, for as long as a replay could still be in time.

use crate::auth::gate::SKEW_S_MAX;
use crate::protocol::member::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most nonces of one node inside the window (design section 16). Beyond it new requests are
/// refused: evicting one inside the window would let it be replayed.
pub const PER_NODE_MAX: usize = 4_096;

/// Nonce → (ts, seq of its line), by node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nonces {
    nodes: BTreeMap<NodeId, BTreeMap<String, (u64, u64)>>,
}

impl Nonces {
    /// The line a nonce made.
    pub fn line_of(&self, node: &NodeId, nonce: &str) -> Option<u64> {
        self.nodes.get(node)?.get(nonce).map(|(_, seq)| *seq)
    }

    /// How many are held of one node.
    pub fn count(&self, node: &NodeId) -> usize {
        self.nodes.get(node).map_or(0, BTreeMap::len)
    }

    /// Remembers one and forgets those that no request in time could carry any more. `now_s` is the
    /// line's time, which never goes back. A ts ahead of us lives until it is out of the window.
    pub fn remember(&mut self, node: &NodeId, nonce: &str, at: (u64, u64), now_s: u64) {
        self.nodes.entry(node.clone()).or_default().insert(nonce.to_owned(), at);
        for seen in self.nodes.values_mut() {
            seen.retain(|_, (ts, _)| ts.saturating_add(SKEW_S_MAX) >= now_s);
        }
        self.nodes.retain(|_, seen| !seen.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_outlives_every_request_that_could_carry_it() {
        let node = NodeId::parse("n").unwrap();
        let mut nonces = Nonces::default();
        nonces.remember(&node, "early", (1_299, 1), 1_000);
        nonces.remember(&node, "late", (1_599, 2), 1_599);
        assert_eq!(nonces.line_of(&node, "early"), Some(1));
        nonces.remember(&node, "later", (1_600, 3), 1_600);
        assert_eq!(nonces.line_of(&node, "early"), None);
        assert_eq!(nonces.count(&node), 2);
    }
}
