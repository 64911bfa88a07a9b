//! What must hold at every size: growth in steps equals building at once, generated proofs
//! verify, and no altered proof does.

use std::cell::Cell;
use std::collections::BTreeMap;

use crowny_fed::journal::merkle::{Frontier, Hash, empty_root, leaf_hash, node_hash, root_of};
use crowny_fed::journal::proof::{
    Consistency, Inclusion, ProofError, consistency_proof, inclusion_proof, verify_consistency,
    verify_inclusion,
};
use crowny_fed::journal::tile::{Tile, frontier_from_edge, grow_tiles, right_edge, tiles_between};

const SIZE_MAX: u64 = 600;

/// A log as its readers see it: tiles by path, partial ones of older sizes included.
#[derive(Default)]
struct Log {
    size: u64,
    files: BTreeMap<String, Vec<u8>>,
}

impl Log {
    fn read(&self, tile: Tile) -> Result<Vec<Hash>, ProofError> {
        let path = tile.path();
        let bytes = self.files.get(&path).unwrap_or_else(|| panic!("{path} is not published"));
        Ok(tile.parse(bytes)?)
    }

    fn grow(&mut self, leaves: &[Hash]) {
        let new_size = self.size + leaves.len() as u64;
        let grown = grow_tiles(self.size, leaves, |tile| self.read(tile)).expect("own tiles");
        let tiles: Vec<Tile> = grown.iter().map(|filled| filled.tile).collect();
        assert_eq!(tiles, tiles_between(self.size, new_size));
        self.files.extend(grown.iter().map(|filled| (filled.tile.path(), filled.bytes())));
        self.size = new_size;
    }
}

fn leaves() -> Vec<Hash> {
    (0..SIZE_MAX).map(|line| leaf_hash(&line.to_be_bytes())).collect()
}

/// A log published at every size, and its root at each.
fn log_and_roots() -> (Log, Vec<Hash>) {
    let mut log = Log::default();
    let mut frontier = Frontier::new();
    let mut roots = vec![frontier.root()];
    for leaf in leaves() {
        log.grow(&[leaf]);
        frontier.push(leaf);
        roots.push(frontier.root());
    }
    (log, roots)
}

/// A few positions below `bound`: both ends, the middle, and one that moves with `bound`.
fn sample(bound: u64) -> [u64; 4] {
    [0, bound - 1, bound / 2, bound.wrapping_mul(0x9e37_79b9_7f4a_7c15) % bound]
}

/// Every path that differs from `path` by one bit, one hash less, or one hash more.
fn altered(path: &[Hash]) -> Vec<Vec<Hash>> {
    let mut paths = Vec::new();
    for at in 0..path.len() {
        let mut flipped = path.to_vec();
        flipped[at].0[at % 32] ^= 1 << (at % 8);
        let mut shorter = path.to_vec();
        shorter.remove(at);
        paths.extend([flipped, shorter]);
    }
    for at in [0, path.len()] {
        let mut longer = path.to_vec();
        longer.insert(at, empty_root());
        paths.push(longer);
    }
    paths
}

/// MTH(D) as RFC 6962 2.1 defines it, word for word.
fn defined_root(leaves: &[Hash]) -> Hash {
    match leaves {
        [] => empty_root(),
        [leaf] => *leaf,
        _ => {
            let (left, right) = leaves.split_at(1 << (leaves.len() - 1).ilog2());
            node_hash(defined_root(left), defined_root(right))
        }
    }
}

#[test]
fn frontier_edge_and_definition_name_one_root() {
    let leaves = leaves();
    let (log, roots) = log_and_roots();
    for size in 0..=SIZE_MAX {
        let root = defined_root(&leaves[..size as usize]);
        assert_eq!((roots[size as usize], root_of(&leaves[..size as usize])), (root, root));
        let edge = frontier_from_edge(size, |tile| log.read(tile)).expect("published tiles");
        assert_eq!((edge.size(), edge.root()), (size, root), "size {size}");
        let parts = Frontier::from_parts(size, edge.hashes().to_vec());
        assert_eq!(parts, Ok(edge));
    }
}

#[test]
fn growing_in_steps_of_any_length_writes_the_same_tiles() {
    let leaves = leaves();
    let (every_size, _) = log_and_roots();
    for step in [7, 100, 255, 256, 257, 600] {
        let mut log = Log::default();
        leaves.chunks(step).for_each(|chunk| log.grow(chunk));
        assert!(log.files.iter().all(|(path, bytes)| every_size.files.get(path) == Some(bytes)));
        assert!(right_edge(SIZE_MAX).iter().all(|tile| log.files.contains_key(&tile.path())));
    }
}

#[test]
fn inclusion_proofs_verify_and_altered_ones_do_not() {
    let leaves = leaves();
    let (log, roots) = log_and_roots();
    for size in 1..=SIZE_MAX {
        for index in sample(size) {
            let path = inclusion_proof(index, size, |tile| log.read(tile)).expect("a proof");
            let (leaf, root) = (leaves[index as usize], roots[size as usize]);
            let claim = Inclusion { leaf, index, size, path: &path, root };
            assert_eq!(verify_inclusion(&claim), Ok(()), "index {index} of {size}");
            for path in altered(&path) {
                assert!(verify_inclusion(&Inclusion { path: &path, ..claim }).is_err());
            }
            for index in sample(size).into_iter().filter(|other| *other != index) {
                assert!(verify_inclusion(&Inclusion { index, ..claim }).is_err());
            }
            let wrong = leaf_hash(b"another line");
            assert!(verify_inclusion(&Inclusion { root: wrong, ..claim }).is_err());
            assert!(verify_inclusion(&Inclusion { leaf: wrong, ..claim }).is_err());
        }
    }
}

#[test]
fn consistency_proofs_verify_and_altered_ones_do_not() {
    let (log, roots) = log_and_roots();
    for new_size in 1..=SIZE_MAX {
        for old_size in sample(new_size).map(|below| below + 1) {
            let path = consistency_proof(old_size, new_size, |tile| log.read(tile));
            let path = path.expect("a proof");
            let (old_root, new_root) = (roots[old_size as usize], roots[new_size as usize]);
            let claim = Consistency { old_size, old_root, new_size, new_root, path: &path };
            assert_eq!(verify_consistency(&claim), Ok(()), "{old_size} to {new_size}");
            for path in altered(&path) {
                assert!(verify_consistency(&Consistency { path: &path, ..claim }).is_err());
            }
            let wrong = leaf_hash(b"another root");
            assert!(verify_consistency(&Consistency { old_root: wrong, ..claim }).is_err());
            assert!(verify_consistency(&Consistency { new_root: wrong, ..claim }).is_err());
        }
    }
}

/// A log of one line repeated: all full tiles of a level are equal, so any size costs nothing.
fn uniform_tile(tile: Tile) -> Vec<Hash> {
    let below = |hash: Hash, _| root_of(&[hash; 256]);
    vec![(0..tile.level).fold(leaf_hash(b"line"), below); usize::from(tile.width)]
}

#[test]
fn a_million_lines_need_few_tiles() {
    let reads = Cell::new(0);
    let read = |tile: Tile| {
        reads.set(reads.get() + 1);
        Ok::<_, ProofError>(uniform_tile(tile))
    };
    let size = 1_000_000;
    let root = frontier_from_edge(size, read).expect("tiles").root();
    assert_eq!(reads.take(), 3);
    assert_eq!(grow_tiles(size, &[leaf_hash(b"line")], read).map(|tiles| tiles.len()), Ok(1));
    assert_eq!(reads.take(), 1);
    for index in sample(size) {
        let path = inclusion_proof(index, size, read).expect("a proof");
        assert!(reads.take() <= 5, "index {index}");
        let leaf = leaf_hash(b"line");
        assert_eq!(verify_inclusion(&Inclusion { leaf, index, size, path: &path, root }), Ok(()));
    }
    for old_size in sample(size).map(|below| below + 1) {
        let old_root = frontier_from_edge(old_size, read).expect("tiles").root();
        reads.set(0);
        let path = consistency_proof(old_size, size, read).expect("a proof");
        assert!(reads.take() <= 5, "old size {old_size}");
        let (new_size, new_root, path) = (size, root, &path);
        let claim = Consistency { old_size, old_root, new_size, new_root, path };
        assert_eq!(verify_consistency(&claim), Ok(()));
    }
}
