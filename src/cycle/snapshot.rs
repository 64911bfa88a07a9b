//! `snapshot`: the journal's meaning, replayed from line 0 and written down.

use super::pull::locked;
use crate::config::Config;
use crate::error::Failure;
use crate::host::{Host, Keep, Readers};
use crate::journal::snapshot::Snapshot;
use crate::store::disk::Disk;
use crate::store::floor;
use crate::store::identity::Identity;
use crate::store::rebuild;

/// Writes `snapshot.json` at the floor and returns what stands in it.
///
/// # Errors
/// Kind `Integrity` where the lines do not give the signed root, or the tiles another; nothing is
/// written then.
pub fn write(
    host: &dyn Host,
    config: &Config,
    progress: &dyn Fn(u64, u64),
) -> Result<Snapshot, Failure> {
    let disk = Disk { host, layout: &config.layout };
    let identity = Identity::require(&disk)?;
    locked(&disk, || {
        let floor = floor::read(&disk, &identity)?;
        if floor.size == 0 {
            return Err(Failure::failed("nothing is signed yet").hint("run: crowny-fed tick"));
        }
        let snapshot = rebuild::snapshot(&disk, &identity.origin, &floor, progress)?;
        disk.clear_temporary()?;
        let how = (Keep::Durable, Readers::Usual);
        disk.put(&disk.layout.snapshot(), &snapshot.render(), how)?;
        Ok(snapshot)
    })
}
