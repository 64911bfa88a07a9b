//! Local health (Lifeguard's LHM): how much an observer should distrust itself, 0 to 8.
//!
//! It rises when others reach whom we do not, when helpers that we can hear stay silent, when we
//! had to refute, when our own machine fails us; it falls with every tick that shows none of it.
//! The unhealthy wait longer before they bury anybody, and do not count as accusers.

use super::contact::{Contact, Help, Said, Sign};
use super::member::NodeId;
use super::subject::Subject;
use std::collections::BTreeMap;

/// The worst health.
pub const WORST: u64 = 8;
/// Up to here a member's accusations count.
pub const ACCUSES_MAX: u64 = 1;

/// The health after a tick.
pub fn after(
    health: u64,
    contacts: &BTreeMap<Subject, Contact>,
    (blind, refuted): (bool, bool),
) -> u64 {
    let troubled = blind || refuted || contacts.values().any(|contact| is_ours(contact, contacts));
    if troubled { (health + 1).min(WORST) } else { health.saturating_sub(1) }
}

/// Whether a failed question speaks against ourselves. A helper's silence does only if we heard
/// that helper in this very tick: a dead one is no sign of anything.
fn is_ours(contact: &Contact, contacts: &BTreeMap<Subject, Contact>) -> bool {
    let heard = |helper: &NodeId| {
        contacts.get(&Subject::node(helper)).is_some_and(|other| other.sign() == Sign::Good)
    };
    let silent = |help: &Help| help.said == Said::Silent && heard(&help.helper);
    contact.outcome.is_local() || contact.others_reach() || contact.helped.iter().any(silent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::probe::Outcome;

    fn id(name: &str) -> NodeId {
        NodeId::parse(name).expect("an id")
    }

    fn contacts(said: Said, helper_answers: bool) -> BTreeMap<Subject, Contact> {
        let failed = |reason: &str| Outcome::Failed { reason: reason.into(), heard: false, ms: 1 };
        let helper = match helper_answers {
            true => Outcome::Answered { http: 200, ms: 1 },
            false => failed("timeout"),
        };
        let mut dead = Contact::from(failed("timeout"));
        dead.helped.push(Help { helper: id("h"), said, reason: None });
        BTreeMap::from([
            (Subject::node(&id("d")), dead),
            (Subject::node(&id("h")), Contact::from(helper)),
        ])
    }

    #[test]
    fn only_what_speaks_against_ourselves_makes_us_unwell() {
        let nothing = (false, false);
        assert_eq!(after(3, &contacts(Said::CouldNot, true), nothing), 2);
        assert_eq!(after(3, &contacts(Said::Silent, false), nothing), 2, "the helper is dead");
        assert_eq!(after(3, &contacts(Said::Silent, true), nothing), 4);
        assert_eq!(after(3, &contacts(Said::Reached, true), nothing), 4);
        assert_eq!(after(8, &BTreeMap::new(), (true, false)), 8);
        assert_eq!(after(0, &BTreeMap::new(), nothing), 0);
        assert_eq!(after(0, &BTreeMap::new(), (false, true)), 1);
    }
}
