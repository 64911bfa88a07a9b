//! What a run leaves for others: the map, its age, the status file.

use crate::config::Config;
use crate::error::Failure;
use crate::host::{Clock, Keep, Readers};
use crate::journal::merkle::Hash;
use crate::protocol::membership::Membership;
use crate::protocol::memory::Memory;
use crate::protocol::route::{Local, routes};
use crate::store::disk::Disk;
use crate::wire::freshness::{Freshness, validity_ms};
use crate::wire::psv::{PeerStatus, parse_status, render_status};
use crate::wire::routes::{Stamp, render, render_rows, split};

/// What the map is made from.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The federation.
    pub origin: &'a str,
    /// The table.
    pub membership: &'a Membership,
    /// What our own map does otherwise; the anchor's does nothing.
    pub local: &'a Local,
    /// Lines the table rests on.
    pub size: u64,
    /// Their root.
    pub root: Hash,
    /// Generation of the last map.
    pub generation: u64,
}

/// Writes the map where its rows differ from the one on disk. Returns the generation in force.
pub fn map(disk: &Disk<'_>, shown: &Shown<'_>) -> Result<u64, Failure> {
    let now_s = disk.host.clock().wall_ms / 1_000;
    let rows = render_rows(&routes(shown.membership, shown.local, now_s));
    let path = disk.layout.routes();
    let old = disk.read(&path)?.and_then(|bytes| String::from_utf8(bytes).ok());
    let last = old.as_deref().and_then(split);
    if let Some((generation, held)) = last
        && held == rows
    {
        return Ok(generation.max(shown.generation));
    }
    // Never below the size, never below what was published before, even if the map was lost.
    let before = last.map_or(0, |(generation, _)| generation).max(shown.generation);
    let generation = before.saturating_add(1).max(shown.size);
    let stamp = Stamp { origin: shown.origin, generation, size: shown.size, root: shown.root };
    disk.put(&path, render(&stamp, &rows).as_bytes(), (Keep::Durable, Readers::Everybody))?;
    Ok(generation)
}

/// Writes `freshness.json`.
pub fn freshness(
    disk: &Disk<'_>,
    config: &Config,
    memory: &Memory,
    now: &Clock,
) -> Result<(), Failure> {
    let fresh = Freshness {
        tick: memory.tick,
        time: rfc3339(now.wall_ms),
        valid_until: rfc3339(now.wall_ms + validity_ms(config.profile.interval_ms)),
        blind: memory.blind_ticks > 0,
    };
    let mut bytes = serde_json::to_vec(&fresh).expect("plain fields have a JSON form");
    bytes.push(b'\n');
    disk.put(&disk.layout.freshness(), &bytes, (Keep::Cached, Readers::Everybody))
}

/// Writes the status file as `writer`. Says so where the one it replaces was none.
pub fn status(
    disk: &Disk<'_>,
    config: &Config,
    rows: &[PeerStatus],
    writer: &str,
) -> Result<Option<String>, Failure> {
    let old = disk.read(&config.status)?;
    disk.publish(&config.status, render_status(rows).as_bytes(), (Keep::Cached, writer))?;
    let broken = match old.as_deref() {
        None => None,
        Some([]) => Some("it was empty".to_owned()),
        Some(bytes) => parse_status(bytes).err(),
    };
    Ok(broken.map(|reason| format!("{} was rebuilt: {reason}", config.status.display())))
}

/// Milliseconds since 1970 as RFC 3339 UTC, whole seconds.
pub fn rfc3339(wall_ms: u64) -> String {
    let seconds = i64::try_from(wall_ms / 1_000).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds)
        .map_or_else(|_| "unknown".to_owned(), |time| time.to_string())
}
