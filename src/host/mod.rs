//! SHELL: the world behind one trait.
//!
//! Everything a tick can see or change passes through [`Host`]: two clocks, chance, files, one
//! lock, one way to change a file, one way to ask peers. The real world is [`real::RealHost`], the
//! seeded one is `crate::sim`. Nothing here decides anything.
#![allow(clippy::disallowed_methods)] // this is the world that the ban sends everybody to

mod clock;
pub mod dial;
mod file;
pub mod owner;
pub mod path;
pub mod real;

use crate::wire::call::{Answer, Call};
use std::any::Any;
use std::io;
use std::path::Path;
use std::time::Duration;

/// The clocks at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Milliseconds since 1970: for people, and for the ±300 s gate. May jump.
    pub wall_ms: u64,
    /// Milliseconds since boot, sleep included. Never goes back within a boot.
    pub boot_ms: u64,
    /// Identifies the boot.
    pub boot_id: String,
}

/// Which part of a file to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub from: u64,
    /// Most bytes.
    pub most: u64,
}

impl Span {
    /// The whole file.
    pub const WHOLE: Span = Span { from: 0, most: u64::MAX };
}

/// What is known of a path without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Length in bytes.
    pub bytes: u64,
    /// Whether the path itself is a link to somewhere.
    pub link: bool,
}

/// Whether a change must survive a power cut before the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Synced: data, and for new names the folder.
    Durable,
    /// Left to the page cache; derived files that everyday code rebuilds.
    Cached,
}

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// The owner (0600): keys, tokens.
    Owner,
    /// Whoever the umask lets.
    Usual,
    /// Everybody (0644 whatever the umask): what gateways and other users read.
    Everybody,
}

/// One change to the disk. Each is complete or an error; none is retried on the same handle.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// Writes `bytes` at offset `at` of a file that is created if absent.
    Append {
        /// Which file.
        path: &'a Path,
        /// Offset, normally the file's length.
        at: u64,
        /// What.
        bytes: &'a [u8],
        /// How lasting.
        keep: Keep,
    },
    /// Cuts a file to `bytes`, durably.
    Cut {
        /// Which file.
        path: &'a Path,
        /// Its length from now on.
        bytes: u64,
    },
    /// Puts a whole new file in place of the old: temp, sync, rename, sync the folder.
    Replace {
        /// Which file.
        path: &'a Path,
        /// Where the temporary file stands until the rename; same file system.
        via: &'a Path,
        /// What.
        bytes: &'a [u8],
        /// How lasting.
        keep: Keep,
        /// Who may read it.
        readers: Readers,
    },
    /// Makes a folder and those above it; `private` ones are 0700.
    Folder {
        /// Which folder.
        path: &'a Path,
        /// Only for the owner.
        private: bool,
    },
    /// Removes a file, or a folder with all in it. Absent is fine.
    Remove {
        /// Which.
        path: &'a Path,
    },
}

/// A held lock: released when dropped, and by the kernel when the process ends.
pub struct Lock(#[allow(dead_code, reason = "held for its drop")] Box<dyn Any>);

impl Lock {
    /// Wraps whatever releases the lock when dropped.
    pub fn new(held: impl Any) -> Self {
        Lock(Box::new(held))
    }
}

impl std::fmt::Debug for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lock")
    }
}

/// The world, as one tick needs it.
pub trait Host {
    /// The clocks now.
    fn clock(&self) -> Clock;
    /// Fills `bytes` from the generator.
    fn chance(&self, bytes: &mut [u8]) -> io::Result<()>;
    /// Reads part of a file.
    fn read(&self, path: &Path, span: Span) -> io::Result<Vec<u8>>;
    /// Looks at a path; `None` where there is nothing.
    fn entry(&self, path: &Path) -> io::Result<Option<Entry>>;
    /// Names in a folder, sorted; empty where there is none.
    fn names(&self, folder: &Path) -> io::Result<Vec<String>>;
    /// Changes the disk.
    fn change(&self, change: Change<'_>) -> io::Result<()>;
    /// Takes the lock on a folder, waiting at most `patience`; `None` if another holds it.
    fn lock(&self, folder: &Path, patience: Duration) -> io::Result<Option<Lock>>;
    /// Asks all of `calls` at once; answers come in their order, at the latest at `until_boot_ms`.
    fn dial(&self, calls: &[Call], until_boot_ms: u64) -> Vec<Answer>;
}

/// Reads a whole file; `None` where there is none.
pub fn read_if_any(host: &dyn Host, path: &Path) -> io::Result<Option<Vec<u8>>> {
    match host.read(path, Span::WHOLE) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
