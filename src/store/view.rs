//! A reader's journal: only what lies under the published checkpoint, opened without a lock and
//! without writing a byte.

use super::base;
use super::disk::Disk;
use super::identity::Identity;
use super::scan::{self, End, Start};
use super::tree;
use super::{floor, index};
use crate::auth::vkey::VerifierKey;
use crate::error::{Failure, Kind};
use crate::host::{Keep, Readers, Span};
use crate::journal::chain::Tip;
use crate::journal::checkpoint::{Checkpoint, open_checkpoint};
use crate::journal::floor::Floor;
use crate::journal::line::{LINE_BYTES_MAX, Line};
use crate::journal::merkle::{Hash, leaf_hash};
use crate::journal::proof::{consistency_proof, inclusion_proof};
use crate::journal::record::Record;
use crate::journal::replay::Fold;
use crate::journal::snapshot::{FOLD_VERSION, Snapshot};
use crate::journal::tlog_proof::render_tlog_proof;
use crate::protocol::member::NodeId;
use std::collections::VecDeque;

/// Everything readers see.
#[derive(Debug)]
pub struct View<'a> {
    disk: Disk<'a>,
    /// Who we are.
    pub identity: Identity,
    /// Whose signature we checked.
    pub vkey: VerifierKey,
    /// The published size and root.
    pub checkpoint: Checkpoint,
    /// The signed note, verbatim.
    pub note: String,
    /// The journal's meaning at that size.
    pub fold: Fold,
    /// Length of the journal in bytes at that size.
    pub bytes: u64,
}

/// One line with its place.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Its bytes without LF.
    pub raw: Vec<u8>,
    /// Parsed.
    pub line: Line,
    /// Its leaf hash.
    pub leaf: Hash,
}

/// What is published, without what it means: costs the same at any size, whatever is lost.
#[derive(Clone, Debug)]
pub struct Published {
    /// Who we are.
    pub identity: Identity,
    /// Whose signature we checked.
    pub vkey: VerifierKey,
    /// The published size and root.
    pub checkpoint: Checkpoint,
    /// The signed note, verbatim.
    pub note: String,
}

impl Published {
    /// Reads the root file and checks whose it is.
    pub fn read(disk: &Disk<'_>) -> Result<Published, Failure> {
        let identity = Identity::require(disk)?;
        let path = disk.layout.root();
        let bytes = disk.read(&path)?.ok_or_else(|| {
            Failure::failed(format!("nothing published yet: {} is missing", path.display()))
                .hint("run: crowny-fed tick")
        })?;
        let vkey = identity.verifier_of(&bytes)?;
        let (checkpoint, note) = open_checkpoint(&bytes, &vkey)
            .map_err(|error| Failure::integrity(format!("{}: {error}", path.display())))?;
        Ok(Published { identity, vkey, checkpoint, note: note.render() })
    }

    /// The same of everything that was signed, published or not, with the floor it stands on.
    pub fn signed(disk: &Disk<'_>) -> Result<(Published, Floor), Failure> {
        let identity = Identity::require(disk)?;
        let floor = floor::read(disk, &identity)?;
        let vkey = identity.verifier_of(floor.note.as_bytes())?;
        let (checkpoint, note) = open_checkpoint(&floor.note, &vkey)
            .map_err(|error| Failure::failed(format!("nothing is signed yet: {error}")))?;
        Ok((Published { identity, vkey, checkpoint, note: note.render() }, floor))
    }

    /// Leaf hash of the last line, as `head.txt` tells it; `None` where that is behind.
    pub fn head(&self, disk: &Disk<'_>) -> Option<Hash> {
        let text = disk.read_text(&disk.layout.head()).ok().flatten()?;
        let (size, head) = text.trim_end().split_once(' ')?;
        (size == self.checkpoint.size.to_string()).then(|| Hash::parse_hex(head).ok())?
    }
}

impl<'a> View<'a> {
    /// Opens what is published; says so where nothing is yet.
    pub fn open(disk: Disk<'a>) -> Result<View<'a>, Failure> {
        let Published { identity, vkey, checkpoint, note } = Published::read(&disk)?;
        let (fold, bytes) = fold_at(&disk, &identity.origin, checkpoint.size)?;
        Ok(View { disk, note, identity, vkey, checkpoint, fold, bytes })
    }

    /// Everything that was signed, also what waits for a witness before readers may see it: what
    /// witnesses are shown, and what we answer for.
    pub fn signed(disk: Disk<'a>) -> Result<(View<'a>, Floor), Failure> {
        let (Published { identity, vkey, checkpoint, note }, floor) = Published::signed(&disk)?;
        let (fold, bytes) = fold_at(&disk, &identity.origin, checkpoint.size)?;
        Ok((View { disk, note, identity, vkey, checkpoint, fold, bytes }, floor))
    }

    /// Writes what the next reader of this size, the floor's, starts from.
    pub fn store_snapshot(&self, floor: &Floor) -> Result<(), Failure> {
        let snapshot = Snapshot {
            fold_version: FOLD_VERSION,
            bytes: self.bytes,
            size: floor.size,
            head: floor.head,
            ts: floor.ts,
            frontier: tree::frontier(&self.disk, floor.size)?.hashes().to_vec(),
            fold: self.fold.clone(),
        };
        let how = (Keep::Durable, Readers::Usual);
        self.disk.put(&self.disk.layout.snapshot(), &snapshot.render(), how)
    }

    /// One line by its index.
    pub fn line(&self, seq: u64) -> Result<Placed, Failure> {
        if seq >= self.checkpoint.size {
            return Err(not_published(seq, self.checkpoint.size));
        }
        if let Some(at) = index::offset(&self.disk, seq)?
            && let Some(placed) = self.line_at(at)?
            && placed.line.seq == seq
        {
            return Ok(placed);
        }
        self.find(&|placed| placed.line.seq == seq)?
            .ok_or_else(|| Failure::integrity(format!("line {seq} is missing from the journal")))
    }

    /// The newest `last` lines, oldest first; with `about`, of those about one node.
    pub fn newest(&self, last: u64, about: Option<&NodeId>) -> Result<Vec<Placed>, Failure> {
        let start = match about {
            // Without a filter the walk can begin where the wanted lines do.
            None => self.start_at(self.checkpoint.size.saturating_sub(last))?,
            Some(_) => self.start(),
        };
        let mut kept = VecDeque::new();
        self.each(start, &mut |placed| {
            if about.is_none() || about == Record::of(&placed.line).node() {
                kept.push_back(placed);
            }
            if kept.len() as u64 > last {
                kept.pop_front();
            }
        })?;
        Ok(kept.into())
    }

    /// The line with this leaf hash, `None` if no published line has it.
    pub fn seq_of(&self, leaf: &Hash) -> Result<Option<u64>, Failure> {
        for seq in index::candidates(&self.disk, leaf)? {
            if seq < self.checkpoint.size && self.line(seq)?.leaf == *leaf {
                return Ok(Some(seq));
            }
        }
        // A "no" is worth something only from an index that has an entry for every line; it may
        // reach beyond what is published.
        let reach = index::reach(&self.disk)?;
        if reach >= self.checkpoint.size && index::entries(&self.disk)? == reach {
            return Ok(None);
        }
        Ok(self.find(&|placed| placed.leaf == *leaf)?.map(|placed| placed.line.seq))
    }

    /// The newest line about a node.
    pub fn seq_about(&self, node: &NodeId) -> Option<u64> {
        self.fold.membership.member(node).map(|member| member.last_line)
    }

    /// A C2SP tlog-proof of the line at `seq`.
    pub fn proof(&self, seq: u64) -> Result<String, Failure> {
        if seq >= self.checkpoint.size {
            return Err(not_published(seq, self.checkpoint.size));
        }
        let path =
            inclusion_proof(seq, self.checkpoint.size, |tile| tree::read_tile(&self.disk, tile))?;
        Ok(render_tlog_proof(seq, &path, &self.note))
    }

    /// The published lines, byte for byte.
    pub fn lines(&self) -> Result<Vec<u8>, Failure> {
        let span = Span { from: 0, most: self.bytes };
        self.disk.read_span(&self.disk.layout.journal(), span)
    }

    /// The proof that the tree of `old` lines is a prefix of the one of `new` lines, which must be
    /// published.
    pub fn consistency(&self, old: u64, new: u64) -> Result<Vec<Hash>, Failure> {
        if new > self.checkpoint.size {
            return Err(not_published(new, self.checkpoint.size));
        }
        if old == 0 || old > new {
            let why = format!("nothing to compare from {old} to {new}, expected 1 <= old <= new");
            return Err(Failure::new(Kind::Usage, why));
        }
        let size = self.checkpoint.size;
        Ok(consistency_proof(old, new, |tile| tree::read_part(&self.disk, tile, size))?)
    }

    fn line_at(&self, at: u64) -> Result<Option<Placed>, Failure> {
        let span = Span { from: at, most: LINE_BYTES_MAX as u64 + 1 };
        let mut raw = self.disk.read_span(&self.disk.layout.journal(), span)?;
        let Some(end) = raw.iter().position(|byte| *byte == b'\n') else {
            return Ok(None);
        };
        raw.truncate(end);
        let leaf = leaf_hash(&raw);
        Ok(Line::parse(&raw).ok().map(|line| Placed { raw, line, leaf }))
    }

    fn find(&self, wanted: &dyn Fn(&Placed) -> bool) -> Result<Option<Placed>, Failure> {
        let mut found = None;
        self.each(self.start(), &mut |placed| {
            if found.is_none() && wanted(&placed) {
                found = Some(placed);
            }
        })?;
        Ok(found)
    }

    fn start(&self) -> Start {
        Start { tip: Tip::origin(&self.identity.origin), bytes: 0 }
    }

    /// The place of line `seq`, from the index; line 0 where that does not reach.
    fn start_at(&self, seq: u64) -> Result<Start, Failure> {
        let Some(before) = seq.checked_sub(1) else {
            return Ok(self.start());
        };
        let before = self.line(before)?;
        let tip = Tip { size: seq, head: before.leaf, ts: before.line.ts };
        let at = index::offset(&self.disk, seq)?;
        Ok(at.map_or_else(|| self.start(), |bytes| Start { tip, bytes }))
    }

    fn each(&self, start: Start, visit: &mut dyn FnMut(Placed)) -> Result<(), Failure> {
        let end = scan::walk(&self.disk, start, self.checkpoint.size, &mut |step| {
            visit(Placed { raw: step.raw.to_vec(), line: step.line.clone(), leaf: step.tip.head });
            Ok(())
        })?;
        expect_whole(&self.disk, &end, self.checkpoint.size)
    }
}

fn not_published(seq: u64, size: u64) -> Failure {
    Failure::new(
        Kind::No,
        format!("line {seq} is not published yet, the checkpoint has {size} lines"),
    )
}

/// Snapshot and tail up to `size`.
fn fold_at(disk: &Disk<'_>, origin: &str, size: u64) -> Result<(Fold, u64), Failure> {
    let (mut fold, start) = match base::fitting(disk, size)? {
        Some(snapshot) => {
            let tip = Tip { size: snapshot.size, head: snapshot.head, ts: snapshot.ts };
            (snapshot.fold, Start { tip, bytes: snapshot.bytes })
        }
        None => (Fold::default(), Start { tip: Tip::origin(origin), bytes: 0 }),
    };
    let end = scan::walk(disk, start, size, &mut |step| {
        fold.apply(step.line);
        Ok(())
    })?;
    expect_whole(disk, &end, size)?;
    Ok((fold, end.bytes))
}

/// The journal must be one up to the published size.
fn expect_whole(disk: &Disk<'_>, end: &End, size: u64) -> Result<(), Failure> {
    if end.tip.size >= size {
        return Ok(());
    }
    let reason = end.reason.as_deref().unwrap_or("the file ends");
    Err(Failure::integrity(format!(
        "{}: {} lines read, {size} were signed: {reason}",
        disk.layout.journal().display(),
        end.tip.size
    ))
    .hint("crowny-fed verify says more"))
}
