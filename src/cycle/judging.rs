//! From what a tick saw to the lines that say what it decided.

use super::admission::refutation;
use super::hearsay::Hearsay;
use super::plan::Plan;
use super::probing::Learnt;
use super::tick::Report;
use crate::config::Config;
use crate::journal::chain::Tip;
use crate::journal::line::ANCHOR_BYTES_MAX;
use crate::journal::merkle::Hash;
use crate::journal::record::{Reap, Record, RosterRecord, VerdictRecord};
use crate::protocol::blind::Pulse;
use crate::protocol::contact::Contact;
use crate::protocol::membership::Membership;
use crate::protocol::memory::Memory;
use crate::protocol::roster;
use crate::protocol::subject::Subject;
use crate::protocol::verdict::{Decision, Round, decide};
use crate::store::disk::Disk;
use crate::store::draft::Draft;
use crate::store::identity::Identity;
use crate::store::ledger::Ledger;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Room for seq and ts, which the line does not have yet.
const SPARE_BYTES: usize = 64;
/// Accusers and hashes that a line too long keeps.
const TOLD_MAX: usize = 64;
/// Heirs of a service that it keeps.
const HEIRS_TOLD_MAX: usize = 2;

/// What a tick knows when it decides.
pub(super) struct Seen {
    pub(super) plan: Plan,
    pub(super) learnt: Learnt,
    pub(super) memory: Memory,
    pub(super) pulse: Pulse,
}

/// The decision, and the lines that say it.
pub(super) struct Judged {
    pub(super) report: Report,
    pub(super) drafts: Vec<Draft>,
}

/// Roster changes first, then refutations, then verdicts: a verdict may concern what enters here.
pub(super) fn judge(
    (disk, config, identity): (&Disk<'_>, &Config, &Identity),
    ledger: &Ledger<'_>,
    seen: Seen,
) -> Judged {
    let Seen { plan, mut learnt, mut memory, pulse } = seen;
    let fold = ledger.fold();
    let mut membership = fold.membership.clone();
    let changes = roster::changes(&plan.roster, &membership);
    let first = ledger.tip().size;
    for (seq, change) in (first..).zip(&changes) {
        membership.list(change.clone(), seq);
    }
    let mut warnings = plan.warnings;
    let (mut refuted, mut back) = (Vec::new(), Vec::new());
    for (id, body) in &learnt.refutes {
        match refutation((disk, config, identity), (fold, ledger.tip().ts), (id, body)) {
            Ok(Some((register, draft))) => {
                let held = membership.member(id).map(|member| member.standing.liveness);
                back.extend(held.map(|liveness| (id.clone(), liveness)));
                membership
                    .register(register.into(), first + (changes.len() + refuted.len()) as u64);
                refuted.push(draft);
            }
            Ok(None) => {}
            Err(refusal) => warnings.push(format!("{id} refutes in vain: {refusal}")),
        }
    }
    let hearsay = Hearsay::gather(disk, &membership, &mut memory);
    hearsay.speak(&membership, &memory, &mut learnt.contacts);
    let accusers = hearsay.accusers(&membership);
    let decision = decide(&Round {
        own: &identity.id,
        membership: &membership,
        memory: &memory,
        contacts: &learnt.contacts,
        accusers: &accusers,
        witnesses: hearsay.witnesses(&membership, &learnt.contacts),
        pulse,
        self_check_answered: learnt.checked,
        profile: &config.profile,
    });
    let listed = changes.iter().map(|change| Record::Roster(RosterRecord::from(change.clone())));
    let told = told(&decision, &hearsay, (&membership, &learnt.contacts));
    let drafts: Vec<Draft> =
        listed.map(Draft::from).chain(refuted).chain(told.into_iter().map(Draft::from)).collect();
    let report = Report {
        pulse,
        heard: learnt.heard,
        contacts: learnt.contacts,
        membership,
        decision,
        changes,
        refuted: back,
        decided: Vec::new(),
        merged: 0,
        rejected: plan.roster.rejected,
        without_roster: plan.without_roster,
        warnings,
        lines: drafts.len() as u64,
        size: first,
    };
    Judged { report, drafts }
}

/// The verdicts and reaps as lines, with what they rest on.
fn told(
    decision: &Decision,
    hearsay: &Hearsay,
    (membership, contacts): (&Membership, &BTreeMap<Subject, Contact>),
) -> Vec<Record> {
    let tick = decision.memory.tick;
    let judged = decision.verdicts.iter().map(|verdict| {
        let subject = &verdict.subject;
        let target = (target(membership, subject), &verdict.accusers);
        let evidence = hearsay.evidence(subject, contacts.get(subject), target);
        fit(VerdictRecord::new(verdict.clone(), tick, evidence))
    });
    let reaped = decision.reaped.iter().filter_map(|id| {
        let inc = membership.member(id)?.standing.incarnation;
        let ticks = decision.memory.dead.get(id).copied().unwrap_or(0);
        Some(Record::Reap(Reap { node: id.clone(), inc, ticks, tick }))
    });
    judged.chain(reaped).collect()
}

/// A verdict whose line keeps its limit, whatever it takes from what it tells beside: a line that
/// cannot be written would hold up every tick.
fn fit(mut record: VerdictRecord) -> Record {
    let too_long = |record: &VerdictRecord| {
        let draft = Draft::from(Record::Verdict(record.clone()));
        draft.line(&Tip::origin(""), 0).render().len() + SPARE_BYTES > ANCHOR_BYTES_MAX
    };
    while too_long(&record) {
        let Some(dropped) = record.evidence.observations.pop() else { break };
        record.evidence.observation_hashes.push(Hash(Sha256::digest(dropped).into()));
    }
    if too_long(&record) {
        record.evidence.observation_hashes.truncate(TOLD_MAX);
        record.evidence.accusers.truncate(TOLD_MAX);
        record.heirs.values_mut().for_each(|heirs| heirs.truncate(HEIRS_TOLD_MAX));
    }
    if too_long(&record) {
        record.heirs.clear();
        record.no_heir.clear();
    }
    // Names may be three times as long as they look: whatever still grows is halved until it fits.
    while too_long(&record) && record.evidence.accusers.len() > 1 {
        let evidence = &mut record.evidence;
        evidence.accusers.truncate(evidence.accusers.len() / 2);
        evidence.observation_hashes.truncate(evidence.observation_hashes.len() / 2);
    }
    Record::Verdict(record)
}

/// Where a subject was asked.
fn target(membership: &Membership, subject: &Subject) -> String {
    let Some(member) = membership.member(&subject.node) else {
        return String::new();
    };
    if let Some(name) = &subject.service {
        let service = member.services.iter().find(|service| service.name == *name);
        return service.map(|service| service.url.clone()).unwrap_or_default();
    }
    match &member.row {
        Some(row) => format!("{}:{}", row.host, row.port),
        None => member.urls.first().cloned().unwrap_or_default(),
    }
}
