//! What is derived, made anew from the journal; and the journal held against what is derived.

use super::disk::Disk;
use super::floor::changed;
use super::index;
use super::scan::{self, Start};
use super::tree::{self, ReadError};
use crate::error::Failure;
use crate::host::Span;
use crate::journal::chain::Tip;
use crate::journal::floor::Floor;
use crate::journal::merkle::{Frontier, Hash, leaf_hash};
use crate::journal::tile::{TILE_WIDTH, Tile};

/// Lines handled at once: bounded memory, and whole tiles of level 1.
const BATCH_LINES: usize = 1 << 16;

/// Writes all tiles and bundles under the floor again and returns their frontier. The journal must
/// give the signed root before anything is written from it.
pub fn tree(disk: &Disk<'_>, origin: &str, floor: &Floor) -> Result<Frontier, Failure> {
    let mut frontier = Frontier::new();
    scan::walk(disk, from_line_0(origin), floor.size, &mut |step| {
        frontier.push(step.tip.head);
        Ok(())
    })?;
    if frontier.root() != floor.root {
        return Err(Failure::integrity(format!(
            "the journal gives root {} at size {}, but {} was signed",
            frontier.root(),
            frontier.size(),
            floor.root
        )));
    }
    write_tree(disk, origin, floor)?;
    Ok(frontier)
}

fn write_tree(disk: &Disk<'_>, origin: &str, floor: &Floor) -> Result<(), Failure> {
    let mut leaves: Vec<Hash> = Vec::new();
    let mut lines: Vec<Vec<u8>> = Vec::new();
    scan::walk(disk, from_line_0(origin), floor.size, &mut |step| {
        leaves.push(step.tip.head);
        lines.push(step.raw.to_vec());
        let last = step.tip.size == floor.size;
        if last || lines.len() as u64 == TILE_WIDTH {
            let views: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
            tree::grow_bundles(disk, step.tip.size - lines.len() as u64, &views)?;
            lines.clear();
        }
        if last || leaves.len() == BATCH_LINES {
            tree::grow(disk, step.tip.size - leaves.len() as u64, &leaves)?;
            leaves.clear();
        }
        Ok(())
    })?;
    Ok(())
}

/// Makes the index anew.
pub fn index(disk: &Disk<'_>, origin: &str, floor: &Floor) -> Result<(), Failure> {
    index::clear(disk)?;
    let mut places = Vec::new();
    scan::walk(disk, from_line_0(origin), floor.size, &mut |step| {
        places.push(step.into());
        if places.len() == BATCH_LINES {
            index::extend(disk, &places)?;
            places.clear();
        }
        Ok(())
    })?;
    index::extend(disk, &places)
}

/// Hashes the lines of one old bundle again and compares them with its tile and its file: rot in
/// the middle is found within as many turns as there are bundles.
pub fn recheck_bundle(disk: &Disk<'_>, floor: &Floor, turn: u64) -> Result<(), ReadError> {
    let bundles = floor.size / TILE_WIDTH;
    if bundles == 0 {
        return Ok(());
    }
    let first = turn % bundles * TILE_WIDTH;
    let next = first + TILE_WIDTH;
    let end = if next == floor.size { Some(floor.bytes) } else { index::offset(disk, next)? };
    let (Some(from), Some(to)) = (index::offset(disk, first)?, end) else {
        return Ok(());
    };
    let lines = lines_between(disk, (from, to), first)?;
    compare_with_tile(disk, first, &lines)?;
    tree::expect_bundle(disk, first, &lines)
}

/// The lines between two offsets, of which the first has index `first`.
pub(super) fn lines_between(
    disk: &Disk<'_>,
    (from, to): (u64, u64),
    first: u64,
) -> Result<Vec<Vec<u8>>, Failure> {
    if to < from {
        return Err(changed(disk, first, from, "the index does not fit the journal"));
    }
    let bytes = disk.read_span(&disk.layout.journal(), Span { from, most: to - from })?;
    let text = bytes
        .strip_suffix(b"\n")
        .ok_or_else(|| changed(disk, first, from, "the line has no end"))?;
    Ok(text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect())
}

/// Compares the hashes of `lines` with the tile that holds line `first`.
pub(super) fn compare_with_tile(
    disk: &Disk<'_>,
    first: u64,
    lines: &[Vec<u8>],
) -> Result<(), ReadError> {
    let tile = Tile { level: 0, index: first / TILE_WIDTH, width: lines.len() as u16 };
    let expected = tree::read_tile(disk, tile)?;
    for (seq, (line, leaf)) in (first..).zip(lines.iter().zip(&expected)) {
        if leaf_hash(line) != *leaf {
            let at = index::offset(disk, seq)?.unwrap_or(0);
            return Err(changed(disk, seq, at, "its hash is not the one in the tree").into());
        }
    }
    Ok(())
}

fn from_line_0(origin: &str) -> Start {
    Start { tip: Tip::origin(origin), bytes: 0 }
}
