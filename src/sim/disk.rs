//! A disk with a cache: what was not synced may be gone after a power cut, each file for itself, so
//! later writes may outlive earlier ones; and any write may fail either way, not done or done and
//! reported lost.

use super::chance::Chance;
use crate::host::{Change, Entry, Keep, Span};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, Default)]
struct File {
    /// What readers see now.
    cached: Vec<u8>,
    /// What a power cut leaves; `None` where not even the name was synced.
    durable: Option<Vec<u8>>,
    /// Whether the cached bytes are on the disk, and only their name may be lost.
    settled: bool,
}

impl File {
    fn durable(bytes: Vec<u8>) -> File {
        File { durable: Some(bytes.clone()), cached: bytes, settled: true }
    }

    /// A power cut may keep the bytes, lose them, or keep the name alone; of an append it may keep
    /// the length with only half of the bytes, or none.
    fn left(self, cut: Cut, chance: &mut Chance) -> Option<Vec<u8>> {
        let File { cached, durable, settled } = self;
        if cut == Cut::Lost || durable.as_ref() == Some(&cached) {
            return durable;
        }
        let held = durable.as_ref().map_or(0, Vec::len);
        let grew = durable.as_ref().is_none_or(|held| cached.starts_with(held));
        match chance.below(5) {
            0 => Some(cached),
            1 => durable,
            _ if settled => Some(cached),
            2 if grew => Some(durable.unwrap_or_default()),
            // The name reached the disk before the bytes.
            2 => Some(Vec::new()),
            kept if grew => {
                let mut bytes = cached;
                let whole = if kept == 3 { held } else { held + (bytes.len() - held) / 2 };
                bytes[whole..].fill(0);
                Some(bytes)
            }
            _ => durable,
        }
    }
}

/// What a power cut takes of everything that was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// All of it.
    Lost,
    /// Whatever chance says, of each file for itself.
    Mixed,
}

/// How the next planned fault shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The disk is full: nothing is written, the caller is told.
    Full,
    /// Written and synced, but reported as an error.
    Unreported,
    /// The process dies before the change.
    KilledBefore,
    /// The process dies within the change: part of the bytes written, or a name changed and the
    /// folder not synced.
    KilledWithin,
    /// The process dies right after the change.
    KilledAfter,
}

/// All faults, for picking one.
pub const FAULTS: [Fault; 5] =
    [Fault::Full, Fault::Unreported, Fault::KilledBefore, Fault::KilledWithin, Fault::KilledAfter];

/// One node's disk.
#[derive(Clone, Debug, Default)]
pub struct SimDisk {
    files: BTreeMap<PathBuf, File>,
    /// Removed, but the folder was not synced: they may come back.
    graves: BTreeMap<PathBuf, Vec<u8>>,
    folders: BTreeSet<PathBuf>,
    /// Changes so far.
    changes: u64,
    planned: Option<(u64, Fault)>,
    /// What a planned death takes along, before anybody could look.
    power: Option<(Cut, Chance)>,
    killed: bool,
    full: bool,
}

impl SimDisk {
    /// Plans a fault at the change that comes `after` more ones.
    pub fn plan(&mut self, after: u64, fault: Fault) {
        self.planned = Some((self.changes + after, fault));
    }

    /// Lets a planned death be one of the whole machine.
    pub fn plan_power(&mut self, cut: Cut, chance: Chance) {
        self.power = Some((cut, chance));
    }

    /// Fills the disk, or makes room again: until then nothing is written.
    pub fn fill(&mut self, full: bool) {
        self.full = full;
    }

    /// Whether it writes what it is told, now and next.
    pub fn is_untroubled(&self) -> bool {
        !self.full && !self.killed && self.planned.is_none()
    }

    /// Whether the planned fault has happened.
    pub fn has_met(&self) -> bool {
        self.planned.is_none()
    }

    /// Forgets a planned fault and lets a killed process start again.
    pub fn restart(&mut self) {
        self.planned = None;
        self.power = None;
        self.killed = false;
    }

    /// Whether a planned fault killed the process.
    pub fn was_killed(&self) -> bool {
        self.killed
    }

    /// Power is lost, and with it what was not synced.
    pub fn power_cut(&mut self, cut: Cut, chance: &mut Chance) {
        let mut kept = BTreeMap::new();
        for (path, bytes) in std::mem::take(&mut self.graves) {
            if cut == Cut::Lost || chance.below(2) == 0 {
                kept.insert(path, File::durable(bytes));
            }
        }
        for (path, file) in std::mem::take(&mut self.files) {
            if let Some(bytes) = file.left(cut, chance) {
                kept.insert(path, File::durable(bytes));
            }
        }
        self.files = kept;
    }

    /// Bytes of a file as readers see them.
    pub fn bytes(&self, path: &Path) -> Option<&[u8]> {
        self.files.get(path).map(|file| file.cached.as_slice())
    }

    /// All files as readers see them.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        self.files.iter().map(|(path, file)| (path.as_path(), file.cached.as_slice()))
    }

    /// Puts a file there, durably, as an operator would.
    pub fn put(&mut self, path: &Path, bytes: &[u8]) {
        self.files.insert(path.to_owned(), File::durable(bytes.to_vec()));
    }

    pub(super) fn read(&self, path: &Path, span: Span) -> io::Result<Vec<u8>> {
        self.alive()?;
        let file = self.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        let from = usize::try_from(span.from).unwrap_or(usize::MAX).min(file.cached.len());
        let most = usize::try_from(span.most).unwrap_or(usize::MAX);
        let to = from.saturating_add(most).min(file.cached.len());
        Ok(file.cached[from..to].to_vec())
    }

    pub(super) fn entry(&self, path: &Path) -> io::Result<Option<Entry>> {
        self.alive()?;
        if let Some(file) = self.files.get(path) {
            return Ok(Some(Entry { bytes: file.cached.len() as u64, link: false }));
        }
        Ok(self.folders.contains(path).then_some(Entry { bytes: 0, link: false }))
    }

    pub(super) fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.alive()?;
        let inside =
            self.files.keys().chain(&self.folders).filter(|path| path.parent() == Some(folder));
        Ok(inside.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    pub(super) fn change(&mut self, change: Change<'_>) -> io::Result<()> {
        self.alive()?;
        let due = self.planned.filter(|(at, _)| *at == self.changes).map(|(_, fault)| fault);
        self.changes += 1;
        if due.is_some() {
            self.planned = None;
        }
        match due {
            None => self.apply(change),
            Some(Fault::Full) => Err(io::ErrorKind::StorageFull.into()),
            Some(Fault::Unreported) => {
                self.apply(change)?;
                Err(io::Error::other("input/output error"))
            }
            Some(fault) => {
                match fault {
                    Fault::KilledWithin => self.apply_half(change)?,
                    Fault::KilledAfter => self.apply(change)?,
                    _ => {}
                }
                self.killed = true;
                if let Some((cut, mut chance)) = self.power.take() {
                    self.power_cut(cut, &mut chance);
                }
                self.alive()
            }
        }
    }

    /// A killed process does nothing more.
    fn alive(&self) -> io::Result<()> {
        if self.killed { Err(io::Error::other("the process was killed")) } else { Ok(()) }
    }

    fn apply(&mut self, change: Change<'_>) -> io::Result<()> {
        if self.full && matches!(change, Change::Append { .. } | Change::Replace { .. }) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        match change {
            Change::Append { path, at, bytes, keep } => {
                self.write(path, at, bytes);
                if keep == Keep::Durable {
                    self.sync(path);
                }
            }
            Change::Cut { path, bytes } => {
                self.cut(path, bytes)?;
                self.sync(path);
            }
            Change::Replace { path, bytes, keep, .. } => {
                self.rename(path, bytes, keep);
                if keep == Keep::Durable {
                    self.sync(path);
                }
            }
            Change::Folder { path, .. } => {
                self.folders.extend(path.ancestors().map(Path::to_owned));
            }
            Change::Remove { path } => {
                self.unlink(path);
                self.graves.retain(|file, _| !file.starts_with(path));
            }
        }
        Ok(())
    }

    /// A replacement's bytes are synced before its name is changed; the name reaches the disk by
    /// itself within seconds, so it can be lost only where the power goes with the process.
    fn apply_half(&mut self, change: Change<'_>) -> io::Result<()> {
        match change {
            Change::Append { path, at, bytes, .. } => {
                self.write(path, at, &bytes[..bytes.len() / 2]);
            }
            Change::Cut { path, bytes } => self.cut(path, bytes)?,
            Change::Replace { path, bytes, keep, .. } => {
                self.rename(path, bytes, keep);
                if keep == Keep::Durable && self.power.is_none() {
                    self.sync(path);
                }
            }
            Change::Folder { .. } => {}
            Change::Remove { path } => {
                let inside = self.files.keys().filter(|file| file.starts_with(path));
                let inside: Vec<PathBuf> = inside.cloned().collect();
                let some = inside.iter().take(inside.len().div_ceil(2));
                some.for_each(|file| self.unlink(file));
            }
        }
        Ok(())
    }

    fn write(&mut self, path: &Path, at: u64, bytes: &[u8]) {
        let file = self.files.entry(path.to_owned()).or_default();
        write_at(&mut file.cached, at, bytes);
        file.settled = false;
    }

    fn cut(&mut self, path: &Path, bytes: u64) -> io::Result<()> {
        let file = self.files.get_mut(path).ok_or(io::ErrorKind::NotFound)?;
        file.cached.truncate(usize::try_from(bytes).unwrap_or(usize::MAX));
        Ok(())
    }

    fn rename(&mut self, path: &Path, bytes: &[u8], keep: Keep) {
        let file = self.files.entry(path.to_owned()).or_default();
        file.cached = bytes.to_vec();
        file.settled = keep == Keep::Durable;
    }

    fn sync(&mut self, path: &Path) {
        if let Some(file) = self.files.get_mut(path) {
            *file = File::durable(std::mem::take(&mut file.cached));
            self.graves.remove(path);
        }
    }

    fn unlink(&mut self, path: &Path) {
        let (gone, kept) = std::mem::take(&mut self.files)
            .into_iter()
            .partition(|(file, _)| file.starts_with(path));
        self.files = kept;
        let gone: BTreeMap<PathBuf, File> = gone;
        let durable = gone.into_iter().filter_map(|(path, file)| Some((path, file.durable?)));
        self.graves.extend(durable);
        self.folders.retain(|folder| !folder.starts_with(path));
    }
}

fn write_at(file: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let at = usize::try_from(at).unwrap_or(usize::MAX);
    let end = at + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[at..end].copy_from_slice(bytes);
}
