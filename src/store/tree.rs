//! Tiles and bundles on disk, as C2SP tlog-tiles lays them out.

use super::disk::Disk;
use crate::error::Failure;
use crate::host::{Keep, Readers};
use crate::journal::bundle::{Bundle, BundleError, bundle_bytes, parse_bundle};
use crate::journal::merkle::{Frontier, Hash};
use crate::journal::proof::ProofError;
use crate::journal::tile::{TILE_WIDTH, Tile, TileError, frontier_from_edge, grow_tiles};

/// How an operator mends what is derived.
const REBUILD_HINT: &str = "remove the folder tile; the next tick rebuilds it from the journal";

/// Why a tile or bundle could not be used.
#[derive(Debug)]
pub enum ReadError {
    /// There is none of this name; it can be rebuilt.
    Missing(String),
    /// It is there and cannot be right.
    Wrong(Failure),
}

impl From<TileError> for ReadError {
    fn from(error: TileError) -> Self {
        ReadError::Wrong(Failure::integrity(error.to_string()).hint(REBUILD_HINT))
    }
}

impl From<ProofError> for ReadError {
    fn from(error: ProofError) -> Self {
        ReadError::Wrong(Failure::failed(error.to_string()))
    }
}

impl From<Failure> for ReadError {
    fn from(failure: Failure) -> Self {
        ReadError::Wrong(failure)
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Missing(path) => {
                Failure::integrity(format!("{path} is missing")).hint(REBUILD_HINT)
            }
            ReadError::Wrong(failure) => failure,
        }
    }
}

/// Reads one tile; a partial one may have been replaced by the full one since.
pub fn read_tile(disk: &Disk<'_>, tile: Tile) -> Result<Vec<Hash>, ReadError> {
    let read = |path: &str| disk.read(&disk.layout.tile(path)).map_err(ReadError::Wrong);
    if let Some(bytes) = read(&tile.path())? {
        return Ok(tile.parse(&bytes)?);
    }
    let full = Tile { width: TILE_WIDTH as u16, ..tile };
    let bytes = read(&full.path())?.ok_or_else(|| ReadError::Missing(tile.path()))?;
    let mut hashes = full.parse(&bytes)?;
    hashes.truncate(usize::from(tile.width));
    Ok(hashes)
}

/// A tile of a smaller tree: the begin of the one that the tree of `size` lines has, since most
/// sizes never had tiles of their own.
pub fn read_part(disk: &Disk<'_>, tile: Tile, size: u64) -> Result<Vec<Hash>, ReadError> {
    let ours = Tile::in_tree(tile.level, tile.index, size).unwrap_or(tile);
    let mut hashes = read_tile(disk, ours)?;
    hashes.truncate(usize::from(tile.width));
    Ok(hashes)
}

/// The frontier at `size` from the tiles' right edge.
pub fn frontier(disk: &Disk<'_>, size: u64) -> Result<Frontier, ReadError> {
    frontier_from_edge(size, |tile| read_tile(disk, tile))
}

/// Writes the tiles that `leaves` add to a log of `old_size`, each durably and under its own name:
/// what was published stays as it was.
pub fn grow(disk: &Disk<'_>, old_size: u64, leaves: &[Hash]) -> Result<(), Failure> {
    let filled = grow_tiles(old_size, leaves, |tile| read_tile(disk, tile))?;
    for tile in filled {
        put(disk, &tile.tile.path(), &tile.bytes())?;
        if u64::from(tile.tile.width) == TILE_WIDTH {
            disk.remove(&disk.layout.tile(&format!("{}.p", tile.tile.path())))?;
        }
    }
    Ok(())
}

/// Checks that the bundle which begins at line `first` holds exactly `lines`; a partial one may
/// have been replaced by the full one since.
pub fn expect_bundle(disk: &Disk<'_>, first: u64, lines: &[Vec<u8>]) -> Result<(), ReadError> {
    let partial = Bundle { index: first / TILE_WIDTH, width: lines.len() as u16 };
    let full = Bundle { width: TILE_WIDTH as u16, ..partial };
    for path in [partial.path(), full.path()] {
        let Some(bytes) = disk.read(&disk.layout.tile(&path))? else { continue };
        return match parse_bundle(&bytes) {
            Ok(held) if held.iter().take(lines.len()).eq(lines.iter()) => Ok(()),
            _ => Err(wrong(&path).into()),
        };
    }
    Err(ReadError::Missing(partial.path()))
}

/// A tile or bundle that does not fit the journal.
pub fn wrong(path: &str) -> Failure {
    Failure::integrity(format!("{path} does not fit the journal")).hint(REBUILD_HINT)
}

/// Writes the bundles from the one that holds line `first` on; `lines` begins at its first line.
pub fn grow_bundles(disk: &Disk<'_>, first: u64, lines: &[&[u8]]) -> Result<(), Failure> {
    let width = TILE_WIDTH as usize;
    for (index, chunk) in (first / TILE_WIDTH..).zip(lines.chunks(width)) {
        let bundle = Bundle { index, width: chunk.len() as u16 };
        let bytes =
            bundle_bytes(chunk).map_err(|error: BundleError| Failure::failed(error.to_string()))?;
        put(disk, &bundle.path(), &bytes)?;
        if chunk.len() == width {
            disk.remove(&disk.layout.tile(&format!("{}.p", bundle.path())))?;
        }
    }
    Ok(())
}

fn put(disk: &Disk<'_>, path: &str, bytes: &[u8]) -> Result<(), Failure> {
    let target = disk.layout.tile(path);
    if let Some(folder) = target.parent() {
        disk.folder(folder, false)?;
    }
    disk.put(&target, bytes, (Keep::Durable, Readers::Everybody))
}
