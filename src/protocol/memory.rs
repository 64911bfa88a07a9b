//! What one tick tells the next: counters and ages, in ticks, never in wall time.
//!
//! Everything here may be lost. A lost memory gives a grace tick and restarts every suspicion; it
//! never shortens one (law 2).

use super::blind::{GAPS_KEPT, Gap, Pulse, pulse};
use super::member::NodeId;
use super::provisional::Provisional;
use super::reach::Reach;
use super::subject::Subject;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The contents of `tick.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Ticks executed so far.
    pub tick: u64,
    /// Boot in which the last tick ran.
    pub boot_id: String,
    /// Boot clock of the last tick in milliseconds.
    pub boot_ms: u64,
    /// Wall clock of the last tick in milliseconds since 1970, for people only.
    pub wall_ms: u64,
    /// The last counted gaps in milliseconds, oldest first.
    pub gaps_ms: Vec<u64>,
    /// Whether the last tick was a grace tick.
    pub grace: bool,
    /// Blind ticks in a row.
    pub blind_ticks: u64,
    /// Blind ticks in a row in which each did not answer, while they last.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub blind_silent: BTreeMap<Subject, u64>,
    /// What is known against each suspect.
    pub suspects: BTreeMap<Subject, Suspicion>,
    /// How much this observer distrusts itself, 0 to 8.
    #[serde(default)]
    pub health: u64,
    /// Executed healthy ticks in which a member was dead.
    #[serde(default)]
    pub dead: BTreeMap<NodeId, u64>,
    /// The newest observation of each member: its ts, and our tick in which it was new.
    #[serde(default)]
    pub observed: BTreeMap<NodeId, Observed>,
    /// The rest of the round in which members are probed where there are too many.
    #[serde(default)]
    pub order: Vec<NodeId>,
    /// An operator takes the losses for real: no cap and no blindness until no suspect is left.
    #[serde(default)]
    pub accept_loss: bool,
    /// Generation of the last route map.
    pub generation: u64,
    /// On a node: what cannot be reached from here.
    #[serde(default)]
    pub reach: Reach,
    /// On a node: ticks in a row in which no anchor answered.
    #[serde(default)]
    pub anchor_away: u64,
    /// On a node: what it judges by itself while none does.
    #[serde(default)]
    pub provisional: Provisional,
    /// On a node: how many lines of its branch the anchor refused, and the last of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_refused: Option<String>,
}

/// What is known against one suspect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suspicion {
    /// Executed healthy ticks in which it failed.
    pub ticks: u64,
    /// Everybody who failed to reach it, ourselves included.
    pub accusers: BTreeSet<NodeId>,
}

/// When a member last spoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observed {
    /// The observation's own time, in seconds since 1970.
    pub ts: u64,
    /// The member's own tick.
    pub theirs: u64,
    /// Our tick in which it was new.
    pub tick: u64,
}

/// The instant a tick began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beginning<'a> {
    /// Identifies the boot.
    pub boot_id: &'a str,
    /// Milliseconds since boot, sleep included.
    pub boot_ms: u64,
    /// Milliseconds since 1970.
    pub wall_ms: u64,
}

/// Whether so much is unknown since `last` (boot id, boot clock) that the folder may be an older copy
/// of itself: another boot, or a gap of more than three intervals.
pub fn is_long_ago(last: (&str, u64), now: &Beginning<'_>, interval_ms: u64) -> bool {
    let (boot_id, boot_ms) = last;
    let same_boot = boot_id == now.boot_id && now.boot_ms >= boot_ms;
    let gap = interval_ms > 0 && now.boot_ms.saturating_sub(boot_ms) > interval_ms * 3;
    !same_boot || gap
}

impl Memory {
    /// A memory as `init` leaves it: the first tick needs no grace, nothing can be stale yet.
    pub fn fresh(now: &Beginning<'_>) -> Self {
        Memory {
            boot_id: now.boot_id.to_owned(),
            boot_ms: now.boot_ms,
            wall_ms: now.wall_ms,
            ..Memory::default()
        }
    }

    /// Opens a tick: what kind it is, and the memory it goes on with.
    #[must_use]
    pub fn open(&self, now: &Beginning<'_>, interval_ms: u64) -> (Pulse, Memory) {
        let same_boot = self.boot_id == now.boot_id && now.boot_ms >= self.boot_ms;
        let since_ms = same_boot.then(|| now.boot_ms - self.boot_ms);
        let kind = pulse(&Gap {
            since_ms,
            counted_ms: &self.gaps_ms,
            interval_ms,
            last_was_grace: self.grace,
        });
        let mut next = self.clone();
        next.tick = next.tick.saturating_add(1);
        next.grace = kind == Pulse::Grace;
        next.wall_ms = now.wall_ms;
        if kind == Pulse::Early {
            // The gap goes on: many early ticks must not add up to a counted one, nor hide one,
            // nor make old what members said.
            next.observed.values_mut().for_each(|seen| seen.tick = seen.tick.saturating_add(1));
            return (kind, next);
        }
        next.boot_id = now.boot_id.to_owned();
        next.boot_ms = now.boot_ms;
        if kind == Pulse::Counted
            && let Some(gap) = since_ms
        {
            next.gaps_ms.push(gap);
            let surplus = next.gaps_ms.len().saturating_sub(GAPS_KEPT);
            next.gaps_ms.drain(..surplus);
        }
        (kind, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(boot_ms: u64) -> Beginning<'static> {
        Beginning { boot_id: "b", boot_ms, wall_ms: 0 }
    }

    #[test]
    fn early_ticks_leave_the_gap_open() {
        let memory = Memory::fresh(&at(0));
        let (kind, memory) = memory.open(&at(10_000), 30_000);
        assert_eq!(kind, Pulse::Early);
        let (kind, memory) = memory.open(&at(30_000), 30_000);
        assert_eq!((kind, memory.gaps_ms.as_slice()), (Pulse::Counted, [30_000].as_slice()));
    }

    #[test]
    fn a_lost_memory_or_another_boot_is_a_grace_tick() {
        assert_eq!(Memory::default().open(&at(5), 0).0, Pulse::Grace);
        let (kind, memory) =
            Memory::fresh(&at(9)).open(&Beginning { boot_id: "c", boot_ms: 1, wall_ms: 0 }, 0);
        assert_eq!(kind, Pulse::Grace);
        assert_eq!(
            memory.open(&Beginning { boot_id: "d", boot_ms: 1, wall_ms: 0 }, 0).0,
            Pulse::Counted
        );
    }
}
