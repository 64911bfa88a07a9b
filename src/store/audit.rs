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
use super::tree::{self, ReadError};
use crate::auth::mac::HMAC_SHA256;
use crate::error::Failure;
use crate::journal::chain::Tip;
use crate::journal::floor::Floor;
use crate::journal::line::Line;
use crate::journal::merged::Merged;
use crate::journal::merkle::{Frontier, Hash};
use crate::journal::replay::Fold;
use crate::journal::snapshot::Snapshot;
use crate::journal::tile::{TILE_WIDTH, Tile, right_edge};
use serde::Serialize;

/// How often progress is told, in lines.
const LINES_PER_WORD: u64 = 4_096;

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
    /// Lines of members with a shared key, which only the anchor can check.
    pub by_checkpoint_alone: u64,
    /// Tiles compared (`--full`).
    pub tiles: u64,
}

struct Check<'a> {
    disk: &'a Disk<'a>,
    depth: Depth,
    floor: Floor,
    frontier: Frontier,
    /// The signed lines end elsewhere than the floor says.
    misled: bool,
    /// The first line that its tile has another hash for: which of them is wrong shows at the root.
    differs: Option<(Tile, Place)>,
    fold: Fold,
    bundle: Vec<Vec<u8>>,
    leaves: Vec<Hash>,
    places: Vec<Place>,
    signatures: u64,
    by_checkpoint_alone: u64,
    tiles: u64,
}

/// Checks the journal; the first contradiction is the error.
pub fn audit(disk: &Disk<'_>, depth: Depth) -> Result<Audit, Failure> {
    audit_with(disk, depth, &|_, _| {})
}

/// The same, telling bytes read and bytes there on the way.
pub fn audit_with(
    disk: &Disk<'_>,
    depth: Depth,
    progress: &dyn Fn(u64, u64),
) -> Result<Audit, Failure> {
    let identity = Identity::require(disk)?;
    let floor = floor::read(disk, &identity)?;
    let length = disk.length(&disk.layout.journal())?;
    let mut check = Check {
        disk,
        depth,
        floor,
        frontier: Frontier::new(),
        misled: false,
        differs: None,
        fold: Fold::default(),
        bundle: Vec::new(),
        leaves: Vec::new(),
        places: Vec::new(),
        signatures: 0,
        by_checkpoint_alone: 0,
        tiles: 0,
    };
    let start = Start { tip: Tip::origin(&identity.origin), bytes: 0 };
    let end = match length {
        Some(length) => scan::walk(disk, start, u64::MAX, &mut |step| {
            if step.line.seq.is_multiple_of(LINES_PER_WORD) {
                progress(step.at, length);
            }
            check.line(step)
        })?,
        None => End { tip: start.tip, bytes: 0, reason: None },
    };
    check.journal(&end)?;
    if depth == Depth::Full {
        check.derived()?;
    }
    // A tick may have appended meanwhile: only bytes that are no line are torn.
    let length = disk.length(&disk.layout.journal())?.unwrap_or(0);
    let torn_bytes = end.reason.map_or(0, |_| length.saturating_sub(end.bytes));
    Ok(Audit {
        origin: identity.origin,
        size: check.floor.size,
        root: check.floor.root,
        unsigned_lines: end.tip.size - check.floor.size,
        torn_bytes,
        signatures: check.signatures,
        by_checkpoint_alone: check.by_checkpoint_alone,
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
        self.misled |= step.tip.size == self.floor.size && !floor::ends_at(&self.floor, step);
        if self.depth == Depth::Full {
            self.author(step)?;
            return self.bundled(step);
        }
        self.by_checkpoint_alone += u64::from(is_shared(step.line));
        Ok(())
    }

    /// The lines under the floor are all there and those that were signed.
    fn journal(&mut self, end: &End) -> Result<(), Failure> {
        let short = end.tip.size < self.floor.size;
        if short {
            self.compare_begun_bundle(end)?;
        }
        let root = self.frontier.root();
        match &self.differs {
            Some((_, place)) if short || root != self.floor.root => {
                let reason = "its hash is not the one in the tree";
                Err(floor::changed(self.disk, place.seq, place.at, reason))
            }
            None if short => Err(floor::damage(self.disk, &self.floor, end)),
            None if root != self.floor.root => {
                Err(floor::unlike_signed(self.disk, &self.floor, root))
            }
            None if self.misled => Err(floor::misleads(self.disk)),
            _ => Ok(()),
        }
    }

    /// Everything that is made from the journal.
    fn derived(&mut self) -> Result<(), Failure> {
        if let Some((tile, _)) = &self.differs {
            return Err(tree::wrong(&tile.path()));
        }
        self.snapshot()?;
        self.upper_tiles()?;
        self.look_ups()
    }

    fn author(&mut self, step: Step<'_>) -> Result<(), Failure> {
        let (seq, kind) = (step.line.seq, &step.line.kind);
        let signed = self.fold.check_author(step.line).map_err(|reason| {
            floor::changed(self.disk, seq, step.at, &format!("{kind}: {reason}"))
        })?;
        self.signatures += u64::from(signed);
        self.by_checkpoint_alone += u64::from(!signed && is_shared(step.line));
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
        let first = step.line.seq / TILE_WIDTH * TILE_WIDTH;
        self.compare_with_tile(first)?;
        if self.differs.is_none() {
            tree::expect_bundle(self.disk, first, &self.bundle)?;
        }
        self.tiles += 2;
        self.bundle.clear();
        self.leaves.clear();
        Ok(())
    }

    /// Notes the first of the lines at hand that its tile has another hash for.
    fn compare_with_tile(&mut self, first: u64) -> Result<(), ReadError> {
        let Some(tile) = Tile::in_tree(0, first / TILE_WIDTH, self.floor.size) else {
            return Ok(());
        };
        let held = tree::read_tile(self.disk, tile)?;
        let differing = self.leaves.iter().zip(&held).position(|(leaf, held)| leaf != held);
        if let (Some(nth), None) = (differing, &self.differs) {
            self.differs = Some((tile, self.places[first as usize + nth]));
        }
        Ok(())
    }

    /// The chain broke: often the line before is the changed one, and its tile tells.
    fn compare_begun_bundle(&mut self, end: &End) -> Result<(), Failure> {
        match self.compare_with_tile(end.tip.size / TILE_WIDTH * TILE_WIDTH) {
            Err(ReadError::Wrong(failure)) => Err(failure),
            _ => Ok(()),
        }
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

/// Whether a member said it whose key nobody but it and the anchor holds.
fn is_shared(line: &Line) -> bool {
    let by_shared = |line: &Line| line.author.as_ref().is_some_and(|by| by.alg == HMAC_SHA256);
    if line.kind != "merged" {
        return by_shared(line);
    }
    Merged::read(&line.payload).is_some_and(|merged| by_shared(&merged.line))
}
