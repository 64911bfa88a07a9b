//! One tick: load → plan → probe → decide → append → publish.

use super::helping::below;
use super::judging::{Judged, Seen, judge};
use super::peers::{self, Heard};
use super::plan::{Of, Plan, plan, whom};
use super::probing::{self, Learnt, Whom};
use super::rounds::{PATIENCE, take_lock};
use super::speaking::adopt_named_key;
use super::{follow, publish, sync, witnesses};
use crate::config::Config;
use crate::error::{Failure, Kind};
use crate::host::{Clock, Host, Keep, Lock, Readers};
use crate::protocol::address::Address;
use crate::protocol::blind::Pulse;
use crate::protocol::caps::withdrawals_max;
use crate::protocol::contact::Contact;
use crate::protocol::member::{Liveness, NodeId};
use crate::protocol::membership::Membership;
use crate::protocol::memory::{Beginning, Memory};
use crate::protocol::roster::{Rejected, RosterChange};
use crate::protocol::subject::Subject;
use crate::protocol::verdict::Decision;
use crate::store::audit::{Depth, audit};
use crate::store::decisions::ReachChange;
use crate::store::disk::Disk;
use crate::store::draft::Draft;
use crate::store::identity::Identity;
use crate::store::ledger::{Ledger, Mend};
use crate::store::log_keys;
use crate::store::rebuild;
use crate::store::tree::ReadError;
use crate::store::view::View;
use crate::wire::call::{Call, Method, Read, Targets};
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
    pub reach: Vec<ReachChange>,
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

/// Runs one tick. With `dry_run` nothing is written, not even what needs mending.
pub fn run(host: &dyn Host, config: &Config, dry_run: bool) -> Result<Ended, Failure> {
    let disk = Disk { host, layout: &config.layout };
    let identity = Identity::require(&disk)?;
    let Some(_whole_tick) = take_lock(host, &config.layout.keys(), Duration::ZERO)? else {
        return Ok(Ended::InProgress);
    };
    if !dry_run {
        disk.clear_temporary_keys()?;
    }
    let config =
        &Config { own: Some(config.own.clone().unwrap_or(identity.id.clone())), ..config.clone() };
    let report = match identity.is_anchor() {
        true => anchor_tick(disk, config, &identity, dry_run)?,
        false => follow::tick(disk, config, &identity, dry_run)?,
    };
    Ok(Ended::Done(Box::new(report)))
}

/// The tick of the one that serialises.
fn anchor_tick(
    disk: Disk<'_>,
    config: &Config,
    identity: &Identity,
    dry_run: bool,
) -> Result<Report, Failure> {
    let host = disk.host;
    let mend = if dry_run { Mend::No } else { Mend::Yes };
    let mut loaded = load(disk, identity, mend)?;
    let began = host.clock();
    let deadline_ms = began.boot_ms + config.profile.deadline_ms();
    let (pulse, mut memory) = loaded.memory.open(&beginning(&began), config.profile.interval_ms);

    let plan = plan(&disk, config, (&loaded.ledger.fold().membership, Of::Federation));
    // The last quarter of the time belongs to deciding and publishing.
    let probing_ms = began.boot_ms + config.profile.deadline_ms() / 4 * 3;
    let learnt =
        probe(&disk, config, (identity, &loaded.ledger, &plan), (&mut memory, probing_ms))?;
    if !dry_run {
        let until_boot_ms = probing_ms.min(host.clock().boot_ms + config.profile.timeout_ms);
        let (turn, fold) = (memory.tick, loaded.ledger.fold());
        let run = sync::Run { until_boot_ms, turn, from: &[], progress: &|_, _| {} };
        sync::look_at_one(&disk, config, fold, &run)?;
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
        report.warnings.extend(witnesses::ask(disk, config, witnesses::Whom::All, deadline_ms)?);
    }
    Ok(report)
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

/// What a tick starts from.
pub(super) struct Loaded<'a> {
    pub(super) ledger: Ledger<'a>,
    pub(super) memory: Memory,
    pub(super) warnings: Vec<String>,
}

/// Opens the journal, mends it, and looks at some of what lies under it.
pub(super) fn load<'a>(
    disk: Disk<'a>,
    identity: &Identity,
    mend: Mend,
) -> Result<Loaded<'a>, Failure> {
    let _reading = take_lock(disk.host, &disk.layout.state(), PATIENCE)?.ok_or_else(busy)?;
    let ledger = Ledger::open(disk, identity, mend)?;
    let mut warnings = ledger.warnings().to_vec();
    let memory = load_memory(&disk, &mut warnings)?;
    // A new boot may follow a power cut: then nothing cached about the journal is believed, and
    // the index, which is never synced, is made anew.
    if memory.boot_id == disk.host.clock().boot_id {
        recheck(&disk, identity, &ledger, (memory.tick, mend))?;
    } else if ledger.floor().size > 0 {
        audit(&disk, Depth::Journal)?;
        if mend == Mend::Yes {
            rebuild::index(&disk, &identity.origin, ledger.floor())?;
        }
    }
    Ok(Loaded { ledger, memory, warnings })
}

/// Looks at one old bundle each tick. What is derived is made anew before the journal is blamed:
/// tiles that are missing, and an index that leads astray.
fn recheck(
    disk: &Disk<'_>,
    identity: &Identity,
    ledger: &Ledger<'_>,
    (turn, mend): (u64, Mend),
) -> Result<(), Failure> {
    let floor = ledger.floor();
    match rebuild::recheck_bundle(disk, floor, turn) {
        Ok(()) => Ok(()),
        Err(ReadError::Missing(_)) if mend == Mend::Yes => {
            rebuild::tree(disk, &identity.origin, floor).map(|_| ())
        }
        Err(ReadError::Wrong(_)) if mend == Mend::Yes => {
            rebuild::index(disk, &identity.origin, floor)?;
            Ok(rebuild::recheck_bundle(disk, floor, turn)?)
        }
        Err(error) => Err(error.into()),
    }
}

impl<'a> Loaded<'a> {
    /// While probing no lock was held: if somebody appended meanwhile, decide on what is there now.
    fn reload_if_moved(
        &mut self,
        disk: Disk<'a>,
        identity: &Identity,
        mend: Mend,
    ) -> Result<(), Failure> {
        if disk.length(&disk.layout.journal())? != Some(self.ledger.bytes()) {
            self.ledger = Ledger::open(disk, identity, mend)?;
            self.warnings.extend_from_slice(self.ledger.warnings());
        }
        Ok(())
    }
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
        unreachable: &BTreeSet::new(),
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

pub(super) fn beginning(clock: &Clock) -> Beginning<'_> {
    Beginning { boot_id: &clock.boot_id, boot_ms: clock.boot_ms, wall_ms: clock.wall_ms }
}

fn lock_state(host: &dyn Host, config: &Config) -> Result<Lock, Failure> {
    take_lock(host, &config.layout.state(), PATIENCE)?.ok_or_else(busy)
}

pub(super) fn busy() -> Failure {
    Failure::new(Kind::Busy, "another process works on the journal for longer than 10 s")
}

/// A lost or unreadable memory costs a grace tick, never the run.
fn load_memory(disk: &Disk<'_>, warnings: &mut Vec<String>) -> Result<Memory, Failure> {
    let path = disk.layout.tick();
    let Some(bytes) = disk.read(&path)? else {
        warnings.push(format!("{} is missing: suspicions start anew", path.display()));
        return Ok(Memory::default());
    };
    Ok(serde_json::from_slice(&bytes).unwrap_or_else(|error| {
        warnings.push(format!("{} does not read ({error}): suspicions start anew", path.display()));
        Memory::default()
    }))
}

/// Takes the losses for real from the next tick on (law 6: never held back); `None` where there are
/// none. The lock on `keys/` is held.
pub fn accept_loss(disk: &Disk<'_>) -> Result<Option<Memory>, Failure> {
    let mut memory = load_memory(disk, &mut Vec::new())?;
    if memory.suspects.is_empty() && memory.blind_ticks == 0 {
        return Ok(None);
    }
    memory.accept_loss = true;
    save_memory(disk, &memory)?;
    Ok(Some(memory))
}

/// Writes `tick.json`: the one durable write of an idle tick.
pub(super) fn save_memory(disk: &Disk<'_>, memory: &Memory) -> Result<(), Failure> {
    let mut bytes = serde_json::to_vec(memory).expect("a memory has string keys only");
    bytes.push(b'\n');
    disk.put(&disk.layout.tick(), &bytes, (Keep::Durable, Readers::Usual))
}

/// The questions to targets that tell whether our own network works.
pub(super) fn self_check_calls(config: &Config) -> Vec<Call> {
    let timeout = Duration::from_millis(config.profile.timeout_ms);
    let call = |address: &Address| Call {
        method: Method::Get,
        address: address.clone(),
        path: "/".to_owned(),
        host_header: address.authority(),
        headers: Vec::new(),
        body: Vec::new(),
        timeout,
        read: Read::Head,
        targets: Targets::Any,
    };
    config.self_check.iter().map(call).collect()
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
