//! The snapshot as a base to read on from: believed only where the journal has its last line in its
//! place.
//!
//! A snapshot's own checksum says that it is whole, not that it is of this journal: one of another
//! host, or of other lines, has a good one too. Each line names the hash of the one before, so its
//! last line stands for all of them.

use super::disk::Disk;
use crate::error::Failure;
use crate::host::Span;
use crate::journal::line::{LINE_BYTES_MAX, Line};
use crate::journal::merkle::leaf_hash;
use crate::journal::snapshot::Snapshot;

/// The snapshot where it is one of this journal's, of at most `size_max` lines.
pub(super) fn fitting(disk: &Disk<'_>, size_max: u64) -> Result<Option<Snapshot>, Failure> {
    let bytes = disk.read(&disk.layout.snapshot())?;
    let snapshot = bytes.and_then(|bytes| Snapshot::parse(&bytes).ok());
    let Some(snapshot) = snapshot.filter(|snapshot| snapshot.size <= size_max) else {
        return Ok(None);
    };
    Ok(is_ours(disk, &snapshot)?.then_some(snapshot))
}

fn is_ours(disk: &Disk<'_>, snapshot: &Snapshot) -> Result<bool, Failure> {
    let path = disk.layout.journal();
    if disk.length(&path)?.is_none_or(|length| length < snapshot.bytes) {
        return Ok(false);
    }
    let most = snapshot.bytes.min(LINE_BYTES_MAX as u64 + 2);
    let before = disk.read_span(&path, Span { from: snapshot.bytes - most, most })?;
    let Some(whole) = before.strip_suffix(b"\n") else { return Ok(false) };
    let begin = whole.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let last = &whole[begin..];
    let is_last = |line: Line| line.seq + 1 == snapshot.size && line.ts == snapshot.ts;
    Ok(leaf_hash(last) == snapshot.head && Line::parse(last).is_ok_and(is_last))
}
