//! What a node judges by itself while no anchor answers: deaths that members agree on, and doubts.
//!
//! Nobody serialises then, so nothing of this is written for all. A death is agreed when two members
//! that can be reached (this node is one; all of them, if fewer) miss somebody whom none of them
//! reaches, for as many healthy ticks as a suspicion lasts (design section 9). It changes this
//! node's own map alone, and ends when the anchor is back: then the journal decides.

use super::contact::{Contact, Sign};
use super::member::NodeId;
use super::membership::Membership;
use super::subject::Subject;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Members that have to agree, where as many can be asked.
const AGREEING: usize = 2;

/// Kept from tick to tick.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provisional {
    /// Healthy counted ticks in a row in which a member was agreed to be missing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missed: BTreeMap<NodeId, u64>,
    /// Held to be dead, in our own map alone.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub dead: BTreeSet<NodeId>,
    /// Missed by somebody in the last tick, and not held to be dead.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub doubted: BTreeSet<NodeId>,
}

/// What one other member that answers tells of its own tick.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// Who answered it.
    pub answered: BTreeSet<NodeId>,
    /// Who did not, at the incarnation that we know.
    pub missed: BTreeSet<NodeId>,
}

/// One tick without an anchor.
#[derive(Clone, Copy, Debug)]
pub struct Round<'a> {
    /// This node.
    pub own: &'a NodeId,
    /// The table, with what members said since in isolation.
    pub membership: &'a Membership,
    /// What we learnt ourselves.
    pub contacts: &'a BTreeMap<Subject, Contact>,
    /// What the others tell, of those that answered.
    pub words: &'a BTreeMap<NodeId, Word>,
    /// Whether failures count: a counted tick that is not blind.
    pub counts: bool,
    /// Ticks after which an agreed absence is a death.
    pub ticks_max: u64,
    /// Most deaths in this tick (law 6).
    pub most: usize,
}

impl Round<'_> {
    fn own_sign(&self, id: &NodeId) -> Option<Sign> {
        self.contacts.get(&Subject::node(id)).map(Contact::sign)
    }

    /// Whether anybody reaches it.
    fn reached(&self, id: &NodeId) -> bool {
        self.own_sign(id) == Some(Sign::Good)
            || self.words.contains_key(id)
            || self.words.values().any(|word| word.answered.contains(id))
    }

    /// Who misses it.
    fn missing(&self, id: &NodeId) -> BTreeSet<NodeId> {
        let ours = (self.own_sign(id) == Some(Sign::Bad)).then(|| self.own.clone());
        let others = self.words.iter().filter(|(_, word)| word.missed.contains(id));
        others.map(|(by, _)| by.clone()).chain(ours).collect()
    }

    /// Whether as many agree as must.
    fn agreed(&self, id: &NodeId) -> bool {
        self.missing(id).len() >= AGREEING.min(self.words.len() + 1)
    }
}

impl Provisional {
    /// The judgement after a tick without an anchor. One answer, to whomever, ends it.
    #[must_use]
    pub fn after(&self, round: &Round<'_>) -> Provisional {
        let routable = |id: &NodeId| {
            let member = round.membership.member(id);
            member.is_some_and(|member| member.standing.liveness.is_routable())
        };
        let ends = |id: &NodeId| !routable(id) || round.reached(id);
        let mut next = self.clone();
        next.missed.retain(|id, _| !ends(id));
        next.dead.retain(|id| !ends(id));
        let others = round.membership.members().map(|(id, _)| id).filter(|id| *id != round.own);
        let open: Vec<&NodeId> = others.filter(|id| !ends(id)).collect();
        for id in open.iter().filter(|id| round.counts && round.agreed(id)) {
            let missed = next.missed.entry((*id).clone()).or_insert(0);
            *missed = missed.saturating_add(1);
        }
        next.dead.extend(next.due(round));
        // Who hears nobody doubts nobody anew.
        let doubts = |id: &NodeId| {
            let held = next.doubted.contains(id);
            !next.dead.contains(id) && (held || round.counts) && !round.missing(id).is_empty()
        };
        next.doubted = open.into_iter().filter(|id| doubts(id)).cloned().collect();
        next
    }

    /// The longest missed first; equal ones by id, so that every replay agrees.
    fn due(&self, round: &Round<'_>) -> Vec<NodeId> {
        if !round.counts {
            return Vec::new();
        }
        let mut due: Vec<(&NodeId, u64)> = self
            .missed
            .iter()
            .filter(|(id, missed)| **missed >= round.ticks_max && !self.dead.contains(*id))
            .map(|(id, missed)| (id, *missed))
            .collect();
        due.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        due.into_iter().take(round.most).map(|(id, _)| id.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::member::Incarnation;
    use crate::protocol::probe::Outcome;
    use crate::protocol::roster::{RosterChange, Row};

    fn id(name: &str) -> NodeId {
        NodeId::parse(name).expect("an id")
    }

    fn table(names: &[&str]) -> Membership {
        let mut membership = Membership::default();
        for name in names {
            let (host, role) = ("192.0.2.1".to_owned(), "edge".to_owned());
            let row = Row { host, port: 80, role, state: "active".to_owned() };
            let incarnation = Incarnation::FIRST;
            membership.list(RosterChange { node: id(name), incarnation, row: Some(row) }, 0);
        }
        membership
    }

    fn silent(names: &[&str]) -> BTreeMap<Subject, Contact> {
        let failed = Outcome::Failed { reason: "timeout".into(), heard: false, ms: 1 };
        names.iter().map(|name| (Subject::node(&id(name)), failed.clone().into())).collect()
    }

    fn word(answered: &[&str], missed: &[&str]) -> Word {
        let ids = |names: &[&str]| names.iter().map(|name| id(name)).collect();
        Word { answered: ids(answered), missed: ids(missed) }
    }

    /// Runs `ticks` equal ticks of `me` among a, b, c, d.
    fn after(
        contacts: &BTreeMap<Subject, Contact>,
        words: &BTreeMap<NodeId, Word>,
        (ticks, most): (u64, usize),
    ) -> Provisional {
        let membership = table(&["me", "a", "b", "c", "d"]);
        let own = id("me");
        let round = Round {
            own: &own,
            membership: &membership,
            contacts,
            words,
            counts: true,
            ticks_max: 3,
            most,
        };
        (0..ticks).fold(Provisional::default(), |held, _| held.after(&round))
    }

    #[test]
    fn two_that_miss_it_agree_and_one_that_reaches_it_saves_it() {
        let contacts = silent(&["a"]);
        let agree = BTreeMap::from([(id("b"), word(&["me"], &["a"]))]);
        assert_eq!(after(&contacts, &agree, (2, 9)).dead, BTreeSet::new());
        assert_eq!(after(&contacts, &agree, (2, 9)).doubted, BTreeSet::from([id("a")]));
        let third = after(&contacts, &agree, (3, 9));
        assert_eq!((third.dead, third.doubted), (BTreeSet::from([id("a")]), BTreeSet::new()));

        let saved = BTreeMap::from([(id("b"), word(&[], &["a"])), (id("c"), word(&["a"], &[]))]);
        assert_eq!(after(&contacts, &saved, (9, 9)), Provisional::default());
        let alone = BTreeMap::from([(id("b"), word(&["me"], &[]))]);
        let doubted = after(&contacts, &alone, (9, 9));
        assert_eq!(
            (doubted.dead.len(), doubted.doubted.len()),
            (0, 1),
            "one of two does not agree"
        );
    }

    #[test]
    fn who_cannot_ask_anybody_agrees_with_itself_within_the_cap() {
        let contacts = silent(&["a", "b", "c", "d"]);
        let dead = after(&contacts, &BTreeMap::new(), (3, 1)).dead;
        assert_eq!(dead, BTreeSet::from([id("a")]));
        assert_eq!(after(&contacts, &BTreeMap::new(), (5, 1)).dead.len(), 3);
    }

    #[test]
    fn whom_we_do_not_ask_two_others_may_miss() {
        let words =
            BTreeMap::from([(id("b"), word(&[], &["a", "me"])), (id("c"), word(&[], &["a"]))]);
        let judged = after(&BTreeMap::new(), &words, (3, 9));
        assert_eq!(judged.dead, BTreeSet::from([id("a")]), "and never ourselves");
    }
}
