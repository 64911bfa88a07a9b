//! `state/clock.json`: an operator's word that the wall clock is right although the journal's last
//! line is later than it.
//!
//! It holds for that one line's time: lines go on at that time, which never goes back, and requests
//! are judged by the wall clock again. It ends by itself when the clock has passed the line.

use super::disk::Disk;
use crate::error::Failure;
use crate::host::{Keep, Readers};
use serde::{Deserialize, Serialize};

/// The file's contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceptedClock {
    /// The wall clock when it was accepted, in seconds since 1970; it counts from here on.
    pub at: u64,
    /// Requests of these seconds (from, to) were answered while the clock was ahead, and their
    /// nonces are not known any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgotten: Option<(u64, u64)>,
    /// Lines in the journal then.
    pub size: u64,
    /// `ts` of the last of them.
    pub ts: u64,
}

impl AcceptedClock {
    /// Reads the file. What does not read accepts nothing.
    pub fn load(disk: &Disk<'_>) -> Result<Option<AcceptedClock>, Failure> {
        let bytes = disk.read(&disk.layout.accepted_clock())?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// Writes the file, durably; `state` must be locked.
    pub fn store(&self, disk: &Disk<'_>) -> Result<(), Failure> {
        let mut bytes = serde_json::to_vec(self).expect("plain numbers have a JSON form");
        bytes.push(b'\n');
        disk.put(&disk.layout.accepted_clock(), &bytes, (Keep::Durable, Readers::Usual))
    }

    /// Whether it is about a journal that ends at `last_s`, at this time.
    pub fn rules(&self, last_s: u64, wall_s: u64) -> bool {
        self.ts == last_s && wall_s < last_s
    }
}
