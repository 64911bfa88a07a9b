//! A node's tick: sync → check → probe → post one observation → publish its own map.
//!
//! The journal says what the federation holds; the node adds only what it cannot reach itself. With
//! the anchor away it goes on with what it has: the map is never emptied by silence.

use super::anchorless::{self, Anchorless, Asking};
use super::helping::below;
use super::loading::{Loaded, beginning, busy, load, save_memory};
use super::merging::{self, Merging};
use super::observing::{self, Told};
use super::peers;
use super::plan::{Of, Plan, plan, whom};
use super::probing::{self, Learnt, Whom};
use super::rounds::{PATIENCE, take_lock};
use super::speaking::adopt_named_key;
use super::sync::{self, Synced, anchor_urls};
use super::tick::{How, Report, anchor_tick};
use super::{branching, claiming, handover, publish, refuting};
use crate::config::{self, Config};
use crate::error::Failure;
use crate::journal::replay::Fold;
use crate::protocol::blind::{self, Pulse};
use crate::protocol::caps::withdrawals_max;
use crate::protocol::contact::{Contact, Sign};
use crate::protocol::health;
use crate::protocol::member::{Liveness, NodeId};
use crate::protocol::memory::Memory;
use crate::protocol::provisional::{Provisional, Round};
use crate::protocol::reach::Sight;
use crate::protocol::route::Local;
use crate::protocol::subject::Subject;
use crate::protocol::suspicion;
use crate::protocol::verdict::Decision;
use crate::store::decisions::{self, Decided, Turn};
use crate::store::disk::Disk;
use crate::store::identity::Identity;
use crate::store::ledger::Mend;
use crate::store::view::View;
use std::collections::{BTreeMap, BTreeSet};

/// Runs a node's tick; the lock on `keys/` is held.
pub(super) fn tick(
    disk: Disk<'_>,
    config: &Config,
    identity: &Identity,
    How { dry_run, progress }: How<'_>,
) -> Result<Report, Failure> {
    let host = disk.host;
    let began = host.clock();
    let deadline_ms = config.profile.deadline_ms();
    let mend = if dry_run { Mend::No } else { Mend::Yes };
    let Loaded { ledger, memory, warnings } = load(disk, identity, mend, progress)?;
    let (pulse, mut memory) = memory.open(&beginning(&began), config.profile.interval_ms);
    drop(ledger);
    let synced = match dry_run {
        true => Merging::default(),
        // Half of the time at most, so that probing and publishing have theirs.
        false => {
            bring_home((disk, config), (&mut memory, began.boot_ms + deadline_ms / 2), progress)?
        }
    };
    let Merging { synced, merged, conflicts, refused, trouble, .. } = synced;
    // The log key may have changed with what was fetched.
    let identity = Identity::require(&disk)?;
    let view = View::open(disk).map_err(|failure| never_synced(failure, &synced))?;
    if !dry_run {
        adopt_named_key(&disk, &identity)?;
        if handover::take_over(&disk, &identity, &view.fold)? {
            let mut report =
                anchor_tick(disk, config, &Identity::require(&disk)?, How { dry_run, progress })?;
            report.warnings.splice(0..0, synced.warnings);
            report
                .warnings
                .push("this node serialises from now on: its journal says so".to_owned());
            return Ok(report);
        }
    }
    let until_boot_ms = began.boot_ms + deadline_ms / 4 * 3;
    let before = memory.clone();
    let agents =
        whom(&view.fold.membership, &identity.id, (&mut memory, &config.profile), &mut |bound| {
            below(disk.host, bound)
        });
    let away: Option<Anchorless>;
    let mut node = Node {
        disk,
        config,
        identity: &identity,
        view: &view,
        fold: &view.fold,
        away: None,
        memory,
        pulse,
    };
    let refuted = if dry_run { None } else { node.refute(&synced, until_boot_ms)? };
    let claimed = match dry_run || !synced.anchor_answered {
        true => None,
        false => claiming::claim(&disk, &view.fold, until_boot_ms)?,
    };
    let looked = node.look(&agents, until_boot_ms)?;
    if !dry_run && !synced.anchor_answered {
        away = Some(node.listen(&looked, began.boot_ms + deadline_ms / 8 * 7));
        node.away = away.as_ref();
        node.fold = node.away.map_or(node.fold, |away| &away.fold);
    }
    node.judge(&looked, refuted.is_some());
    let turn = Turn { before: &before, after: &node.memory, membership: &node.fold.membership };
    let decided = decisions::changes(&turn);
    let own = refuted.into_iter().chain(claimed).filter(|told| !told.is_empty());
    let own: Vec<String> = conflicts.into_iter().chain(refused).chain(trouble).chain(own).collect();
    let mut report = node.report(looked, [warnings, synced.warnings.clone(), own].concat());
    report.merged = merged;
    if !dry_run {
        node.tell(&synced, &mut report, began.boot_ms + deadline_ms);
        node.publish(&mut report, &decided)?;
    }
    report.decided = decided;
    Ok(report)
}

/// Fetches what is new, and brings what was said meanwhile to an anchor that answers.
fn bring_home(
    (disk, config): (Disk<'_>, &Config),
    (memory, until_boot_ms): (&mut Memory, u64),
    progress: &dyn Fn(u64, u64),
) -> Result<Merging, Failure> {
    let run = sync::Run { until_boot_ms, turn: memory.tick, from: &[], progress };
    let synced = sync::run(disk, config, &run)?;
    let refused = memory.branch_refused.take();
    let (merging, refused) = merging::in_tick(disk, config, (synced, &run), refused.as_deref())?;
    memory.branch_refused = refused;
    Ok(merging)
}

fn never_synced(failure: Failure, synced: &Synced) -> Failure {
    match synced.size {
        0 if !synced.warnings.is_empty() => Failure::failed(format!(
            "no journal here yet, and nobody gave one: {}",
            synced.warnings.join("; ")
        ))
        .hint("the next tick tries again; crowny-fed sync shows progress"),
        _ => failure,
    }
}

struct Node<'a> {
    disk: Disk<'a>,
    config: &'a Config,
    identity: &'a Identity,
    view: &'a View<'a>,
    /// What the journal means, while no anchor answers with what members said since.
    fold: &'a Fold,
    away: Option<&'a Anchorless>,
    memory: Memory,
    pulse: Pulse,
}

/// What a tick saw.
struct Looked {
    plan: Plan,
    learnt: Learnt,
    blind: bool,
}

impl Node<'_> {
    /// Probes the rows of our own roster and of the journal, and the agents of the other members.
    fn look(&self, agents: &[NodeId], until_boot_ms: u64) -> Result<Looked, Failure> {
        let fold = self.fold;
        let plan = plan(&self.disk, self.config, (&fold.membership, Of::Node));
        let whom = Whom {
            identity: self.identity,
            fold,
            rows: &plan.rows,
            agents,
            accusations: &BTreeMap::new(),
            in_depth: false,
        };
        let learnt = probing::ask(&self.disk, self.config, &whom, until_boot_ms)?;
        let alive = learnt.contacts.iter().filter_map(|(subject, contact)| {
            let member = fold.membership.member(&subject.node)?;
            (member.standing.liveness == Liveness::Alive).then_some(&contact.outcome)
        });
        let blind = self.pulse != Pulse::Grace && blind::is_blind(alive, learnt.checked);
        Ok(Looked { plan, learnt, blind })
    }

    /// Asks those who answered what they said and saw.
    fn listen(&mut self, looked: &Looked, until_boot_ms: u64) -> Anchorless {
        let good = |(subject, contact): (&Subject, &Contact)| {
            let answered = subject.service.is_none() && contact.sign() == Sign::Good;
            answered.then(|| subject.node.clone())
        };
        let heard: Vec<NodeId> = looked.learnt.contacts.iter().filter_map(good).collect();
        let asking = Asking {
            disk: &self.disk,
            config: self.config,
            identity: self.identity,
            fold: &self.view.fold,
        };
        anchorless::gather(asking, &heard, (&mut self.memory, until_boot_ms))
    }

    fn judge(&mut self, looked: &Looked, refuted: bool) {
        let membership = &self.fold.membership;
        let sight = Sight {
            membership,
            contacts: &looked.learnt.contacts,
            counts: self.pulse == Pulse::Counted && !looked.blind,
            ticks_max: suspicion::ticks_max(&self.config.profile, membership.present() as u64),
        };
        let held = self.memory.reach.unreachable.clone();
        self.memory.reach = self.memory.reach.after(&sight);
        self.judge_alone(&sight, &held);
        if self.pulse != Pulse::Early {
            let signs = (looked.blind, refuted);
            self.memory.health = health::after(self.memory.health, &looked.learnt.contacts, signs);
        }
        self.memory.blind_ticks = if looked.blind { self.memory.blind_ticks + 1 } else { 0 };
    }

    /// What is judged with no anchor to judge; over as soon as one answers.
    fn judge_alone(&mut self, sight: &Sight<'_>, held: &BTreeSet<NodeId>) {
        let Some(away) = self.away else {
            self.memory.provisional = Provisional::default();
            return;
        };
        let holds = self.config.anchorless == config::Anchorless::Hold;
        if holds {
            self.memory.reach.unreachable.retain(|id| held.contains(id));
        }
        let gone = self.memory.reach.unreachable.difference(held).count();
        let most = withdrawals_max(sight.membership.routable()).saturating_sub(gone);
        self.memory.provisional = self.memory.provisional.after(&Round {
            own: &self.identity.id,
            membership: sight.membership,
            contacts: sight.contacts,
            words: &away.words,
            counts: sight.counts,
            ticks_max: sight.ticks_max,
            most: if holds { 0 } else { most },
        });
    }

    /// What our own map does otherwise than the table.
    fn local(&self) -> Local {
        let Memory { reach, provisional, .. } = &self.memory;
        let speaking = self.away.map(|away| &away.speaking);
        Local {
            without: reach.unreachable.union(&provisional.dead).cloned().collect(),
            provisional: provisional
                .dead
                .union(&provisional.doubted)
                .chain(speaking.into_iter().flatten())
                .cloned()
                .collect(),
        }
    }

    /// Answers what the journal holds against us, where nobody told us to our face. With no anchor
    /// there the answer waits in the branch, once for each number we are accused at.
    fn refute(&mut self, synced: &Synced, until_boot_ms: u64) -> Result<Option<String>, Failure> {
        let fold = &self.view.fold;
        let own = fold.membership.member(&self.identity.id);
        let accused = own.map(|member| member.standing.incarnation).unwrap_or_default();
        if !synced.anchor_answered && branching::waits_above(&self.disk, self.identity, accused)? {
            return Ok(None);
        }
        let refuted = refuting::in_own_tick(&self.disk, self.identity, &fold.membership)?;
        let Some(envelope) = refuted else { return Ok(None) };
        let anchors = anchor_urls(self.identity, fold);
        let body = envelope.render();
        let told = match synced.anchor_answered {
            true => {
                let whom = (anchors.as_slice(), until_boot_ms);
                observing::post(&self.disk, ("register", body.as_bytes()), whom)?
            }
            false => None,
        };
        if told.is_some() || branching::waits_above(&self.disk, self.identity, accused)? {
            return Ok(told);
        }
        let kept = branching::keep(&self.disk, self.config, ("register", &envelope));
        Ok(Some(match kept {
            Ok(line) => format!(
                "this node is doubted, and no anchor answers: its refutation is kept as line {line} of branch.ndjson"
            ),
            Err(failure) => {
                format!("this node is doubted and cannot say that it lives: {}", failure.message)
            }
        }))
    }

    fn report(&self, looked: Looked, warnings: Vec<String>) -> Report {
        let Looked { plan, learnt, blind } = looked;
        let memory = self.memory.clone();
        Report {
            pulse: self.pulse,
            heard: learnt.heard,
            contacts: learnt.contacts,
            membership: self.fold.membership.clone(),
            decision: Decision {
                verdicts: Vec::new(),
                held: Vec::new(),
                reaped: Vec::new(),
                losses_accepted: false,
                blind,
                memory,
            },
            changes: Vec::new(),
            refuted: Vec::new(),
            decided: Vec::new(),
            merged: 0,
            rejected: plan.roster.rejected,
            without_roster: plan.without_roster,
            warnings: [warnings, plan.warnings].concat(),
            lines: 0,
            size: self.view.checkpoint.size,
        }
    }

    /// Posts one observation. Being unheard is not worth a word every tick: only its begin and end.
    fn tell(&mut self, synced: &Synced, report: &mut Report, until_boot_ms: u64) {
        let anchors = anchor_urls(self.identity, &self.view.fold);
        let told = Told {
            tick: self.memory.tick,
            size: self.view.checkpoint.size,
            membership: &report.membership,
            contacts: &report.contacts,
            health: self.memory.health,
        };
        // Kept for the other members to see, who ask for it where no anchor answers.
        let heard = match observing::signed(&self.disk, self.identity, &told) {
            Ok(word) if synced.anchor_answered => {
                let sent =
                    observing::post(&self.disk, ("observe", &word), (&anchors, until_boot_ms));
                sent.map(|answer| {
                    report.warnings.extend(answer.iter().filter(|why| !why.is_empty()).cloned());
                    answer.is_some()
                })
            }
            word => word.map(|_| false),
        };
        let heard = heard.unwrap_or_else(|failure| {
            report.warnings.push(failure.message);
            synced.anchor_answered
        });
        let before = self.memory.anchor_away;
        self.memory.anchor_away = if heard { 0 } else { before.saturating_add(1) };
        match (heard, before) {
            (true, 1..) => report.warnings.push(format!("the anchor is back after {before} ticks")),
            // Its begin was told together with why.
            (false, 1..) => report
                .warnings
                .retain(|told| !anchors.iter().any(|url| told.starts_with(url.as_str()))),
            _ => {}
        }
    }

    fn publish(&mut self, report: &mut Report, decided: &[Decided]) -> Result<(), Failure> {
        let disk = &self.disk;
        let _append = take_lock(disk.host, &disk.layout.state(), PATIENCE)?.ok_or_else(busy)?;
        decisions::append(disk, &self.identity.origin, decided)?;
        let shown = publish::Shown {
            origin: &self.identity.origin,
            membership: &self.fold.membership,
            local: &self.local(),
            size: self.view.checkpoint.size,
            root: self.view.checkpoint.root,
            generation: self.memory.generation,
        };
        self.memory.generation = publish::map(disk, &shown)?;
        save_memory(disk, &self.memory)?;
        let now = disk.host.clock();
        let checked_at = publish::rfc3339(now.wall_ms);
        let rows =
            peers::status_rows(self.config, &report.heard, report.decision.blind, &checked_at);
        report.warnings.extend(publish::status(disk, self.config, &rows, "tick")?);
        report.decision.memory = self.memory.clone();
        publish::freshness(disk, self.config, &self.memory, &now)
    }
}
