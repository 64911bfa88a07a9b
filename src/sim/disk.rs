//! A disk with a cache: what was not synced may be gone after a power cut, and any write may fail
//! either way, not done or done and reported lost.

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
    /// The process dies with part of the bytes written.
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
    folders: BTreeSet<PathBuf>,
    /// Changes so far.
    changes: u64,
    planned: Option<(u64, Fault)>,
    killed: bool,
    full: bool,
}

impl SimDisk {
    /// Plans a fault at the change that comes `after` more ones.
    pub fn plan(&mut self, after: u64, fault: Fault) {
        self.planned = Some((self.changes + after, fault));
    }

    /// Fills the disk, or makes room again: until then nothing is written.
    pub fn fill(&mut self, full: bool) {
        self.full = full;
    }

    /// Whether it writes what it is told, now and next.
    pub fn is_untroubled(&self) -> bool {
        !self.full && !self.killed && self.planned.is_none()
    }

    /// Forgets a planned fault and lets a killed process start again.
    pub fn restart(&mut self) {
        self.planned = None;
        self.killed = false;
    }

    /// Whether a planned fault killed the process.
    pub fn was_killed(&self) -> bool {
        self.killed
    }

    /// Power is lost: of what was not synced, each file keeps all, nothing, or an empty name.
    pub fn power_cut(&mut self, chance: &mut Chance) {
        let mut kept = BTreeMap::new();
        for (path, file) in std::mem::take(&mut self.files) {
            let left = match (&file.durable, chance.below(3)) {
                (Some(durable), _) if *durable == file.cached => Some(file.cached),
                (_, 0) => Some(file.cached),
                (Some(durable), 1) => Some(durable.clone()),
                (None, 1) => None,
                // The name reached the disk before the bytes.
                _ => Some(file.durable.unwrap_or_default()),
            };
            if let Some(bytes) = left {
                kept.insert(path, File { durable: Some(bytes.clone()), cached: bytes });
            }
        }
        self.files = kept;
    }

    /// Bytes of a file as readers see them.
    pub fn bytes(&self, path: &Path) -> Option<&[u8]> {
        self.files.get(path).map(|file| file.cached.as_slice())
    }

    /// Puts a file there, durably, as an operator would.
    pub fn put(&mut self, path: &Path, bytes: &[u8]) {
        self.files.insert(
            path.to_owned(),
            File { cached: bytes.to_vec(), durable: Some(bytes.to_vec()) },
        );
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
                    Fault::KilledWithin => self.apply_half(change),
                    Fault::KilledAfter => self.apply(change)?,
                    _ => {}
                }
                self.killed = true;
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
                let file = self.files.entry(path.to_owned()).or_default();
                write_at(&mut file.cached, at, bytes);
                if keep == Keep::Durable {
                    file.durable = Some(file.cached.clone());
                }
            }
            Change::Cut { path, bytes } => {
                let file = self.files.get_mut(path).ok_or(io::ErrorKind::NotFound)?;
                file.cached.truncate(usize::try_from(bytes).unwrap_or(usize::MAX));
                file.durable = Some(file.cached.clone());
            }
            Change::Replace { path, bytes, keep, .. } => {
                let file = self.files.entry(path.to_owned()).or_default();
                file.cached = bytes.to_vec();
                if keep == Keep::Durable {
                    file.durable = Some(file.cached.clone());
                }
            }
            Change::Folder { path, .. } => {
                self.folders.extend(path.ancestors().map(Path::to_owned));
            }
            Change::Remove { path } => {
                self.files.retain(|file, _| !file.starts_with(path));
                self.folders.retain(|folder| !folder.starts_with(path));
            }
        }
        Ok(())
    }

    /// Only an append can stop within: a replacement is a rename, which is whole or not at all.
    fn apply_half(&mut self, change: Change<'_>) {
        if let Change::Append { path, at, bytes, .. } = change {
            let file = self.files.entry(path.to_owned()).or_default();
            write_at(&mut file.cached, at, &bytes[..bytes.len() / 2]);
        }
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
