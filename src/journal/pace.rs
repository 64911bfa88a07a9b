//! How fast one member may write: 60 lines an hour, 20 at once (design section 7).

use crate::protocol::member::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Lines at once.
pub const BURST: u64 = 20;
/// Seconds that earn one line.
pub const SECONDS_PER_LINE: u64 = 60;

/// Lines of a branch that cost as much as one line: a few that waited cost next to nothing, and nobody
/// fills a journal with them.
pub const MERGED_PER_LINE: u64 = 100;

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

    /// Seconds until the node may bring so many lines of a branch; `None` if it may now. However many
    /// one request carries, whoever has been silent for long enough may.
    pub fn wait_merge_s(&self, node: &NodeId, lines: u64, now_s: u64) -> Option<u64> {
        let (earned, needed) =
            (self.earned(node, now_s), cost_s(lines).min(BURST * SECONDS_PER_LINE));
        (earned < needed).then(|| needed - earned)
    }

    /// The node brought so many.
    pub fn spend_merge(&mut self, node: &NodeId, lines: u64, now_s: u64) {
        let left = self.earned(node, now_s).saturating_sub(cost_s(lines));
        self.nodes.insert(node.clone(), (left, now_s));
    }

    fn earned(&self, node: &NodeId, now_s: u64) -> u64 {
        let full = BURST * SECONDS_PER_LINE;
        let held = self.nodes.get(node);
        held.map_or(full, |(left, at)| left.saturating_add(now_s.saturating_sub(*at)).min(full))
    }
}

/// What a merge costs: one line, and one more for each hundred that it brings.
fn cost_s(lines: u64) -> u64 {
    let brought_s = lines.saturating_mul(SECONDS_PER_LINE) / MERGED_PER_LINE;
    brought_s.saturating_add(SECONDS_PER_LINE)
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

    #[test]
    fn a_big_branch_comes_in_and_the_next_one_waits() {
        let node = NodeId::parse("n").unwrap();
        let mut pace = Pace::default();
        assert_eq!(pace.wait_merge_s(&node, 1_000, 1_000), None);
        pace.spend_merge(&node, 1_000, 1_000);
        // Nine of twenty are left, and eleven are needed.
        assert_eq!(pace.wait_merge_s(&node, 1_000, 1_000), Some(120));
        assert_eq!(pace.wait_merge_s(&node, 800, 1_000), None);
        assert_eq!(pace.wait_s(&node, 1_000), None);
        assert_eq!(pace.wait_merge_s(&node, 1_000, 1_120), None);
        // Even the greatest comes in after a silence, and then nothing does for a while.
        assert_eq!(pace.wait_merge_s(&node, u64::MAX, 1_660), None);
        pace.spend_merge(&node, u64::MAX, 1_660);
        assert_eq!(pace.wait_s(&node, 1_660), Some(60));
    }
}
