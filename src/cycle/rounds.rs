//! One Q-peer round by hand: probe the roster, write the status file; and the failover list.

use super::{peers, publish};
use crate::config::Config;
use crate::error::{Failure, Kind};
use crate::host::{Change, Host, Lock};
use crate::layout::Layout;
use crate::protocol::failover;
use crate::protocol::member::NodeId;
use crate::protocol::probe::Judgement;
use crate::protocol::roster::{Listed, Roster};
use crate::store::disk::Disk;
use crate::store::identity::Identity;
use crate::store::view::View;
use crate::wire::freshness::Freshness;
use crate::wire::psv::PeerStatus;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

/// How long a verb other than `tick` waits for a lock.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// What a round saw.
#[derive(Clone, Debug)]
pub struct Round {
    /// The roster, rejected lines included.
    pub roster: Roster,
    /// The rows written.
    pub rows: Vec<PeerStatus>,
    /// What was wrong with the file they replace.
    pub warning: Option<String>,
}

/// Probes every roster row once and writes the status file.
pub fn probe(host: &dyn Host, config: &Config) -> Result<Round, Failure> {
    let disk = Disk { host, layout: &config.layout };
    let roster = peers::require_roster(&disk, config)?;
    if roster.rows.is_empty() && roster.rejected.is_empty() {
        return Err(Failure::new(
            Kind::No,
            format!("the roster {} has no rows", config.peers.display()),
        ));
    }
    peers::gateway_sha256(&disk, config)?;
    let now = host.clock();
    let heard = peers::ask(&disk, config, &roster.rows, now.boot_ms + config.profile.deadline_ms());
    let rows = peers::status_rows(config, &heard, false, &publish::rfc3339(now.wall_ms));
    let _one_writer = lock_folder_of(host, &config.status)?;
    let warning = publish::status(&disk, config, &rows, "probe")?;
    Ok(Round { roster, rows, warning })
}

/// The list, and how it came about.
#[derive(Clone, Debug)]
pub struct List {
    /// Best first.
    pub rows: Vec<Listed>,
    /// `federation` or `roster`.
    pub rule: &'static str,
    /// Why the list is not of now, where it is not.
    pub old: Option<String>,
}

/// Judges the list again from what is on disk. An empty one is an error of kind `No`.
pub fn failover(host: &dyn Host, config: &Config) -> Result<List, Failure> {
    let disk = Disk { host, layout: &config.layout };
    let roster = peers::require_roster(&disk, config)?;
    if roster.rows.is_empty() {
        return Err(nobody(format!("the roster {} has no usable rows", config.peers.display())));
    }
    let list = if has_federation(&disk)? {
        by_federation(disk, &roster)?
    } else {
        by_roster(&disk, config, &roster)?
    };
    if list.rows.is_empty() {
        let active = roster.rows.iter().filter(|listed| listed.row.is_active()).count();
        return Err(nobody(format!(
            "of {} in the roster {active} are active, and none of those is usable",
            roster.rows.len()
        )));
    }
    Ok(list)
}

fn nobody(reason: String) -> Failure {
    Failure::new(Kind::No, format!("nobody to fail over to: {reason}"))
}

/// An anchor always has one; a member once it holds the anchor's journal.
fn has_federation(disk: &Disk<'_>) -> Result<bool, Failure> {
    let identity = Identity::load(disk)?;
    let published = disk.length(&disk.layout.root())?.is_some();
    Ok(identity.is_some_and(|identity| identity.is_anchor() || published))
}

/// In a blind tick the journal does not move, so its list is the last healthy tick's.
fn by_federation(disk: Disk<'_>, roster: &Roster) -> Result<List, Failure> {
    let view = View::open(disk)?;
    let fresh = disk
        .read(&disk.layout.freshness())?
        .and_then(|bytes| serde_json::from_slice::<Freshness>(&bytes).ok());
    let old = fresh.filter(|fresh| fresh.blind).map(|fresh| {
        format!("local network problem at {}: list of the last healthy tick", fresh.time)
    });
    let rows = failover::by_liveness(roster, &view.fold.membership).into_iter().cloned().collect();
    Ok(List { rows, rule: "federation", old })
}

fn by_roster(disk: &Disk<'_>, config: &Config, roster: &Roster) -> Result<List, Failure> {
    let status = peers::load_status(disk, config)?.ok_or_else(|| {
        nobody(format!("not judged yet, {} is missing", config.status.display()))
            .hint("run: crowny-fed probe")
    })?;
    let at: BTreeMap<&NodeId, (&str, u16)> = roster
        .rows
        .iter()
        .map(|listed| (&listed.id, (listed.row.host.as_str(), listed.row.port)))
        .collect();
    // A row that has moved since the probe was not judged where it stands now.
    let judged: BTreeMap<NodeId, Judgement> = status
        .into_iter()
        .filter(|row| at.get(&row.id) == Some(&(row.host.as_str(), row.port)))
        .map(|row| (row.id, row.judgement))
        .collect();
    let rows = failover::by_judgement(roster, &judged).into_iter().cloned().collect();
    Ok(List { rows, rule: "roster", old: None })
}

/// Keeps two writers of a file that lies outside our locks from sharing a temporary name.
fn lock_folder_of(host: &dyn Host, path: &Path) -> Result<Lock, Failure> {
    let folder =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    take_lock(host, folder, PATIENCE)?.ok_or_else(|| {
        Failure::new(Kind::Busy, format!("{} is being written by another process", path.display()))
    })
}

/// Takes a folder's lock; `None` if another process holds it for longer than `patience`.
pub fn take_lock(
    host: &dyn Host,
    folder: &Path,
    patience: Duration,
) -> Result<Option<Lock>, Failure> {
    match host.lock(folder, patience) {
        // A restored backup may lack the folders that hold nothing worth keeping.
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_ours(host, folder) => {
            let _ = host.change(Change::Folder { path: folder, private: true });
        }
        held => return held.map_err(|error| unlockable(folder, &error)),
    }
    host.lock(folder, patience).map_err(|error| unlockable(folder, &error))
}

/// Whether a folder is one of those in our own that are locked.
fn is_ours(host: &dyn Host, folder: &Path) -> bool {
    let named = folder.file_name().is_some_and(|name| name == "state" || name == "keys");
    let identity = folder.parent().map(|dir| Layout::new(dir).identity());
    named && identity.is_some_and(|path| host.entry(&path).is_ok_and(|entry| entry.is_some()))
}

fn unlockable(folder: &Path, error: &io::Error) -> Failure {
    Failure::config(format!("cannot lock {}: {error}", folder.display()))
        .hint("the folder must support flock (NFS without locks does not); nothing was written")
}
