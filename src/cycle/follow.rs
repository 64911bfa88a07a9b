//! A node's tick: sync → check → probe → post one observation → publish its own map.
//!
//! The journal says what the federation holds; the node adds only what it cannot reach itself. With
//! the anchor away it goes on with what it has: the map is never emptied by silence.

use super::helping::below;
use super::observing::{self, Told};
use super::peers;
use super::plan::{Of, Plan, plan, whom};
use super::probing::{self, Learnt, Whom};
use super::rounds::{PATIENCE, take_lock};
use super::speaking::adopt_named_key;
use super::sync::{self, Synced, anchor_urls};
use super::tick::{How, Loaded, Report, beginning, busy, load, save_memory};
use super::{publish, refuting};
use crate::config::Config;
use crate::error::Failure;
use crate::protocol::blind::{self, Pulse};
use crate::protocol::health;
use crate::protocol::member::Liveness;
use crate::protocol::memory::Memory;
use crate::protocol::reach::Sight;
use crate::protocol::suspicion;
use crate::protocol::verdict::Decision;
use crate::store::decisions::{self, ReachChange};
use crate::store::disk::Disk;
use crate::store::identity::Identity;
use crate::store::ledger::Mend;
use crate::store::view::View;
use std::collections::BTreeMap;

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
    let (pulse, memory) = memory.open(&beginning(&began), config.profile.interval_ms);
    drop(ledger);
    let synced = match dry_run {
        true => Synced::default(),
        // Half of the time at most, so that probing and publishing have theirs.
        false => sync::run(
            disk,
            config,
            &sync::Run {
                until_boot_ms: began.boot_ms + deadline_ms / 2,
                turn: memory.tick,
                from: &[],
                progress,
            },
        )?,
    };
    // The log key may have changed with what was fetched.
    let identity = Identity::require(&disk)?;
    let view = View::open(disk).map_err(|failure| never_synced(failure, &synced))?;
    if !dry_run {
        adopt_named_key(&disk, &identity)?;
    }
    let until_boot_ms = began.boot_ms + deadline_ms / 4 * 3;
    let mut node = Node { disk, config, identity: &identity, view: &view, memory, pulse };
    let refuted = if dry_run { None } else { node.refute(&synced, until_boot_ms)? };
    let looked = node.look(until_boot_ms)?;
    let before = node.memory.reach.clone();
    node.judge(&looked, refuted.is_some());
    let (after, membership) = (&node.memory.reach, &view.fold.membership);
    let decided = decisions::changes((&before, after), membership, node.memory.tick);
    let trouble = refuted.into_iter().filter(|told| !told.is_empty()).collect();
    let mut report = node.report(looked, [warnings, synced.warnings.clone(), trouble].concat());
    if !dry_run {
        node.tell(&synced, &mut report, began.boot_ms + deadline_ms);
        node.publish(&mut report, &decided)?;
    }
    report.reach = decided;
    Ok(report)
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
    fn look(&mut self, until_boot_ms: u64) -> Result<Looked, Failure> {
        let fold = &self.view.fold;
        let plan = plan(&self.disk, self.config, (&fold.membership, Of::Node));
        let (memory, profile) = (&mut self.memory, &self.config.profile);
        let agents = whom(&fold.membership, &self.identity.id, (memory, profile), &mut |bound| {
            below(self.disk.host, bound)
        });
        let whom = Whom {
            identity: self.identity,
            fold,
            rows: &plan.rows,
            agents: &agents,
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

    fn judge(&mut self, looked: &Looked, refuted: bool) {
        let membership = &self.view.fold.membership;
        let sight = Sight {
            membership,
            contacts: &looked.learnt.contacts,
            counts: self.pulse == Pulse::Counted && !looked.blind,
            ticks_max: suspicion::ticks_max(&self.config.profile, membership.present() as u64),
        };
        self.memory.reach = self.memory.reach.after(&sight);
        if self.pulse != Pulse::Early {
            let signs = (looked.blind, refuted);
            self.memory.health = health::after(self.memory.health, &looked.learnt.contacts, signs);
        }
        self.memory.blind_ticks = if looked.blind { self.memory.blind_ticks + 1 } else { 0 };
    }

    /// Answers what the journal holds against us, where nobody told us to our face.
    fn refute(&mut self, synced: &Synced, until_boot_ms: u64) -> Result<Option<String>, Failure> {
        let fold = &self.view.fold;
        let refuted = refuting::in_own_tick(&self.disk, self.identity, &fold.membership)?;
        let Some(envelope) = refuted.filter(|_| synced.anchor_answered) else { return Ok(None) };
        let anchors = anchor_urls(self.identity, fold);
        let body = envelope.render();
        observing::post(&self.disk, ("register", body.as_bytes()), (&anchors, until_boot_ms))
    }

    fn report(&self, looked: Looked, warnings: Vec<String>) -> Report {
        let Looked { plan, learnt, blind } = looked;
        let memory = self.memory.clone();
        Report {
            pulse: self.pulse,
            heard: learnt.heard,
            contacts: learnt.contacts,
            membership: self.view.fold.membership.clone(),
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
            reach: Vec::new(),
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
        let heard = synced.anchor_answered
            && match observing::send(&self.disk, self.identity, &told, (&anchors, until_boot_ms)) {
                Ok(heard) => heard,
                Err(failure) => {
                    report.warnings.push(failure.message);
                    true
                }
            };
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

    fn publish(&mut self, report: &mut Report, decided: &[ReachChange]) -> Result<(), Failure> {
        let disk = &self.disk;
        let _append = take_lock(disk.host, &disk.layout.state(), PATIENCE)?.ok_or_else(busy)?;
        decisions::append(disk, &self.identity.origin, decided)?;
        let shown = publish::Shown {
            origin: &self.identity.origin,
            membership: &self.view.fold.membership,
            unreachable: &self.memory.reach.unreachable,
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
