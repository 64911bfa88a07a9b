//! How fast one member may write: 60 lines an hour, 20 at once (design section 7).

use crate::protocol::member::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Lines at once.
pub const BURST: u64 = 20;
/// Seconds that earn one line.
pub const SECONDS_PER_LINE: u64 = 60;

/// What each member has left, in seconds: a token bucket over the lines' own times, so that every
/// replay counts alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pace {
    nodes: BTreeMap<NodeId, (u64, u64)>,
}

impl Pace {
    /// Seconds until the node may write again; `None` if it may now.
    pub fn wait_s(&self, node: &NodeId, now_s: u64) -> Option<u64> {
        let earned = self.earned(node, now_s);
        (earned < SECONDS_PER_LINE).then(|| SECONDS_PER_LINE - earned)
    }

    /// The node wrote a line.
    pub fn spend(&mut self, node: &NodeId, now_s: u64) {
        let left = self.earned(node, now_s).saturating_sub(SECONDS_PER_LINE);
        self.nodes.insert(node.clone(), (left, now_s));
    }

    fn earned(&self, node: &NodeId, now_s: u64) -> u64 {
        let full = BURST * SECONDS_PER_LINE;
        let held = self.nodes.get(node);
        held.map_or(full, |(left, at)| left.saturating_add(now_s.saturating_sub(*at)).min(full))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_at_once_then_one_a_minute() {
        let node = NodeId::parse("n").unwrap();
        let mut pace = Pace::default();
        for _ in 0..BURST {
            assert_eq!(pace.wait_s(&node, 1_000), None);
            pace.spend(&node, 1_000);
        }
        assert_eq!(pace.wait_s(&node, 1_000), Some(60));
        assert_eq!(pace.wait_s(&node, 1_059), Some(1));
        assert_eq!(pace.wait_s(&node, 1_060), None);
    }
}
