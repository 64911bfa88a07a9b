//! The anchor's folder as `tlog_tiles` reads it: its tile names on our files.

use crate::federation::Federation;
use tlog_tiles::{Error, Hash, HashReader, Tile, TileReader};

/// Binary levels a tile spans; C2SP tlog-tiles fixes it, the library leaves it open.
pub const HEIGHT: u8 = 8;

/// Where the library's tile lies: C2SP leaves the height out of the path and says `entries`.
pub fn path(tile: Tile) -> String {
    tile.path().replacen("tile/8/data/", "tile/entries/", 1).replacen("tile/8/", "tile/", 1)
}

/// The tile files, for the library's own reader, which holds their right edge against a root.
pub struct Files<'a>(pub &'a Federation);

impl TileReader for Files<'_> {
    fn height(&self) -> u8 {
        HEIGHT
    }

    fn read_tiles(&self, tiles: &[Tile]) -> Result<Vec<Vec<u8>>, Error> {
        Ok(tiles.iter().map(|tile| self.0.file(&path(*tile))).collect())
    }

    fn save_tiles(&self, _: &[Tile], _: &[Vec<u8>]) {}
}

/// Hashes as the files have them, believed unseen: a root made of them owes nothing to ours.
pub struct Unchecked<'a> {
    pub federation: &'a Federation,
    pub size: u64,
}

impl HashReader for Unchecked<'_> {
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<Hash>, Error> {
        let read = |index: &u64| {
            let tile = Tile::from_index(HEIGHT, *index).parent(0, self.size).unwrap();
            tile.hash_at_index(&self.federation.file(&path(tile)), *index)
        };
        indexes.iter().map(read).collect()
    }
}

/// The library's own log: every hash in the order that it stores them.
#[derive(Default)]
pub struct Memory {
    hashes: Vec<Hash>,
    pub size: u64,
}

impl Memory {
    pub fn push(&mut self, line: &[u8]) {
        let fresh = tlog_tiles::stored_hashes(self.size, line, self).unwrap();
        self.hashes.extend(fresh);
        self.size += 1;
    }

    pub fn root(&self) -> Hash {
        tlog_tiles::tree_hash(self.size, self).unwrap()
    }
}

impl HashReader for Memory {
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<Hash>, Error> {
        Ok(indexes.iter().map(|index| self.hashes[*index as usize]).collect())
    }
}
