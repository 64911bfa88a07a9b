//! Tiles (c2sp.org/tlog-tiles): the tree as files that never change.
//!
//! A tile is 256 neighbouring hashes of one level; each level is 8 binary levels above the one
//! below, and a hash of level l+1 is the Merkle root of one *full* tile of level l. The last tile
//! of a level may be partial; it has a path of its own and feeds nothing above. So growth writes
//! only the right edge, and the right edge alone rebuilds the frontier: three tiles for a
//! million lines.

use crate::journal::merkle::{Frontier, Hash, root_of};

/// Number of hashes in a full tile, and of lines in a full entry bundle.
pub const TILE_WIDTH: u64 = 256;

/// Binary levels a tile spans: 2^8 = 256.
const TILE_HEIGHT: u32 = 8;
/// Tile levels that a u64 of leaves can reach.
const LEVELS: u8 = 8;
/// Highest level a path may name.
const LEVEL_MAX: u8 = 63;
const FULL: u16 = TILE_WIDTH as u16;

/// Which hashes a tile holds, without them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tile {
    /// Tile level; 0 holds leaf hashes.
    pub level: u8,
    /// Position among the tiles of this level.
    pub index: u64,
    /// Number of hashes, 1 to 256; below 256 the tile is partial.
    pub width: u16,
}

impl Tile {
    /// The tile at `level` and `index` as a tree of `size` leaves publishes it; none when it
    /// would be empty.
    pub fn in_tree(level: u8, index: u64, size: u64) -> Option<Self> {
        let at_level = size.checked_shr(TILE_HEIGHT * u32::from(level)).unwrap_or(0);
        let start = index.checked_mul(TILE_WIDTH)?;
        let width = at_level.saturating_sub(start).min(TILE_WIDTH) as u16;
        (width > 0).then_some(Self { level, index, width })
    }

    /// The path under the log's prefix, such as `tile/0/x001/x234/067.p/112`.
    pub fn path(&self) -> String {
        format!("tile/{}/{}", self.level, position_path(self.index, self.width))
    }

    /// Reads a path, only in the spelling that [`Tile::path`] prints.
    pub fn parse_path(path: &str) -> Option<Self> {
        let (level, position) = path.strip_prefix("tile/")?.split_once('/')?;
        let (index, width) = parse_position(position)?;
        let level = level.parse().ok().filter(|level| *level <= LEVEL_MAX)?;
        let tile = Self { level, index, width };
        (tile.path() == path).then_some(tile)
    }

    /// Reads the file of this tile: `width` hashes of 32 bytes and nothing else.
    ///
    /// # Errors
    /// [`TileError::Bytes`] for any other length.
    pub fn parse(&self, bytes: &[u8]) -> Result<Vec<Hash>, TileError> {
        let (hashes, rest) = bytes.as_chunks::<32>();
        if hashes.len() != usize::from(self.width) || !rest.is_empty() {
            return Err(TileError::Bytes { tile: *self, found: bytes.len() });
        }
        Ok(hashes.iter().copied().map(Hash).collect())
    }

    /// Passes on what a reader supplied for this tile, if it is as wide as the tile.
    pub(super) fn expect_width(self, hashes: Vec<Hash>) -> Result<Vec<Hash>, TileError> {
        if hashes.len() != usize::from(self.width) {
            return Err(TileError::Width { tile: self, found: hashes.len() });
        }
        Ok(hashes)
    }
}

/// A tile together with its hashes, ready to be written to its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilledTile {
    /// Where the hashes belong.
    pub tile: Tile,
    /// As many hashes as the tile is wide.
    pub hashes: Vec<Hash>,
}

impl FilledTile {
    /// The bytes of the tile's file: its hashes in order, 32 bytes each.
    pub fn bytes(&self) -> Vec<u8> {
        self.hashes.iter().flat_map(|hash| hash.0).collect()
    }
}

/// Why a tile cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TileError {
    /// A file's length does not fit the tile.
    #[error("{} has {found} bytes, expected {}", .tile.path(), u32::from(.tile.width) * 32)]
    Bytes {
        /// The tile that was wanted.
        tile: Tile,
        /// Bytes found.
        found: usize,
    },
    /// A reader handed over another number of hashes than the tile is wide.
    #[error("{} has {found} hashes, expected {}", .tile.path(), .tile.width)]
    Width {
        /// The tile that was wanted.
        tile: Tile,
        /// Hashes found.
        found: usize,
    },
}

/// Every tile to write when a log published at `old` leaves is next published at `new`: the full
/// tiles completed and the partial one of each level that changed, lowest level first.
pub fn tiles_between(old: u64, new: u64) -> Vec<Tile> {
    (0..LEVELS).flat_map(|level| tiles_between_at(level, old, new)).collect()
}

/// The partial tiles of a tree of `size` leaves, highest level first: all that the frontier needs.
pub fn right_edge(size: u64) -> Vec<Tile> {
    let last_at = |level: u8| {
        let at_level = size >> (TILE_HEIGHT * u32::from(level));
        Tile::in_tree(level, at_level / TILE_WIDTH, size)
    };
    (0..LEVELS).rev().filter_map(last_at).collect()
}

/// Rebuilds the frontier at `size` from the tiles of [`right_edge`], which `read` supplies.
///
/// # Errors
/// What `read` reports, or [`TileError::Width`] when a tile is not as wide as it was asked for.
pub fn frontier_from_edge<E: From<TileError>>(
    size: u64,
    mut read: impl FnMut(Tile) -> Result<Vec<Hash>, E>,
) -> Result<Frontier, E> {
    let mut hashes = Vec::new();
    for tile in right_edge(size) {
        let row = tile.expect_width(read(tile)?)?;
        hashes.extend(perfect_subtrees(&row));
    }
    // A tile of level l gives one hash for each one-bit of digit l of the size in base 256.
    Ok(Frontier::from_parts(size, hashes).expect("one hash for each one-bit of the size"))
}

/// The tiles of [`tiles_between`] with their hashes, for a log that grows by `leaves`.
///
/// Only the right edge at `old_size` is read, so a tick costs the same at any size; from
/// `old_size` 0 nothing is read and the whole tree is built.
///
/// # Errors
/// What `read` reports, or [`TileError::Width`] when a tile is not as wide as it was asked for.
pub fn grow_tiles<E: From<TileError>>(
    old_size: u64,
    leaves: &[Hash],
    mut read: impl FnMut(Tile) -> Result<Vec<Hash>, E>,
) -> Result<Vec<FilledTile>, E> {
    let mut filled = Vec::new();
    let mut fresh = leaves.to_vec();
    let mut old_at_level = old_size;
    for level in 0..LEVELS {
        if fresh.is_empty() {
            break;
        }
        let first = old_at_level / TILE_WIDTH;
        let mut row = match Tile::in_tree(level, first, old_size) {
            Some(partial) => partial.expect_width(read(partial)?)?,
            None => Vec::new(),
        };
        row.append(&mut fresh);
        for (index, chunk) in (first..).zip(row.chunks(usize::from(FULL))) {
            let tile = Tile { level, index, width: chunk.len() as u16 };
            fresh.extend(parent_hash(chunk));
            filled.push(FilledTile { tile, hashes: chunk.to_vec() });
        }
        old_at_level = first;
    }
    Ok(filled)
}

/// The hash that a tile contributes to the level above: its Merkle root when it is full, nothing
/// while it is partial.
pub fn parent_hash(hashes: &[Hash]) -> Option<Hash> {
    (hashes.len() == usize::from(FULL)).then(|| root_of(hashes))
}

/// The part of [`tiles_between`] at one level.
pub(super) fn tiles_between_at(level: u8, old: u64, new: u64) -> impl Iterator<Item = Tile> {
    let shift = TILE_HEIGHT * u32::from(level);
    let (old_at_level, new_at_level) = (old >> shift, new >> shift);
    // Without a new hash at this level its partial tile is already published.
    let end = if new_at_level > old_at_level { new_at_level.div_ceil(TILE_WIDTH) } else { 0 };
    (old_at_level / TILE_WIDTH..end).filter_map(move |index| Tile::in_tree(level, index, new))
}

/// Roots of the perfect subtrees in one tile's row, biggest first.
fn perfect_subtrees(mut row: &[Hash]) -> Vec<Hash> {
    let mut roots = Vec::new();
    while !row.is_empty() {
        let (subtree, rest) = row.split_at(1 << row.len().ilog2());
        roots.push(root_of(subtree));
        row = rest;
    }
    roots
}

/// Index and width as the end of a path: groups of three digits, then the width if partial.
pub(super) fn position_path(index: u64, width: u16) -> String {
    let mut path = format!("{:03}", index % 1000);
    let mut rest = index / 1000;
    while rest > 0 {
        path = format!("x{:03}/{path}", rest % 1000);
        rest /= 1000;
    }
    if width < FULL { format!("{path}.p/{width}") } else { path }
}

/// Reads what [`position_path`] prints and more; callers print the result again and compare.
pub(super) fn parse_position(position: &str) -> Option<(u64, u16)> {
    let (path, width) = match position.split_once(".p/") {
        Some((path, width)) => (path, width.parse().ok().filter(|width| *width > 0)?),
        None => (position, FULL),
    };
    let mut index: u64 = 0;
    for group in path.split('/') {
        let digits: u64 = group.strip_prefix('x').unwrap_or(group).parse().ok()?;
        index = index.checked_mul(1000)?.checked_add(digits)?;
    }
    Some((index, width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_spelling() {
        let tile = Tile { level: 0, index: 1_234_067, width: 112 };
        assert_eq!(tile.path(), "tile/0/x001/x234/067.p/112");
        assert_eq!(Tile::parse_path(&tile.path()), Some(tile));
        let largest = Tile { level: 63, index: u64::MAX, width: 256 };
        assert_eq!(Tile::parse_path(&largest.path()), Some(largest));
        for bad in [
            "tile/0/x001/x234/067.p/0",
            "tile/0/x001/x234/067.p/256",
            "tile/0/x001/x234/067.p/08",
            "tile/0/x001/x234/067.p/+8",
            "tile/0/x000/067",
            "tile/0/001/067",
            "tile/0/x067",
            "tile/0/67",
            "tile/0/067/",
            "tile/00/067",
            "tile/64/067",
            "tile/-1/067",
            "tile/0/../067",
            "/tile/0/067",
            "tile/0/x018/x446/x744/x073/x709/x551/616",
        ] {
            assert_eq!(Tile::parse_path(bad), None, "{bad}");
        }
    }

    #[test]
    fn growth_writes_only_what_changed() {
        let paths =
            |old, new| -> Vec<String> { tiles_between(old, new).iter().map(Tile::path).collect() };
        assert_eq!(paths(0, 0), [""; 0]);
        assert_eq!(paths(300, 300), [""; 0]);
        assert_eq!(paths(300, 299), [""; 0]);
        assert_eq!(paths(255, 256), ["tile/0/000", "tile/1/000.p/1"]);
        assert_eq!(paths(256, 257), ["tile/0/001.p/1"]);
        assert_eq!(
            paths(200, 520),
            ["tile/0/000", "tile/0/001", "tile/0/002.p/8", "tile/1/000.p/2"]
        );
        assert_eq!(tiles_between(u64::MAX - 1, u64::MAX).len(), 1);
    }

    #[test]
    fn a_tile_of_another_width_is_refused() {
        let tile = Tile { level: 0, index: 0, width: 2 };
        assert_eq!(tile.parse(&[0; 64]).map(|hashes| hashes.len()), Ok(2));
        assert_eq!(tile.parse(&[0; 65]), Err(TileError::Bytes { tile, found: 65 }));
        assert_eq!(frontier_from_edge(2, |_| Ok(vec![])), Err(TileError::Width { tile, found: 0 }));
    }
}
