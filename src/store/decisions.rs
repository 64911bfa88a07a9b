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

/// What changed between two ticks. Whoever is gone from the table has not come back.
pub fn changes(
    (before, after): (&Reach, &Reach),
    membership: &Membership,
    tick: u64,
) -> Vec<ReachChange> {
    let routable = |node: &&NodeId| {
        membership.member(node).is_some_and(|member| member.standing.liveness.is_routable())
    };
    let change = |node: &NodeId, reachable: bool, silent: &Reach| ReachChange {
        node: node.clone(),
        reachable,
        silent: silent.silent.get(node).copied().unwrap_or(0),
        tick,
    };
    let gone = after.unreachable.difference(&before.unreachable);
    let back = before.unreachable.difference(&after.unreachable);
    gone.map(|node| change(node, false, after))
        .chain(back.filter(routable).map(|node| change(node, true, before)))
        .collect()
}

/// Commits the changes: one write, one sync. What a crash left half-written is cut off first.
pub fn append(disk: &Disk<'_>, origin: &str, changes: &[ReachChange]) -> Result<(), Failure> {
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
        let raw = Draft::local("reach", payload).line(&tip, now_s).render().into_bytes();
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
