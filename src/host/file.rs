//! The few functions that touch the disk, each complete or an error.
//!
//! No handle is used again after a failed sync: the kernel may have marked the lost pages clean
//! (fsyncgate), so the process ends and the next one reads the disk afresh. What a call reports as
//! done is looked at before anything rests on it: a write that went nowhere is an error of this run,
//! not a shorter journal of the next.

use super::{Change, Entry, Keep, Readers, Span};
use rustix::process::{Resource, getrlimit};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// A file of ours is written as itself or not at all: a link could lead into the live gateway.
const NO_LINK: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

pub(super) fn read(path: &Path, span: Span) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    if span.from > 0 {
        file.seek(SeekFrom::Start(span.from))?;
    }
    let mut bytes = Vec::new();
    file.take(span.most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(super) fn entry(path: &Path) -> io::Result<Option<Entry>> {
    match fs::metadata(path) {
        Ok(meta) => {
            let link = fs::symlink_metadata(path)?.is_symlink();
            Ok(Some(Entry { bytes: meta.size(), link }))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn names(folder: &Path) -> io::Result<Vec<String>> {
    let listing = match fs::read_dir(folder) {
        Ok(listing) => listing,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for found in listing {
        names.push(found?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

pub(super) fn change(change: Change<'_>) -> io::Result<()> {
    match change {
        Change::Append { path, at, bytes, keep } => append(path, at, bytes, keep),
        Change::Cut { path, bytes } => cut(path, bytes),
        Change::Replace { path, via, bytes, keep, readers } => {
            replace(path, via, bytes, (keep, readers)).inspect_err(|_| {
                // Best effort: a leftover would be overwritten by the next run anyway.
                let _ = fs::remove_file(via);
            })
        }
        Change::Folder { path, private } => folder(path, private),
        Change::Remove { path } => remove(path),
    }
}

fn append(path: &Path, at: u64, bytes: &[u8], keep: Keep) -> io::Result<()> {
    let end = at + bytes.len() as u64;
    within_limit(end)?;
    let before = entry(path)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(NO_LINK)
        .open(path)?;
    file.seek(SeekFrom::Start(at))?;
    let written = write_out(&mut file, bytes, end).and_then(|()| match keep {
        Keep::Durable => file.sync_data(),
        Keep::Cached => Ok(()),
    });
    if let Err(error) = written {
        // Best effort: what remains of the torn bytes is set aside by the next recovery. What the
        // file held before stays: lines written again are already somebody's.
        let _ = file.set_len(before.map_or(at, |before| before.bytes));
        return Err(error);
    }
    if before.is_none() && keep == Keep::Durable {
        sync_folder_of(path)?;
    }
    Ok(())
}

/// Writes all of it, up to offset `end`, and looks whether it is there.
fn write_out(file: &mut File, bytes: &[u8], end: u64) -> io::Result<()> {
    file.write_all(bytes)?;
    done(file.metadata()?.len() >= end)
}

/// Beyond the limit on file sizes (`ulimit -f`) the kernel ends the process by SIGXFSZ without a
/// word, perhaps in the middle of a line, so nothing is begun that would reach it.
fn within_limit(end: u64) -> io::Result<()> {
    match getrlimit(Resource::Fsize).current {
        Some(most) if end > most => Err(io::ErrorKind::FileTooLarge.into()),
        _ => Ok(()),
    }
}

fn done(seen: bool) -> io::Result<()> {
    if seen {
        return Ok(());
    }
    Err(io::Error::other("the disk reports success and did nothing"))
}

/// Tries again what a signal interrupted: std does so for reads, writes and syncs, but not for names.
fn again<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            ended => return ended,
        }
    }
}

fn cut(path: &Path, bytes: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).custom_flags(NO_LINK).open(path)?;
    file.set_len(bytes)?;
    done(file.metadata()?.len() == bytes)?;
    file.sync_all()
}

fn replace(path: &Path, via: &Path, bytes: &[u8], how: (Keep, Readers)) -> io::Result<()> {
    let (keep, readers) = how;
    within_limit(bytes.len() as u64)?;
    // Never through a link that somebody put there: the old name goes, a new file comes.
    match again(|| fs::remove_file(via)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    if readers == Readers::Owner {
        options.mode(0o600);
    }
    let mut file = options.open(via)?;
    if readers == Readers::Everybody {
        file.set_permissions(Permissions::from_mode(0o644))?;
    }
    write_out(&mut file, bytes, bytes.len() as u64)?;
    if keep == Keep::Durable {
        file.sync_all()?;
    }
    drop(file);
    again(|| fs::rename(via, path))?;
    done(is_absent(via)?)?;
    if keep == Keep::Durable {
        sync_folder_of(path)?;
    }
    Ok(())
}

fn folder(path: &Path, private: bool) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    if private {
        builder.mode(0o700);
    }
    again(|| builder.create(path))?;
    sync_folder_of(path)
}

/// Durable like everything else: a key that was put away must not come back with the power.
fn remove(path: &Path) -> io::Result<()> {
    let removed = again(|| match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    });
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        ended => ended?,
    }
    done(is_absent(path)?)?;
    sync_folder_of(path)
}

fn is_absent(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        found => found.map(|_| false),
    }
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}
