//! The real world: this machine's clocks, generator, files and network.

use super::dial::Dialer;
use super::{Change, Clock, Entry, Host, Lock, Span, clock, file};
use crate::wire::call::{Answer, Call};
use fs2::FileExt;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often a held lock is tried again.
const LOCK_RETRY: Duration = Duration::from_millis(50);

/// This machine.
pub struct RealHost {
    dialer: Dialer,
}

impl RealHost {
    /// This machine, asking peers through `dialer`.
    pub fn new(dialer: Dialer) -> Self {
        RealHost { dialer }
    }
}

impl Host for RealHost {
    fn clock(&self) -> Clock {
        clock::read()
    }

    fn chance(&self, bytes: &mut [u8]) -> io::Result<()> {
        getrandom::fill(bytes).map_err(io::Error::other)
    }

    fn read(&self, path: &Path, span: Span) -> io::Result<Vec<u8>> {
        file::read(path, span)
    }

    fn entry(&self, path: &Path) -> io::Result<Option<Entry>> {
        file::entry(path)
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        file::names(folder)
    }

    fn change(&self, change: Change<'_>) -> io::Result<()> {
        file::change(change)
    }

    fn lock(&self, folder: &Path, patience: Duration) -> io::Result<Option<Lock>> {
        // The folder's own handle: there is no lock file that somebody could delete.
        let handle = File::open(folder)?;
        let until = Instant::now() + patience;
        loop {
            match FileExt::try_lock_exclusive(&handle) {
                Ok(()) => return Ok(Some(Lock::new(handle))),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                Err(_) if Instant::now() >= until => return Ok(None),
                Err(_) => std::thread::sleep(LOCK_RETRY),
            }
        }
    }

    fn dial(&self, calls: &[Call], until_boot_ms: u64) -> Vec<Answer> {
        let left = until_boot_ms.saturating_sub(clock::read().boot_ms);
        self.dialer.dial(calls, Instant::now() + Duration::from_millis(left))
    }
}
