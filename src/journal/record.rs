//! What a line means: the typed payloads of the kinds this version folds.
//!
//! Payloads are written with sorted keys and no spaces. A payload that does not read is not an
//! error of the journal: its bytes are chained and signed, we merely do not understand it.

pub use super::evidence::{Evidence, VerdictRecord};
use super::line::{Line, VERSION};
pub use super::merged::{Merge, Merged};
use super::merkle::Hash;
use super::statement::OUTBOUND;
pub use super::statement::{Drain, Leave, Register, Rotate};
use crate::auth::pae;
use crate::protocol::member::{INTEGER_MAX, Incarnation, NodeId};
use crate::protocol::membership::Registration;
use crate::protocol::roster::{RosterChange, Row};
use crate::protocol::service::ServiceName;
use serde::{Deserialize, Serialize};

/// `genesis`: names the federation and its first keys; signed by the log key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Genesis {
    /// The federation's name for ever.
    pub origin: String,
    /// Id of the anchor's node.
    pub anchor: NodeId,
    /// Log key as a C2SP verifier key.
    pub vkey: String,
    /// Recovery key, which may name another log key later.
    pub recovery: String,
    /// Seconds since 1970.
    pub created: u64,
}

/// `enroll`: from here on this key speaks for this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enroll {
    /// Whose key.
    pub node: NodeId,
    /// `ed25519` or `hmac-sha256`.
    pub alg: String,
    /// Signed-note key id of (node id, 0x01, key), hex.
    pub kid: String,
    /// Public key, padded base64; absent for a shared key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// SHA-256 of the invitation's secret: this line is what burns it. Absent for the founder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invite: Option<String>,
    /// The nonce it was burned with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
    /// Services the invitation binds to this node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ServiceName>,
}

/// `anchor`: another log key signs checkpoints from here on; signed by the one before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Anchor {
    /// For which federation.
    pub origin: String,
    /// One more than before; the highest wins.
    pub epoch: u64,
    /// The log's verifier key from now on.
    pub vkey: String,
    /// Lines under the checkpoint it follows on.
    pub size: u64,
    /// Their root.
    pub root: Hash,
    /// Signature by the new key over [`Anchor::possession`].
    pub proof: String,
    /// Who serialises from here on, where that is another node than before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<NodeId>,
    /// Where it answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<String>,
}

impl Anchor {
    /// What the new key signs to show that it is held.
    pub fn possession(origin: &str, epoch: u64, vkey: &str) -> Vec<u8> {
        pae::encode("anchor-possession", &format!("{origin}\n{epoch}\n{vkey}\n"))
    }
}

/// `grant`: the operator binds a service name to a node, or takes that back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Which name.
    pub service: ServiceName,
    /// Who may offer it.
    pub node: NodeId,
    /// Whether it may from now on.
    pub on: bool,
}

/// `revoke`: the operator ends a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revoke {
    /// Whose key.
    pub node: NodeId,
    /// Which key.
    pub kid: String,
}

/// `roster`: a keyless row appeared, changed or went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RosterRecord {
    /// Which peer.
    pub node: NodeId,
    /// Its incarnation from now on.
    pub inc: Incarnation,
    /// The row; absent when it left the roster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<Row>,
}

/// `reap`: a member was dead for so long that it no longer counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reap {
    /// Whom it concerns.
    pub node: NodeId,
    /// At which incarnation.
    pub inc: Incarnation,
    /// Executed ticks in which it was dead.
    pub ticks: u64,
    /// Executed tick number.
    pub tick: u64,
}

/// A line's meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// See [`Genesis`].
    Genesis(Genesis),
    /// See [`Enroll`].
    Enroll(Enroll),
    /// See [`Register`].
    Register(Register),
    /// See [`Leave`].
    Leave(Leave),
    /// See [`Drain`].
    Drain(Drain),
    /// See [`Rotate`].
    Rotate(Rotate),
    /// See [`Anchor`].
    Anchor(Anchor),
    /// See [`Grant`].
    Grant(Grant),
    /// See [`Revoke`].
    Revoke(Revoke),
    /// See [`RosterRecord`].
    Roster(RosterRecord),
    /// See [`VerdictRecord`].
    Verdict(VerdictRecord),
    /// See [`Reap`].
    Reap(Reap),
    /// See [`Merge`].
    Merge(Merge),
    /// See [`Merged`].
    Merged(Box<Merged>),
    /// A kind or version this program does not fold.
    Unknown,
}

impl Record {
    /// Reads the meaning of a payload that a request of `kind` carries.
    pub fn read(kind: &str, payload: &str) -> Record {
        Record::typed(kind, payload).unwrap_or(Record::Unknown)
    }

    /// Reads the meaning of a line.
    pub fn of(line: &Line) -> Record {
        if line.version != VERSION {
            return Record::Unknown;
        }
        Record::read(&line.kind, &line.payload)
    }

    fn typed(kind: &str, payload: &str) -> Option<Record> {
        match kind {
            "genesis" => read(payload).map(Record::Genesis),
            "enroll" => read(payload).map(Record::Enroll),
            "register" => read(payload).map(Record::Register),
            "leave" => read(payload).map(Record::Leave),
            "drain" => read(payload).map(Record::Drain),
            "rotate" => read(payload).map(Record::Rotate),
            "anchor" => read(payload).map(Record::Anchor),
            "grant" => read(payload).map(Record::Grant),
            "revoke" => read(payload).map(Record::Revoke),
            "roster" => read(payload).map(Record::Roster),
            "verdict" => read(payload).map(Record::Verdict),
            "reap" => read(payload).map(Record::Reap),
            "merge" => read(payload).map(Record::Merge),
            "merged" => Merged::read(payload).map(Box::new).map(Record::Merged),
            _ => None,
        }
    }

    /// The line's `type`.
    pub fn kind(&self) -> &'static str {
        match self {
            Record::Genesis(_) => "genesis",
            Record::Enroll(_) => "enroll",
            Record::Register(_) => "register",
            Record::Leave(_) => "leave",
            Record::Drain(_) => "drain",
            Record::Rotate(_) => "rotate",
            Record::Anchor(_) => "anchor",
            Record::Grant(_) => "grant",
            Record::Revoke(_) => "revoke",
            Record::Roster(_) => "roster",
            Record::Verdict(_) => "verdict",
            Record::Reap(_) => "reap",
            Record::Merge(_) => "merge",
            Record::Merged(_) => "merged",
            Record::Unknown => "unknown",
        }
    }

    /// The payload with sorted keys.
    pub fn payload(&self) -> String {
        match self {
            Record::Genesis(genesis) => write(genesis),
            Record::Enroll(enroll) => write(enroll),
            Record::Register(register) => write(register),
            Record::Leave(leave) => write(leave),
            Record::Drain(drain) => write(drain),
            Record::Rotate(rotate) => write(rotate),
            Record::Anchor(anchor) => write(anchor),
            Record::Grant(grant) => write(grant),
            Record::Revoke(revoke) => write(revoke),
            Record::Roster(roster) => write(roster),
            Record::Verdict(verdict) => write(verdict),
            Record::Reap(reap) => write(reap),
            Record::Merge(merge) => write(merge),
            Record::Merged(merged) => merged.payload(),
            Record::Unknown => "{}".to_owned(),
        }
    }

    /// The member a line is about.
    pub fn node(&self) -> Option<&NodeId> {
        match self {
            Record::Genesis(genesis) => Some(&genesis.anchor),
            Record::Enroll(enroll) => Some(&enroll.node),
            Record::Register(register) => Some(&register.node),
            Record::Leave(leave) => Some(&leave.node),
            Record::Drain(drain) => Some(&drain.node),
            Record::Rotate(rotate) => Some(&rotate.node),
            Record::Grant(grant) => Some(&grant.node),
            Record::Revoke(revoke) => Some(&revoke.node),
            Record::Roster(roster) => Some(&roster.node),
            Record::Verdict(verdict) => Some(&verdict.node),
            Record::Reap(reap) => Some(&reap.node),
            Record::Merged(merged) => merged.node(),
            // Says who brought a branch, nothing about anybody.
            Record::Merge(_) | Record::Anchor(_) | Record::Unknown => None,
        }
    }
}

impl From<RosterChange> for RosterRecord {
    fn from(change: RosterChange) -> Self {
        RosterRecord { node: change.node, inc: change.incarnation, row: change.row }
    }
}

impl From<RosterRecord> for RosterChange {
    fn from(record: RosterRecord) -> Self {
        RosterChange { node: record.node, incarnation: record.inc, row: record.row }
    }
}

impl From<Register> for Registration {
    fn from(register: Register) -> Self {
        Registration {
            node: register.node,
            incarnation: register.incarnation,
            urls: register.urls,
            services: register.services,
            outbound: register.reach == OUTBOUND,
        }
    }
}

fn read<'a, T: Deserialize<'a>>(payload: &'a str) -> Option<T> {
    serde_json::from_str(payload).ok()
}

fn write<T: Serialize>(record: &T) -> String {
    // Through a Value, whose map is sorted, so declaration order can follow meaning.
    let value = serde_json::to_value(record).expect("records have string keys only");
    debug_assert!(integers_fit(&value), "records hold integers up to 2^53-1 only");
    value.to_string()
}

fn integers_fit(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Number(number) => number.as_u64().is_some_and(|n| n <= INTEGER_MAX),
        serde_json::Value::Array(items) => items.iter().all(integers_fit),
        serde_json::Value::Object(fields) => fields.values().all(integers_fit),
        _ => true,
    }
}
