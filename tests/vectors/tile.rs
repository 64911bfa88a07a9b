//! Tile paths, tree shapes and a published tree.

use crowny_fed::journal::bundle::Bundle;
use crowny_fed::journal::checkpoint::Checkpoint;
use crowny_fed::journal::merkle::root_of;
use crowny_fed::journal::note::SignedNote;
use crowny_fed::journal::tile::{Tile, frontier_from_edge, parent_hash, right_edge, tiles_between};

use crate::fixture::{bytes, json, tile_reader};

#[test]
fn tile_paths_and_shapes_of_the_specification() {
    let examples = json("c2sp-spec-examples/examples.json");
    let paths = examples["tile_paths"].as_array().expect("paths");
    assert_eq!(paths.len(), 3);
    for example in paths {
        let path = example["path"].as_str().expect("a path");
        let number = |name: &str| example[name].as_u64();
        let width = number("width").expect("a width") as u16;
        if let Some(index) = number("entries_index") {
            let bundle = Bundle { index, width };
            assert_eq!((bundle.path().as_str(), Bundle::parse_path(path)), (path, Some(bundle)));
            assert_eq!(Tile::parse_path(path), None);
        } else {
            let level = number("level").expect("a level") as u8;
            let tile = Tile { level, index: number("index").expect("an index"), width };
            assert_eq!((tile.path().as_str(), Tile::parse_path(path)), (path, Some(tile)));
        }
    }
    let shape = |size: u64, level: u8| {
        let tiles: Vec<Tile> =
            tiles_between(0, size).into_iter().filter(|tile| tile.level == level).collect();
        let full = tiles.iter().filter(|tile| tile.width == 256).count() as u64;
        (full, tiles.iter().find(|tile| tile.width < 256).map(|tile| u64::from(tile.width)))
    };
    let expected = |tree: &str, name: &str| examples[tree][name].as_u64();
    for level in 0..3 {
        let full = expected("tree_70000", &format!("level{level}_full")).unwrap_or(0);
        let partial = expected("tree_70000", &format!("level{level}_partial_width"));
        assert_eq!(shape(70_000, level), (full, partial), "level {level}");
    }
    assert_eq!(shape(256, 0), (expected("tree_256", "level0_full").expect("a count"), None));
    assert_eq!(shape(256, 1), (0, expected("tree_256", "level1_partial_width")));
    assert_eq!(right_edge(256), [Tile { level: 1, index: 0, width: 1 }]);
}

#[test]
fn the_sunlight_mirror_tree_has_its_published_root() {
    let folder = "sunlight-skylight-mirror";
    let note = SignedNote::parse(bytes(&format!("{folder}/checkpoint"))).expect("a note");
    let checkpoint = Checkpoint::parse(&note.body).expect("a checkpoint");
    assert_eq!(checkpoint.size, 300);
    let mut read = tile_reader(folder);
    let edge = frontier_from_edge(300, &mut read).expect("published tiles");
    assert_eq!((edge.size(), edge.root()), (300, checkpoint.root));

    let mut leaves = read(Tile { level: 0, index: 0, width: 256 }).expect("a full tile");
    let above = read(Tile { level: 1, index: 0, width: 1 }).expect("a partial tile");
    assert_eq!(parent_hash(&leaves), Some(above[0]));
    leaves.extend(read(Tile { level: 0, index: 1, width: 44 }).expect("a partial tile"));
    assert_eq!(root_of(&leaves), checkpoint.root);
}
