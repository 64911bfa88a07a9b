//! The writer's journal: opened and mended, appended to, published.
//!
//! Order is everything here. Lines are synced before anything says they exist; tiles before the
//! floor that promises them; the floor before the root file that others read; the root before the
//! snapshot readers start from. A crash between any two is finished by the next open, which runs
//! the same code.

use super::disk::Disk;
use super::identity::Identity;
use super::index::{self, Place};
use super::scan::{self, End, Start};
use super::tree::{self, ReadError};
use crate::auth::vkey::VerifierKey;
use crate::error::Failure;
use crate::host::{Keep, Readers, Span};
use crate::journal::chain::{Tip, origin_hash};
use crate::journal::checkpoint::{Checkpoint, open_checkpoint, sign_checkpoint};
use crate::journal::floor::Floor;
use crate::journal::line::{ANCHOR_BYTES_MAX, Author, Line, VERSION};
use crate::journal::merkle::{Frontier, Hash, empty_root, leaf_hash};
use crate::journal::record::Record;
use crate::journal::replay::Fold;
use crate::journal::snapshot::{FOLD_VERSION, Snapshot};
use crate::journal::tile::TILE_WIDTH;
use ed25519_dalek::SigningKey;

/// Lines that `init` writes: a journal of no more, ours, without a floor, is an unfinished one.
const FOUNDING_LINES: u64 = 3;

/// Whether opening may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mend {
    /// Set torn bytes aside, write whole lines again, rebuild what is derived.
    Yes,
    /// Only look (`--dry-run`).
    No,
}

/// A line to be written: its kind, payload and, for signed kinds, its author.
#[derive(Clone, Debug)]
pub struct Draft {
    /// What it says.
    pub record: Record,
    /// Who signed it.
    pub author: Option<Author>,
}

impl From<Record> for Draft {
    fn from(record: Record) -> Self {
        Draft {
            record,
            author: None,
        }
    }
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
        let floor = floor(&disk, identity)?;
        let length = disk.length(&disk.layout.journal())?.unwrap_or(0);
        if length < floor.bytes {
            return Err(shortness(&disk, identity, &floor)?);
        }
        let mut ledger = Ledger::above(disk, floor, length, identity)?;
        if mend == Mend::Yes {
            ledger.mend(length)?;
        }
        ledger.load_tree(mend)?;
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

    /// Commits lines: one write, one sync. Nothing may be told before this returns.
    pub fn append(&mut self, drafts: Vec<Draft>, now_s: u64) -> Result<(), Failure> {
        let mut tip = self.tip.clone();
        let mut bytes = Vec::new();
        let mut fresh = Vec::with_capacity(drafts.len());
        let mut lines = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let line = next_line(draft, &tip, now_s);
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
                place: Place {
                    leaf: tip.head,
                    seq: checked.seq,
                    at,
                },
                raw: raw.clone(),
            });
            lines.push(checked);
            bytes.extend_from_slice(&raw);
            bytes.push(b'\n');
        }
        if bytes.is_empty() {
            return Ok(());
        }
        self.disk.append(
            &self.disk.layout.journal(),
            self.bytes,
            &bytes,
            Keep::Durable,
        )?;
        lines.iter().for_each(|line| self.fold.apply(line));
        self.bytes += bytes.len() as u64;
        self.tip = tip;
        self.fresh.extend(fresh);
        Ok(())
    }

    /// Signs and publishes what was appended; without anything new, finishes what a crash left.
    pub fn publish(&mut self, key: &SigningKey, origin: &str) -> Result<(), Failure> {
        if !self.fresh.is_empty() {
            let floor = self.grow_tree(key, origin)?;
            let bytes = serde_json::to_vec(&floor).expect("a floor has string keys only");
            self.disk.put(
                &self.disk.layout.committed(),
                &bytes,
                (Keep::Durable, Readers::Usual),
            )?;
            self.floor = floor;
        }
        let layout = self.disk.layout;
        self.disk.put(
            &layout.root(),
            self.floor.note.as_bytes(),
            (Keep::Durable, Readers::Everybody),
        )?;
        let head = format!("{} {}\n", self.floor.size, self.floor.head);
        self.disk.put(
            &layout.head(),
            head.as_bytes(),
            (Keep::Durable, Readers::Everybody),
        )?;
        self.extend_index()?;
        self.write_snapshot()
    }

    /// Hashes the lines of one old bundle again and compares them with its tile: rot in the middle
    /// is found within as many ticks as there are bundles.
    pub fn recheck_old_bundle(&self, turn: u64) -> Result<(), Failure> {
        let bundles = self.floor.size / TILE_WIDTH;
        if bundles == 0 {
            return Ok(());
        }
        let first = turn % bundles * TILE_WIDTH;
        let (Some(from), Some(next)) = (
            index::offset(&self.disk, first)?,
            self.offset_after(first + TILE_WIDTH)?,
        ) else {
            return Ok(());
        };
        let lines = self.lines_between(from, next, first)?;
        compare_with_tile(&self.disk, first, &lines)
    }

    fn offset_after(&self, seq: u64) -> Result<Option<u64>, Failure> {
        if seq == self.floor.size {
            Ok(Some(self.floor.bytes))
        } else {
            index::offset(&self.disk, seq)
        }
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
        let from = start.clone();
        let end = if length == 0 {
            End {
                tip: start.tip,
                bytes: 0,
                reason: None,
            }
        } else {
            scan::walk(&disk, start, u64::MAX, &mut |step| {
                fold.apply(step.line);
                if step.tip.size == floor.size
                    && (step.tip.head != floor.head
                        || step.at + step.raw.len() as u64 + 1 != floor.bytes)
                {
                    return Err(changed(
                        &disk,
                        floor.size - 1,
                        step.at,
                        "it is not the line that was signed",
                    ));
                }
                if step.line.seq >= floor.size {
                    let place = Place {
                        leaf: step.tip.head,
                        seq: step.line.seq,
                        at: step.at,
                    };
                    fresh.push(Fresh {
                        raw: step.raw.to_vec(),
                        place,
                    });
                }
                Ok(())
            })?
        };
        if end.tip.size < floor.size {
            return Err(damage(&disk, &floor, &end));
        }
        debug_assert!(end.tip.size >= from.tip.size, "a walk never goes back");
        let mut ledger = Ledger {
            disk,
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
            let torn = self.disk.read_span(
                &journal,
                Span {
                    from: self.bytes,
                    most: length - self.bytes,
                },
            )?;
            let aside = self.disk.layout.torn(self.disk.host.clock().wall_ms);
            self.disk
                .put(&aside, &torn, (Keep::Durable, Readers::Usual))?;
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
        self.disk
            .append(&journal, self.floor.bytes, &again, Keep::Durable)
    }

    fn load_tree(&mut self, mend: Mend) -> Result<(), Failure> {
        if mend == Mend::Yes && index::reach(&self.disk)? < self.floor.size {
            self.rebuild_index()?;
        }
        self.frontier = match tree::frontier(&self.disk, self.floor.size) {
            Ok(frontier) => frontier,
            Err(ReadError::Missing(_)) if mend == Mend::Yes => self.rebuild_tree()?,
            Err(error) => return Err(error.into()),
        };
        if self.frontier.root() != self.floor.root {
            return Err(Failure::integrity(format!(
                "the tiles give root {} at size {}, but {} was signed",
                self.frontier.root(),
                self.floor.size,
                self.floor.root
            ))
            .hint("verify --full names the tile; a removed tile is rebuilt from the journal"));
        }
        let first = self.floor.size / TILE_WIDTH * TILE_WIDTH;
        if first == self.floor.size {
            return Ok(());
        }
        let Some(from) = index::offset(&self.disk, first)? else {
            return Ok(());
        };
        self.bundle = self.lines_between(from, self.floor.bytes, first)?;
        compare_with_tile(&self.disk, first, &self.bundle)
    }

    fn rebuild_tree(&self) -> Result<Frontier, Failure> {
        let mut frontier = Frontier::new();
        let mut leaves = Vec::new();
        let mut lines: Vec<Vec<u8>> = Vec::new();
        let start = Start {
            tip: tip_at_origin(&self.fold, &self.floor),
            bytes: 0,
        };
        scan::walk(&self.disk, start, self.floor.size, &mut |step| {
            frontier.push(step.tip.head);
            leaves.push(step.tip.head);
            lines.push(step.raw.to_vec());
            if lines.len() as u64 == TILE_WIDTH {
                flush_bundle(&self.disk, step.tip.size, &mut lines)?;
            }
            Ok(())
        })?;
        if frontier.root() != self.floor.root {
            return Err(Failure::integrity(format!(
                "the journal gives root {} at size {}, but {} was signed",
                frontier.root(),
                frontier.size(),
                self.floor.root
            )));
        }
        flush_bundle(&self.disk, self.floor.size, &mut lines)?;
        tree::grow(&self.disk, 0, &leaves)?;
        Ok(frontier)
    }

    /// Makes the index anew from the journal.
    pub fn rebuild_index(&self) -> Result<(), Failure> {
        index::clear(&self.disk)?;
        let mut places = Vec::new();
        let start = Start {
            tip: tip_at_origin(&self.fold, &self.floor),
            bytes: 0,
        };
        scan::walk(&self.disk, start, self.floor.size, &mut |step| {
            places.push(Place {
                leaf: step.tip.head,
                seq: step.line.seq,
                at: step.at,
            });
            if places.len() == 1 << 16 {
                index::extend(&self.disk, &places)?;
                places.clear();
            }
            Ok(())
        })?;
        index::extend(&self.disk, &places)
    }

    fn lines_between(&self, from: u64, to: u64, first: u64) -> Result<Vec<Vec<u8>>, Failure> {
        if to < from {
            return Err(changed(
                &self.disk,
                first,
                from,
                "the index does not fit the journal",
            ));
        }
        let bytes = self.disk.read_span(
            &self.disk.layout.journal(),
            Span {
                from,
                most: to - from,
            },
        )?;
        let text = bytes
            .strip_suffix(b"\n")
            .ok_or_else(|| changed(&self.disk, first, from, "the line has no end"))?;
        Ok(text
            .split(|byte| *byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect())
    }

    fn grow_tree(&mut self, key: &SigningKey, origin: &str) -> Result<Floor, Failure> {
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
        debug_assert!(
            size == self.tip.size && size > self.floor.size,
            "law 3: never smaller"
        );
        let root = self.frontier.root();
        let note = sign_checkpoint(&Checkpoint::new(origin, size, root), key)
            .map_err(|error| Failure::failed(error.to_string()))?;
        Ok(Floor {
            bytes: self.bytes,
            head: self.tip.head,
            note: note.render(),
            root,
            size,
            ts: self.tip.ts,
        })
    }

    /// Brings the index up to the floor and forgets the published lines.
    fn extend_index(&mut self) -> Result<(), Failure> {
        let reach = index::reach(&self.disk)?;
        let places: Vec<Place> = self
            .fresh
            .iter()
            .map(|fresh| fresh.place)
            .filter(|place| place.seq >= reach)
            .collect();
        index::extend(&self.disk, &places)?;
        let first = self.floor.size / TILE_WIDTH * TILE_WIDTH;
        let before = self.floor.size - self.fresh.len() as u64;
        self.bundle
            .extend(self.fresh.drain(..).map(|fresh| fresh.raw));
        let had = before / TILE_WIDTH * TILE_WIDTH;
        self.bundle
            .drain(..((first - had) as usize).min(self.bundle.len()));
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

fn next_line(draft: Draft, tip: &Tip, now_s: u64) -> Line {
    Line {
        author: draft.author,
        payload: draft.record.payload(),
        prev: tip.head,
        seq: tip.size,
        ts: now_s.max(tip.ts),
        kind: draft.record.kind().to_owned(),
        version: VERSION,
    }
}

/// The snapshot where it fits the floor, else line 0.
fn base(disk: &Disk<'_>, floor: &Floor, origin: &str) -> Result<(Fold, Start), Failure> {
    let from_origin = || {
        (
            Fold::default(),
            Start {
                tip: Tip::origin(origin),
                bytes: 0,
            },
        )
    };
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
    let tip = Tip {
        size: snapshot.size,
        head: snapshot.head,
        ts: snapshot.ts,
    };
    Ok((
        snapshot.fold,
        Start {
            tip,
            bytes: snapshot.bytes,
        },
    ))
}

fn tip_at_origin(fold: &Fold, floor: &Floor) -> Tip {
    let origin = fold
        .genesis
        .as_ref()
        .map_or("", |genesis| genesis.origin.as_str());
    debug_assert!(
        floor.size == 0 || !origin.is_empty(),
        "line 0 names the origin"
    );
    Tip::origin(origin)
}

fn flush_bundle(disk: &Disk<'_>, size: u64, lines: &mut Vec<Vec<u8>>) -> Result<(), Failure> {
    let views: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
    tree::grow_bundles(disk, size - lines.len() as u64, &views)?;
    lines.clear();
    Ok(())
}

fn compare_with_tile(disk: &Disk<'_>, first: u64, lines: &[Vec<u8>]) -> Result<(), Failure> {
    let tile = crate::journal::tile::Tile {
        level: 0,
        index: first / TILE_WIDTH,
        width: lines.len() as u16,
    };
    let expected = tree::read_tile(disk, tile)?;
    for (seq, (line, leaf)) in (first..).zip(lines.iter().zip(&expected)) {
        if leaf_hash(line) != *leaf {
            let at = index::offset(disk, seq)?.unwrap_or(0);
            return Err(changed(
                disk,
                seq,
                at,
                "its hash is not the one in the tree",
            ));
        }
    }
    Ok(())
}

/// The floor: `state/committed.json`, else the root file, else (an unfinished `init`) nothing yet.
pub fn floor(disk: &Disk<'_>, identity: &Identity) -> Result<Floor, Failure> {
    let vkey = &identity.verifier()?;
    let root = read_root(disk, vkey);
    let path = disk.layout.committed();
    let Some(bytes) = disk.read(&path)? else {
        return match root? {
            Some((checkpoint, note)) => floor_from_root(disk, identity, &checkpoint, note),
            None => unfounded(disk, identity),
        };
    };
    let floor: Floor = serde_json::from_slice(&bytes).map_err(|error| {
        Failure::integrity(format!("{} does not read: {error}", path.display()))
            .hint("remove it: federation-root.txt then is the floor")
    })?;
    floor
        .checked(vkey)
        .map_err(|error| Failure::integrity(format!("{}: {error}", path.display())))?;
    // An unreadable root file is derived data and rewritten; one that our key signed is evidence.
    if let Ok(Some((checkpoint, _))) = root
        && (checkpoint.size > floor.size
            || (checkpoint.size == floor.size && checkpoint.root != floor.root))
    {
        return Err(Failure::integrity(format!(
            "federation-root.txt has our signature on size {} root {}, but the floor says size {} root {}: rolled back or forked",
            checkpoint.size, checkpoint.root, floor.size, floor.root
        ))
        .hint("nothing is signed until this is cleared; keep both files, they are the evidence"));
    }
    Ok(floor)
}

fn read_root(disk: &Disk<'_>, vkey: &VerifierKey) -> Result<Option<(Checkpoint, String)>, Failure> {
    let path = disk.layout.root();
    let Some(bytes) = disk.read(&path)? else {
        return Ok(None);
    };
    let (checkpoint, note) = open_checkpoint(&bytes, vkey)
        .map_err(|error| Failure::integrity(format!("{}: {error}", path.display())))?;
    Ok(Some((checkpoint, note.render())))
}

fn floor_from_root(
    disk: &Disk<'_>,
    identity: &Identity,
    checkpoint: &Checkpoint,
    note: String,
) -> Result<Floor, Failure> {
    let floor = Floor {
        bytes: 0,
        head: origin_hash(&identity.origin),
        note,
        root: checkpoint.root,
        size: checkpoint.size,
        ts: 0,
    };
    let present = disk.length(&disk.layout.journal())?.is_some();
    let mut frontier = Frontier::new();
    let start = Start {
        tip: Tip::origin(&identity.origin),
        bytes: 0,
    };
    let end = if present {
        scan::walk(disk, start, checkpoint.size, &mut |step| {
            frontier.push(step.tip.head);
            Ok(())
        })?
    } else {
        End {
            tip: start.tip,
            bytes: 0,
            reason: None,
        }
    };
    if end.tip.size < checkpoint.size {
        return Err(damage(disk, &floor, &end));
    }
    if frontier.root() != checkpoint.root {
        return Err(Failure::integrity(format!(
            "the journal gives root {} at size {}, but {} was signed",
            frontier.root(),
            checkpoint.size,
            checkpoint.root
        )));
    }
    Ok(Floor {
        bytes: end.bytes,
        head: end.tip.head,
        ts: end.tip.ts,
        ..floor
    })
}

/// No floor and no root: right only for the first lines of our own unfinished `init`.
fn unfounded(disk: &Disk<'_>, identity: &Identity) -> Result<Floor, Failure> {
    let mut ours = true;
    if disk.length(&disk.layout.journal())?.unwrap_or(0) > 0 {
        let start = Start {
            tip: Tip::origin(&identity.origin),
            bytes: 0,
        };
        let end = scan::walk(disk, start, FOUNDING_LINES + 1, &mut |step| {
            if let Record::Genesis(genesis) = Record::of(step.line) {
                ours = genesis.vkey == identity.vkey;
            }
            Ok(())
        })?;
        ours = ours && end.tip.size <= FOUNDING_LINES;
    }
    if !ours {
        return Err(Failure::integrity(format!(
            "{} has lines, but neither state/committed.json nor federation-root.txt says how many were signed",
            disk.layout.journal().display()
        ))
        .hint("restore one of the two from a backup; nothing is signed before"));
    }
    Ok(Floor {
        bytes: 0,
        head: origin_hash(&identity.origin),
        note: String::new(),
        root: empty_root(),
        size: 0,
        ts: 0,
    })
}

fn changed(disk: &Disk<'_>, seq: u64, at: u64, reason: &str) -> Failure {
    Failure::integrity(format!(
        "{}: line {seq} at byte offset {at} is damaged: {reason}",
        disk.layout.journal().display()
    ))
    .hint("it was signed, so it is not skipped: restore the file from a backup or another node")
}

/// What is wrong with a journal that ends, or stops being one, below the floor.
pub fn damage(disk: &Disk<'_>, floor: &Floor, end: &End) -> Failure {
    if let Some(reason) = &end.reason {
        return changed(disk, end.tip.size, end.bytes, reason);
    }
    let found = end.tip.size;
    Failure::integrity(format!(
        "{}: {} of {} signed lines are missing ({found} found)",
        disk.layout.journal().display(),
        floor.size - found,
        floor.size
    ))
    .hint(
        "nothing is appended to a shorter journal: restore the file from a backup or another node",
    )
}

fn shortness(disk: &Disk<'_>, identity: &Identity, floor: &Floor) -> Result<Failure, Failure> {
    let start = Start {
        tip: Tip::origin(&identity.origin),
        bytes: 0,
    };
    let end = match disk.length(&disk.layout.journal())? {
        Some(_) => scan::walk(disk, start, floor.size, &mut |_| Ok(()))?,
        None => End {
            tip: start.tip,
            bytes: 0,
            reason: None,
        },
    };
    Ok(damage(disk, floor, &end))
}
