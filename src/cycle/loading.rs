//! What a tick starts from: the journal, opened and mended, and the memory of the tick before.

use super::handover;
use super::rounds::{PATIENCE, take_lock};
use crate::error::{Failure, Kind};
use crate::host::{Clock, Keep, Readers};
use crate::protocol::memory::{Beginning, Memory};
use crate::store::audit::{Depth, audit_with};
use crate::store::disk::Disk;
use crate::store::identity::Identity;
use crate::store::ledger::{Ledger, Mend};
use crate::store::rebuild;
use crate::store::tree::ReadError;

/// What a tick starts from.
pub(super) struct Loaded<'a> {
    pub(super) ledger: Ledger<'a>,
    pub(super) memory: Memory,
    pub(super) warnings: Vec<String>,
}

/// Opens the journal, mends it, and looks at some of what lies under it.
pub(super) fn load<'a>(
    disk: Disk<'a>,
    identity: &Identity,
    mend: Mend,
    progress: &dyn Fn(u64, u64),
) -> Result<Loaded<'a>, Failure> {
    let _reading = take_lock(disk.host, &disk.layout.state(), PATIENCE)?.ok_or_else(busy)?;
    let ledger = Ledger::open(disk, identity, mend)?;
    let mut warnings = ledger.warnings().to_vec();
    let memory = load_memory(&disk, &mut warnings)?;
    // A new boot may follow a power cut: then nothing cached about the journal is believed, and
    // the index, which is never synced, is made anew.
    if memory.boot_id == disk.host.clock().boot_id {
        recheck(&disk, identity, &ledger, (memory.tick, mend))?;
    } else if ledger.floor().size > 0 {
        audit_with(&disk, Depth::Journal, progress)?;
        if mend == Mend::Yes {
            rebuild::index(&disk, &identity.origin, ledger.floor())?;
        }
    }
    Ok(Loaded { ledger, memory, warnings })
}

/// Looks at one old bundle each tick. What is derived is made anew before the journal is blamed:
/// tiles that are missing, and an index that leads astray.
fn recheck(
    disk: &Disk<'_>,
    identity: &Identity,
    ledger: &Ledger<'_>,
    (turn, mend): (u64, Mend),
) -> Result<(), Failure> {
    let floor = ledger.floor();
    match rebuild::recheck_bundle(disk, floor, turn) {
        Ok(()) => Ok(()),
        Err(ReadError::Missing(_)) if mend == Mend::Yes => {
            rebuild::tree(disk, &identity.origin, floor).map(|_| ())
        }
        Err(ReadError::Wrong(_)) if mend == Mend::Yes => {
            rebuild::index(disk, &identity.origin, floor)?;
            Ok(rebuild::recheck_bundle(disk, floor, turn)?)
        }
        Err(error) => Err(error.into()),
    }
}

impl<'a> Loaded<'a> {
    /// While probing no lock was held: if somebody appended meanwhile, decide on what is there now.
    pub(super) fn reload_if_moved(
        &mut self,
        disk: Disk<'a>,
        identity: &Identity,
        mend: Mend,
    ) -> Result<(), Failure> {
        if disk.length(&disk.layout.journal())? != Some(self.ledger.bytes()) {
            self.ledger = Ledger::open(disk, identity, mend)?;
            self.warnings.extend_from_slice(self.ledger.warnings());
        }
        // Decided under the lock: the line that names another node is the last one written here.
        handover::expect_none(identity, self.ledger.fold())
    }
}

/// A lost or unreadable memory costs a grace tick, never the run.
fn load_memory(disk: &Disk<'_>, warnings: &mut Vec<String>) -> Result<Memory, Failure> {
    let path = disk.layout.tick();
    let Some(bytes) = disk.read(&path)? else {
        warnings.push(format!("{} is missing: suspicions start anew", path.display()));
        return Ok(Memory::default());
    };
    Ok(serde_json::from_slice(&bytes).unwrap_or_else(|error| {
        warnings.push(format!("{} does not read ({error}): suspicions start anew", path.display()));
        Memory::default()
    }))
}

/// Takes the losses for real from the next tick on (law 6: never held back); `None` where there are
/// none. The lock on `keys/` is held.
pub fn accept_loss(disk: &Disk<'_>) -> Result<Option<Memory>, Failure> {
    let mut memory = load_memory(disk, &mut Vec::new())?;
    if memory.suspects.is_empty() && memory.blind_ticks == 0 {
        return Ok(None);
    }
    memory.accept_loss = true;
    save_memory(disk, &memory)?;
    Ok(Some(memory))
}

/// Writes `tick.json`: the one durable write of an idle tick.
pub(super) fn save_memory(disk: &Disk<'_>, memory: &Memory) -> Result<(), Failure> {
    let mut bytes = serde_json::to_vec(memory).expect("a memory has string keys only");
    bytes.push(b'\n');
    disk.put(&disk.layout.tick(), &bytes, (Keep::Durable, Readers::Usual))
}

/// The instant a tick begins.
pub(super) fn beginning(clock: &Clock) -> Beginning<'_> {
    Beginning { boot_id: &clock.boot_id, boot_ms: clock.boot_ms, wall_ms: clock.wall_ms }
}

pub(super) fn busy() -> Failure {
    Failure::new(Kind::Busy, "another process works on the journal for longer than 10 s")
}
