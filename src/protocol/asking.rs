//! Whom a tick asks, and who may help where an answer is missing.

use super::contact::{Contact, Sign};
use super::member::{Liveness, NodeId};
use super::membership::{Member, Membership};
use super::memory::Memory;
use super::profile::{PROBED_OF_MANY, Profile};
use super::subject::Subject;
use std::collections::{BTreeMap, BTreeSet};

/// Keyed members whose agents are asked in this tick: all of them, or where there are too many
/// those in doubt, some others in turn, and of the reaped one. `below(n)` gives a random number
/// under n.
pub fn whom(
    membership: &Membership,
    own: &NodeId,
    (memory, profile): (&mut Memory, &Profile),
    below: &mut dyn FnMut(u64) -> u64,
) -> Vec<NodeId> {
    let asked_at_all = |id: &NodeId, member: &Member| {
        let inbound = member.enrolled && !member.outbound && !member.urls.is_empty();
        inbound && member.standing.liveness.may_answer() && id != own
    };
    let doubted = |member: &Member| member.standing.liveness == Liveness::Suspect;
    let (mut first, mut others, mut reaped) = (Vec::new(), Vec::new(), Vec::new());
    for (id, member) in membership.members().filter(|(id, member)| asked_at_all(id, member)) {
        match member.reaped {
            true => reaped.push(id),
            false if doubted(member) => first.push(id),
            false => others.push(id),
        }
    }
    let mut asked: Vec<NodeId> = first.iter().map(|id| (*id).clone()).collect();
    if (first.len() + others.len()) as u64 > profile.probe_all_max {
        let in_turn = |id: &NodeId| {
            membership.member(id).is_some_and(|member| {
                asked_at_all(id, member) && !member.reaped && !doubted(member)
            })
        };
        asked.extend(turn(&mut memory.order, (&others, PROBED_OF_MANY), &in_turn, below));
    } else {
        asked.extend(others.into_iter().cloned());
    }
    if !reaped.is_empty() {
        let turn = usize::try_from(memory.tick).unwrap_or_default() % reaped.len();
        asked.push(reaped[turn].clone());
    }
    asked
}

/// The next `count` of a shuffled round, which is kept in `order`: everybody once, then shuffled
/// anew, so that two questions to one member are at most 2⌈n/p⌉ - 1 ticks apart (SWIM, section 4.3).
fn turn(
    order: &mut Vec<NodeId>,
    (members, count): (&[&NodeId], usize),
    may_be_asked: &dyn Fn(&NodeId) -> bool,
    below: &mut dyn FnMut(u64) -> u64,
) -> Vec<NodeId> {
    let mut turn = Vec::new();
    while turn.len() < count.min(members.len()) {
        match order.pop() {
            Some(id) => turn.extend(Some(id).filter(|id| may_be_asked(id) && !turn.contains(id))),
            None => {
                *order = members.iter().map(|id| (*id).clone()).collect();
                order.retain(|id| !turn.contains(id));
                shuffle(order, below);
            }
        }
    }
    turn
}

fn shuffle(order: &mut [NodeId], below: &mut dyn FnMut(u64) -> u64) {
    for last in (1..order.len()).rev() {
        let at = usize::try_from(below(last as u64 + 1)).unwrap_or(0);
        order.swap(last, at.min(last));
    }
}

/// Members that may help: alive, dialled, and not failing themselves.
pub fn helpers(
    membership: &Membership,
    own: &NodeId,
    contacts: &BTreeMap<Subject, Contact>,
) -> Vec<NodeId> {
    let failing: BTreeSet<&NodeId> = contacts
        .iter()
        .filter(|(subject, contact)| subject.service.is_none() && contact.sign() != Sign::Good)
        .map(|(subject, _)| &subject.node)
        .collect();
    let may_help = |id: &NodeId, member: &Member| {
        let alive = member.enrolled && member.standing.liveness == Liveness::Alive;
        alive && !member.outbound && !member.urls.is_empty() && !failing.contains(id) && id != own
    };
    membership
        .members()
        .filter(|(id, member)| may_help(id, member))
        .map(|(id, _)| id.clone())
        .collect()
}

/// Some of the helpers for one subject, by chance.
pub fn choose(
    helpers: &[NodeId],
    (subject, count): (&NodeId, u64),
    below: &mut dyn FnMut(u64) -> u64,
) -> Vec<NodeId> {
    let mut left: Vec<&NodeId> = helpers.iter().filter(|id| *id != subject).collect();
    let mut chosen = Vec::new();
    while (chosen.len() as u64) < count && !left.is_empty() {
        let at = usize::try_from(below(left.len() as u64)).unwrap_or(0);
        chosen.push(left.swap_remove(at.min(left.len() - 1)).clone());
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::member::{Incarnation, Standing};
    use crate::protocol::membership::Registration;

    fn id(nth: usize) -> NodeId {
        NodeId::parse(&format!("n{nth}")).expect("an id")
    }

    fn table(members: usize) -> Membership {
        let mut membership = Membership::default();
        for nth in 0..members {
            membership.enrol(&id(nth), 0);
            let told = Registration {
                node: id(nth),
                incarnation: Incarnation::FIRST.raised(),
                urls: vec!["http://192.0.2.1".to_owned()],
                services: Vec::new(),
                outbound: false,
            };
            membership.register(told, 0);
        }
        membership
    }

    /// The bound of SWIM's section 4.3: two turns of one member are under 2⌈n/p⌉ ticks apart.
    #[test]
    fn nobody_waits_longer_than_the_bound_of_the_paper() {
        let mut state = 7_u64;
        let mut below = move |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % bound
        };
        for members in [22, 65] {
            let (membership, own) = (table(members), id(0));
            let (mut memory, profile) = (Memory::default(), Profile::default());
            let others = members - 1;
            let mut last: BTreeMap<NodeId, usize> = BTreeMap::new();
            for tick in 0..10 * members {
                let turn = whom(&membership, &own, (&mut memory, &profile), &mut below);
                assert_eq!(turn.len(), PROBED_OF_MANY);
                for id in turn {
                    let gap = tick - last.insert(id, tick).unwrap_or(tick);
                    assert!(gap < 2 * others.div_ceil(PROBED_OF_MANY), "{members}: {gap}");
                }
            }
            assert_eq!(last.len(), others);
        }
    }

    #[test]
    fn few_are_all_asked_and_of_many_every_suspect_is() {
        let (own, profile) = (id(0), Profile::default());
        let few = whom(&table(9), &own, (&mut Memory::default(), &profile), &mut |_| 0);
        assert_eq!(few, (1..9).map(id).collect::<Vec<_>>());
        let mut many = table(40);
        for nth in 1..8 {
            let incarnation = Incarnation::FIRST.raised();
            many.judge(&id(nth), Standing { liveness: Liveness::Suspect, incarnation }, 1);
        }
        let asked = whom(&many, &own, (&mut Memory::default(), &profile), &mut |_| 0);
        assert!((1..8).all(|nth| asked.contains(&id(nth))));
        assert_eq!(asked.len(), 7 + PROBED_OF_MANY);
    }
}
