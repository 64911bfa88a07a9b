//! Files of ours, with errors that name them.

use crate::error::{Failure, Kind};
use crate::host::{Change, Host, Keep, Readers, Span, read_if_any};
use crate::layout::{Layout, beside};
use std::io;
use std::path::Path;

/// A host and the folder we work in.
#[derive(Clone, Copy)]
pub struct Disk<'a> {
    /// The world.
    pub host: &'a dyn Host,
    /// Where things stand.
    pub layout: &'a Layout,
}

impl std::fmt::Debug for Disk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").field("layout", self.layout).finish_non_exhaustive()
    }
}

impl Disk<'_> {
    /// A whole file, `None` where there is none.
    pub fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, Failure> {
        read_if_any(self.host, path).map_err(|error| unreadable(path, &error))
    }

    /// Part of a file that must be there.
    pub fn read_span(&self, path: &Path, span: Span) -> Result<Vec<u8>, Failure> {
        self.host.read(path, span).map_err(|error| unreadable(path, &error))
    }

    /// A whole UTF-8 file, `None` where there is none.
    pub fn read_text(&self, path: &Path) -> Result<Option<String>, Failure> {
        let Some(bytes) = self.read(path)? else {
            return Ok(None);
        };
        String::from_utf8(bytes)
            .map(Some)
            .map_err(|_| Failure::failed(format!("{} is not UTF-8", path.display())))
    }

    /// Length of a file, `None` where there is none.
    pub fn length(&self, path: &Path) -> Result<Option<u64>, Failure> {
        let entry = self.host.entry(path).map_err(|error| unreadable(path, &error))?;
        Ok(entry.map(|entry| entry.bytes))
    }

    /// Makes a folder.
    pub fn folder(&self, path: &Path, private: bool) -> Result<(), Failure> {
        self.change(path, Change::Folder { path, private })
    }

    /// Empties the folder of temporary files but for who we are: of all others the only writer
    /// holds the state lock, so what stands there was left by a killed run. A backup may have
    /// dropped the empty folder.
    pub fn clear_temporary(&self) -> Result<(), Failure> {
        self.folder(&self.layout.state().join("tmp"), true)?;
        self.clear(|name| !is_of_identity(name))
    }

    /// The same of keys and `self.json`, which are written under the lock on `keys/`.
    pub fn clear_temporary_keys(&self) -> Result<(), Failure> {
        self.clear(is_of_identity)
    }

    fn clear(&self, is_left: fn(&str) -> bool) -> Result<(), Failure> {
        let folder = self.layout.state().join("tmp");
        let names = self.host.names(&folder).map_err(|error| unreadable(&folder, &error))?;
        let mut left = names.iter().filter(|name| is_left(name));
        left.try_for_each(|name| self.remove(&folder.join(name)))
    }

    /// Puts a whole file of ours in place; equal bytes leave it untouched, mtime too.
    pub fn put(&self, path: &Path, bytes: &[u8], how: (Keep, Readers)) -> Result<(), Failure> {
        self.put_via(path, &self.layout.temporary(path), bytes, how)
    }

    /// The same without our lock: the temporary file stands beside the target, where no tick clears
    /// it away.
    pub fn put_beside(
        &self,
        path: &Path,
        bytes: &[u8],
        how: (Keep, Readers),
    ) -> Result<(), Failure> {
        self.put_via(path, &beside(path, "put"), bytes, how)
    }

    /// The same for a published file that may lie outside our folder. Each `writer` has a temporary
    /// name of its own, for a tick and a probe may write the same file at once.
    pub fn publish(
        &self,
        path: &Path,
        bytes: &[u8],
        (keep, writer): (Keep, &str),
    ) -> Result<(), Failure> {
        let via = beside(path, writer);
        self.put_via(path, &via, bytes, (keep, Readers::Everybody))?;
        // Equal bytes are not written again, but what a killed run left goes all the same.
        self.remove(&via)
    }

    fn put_via(
        &self,
        path: &Path,
        via: &Path,
        bytes: &[u8],
        how: (Keep, Readers),
    ) -> Result<(), Failure> {
        if self.read(path)?.as_deref() == Some(bytes) {
            return Ok(());
        }
        let (keep, readers) = how;
        self.change(path, Change::Replace { path, via, bytes, keep, readers })
    }

    /// Writes at an offset.
    pub fn append(&self, path: &Path, at: u64, bytes: &[u8], keep: Keep) -> Result<(), Failure> {
        self.change(path, Change::Append { path, at, bytes, keep })
    }

    /// Cuts a file.
    pub fn cut(&self, path: &Path, bytes: u64) -> Result<(), Failure> {
        self.change(path, Change::Cut { path, bytes })
    }

    /// Removes a file or folder.
    pub fn remove(&self, path: &Path) -> Result<(), Failure> {
        self.change(path, Change::Remove { path })
    }

    fn change(&self, path: &Path, change: Change<'_>) -> Result<(), Failure> {
        self.refuse_links(path)?;
        if let Change::Replace { via, .. } = change {
            self.refuse_links(via)?;
        }
        self.host.change(change).map_err(|error| unwritable(path, &error))
    }
}

impl Disk<'_> {
    /// Our own folders lead nowhere else: through a link in them a write, or the clearing of
    /// `state/tmp`, would reach other people's files (law 1). Looked at for each change, for a server
    /// may have started long before the link was put there.
    fn refuse_links(&self, path: &Path) -> Result<(), Failure> {
        let dir = self.layout.dir();
        let inside = path.ancestors().skip(1).take_while(|folder| *folder != dir);
        for folder in inside.filter(|folder| folder.starts_with(dir)) {
            let entry = self.host.entry(folder).map_err(|error| unreadable(folder, &error))?;
            if entry.is_some_and(|entry| entry.link) {
                return Err(Failure::config(format!("{} is a link", folder.display()))
                    .hint("folders of ours may not lead elsewhere: put a folder there; nothing was written"));
            }
        }
        Ok(())
    }
}

fn is_of_identity(name: &str) -> bool {
    name.ends_with(".key") || name == "self.json"
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let message = format!("cannot read {}: {error}", path.display());
    if error.kind() != io::ErrorKind::PermissionDenied {
        return Failure::failed(message);
    }
    Failure::new(Kind::Config, message)
        .hint("run as the owner of the folder: sudo -u OWNER crowny-fed ..; started as root, it does so by itself")
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let message = format!("cannot write {}: {error}", path.display());
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Failure::failed(message)
            .hint("the disk is full: free space, the next run goes on by itself"),
        io::ErrorKind::FileTooLarge => Failure::failed(message)
            .hint("the limit on file sizes is reached (ulimit -f, LimitFSIZE=): raise it, the next run goes on by itself"),
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            Failure::new(Kind::Config, message)
                .hint("the folder must be writable by the user that runs this")
        }
        _ => Failure::failed(message)
            .hint("nothing more was written; the next run reads the disk afresh"),
    }
}
