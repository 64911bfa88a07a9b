//! Roster rows: peers that an operator lists by hand and that hold no key of ours.
//!
//! Intuition: the roster file is a wish, the journal is the record. A row enters the journal
//! when it is first seen, again when it changes, and as `left` when it is gone; a row that cannot
//! be read keeps its last good record (design section 8).

use super::address::Address;
use super::member::{Incarnation, Liveness, NodeId};
use super::membership::Membership;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Most rows of one roster (design section 16).
pub const ROWS_MAX: usize = 10_000;

/// One peer as the operator typed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Host as typed: an address, a name, or `https://name`.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Free text; where it is a service name, the row is routed under it.
    pub role: String,
    /// `active` rows are routed and listed; every other word only probes.
    pub state: String,
}

impl Row {
    /// Whether the operator wants traffic there.
    pub fn is_active(&self) -> bool {
        self.state.eq_ignore_ascii_case("active")
    }

    /// Where to dial. Rows are checked when read, so an error means the record came from
    /// a newer version.
    pub fn address(&self) -> Result<Address, String> {
        Address::parse(&self.host, self.port).map_err(|error| error.to_string())
    }
}

/// One row and where it stood in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The row's name.
    pub id: NodeId,
    /// What it says.
    pub row: Row,
    /// Line in the file, from 1.
    pub line: usize,
}

/// One line that is no row, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Line in the file, from 1.
    pub line: usize,
    /// The id in its first column, where that much could be read.
    pub id: Option<NodeId>,
    /// What is wrong with it.
    pub reason: String,
}

/// A roster as read: rows in file order, and the lines that are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster {
    /// Good rows in file order.
    pub rows: Vec<Listed>,
    /// Lines set aside.
    pub rejected: Vec<Rejected>,
}

/// A difference between the roster and the journal, to become a `roster` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RosterChange {
    /// Which peer.
    pub node: NodeId,
    /// Its incarnation from now on.
    pub incarnation: Incarnation,
    /// The row, or `None` when it left the roster.
    pub row: Option<Row>,
}

/// Compares the roster with the record. A roster without a single good row changes nothing: an
/// emptied or unreadable file must not empty the map.
pub fn changes(roster: &Roster, membership: &Membership) -> Vec<RosterChange> {
    if roster.rows.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<RosterChange> =
        roster.rows.iter().filter_map(|listed| row_change(listed, membership)).collect();
    found.extend(departures(roster, membership));
    found
}

fn row_change(listed: &Listed, membership: &Membership) -> Option<RosterChange> {
    let change = |incarnation| RosterChange {
        node: listed.id.clone(),
        incarnation,
        row: Some(listed.row.clone()),
    };
    let Some(member) = membership.member(&listed.id) else {
        return Some(change(Incarnation::FIRST));
    };
    if member.enrolled {
        return None;
    }
    let held = member.row.as_ref()?;
    let returned = member.standing.liveness == Liveness::Left;
    if held == &listed.row && !returned {
        return None;
    }
    let moved = held.host != listed.row.host || held.port != listed.row.port;
    // Another address is another process: old doubts about the old one must not follow it.
    let incarnation = if moved || returned {
        member.standing.incarnation.raised()
    } else {
        member.standing.incarnation
    };
    Some(change(incarnation))
}

fn departures(roster: &Roster, membership: &Membership) -> Vec<RosterChange> {
    // A line too damaged to tell whose it is could be anybody's, so nobody leaves meanwhile.
    if roster.rejected.iter().any(|bad| bad.id.is_none()) {
        return Vec::new();
    }
    let damaged = roster.rejected.iter().filter_map(|bad| bad.id.as_ref());
    let listed: BTreeSet<String> =
        roster.rows.iter().map(|row| &row.id).chain(damaged).map(NodeId::folded).collect();
    membership
        .members()
        .filter(|(_, member)| member.row.is_some() && member.standing.liveness != Liveness::Left)
        .filter(|(id, _)| !listed.contains(&id.folded()))
        .map(|(id, member)| RosterChange {
            node: id.clone(),
            incarnation: member.standing.incarnation,
            row: None,
        })
        .collect()
}
