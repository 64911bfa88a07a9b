//! Inclusion and consistency proofs: checked as RFC 9162 prescribes, made from tiles.
//!
//! An inclusion proof lists the subtrees that stand beside one leaf's way up to the root, so the
//! checker can climb it. A consistency proof lists the subtrees from which both an old and a new
//! root can be rebuilt, so the old lines are a prefix of the new ones. A proof is only as good as
//! its size: take size and root from one verified checkpoint, never from whoever sent the proof.

use std::collections::btree_map::{BTreeMap, Entry};

use crate::journal::merkle::{Hash, join_subtrees, node_hash, root_of};
use crate::journal::tile::{TILE_WIDTH, Tile, TileError};

/// Binary levels between a tile's hashes and those of the tile above.
const TILE_HEIGHT: u32 = TILE_WIDTH.ilog2();

/// The claim that `leaf` stands at `index` in the tree of `size` leaves under `root`.
#[derive(Clone, Copy, Debug)]
pub struct Inclusion<'a> {
    /// Hash of the line; recomputed by the checker from the line it holds.
    pub leaf: Hash,
    /// Position of the line, from 0.
    pub index: u64,
    /// Leaves in the tree, from the checkpoint.
    pub size: u64,
    /// The proof: the leaf's sibling first.
    pub path: &'a [Hash],
    /// Root of the tree, from the same checkpoint.
    pub root: Hash,
}

/// The claim that the tree under `old_root` is a prefix of the tree under `new_root`.
#[derive(Clone, Copy, Debug)]
pub struct Consistency<'a> {
    /// Leaves in the older tree.
    pub old_size: u64,
    /// Root of the older tree.
    pub old_root: Hash,
    /// Leaves in the newer tree.
    pub new_size: u64,
    /// Root of the newer tree.
    pub new_root: Hash,
    /// The proof, deepest subtree first.
    pub path: &'a [Hash],
}

/// Why a proof does not hold, or cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// The index is not below the size; nothing is in an empty tree.
    #[error("index {index} is outside a tree of {size} leaves")]
    IndexOutside {
        /// Index asked for.
        index: u64,
        /// Leaves in the tree.
        size: u64,
    },
    /// The older tree is empty: every tree begins with it, so a proof would say nothing.
    #[error("an empty tree has no consistency proof")]
    OldEmpty,
    /// The older tree is the larger one.
    #[error("old size {old} is larger than new size {new}")]
    Shrunk {
        /// Size of the older tree.
        old: u64,
        /// Size of the newer tree.
        new: u64,
    },
    /// The number of hashes does not fit the sizes.
    #[error("the proof has a wrong number of hashes ({found})")]
    Length {
        /// Hashes in the proof.
        found: usize,
    },
    /// Climbing from the leaf, or from the shared subtrees, ends at another root.
    #[error("the proof leads to another root")]
    Root,
    /// The shared subtrees do not make up the older root.
    #[error("the proof leads to another old root")]
    OldRoot,
    /// A tile that the proof is made from is unusable.
    #[error(transparent)]
    Tile(#[from] TileError),
}

/// Checks an inclusion proof (RFC 9162 2.1.3.2).
///
/// # Errors
/// [`ProofError`] unless the leaf is at that index under that root.
pub fn verify_inclusion(claim: &Inclusion<'_>) -> Result<(), ProofError> {
    let Inclusion { leaf, index, size, path, root } = *claim;
    if index >= size {
        return Err(ProofError::IndexOutside { index, size });
    }
    let mut climb = Climb { at: index, last: size - 1 };
    let mut node = leaf;
    for sibling in path {
        node = match climb.step() {
            Some(Side::Left) => node_hash(*sibling, node),
            Some(Side::Right) => node_hash(node, *sibling),
            None => return Err(ProofError::Length { found: path.len() }),
        };
    }
    if climb.last != 0 {
        return Err(ProofError::Length { found: path.len() });
    }
    if node == root { Ok(()) } else { Err(ProofError::Root) }
}

/// Checks a consistency proof (RFC 9162 2.1.4.2). Equal sizes want equal roots and no hashes.
///
/// # Errors
/// [`ProofError`] unless the older tree is a prefix of the newer one. An older tree of size 0 is
/// refused: there is nothing to compare, which is not the same as verified.
pub fn verify_consistency(claim: &Consistency<'_>) -> Result<(), ProofError> {
    let Consistency { old_size, old_root, new_size, new_root, .. } = *claim;
    expect_growth(old_size, new_size)?;
    if old_size == new_size {
        return verify_same_size(claim);
    }
    let (old_rebuilt, new_rebuilt) = rebuild_roots(claim)?;
    if old_rebuilt != old_root {
        return Err(ProofError::OldRoot);
    }
    if new_rebuilt == new_root { Ok(()) } else { Err(ProofError::Root) }
}

/// Makes the proof that the line at `index` is in the tree of `size` leaves (RFC 6962 2.1.1).
///
/// `read_tile` supplies each tile as that tree publishes it; none is asked for twice.
///
/// # Errors
/// What `read_tile` reports, or [`ProofError`] for an index outside the tree or an unusable tile.
pub fn inclusion_proof<E: From<ProofError>>(
    index: u64,
    size: u64,
    read_tile: impl FnMut(Tile) -> Result<Vec<Hash>, E>,
) -> Result<Vec<Hash>, E> {
    if index >= size {
        return Err(ProofError::IndexOutside { index, size }.into());
    }
    let mut tree = Tree { size, read_tile, tiles: BTreeMap::new() };
    let mut path = Vec::new();
    // Walk down from the root, noting the half that does not hold the leaf.
    let (mut start, mut end) = (0, size);
    while end - start > 1 {
        let middle = start + left_half(end - start);
        if index < middle {
            path.push(tree.root_between(middle, end)?);
            end = middle;
        } else {
            path.push(tree.root_between(start, middle)?);
            start = middle;
        }
    }
    path.reverse();
    Ok(path)
}

/// Makes the proof that the tree of `old` leaves is a prefix of the one of `new` leaves
/// (RFC 6962 2.1.2); empty for equal sizes.
///
/// `read_tile` supplies each tile as the newer tree publishes it; none is asked for twice.
///
/// # Errors
/// What `read_tile` reports, or [`ProofError`] for sizes without a proof or an unusable tile.
pub fn consistency_proof<E: From<ProofError>>(
    old: u64,
    new: u64,
    read_tile: impl FnMut(Tile) -> Result<Vec<Hash>, E>,
) -> Result<Vec<Hash>, E> {
    expect_growth(old, new)?;
    let mut tree = Tree { size: new, read_tile, tiles: BTreeMap::new() };
    let mut path = Vec::new();
    // Walk down to the older tree's last perfect subtree, noting every other half passed.
    let (mut start, mut end) = (0, new);
    while end != old {
        let middle = start + left_half(end - start);
        if old <= middle {
            path.push(tree.root_between(middle, end)?);
            end = middle;
        } else {
            path.push(tree.root_between(start, middle)?);
            start = middle;
        }
    }
    // Never having gone right means that this subtree is the whole older tree, whose root the
    // checker knows.
    if start != 0 {
        path.push(tree.root_between(start, end)?);
    }
    path.reverse();
    Ok(path)
}

/// On which side of the climbing node its sibling stands.
enum Side {
    Left,
    Right,
}

/// The way from a node up to the root: `fn` and `sn` of RFC 9162.
struct Climb {
    at: u64,
    last: u64,
}

impl Climb {
    /// One sibling up; none when the root is already reached.
    fn step(&mut self) -> Option<Side> {
        if self.last == 0 {
            return None;
        }
        let joined_from_right = self.at & 1 == 1 || self.at == self.last;
        if joined_from_right && self.at & 1 == 0 {
            // The last node of its level without a partner is promoted until it finds one.
            let promoted = self.at.trailing_zeros();
            *self = Self { at: self.at >> promoted, last: self.last >> promoted };
        }
        *self = Self { at: self.at >> 1, last: self.last >> 1 };
        Some(if joined_from_right { Side::Left } else { Side::Right })
    }
}

/// A published tree, read tile by tile and each tile once.
struct Tree<R> {
    size: u64,
    read_tile: R,
    tiles: BTreeMap<Tile, Vec<Hash>>,
}

impl<E: From<ProofError>, R: FnMut(Tile) -> Result<Vec<Hash>, E>> Tree<R> {
    /// `MTH(D[start:end])` of RFC 6962 2.1 for a range that its recursion can reach.
    fn root_between(&mut self, mut start: u64, end: u64) -> Result<Hash, E> {
        let mut roots = Vec::new();
        while start < end {
            let height = (end - start).ilog2();
            roots.push(self.perfect_root(start, height)?);
            start += 1 << height;
        }
        Ok(join_subtrees(&roots))
    }

    /// Root of the perfect subtree of 2^`height` leaves at `start`, from one tile.
    fn perfect_root(&mut self, start: u64, height: u32) -> Result<Hash, E> {
        let level = height / TILE_HEIGHT;
        let first = start >> (TILE_HEIGHT * level);
        let tile = Tile::in_tree(level as u8, first / TILE_WIDTH, self.size)
            .expect("the range lies inside the tree");
        let offset = (first % TILE_WIDTH) as usize;
        let count = 1 << (height % TILE_HEIGHT);
        Ok(root_of(&self.hashes(tile)?[offset..offset + count]))
    }

    fn hashes(&mut self, tile: Tile) -> Result<&[Hash], E> {
        match self.tiles.entry(tile) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(slot) => {
                let hashes = (self.read_tile)(tile)?;
                let hashes = tile.expect_width(hashes).map_err(ProofError::Tile)?;
                Ok(slot.insert(hashes))
            }
        }
    }
}

fn expect_growth(old: u64, new: u64) -> Result<(), ProofError> {
    match old {
        0 => Err(ProofError::OldEmpty),
        _ if old > new => Err(ProofError::Shrunk { old, new }),
        _ => Ok(()),
    }
}

fn verify_same_size(claim: &Consistency<'_>) -> Result<(), ProofError> {
    if !claim.path.is_empty() {
        return Err(ProofError::Length { found: claim.path.len() });
    }
    if claim.old_root == claim.new_root { Ok(()) } else { Err(ProofError::Root) }
}

/// The older and the newer root that a path leads to, when the older tree is the smaller one.
fn rebuild_roots(claim: &Consistency<'_>) -> Result<(Hash, Hash), ProofError> {
    let wrong_length = ProofError::Length { found: claim.path.len() };
    // An older tree that is one perfect subtree is the first hash itself and left out.
    let (first, rest) = match claim.path.split_first() {
        Some(_) if claim.old_size.is_power_of_two() => (claim.old_root, claim.path),
        Some((first, rest)) => (*first, rest),
        None => return Err(wrong_length),
    };
    // The first hash is the older tree's last perfect subtree; the climb starts at its height.
    let (at, last) = (claim.old_size - 1, claim.new_size - 1);
    let height = at.trailing_ones();
    let mut climb = Climb { at: at >> height, last: last >> height };
    let (mut old, mut new) = (first, first);
    for sibling in rest {
        match climb.step() {
            Some(Side::Left) => (old, new) = (node_hash(*sibling, old), node_hash(*sibling, new)),
            // What stands to the right came later than the older tree.
            Some(Side::Right) => new = node_hash(new, *sibling),
            None => return Err(wrong_length),
        }
    }
    if climb.last == 0 { Ok((old, new)) } else { Err(wrong_length) }
}

/// Leaves in the left half of a tree of `size` > 1: the largest power of two below it.
fn left_half(size: u64) -> u64 {
    1 << (size - 1).ilog2()
}
