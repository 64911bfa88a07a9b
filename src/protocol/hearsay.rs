//! What members have told of their own ticks, as far as it counts against others.
//!
//! Only the healthy accuse, and only at the incarnation that holds now, so that nobody is doubted
//! for what it refuted already.

use super::contact::Contact;
use super::health::ACCUSES_MAX;
use super::member::{Incarnation, Liveness, NodeId};
use super::membership::Membership;
use super::memory::{Memory, Observed};
use super::subject::Subject;
use super::verdict::Witnesses;
use std::collections::{BTreeMap, BTreeSet};

/// Ticks for which an observation speaks.
pub const TICKS_FRESH: u64 = 2;

/// What counts of one member's fresh observation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// How much it distrusts itself.
    pub health: u64,
    /// Whom it did not get an answer from, at which incarnation.
    pub missed: Vec<(NodeId, Incarnation)>,
}

impl Told {
    fn missed<'a>(
        &'a self,
        own: &'a NodeId,
        membership: &'a Membership,
    ) -> impl Iterator<Item = &'a NodeId> {
        let current = |node: &NodeId, incarnation: Incarnation| {
            let held = membership.member(node);
            held.is_some_and(|held| held.standing.incarnation == incarnation)
        };
        self.missed
            .iter()
            .filter(move |(node, incarnation)| node != own && current(node, *incarnation))
            .map(|(node, _)| node)
    }
}

/// Notes an observation that is held, by its own second and tick; whether it still speaks.
pub fn note(memory: &mut Memory, id: &NodeId, (ts, theirs): (u64, u64)) -> bool {
    let new = Observed { ts, theirs, tick: memory.tick };
    let seen = memory.observed.entry(id.clone()).or_insert(new);
    if (seen.ts, seen.theirs) != (ts, theirs) {
        *seen = new;
    }
    seen.tick + TICKS_FRESH >= memory.tick
}

/// Adds to each question about a node when that node last spoke for itself.
pub fn speak(memory: &Memory, contacts: &mut BTreeMap<Subject, Contact>) {
    for (subject, contact) in contacts.iter_mut().filter(|(subject, _)| subject.service.is_none()) {
        let seen = memory.observed.get(&subject.node);
        contact.spoke = seen.map(|seen| memory.tick.saturating_sub(seen.tick));
    }
}

/// Who failed to reach whom.
pub fn accusers(
    told: &BTreeMap<NodeId, Told>,
    membership: &Membership,
) -> BTreeMap<NodeId, BTreeSet<NodeId>> {
    let mut accusers: BTreeMap<NodeId, BTreeSet<NodeId>> = BTreeMap::new();
    for (id, told) in told.iter().filter(|(_, told)| told.health <= ACCUSES_MAX) {
        let member = membership.member(id);
        if member.is_none_or(|member| member.standing.liveness != Liveness::Alive) {
            continue;
        }
        for node in told.missed(id, membership) {
            accusers.entry(node.clone()).or_default().insert(id.clone());
        }
    }
    accusers
}

/// What those we hear say of those we do not. They are asked whatever their health: who is cut off
/// from the same members as we are is unwell for that very reason.
pub fn witnesses(
    told: &BTreeMap<NodeId, Told>,
    membership: &Membership,
    contacts: &BTreeMap<Subject, Contact>,
) -> Witnesses {
    let unheard: Vec<&NodeId> = contacts
        .iter()
        .filter(|(subject, contact)| subject.service.is_none() && !contact.outcome.was_heard())
        .map(|(subject, _)| &subject.node)
        .collect();
    let mut witnesses = Witnesses::default();
    for (id, told) in told {
        let heard = contacts.get(&Subject::node(id));
        if !heard.is_some_and(|contact| contact.outcome.was_heard()) {
            continue;
        }
        witnesses.askable += 1;
        let missed = told.missed(id, membership).filter(|node| unheard.contains(node)).count();
        witnesses.agreeing += u64::from(missed * 2 > unheard.len());
    }
    witnesses
}
