//! `decisions.ndjson`: what this node decided for itself alone, in lines like the journal's.
//!
//! Nothing here is anybody else's business, so it is chained for the reader's eye and signed by
//! nobody. It is synced before the map shows what it says (law 2), and begins anew when it is full.

use super::disk::Disk;
use super::draft::Draft;
use crate::error::Failure;
use crate::host::{Keep, Readers};
use crate::journal::chain::Tip;
use crate::protocol::member::NodeId;
use crate::protocol::membership::Membership;
use crate::protocol::memory::Memory;
use crate::protocol::provisional::Provisional;
use crate::protocol::reach::Reach;
use serde::Serialize;

/// Largest file, in bytes (design section 16); the one before is kept.
pub const BYTES_MAX: u64 = 4 * 1024 * 1024;

/// `reach`: a member was left out of our own map, or is back in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReachChange {
    /// Who.
    pub node: NodeId,
    /// Whether it can be reached from here again.
    pub reachable: bool,
    /// Healthy ticks in which it did not answer.
    pub silent: u64,
    /// Our tick.
    pub tick: u64,
}

/// `provisional`: with no anchor to say so, a member is held to be dead in our own map, or no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Agreed {
    /// Who.
    pub node: NodeId,
    /// Whether it is held to be dead.
    pub dead: bool,
    /// Healthy ticks in which it was agreed to be missing.
    pub missed: u64,
    /// Our tick.
    pub tick: u64,
}

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Decided {
    /// See [`ReachChange`].
    Reach(ReachChange),
    /// See [`Agreed`].
    Provisional(Agreed),
}

impl Decided {
    fn kind(&self) -> &'static str {
        match self {
            Decided::Reach(_) => "reach",
            Decided::Provisional(_) => "provisional",
        }
    }
}

/// What one tick of this node makes of its memory.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// What it held before.
    pub before: &'a Memory,
    /// What it holds now.
    pub after: &'a Memory,
    /// The table.
    pub membership: &'a Membership,
}

/// What changed in a tick. Whoever is gone from the table has not come back.
pub fn changes(turn: &Turn<'_>) -> Vec<Decided> {
    let routable = |node: &&NodeId| {
        let member = turn.membership.member(node);
        member.is_some_and(|member| member.standing.liveness.is_routable())
    };
    let tick = turn.after.tick;
    let (before, after) = (&turn.before.reach, &turn.after.reach);
    let change = |node: &NodeId, reachable: bool, silent: &Reach| {
        let silent = silent.silent.get(node).copied().unwrap_or(0);
        Decided::Reach(ReachChange { node: node.clone(), reachable, silent, tick })
    };
    let gone = after.unreachable.difference(&before.unreachable);
    let back = before.unreachable.difference(&after.unreachable).filter(routable);
    let reach = gone
        .map(|node| change(node, false, after))
        .chain(back.map(|node| change(node, true, before)));

    let (held, holds) = (&turn.before.provisional, &turn.after.provisional);
    let agreed = |node: &NodeId, dead: bool, missed: &Provisional| {
        let missed = missed.missed.get(node).copied().unwrap_or(0);
        Decided::Provisional(Agreed { node: node.clone(), dead, missed, tick })
    };
    let dead = holds.dead.difference(&held.dead).map(|node| agreed(node, true, holds));
    let back = held.dead.difference(&holds.dead).map(|node| agreed(node, false, held));
    reach.chain(dead).chain(back).collect()
}

/// Commits the changes: one write, one sync. What a crash left half-written is cut off first.
pub fn append(disk: &Disk<'_>, origin: &str, changes: &[Decided]) -> Result<(), Failure> {
    if changes.is_empty() {
        return Ok(());
    }
    let path = disk.layout.decisions();
    let mut held = disk.read(&path)?.unwrap_or_default();
    if held.len() as u64 > BYTES_MAX {
        let old = disk.layout.decisions_before();
        disk.put(&old, &held, (Keep::Durable, Readers::Usual))?;
        disk.cut(&path, 0)?;
        held.clear();
    }
    let (mut tip, good) = followed(&held, origin);
    let mut bytes = Vec::new();
    let now_s = disk.host.clock().wall_ms / 1_000;
    for change in changes {
        let payload = serde_json::to_value(change).unwrap_or_default().to_string();
        let raw = Draft::local(change.kind(), payload).line(&tip, now_s).render().into_bytes();
        tip.accept(&raw).map_err(|error| Failure::failed(error.to_string()))?;
        bytes.extend_from_slice(&raw);
        bytes.push(b'\n');
    }
    if good < held.len() as u64 {
        disk.cut(&path, good)?;
    }
    disk.append(&path, good, &bytes, Keep::Durable)
}

/// The last good line and where it ends.
fn followed(held: &[u8], origin: &str) -> (Tip, u64) {
    let mut tip = Tip::origin(&format!("{origin}/decisions"));
    let mut good = 0;
    for raw in held.split_inclusive(|byte| *byte == b'\n') {
        let Some(line) = raw.strip_suffix(b"\n") else { break };
        if tip.accept(line).is_err() {
            break;
        }
        good += raw.len() as u64;
    }
    (tip, good)
}
