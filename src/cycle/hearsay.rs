//! What members have told lately: whom they failed to reach, and that they live.
//!
//! Observations are of the ticks before; two ticks make one old. Only the healthy accuse, and only
//! at the incarnation that the journal holds now, so nobody is doubted for what it refuted already.

use super::observing;
use crate::journal::merkle::Hash;
use crate::journal::record::Evidence;
use crate::journal::statement::{Observe, Saw};
use crate::protocol::contact::{Contact, Sign};
use crate::protocol::health::ACCUSES_MAX;
use crate::protocol::member::{Liveness, NodeId};
use crate::protocol::membership::Membership;
use crate::protocol::memory::{Memory, Observed};
use crate::protocol::probe::Outcome;
use crate::protocol::subject::Subject;
use crate::protocol::verdict::Witnesses;
use crate::store::disk::Disk;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// Ticks for which an observation speaks.
const TICKS_FRESH: u64 = 2;
/// Bytes of observations that a line quotes (design section 5).
const QUOTED_BYTES_MAX: usize = 12_000;

/// The fresh observations of a tick.
#[derive(Clone, Debug, Default)]
pub(super) struct Hearsay {
    told: BTreeMap<NodeId, (Observe, String)>,
}

impl Hearsay {
    /// Reads what members have told, and notes in `memory` when each last did.
    pub(super) fn gather(disk: &Disk<'_>, membership: &Membership, memory: &mut Memory) -> Hearsay {
        let mut told = BTreeMap::new();
        let speaking = membership
            .members()
            .filter(|(_, member)| member.enrolled && member.standing.liveness.may_answer());
        for (id, _) in speaking {
            let path = disk.layout.observation(id.as_str());
            let Some(kept) = disk.read(&path).ok().flatten() else { continue };
            let Some(observe) = observing::read(&kept) else { continue };
            let new = Observed { ts: observe.ts, theirs: observe.tick, tick: memory.tick };
            let seen = memory.observed.entry(id.clone()).or_insert(new);
            if (seen.ts, seen.theirs) != (new.ts, new.theirs) {
                *seen = new;
            }
            if seen.tick + TICKS_FRESH >= memory.tick {
                told.insert(id.clone(), (observe, String::from_utf8_lossy(&kept).into_owned()));
            }
        }
        memory.observed.retain(|id, _| membership.member(id).is_some());
        Hearsay { told }
    }

    /// Whether a member has spoken lately.
    pub(super) fn fresh(&self, id: &NodeId) -> bool {
        self.told.contains_key(id)
    }

    /// Who failed to reach whom.
    pub(super) fn accusers(&self, membership: &Membership) -> BTreeMap<NodeId, BTreeSet<NodeId>> {
        let mut accusers: BTreeMap<NodeId, BTreeSet<NodeId>> = BTreeMap::new();
        for (id, (observe, _)) in &self.told {
            let alive = membership
                .member(id)
                .is_some_and(|member| member.standing.liveness == Liveness::Alive);
            if !alive || observe.health > ACCUSES_MAX {
                continue;
            }
            for node in missed(observe, membership) {
                accusers.entry(node.clone()).or_default().insert(id.clone());
            }
        }
        accusers
    }

    /// What those we hear say of those we do not.
    pub(super) fn witnesses(
        &self,
        membership: &Membership,
        contacts: &BTreeMap<Subject, Contact>,
    ) -> Witnesses {
        let unheard: Vec<&NodeId> = contacts
            .iter()
            .filter(|(subject, contact)| subject.service.is_none() && !contact.outcome.was_heard())
            .map(|(subject, _)| &subject.node)
            .collect();
        let mut witnesses = Witnesses::default();
        for (id, (observe, _)) in &self.told {
            let heard = contacts.get(&Subject::node(id));
            if !heard.is_some_and(|contact| contact.outcome.was_heard())
                || observe.health > ACCUSES_MAX
            {
                continue;
            }
            witnesses.askable += 1;
            let missed = missed(observe, membership).filter(|node| unheard.contains(node)).count();
            witnesses.agreeing += u64::from(missed * 2 > unheard.len());
        }
        witnesses
    }

    /// Adds what observations say of subjects: a fresh word beside our own question, and all there
    /// is of members that nobody can dial.
    pub(super) fn speak(
        &self,
        membership: &Membership,
        memory: &Memory,
        contacts: &mut BTreeMap<Subject, Contact>,
    ) {
        for (subject, contact) in
            contacts.iter_mut().filter(|(subject, _)| subject.service.is_none())
        {
            let seen = memory.observed.get(&subject.node);
            contact.spoke = seen.map(|seen| memory.tick.saturating_sub(seen.tick));
        }
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
        for (_, text) in quoted.filter_map(|accuser| self.told.get(accuser)) {
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

/// Members that an observation misses, at the incarnation that holds now.
fn missed<'a>(
    observe: &'a Observe,
    membership: &'a Membership,
) -> impl Iterator<Item = &'a NodeId> {
    let failed = observe.seen.iter().filter(|sighting| {
        let held = membership.member(&sighting.node);
        let current = held.is_some_and(|held| held.standing.incarnation == sighting.inc);
        sighting.saw != Saw::Answered && current && sighting.node != observe.node
    });
    failed.map(|sighting| &sighting.node)
}
