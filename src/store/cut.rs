//! Cutting the journal below its floor: the one way back, for a history that an operator's signed act
//! has ended.
//!
//! What is cut is kept first. Then the intent is written; from there on the cut is finished by
//! whoever opens the journal next, however often it is cut off itself. Without floor and root the
//! lines that stay are as unproven as any, so the next sync proves them before anybody sees them.

use super::branch::Branch;
use super::disk::Disk;
use crate::error::Failure;
use crate::host::{Keep, Readers, Span};
use crate::journal::branch::{self, Run};
use crate::journal::floor::Floor;
use crate::journal::record::Record;
use serde::{Deserialize, Serialize};

/// How much of the journal stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    /// Lines.
    pub size: u64,
    /// Their length in bytes.
    pub bytes: u64,
}

/// What was cut off.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Where the lines are.
    pub path: String,
    /// What an operator had done in them, and nobody can merge.
    pub operators: Vec<String>,
}

/// Keeps what lies beyond and cuts it off; the append lock is held.
pub fn begin(disk: &Disk<'_>, cut: &Cut) -> Result<Kept, Failure> {
    let journal = disk.layout.journal();
    let tail = disk.read_span(&journal, Span { from: cut.bytes, most: u64::MAX })?;
    let stamp = disk.host.clock().wall_ms;
    let evidence = disk.layout.evidence();
    disk.folder(&evidence, true)?;
    let how = (Keep::Durable, Readers::Usual);
    let kept = evidence.join(format!("tail-{}-{stamp}.ndjson", cut.size));
    disk.put(&kept, &tail, how)?;
    if let Some(note) = note_of_floor(disk)? {
        disk.put(&evidence.join(format!("tail-{}-{stamp}.txt", cut.size)), note.as_bytes(), how)?;
    }
    // What members signed among them goes home with the next merge.
    Branch::take_in(disk, &tail)?;
    let intent = serde_json::to_vec(cut).expect("two numbers have a JSON form");
    disk.put(&disk.layout.cut(), &intent, how)?;
    finish(disk)?;
    Ok(Kept { path: kept.display().to_string(), operators: operators(&tail) })
}

/// The operator's own acts among these lines.
fn operators(tail: &[u8]) -> Vec<String> {
    let (runs, _) = branch::parse(tail);
    let lines = runs.iter().flat_map(Run::lines);
    lines.filter_map(|twig| operators_act(&Record::of(&twig.line))).collect()
}

fn operators_act(record: &Record) -> Option<String> {
    match record {
        Record::Enroll(enroll) => Some(format!("invite {}", enroll.node)),
        Record::Grant(grant) if grant.on => Some(format!("grant {} {}", grant.service, grant.node)),
        Record::Grant(grant) => Some(format!("grant --off {} {}", grant.service, grant.node)),
        Record::Revoke(revoke) => Some(format!("revoke {}", revoke.node)),
        _ => None,
    }
}

fn note_of_floor(disk: &Disk<'_>) -> Result<Option<String>, Failure> {
    let bytes = disk.read(&disk.layout.committed())?;
    let floor = bytes.and_then(|bytes| serde_json::from_slice::<Floor>(&bytes).ok());
    Ok(floor.map(|floor| floor.note))
}

/// Finishes a cut that was begun; does nothing where none was.
pub fn finish(disk: &Disk<'_>) -> Result<(), Failure> {
    let path = disk.layout.cut();
    let Some(bytes) = disk.read(&path)? else {
        return Ok(());
    };
    let cut: Cut = serde_json::from_slice(&bytes).map_err(|error| {
        Failure::integrity(format!("{} does not read: {error}", path.display())).hint(
            "a cut of the journal was begun: restore this file, or the whole folder, from a backup",
        )
    })?;
    let layout = disk.layout;
    // What promises the lines goes first, then they.
    for promise in [layout.root(), layout.head(), layout.snapshot(), layout.committed()] {
        disk.remove(&promise)?;
    }
    for derived in [layout.index(), layout.tile("tile")] {
        disk.remove(&derived)?;
    }
    if disk.length(&layout.journal())?.is_some_and(|length| length > cut.bytes) {
        disk.cut(&layout.journal(), cut.bytes)?;
    }
    disk.remove(&path)
}
