//! `verify`: everything on disk held against what was signed.
//!
//! Nothing cached is believed: lines are read from the first byte on, chained, hashed into a tree
//! of their own, and the root compared with the signed one. `--full` adds authors, tiles, bundles,
//! index and snapshot.

use super::disk::Disk;
use super::floor;
use super::identity::Identity;
use super::index::{self, Place};
use super::scan::{self, End, Start, Step};
use super::tree;
use crate::error::Failure;
use crate::journal::chain::Tip;
use crate::journal::floor::Floor;
use crate::journal::merkle::{Frontier, Hash};
use crate::journal::replay::Fold;
use crate::journal::snapshot::Snapshot;
use crate::journal::tile::{TILE_WIDTH, Tile, right_edge};
use serde::Serialize;

/// How deep to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Chain, root, signature.
    Journal,
    /// Also authors, tiles, bundles, index and snapshot.
    Full,
}

/// What was found to hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// The federation.
    pub origin: String,
    /// Signed lines, all present and chained.
    pub size: u64,
    /// Their root, equal to the signed one.
    pub root: Hash,
    /// Whole lines beyond the checkpoint, which the next tick signs.
    pub unsigned_lines: u64,
    /// Bytes beyond the last whole line, which the next tick sets aside.
    pub torn_bytes: u64,
    /// Members' signatures checked (`--full`).
    pub signatures: u64,
    /// Tiles compared (`--full`).
    pub tiles: u64,
}

struct Check<'a> {
    disk: &'a Disk<'a>,
    depth: Depth,
    floor: Floor,
    frontier: Frontier,
    root_at_floor: Option<Hash>,
    fold: Fold,
    bundle: Vec<Vec<u8>>,
    leaves: Vec<Hash>,
    places: Vec<Place>,
    signatures: u64,
    tiles: u64,
}

/// Checks the journal; the first contradiction is the error.
pub fn audit(disk: &Disk<'_>, depth: Depth) -> Result<Audit, Failure> {
    let identity = Identity::require(disk)?;
    let floor = floor::read(disk, &identity)?;
    let length = disk.length(&disk.layout.journal())?.unwrap_or(0);
    let mut check = Check {
        disk,
        depth,
        floor,
        frontier: Frontier::new(),
        root_at_floor: None,
        fold: Fold::default(),
        bundle: Vec::new(),
        leaves: Vec::new(),
        places: Vec::new(),
        signatures: 0,
        tiles: 0,
    };
    let start = Start { tip: Tip::origin(&identity.origin), bytes: 0 };
    let end = if length == 0 {
        End { tip: start.tip, bytes: 0, reason: None }
    } else {
        scan::walk(disk, start, u64::MAX, &mut |step| check.line(step))?
    };
    if end.tip.size < check.floor.size {
        return Err(floor::damage(disk, &check.floor, &end));
    }
    let root = check.root_at_floor.unwrap_or_else(|| Frontier::new().root());
    if root != check.floor.root {
        return Err(Failure::integrity(format!(
            "the journal gives root {root} at size {}, but {} was signed",
            check.floor.size, check.floor.root
        ))
        .hint("a line was changed and the chain after it made anew; restore the file from another node"));
    }
    Ok(Audit {
        origin: identity.origin,
        size: check.floor.size,
        root,
        unsigned_lines: end.tip.size - check.floor.size,
        torn_bytes: length - end.bytes,
        signatures: check.signatures,
        tiles: check.tiles,
    })
}

impl Check<'_> {
    fn line(&mut self, step: Step<'_>) -> Result<(), Failure> {
        let seq = step.line.seq;
        if seq >= self.floor.size {
            return Ok(());
        }
        self.frontier.push(step.tip.head);
        if self.depth == Depth::Full {
            self.author(step)?;
            self.bundled(step)?;
        }
        if step.tip.size == self.floor.size {
            self.root_at_floor = Some(self.frontier.root());
            if self.depth == Depth::Full {
                self.snapshot()?;
                self.upper_tiles()?;
                self.look_ups()?;
            }
        }
        Ok(())
    }

    fn author(&mut self, step: Step<'_>) -> Result<(), Failure> {
        self.fold.check_author(step.line).map_err(|reason| {
            Failure::integrity(format!("line {} ({}): {reason}", step.line.seq, step.line.kind))
        })?;
        self.signatures += u64::from(step.line.author.is_some());
        self.fold.apply(step.line);
        Ok(())
    }

    fn bundled(&mut self, step: Step<'_>) -> Result<(), Failure> {
        self.bundle.push(step.raw.to_vec());
        self.leaves.push(step.tip.head);
        self.places.push(step.into());
        let full = self.bundle.len() as u64 == TILE_WIDTH;
        if !full && step.tip.size != self.floor.size {
            return Ok(());
        }
        let index = step.line.seq / TILE_WIDTH;
        let width = self.bundle.len() as u16;
        let tile = Tile { level: 0, index, width };
        if tree::read_tile(self.disk, tile)? != self.leaves {
            return Err(tree::wrong(&tile.path()));
        }
        tree::expect_bundle(self.disk, index * TILE_WIDTH, &self.bundle)?;
        self.tiles += 2;
        self.bundle.clear();
        self.leaves.clear();
        Ok(())
    }

    /// Levels above 0 are determined by level 0, so their right edge must give the same root.
    fn upper_tiles(&mut self) -> Result<(), Failure> {
        let root = tree::frontier(self.disk, self.floor.size).map_err(Failure::from)?.root();
        self.tiles += right_edge(self.floor.size).len() as u64;
        if root != self.frontier.root() {
            return Err(Failure::integrity(format!(
                "the tiles give root {root}, the journal {}",
                self.frontier.root()
            )));
        }
        Ok(())
    }

    /// Lines beyond the index are found by walking, so only a line it claims to hold can be wrong.
    fn look_ups(&self) -> Result<(), Failure> {
        let offsets = index::offsets(self.disk, 0, self.places.len() as u64)?;
        let indexed = &self.places[..offsets.len()];
        if let Some((place, at)) = indexed.iter().zip(&offsets).find(|(place, at)| place.at != **at)
        {
            return Err(Failure::integrity(format!(
                "index/offsets says that line {} begins at {at}, it begins at {}",
                place.seq, place.at
            ))
            .hint("remove the folder index; the next tick rebuilds it"));
        }
        match index::first_missing(self.disk, indexed)? {
            Some(seq) => {
                Err(Failure::integrity(format!("the index does not find line {seq} by its hash"))
                    .hint("remove the folder index; the next tick rebuilds it"))
            }
            None => Ok(()),
        }
    }

    fn snapshot(&self) -> Result<(), Failure> {
        let Some(bytes) = self.disk.read(&self.disk.layout.snapshot())? else {
            return Ok(());
        };
        match Snapshot::parse(&bytes) {
            Ok(snapshot) if snapshot.size == self.floor.size && snapshot.fold != self.fold => {
                Err(Failure::integrity("snapshot.json is not the fold of the journal".to_owned())
                    .hint("remove it; the next tick replays the journal"))
            }
            _ => Ok(()),
        }
    }
}
