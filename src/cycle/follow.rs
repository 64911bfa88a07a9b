//! A node's tick: sync → check → probe → post one observation → publish its own map.
//!
//! The journal says what the federation holds; the node adds only what it cannot reach itself. With
//! the anchor away it goes on with what it has: the map is never emptied by silence.

use super::anchorless::{self, Anchorless, Asking};
use super::helping::below;
use super::loading::{Loaded, beginning, busy, load, save_memory};
use super::merging::{Merging, bring_home};
use super::observing::{self, Told};
use super::peers;
use super::plan::{Of, Plan, plan, whom};
use super::probing::{self, Learnt, Whom};
use super::rounds::{PATIENCE, take_lock};
use super::speaking::adopt_named_key;
use super::sync::{Synced, anchor_urls};
use super::tick::{How, Report, anchor_tick};
use super::{branching, claiming, handover, publish};
use crate::config::Config;
use crate::error::Failure;
use crate::journal::replay::Fold;
use crate::protocol::blind::{self, Pulse};
use crate::protocol::contact::{Contact, Sign};
use crate::protocol::health;
use crate::protocol::member::{Liveness, NodeId};
use crate::protocol::membership::Membership;
use crate::protocol::memory::Memory;
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
    let time = Time {
        probing_ms: began.boot_ms + deadline_ms / 4 * 3,
        listening_ms: began.boot_ms + deadline_ms / 8 * 7,
        telling_ms: began.boot_ms + deadline_ms,
    };
    let node = Node { disk, config, identity: &identity, view: &view, memory, pulse, time };
    let own: Vec<String> = conflicts.into_iter().chain(refused).chain(trouble).collect();
    let told = [warnings, synced.warnings.clone(), own].concat();
    Ok(Report { merged, ..node.run(&synced, told, dry_run)? })
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
    time: Time,
}

/// Instants of the boot clock, in milliseconds, after which a part of the tick begins nothing more.
#[derive(Clone, Copy)]
struct Time {
    probing_ms: u64,
    listening_ms: u64,
    telling_ms: u64,
}

/// What a tick saw.
struct Looked {
    plan: Plan,
    learnt: Learnt,
    blind: bool,
}

impl Node<'_> {
    /// Everything after the sync.
    fn run(mut self, synced: &Synced, told: Vec<String>, dry_run: bool) -> Result<Report, Failure> {
        let fold = &self.view.fold;
        let before = self.memory.clone();
        let mut own: Vec<String> = Vec::new();
        if !dry_run {
            let whom = (self.identity, fold, synced.anchor_answered);
            own.extend(branching::refute(&self.disk, self.config, whom, self.time.probing_ms)?);
        }
        let refuted = !own.is_empty();
        if !dry_run && synced.anchor_answered {
            own.extend(claiming::claim(&self.disk, fold, self.time.probing_ms)?);
        }
        let looked = self.look()?;
        let away = (!dry_run && !synced.anchor_answered).then(|| self.listen(&looked));
        let fold = away.as_ref().map_or(fold, |away| &away.fold);
        self.judge(&looked, (fold, away.as_ref()), refuted);
        let turn = Turn { before: &before, after: &self.memory, membership: &fold.membership };
        let decided = decisions::changes(&turn);
        let local = anchorless::local(&self.memory, away.as_ref());
        let mut report = self.report(looked, &fold.membership);
        own.retain(|told| !told.is_empty());
        report.warnings.splice(0..0, told.into_iter().chain(own));
        if !dry_run {
            self.tell(synced, &mut report);
            self.publish(&mut report, (&fold.membership, &local), &decided)?;
        }
        report.decided = decided;
        Ok(report)
    }

    /// Probes the rows of our own roster and of the journal, and the agents of the other members.
    fn look(&mut self) -> Result<Looked, Failure> {
        let fold = &self.view.fold;
        let (memory, profile) = (&mut self.memory, &self.config.profile);
        let agents = whom(&fold.membership, &self.identity.id, (memory, profile), &mut |bound| {
            below(self.disk.host, bound)
        });
        let plan = plan(&self.disk, self.config, (&fold.membership, Of::Node));
        let whom = Whom {
            identity: self.identity,
            fold,
            rows: &plan.rows,
            agents: &agents,
            accusations: &BTreeMap::new(),
            in_depth: false,
        };
        let learnt = probing::ask(&self.disk, self.config, &whom, self.time.probing_ms)?;
        let alive = learnt.contacts.iter().filter_map(|(subject, contact)| {
            let member = fold.membership.member(&subject.node)?;
            (member.standing.liveness == Liveness::Alive).then_some(&contact.outcome)
        });
        let blind = self.pulse != Pulse::Grace && blind::is_blind(alive, learnt.checked);
        Ok(Looked { plan, learnt, blind })
    }

    /// Asks those who answered what they said and saw.
    fn listen(&mut self, looked: &Looked) -> Anchorless {
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
        anchorless::gather(asking, &heard, (&mut self.memory, self.time.listening_ms))
    }

    fn judge(
        &mut self,
        looked: &Looked,
        (fold, away): (&Fold, Option<&Anchorless>),
        refuted: bool,
    ) {
        let membership = &fold.membership;
        let sight = Sight {
            membership,
            contacts: &looked.learnt.contacts,
            counts: self.pulse == Pulse::Counted && !looked.blind,
            ticks_max: suspicion::ticks_max(&self.config.profile, membership.present() as u64),
        };
        let held = self.memory.reach.unreachable.clone();
        self.memory.reach = self.memory.reach.after(&sight);
        anchorless::judge(
            (self.config, &self.identity.id),
            away,
            (&sight, &held),
            &mut self.memory,
        );
        if self.pulse != Pulse::Early {
            let signs = (looked.blind, refuted);
            self.memory.health = health::after(self.memory.health, &looked.learnt.contacts, signs);
        }
        self.memory.blind_ticks = if looked.blind { self.memory.blind_ticks + 1 } else { 0 };
    }

    fn report(&self, looked: Looked, membership: &Membership) -> Report {
        let Looked { plan, learnt, blind } = looked;
        let memory = self.memory.clone();
        Report {
            pulse: self.pulse,
            heard: learnt.heard,
            contacts: learnt.contacts,
            membership: membership.clone(),
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
            warnings: plan.warnings,
            lines: 0,
            size: self.view.checkpoint.size,
        }
    }

    /// Posts one observation. Being unheard is not worth a word every tick: only its begin and end.
    fn tell(&mut self, synced: &Synced, report: &mut Report) {
        let until_boot_ms = self.time.telling_ms;
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

    fn publish(
        &mut self,
        report: &mut Report,
        (membership, local): (&Membership, &Local),
        decided: &[Decided],
    ) -> Result<(), Failure> {
        let disk = &self.disk;
        let _append = take_lock(disk.host, &disk.layout.state(), PATIENCE)?.ok_or_else(busy)?;
        decisions::append(disk, &self.identity.origin, decided)?;
        let shown = publish::Shown {
            origin: &self.identity.origin,
            membership,
            local,
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
