//! A verdict as a line: what changed for whom, and what it rests on.

use super::merkle::Hash;
use crate::protocol::contact::Help;
use crate::protocol::member::{Incarnation, Liveness, NodeId, Standing};
use crate::protocol::probe::Outcome;
use crate::protocol::service::ServiceName;
use crate::protocol::verdict::Verdict;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `verdict`: a change of standing and the evidence for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerdictRecord {
    /// Whom it concerns.
    pub node: NodeId,
    /// Which of its services; absent where the node itself is judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceName>,
    /// At which incarnation.
    pub inc: Incarnation,
    /// Liveness before.
    pub from: Liveness,
    /// Liveness from now on.
    pub to: Liveness,
    /// By which rule.
    pub rule: String,
    /// Failed healthy ticks counted.
    pub waited: u64,
    /// Failed healthy ticks the rule asks for.
    pub needed: u64,
    /// Executed tick number.
    pub tick: u64,
    /// What was seen.
    pub evidence: Evidence,
    /// Service → who takes over; on death only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub heirs: BTreeMap<String, Vec<NodeId>>,
    /// Services without an heir; on death only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_heir: Vec<String>,
}

/// What a verdict rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The address that was probed.
    pub target: String,
    /// The anchor's own probe; absent where it did not ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<Outcome>,
    /// What helpers said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub helped: Vec<Help>,
    /// Everybody who failed to reach it, the anchor included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accusers: Vec<NodeId>,
    /// Signed observations that accuse it, verbatim, as many as fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observations: Vec<String>,
    /// SHA-256 of those that did not fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observation_hashes: Vec<Hash>,
}

impl VerdictRecord {
    /// The record of a verdict reached in `tick` on this evidence.
    pub fn new(verdict: Verdict, tick: u64, evidence: Evidence) -> Self {
        VerdictRecord {
            node: verdict.subject.node,
            service: verdict.subject.service,
            inc: verdict.to.incarnation,
            from: verdict.from,
            to: verdict.to.liveness,
            rule: verdict.rule.name().to_owned(),
            waited: verdict.waited,
            needed: verdict.needed,
            tick,
            evidence,
            heirs: verdict.heirs.by_service,
            no_heir: verdict.heirs.no_heir,
        }
    }

    /// The standing it declares.
    pub fn standing(&self) -> Standing {
        Standing { liveness: self.to, incarnation: self.inc }
    }
}
