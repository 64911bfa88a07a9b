//! What is derived, made anew from the journal; and the journal held against what is derived.

use super::disk::Disk;
use super::floor::{changed, damage, misleads, unlike_signed};
use super::index::{self, Place};
use super::scan::{self, End, Start, Step};
use super::tree::{self, ReadError};
use crate::error::Failure;
use crate::host::Span;
use crate::journal::chain::Tip;
use crate::journal::floor::Floor;
use crate::journal::merkle::{Frontier, Hash, leaf_hash};
use crate::journal::replay::Fold;
use crate::journal::snapshot::{FOLD_VERSION, Snapshot};
use crate::journal::tile::{TILE_WIDTH, Tile};

/// Lines handled at once: bounded memory, and whole tiles of level 1.
const BATCH_LINES: usize = 1 << 16;

/// Writes all tiles and bundles under the floor again and returns their frontier. The journal must
/// give the signed root before anything is written from it.
pub fn tree(disk: &Disk<'_>, origin: &str, floor: &Floor) -> Result<Frontier, Failure> {
    let frontier = walk_signed(disk, origin, floor, &mut |_| Ok(()))?;
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

/// The fold of all lines under the floor, replayed from the first on: they must give the signed root,
/// and so must the tiles. `progress` is told bytes read and bytes there.
pub fn snapshot(
    disk: &Disk<'_>,
    origin: &str,
    floor: &Floor,
    progress: &dyn Fn(u64, u64),
) -> Result<Snapshot, Failure> {
    let mut fold = Fold::default();
    let frontier = walk_signed(disk, origin, floor, &mut |step| {
        fold.check_author(step.line)
            .map_err(|reason| changed(disk, step.line.seq, step.at, &reason.to_string()))?;
        fold.apply(step.line);
        if step.line.seq.is_multiple_of(TILE_WIDTH) {
            progress(step.at, floor.bytes);
        }
        Ok(())
    })?;
    if tree::frontier(disk, floor.size)?.root() != floor.root {
        return Err(tree::wrong("tile"));
    }
    Ok(Snapshot {
        fold_version: FOLD_VERSION,
        bytes: floor.bytes,
        size: floor.size,
        head: floor.head,
        ts: floor.ts,
        frontier: frontier.hashes().to_vec(),
        fold,
    })
}

/// Looks at one old bundle: rot in the middle is found within as many turns as there are bundles.
pub fn recheck_bundle(disk: &Disk<'_>, floor: &Floor, turn: u64) -> Result<(), ReadError> {
    match floor.size / TILE_WIDTH {
        0 => Ok(()),
        bundles => bundle(disk, floor, turn % bundles).map(|_| ()),
    }
}

/// The lines of one bundle under the floor, held against its tile and its file. Where they differ
/// the signed root decides whether the journal, the tile or only the index is wrong.
pub fn bundle(disk: &Disk<'_>, floor: &Floor, number: u64) -> Result<Vec<Vec<u8>>, ReadError> {
    let Some(tile) = Tile::in_tree(0, number, floor.size) else {
        return Ok(Vec::new());
    };
    let lines = match span_by_index(disk, floor, tile)? {
        Some(span) => match lines_of_tile(disk, tile, span) {
            Err(ReadError::Wrong(accused)) => lines_of_signed(disk, floor, tile, Some(accused))?,
            found => found?,
        },
        None => lines_of_signed(disk, floor, tile, None)?,
    };
    tree::expect_bundle(disk, number * TILE_WIDTH, &lines)?;
    Ok(lines)
}

fn span_by_index(
    disk: &Disk<'_>,
    floor: &Floor,
    tile: Tile,
) -> Result<Option<(u64, u64)>, Failure> {
    let first = tile.index * TILE_WIDTH;
    let next = first + u64::from(tile.width);
    let to = if next == floor.size { Some(floor.bytes) } else { index::offset(disk, next)? };
    Ok(index::offset(disk, first)?.zip(to))
}

/// The lines between two offsets, each with the hash that `tile` has for it.
fn lines_of_tile(
    disk: &Disk<'_>,
    tile: Tile,
    (from, to): (u64, u64),
) -> Result<Vec<Vec<u8>>, ReadError> {
    let leaves = tree::read_tile(disk, tile)?;
    let span = Span { from, most: to.saturating_sub(from) };
    let bytes = disk.read_span(&disk.layout.journal(), span)?;
    let mut lines = Vec::with_capacity(leaves.len());
    let (mut rest, mut at) = (bytes.as_slice(), from);
    for (seq, leaf) in (tile.index * TILE_WIDTH..).zip(&leaves) {
        let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        let (line, after) = rest.split_at(length);
        if leaf_hash(line) != *leaf || after.is_empty() {
            return Err(changed(disk, seq, at, "its hash is not the one in the tree").into());
        }
        lines.push(line.to_vec());
        rest = &after[1..];
        at += length as u64 + 1;
    }
    Ok(lines)
}

/// The same without the index and from a journal that is what was signed, so that a difference is
/// the tile's; otherwise the journal is `accused`.
fn lines_of_signed(
    disk: &Disk<'_>,
    floor: &Floor,
    tile: Tile,
    accused: Option<Failure>,
) -> Result<Vec<Vec<u8>>, ReadError> {
    let (first, mut from, mut to) = (tile.index * TILE_WIDTH, 0, 0);
    let walked = walk_signed(disk, floor_origin(floor), floor, &mut |step| {
        if step.line.seq == first {
            from = step.at;
        }
        if step.tip.size == first + u64::from(tile.width) {
            to = step.at + step.raw.len() as u64 + 1;
        }
        Ok(())
    });
    if let Err(failure) = walked {
        return Err(accused.unwrap_or(failure).into());
    }
    match lines_of_tile(disk, tile, (from, to)) {
        Err(ReadError::Wrong(_)) => Err(tree::wrong(&tile.path()).into()),
        found => found,
    }
}

/// The last line under the floor is not where and what the floor says: which of them is wrong?
pub(super) fn misplaced(disk: &Disk<'_>, floor: &Floor, last: Place) -> Failure {
    match walk_signed(disk, floor_origin(floor), floor, &mut |_| Ok(())) {
        Ok(_) => misleads(disk),
        Err(_) => changed(disk, last.seq, last.at, "it is not the line that was signed"),
    }
}

/// What is wrong with a journal of which only `end` can be followed. A changed line is often seen
/// at the next one; its tile knows better.
pub(super) fn accused(disk: &Disk<'_>, floor: &Floor, end: &End) -> Failure {
    let all_there = end.tip.size >= floor.size;
    if !all_there && end.reason.is_none() {
        return damage(disk, floor, end);
    }
    let last = end.tip.size.min(floor.size.saturating_sub(1));
    match bundle(disk, floor, last / TILE_WIDTH) {
        Err(ReadError::Wrong(failure)) => failure,
        _ if all_there => misleads(disk),
        _ => damage(disk, floor, end),
    }
}

/// Walks the lines under the floor and checks that they give the signed root, which it returns
/// with the subtrees it is made of.
fn walk_signed(
    disk: &Disk<'_>,
    origin: &str,
    floor: &Floor,
    visit: &mut dyn FnMut(Step<'_>) -> Result<(), Failure>,
) -> Result<Frontier, Failure> {
    let mut frontier = Frontier::new();
    let end = scan::walk(disk, from_line_0(origin), floor.size, &mut |step| {
        frontier.push(step.tip.head);
        visit(step)
    })?;
    if end.tip.size < floor.size {
        return Err(damage(disk, floor, &end));
    }
    if frontier.root() != floor.root {
        return Err(unlike_signed(disk, floor, frontier.root()));
    }
    Ok(frontier)
}

/// A note's first line is the origin.
fn floor_origin(floor: &Floor) -> &str {
    floor.note.lines().next().unwrap_or_default()
}

fn from_line_0(origin: &str) -> Start {
    Start { tip: Tip::origin(origin), bytes: 0 }
}
