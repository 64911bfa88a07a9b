//! The root file and the head beside it: what readers see of what was signed.
//!
//! It is a copy of the floor's note, plus lines that others signed under it, so whoever writes it
//! keeps those lines as long as the text they signed stays. Where a witness must cosign first, the
//! file stays behind the floor until it has.

use super::disk::Disk;
use super::ledger::Release;
use crate::auth::vkey::VerifierKey;
use crate::error::Failure;
use crate::host::{Keep, Readers};
use crate::journal::checkpoint::{Checkpoint, open_checkpoint};
use crate::journal::cosignature::{put_cosignature, with_cosignatures_of};
use crate::journal::floor::Floor;
use crate::journal::note::{NoteError, NoteSignature, SignedNote};

/// How `federation-root.txt` and `head.txt` are written.
const HOW: (Keep, Readers) = (Keep::Durable, Readers::Everybody);

/// Brings the root file up to the floor, unless it has to wait. Returns whether it is there.
pub(super) fn follow(disk: &Disk<'_>, floor: &Floor, release: Release) -> Result<bool, Failure> {
    let bytes = disk.read(&disk.layout.root())?;
    let held = bytes.and_then(|bytes| SignedNote::parse(bytes).ok());
    let Ok(note) = SignedNote::parse(&floor.note) else {
        // Nothing was ever signed: an unfinished `init`.
        return Ok(false);
    };
    let same = held.as_ref().is_some_and(|held| held.body == note.body);
    if !same && release == Release::Cosigned {
        return Ok(false);
    }
    let note = held.map_or(note.clone(), |held| with_cosignatures_of(&note, &held));
    write(disk, &note, floor)?;
    Ok(true)
}

/// What became of the root file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// It shows another checkpoint and was left alone.
    Other,
    /// It shows the same lines as before, with what was added.
    Same,
    /// It shows more lines than before.
    More,
}

/// Adds `lines`, verified cosignatures over the note of `asked`; `state` must be locked. With
/// `released` an older root file gives way to that note; else only one with this very body takes
/// them, since a cosignature says nothing about another.
pub fn cosign(
    disk: &Disk<'_>,
    vkey: &VerifierKey,
    (asked, released): (&Floor, bool),
    lines: Vec<NoteSignature>,
) -> Result<Shown, Failure> {
    let failed = |error: NoteError| Failure::failed(format!("the floor's note: {error}"));
    let mut note = SignedNote::parse(&asked.note).map_err(failed)?;
    let held = read(disk, vkey)?;
    let same = held.as_ref().is_some_and(|(_, held)| held.body == note.body);
    let older = held.as_ref().is_none_or(|(checkpoint, _)| checkpoint.size < asked.size);
    let takes = same || (released && older);
    if !takes {
        return Ok(Shown::Other);
    }
    if let Some((_, held)) = &held {
        note = with_cosignatures_of(&note, held);
    }
    lines.into_iter().for_each(|line| put_cosignature(&mut note, line));
    write(disk, &note, asked)?;
    Ok(if same { Shown::Same } else { Shown::More })
}

/// The root file, if it is there and ours; what is not is derived data and will be written anew.
pub fn read(
    disk: &Disk<'_>,
    vkey: &VerifierKey,
) -> Result<Option<(Checkpoint, SignedNote)>, Failure> {
    let bytes = disk.read(&disk.layout.root())?;
    Ok(bytes.and_then(|bytes| open_checkpoint(bytes, vkey).ok()))
}

/// The head after the root: readers take it only where its size is the root's.
fn write(disk: &Disk<'_>, note: &SignedNote, floor: &Floor) -> Result<(), Failure> {
    disk.put(&disk.layout.root(), note.render().as_bytes(), HOW)?;
    let head = format!("{} {}\n", floor.size, floor.head);
    disk.put(&disk.layout.head(), head.as_bytes(), HOW)
}
