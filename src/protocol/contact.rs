//! Everything one tick learnt of one subject: its own question, and what helpers said.
//!
//! A failed question is a sign against the subject only where nothing speaks for it: a helper that
//! reached it, or its own fresh word. Whoever tells the anchor what it sees lives, if only the way
//! to it is broken (serf#216: dead by ping and back by sync every 30 s; grafana/dskit PR 1034: a
//! proxy that breaks direct and indirect paths at once). Whether its services are reached is asked
//! of them.

use super::member::NodeId;
use super::probe::Outcome;
use super::subject::Subject;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The reason word of an answer that is not the node's own: unsigned, or signed wrongly.
pub const UNSIGNED: &str = "unsigned";

/// Ticks for which a member's own word stands against an answer that is only its gateway's.
pub const SPEAKS_BEHIND_GATEWAY: u64 = 2;
/// Ticks for which it stands against silence: fewer, for the dead were alive a moment ago.
pub const SPEAKS_AGAINST_SILENCE: u64 = 1;

/// What a helper said of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Said {
    /// It brought the subject's own signed answer.
    Reached,
    /// It answered us, and could not reach the subject either.
    CouldNot,
    /// It did not answer us.
    Silent,
}

/// One helper's word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Help {
    /// Who was asked.
    pub helper: NodeId,
    /// What came of it.
    pub said: Said,
    /// The reason it gave, where it could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What one tick learnt of one subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    /// Our own question.
    pub outcome: Outcome,
    /// What helpers said, where it failed.
    pub helped: Vec<Help>,
    /// How many ticks ago the subject's own signed observation was new.
    pub spoke: Option<u64>,
}

/// What a contact says of its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// It lives.
    Good,
    /// It does not answer.
    Bad,
    /// Neither: our own trouble, or a gateway that answers for a node which speaks elsewhere.
    Neither,
}

impl From<Outcome> for Contact {
    fn from(outcome: Outcome) -> Contact {
        Contact { outcome, helped: Vec::new(), spoke: None }
    }
}

impl Contact {
    /// What it says.
    pub fn sign(&self) -> Sign {
        let reached = self.helped.iter().any(|help| help.said == Said::Reached);
        if self.outcome.is_success() || reached {
            return Sign::Good;
        }
        let stands =
            if self.is_only_gateway() { SPEAKS_BEHIND_GATEWAY } else { SPEAKS_AGAINST_SILENCE };
        if self.outcome.is_local() || self.spoke.is_some_and(|ago| ago <= stands) {
            return Sign::Neither;
        }
        Sign::Bad
    }

    /// Whether the subject lives and only the way to it is broken.
    pub fn path_is_broken(&self) -> bool {
        !self.outcome.is_local() && !self.outcome.is_success() && self.sign() == Sign::Neither
    }

    /// Whether something answers in front of the subject, and it is not the subject.
    pub fn is_only_gateway(&self) -> bool {
        matches!(&self.outcome, Outcome::Failed { reason, .. } if reason == UNSIGNED)
    }

    /// Whether our own path is at fault: others reach whom we do not.
    pub fn others_reach(&self) -> bool {
        !self.outcome.is_success() && self.helped.iter().any(|help| help.said == Said::Reached)
    }
}

/// Whether a service says nothing of itself: its node failed in the same tick, and goes first, or
/// it is silent only because our own way to a node that lives is broken.
pub fn is_excused(subject: &Subject, contacts: &BTreeMap<Subject, Contact>) -> bool {
    let node = contacts.get(&Subject::node(&subject.node));
    let (Some(_), Some(node), Some(contact)) = (&subject.service, node, contacts.get(subject))
    else {
        return false;
    };
    let unheard = !contact.outcome.was_heard();
    node.sign() == Sign::Bad || unheard && (node.others_reach() || node.path_is_broken())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contact(reason: &str, said: &[Said], spoke: Option<u64>) -> Contact {
        let helper = NodeId::parse("h").expect("an id");
        let helped =
            said.iter().map(|said| Help { helper: helper.clone(), said: *said, reason: None });
        let outcome = Outcome::Failed { reason: reason.into(), heard: false, ms: 1 };
        Contact { outcome, helped: helped.collect(), spoke }
    }

    #[test]
    fn one_helper_that_reached_it_outweighs_all_silence() {
        use Said::{CouldNot, Reached, Silent};
        assert_eq!(contact("timeout", &[], None).sign(), Sign::Bad);
        assert_eq!(contact("timeout", &[CouldNot, Silent, CouldNot], None).sign(), Sign::Bad);
        let reached = contact("timeout", &[CouldNot, Reached, Silent], None);
        assert_eq!((reached.sign(), reached.others_reach()), (Sign::Good, true));
    }

    #[test]
    fn whoever_speaks_is_not_accused_for_a_broken_way() {
        for (reason, spoke, want) in [
            (UNSIGNED, Some(2), Sign::Neither),
            (UNSIGNED, Some(3), Sign::Bad),
            ("timeout", Some(1), Sign::Neither),
            ("timeout", Some(2), Sign::Bad),
            ("local", None, Sign::Neither),
        ] {
            assert_eq!(contact(reason, &[], spoke).sign(), want, "{reason} {spoke:?}");
        }
        assert!(contact("timeout", &[], Some(0)).path_is_broken());
        assert!(!contact("local", &[], Some(0)).path_is_broken());
    }
}
