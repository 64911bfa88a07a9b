//! `branch.ndjson` on disk: appended while no anchor answers, emptied as the journal takes it in.
//!
//! The lock on `keys/` is held by whoever writes here: a word, a tick, a merge.

use super::disk::Disk;
use super::draft::Draft;
use crate::error::Failure;
use crate::host::{Keep, Readers};
use crate::journal::branch::{BRANCH_BYTES_MAX, Run, Twig, parse, stored};
use crate::journal::chain::Tip;
use crate::journal::line::SUBMITTED_BYTES_MAX;
use crate::journal::merged::Merged;
use crate::journal::merkle::Hash;
use crate::journal::record::Record;
use crate::protocol::member::{Incarnation, NodeId};
use std::collections::BTreeSet;

/// The file's contents.
#[derive(Clone, Debug, Default)]
pub struct Branch {
    /// What it holds, oldest first.
    pub runs: Vec<Run>,
    /// Bytes up to the first that are no line.
    good: u64,
    /// Bytes of the file.
    length: u64,
    /// Whether more than one torn line stands behind them.
    damaged: bool,
}

impl Branch {
    /// Reads the file; no file is an empty branch.
    pub fn load(disk: &Disk<'_>) -> Result<Branch, Failure> {
        let bytes = disk.read(&disk.layout.branch())?.unwrap_or_default();
        let (runs, good) = parse(&bytes);
        // A crash leaves a line without its end; whole lines behind one that does not read are
        // somebody's words, and no program of ours cuts them off.
        let damaged = bytes[good..].contains(&b'\n');
        Ok(Branch { runs, good: good as u64, length: bytes.len() as u64, damaged })
    }

    /// All lines, oldest first.
    pub fn lines(&self) -> impl Iterator<Item = &Twig> {
        self.runs.iter().flat_map(Run::lines)
    }

    /// How many lines wait.
    pub fn count(&self) -> usize {
        self.runs.iter().map(|run| run.lines().len()).sum()
    }

    /// Whether there is nothing to merge.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Says where a line does not read that a crash cannot have left.
    pub fn damage(&self, disk: &Disk<'_>) -> Option<Failure> {
        let (path, line) = (disk.layout.branch(), self.count() + 1);
        let failure = Failure::failed(format!("{} line {line} does not read", path.display()));
        self.damaged.then(|| failure.hint("take that line out of the file, or move the file aside"))
    }

    /// Whether words of `node` wait here.
    pub fn speaks_for(&self, node: &NodeId) -> bool {
        self.lines().any(|twig| {
            Merged::of(twig.line.clone()).is_some_and(|merged| merged.node() == Some(node))
        })
    }

    /// Whether a registration of `node` waits here that says more than this.
    pub fn registers(&self, node: &NodeId, above: Incarnation) -> bool {
        self.lines().any(|twig| match Record::of(&twig.line) {
            Record::Register(told) => told.node == *node && told.incarnation > above,
            _ => false,
        })
    }

    /// Commits one more line: one write, one sync. It continues the last line here, or `journal`
    /// where that has grown beyond it. Returns how many lines the file has then.
    ///
    /// # Errors
    /// Says so where the file is full; nothing is written then.
    pub fn append(
        &self,
        disk: &Disk<'_>,
        draft: Draft,
        (journal, now_s): (Tip, u64),
    ) -> Result<usize, Failure> {
        if let Some(damage) = self.damage(disk) {
            return Err(damage);
        }
        let tip = self.tip().filter(|tip| tip.size > journal.size).unwrap_or(journal);
        let raw = draft.line(&tip, now_s).render();
        if raw.len() > SUBMITTED_BYTES_MAX {
            let why =
                format!("the line would have {} bytes, limit {SUBMITTED_BYTES_MAX}", raw.len());
            return Err(Failure::failed(why));
        }
        if self.good + raw.len() as u64 + 1 > BRANCH_BYTES_MAX {
            let path = disk.layout.branch();
            let why =
                format!("{} has {} bytes, limit {BRANCH_BYTES_MAX}", path.display(), self.good);
            return Err(Failure::failed(why).hint(
                "what is in it stays and is merged when the anchor is back; say this again then",
            ));
        }
        let path = disk.layout.branch();
        if self.good < self.length {
            disk.cut(&path, self.good)?;
        }
        disk.append(&path, self.good, format!("{raw}\n").as_bytes(), Keep::Durable)?;
        Ok(self.count() + 1)
    }

    /// Takes in the lines of a journal that is no more, as a run of their own: all of them, or where
    /// there is no room for that what members said among them, newest first. What had come out of
    /// branches there follows as it was said, in runs of its own: the line that held it is no more.
    /// A damaged file does not stand in its way. The lock on `state/` is held too.
    pub fn take_in(disk: &Disk<'_>, tail: &[u8]) -> Result<(), Failure> {
        let mut branch = Branch::load(disk)?;
        if branch.damaged {
            branch.set_aside(disk)?;
            branch = Branch::load(disk)?;
        }
        let mut lines: Vec<Twig> = parse(tail).0.into_iter().flat_map(Run::into_lines).collect();
        let unwrapped: Vec<Twig> = lines.iter().filter_map(unwrapped).collect();
        lines.extend(unwrapped);
        let mut held: BTreeSet<Hash> = branch.lines().map(|twig| twig.leaf).collect();
        let fresh: Vec<&Twig> = lines.iter().filter(|twig| held.insert(twig.leaf)).collect();
        if !fresh.iter().any(|twig| is_word(twig)) {
            return Ok(());
        }
        let room = BRANCH_BYTES_MAX.saturating_sub(branch.good) as usize;
        let all = stored(fresh.iter().copied());
        let bytes = match all.len() <= room {
            true => all,
            false => {
                stored(newest(fresh.into_iter().filter(|twig| is_word(twig)), room).into_iter())
            }
        };
        let path = disk.layout.branch();
        if branch.good < branch.length {
            disk.cut(&path, branch.good)?;
        }
        disk.append(&path, branch.good, &bytes, Keep::Durable)
    }

    /// The newest words that pass and fit into so many bytes, oldest first.
    pub fn newest_words(&self, room: usize, passes: impl Fn(&Twig) -> bool) -> Vec<&Twig> {
        let words = self.lines().filter(|twig| is_word(twig) && passes(twig));
        newest(words.collect::<Vec<_>>().into_iter(), room)
    }

    /// Keeps a damaged file beside the branch, whole, and in the branch each line of it that reads.
    fn set_aside(&self, disk: &Disk<'_>) -> Result<(), Failure> {
        let path = disk.layout.branch();
        let bytes = disk.read(&path)?.unwrap_or_default();
        let aside = disk.layout.damaged_branch(disk.host.clock().wall_ms);
        // First, or what does not read would be nowhere for a moment.
        disk.put(&aside, &bytes, (Keep::Durable, Readers::Usual))?;
        let lines = bytes.split(|byte| *byte == b'\n').filter_map(|raw| Twig::parse(raw).ok());
        Branch::keep(disk, lines.collect::<Vec<_>>().iter())
    }

    /// Keeps only these lines, durably; the file goes with the last of them. The lock on `state/` is
    /// held too, for that is where the new file comes from.
    pub fn keep<'a>(disk: &Disk<'_>, left: impl Iterator<Item = &'a Twig>) -> Result<(), Failure> {
        let bytes = stored(left);
        let path = disk.layout.branch();
        if bytes.is_empty() {
            return disk.remove(&path);
        }
        disk.put(&path, &bytes, (Keep::Durable, Readers::Usual))
    }

    /// After its last line.
    fn tip(&self) -> Option<Tip> {
        let last = self.lines().last()?;
        Some(Tip { size: last.line.seq + 1, head: last.leaf, ts: last.line.ts })
    }
}

/// Whether a member says something in it that a branch may bring.
fn is_word(twig: &Twig) -> bool {
    Merged::of(twig.line.clone()).is_some()
}

/// The last of these that fit into so many bytes, in their order.
fn newest<'a>(words: impl DoubleEndedIterator<Item = &'a Twig>, room: usize) -> Vec<&'a Twig> {
    let (mut left, mut fits) = (room, Vec::new());
    for twig in words.rev() {
        let Some(less) = left.checked_sub(twig.raw.len() + 1) else { break };
        left = less;
        fits.push(twig);
    }
    fits.reverse();
    fits
}

/// The line inside a `merged` line, byte for byte as its author wrote it.
fn unwrapped(twig: &Twig) -> Option<Twig> {
    let Record::Merged(merged) = Record::of(&twig.line) else { return None };
    Twig::parse(merged.line.render().as_bytes()).ok()
}
