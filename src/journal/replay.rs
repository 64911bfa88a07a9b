//! The fold: journal lines in order, state out. Whole federations replay from bytes alone.

use super::line::Line;

use super::record::{Genesis, Record};
use crate::auth::vkey::VerifierKey;
use crate::auth::{keys, pae};
use crate::protocol::member::NodeId;
use crate::protocol::membership::Membership;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A node's key as enrolled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRecord {
    /// `ed25519`.
    pub alg: String,
    /// Public key, padded base64.
    pub key: String,
}

/// Everything the journal says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fold {
    /// The federation and its anchor.
    pub genesis: Option<Genesis>,
    /// All members and roster rows.
    pub membership: Membership,
    /// The key that speaks for each enrolled node.
    pub keys: BTreeMap<NodeId, KeyRecord>,
    /// Lines kept but not understood: written by a newer version.
    pub not_understood: u64,
}

impl Fold {
    /// Takes in the next line.
    pub fn apply(&mut self, line: &Line) {
        let seq = line.seq;
        match Record::of(line) {
            Record::Genesis(genesis) => self.genesis = Some(genesis),
            Record::Enroll(enroll) => {
                self.membership.enrol(&enroll.node, seq);
                let key = KeyRecord { alg: enroll.alg, key: enroll.key };
                self.keys.insert(enroll.node, key);
            }
            Record::Register(register) => self.membership.register(register.into(), seq),
            Record::Roster(roster) => self.membership.list(roster.into(), seq),
            Record::Verdict(verdict) => {
                self.membership.judge(&verdict.node, verdict.standing(), seq);
            }
            Record::Unknown => self.not_understood += 1,
        }
    }

    /// Checks, before [`Fold::apply`], that a line carries the signature its kind asks for.
    pub fn check_author(&self, line: &Line) -> Result<(), String> {
        let (name, key) = match Record::of(line) {
            Record::Genesis(genesis) => {
                let vkey = VerifierKey::parse(&genesis.vkey).map_err(|e| e.to_string())?;
                (genesis.origin, *vkey.key())
            }
            Record::Register(register) => {
                let held = self.keys.get(&register.node).ok_or_else(|| {
                    format!("no key of {} is enrolled before this line", register.node)
                })?;
                (register.node.to_string(), keys::parse_public(&held.key)?)
            }
            _ => return Ok(()),
        };
        let author = line.author.as_ref().ok_or("this kind of line must be signed")?;
        if author.alg != keys::ED25519 || author.kid != keys::kid(&name, &key) {
            return Err(format!(
                "signed with {} key {}, which is not the one enrolled",
                author.alg, author.kid
            ));
        }
        if !keys::verify(&key, &pae::encode(&line.kind, &line.payload), &author.sig) {
            return Err("the signature does not fit the payload".to_owned());
        }
        Ok(())
    }
}
