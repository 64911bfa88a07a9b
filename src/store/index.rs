//! Look-ups that cost the same at any size: seq → offset and hash → seq.
//!
//! `index/offsets` holds 8 little-endian bytes a line. `index/<xx>` holds, for the leaf hashes
//! that begin with byte xx, 8 hash bytes and 8 seq bytes each. Both are derived: offsets are
//! written last, so their count says how far the index reaches, and what is missing is filled in
//! from the journal by the next writer.

use super::disk::Disk;
use super::scan::Step;
use crate::error::Failure;
use crate::host::{Keep, Span};
use crate::journal::merkle::Hash;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Where a new line begins.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Its leaf hash.
    pub leaf: Hash,
    /// Its seq.
    pub seq: u64,
    /// Offset of its first byte.
    pub at: u64,
}

impl From<Step<'_>> for Place {
    fn from(step: Step<'_>) -> Self {
        Place { leaf: step.tip.head, seq: step.line.seq, at: step.at }
    }
}

/// How many lines the index reaches.
pub fn reach(disk: &Disk<'_>) -> Result<u64, Failure> {
    Ok(disk.length(&offsets_path(disk))?.unwrap_or(0) / 8)
}

/// Adds lines, which begin where the index ends.
pub fn extend(disk: &Disk<'_>, places: &[Place]) -> Result<(), Failure> {
    let Some(first) = places.first() else {
        return Ok(());
    };
    disk.folder(&disk.layout.index(), false)?;
    let mut buckets: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
    let mut offsets = Vec::with_capacity(places.len() * 8);
    for place in places {
        let bucket = buckets.entry(place.leaf.0[0]).or_default();
        bucket.extend_from_slice(&bucket_entry(place));
        offsets.extend_from_slice(&place.at.to_le_bytes());
    }
    for (byte, bytes) in buckets {
        let path = bucket_path(disk, byte);
        let whole = disk.length(&path)?.unwrap_or(0) / 16 * 16;
        disk.append(&path, whole, &bytes, Keep::Cached)?;
    }
    disk.append(&offsets_path(disk), first.seq * 8, &offsets, Keep::Cached)
}

/// Forgets everything; the next [`extend`] begins at line 0.
pub fn clear(disk: &Disk<'_>) -> Result<(), Failure> {
    disk.remove(&disk.layout.index())
}

/// Offset of a line, `None` beyond the index.
pub fn offset(disk: &Disk<'_>, seq: u64) -> Result<Option<u64>, Failure> {
    Ok(offsets(disk, seq, 1)?.first().copied())
}

/// Offsets of `count` lines from `first` on; fewer where the index ends before.
pub fn offsets(disk: &Disk<'_>, first: u64, count: u64) -> Result<Vec<u64>, Failure> {
    if reach(disk)? <= first {
        return Ok(Vec::new());
    }
    let bytes = disk.read_span(&offsets_path(disk), Span { from: first * 8, most: count * 8 })?;
    let whole = bytes.chunks_exact(8).filter_map(|entry| entry.try_into().ok());
    Ok(whole.map(u64::from_le_bytes).collect())
}

/// Seqs of lines whose leaf hash may be `leaf`: the caller compares the whole hash.
pub fn candidates(disk: &Disk<'_>, leaf: &Hash) -> Result<Vec<u64>, Failure> {
    let bytes = disk.read(&bucket_path(disk, leaf.0[0]))?.unwrap_or_default();
    let seqs = bytes
        .chunks_exact(16)
        .filter(|entry| entry[..8] == leaf.0[..8])
        .filter_map(|entry| <[u8; 8]>::try_from(&entry[8..]).ok().map(u64::from_le_bytes))
        .collect();
    Ok(seqs)
}

/// How many entries the look-up by hash holds.
pub fn entries(disk: &Disk<'_>) -> Result<u64, Failure> {
    let mut bytes = 0;
    for byte in 0..=u8::MAX {
        bytes += disk.length(&bucket_path(disk, byte))?.unwrap_or(0);
    }
    Ok(bytes / 16)
}

/// The first of `places` that a look-up by hash would miss.
pub fn first_missing(disk: &Disk<'_>, places: &[Place]) -> Result<Option<u64>, Failure> {
    for byte in 0..=u8::MAX {
        let bytes = disk.read(&bucket_path(disk, byte))?.unwrap_or_default();
        let held: BTreeSet<&[u8]> = bytes.chunks_exact(16).collect();
        let missing = places
            .iter()
            .filter(|place| place.leaf.0[0] == byte)
            .find(|place| !held.contains(bucket_entry(place).as_slice()));
        if let Some(place) = missing {
            return Ok(Some(place.seq));
        }
    }
    Ok(None)
}

fn bucket_entry(place: &Place) -> [u8; 16] {
    let mut entry = [0; 16];
    entry[..8].copy_from_slice(&place.leaf.0[..8]);
    entry[8..].copy_from_slice(&place.seq.to_le_bytes());
    entry
}

fn offsets_path(disk: &Disk<'_>) -> PathBuf {
    disk.layout.index().join("offsets")
}

fn bucket_path(disk: &Disk<'_>, byte: u8) -> PathBuf {
    disk.layout.index().join(format!("{byte:02x}"))
}
