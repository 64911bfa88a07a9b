//! The floor on disk: how much was signed, and what it means when the journal disagrees.

use super::disk::Disk;
use super::identity::Identity;
use super::scan::{self, End, Start, Step};
use crate::error::Failure;
use crate::host::{Keep, Readers};
use crate::journal::chain::{Tip, origin_hash};
use crate::journal::checkpoint::{Checkpoint, open_checkpoint};
use crate::journal::floor::Floor;
use crate::journal::merkle::{Frontier, Hash, empty_root};
use crate::journal::record::Record;

/// Lines that `init` writes: a journal of no more, ours, without a floor, is an unfinished one.
const FOUNDING_LINES: u64 = 3;

/// What is found of our own two notes, whether they agree or not.
#[derive(Clone, Debug)]
pub struct Held {
    /// What the journal is proven to have had; none where both notes are missing.
    pub floor: Option<Floor>,
    /// The root file's checkpoint where it has our signature on something else.
    pub against: Option<Checkpoint>,
}

/// The same as [`read`] for a repair, which has to go on where `read` refuses.
pub fn held(disk: &Disk<'_>, identity: &Identity) -> Result<Held, Failure> {
    let none = [disk.layout.committed(), disk.layout.root()]
        .iter()
        .all(|path| matches!(disk.length(path), Ok(None)));
    if none {
        return Ok(Held { floor: None, against: None });
    }
    if disk.length(&disk.layout.committed())?.is_none() {
        return Ok(Held { floor: Some(read(disk, identity)?), against: None });
    }
    let floor = committed(disk, identity)?;
    let root = read_root(disk, identity).ok().flatten().map(|(checkpoint, _)| checkpoint);
    let against = root.zip(floor.as_ref()).filter(|(root, floor)| convicts(root, floor));
    Ok(Held { against: against.map(|(root, _)| root), floor })
}

/// The floor: `state/committed.json`, else the root file, else (an unfinished `init`) nothing yet.
pub fn read(disk: &Disk<'_>, identity: &Identity) -> Result<Floor, Failure> {
    let root = read_root(disk, identity);
    let Some(floor) = committed(disk, identity)? else {
        return match root? {
            Some((checkpoint, note)) => floor_from_root(disk, identity, &checkpoint, note),
            None => unfounded(disk, identity),
        };
    };
    // An unreadable root file is derived data and rewritten; one that our key signed is evidence.
    match root {
        Ok(Some((checkpoint, _))) if convicts(&checkpoint, &floor) => {
            Err(forked(&checkpoint, &floor))
        }
        _ => Ok(floor),
    }
}

/// The floor of `state/committed.json`, checked to be what its own note says.
fn committed(disk: &Disk<'_>, identity: &Identity) -> Result<Option<Floor>, Failure> {
    let path = disk.layout.committed();
    let Some(bytes) = disk.read(&path)? else { return Ok(None) };
    let floor: Floor = serde_json::from_slice(&bytes).map_err(|error| {
        Failure::integrity(format!("{} does not read: {error}", path.display()))
            .hint("remove it: federation-root.txt then is the floor")
    })?;
    let vkey = identity.verifier_of(floor.note.as_bytes())?;
    floor
        .checked(&vkey)
        .map_err(|error| Failure::integrity(format!("{}: {error}", path.display())))?;
    Ok(Some(floor))
}

/// Whether our own signature on `checkpoint` contradicts what we hold (law 3).
fn convicts(checkpoint: &Checkpoint, floor: &Floor) -> bool {
    checkpoint.size > floor.size || (checkpoint.size == floor.size && checkpoint.root != floor.root)
}

fn forked(checkpoint: &Checkpoint, floor: &Floor) -> Failure {
    Failure::integrity(format!(
        "federation-root.txt has our signature on size {} root {}, but the floor says size {} root {}: rolled back or forked",
        checkpoint.size, checkpoint.root, floor.size, floor.root
    ))
    .hint("nothing is signed until this is cleared; both notes are kept in state/evidence")
}

/// A conviction stands until a person has judged it: with somebody else's copy of our signature in
/// `state/evidence`, nothing is signed (law 3). A contradiction among our own files is seen anew
/// each time, and is over when the right file is back.
pub fn refuse_convicted(disk: &Disk<'_>) -> Result<(), Failure> {
    let folder = disk.layout.evidence();
    let mut notes = disk.host.names(&folder).unwrap_or_default();
    notes.retain(|name| name.starts_with("theirs-"));
    if notes.is_empty() {
        return Ok(());
    }
    Err(Failure::integrity(format!(
        "the log's signature is on two histories: {} in {}",
        notes.join(", "),
        folder.display()
    ))
    .hint("crowny-fed doctor says which of the two this is and what to do"))
}

/// Sets all evidence aside under `state/evidence/settled-<ms>/`, so that signing goes on; nothing of
/// it is ever removed. Cut off anywhere, what was not moved yet still refuses.
pub fn settle(disk: &Disk<'_>) -> Result<Option<String>, Failure> {
    let folder = disk.layout.evidence();
    let mut names = disk.host.names(&folder).unwrap_or_default();
    names.retain(|name| !name.starts_with("settled-"));
    if names.is_empty() {
        return Ok(None);
    }
    let aside = folder.join(format!("settled-{}", disk.host.clock().wall_ms));
    disk.folder(&aside, true)?;
    for name in &names {
        let Some(bytes) = disk.read(&folder.join(name))? else { continue };
        disk.put(&aside.join(name), &bytes, (Keep::Durable, Readers::Usual))?;
    }
    names.iter().try_for_each(|name| disk.remove(&folder.join(name)))?;
    Ok(Some(aside.display().to_string()))
}

/// Keeps both notes of a contradiction between floor and root file, for whoever has to judge it.
/// Best effort: the refusal stands with or without.
pub fn keep_evidence(disk: &Disk<'_>, identity: &Identity) {
    let Ok(vkey) = identity.verifier() else { return };
    // A floor whose numbers are not those of its own note convicts nobody.
    let floor = disk
        .read(&disk.layout.committed())
        .ok()
        .flatten()
        .and_then(|bytes| serde_json::from_slice::<Floor>(&bytes).ok())
        .filter(|floor| floor.checked(&vkey).is_ok());
    let (Some(floor), Ok(Some((checkpoint, note)))) = (floor, read_root(disk, identity)) else {
        return;
    };
    if !convicts(&checkpoint, &floor) || disk.folder(&disk.layout.evidence(), true).is_err() {
        return;
    }
    let how = (Keep::Durable, Readers::Usual);
    for (name, size, note) in [("floor", floor.size, &floor.note), ("root", checkpoint.size, &note)]
    {
        let path = disk.layout.evidence().join(format!("{name}-{size}.txt"));
        let _ = disk.put(&path, note.as_bytes(), how);
    }
}

fn read_root(
    disk: &Disk<'_>,
    identity: &Identity,
) -> Result<Option<(Checkpoint, String)>, Failure> {
    let path = disk.layout.root();
    let Some(bytes) = disk.read(&path)? else {
        return Ok(None);
    };
    let vkey = identity.verifier_of(&bytes)?;
    let (checkpoint, note) = open_checkpoint(&bytes, &vkey)
        .map_err(|error| Failure::integrity(format!("{}: {error}", path.display())))?;
    Ok(Some((checkpoint, note.render())))
}

fn floor_from_root(
    disk: &Disk<'_>,
    identity: &Identity,
    checkpoint: &Checkpoint,
    note: String,
) -> Result<Floor, Failure> {
    let floor = Floor {
        bytes: 0,
        head: origin_hash(&identity.origin),
        note,
        root: checkpoint.root,
        size: checkpoint.size,
        ts: 0,
    };
    let present = disk.length(&disk.layout.journal())?.is_some();
    let mut frontier = Frontier::new();
    let start = Start { tip: Tip::origin(&identity.origin), bytes: 0 };
    let end = if present {
        scan::walk(disk, start, checkpoint.size, &mut |step| {
            frontier.push(step.tip.head);
            Ok(())
        })?
    } else {
        End { tip: start.tip, bytes: 0, reason: None }
    };
    if end.tip.size < checkpoint.size {
        return Err(damage(disk, &floor, &end));
    }
    if frontier.root() != checkpoint.root {
        return Err(unlike_signed(disk, &floor, frontier.root()));
    }
    Ok(Floor { bytes: end.bytes, head: end.tip.head, ts: end.tip.ts, ..floor })
}

/// No floor and no root: right for the first lines of our own unfinished `init`, and on a member,
/// whose lines the next sync proves or sets aside.
fn unfounded(disk: &Disk<'_>, identity: &Identity) -> Result<Floor, Failure> {
    let mut ours = true;
    if identity.is_anchor() && disk.length(&disk.layout.journal())?.unwrap_or(0) > 0 {
        let start = Start { tip: Tip::origin(&identity.origin), bytes: 0 };
        let end = scan::walk(disk, start, FOUNDING_LINES + 1, &mut |step| {
            if let Record::Genesis(genesis) = Record::of(step.line) {
                ours = genesis.vkey == identity.vkey;
            }
            Ok(())
        })?;
        ours = ours && end.tip.size <= FOUNDING_LINES;
    }
    if !ours {
        return Err(Failure::integrity(format!(
            "{} has lines, but neither state/committed.json nor federation-root.txt says how many were signed",
            disk.layout.journal().display()
        ))
        .hint("restore one of the two from a backup, or where there is none: crowny-fed doctor --adopt; nothing is signed before"));
    }
    Ok(nothing_signed(identity))
}

/// The floor of a journal of which nothing was ever signed.
pub fn nothing_signed(identity: &Identity) -> Floor {
    Floor {
        bytes: 0,
        head: origin_hash(&identity.origin),
        note: String::new(),
        root: empty_root(),
        size: 0,
        ts: 0,
    }
}

/// Whether the last line under the floor is the one that the floor names.
pub(super) fn ends_at(floor: &Floor, step: Step<'_>) -> bool {
    step.tip.head == floor.head && step.at + step.raw.len() as u64 + 1 == floor.bytes
}

/// The lines are those that were signed, but the floor names another end. Only its note is signed.
pub(super) fn misleads(disk: &Disk<'_>) -> Failure {
    Failure::integrity(format!(
        "{} does not name the end of the lines that it signed",
        disk.layout.committed().display()
    ))
    .hint("remove it: federation-root.txt then is the floor")
}

/// A line under the floor is not what was signed.
pub fn changed(disk: &Disk<'_>, seq: u64, at: u64, reason: &str) -> Failure {
    Failure::integrity(format!(
        "{}: line {seq} at byte offset {at} is damaged: {reason}",
        disk.layout.journal().display()
    ))
    .hint("it was signed, so it is not skipped: restore the file from a backup or another node")
}

/// All lines are there and chained, but they are not those that were signed.
pub(super) fn unlike_signed(disk: &Disk<'_>, floor: &Floor, root: Hash) -> Failure {
    Failure::integrity(format!(
        "{}: the lines give root {root} at size {}, but {} was signed",
        disk.layout.journal().display(),
        floor.size,
        floor.root
    ))
    .hint("a line was changed and the chain after it made anew; restore the file from another node")
}

/// What is wrong with a journal that ends, or stops being one, below the floor.
pub fn damage(disk: &Disk<'_>, floor: &Floor, end: &End) -> Failure {
    if let Some(reason) = &end.reason {
        return changed(disk, end.tip.size, end.bytes, reason);
    }
    let found = end.tip.size;
    Failure::integrity(format!(
        "{}: {} of {} signed lines are missing ({found} found)",
        disk.layout.journal().display(),
        floor.size - found,
        floor.size
    ))
    .hint(
        "nothing is appended to a shorter journal: restore the file from a backup or another node",
    )
}

/// How far a journal that is shorter than its floor can be followed.
pub(super) fn followed(
    disk: &Disk<'_>,
    identity: &Identity,
    floor: &Floor,
) -> Result<End, Failure> {
    let start = Start { tip: Tip::origin(&identity.origin), bytes: 0 };
    match disk.length(&disk.layout.journal())? {
        Some(_) => scan::walk(disk, start, floor.size, &mut |_| Ok(())),
        None => Ok(End { tip: start.tip, bytes: 0, reason: None }),
    }
}
