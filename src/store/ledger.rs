//! The writer's journal: opened and mended, appended to, published.
//!
//! Order is everything here. Lines are synced before anything says they exist; tiles before the
//! floor that promises them; the floor before the root file that others read; the root before the
//! snapshot readers start from. A crash between any two is finished by the next open, which runs
//! the same code.

mod opening;

use super::disk::Disk;
use super::draft::Draft;
use super::index::{self, Place};
use super::{root, tree};
use crate::auth::vkey::VerifierKey;
use crate::error::Failure;
use crate::host::{Keep, Readers, Span};
use crate::journal::chain::Tip;
use crate::journal::checkpoint::{Checkpoint, open_checkpoint, sign_along, sign_checkpoint};
use crate::journal::floor::Floor;
use crate::journal::line::ANCHOR_BYTES_MAX;
use crate::journal::merkle::{Frontier, Hash};
use crate::journal::note::{NoteError, SignedNote};
use crate::journal::prefix::Prefix;
use crate::journal::replay::Fold;
use crate::journal::snapshot::{FOLD_VERSION, Snapshot};
use crate::journal::tile::TILE_WIDTH;
use ed25519_dalek::SigningKey;

/// Lines whose tiles are made at once.
const BATCH_LINES: usize = 1 << 16;

/// Whether opening may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mend {
    /// Set torn bytes aside, write whole lines again, rebuild what is derived.
    Yes,
    /// Only look (`--dry-run`).
    No,
}

/// When readers see what was signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The root file follows the floor.
    AtOnce,
    /// It waits where it is until those who must cosign have done so.
    Cosigned,
}

/// The journal in a writer's hands.
#[derive(Debug)]
pub struct Ledger<'a> {
    disk: Disk<'a>,
    origin: String,
    floor: Floor,
    frontier: Frontier,
    /// Lines of the unfinished last bundle under the floor.
    bundle: Vec<Vec<u8>>,
    tip: Tip,
    bytes: u64,
    /// Where the lines beyond the floor begin; their bytes are on disk.
    fresh: Vec<Place>,
    fold: Fold,
    warnings: Vec<String>,
}

impl<'a> Ledger<'a> {
    /// What the journal says, unpublished lines included.
    pub fn fold(&self) -> &Fold {
        &self.fold
    }

    /// Lines so far, unpublished ones included, and the hash of the last.
    pub fn tip(&self) -> &Tip {
        &self.tip
    }

    /// Lines and root of the last signed checkpoint.
    pub fn floor(&self) -> &Floor {
        &self.floor
    }

    /// Length of the journal, unpublished lines included.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What opening found and mended.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// That an anchor has a journal to go on with: where its first line is gone, whatever it wrote
    /// would be another log under the same key.
    pub fn expect_begun(&self) -> Result<(), Failure> {
        if self.tip.size > 0 {
            return Ok(());
        }
        Err(Failure::integrity(format!(
            "{} has no lines, and only a founding writes the first",
            self.disk.layout.journal().display()
        ))
        .hint("where a federation was: restore it, or take it from a member that has it: crowny-fed doctor --adopt URL; an init that was cut off is finished by running it again"))
    }

    /// Bytes the draft would have as the next line, without LF.
    pub fn size_of(&self, draft: &Draft, now_s: u64) -> usize {
        draft.clone().line(&self.tip, now_s).render().len()
    }

    /// Commits lines: one write, one sync. Nothing may be told before this returns.
    pub fn append(&mut self, drafts: Vec<Draft>, now_s: u64) -> Result<(), Failure> {
        let mut tip = self.tip.clone();
        let mut bytes = Vec::new();
        for draft in drafts {
            let line = draft.line(&tip, now_s);
            let raw = line.render().into_bytes();
            if raw.len() > ANCHOR_BYTES_MAX {
                return Err(Failure::failed(format!(
                    "a {} line has {} bytes, limit {ANCHOR_BYTES_MAX}",
                    line.kind,
                    raw.len()
                )));
            }
            tip.accept(&raw).map_err(|error| {
                Failure::failed(format!("a line we made does not read back: {error}"))
            })?;
            bytes.extend_from_slice(&raw);
            bytes.push(b'\n');
        }
        self.commit(&bytes)
    }

    /// Commits whole lines as they are, which must continue ours: one write, one sync.
    pub fn commit(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut tip = self.tip.clone();
        let mut fresh = Vec::new();
        let mut lines = Vec::new();
        let mut at = self.bytes;
        for raw in bytes.split_inclusive(|byte| *byte == b'\n') {
            let whole = raw.strip_suffix(b"\n").unwrap_or(raw);
            let line = tip.accept(whole).map_err(|error| {
                Failure::failed(format!("line {} does not continue the journal: {error}", tip.size))
            })?;
            fresh.push(Place { leaf: tip.head, seq: line.seq, at });
            at += raw.len() as u64;
            lines.push(line);
        }
        if fresh.is_empty() {
            return Ok(());
        }
        self.disk.append(&self.disk.layout.journal(), self.bytes, bytes, Keep::Durable)?;
        lines.iter().for_each(|line| self.fold.apply(line));
        self.bytes = at;
        self.tip = tip;
        self.fresh.extend(fresh);
        Ok(())
    }

    /// The lines so far with the tree over all of them.
    pub fn prefix(&self) -> Prefix {
        let (tip, fold) = (self.tip.clone(), self.fold.clone());
        Prefix { tip, frontier: self.whole_frontier(), fold, bytes: self.bytes, forged: None }
    }

    fn whole_frontier(&self) -> Frontier {
        let mut frontier = self.frontier.clone();
        self.fresh.iter().for_each(|place| frontier.push(place.leaf));
        frontier
    }

    /// Signs and publishes what was appended; without anything new, finishes what a crash left.
    pub fn publish(&mut self, keys: &[SigningKey]) -> Result<(), Failure> {
        self.publish_by(keys, Release::AtOnce).map(|_| ())
    }

    /// The same where readers may have to wait. Returns whether they see all of it: what is held
    /// back is signed and committed like everything, but no file that readers start from runs
    /// ahead of the root file.
    pub fn publish_by(&mut self, keys: &[SigningKey], release: Release) -> Result<bool, Failure> {
        if !self.fresh.is_empty() {
            let size = self.tip.size;
            let root = self.whole_frontier().root();
            let note = self.signed(&Checkpoint::new(&self.origin, size, root), keys)?;
            self.raise_floor(note.render(), root)?;
        }
        self.announce(release)
    }

    /// Publishes lines of somebody else's log under the checkpoint that covers exactly them.
    pub fn publish_under(&mut self, note: &str, root: Hash) -> Result<(), Failure> {
        debug_assert!(root == self.whole_frontier().root(), "proven before it was appended");
        self.raise_floor(note.to_owned(), root)?;
        self.announce(Release::AtOnce).map(|_| ())
    }

    /// Signs what is under the floor with one more log key and publishes it so.
    pub fn sign_along(&mut self, key: &SigningKey) -> Result<(), Failure> {
        let failed = |error: NoteError| Failure::failed(format!("the floor's note: {error}"));
        let vkey = VerifierKey::of(&self.origin, key)
            .map_err(|error| Failure::config(error.to_string()))?;
        if open_checkpoint(&self.floor.note, &vkey).is_err() {
            let mut note = SignedNote::parse(&self.floor.note).map_err(failed)?;
            sign_along(&mut note, &self.origin, key).map_err(failed)?;
            self.floor.note = note.render();
        }
        self.announce(Release::AtOnce).map(|_| ())
    }

    /// Publishes again what is under the floor already, where a killed run or a lost file left it
    /// behind. Lines that wait for the rest of their checkpoint are no reader's business.
    pub fn finish(&mut self) -> Result<(), Failure> {
        if self.floor.size == 0 || !self.fresh.is_empty() {
            return Ok(());
        }
        self.announce(Release::AtOnce).map(|_| ())
    }

    /// Tiles first: the floor promises them.
    fn raise_floor(&mut self, note: String, root: Hash) -> Result<(), Failure> {
        self.grow_tree()?;
        self.floor = Floor {
            bytes: self.bytes,
            head: self.tip.head,
            note,
            root,
            size: self.tip.size,
            ts: self.tip.ts,
        };
        Ok(())
    }

    fn announce(&mut self, release: Release) -> Result<bool, Failure> {
        let layout = self.disk.layout;
        let floor = serde_json::to_vec(&self.floor).expect("a floor has string keys only");
        self.disk.put(&layout.committed(), &floor, (Keep::Durable, Readers::Usual))?;
        let shown = root::follow(&self.disk, &self.floor, release)?;
        self.extend_index()?;
        if shown {
            self.write_snapshot()?;
        }
        Ok(shown)
    }

    /// The bytes beyond the floor, cut at line ends into parts of bounded size.
    fn spans(&self) -> Vec<(u64, u64)> {
        let starts: Vec<u64> =
            self.fresh.iter().step_by(TILE_WIDTH as usize).map(|place| place.at).collect();
        let ends = starts.iter().skip(1).copied().chain([self.bytes]);
        starts.iter().copied().zip(ends).collect()
    }

    /// Writes the tiles and bundles of the lines beyond the floor, a bounded part at a time.
    fn grow_tree(&mut self) -> Result<(), Failure> {
        let leaves: Vec<Hash> = self.fresh.iter().map(|place| place.leaf).collect();
        for (nth, part) in (0..).zip(leaves.chunks(BATCH_LINES)) {
            tree::grow(&self.disk, self.floor.size + nth * BATCH_LINES as u64, part)?;
        }
        leaves.into_iter().for_each(|leaf| self.frontier.push(leaf));
        debug_assert!(self.frontier.size() == self.tip.size, "law 3: never smaller");
        let mut first = self.floor.size / TILE_WIDTH * TILE_WIDTH;
        for (from, to) in self.spans() {
            let span = Span { from, most: to - from };
            let bytes = self.disk.read_span(&self.disk.layout.journal(), span)?;
            let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            self.bundle.extend(lines.map(<[u8]>::to_vec));
            let views: Vec<&[u8]> = self.bundle.iter().map(Vec::as_slice).collect();
            tree::grow_bundles(&self.disk, first, &views)?;
            let full = self.bundle.len() / TILE_WIDTH as usize * TILE_WIDTH as usize;
            first += full as u64;
            self.bundle.drain(..full);
        }
        Ok(())
    }

    /// The checkpoint under every key that signs now, the one in force first.
    fn signed(&self, checkpoint: &Checkpoint, keys: &[SigningKey]) -> Result<SignedNote, Failure> {
        let failed = |error: NoteError| Failure::failed(error.to_string());
        let (first, others) =
            keys.split_first().ok_or_else(|| Failure::config("no log key to sign with"))?;
        let mut note = sign_checkpoint(checkpoint, first).map_err(failed)?;
        for key in others {
            sign_along(&mut note, &self.origin, key).map_err(failed)?;
        }
        Ok(note)
    }

    /// Brings the index up to the floor and forgets the published lines.
    fn extend_index(&mut self) -> Result<(), Failure> {
        let reach = index::reach(&self.disk)?;
        let places: Vec<Place> = self.fresh.drain(..).filter(|place| place.seq >= reach).collect();
        index::extend(&self.disk, &places)
    }

    fn write_snapshot(&self) -> Result<(), Failure> {
        let snapshot = Snapshot {
            fold_version: FOLD_VERSION,
            bytes: self.floor.bytes,
            size: self.floor.size,
            head: self.floor.head,
            ts: self.floor.ts,
            frontier: self.frontier.hashes().to_vec(),
            fold: self.fold.clone(),
        };
        self.disk.put(
            &self.disk.layout.snapshot(),
            &snapshot.render(),
            (Keep::Durable, Readers::Usual),
        )
    }
}
