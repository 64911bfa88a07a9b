//! Opening the journal: what is believed, what is mended, what ends the run.

use super::{Ledger, Mend};
use crate::error::Failure;
use crate::host::{Keep, Readers, Span};
use crate::journal::chain::Tip;
use crate::journal::floor::Floor;
use crate::journal::merkle::Frontier;
use crate::journal::replay::Fold;
use crate::journal::tile::TILE_WIDTH;
use crate::store::disk::Disk;
use crate::store::identity::Identity;
use crate::store::scan::{self, End, Start};
use crate::store::tree::{self, ReadError};
use crate::store::{base, cut, floor, index, rebuild};

impl<'a> Ledger<'a> {
    /// Opens the journal; the state lock must be held unless `mend` is `No`.
    pub fn open(disk: Disk<'a>, identity: &Identity, mend: Mend) -> Result<Ledger<'a>, Failure> {
        if mend == Mend::Yes {
            cut::finish(&disk)?;
        }
        let floor = floor::read(&disk, identity).inspect_err(|_| {
            if mend == Mend::Yes {
                floor::keep_evidence(&disk, identity);
            }
        })?;
        if mend == Mend::Yes {
            floor::refuse_convicted(&disk)?;
        }
        Ledger::upon((disk, identity), floor, mend)
    }

    /// The same upon a floor that the caller answers for: a repair has to go on where evidence, or
    /// a missing floor, would stop everything else. Nothing is signed by opening.
    pub fn upon(
        (disk, identity): (Disk<'a>, &Identity),
        floor: Floor,
        mend: Mend,
    ) -> Result<Ledger<'a>, Failure> {
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

    /// Sets aside what lies beyond the floor: lines that turned out to be of no signed log.
    pub fn rewind(&mut self, identity: &Identity) -> Result<(), Failure> {
        let beyond = self.bytes;
        self.bytes = self.floor.bytes;
        self.fresh.clear();
        self.mend(beyond)?;
        *self = Ledger::upon((self.disk, identity), self.floor.clone(), Mend::Yes)?;
        Ok(())
    }

    /// Reads everything from the best base on: up to the floor it must be good, beyond it what is
    /// good is kept.
    fn above(
        disk: Disk<'a>,
        floor: Floor,
        length: u64,
        identity: &Identity,
    ) -> Result<Ledger<'a>, Failure> {
        let (mut fold, start) = best_base(&disk, &floor, &identity.origin)?;
        let mut fresh = Vec::new();
        let mut end = End { tip: start.tip.clone(), bytes: start.bytes, reason: None };
        if length > start.bytes {
            end = scan::walk(&disk, start, u64::MAX, &mut |step| {
                fold.apply(step.line);
                if step.tip.size == floor.size && !floor::ends_at(&floor, step) {
                    return Err(rebuild::misplaced(&disk, &floor, step.into()));
                }
                if step.line.seq >= floor.size {
                    fresh.push(step.into());
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
        for (from, to) in self.spans() {
            let again = self.disk.read_span(&journal, Span { from, most: to - from })?;
            let last = to == self.bytes;
            let keep = if last { Keep::Durable } else { Keep::Cached };
            self.disk.append(&journal, from, &again, keep)?;
        }
        Ok(())
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
}

/// The snapshot where it fits the floor, else line 0.
fn best_base(disk: &Disk<'_>, floor: &Floor, origin: &str) -> Result<(Fold, Start), Failure> {
    let from_origin = || (Fold::default(), Start { tip: Tip::origin(origin), bytes: 0 });
    let Some(snapshot) = base::fitting(disk, floor.size)? else { return Ok(from_origin()) };
    let at_floor = snapshot.head == floor.head && snapshot.bytes == floor.bytes;
    if !at_floor && snapshot.size == floor.size {
        return Ok(from_origin());
    }
    let tip = Tip { size: snapshot.size, head: snapshot.head, ts: snapshot.ts };
    Ok((snapshot.fold, Start { tip, bytes: snapshot.bytes }))
}
