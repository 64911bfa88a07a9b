//! Plan: whom this tick asks.
//!
//! The roster's rows, then those that only the journal still knows. A roster that is missing, empty
//! or unreadable changes nothing: rows once journalled are probed on and keep their last good line.

use super::peers;
use crate::config::Config;
use crate::protocol::member::{Liveness, NodeId};
use crate::protocol::membership::{Member, Membership};
use crate::protocol::memory::Memory;
use crate::protocol::profile::{PROBED_OF_MANY, Profile};
use crate::protocol::roster::{self, Listed, Roster};
use crate::protocol::turns;
use crate::store::disk::Disk;
use std::collections::BTreeSet;

/// Whom to ask, and what was wrong with the roster.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The roster as far as it could be read.
    pub roster: Roster,
    /// Rows to probe: roster order, then journal order.
    pub rows: Vec<Listed>,
    /// What an operator should know.
    pub warnings: Vec<String>,
    /// Whether the roster as a whole could not be used.
    pub without_roster: bool,
}

/// Whose roster is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// The federation's: what it lacks is a trouble, what it changes is journalled.
    Federation,
    /// A node's own, beside the rows that the journal tells.
    Node,
}

/// Plans a tick over the table as it stands.
pub fn plan(disk: &Disk<'_>, config: &Config, (membership, of): (&Membership, Of)) -> Plan {
    let mut plan = Plan::default();
    let known =
        of == Of::Federation && membership.members().any(|(_, member)| member.row.is_some());
    let trouble = match peers::find_roster(disk, config) {
        Ok(Some(roster)) => {
            plan.roster = roster;
            let empty = plan.roster.rows.is_empty() && plan.roster.rejected.is_empty();
            (empty && known).then(|| format!("{} has no rows", config.peers.display()))
        }
        Ok(None) if known => Some(format!("{} is missing", config.peers.display())),
        Ok(None) => None,
        Err(failure) => Some(failure.message),
    };
    if let Some(trouble) = trouble {
        plan.without_roster = true;
        plan.warnings.push(format!("{trouble}; rows already known stay as they are"));
    }
    plan.warnings.extend(enrolled_rows(&plan.roster, membership));
    plan.rows = rows(&plan.roster, (membership, of));
    plan
}

fn rows(roster: &Roster, (membership, of): (&Membership, Of)) -> Vec<Listed> {
    let keyless = |id: &NodeId| membership.member(id).is_none_or(|member| !member.enrolled);
    let mut rows: Vec<Listed> =
        roster.rows.iter().filter(|listed| keyless(&listed.id)).cloned().collect();
    let changes = match of {
        Of::Federation => roster::changes(roster, membership),
        Of::Node => Vec::new(),
    };
    let mut skip: BTreeSet<&NodeId> =
        changes.iter().filter(|change| change.row.is_none()).map(|change| &change.node).collect();
    skip.extend(roster.rows.iter().map(|listed| &listed.id));
    for (id, member) in membership.members() {
        let Some(row) = &member.row else { continue };
        let gone = member.standing.liveness == Liveness::Left || skip.contains(id);
        if !gone && row.address().is_ok() {
            rows.push(Listed { id: id.clone(), row: row.clone(), line: 0 });
        }
    }
    rows
}

fn enrolled_rows(roster: &Roster, membership: &Membership) -> Vec<String> {
    let enrolled =
        |listed: &&Listed| membership.member(&listed.id).is_some_and(|member| member.enrolled);
    let told = |listed: &Listed| {
        format!("roster line {}: '{}' holds a key, its row is ignored", listed.line, listed.id)
    };
    roster.rows.iter().filter(enrolled).map(told).collect()
}

/// Keyed members whose agents are asked in this tick: all of them, or where there are too many
/// those in doubt, some others in turn, and of the reaped one.
pub(super) fn whom(
    membership: &Membership,
    own: &NodeId,
    (memory, profile): (&mut Memory, &Profile),
    below: &mut dyn FnMut(u64) -> u64,
) -> Vec<NodeId> {
    let dialled = membership.members().filter(|(id, member)| {
        let inbound = member.enrolled && !member.outbound && !member.urls.is_empty();
        inbound && member.standing.liveness.may_answer() && *id != own
    });
    let (reaped, present): (Vec<_>, Vec<_>) = dialled.partition(|(_, member)| member.reaped);
    let mut asked: Vec<NodeId> = present.iter().map(|(id, _)| (*id).clone()).collect();
    if asked.len() as u64 > profile.probe_all_max {
        let doubted = |member: &Member| member.standing.liveness == Liveness::Suspect;
        let (suspects, others): (Vec<_>, Vec<_>) =
            present.iter().partition(|(_, member)| doubted(member));
        let others: Vec<NodeId> = others.iter().map(|(id, _)| (*id).clone()).collect();
        asked = suspects.iter().map(|(id, _)| (*id).clone()).collect();
        asked.extend(turns::next(&mut memory.order, &others, PROBED_OF_MANY, below));
    }
    if !reaped.is_empty() {
        let turn = usize::try_from(memory.tick).unwrap_or_default() % reaped.len();
        asked.push(reaped[turn].0.clone());
    }
    asked
}
