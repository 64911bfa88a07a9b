//! The writer's journal: opened and mended, appended to, published.
//!
//! Order is everything here. Lines are synced before anything says they exist; tiles before the
//! floor that promises them; the floor before the root file that others read; the root before the
//! snapshot readers start from. A crash between any two is finished by the next open, which runs
//! the same code.

use super::disk::Disk;
use super::draft::Draft;
use super::identity::Identity;
use super::index::{self, Place};
use super::scan::{self, End, Start};
use super::tree::{self, ReadError};
use super::{floor, rebuild};
use crate::error::Failure;
use crate::host::{Keep, Readers, Span};
use crate::journal::chain::Tip;
use crate::journal::checkpoint::{Checkpoint, sign_along, sign_checkpoint};
use crate::journal::floor::Floor;
use crate::journal::line::ANCHOR_BYTES_MAX;
use crate::journal::merkle::{Frontier, Hash};
use crate::journal::note::{NoteError, SignedNote};
use crate::journal::replay::Fold;
use crate::journal::snapshot::{FOLD_VERSION, Snapshot};
use crate::journal::tile::TILE_WIDTH;
use ed25519_dalek::SigningKey;

/// Whether opening may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mend {
    /// Set torn bytes aside, write whole lines again, rebuild what is derived.
    Yes,
    /// Only look (`--dry-run`).
    No,
}

#[derive(Clone, Debug)]
struct Fresh {
    raw: Vec<u8>,
    place: Place,
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
    fresh: Vec<Fresh>,
    fold: Fold,
    warnings: Vec<String>,
}

impl<'a> Ledger<'a> {
    /// Opens the journal; the state lock must be held unless `mend` is `No`.
    pub fn open(disk: Disk<'a>, identity: &Identity, mend: Mend) -> Result<Ledger<'a>, Failure> {
        let floor = floor::read(&disk, identity).inspect_err(|_| {
            if mend == Mend::Yes {
                floor::keep_evidence(&disk, identity);
            }
        })?;
        if mend == Mend::Yes {
            floor::refuse_convicted(&disk)?;
        }
        let length = disk.length(&disk.layout.journal())?.unwrap_or(0);
        if length < floor.bytes {
            let end = floor::followed(&disk, identity, &floor)?;
            return Err(rebuild::accused(&disk, &floor, &end));
        }
        let mut ledger = Ledger::above(disk, floor, length, identity)?;
        if mend == Mend::Yes {
            disk.clear_temporary()?;
        }
        // First, so that damage under the floor is told before anything of the journal is cut.
        ledger.load_tree(mend)?;
        if mend == Mend::Yes {
            ledger.mend(length)?;
        }
        Ok(ledger)
    }

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

    /// Bytes the draft would have as the next line, without LF.
    pub fn size_of(&self, draft: &Draft, now_s: u64) -> usize {
        draft.clone().line(&self.tip, now_s).render().len()
    }

    /// Commits lines: one write, one sync. Nothing may be told before this returns.
    pub fn append(&mut self, drafts: Vec<Draft>, now_s: u64) -> Result<(), Failure> {
        let mut tip = self.tip.clone();
        let mut bytes = Vec::new();
        let mut fresh = Vec::with_capacity(drafts.len());
        let mut lines = Vec::with_capacity(drafts.len());
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
            let at = self.bytes + bytes.len() as u64;
            let checked = tip.accept(&raw).map_err(|error| {
                Failure::failed(format!("a line we made does not read back: {error}"))
            })?;
            fresh.push(Fresh {
                place: Place { leaf: tip.head, seq: checked.seq, at },
                raw: raw.clone(),
            });
            lines.push(checked);
            bytes.extend_from_slice(&raw);
            bytes.push(b'\n');
        }
        if bytes.is_empty() {
            return Ok(());
        }
        self.disk.append(&self.disk.layout.journal(), self.bytes, &bytes, Keep::Durable)?;
        lines.iter().for_each(|line| self.fold.apply(line));
        self.bytes += bytes.len() as u64;
        self.tip = tip;
        self.fresh.extend(fresh);
        Ok(())
    }

    /// Signs and publishes what was appended; without anything new, finishes what a crash left.
    pub fn publish(&mut self, keys: &[SigningKey]) -> Result<(), Failure> {
        if !self.fresh.is_empty() {
            self.floor = self.grow_tree(keys)?;
        }
        let layout = self.disk.layout;
        let floor = serde_json::to_vec(&self.floor).expect("a floor has string keys only");
        self.disk.put(&layout.committed(), &floor, (Keep::Durable, Readers::Usual))?;
        self.disk.put(
            &layout.root(),
            self.floor.note.as_bytes(),
            (Keep::Durable, Readers::Everybody),
        )?;
        let head = format!("{} {}\n", self.floor.size, self.floor.head);
        self.disk.put(&layout.head(), head.as_bytes(), (Keep::Durable, Readers::Everybody))?;
        self.extend_index()?;
        self.write_snapshot()
    }

    /// Reads everything from the best base on: up to the floor it must be good, beyond it what is
    /// good is kept.
    fn above(
        disk: Disk<'a>,
        floor: Floor,
        length: u64,
        identity: &Identity,
    ) -> Result<Ledger<'a>, Failure> {
        let (mut fold, start) = base(&disk, &floor, &identity.origin)?;
        let mut fresh = Vec::new();
        let mut end = End { tip: start.tip.clone(), bytes: start.bytes, reason: None };
        if length > start.bytes {
            end = scan::walk(&disk, start, u64::MAX, &mut |step| {
                fold.apply(step.line);
                if step.tip.size == floor.size && !floor::ends_at(&floor, step) {
                    return Err(rebuild::misplaced(&disk, &floor, step.into()));
                }
                if step.line.seq >= floor.size {
                    fresh.push(Fresh { raw: step.raw.to_vec(), place: step.into() });
                }
                Ok(())
            })?;
        }
        if end.tip.size < floor.size {
            return Err(rebuild::accused(&disk, &floor, &end));
        }
        let mut ledger = Ledger {
            disk,
            origin: identity.origin.clone(),
            frontier: Frontier::new(),
            bundle: Vec::new(),
            tip: end.tip,
            bytes: end.bytes,
            fresh,
            fold,
            warnings: Vec::new(),
            floor,
        };
        if end.bytes < length {
            let reason = end.reason.unwrap_or_default();
            ledger.warnings.push(format!(
                "{}: torn line at byte offset {} (line {}: {reason}); {} bytes set aside",
                ledger.disk.layout.journal().display(),
                ledger.bytes,
                ledger.tip.size,
                length - ledger.bytes
            ));
        }
        Ok(ledger)
    }

    fn mend(&mut self, length: u64) -> Result<(), Failure> {
        let journal = self.disk.layout.journal();
        if self.bytes < length {
            let torn = self
                .disk
                .read_span(&journal, Span { from: self.bytes, most: length - self.bytes })?;
            let aside = self.disk.layout.torn(self.disk.host.clock().wall_ms);
            self.disk.put(&aside, &torn, (Keep::Durable, Readers::Usual))?;
            self.disk.cut(&journal, self.bytes)?;
        }
        if self.fresh.is_empty() {
            return Ok(());
        }
        // A sync may have failed after these bytes reached the cache: the kernel then calls the
        // pages clean, and only writing them again makes the next sync mean anything.
        let mut again = Vec::new();
        for fresh in &self.fresh {
            again.extend_from_slice(&fresh.raw);
            again.push(b'\n');
        }
        self.disk.append(&journal, self.floor.bytes, &again, Keep::Durable)
    }

    /// Reads what grows with the journal, and makes it anew where it is missing. A tile that is
    /// there and wrong is evidence, so it is named and left to the operator.
    fn load_tree(&mut self, mend: Mend) -> Result<(), Failure> {
        match self.read_tree() {
            Err(ReadError::Missing(_)) if mend == Mend::Yes => {
                rebuild::tree(&self.disk, &self.origin, &self.floor)?;
                self.read_tree()?;
            }
            Err(ReadError::Missing(path)) => {
                self.warnings.push(format!("{path} is missing and would be rebuilt"));
                return Ok(());
            }
            read => read?,
        }
        if self.frontier.root() != self.floor.root {
            return Err(Failure::integrity(format!(
                "the tiles give root {} at size {}, but {} was signed",
                self.frontier.root(),
                self.floor.size,
                self.floor.root
            ))
            .hint("remove the folder tile; the next tick rebuilds it from the journal"));
        }
        if mend == Mend::Yes && !self.index_fits()? {
            rebuild::index(&self.disk, &self.origin, &self.floor)?;
        }
        Ok(())
    }

    fn read_tree(&mut self) -> Result<(), ReadError> {
        self.bundle = rebuild::bundle(&self.disk, &self.floor, self.floor.size / TILE_WIDTH)?;
        self.frontier = tree::frontier(&self.disk, self.floor.size)?;
        Ok(())
    }

    /// Whether the index reaches the floor and is right about the unfinished bundle.
    fn index_fits(&self) -> Result<bool, Failure> {
        let first = self.floor.size / TILE_WIDTH * TILE_WIDTH;
        let held: u64 = self.bundle.iter().map(|line| line.len() as u64 + 1).sum();
        let starts = self.bundle.iter().scan(self.floor.bytes - held, |next, line| {
            let at = *next;
            *next += line.len() as u64 + 1;
            Some(at)
        });
        let offsets = index::offsets(&self.disk, first, self.bundle.len() as u64)?;
        Ok(index::reach(&self.disk)? == self.floor.size && starts.eq(offsets))
    }

    fn grow_tree(&mut self, keys: &[SigningKey]) -> Result<Floor, Failure> {
        let leaves: Vec<Hash> = self.fresh.iter().map(|fresh| fresh.place.leaf).collect();
        tree::grow(&self.disk, self.floor.size, &leaves)?;
        let first = self.floor.size / TILE_WIDTH * TILE_WIDTH;
        let lines: Vec<&[u8]> = self
            .bundle
            .iter()
            .map(Vec::as_slice)
            .chain(self.fresh.iter().map(|fresh| fresh.raw.as_slice()))
            .collect();
        tree::grow_bundles(&self.disk, first, &lines)?;
        leaves.into_iter().for_each(|leaf| self.frontier.push(leaf));
        let size = self.frontier.size();
        debug_assert!(size == self.tip.size && size > self.floor.size, "law 3: never smaller");
        let root = self.frontier.root();
        let note = self.signed(&Checkpoint::new(&self.origin, size, root), keys)?;
        Ok(Floor {
            bytes: self.bytes,
            head: self.tip.head,
            note: note.render(),
            root,
            size,
            ts: self.tip.ts,
        })
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
        let places: Vec<Place> =
            self.fresh.iter().map(|fresh| fresh.place).filter(|place| place.seq >= reach).collect();
        index::extend(&self.disk, &places)?;
        let first = self.floor.size / TILE_WIDTH * TILE_WIDTH;
        let before = self.floor.size - self.fresh.len() as u64;
        self.bundle.extend(self.fresh.drain(..).map(|fresh| fresh.raw));
        let had = before / TILE_WIDTH * TILE_WIDTH;
        self.bundle.drain(..((first - had) as usize).min(self.bundle.len()));
        Ok(())
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

/// The snapshot where it fits the floor, else line 0.
fn base(disk: &Disk<'_>, floor: &Floor, origin: &str) -> Result<(Fold, Start), Failure> {
    let from_origin = || (Fold::default(), Start { tip: Tip::origin(origin), bytes: 0 });
    let Some(bytes) = disk.read(&disk.layout.snapshot())? else {
        return Ok(from_origin());
    };
    let Ok(snapshot) = Snapshot::parse(&bytes) else {
        return Ok(from_origin());
    };
    let at_floor =
        snapshot.size == floor.size && snapshot.head == floor.head && snapshot.bytes == floor.bytes;
    if !at_floor && snapshot.size >= floor.size {
        return Ok(from_origin());
    }
    let tip = Tip { size: snapshot.size, head: snapshot.head, ts: snapshot.ts };
    Ok((snapshot.fold, Start { tip, bytes: snapshot.bytes }))
}
