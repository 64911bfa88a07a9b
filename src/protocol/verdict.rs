//! The decision of one tick: who becomes suspect, who dies, who is back.
//!
//! Intuition: a failed probe opens a suspicion, further failed probes in executed healthy ticks
//! age it, one answer closes it. Death waits until the suspicion is old enough and the cap of
//! law 6 has room; a blind, early or grace tick ages and accuses nobody.

use super::blind::{self, BlindSpell, Pulse};
use super::caps::withdrawals_max;
use super::heirs::{self, Heirs};
use super::member::{Liveness, NodeId, Standing};
use super::membership::{Member, Membership};
use super::memory::Memory;
use super::probe::Outcome;
use super::profile::Profile;
use super::suspicion;
use std::collections::BTreeMap;

/// Everything one decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct Round<'a> {
    /// The table at the tick's start, roster changes applied.
    pub membership: &'a Membership,
    /// Memory as opened for this tick.
    pub memory: &'a Memory,
    /// What the probes said; members not probed are absent.
    pub outcomes: &'a BTreeMap<NodeId, Outcome>,
    /// What kind of tick this is.
    pub pulse: Pulse,
    /// Whether a configured `self_check` target answered.
    pub self_check_answered: bool,
    /// Rule parameters.
    pub profile: &'a Profile,
}

/// The rule a verdict was reached by, as its line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Alive, and this tick's probe failed.
    ProbeFailed,
    /// Suspect for long enough without an answer.
    SuspicionExpired,
    /// Doubted, and this tick's probe was answered.
    Answered,
}

impl Rule {
    /// The name in the journal.
    pub fn name(self) -> &'static str {
        match self {
            Rule::ProbeFailed => "probe-failed",
            Rule::SuspicionExpired => "suspicion-expired",
            Rule::Answered => "answered",
        }
    }
}

/// One change of standing, to become a `verdict` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whom it concerns.
    pub node: NodeId,
    /// Its liveness before.
    pub from: Liveness,
    /// Its standing from now on.
    pub to: Standing,
    /// By which rule.
    pub rule: Rule,
    /// Failed healthy ticks counted so far.
    pub waited: u64,
    /// Failed healthy ticks the rule asks for.
    pub needed: u64,
    /// Who takes over, on death.
    pub heirs: Heirs,
}

/// What a tick decided, and why nothing more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Changes in the order they are written.
    pub verdicts: Vec<Verdict>,
    /// Members whose death is due and held back by the cap.
    pub held: Vec<NodeId>,
    /// Whether this tick could not trust its own ears.
    pub blind: bool,
    /// The memory the next tick starts from.
    pub memory: Memory,
}

/// Decides one tick.
pub fn decide(round: &Round<'_>) -> Decision {
    let silent = round.pulse != Pulse::Grace && hears_too_little(round);
    let spell = if silent { round.memory.blind_ticks.saturating_add(1) } else { 0 };
    let spell_over = silent && blind::spell_ends(&blind_spell(round, spell));
    let blind = silent && !spell_over;
    let accuses = !blind && round.pulse != Pulse::Grace;
    // Ticks spent blind count once the blindness is believed.
    let credit = if spell_over { round.memory.blind_ticks } else { 0 };

    let mut memory = round.memory.clone();
    memory.blind_ticks = if blind { spell } else { 0 };
    let mut decision = Decision { verdicts: Vec::new(), held: Vec::new(), blind, memory };
    recover(round, &mut decision);
    if accuses {
        age_suspects(round, &mut decision, credit);
        bury(round, &mut decision);
        suspect(round, &mut decision, credit);
    }
    forget_settled(round, &mut decision);
    decision
}

fn hears_too_little(round: &Round<'_>) -> bool {
    let alive = probed(round)
        .filter(|(_, member, _)| member.standing.liveness == Liveness::Alive)
        .map(|(_, _, outcome)| outcome);
    blind::is_blind(alive, round.self_check_answered)
}

fn blind_spell(round: &Round<'_>, ticks: u64) -> BlindSpell {
    let members = round.membership.present() as u64;
    BlindSpell {
        ticks,
        suspicion_ticks_max: suspicion::ticks_max(round.profile, members),
        agreeing: 0,
        askable: 0,
        some_peer_heard: round.outcomes.values().any(Outcome::was_heard),
        members,
    }
}

/// Members with an outcome of this tick, by id.
fn probed<'a>(round: &Round<'a>) -> impl Iterator<Item = (&'a NodeId, &'a Member, &'a Outcome)> {
    let membership = round.membership;
    round
        .outcomes
        .iter()
        .filter_map(move |(id, outcome)| membership.member(id).map(|member| (id, member, outcome)))
}

/// Failed for reasons that are the peer's: our own trouble accuses nobody.
fn failed(outcome: &Outcome) -> bool {
    !outcome.is_success() && !outcome.is_local()
}

fn recover(round: &Round<'_>, decision: &mut Decision) {
    for (id, member, outcome) in probed(round) {
        let doubted = matches!(member.standing.liveness, Liveness::Suspect | Liveness::Dead);
        if !doubted || !outcome.is_success() {
            continue;
        }
        let waited = decision.memory.suspects.remove(id).unwrap_or(0);
        // A keyless row cannot raise its own incarnation, so the anchor keeps it (law 4).
        let to = Standing {
            liveness: Liveness::Alive,
            incarnation: member.standing.incarnation.raised(),
        };
        decision.verdicts.push(verdict(id, member, to, (Rule::Answered, waited, 0)));
    }
}

fn age_suspects(round: &Round<'_>, decision: &mut Decision, credit: u64) {
    if round.pulse == Pulse::Early {
        return;
    }
    for (id, member, outcome) in probed(round) {
        if member.standing.liveness == Liveness::Suspect && failed(outcome) {
            let waited = decision.memory.suspects.entry(id.clone()).or_insert(0);
            *waited = waited.saturating_add(credit.saturating_add(1));
        }
    }
}

fn bury(round: &Round<'_>, decision: &mut Decision) {
    let needed = suspicion::ticks_max(round.profile, round.membership.present() as u64);
    let mut due: Vec<(u64, &NodeId, &Member)> = probed(round)
        .filter(|(_, member, outcome)| {
            member.standing.liveness == Liveness::Suspect && failed(outcome)
        })
        .filter_map(|(id, member, _)| {
            let waited = *decision.memory.suspects.get(id)?;
            (waited >= needed).then_some((waited, id, member))
        })
        .collect();
    // The longest silent first; equal ages by id, so that every replay agrees.
    due.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    let room = withdrawals_max(round.membership.routable()).min(due.len());
    let (dying, held) = due.split_at(room);
    decision.held = held.iter().map(|(_, id, _)| (*id).clone()).collect();
    let gone: Vec<&NodeId> = dying.iter().map(|(_, id, _)| *id).collect();
    for (waited, id, member) in dying {
        let to = Standing { liveness: Liveness::Dead, ..member.standing };
        let mut dead = verdict(id, member, to, (Rule::SuspicionExpired, *waited, needed));
        dead.heirs = heirs::of(id, &gone, round.membership);
        decision.verdicts.push(dead);
    }
}

fn suspect(round: &Round<'_>, decision: &mut Decision, credit: u64) {
    let needed = suspicion::ticks_max(round.profile, round.membership.present() as u64);
    for (id, member, outcome) in probed(round) {
        if member.standing.liveness != Liveness::Alive || !failed(outcome) {
            continue;
        }
        let to = Standing { liveness: Liveness::Suspect, ..member.standing };
        decision.memory.suspects.insert(id.clone(), credit);
        decision.verdicts.push(verdict(id, member, to, (Rule::ProbeFailed, credit, needed)));
    }
}

/// Ages of those who are no longer suspect would only mislead the next suspicion.
fn forget_settled(round: &Round<'_>, decision: &mut Decision) {
    let mut open: Vec<NodeId> = round
        .membership
        .members()
        .filter(|(_, member)| member.standing.liveness == Liveness::Suspect)
        .map(|(id, _)| id.clone())
        .collect();
    for verdict in &decision.verdicts {
        match verdict.to.liveness {
            Liveness::Suspect => open.push(verdict.node.clone()),
            _ => open.retain(|id| *id != verdict.node),
        }
    }
    decision.memory.suspects.retain(|id, _| open.contains(id));
}

fn verdict(id: &NodeId, member: &Member, to: Standing, why: (Rule, u64, u64)) -> Verdict {
    let (rule, waited, needed) = why;
    Verdict {
        node: id.clone(),
        from: member.standing.liveness,
        to,
        rule,
        waited,
        needed,
        heirs: Heirs::default(),
    }
}
