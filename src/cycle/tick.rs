//! One tick: load → plan → probe → decide → append → publish.

use super::helping::below;
use super::judging::{Judged, Seen, judge};
use super::loading::{beginning, busy, load, save_memory};
use super::looking;
use super::peers::{self, Heard};
use super::plan::{Of, Plan, plan, whom};
use super::probing::{self, Learnt, Whom};
use super::rounds::{PATIENCE, take_lock};
use super::speaking::adopt_named_key;
use super::{follow, handover, merging, publish, witnesses};
use crate::config::Config;
use crate::error::Failure;
use crate::host::{Host, Lock};
use crate::protocol::blind::Pulse;
use crate::protocol::caps::withdrawals_max;
use crate::protocol::contact::Contact;
use crate::protocol::member::{Liveness, NodeId};
use crate::protocol::membership::Membership;
use crate::protocol::memory::Memory;
use crate::protocol::roster::{Rejected, RosterChange};
use crate::protocol::route::Local;
use crate::protocol::subject::Subject;
use crate::protocol::verdict::Decision;
use crate::store::decisions::Decided;
use crate::store::disk::Disk;
use crate::store::draft::Draft;
use crate::store::identity::Identity;
use crate::store::ledger::{Ledger, Mend};
use crate::store::log_keys;
use crate::store::view::View;
use crate::wire::health::Accusation;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How a tick ended.
#[derive(Debug)]
pub enum Ended {
    /// Another tick holds the lock: nothing to do.
    InProgress,
    /// It ran.
    Done(Box<Report>),
}

/// What a tick saw and did.
#[derive(Debug)]
pub struct Report {
    /// What kind of tick it was.
    pub pulse: Pulse,
    /// What every probed row answered, in roster order.
    pub heard: Vec<Heard>,
    /// What was learnt of every subject, members without a row and services included.
    pub contacts: BTreeMap<Subject, Contact>,
    /// The table the decision was made on.
    pub membership: Membership,
    /// The decision.
    pub decision: Decision,
    /// Roster differences, journalled.
    pub changes: Vec<RosterChange>,
    /// Doubted members that answered by their own signed word, and how alive they were held to be.
    pub refuted: Vec<(NodeId, Liveness)>,
    /// On a node: members left out of its own map, or back in it.
    pub decided: Vec<Decided>,
    /// On a node: lines of its branch that the journal holds now.
    pub merged: usize,
    /// Roster lines set aside.
    pub rejected: Vec<Rejected>,
    /// Whether the roster as a whole could not be used.
    pub without_roster: bool,
    /// What was found and mended, or could not be read.
    pub warnings: Vec<String>,
    /// Lines appended.
    pub lines: u64,
    /// Journal size after the tick.
    pub size: u64,
}

/// How a tick is run.
#[derive(Clone, Copy)]
pub struct How<'a> {
    /// Nothing is written, not even what needs mending.
    pub dry_run: bool,
    /// Told how much is done of what takes long: bytes of a journal read anew, lines fetched.
    pub progress: &'a dyn Fn(u64, u64),
}

impl std::fmt::Debug for How<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("How").field("dry_run", &self.dry_run).finish_non_exhaustive()
    }
}

/// Runs one tick. With `dry_run` nothing is written, not even what needs mending.
pub fn run(host: &dyn Host, config: &Config, dry_run: bool) -> Result<Ended, Failure> {
    run_telling(host, config, How { dry_run, progress: &|_, _| {} })
}

/// The same for somebody who watches.
pub fn run_telling(host: &dyn Host, config: &Config, how: How<'_>) -> Result<Ended, Failure> {
    let disk = Disk { host, layout: &config.layout };
    let identity = Identity::require(&disk)?;
    let Some(_whole_tick) = take_lock(host, &config.layout.keys(), Duration::ZERO)? else {
        return Ok(Ended::InProgress);
    };
    if !how.dry_run {
        disk.clear_temporary_keys()?;
    }
    let config =
        &Config { own: Some(config.own.clone().unwrap_or(identity.id.clone())), ..config.clone() };
    let report = match identity.is_anchor() {
        true => anchor_tick(disk, config, &identity, how)?,
        false => follow::tick(disk, config, &identity, how)?,
    };
    Ok(Ended::Done(Box::new(report)))
}

/// The tick of the one that serialises.
pub(super) fn anchor_tick(
    disk: Disk<'_>,
    config: &Config,
    identity: &Identity,
    How { dry_run, progress }: How<'_>,
) -> Result<Report, Failure> {
    let host = disk.host;
    let mend = if dry_run { Mend::No } else { Mend::Yes };
    let mut loaded = load(disk, identity, mend, progress)?;
    loaded.ledger.expect_begun()?;
    if !dry_run && handover::successor(identity, loaded.ledger.fold()).is_some() {
        drop(loaded);
        return after_handover((&disk, config, identity), How { dry_run, progress });
    }
    let began = host.clock();
    let deadline_ms = began.boot_ms + config.profile.deadline_ms();
    let (pulse, mut memory) = loaded.memory.open(&beginning(&began), config.profile.interval_ms);

    let plan = plan(&disk, config, (&loaded.ledger.fold().membership, Of::Federation));
    // The last quarter of the time belongs to deciding and publishing.
    let probing_ms = began.boot_ms + config.profile.deadline_ms() / 4 * 3;
    let learnt =
        probe(&disk, config, (identity, &loaded.ledger, &plan), (&mut memory, probing_ms))?;
    if !dry_run {
        let turn = (memory.tick, probing_ms);
        let told = looking::in_tick((&disk, config), loaded.ledger.fold(), turn)?;
        loaded.warnings.extend(told);
    }
    if host.clock().boot_ms > deadline_ms {
        return Err(Failure::failed(
            "the tick ran past its deadline while probing; nothing was decided",
        ));
    }

    let append = lock_state(host, config)?;
    loaded.reload_if_moved(disk, identity, mend)?;
    let judged =
        judge((&disk, config, identity), &loaded.ledger, Seen { plan, learnt, memory, pulse });
    refuse_over_cap(&judged.report.decision, &judged.report.membership)?;
    let Judged { mut report, drafts } = judged;
    report.warnings.splice(0..0, loaded.warnings);
    if !dry_run {
        commit_and_publish((&disk, config, identity), &mut loaded.ledger, drafts, &mut report)?;
        adopt_named_key(&disk, identity)?;
        // Witnesses may be slow: by now everything is done, and others may write.
        drop(append);
        let own = merging::bring_own(disk, config)?;
        report.merged = own.merged;
        report.warnings.extend(own.conflicts.into_iter().chain(own.refused));
        report.warnings.extend(witnesses::ask(disk, config, witnesses::Whom::All, deadline_ms)?);
    }
    Ok(report)
}

/// The line that names another node may still wait to be signed or cosigned: that is all an anchor
/// that handed over does. From then on it ticks like any node.
fn after_handover(
    (disk, config, identity): (&Disk<'_>, &Config, &Identity),
    how: How<'_>,
) -> Result<Report, Failure> {
    {
        let _append = lock_state(disk.host, config)?;
        let mut ledger = Ledger::open(*disk, identity, Mend::Yes)?;
        let now_s = disk.host.clock().wall_ms / 1_000;
        let keys = log_keys::signing(disk, identity, ledger.fold(), now_s)?;
        ledger.publish_by(&keys, witnesses::release(config))?;
    }
    let until = disk.host.clock().boot_ms + config.profile.deadline_ms() / 4;
    let warnings = witnesses::ask(*disk, config, witnesses::Whom::All, until)?;
    if !handover::finish(disk)? {
        let why = warnings.join("; ");
        return Err(Failure::failed(format!("handed over, but nobody can see that yet: {why}")));
    }
    follow::tick(*disk, config, &Identity::require(disk)?, how)
}

/// Asks everybody whose turn it is.
fn probe(
    disk: &Disk<'_>,
    config: &Config,
    (identity, ledger, plan): (&Identity, &Ledger<'_>, &Plan),
    (memory, until_boot_ms): (&mut Memory, u64),
) -> Result<Learnt, Failure> {
    let fold = ledger.fold();
    let agents = whom(&fold.membership, &identity.id, (memory, &config.profile), &mut |bound| {
        below(disk.host, bound)
    });
    let accusations = accusations(disk, &fold.membership, &agents)?;
    let whom = Whom {
        identity,
        fold,
        rows: &plan.rows,
        agents: &agents,
        accusations: &accusations,
        in_depth: true,
    };
    probing::ask(disk, config, &whom, until_boot_ms)
}

/// What each doubted member is told: the line that doubts it, with its proof.
fn accusations(
    disk: &Disk<'_>,
    membership: &Membership,
    agents: &[NodeId],
) -> Result<BTreeMap<NodeId, Accusation>, Failure> {
    let doubted: Vec<(&NodeId, u64)> = agents
        .iter()
        .filter_map(|id| Some((id, membership.member(id)?)))
        .filter(|(_, member)| {
            matches!(member.standing.liveness, Liveness::Suspect | Liveness::Dead)
        })
        .map(|(id, member)| (id, member.changed_at))
        .collect();
    if doubted.is_empty() {
        return Ok(BTreeMap::new());
    }
    let view = View::open(*disk)?;
    let ts = disk.host.clock().wall_ms / 1_000;
    let mut accusations = BTreeMap::new();
    for (id, seq) in doubted.into_iter().filter(|(_, seq)| *seq < view.checkpoint.size) {
        let line = String::from_utf8_lossy(&view.line(seq)?.raw).into_owned();
        let (c, proof) = (String::new(), view.proof(seq)?);
        accusations.insert(id.clone(), Accusation { ts, c, line, proof });
    }
    Ok(accusations)
}

/// Commit, then tell (law 2): nothing below the append is reached unless it was synced.
fn commit_and_publish(
    (disk, config, identity): (&Disk<'_>, &Config, &Identity),
    ledger: &mut Ledger<'_>,
    drafts: Vec<Draft>,
    report: &mut Report,
) -> Result<(), Failure> {
    let now = disk.host.clock();
    let now_s = now.wall_ms / 1_000;
    let keys = log_keys::signing(disk, identity, ledger.fold(), now_s)?;
    ledger.append(drafts, now_s)?;
    if ledger.publish_by(&keys, witnesses::release(config))? {
        identity.clone().follow(disk, ledger.fold(), &ledger.floor().note)?;
    }
    report.size = ledger.tip().size;
    report.membership = ledger.fold().membership.clone();

    let memory = &mut report.decision.memory;
    let shown = publish::Shown {
        origin: &identity.origin,
        membership: &report.membership,
        local: &Local::default(),
        size: ledger.floor().size,
        root: ledger.floor().root,
        generation: memory.generation,
    };
    memory.generation = publish::map(disk, &shown)?;
    save_memory(disk, memory)?;
    let checked_at = publish::rfc3339(now.wall_ms);
    let rows = peers::status_rows(config, &report.heard, report.decision.blind, &checked_at);
    report.warnings.extend(publish::status(disk, config, &rows, "tick")?);
    publish::freshness(disk, config, memory, &now)
}

fn lock_state(host: &dyn Host, config: &Config) -> Result<Lock, Failure> {
    take_lock(host, &config.layout.state(), PATIENCE)?.ok_or_else(busy)
}

/// Law 6 once more where lines are written: the rule that decides and the one that checks are two.
fn refuse_over_cap(decision: &Decision, membership: &Membership) -> Result<(), Failure> {
    let deaths = decision.verdicts.iter().filter(|v| v.to.liveness == Liveness::Dead);
    // What one node loses counts once.
    let dead = deaths.map(|verdict| &verdict.subject.node).collect::<BTreeSet<_>>().len();
    let most = withdrawals_max(membership.routable());
    if dead <= most || decision.losses_accepted {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "{dead} deaths in one tick, the cap is {most}; nothing was written"
    )))
}
