//! The decision of one tick: who becomes suspect, who dies, who is back.
//!
//! Intuition: a failed question opens a suspicion, further failed ones in executed healthy ticks
//! age it, one answer stops its clock. Others who fail too make it shorter. Death waits until the
//! suspicion is old enough and the cap of law 6 has room; a blind, early or grace tick ages and
//! accuses nobody. A keyed member comes back by its own signed incarnation alone.

mod burial;

pub use burial::needed;

use super::blind::{self, BlindSpell, Pulse};
use super::contact::{self, Contact, Sign};
use super::health;
use super::heirs::Heirs;
use super::member::{Liveness, NodeId, Standing};
use super::membership::{Member, Membership};
use super::memory::{Memory, Suspicion};
use super::profile::Profile;
use super::subject::Subject;
use super::suspicion;
use std::collections::{BTreeMap, BTreeSet};

/// Everything one decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct Round<'a> {
    /// Who decides.
    pub own: &'a NodeId,
    /// The table at the tick's start, roster changes and refutations applied.
    pub membership: &'a Membership,
    /// Memory as opened for this tick.
    pub memory: &'a Memory,
    /// What was learnt of each subject; those not asked are absent.
    pub contacts: &'a BTreeMap<Subject, Contact>,
    /// Healthy members that lately failed to reach a node at its incarnation.
    pub accusers: &'a BTreeMap<NodeId, BTreeSet<NodeId>>,
    /// What others say where we hear too little.
    pub witnesses: Witnesses,
    /// What kind of tick this is.
    pub pulse: Pulse,
    /// Whether a configured `self_check` target answered.
    pub self_check_answered: bool,
    /// Rule parameters.
    pub profile: &'a Profile,
}

/// Keyed members that were heard and have told what they see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Witnesses {
    /// Those that can be asked at all.
    pub askable: u64,
    /// Those that miss most of whom we miss.
    pub agreeing: u64,
}

/// The rule a verdict was reached by, as its line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Alive, and this tick's question failed.
    ProbeFailed,
    /// Alive and not asked by us, and others failed to reach it.
    Accused,
    /// Suspect for long enough without an answer.
    SuspicionExpired,
    /// Doubted, and this tick's question was answered.
    Answered,
}

impl Rule {
    /// The name in the journal.
    pub fn name(self) -> &'static str {
        match self {
            Rule::ProbeFailed => "probe-failed",
            Rule::Accused => "accused",
            Rule::SuspicionExpired => "suspicion-expired",
            Rule::Answered => "answered",
        }
    }
}

/// One change of standing, to become a `verdict` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whom or what it concerns.
    pub subject: Subject,
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
    /// Everybody who failed to reach it.
    pub accusers: BTreeSet<NodeId>,
    /// Who takes over, on death.
    pub heirs: Heirs,
}

/// What a tick decided, and why nothing more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Changes in the order they are written.
    pub verdicts: Vec<Verdict>,
    /// Subjects whose death is due and held back by the cap.
    pub held: Vec<Subject>,
    /// Members dead for so long that they no longer count.
    pub reaped: Vec<NodeId>,
    /// Whether an operator took the losses for real, so that no cap held.
    pub losses_accepted: bool,
    /// Whether this tick could not trust its own ears.
    pub blind: bool,
    /// The memory the next tick starts from.
    pub memory: Memory,
}

/// Decides one tick.
pub fn decide(round: &Round<'_>) -> Decision {
    let silent = round.pulse != Pulse::Grace && hears_too_little(round);
    let spell = if silent { round.memory.blind_ticks.saturating_add(1) } else { 0 };
    let spell_over =
        silent && (round.memory.accept_loss || blind::spell_ends(&blind_spell(round, spell)));
    let blind = silent && !spell_over;
    let accuses = !blind && round.pulse != Pulse::Grace;
    // Ticks spent blind count once the blindness is believed.
    let credit = if spell_over { round.memory.blind_silent.clone() } else { BTreeMap::new() };

    let mut memory = round.memory.clone();
    memory.blind_ticks = if blind { spell } else { 0 };
    memory.blind_silent = if blind { silent_ones(round) } else { BTreeMap::new() };
    // A blind tick has a rule of its own; it must not make the ticks after it slower as well.
    if round.pulse != Pulse::Early && !silent {
        memory.health = health::after(memory.health, round.contacts, (false, false));
    }
    let mut decision = Decision {
        verdicts: Vec::new(),
        held: Vec::new(),
        reaped: Vec::new(),
        losses_accepted: round.memory.accept_loss,
        blind,
        memory,
    };
    recover(round, &mut decision);
    if accuses {
        age_suspects(round, &mut decision, &credit);
        burial::bury(round, &mut decision);
        suspect(round, &mut decision, &credit);
        age_dead(round, &mut decision);
    }
    forget_settled(round, &mut decision);
    decision.memory.accept_loss &= blind || !decision.memory.suspects.is_empty();
    decision
}

fn hears_too_little(round: &Round<'_>) -> bool {
    let alive = asked(round)
        .filter(|asked| asked.subject.service.is_none())
        .filter(|asked| asked.standing.liveness == Liveness::Alive)
        .map(|asked| &asked.contact.outcome);
    blind::is_blind(alive, round.self_check_answered)
}

fn blind_spell(round: &Round<'_>, ticks: u64) -> BlindSpell {
    let members = round.membership.present() as u64;
    BlindSpell {
        ticks,
        suspicion_ticks_max: suspicion::ticks_max(round.profile, members),
        agreeing: round.witnesses.agreeing,
        askable: round.witnesses.askable,
        // Our own service is no peer: it answers even where nobody else does.
        some_peer_heard: round
            .contacts
            .iter()
            .any(|(subject, contact)| subject.node != *round.own && contact.outcome.was_heard()),
        members,
    }
}

/// A subject that this tick learnt something of.
struct Asked<'a> {
    subject: &'a Subject,
    member: &'a Member,
    contact: &'a Contact,
    /// Its own: of the node, or of the service.
    standing: Standing,
}

impl Asked<'_> {
    /// Whether only its own signed word brings it back (law 4).
    fn speaks_for_itself(&self) -> bool {
        self.member.enrolled && self.subject.service.is_none()
    }

    fn is(&self, liveness: Liveness, sign: Sign) -> bool {
        self.standing.liveness == liveness && self.contact.sign() == sign
    }
}

/// Members with a contact of this tick, by id. Services of a node that is doubted itself wait: they
/// go with it, and come back with it.
fn asked<'a>(round: &Round<'a>) -> impl Iterator<Item = Asked<'a>> {
    let Round { membership, contacts, .. } = *round;
    let asked = contacts.iter().filter(|(subject, _)| !contact::is_excused(subject, contacts));
    asked.filter_map(move |(subject, contact)| {
        let member = membership.member(&subject.node)?;
        let standing = standing_of(member, subject)?;
        Some(Asked { subject, member, contact, standing })
    })
}

fn standing_of(member: &Member, subject: &Subject) -> Option<Standing> {
    let Some(service) = &subject.service else {
        return Some(member.standing);
    };
    let doubt = member.doubted.get(service).map_or(Liveness::Alive, |doubt| doubt.liveness);
    let alive = member.standing.liveness == Liveness::Alive;
    alive.then_some(Standing { liveness: doubt, incarnation: member.standing.incarnation })
}

fn recover(round: &Round<'_>, decision: &mut Decision) {
    for asked in asked(round) {
        let doubted = matches!(asked.standing.liveness, Liveness::Suspect | Liveness::Dead);
        if !doubted || asked.contact.sign() != Sign::Good {
            continue;
        }
        if asked.speaks_for_itself() {
            // Who answers never dies; back it comes by its own signed incarnation.
            decision.memory.suspects.insert(asked.subject.clone(), Suspicion::default());
            continue;
        }
        let waited = decision.memory.suspects.remove(asked.subject).unwrap_or_default().ticks;
        // A keyless row cannot raise its own incarnation, so the anchor keeps it (law 4).
        let incarnation = match asked.subject.service {
            None => asked.standing.incarnation.raised(),
            Some(_) => asked.standing.incarnation,
        };
        let to = Standing { liveness: Liveness::Alive, incarnation };
        decision.verdicts.push(verdict(&asked, to, (Rule::Answered, waited, 0)));
    }
}

/// Blind ticks in a row in which a subject did not answer: what counts as suspicion once the
/// blindness is believed, and only against those whom it concerns.
fn silent_ones(round: &Round<'_>) -> BTreeMap<Subject, u64> {
    let before = |subject: &Subject| round.memory.blind_silent.get(subject).copied().unwrap_or(0);
    let counted = u64::from(round.pulse == Pulse::Counted);
    asked(round)
        .filter(|asked| asked.contact.sign() == Sign::Bad)
        .map(|asked| (asked.subject.clone(), before(asked.subject).saturating_add(counted)))
        .collect()
}

fn age_suspects(round: &Round<'_>, decision: &mut Decision, credit: &BTreeMap<Subject, u64>) {
    if round.pulse == Pulse::Early {
        return;
    }
    for asked in asked(round).filter(|asked| asked.is(Liveness::Suspect, Sign::Bad)) {
        let open = decision.memory.suspects.entry(asked.subject.clone()).or_default();
        let credit = credit.get(asked.subject).copied().unwrap_or(0);
        open.ticks = open.ticks.saturating_add(credit.saturating_add(1));
        open.accusers.insert(round.own.clone());
        open.accusers.extend(others_accusing(round, asked.subject).cloned());
    }
}

fn others_accusing<'a>(
    round: &Round<'a>,
    subject: &Subject,
) -> impl Iterator<Item = &'a NodeId> + use<'a> {
    let accusers = match subject.service {
        None => round.accusers.get(&subject.node),
        Some(_) => None,
    };
    accusers.into_iter().flatten()
}

fn suspect(round: &Round<'_>, decision: &mut Decision, credit: &BTreeMap<Subject, u64>) {
    let members = round.membership.present() as u64;
    let needed = suspicion::ticks_max(round.profile, members);
    for asked in asked(round).filter(|asked| asked.is(Liveness::Alive, Sign::Bad)) {
        let mut accusers: BTreeSet<NodeId> =
            others_accusing(round, asked.subject).cloned().collect();
        accusers.insert(round.own.clone());
        let to = Standing { liveness: Liveness::Suspect, ..asked.standing };
        let credit = credit.get(asked.subject).copied().unwrap_or(0);
        let mut doubted = verdict(&asked, to, (Rule::ProbeFailed, credit, needed));
        doubted.accusers.clone_from(&accusers);
        decision
            .memory
            .suspects
            .insert(asked.subject.clone(), Suspicion { ticks: credit, accusers });
        decision.verdicts.push(doubted);
    }
    suspect_accused(round, decision, needed);
}

/// Members that were not asked in this tick: others' word opens the suspicion, and from the next
/// tick on we ask ourselves.
fn suspect_accused(round: &Round<'_>, decision: &mut Decision, needed: u64) {
    for (id, accusers) in round.accusers {
        let subject = Subject::node(id);
        let Some(member) = round.membership.member(id) else { continue };
        // Who decides asks not itself, and whom nobody can dial nobody can fail to reach.
        let askable = id != round.own && !member.outbound;
        let alive = member.standing.liveness == Liveness::Alive && askable;
        if !alive || accusers.is_empty() || round.contacts.contains_key(&subject) {
            continue;
        }
        decision.verdicts.push(Verdict {
            subject: subject.clone(),
            from: Liveness::Alive,
            to: Standing { liveness: Liveness::Suspect, ..member.standing },
            rule: Rule::Accused,
            waited: 0,
            needed,
            accusers: accusers.clone(),
            heirs: Heirs::default(),
        });
        let open = Suspicion { ticks: 0, accusers: accusers.clone() };
        decision.memory.suspects.insert(subject, open);
    }
}

/// The dead are counted in ticks, and after three days of them no longer.
fn age_dead(round: &Round<'_>, decision: &mut Decision) {
    if round.pulse != Pulse::Counted {
        return;
    }
    // Whoever came back in this very tick is dead no more.
    let back: BTreeSet<&NodeId> =
        decision.verdicts.iter().map(|verdict| &verdict.subject.node).collect();
    let dead = round.membership.members().filter(|(id, member)| {
        member.standing.liveness == Liveness::Dead && !member.reaped && !back.contains(id)
    });
    for (id, _) in dead {
        let ticks = decision.memory.dead.entry(id.clone()).or_insert(0);
        *ticks = ticks.saturating_add(1);
        if *ticks >= round.profile.reap_ticks {
            decision.reaped.push(id.clone());
        }
    }
}

/// Ages of those who are no longer suspect would only mislead the next suspicion.
fn forget_settled(round: &Round<'_>, decision: &mut Decision) {
    let Decision { verdicts, memory, .. } = decision;
    memory.suspects.retain(|subject, _| {
        let new = verdicts.iter().rev().find(|verdict| verdict.subject == *subject);
        let held = round.membership.member(&subject.node);
        let held = held.and_then(|member| standing_of(member, subject));
        let now = new.map(|verdict| verdict.to).or(held);
        now.is_some_and(|standing| standing.liveness == Liveness::Suspect)
    });
    memory.dead.retain(|id, _| {
        let member = round.membership.member(id);
        member.is_some_and(|member| member.standing.liveness == Liveness::Dead && !member.reaped)
    });
}

fn verdict(asked: &Asked<'_>, to: Standing, (rule, waited, needed): (Rule, u64, u64)) -> Verdict {
    Verdict {
        subject: asked.subject.clone(),
        from: asked.standing.liveness,
        to,
        rule,
        waited,
        needed,
        accusers: BTreeSet::new(),
        heirs: Heirs::default(),
    }
}
