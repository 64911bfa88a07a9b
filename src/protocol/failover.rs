//! Who takes over now, in which order: the Q-peer list.

use super::member::{Liveness, NodeId};
use super::membership::Membership;
use super::probe::Judgement;
use super::roster::{Listed, Roster};
use std::collections::BTreeMap;

/// The list from the roster and the last judgements alone: active rows, 티 before 옴, roster
/// order inside; 타 and 음 are dropped at once (design section 12).
pub fn by_judgement<'a>(
    roster: &'a Roster,
    judged: &BTreeMap<NodeId, Judgement>,
) -> Vec<&'a Listed> {
    let judgement = |listed: &Listed| judged.get(&listed.id).copied().unwrap_or(Judgement::Unknown);
    in_order(roster, |listed| match judgement(listed) {
        Judgement::Ok => Some(0),
        Judgement::Slow => Some(1),
        Judgement::Down | Judgement::Unknown => None,
    })
}

/// The list with federation state: active rows alive, then suspect, never dead; the judgement of
/// one probe flips nothing.
pub fn by_liveness<'a>(roster: &'a Roster, membership: &Membership) -> Vec<&'a Listed> {
    in_order(roster, |listed| match membership.member(&listed.id)?.standing.liveness {
        Liveness::Alive => Some(0),
        Liveness::Suspect => Some(1),
        Liveness::Dead | Liveness::Left | Liveness::Revoked => None,
    })
}

fn in_order(roster: &Roster, rank: impl Fn(&Listed) -> Option<u8>) -> Vec<&Listed> {
    let mut ranked: Vec<(u8, &Listed)> = roster
        .rows
        .iter()
        .filter(|listed| listed.row.is_active())
        .filter_map(|listed| rank(listed).map(|rank| (rank, listed)))
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, listed)| listed).collect()
}
