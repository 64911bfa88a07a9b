//! What members have told lately, read from disk for the rules in `protocol::hearsay`, and quoted
//! in the lines that rest on it.

use super::observing;
use crate::journal::merkle::Hash;
use crate::journal::record::Evidence;
use crate::journal::statement::{Observe, Saw};
use crate::protocol::contact::{Contact, Sign};
use crate::protocol::hearsay::{self as rules, Told};
use crate::protocol::member::NodeId;
use crate::protocol::membership::Membership;
use crate::protocol::memory::Memory;
use crate::protocol::probe::Outcome;
use crate::protocol::subject::Subject;
use crate::protocol::verdict::Witnesses;
use crate::store::disk::Disk;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of observations that a line quotes (design section 5).
const QUOTED_BYTES_MAX: usize = 12_000;

/// The fresh observations of a tick.
#[derive(Clone, Debug, Default)]
pub(super) struct Hearsay {
    told: BTreeMap<NodeId, Told>,
    /// As they were signed.
    texts: BTreeMap<NodeId, String>,
}

impl Hearsay {
    /// Reads what members have told, and notes in `memory` when each last did.
    pub(super) fn gather(disk: &Disk<'_>, membership: &Membership, memory: &mut Memory) -> Hearsay {
        let mut hearsay = Hearsay::default();
        let speaking = membership
            .members()
            .filter(|(_, member)| member.enrolled && member.standing.liveness.may_answer());
        for (id, _) in speaking {
            let path = disk.layout.observation(id.as_str());
            let Some(kept) = disk.read(&path).ok().flatten() else { continue };
            let Some(observe) = observing::read(&kept) else { continue };
            if rules::note(memory, id, (observe.ts, observe.tick)) {
                hearsay.told.insert(id.clone(), counted(&observe));
                hearsay.texts.insert(id.clone(), String::from_utf8_lossy(&kept).into_owned());
            }
        }
        memory.observed.retain(|id, _| membership.member(id).is_some());
        hearsay
    }

    /// Whether a member has spoken lately.
    pub(super) fn fresh(&self, id: &NodeId) -> bool {
        self.told.contains_key(id)
    }

    /// Who failed to reach whom.
    pub(super) fn accusers(&self, membership: &Membership) -> BTreeMap<NodeId, BTreeSet<NodeId>> {
        rules::accusers(&self.told, membership)
    }

    /// What those we hear say of those we do not.
    pub(super) fn witnesses(
        &self,
        membership: &Membership,
        contacts: &BTreeMap<Subject, Contact>,
    ) -> Witnesses {
        rules::witnesses(&self.told, membership, contacts)
    }

    /// Adds what observations say of subjects: a fresh word beside our own question, and all there
    /// is of members that nobody can dial.
    pub(super) fn speak(
        &self,
        membership: &Membership,
        memory: &Memory,
        contacts: &mut BTreeMap<Subject, Contact>,
    ) {
        rules::speak(memory, contacts);
        let outbound = membership.members().filter(|(_, member)| {
            member.enrolled && member.outbound && member.standing.liveness.may_answer()
        });
        for (id, _) in outbound {
            let outcome = match (self.fresh(id), memory.observed.contains_key(id)) {
                (true, _) => Outcome::Answered { http: 202, ms: 0 },
                (false, true) => {
                    Outcome::Failed { reason: "no-observation".to_owned(), heard: false, ms: 0 }
                }
                // It may not have had its first tick yet.
                (false, false) => continue,
            };
            contacts.insert(Subject::node(id), outcome.into());
        }
    }

    /// The evidence about a subject with the observations that accuse it.
    pub(super) fn evidence(
        &self,
        subject: &Subject,
        contact: Option<&Contact>,
        (target, accusers): (String, &BTreeSet<NodeId>),
    ) -> Evidence {
        let (mut observations, mut hashes, mut bytes) = (Vec::new(), Vec::new(), 0);
        let good = contact.is_some_and(|contact| contact.sign() == Sign::Good);
        let quoted = accusers.iter().filter(|_| subject.service.is_none() && !good);
        for text in quoted.filter_map(|accuser| self.texts.get(accuser)) {
            bytes += text.len() * 2;
            if bytes <= QUOTED_BYTES_MAX {
                observations.push(text.clone());
            } else {
                hashes.push(Hash(Sha256::digest(text).into()));
            }
        }
        Evidence {
            target,
            probe: contact.map(|contact| contact.outcome.clone()),
            helped: contact.map(|contact| contact.helped.clone()).unwrap_or_default(),
            accusers: accusers.iter().cloned().collect(),
            observations,
            observation_hashes: hashes,
        }
    }
}

/// What counts of an observation.
fn counted(observe: &Observe) -> Told {
    let missed = observe.seen.iter().filter(|sighting| sighting.saw != Saw::Answered);
    Told {
        health: observe.health,
        missed: missed.map(|sighting| (sighting.node.clone(), sighting.inc)).collect(),
    }
}
