//! `ct-merkle` and we make the same proofs, and accept and refuse the same claims.

use crate::{chance, theirs};
use crowny_fed::journal::merkle::{Hash, leaf_hash, root_of};
use crowny_fed::journal::proof::{
    Consistency, Inclusion, ProofError, consistency_proof, inclusion_proof, verify_consistency,
    verify_inclusion,
};
use crowny_fed::journal::tile::{FilledTile, Tile, grow_tiles};
use crowny_fed::sim::chance::Chance;
use ct_merkle::mem_backed_tree::MemoryBackedTree;
use ct_merkle::{ConsistencyProof, InclusionProof, RootHash};
use sha2::Sha256;
use std::collections::BTreeMap;
use tlog_tiles::{check_record, check_tree};

/// Largest tree: two full tiles and a part of a third.
const SIZE_MAX: u64 = 600;
/// Random trees per test.
const ROUNDS: usize = 300;

fn line(seq: u64) -> Vec<u8> {
    format!("line {seq}").into_bytes()
}

/// One tree in both implementations.
struct Trees {
    size: u64,
    root: Hash,
    tiles: BTreeMap<Tile, Vec<Hash>>,
    theirs: MemoryBackedTree<Sha256, Vec<u8>>,
}

impl Trees {
    fn of(size: u64) -> Trees {
        let leaves: Vec<Hash> = (0..size).map(|seq| leaf_hash(&line(seq))).collect();
        let none = |tile: Tile| -> Result<Vec<Hash>, ProofError> { panic!("{}", tile.path()) };
        let filled = grow_tiles(0, &leaves, none).unwrap();
        let tiles = filled.into_iter().map(|FilledTile { tile, hashes }| (tile, hashes)).collect();
        let mut theirs = MemoryBackedTree::new();
        (0..size).for_each(|seq| theirs.push(line(seq)));
        let trees = Trees { size, root: root_of(&leaves), tiles, theirs };
        assert_eq!(trees.theirs.root(), their_root(trees.root, size), "size {size}");
        trees
    }

    fn read(&self, tile: Tile) -> Result<Vec<Hash>, ProofError> {
        Ok(self.tiles[&tile].clone())
    }
}

fn their_root(root: Hash, size: u64) -> RootHash<Sha256> {
    RootHash::new(root.0.into(), size)
}

fn joined(path: &[Hash]) -> Vec<u8> {
    path.iter().flat_map(|hash| hash.0).collect()
}

/// Whether the line at `seq` is where the claim says: by us, by `ct-merkle`, by `tlog_tiles`.
fn inclusion(seq: u64, claim: &Inclusion<'_>) -> [bool; 3] {
    let Inclusion { leaf, index, size, path, root } = *claim;
    assert_eq!(leaf, leaf_hash(&line(seq)));
    let proof = InclusionProof::from_bytes(joined(path));
    let (theirs_path, theirs_root) = (theirs(path), tlog_tiles::Hash(root.0));
    [
        verify_inclusion(claim).is_ok(),
        their_root(root, size).verify_inclusion(&line(seq), index, &proof).is_ok(),
        check_record(&theirs_path, size, theirs_root, index, tlog_tiles::Hash(leaf.0)).is_ok(),
    ]
}

/// Whether the older tree is a prefix: by us, by `ct-merkle`, by `tlog_tiles`.
fn consistency(claim: &Consistency<'_>) -> [bool; 3] {
    let Consistency { old_size, old_root, new_size, new_root, path } = *claim;
    let proof = ConsistencyProof::try_from_bytes(joined(path)).unwrap();
    let (old, new) = (tlog_tiles::Hash(old_root.0), tlog_tiles::Hash(new_root.0));
    [
        verify_consistency(claim).is_ok(),
        their_root(new_root, new_size)
            .verify_consistency(&their_root(old_root, old_size), &proof)
            .is_ok(),
        check_tree(&theirs(path), new_size, new, old_size, old).is_ok(),
    ]
}

/// Paths that differ by one bit, one hash less, or one hash more.
fn altered(path: &[Hash], chance: &mut Chance) -> Vec<Vec<Hash>> {
    let mut paths = vec![[path, &[leaf_hash(b"more")]].concat()];
    for at in 0..path.len() {
        let mut flipped = path.to_vec();
        flipped[at].0[chance.below(32) as usize] ^= 1 << chance.below(8);
        let mut shorter = path.to_vec();
        shorter.remove(at);
        paths.extend([flipped, shorter]);
    }
    paths
}

#[test]
fn inclusion_proofs_are_the_same_and_so_are_verdicts() {
    let mut chance = chance();
    for _ in 0..ROUNDS {
        let trees = Trees::of(1 + chance.below(SIZE_MAX));
        let (size, root, index) = (trees.size, trees.root, chance.below(trees.size));
        let path = inclusion_proof(index, size, |tile| trees.read(tile)).unwrap();
        let what = format!("line {index} of {size}");
        assert_eq!(
            joined(&path),
            trees.theirs.prove_inclusion(index as usize).as_bytes(),
            "{what}"
        );

        let claim = Inclusion { leaf: leaf_hash(&line(index)), index, size, path: &path, root };
        assert_eq!(inclusion(index, &claim), [true; 3], "{what}");
        for path in altered(&path, &mut chance) {
            assert_eq!(inclusion(index, &Inclusion { path: &path, ..claim }), [false; 3], "{what}");
        }
        let other = index + 1;
        let leaf = leaf_hash(&line(other));
        assert_eq!(inclusion(other, &Inclusion { leaf, ..claim }), [false; 3], "{what}");
        let root = leaf_hash(b"another root");
        assert_eq!(inclusion(index, &Inclusion { root, ..claim }), [false; 3], "{what}");
        same_inclusion_verdicts(index, claim, &mut chance);
    }
}

/// Another index or size can have the same way up, so nothing says what the verdict on it is; but
/// all give one.
fn same_inclusion_verdicts(seq: u64, claim: Inclusion<'_>, chance: &mut Chance) {
    for _ in 0..20 {
        let near = |number: u64, by: u64| (number + by).saturating_sub(10);
        let index = near(claim.index, chance.below(21));
        let size = near(claim.size, chance.below(21));
        let [ours, others @ ..] = inclusion(seq, &Inclusion { index, size, ..claim });
        assert_eq!(others, [ours; 2], "line {} of {} as {index} of {size}", seq, claim.size);
    }
}

#[test]
fn consistency_proofs_are_the_same_and_so_are_verdicts() {
    let mut chance = chance();
    for _ in 0..ROUNDS {
        let new = Trees::of(1 + chance.below(SIZE_MAX));
        let old = Trees::of(1 + chance.below(new.size));
        let path = consistency_proof(old.size, new.size, |tile| new.read(tile)).unwrap();
        let what = format!("{} to {}", old.size, new.size);
        let added = (new.size - old.size) as usize;
        assert_eq!(joined(&path), new.theirs.prove_consistency(added).as_bytes(), "{what}");

        let claim = Consistency {
            old_size: old.size,
            old_root: old.root,
            new_size: new.size,
            new_root: new.root,
            path: &path,
        };
        assert_eq!(consistency(&claim), [true; 3], "{what}");
        for path in altered(&path, &mut chance) {
            assert_eq!(consistency(&Consistency { path: &path, ..claim }), [false; 3], "{what}");
        }
        let wrong = leaf_hash(b"another root");
        assert_eq!(consistency(&Consistency { old_root: wrong, ..claim }), [false; 3], "{what}");
        assert_eq!(consistency(&Consistency { new_root: wrong, ..claim }), [false; 3], "{what}");
        same_consistency_verdicts(claim, &mut chance);
    }
}

/// As for inclusion: other sizes, one verdict.
fn same_consistency_verdicts(claim: Consistency<'_>, chance: &mut Chance) {
    for _ in 0..20 {
        let near = |number: u64, by: u64| (number + by).saturating_sub(10);
        let old_size = near(claim.old_size, chance.below(21));
        let new_size = near(claim.new_size, chance.below(21));
        let [ours, others @ ..] = consistency(&Consistency { old_size, new_size, ..claim });
        assert_eq!(
            others, [ours; 2],
            "{} to {} as {old_size} to {new_size}",
            claim.old_size, claim.new_size
        );
    }
}
