//! Everything one tick learnt of one subject: its own question, and what helpers said.
//!
//! A failed question is a sign against the subject only where nothing speaks for it: a helper that
//! reached it, or its own fresh word while only the gateway in front answers (grafana/dskit PR
//! 1034: a proxy that breaks direct and indirect paths at once).

use super::member::NodeId;
use super::probe::Outcome;
use serde::{Deserialize, Serialize};

/// The reason word of an answer that is not the node's own: unsigned, or signed wrongly.
pub const UNSIGNED: &str = "unsigned";

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
    /// Whether the subject's own signed observation is at most two ticks old.
    pub fresh: bool,
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
        Contact { outcome, helped: Vec::new(), fresh: false }
    }
}

impl Contact {
    /// What it says.
    pub fn sign(&self) -> Sign {
        let reached = self.helped.iter().any(|help| help.said == Said::Reached);
        if self.outcome.is_success() || reached {
            return Sign::Good;
        }
        let only_gateway =
            matches!(&self.outcome, Outcome::Failed { reason, .. } if reason == UNSIGNED);
        if self.outcome.is_local() || (only_gateway && self.fresh) {
            return Sign::Neither;
        }
        Sign::Bad
    }

    /// Whether our own path is at fault: others reach whom we do not.
    pub fn others_reach(&self) -> bool {
        !self.outcome.is_success() && self.helped.iter().any(|help| help.said == Said::Reached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contact(reason: &str, said: &[Said], fresh: bool) -> Contact {
        let helper = NodeId::parse("h").expect("an id");
        let helped =
            said.iter().map(|said| Help { helper: helper.clone(), said: *said, reason: None });
        let outcome = Outcome::Failed { reason: reason.into(), heard: false, ms: 1 };
        Contact { outcome, helped: helped.collect(), fresh }
    }

    #[test]
    fn one_helper_that_reached_it_outweighs_all_silence() {
        use Said::{CouldNot, Reached, Silent};
        assert_eq!(contact("timeout", &[], false).sign(), Sign::Bad);
        assert_eq!(contact("timeout", &[CouldNot, Silent, CouldNot], false).sign(), Sign::Bad);
        let reached = contact("timeout", &[CouldNot, Reached, Silent], false);
        assert_eq!((reached.sign(), reached.others_reach()), (Sign::Good, true));
    }

    #[test]
    fn a_gateway_that_answers_for_a_speaking_node_accuses_nobody() {
        assert_eq!(contact(UNSIGNED, &[], true).sign(), Sign::Neither);
        assert_eq!(contact(UNSIGNED, &[], false).sign(), Sign::Bad);
        assert_eq!(contact("timeout", &[], true).sign(), Sign::Bad);
        assert_eq!(contact("local", &[], false).sign(), Sign::Neither);
    }
}
