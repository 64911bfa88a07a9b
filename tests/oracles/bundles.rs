//! Entry bundles: read as the specification says, without our code, they hold the journal's lines,
//! and their hashes are the ones that the library finds in our tiles.

use crate::federation::Federation;
use crate::stored::{Files, HEIGHT, path};
use tlog_tiles::{HashReader, Tile, TileHashReader, record_hash, stored_hash_index};

/// Records after their length, a big-endian u16 (c2sp.org/tlog-tiles, "Log Entries").
fn records(mut bundle: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while !bundle.is_empty() {
        let (length, rest) = bundle.split_first_chunk::<2>().unwrap();
        let (record, rest) = rest.split_at(u16::from_be_bytes(*length).into());
        records.push(record.to_vec());
        bundle = rest;
    }
    records
}

#[test]
fn bundles_hold_the_lines_whose_hashes_the_tiles_hold() {
    let federation = Federation::found();
    for size in [255, 256, 257, 600] {
        federation.grow_to(size);
        let mut found = Vec::new();
        for mut tile in Tile::new_tiles(HEIGHT, 0, size).into_iter().filter(|it| it.level() == 0) {
            tile.set_is_data();
            let records = records(&federation.file(&path(tile)));
            assert_eq!(records.len() as u32, tile.width(), "{}", path(tile));
            found.extend(records);
        }
        assert_eq!(found, federation.lines(), "size {size}");
        assert_eq!(
            leaves(&federation, size),
            found.iter().map(|it| record_hash(it)).collect::<Vec<_>>()
        );
    }
}

/// The leaf hashes as the library reads them from our tiles.
fn leaves(federation: &Federation, size: u64) -> Vec<tlog_tiles::Hash> {
    let root = federation.root()["root"].clone();
    let root: crowny_fed::journal::merkle::Hash = serde_json::from_value(root).unwrap();
    let files = Files(federation);
    let tiles = TileHashReader::new(size, tlog_tiles::Hash(root.0), &files);
    let wanted: Vec<u64> = (0..size).map(|seq| stored_hash_index(0, seq)).collect();
    tiles.read_hashes(&wanted).unwrap()
}
