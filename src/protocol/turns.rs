//! Whose turn it is to be probed where there are too many for every tick.
//!
//! A shuffled round: everybody once, then shuffled anew, so that two questions to one member are at
//! most 2⌈n/p⌉ - 1 ticks apart (SWIM, section 4.3). A new member enters at a random place, or all
//! would wait a whole round for it.

use super::member::NodeId;

/// The next `count` of `order`, which is kept as the rest of the round. `members` are those who may
/// be asked now; `below(n)` gives a random number under n.
pub fn next(
    order: &mut Vec<NodeId>,
    members: &[NodeId],
    count: usize,
    below: &mut dyn FnMut(u64) -> u64,
) -> Vec<NodeId> {
    order.retain(|id| members.contains(id));
    let mut turn = Vec::new();
    while turn.len() < count.min(members.len()) {
        if order.is_empty() {
            *order = members.iter().filter(|id| !turn.contains(*id)).cloned().collect();
            shuffle(order, below);
        }
        turn.extend(order.pop());
    }
    turn
}

/// Puts a member that is new into the running round.
pub fn enter(order: &mut Vec<NodeId>, id: &NodeId, below: &mut dyn FnMut(u64) -> u64) {
    let at = usize::try_from(below(order.len() as u64 + 1)).unwrap_or(0);
    order.insert(at.min(order.len()), id.clone());
}

fn shuffle(order: &mut [NodeId], below: &mut dyn FnMut(u64) -> u64) {
    for last in (1..order.len()).rev() {
        let at = usize::try_from(below(last as u64 + 1)).unwrap_or(0);
        order.swap(last, at.min(last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn nobody_waits_longer_than_the_bound_of_the_paper() {
        let mut state = 7_u64;
        let mut below = move |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % bound
        };
        for (n, p) in [(5_usize, 1_usize), (21, 3), (64, 3), (200, 7), (3, 5)] {
            let members: Vec<NodeId> =
                (0..n).map(|nth| NodeId::parse(&format!("n{nth}")).expect("an id")).collect();
            let mut order = Vec::new();
            let mut last: BTreeMap<NodeId, usize> = BTreeMap::new();
            for tick in 0..40 * n {
                let turn = next(&mut order, &members, p, &mut below);
                assert_eq!(turn.len(), p.min(n));
                for id in turn {
                    let gap = tick - last.insert(id, tick).unwrap_or(tick);
                    assert!(gap < 2 * n.div_ceil(p), "n={n} p={p} gap={gap}");
                }
            }
            assert_eq!(last.len(), n);
        }
    }
}
