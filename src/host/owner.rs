//! Whose state this is: refuses to work on another user's, and steps down from root.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// What stands in the way of using a path of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trespass {
    /// It belongs to somebody else.
    Owner {
        /// Numeric user id of the owner.
        uid: u32,
    },
    /// Others may write it.
    Writable {
        /// Permission bits.
        mode: u32,
    },
    /// Others may read what is secret.
    Readable {
        /// Permission bits.
        mode: u32,
    },
}

/// Checks that `path` belongs to us and that no stranger may write it. Absent is fine.
pub fn check(path: &Path) -> io::Result<Option<Trespass>> {
    check_for(path, &[rustix::process::geteuid().as_raw()])
}

/// The same for what root may have put there for us: the configuration.
pub fn check_configuration(path: &Path) -> io::Result<Option<Trespass>> {
    check_for(path, &[rustix::process::geteuid().as_raw(), 0])
}

/// For who only reads: nobody but its owner and root may have written it.
pub fn check_unwritable(path: &Path) -> io::Result<Option<Trespass>> {
    let owner = fs::metadata(path).map_or(0, |meta| meta.uid());
    check_for(path, &[owner])
}

fn check_for(path: &Path, owners: &[u32]) -> io::Result<Option<Trespass>> {
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !owners.contains(&meta.uid()) {
        return Ok(Some(Trespass::Owner { uid: meta.uid() }));
    }
    // A group of one's own name (the primary one) is private on most systems.
    let foreign_group = meta.gid() != rustix::process::getegid().as_raw();
    let by_world = meta.mode() & 0o002 != 0;
    let by_group = meta.mode() & 0o020 != 0 && foreign_group;
    if by_world || by_group {
        return Ok(Some(Trespass::Writable { mode: meta.mode() & 0o7777 }));
    }
    Ok(None)
}

/// The same for secrets, which nobody else may read either.
pub fn check_secret(path: &Path) -> io::Result<Option<Trespass>> {
    if let Some(trespass) = check(path)? {
        return Ok(Some(trespass));
    }
    match fs::metadata(path) {
        Ok(meta) if meta.mode() & 0o077 != 0 => {
            Ok(Some(Trespass::Readable { mode: meta.mode() & 0o7777 }))
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(None),
    }
}

/// Started as root over state of an ordinary user: runs the same command again as that user, so
/// that no root-owned file is left in its way (borg#4263). Returns only where there is nothing to
/// step down from, or with the error of the attempt.
pub fn step_down(state: &Path, program: &Path, args: &[OsString]) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    // What does not exist yet will be its parent's.
    let Some(meta) = state.ancestors().find_map(|path| fs::metadata(path).ok()) else {
        return Ok(());
    };
    if meta.uid() == 0 {
        return Ok(());
    }
    Err(Command::new(program).args(args).uid(meta.uid()).gid(meta.gid()).exec())
}

/// This machine's name, as the kernel has it.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
