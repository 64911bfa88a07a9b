//! What one node cannot reach from where it stands, and how much of that it leaves out of its own
//! map.
//!
//! The journal says who is alive for everybody. A node may be cut off from a member that others
//! reach: then its own map does without, within the caps of law 6, and the journal is untouched.

use super::caps::withdrawals_max;
use super::contact::{Contact, Sign};
use super::member::NodeId;
use super::membership::Membership;
use super::subject::Subject;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Kept from tick to tick.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reach {
    /// Healthy counted ticks in a row in which a member did not answer.
    pub silent: BTreeMap<NodeId, u64>,
    /// Left out of our own map, as `unreachable-here`.
    pub unreachable: BTreeSet<NodeId>,
}

/// One tick's sight.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// The table, for the cap and to forget who has gone.
    pub membership: &'a Membership,
    /// What was learnt; members not asked are absent.
    pub contacts: &'a BTreeMap<Subject, Contact>,
    /// Whether failures count: a counted tick that is not blind.
    pub counts: bool,
    /// Silent ticks after which a member is unreachable from here.
    pub ticks_max: u64,
}

impl Reach {
    /// The reach after a tick: an answer ends silence at once, silence lasts `ticks_max` ticks, and
    /// no tick leaves out more than law 6 allows.
    #[must_use]
    pub fn after(&self, sight: &Sight<'_>) -> Reach {
        let routable = |id: &NodeId| {
            let member = sight.membership.member(id);
            member.is_some_and(|member| member.standing.liveness.is_routable())
        };
        let mut next = self.clone();
        next.silent.retain(|id, _| routable(id));
        next.unreachable.retain(|id| routable(id));
        for (subject, contact) in sight.contacts.iter().filter(|(s, _)| s.service.is_none()) {
            let id = &subject.node;
            match contact.sign() {
                Sign::Good => {
                    next.silent.remove(id);
                    next.unreachable.remove(id);
                }
                // A gateway answers there: whether it serves is for those to say who ask its services.
                Sign::Bad if contact.is_only_gateway() => {
                    next.silent.remove(id);
                    next.unreachable.remove(id);
                }
                Sign::Bad if sight.counts && routable(id) => {
                    let silent = next.silent.entry(id.clone()).or_insert(0);
                    *silent = silent.saturating_add(1);
                }
                Sign::Bad | Sign::Neither => {}
            }
        }
        let mut due: Vec<(&NodeId, u64)> = next
            .silent
            .iter()
            .filter(|(id, silent)| **silent >= sight.ticks_max && !next.unreachable.contains(*id))
            .map(|(id, silent)| (id, *silent))
            .collect();
        // The longest silent first; equal ones by id, so that every replay agrees.
        due.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        due.truncate(withdrawals_max(sight.membership.routable()));
        let due: Vec<NodeId> = due.into_iter().map(|(id, _)| id.clone()).collect();
        if sight.counts {
            next.unreachable.extend(due);
        }
        next
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
            let row = Row {
                host: "192.0.2.1".into(),
                port: 80,
                role: "edge".into(),
                state: "active".into(),
            };
            let change =
                RosterChange { node: id(name), incarnation: Incarnation::FIRST, row: Some(row) };
            membership.list(change, 0);
        }
        membership
    }

    fn silent(names: &[&str]) -> BTreeMap<Subject, Contact> {
        let failed = Outcome::Failed { reason: "timeout".into(), heard: false, ms: 1 };
        names.iter().map(|name| (Subject::node(&id(name)), failed.clone().into())).collect()
    }

    #[test]
    fn silence_waits_for_its_ticks_and_one_answer_ends_it() {
        let membership = table(&["a", "b", "c"]);
        let outcomes = silent(&["a"]);
        let sight =
            Sight { membership: &membership, contacts: &outcomes, counts: true, ticks_max: 3 };
        let mut reach = Reach::default();
        for tick in 1..=3 {
            reach = reach.after(&sight);
            assert_eq!(reach.unreachable.contains(&id("a")), tick == 3, "tick {tick}");
        }
        let answered = BTreeMap::from([(
            Subject::node(&id("a")),
            Outcome::Answered { http: 200, ms: 1 }.into(),
        )]);
        reach = reach.after(&Sight { contacts: &answered, ..sight });
        assert_eq!(reach, Reach::default());
    }

    #[test]
    fn a_blind_tick_counts_nothing_and_the_cap_holds() {
        let membership = table(&["a", "b", "c"]);
        let outcomes = silent(&["a", "b", "c"]);
        let sight =
            Sight { membership: &membership, contacts: &outcomes, counts: false, ticks_max: 1 };
        assert_eq!(Reach::default().after(&sight), Reach::default());
        let one = Reach::default().after(&Sight { counts: true, ..sight });
        assert_eq!(one.unreachable.len(), 1);
        assert_eq!(one.after(&Sight { counts: true, ..sight }).unreachable.len(), 2);
    }

    #[test]
    fn whoever_is_gone_from_the_journal_is_forgotten() {
        let reach = Reach {
            silent: BTreeMap::from([(id("x"), 9)]),
            unreachable: BTreeSet::from([id("x")]),
        };
        let membership = table(&["a"]);
        let outcomes = BTreeMap::new();
        let sight =
            Sight { membership: &membership, contacts: &outcomes, counts: true, ticks_max: 1 };
        assert_eq!(reach.after(&sight), Reach::default());
    }
}
