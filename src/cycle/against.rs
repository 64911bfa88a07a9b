//! Our published checkpoint held against the one that somebody else shows.
//!
//! Two checkpoints by one key must be two moments of one log. Where they are not, the two notes
//! together convict the key that signed both, so both are kept. What somebody merely says (a
//! number, a note by another key, a proof that does not hold) convicts nobody.

use super::fork::{self, Fork};
use super::pull::locked;
use super::server::Server;
use crate::auth::vkey::VerifierKey;
use crate::config::Config;
use crate::error::Failure;
use crate::host::{Host, Keep, Readers};
use crate::journal::checkpoint::{Checkpoint, open_checkpoint};
use crate::journal::merkle::Hash;
use crate::journal::note::{NOTE_BYTES_MAX, NoteError, SignedNote};
use crate::journal::proof::{Consistency, consistency_proof, verify_consistency};
use crate::journal::replay::Fold;
use crate::store::audit::{Depth, audit};
use crate::store::disk::Disk;
use crate::store::tree::{self, ReadError};
use crate::store::view::{Published, View};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Both sides show one log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Agreement {
    /// Who was asked.
    pub url: String,
    /// Lines under our checkpoint.
    pub ours: u64,
    /// Lines under theirs.
    pub theirs: u64,
}

/// A checkpoint by our log's key, and who shows it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// What it says.
    pub theirs: &'a Checkpoint,
    /// The signed note, verbatim.
    pub note: &'a str,
    /// Who shows it.
    pub url: &'a str,
}

/// What `/consistency` answers, as far as we believe it: nothing but the path, which is checked.
#[derive(Deserialize)]
struct Growth {
    old: u64,
    new: u64,
    path: Vec<Hash>,
}

/// Asks `url` for its checkpoint and proves that it and ours are of one log.
///
/// # Errors
/// Kind `Integrity` where the two contradict each other, with both notes in `state/evidence`;
/// `Failed` where nothing can be compared: nobody answers, the answer is not by our log's key, or
/// it does not show how it continues ours.
pub fn against(host: &dyn Host, config: &Config, url: &str) -> Result<Agreement, Failure> {
    let server = Server::named(host, url)?;
    let shown = server.fetch("/checkpoint", NOTE_BYTES_MAX)?;
    // Ours is read after theirs, or a line committed in between would look like one that we lost.
    let disk = Disk { host, layout: &config.layout };
    let view = View::open(disk)?;
    let (theirs, note) = opened(&view.fold, &view.vkey, &shown).map_err(|error| {
        let origin = &view.checkpoint.origin;
        Failure::failed(format!("{}/checkpoint is no checkpoint of {origin}: {error}", server.url))
    })?;
    let ours = Published::read(&disk)?;
    let seen = Seen { theirs: &theirs, note: &note.render(), url: &server.url };
    expect_one_log(&disk, &ours, (&seen, &server))?;
    Ok(Agreement { url: server.url.clone(), ours: ours.checkpoint.size, theirs: theirs.size })
}

/// Theirs under the log key in force or, where they lag, under the one before.
pub fn opened(
    fold: &Fold,
    vkey: &VerifierKey,
    shown: &[u8],
) -> Result<(Checkpoint, SignedNote), NoteError> {
    let before = fold.log.as_ref().and_then(|log| log.before.as_ref());
    let before = before.and_then(|(vkey, _)| VerifierKey::parse(vkey).ok());
    open_checkpoint(shown, vkey)
        .or_else(|error| before.and_then(|vkey| open_checkpoint(shown, &vkey).ok()).ok_or(error))
}

fn expect_one_log(
    disk: &Disk<'_>,
    ours: &Published,
    (seen, server): (&Seen<'_>, &Server<'_>),
) -> Result<(), Failure> {
    if ours.checkpoint.size == 0 || seen.theirs.size == 0 {
        return Err(Failure::failed("nothing to compare: one of the two logs is empty"));
    }
    if seen.theirs.size <= ours.checkpoint.size {
        return expect_earlier(disk, ours, seen);
    }
    // Only the anchor signs, so for itself the signature alone tells (design section 6).
    if ours.identity.is_anchor() {
        return Err(rolled_back(disk, ours, seen));
    }
    later(disk, ours, (seen, server))
}

/// Their checkpoint, no larger than ours, must be an earlier moment of our log.
///
/// # Errors
/// Kind `Integrity` with both notes kept: the two are two histories under one signature.
pub fn expect_earlier(disk: &Disk<'_>, ours: &Published, seen: &Seen<'_>) -> Result<(), Failure> {
    let (old, new) = (seen.theirs.size, ours.checkpoint.size);
    let Some(reason) = contradiction(disk, ours, seen.theirs)? else {
        return Ok(());
    };
    // Tiles are derived: before somebody is accused, they are held against the journal.
    audit(disk, Depth::Full)?;
    let url = seen.url;
    let told = match old == new {
        true => format!("{url} shows another root at the same size {new}"),
        false => format!("our {new} lines do not begin with the {old} that {url} shows: {reason}"),
    };
    Err(convict(disk, ours, (old, seen.note), told))
}

/// Why a checkpoint that is not larger than ours is no earlier moment of our log, by our tiles.
pub(super) fn contradiction(
    disk: &Disk<'_>,
    ours: &Published,
    theirs: &Checkpoint,
) -> Result<Option<String>, Failure> {
    let (old, new) = (theirs.size, ours.checkpoint.size);
    // Nothing is earlier than an empty log, and what is later contradicts nothing by its size.
    if old == 0 || old > new {
        return Ok(None);
    }
    let read = |tile| tree::read_part(disk, tile, new);
    let path = match old.cmp(&new) {
        Ordering::Less => consistency_proof::<ReadError>(old, new, read).map_err(Failure::from)?,
        _ => Vec::new(),
    };
    Ok(broken(theirs, &ours.checkpoint, &path))
}

/// Our own signature on more lines than we hold.
pub fn rolled_back(disk: &Disk<'_>, ours: &Published, seen: &Seen<'_>) -> Failure {
    let told = format!(
        "{} shows {} lines under our signature, but we hold {}: rolled back, or another machine signs with this key",
        seen.url, seen.theirs.size, ours.checkpoint.size
    );
    convict(disk, ours, (seen.theirs.size, seen.note), told)
}

/// Another history that its own lines prove.
pub fn forked(disk: &Disk<'_>, ours: &Published, fork: &Fork, url: &str) -> Failure {
    let told = format!(
        "fork: line {} is another one in the {} lines that {url} shows, under the same signature as our {}",
        fork.line, fork.size, ours.checkpoint.size
    );
    convict(disk, ours, (fork.size, &fork.note), told)
}

/// Theirs is the larger one: they have to prove that it continues ours.
fn later(
    disk: &Disk<'_>,
    ours: &Published,
    (seen, server): (&Seen<'_>, &Server<'_>),
) -> Result<(), Failure> {
    let (old, new, url) = (ours.checkpoint.size, seen.theirs.size, &server.url);
    let Some(reason) = unlike_growth(ours, seen.theirs, server)? else {
        return Ok(());
    };
    if let Some(fork) = fork::shown_by(disk, ours, server)? {
        return Err(forked(disk, ours, &fork, url));
    }
    let kept = keep_unproven(disk, seen);
    Err(Failure::failed(format!(
        "{url} does not show that its {new} lines continue our {old}: {reason}{kept}"
    ))
    .hint("a broken server or a fork: verify --against another member tells more"))
}

/// Why the larger checkpoint that `server` shows does not continue ours, by its own proof.
pub(super) fn unlike_growth(
    ours: &Published,
    theirs: &Checkpoint,
    server: &Server<'_>,
) -> Result<Option<String>, Failure> {
    let (old, new, url) = (ours.checkpoint.size, theirs.size, &server.url);
    let answer = server.fetch(&format!("/consistency?old={old}&new={new}"), NOTE_BYTES_MAX)?;
    let growth: Growth = serde_json::from_slice(&answer)
        .map_err(|error| Failure::failed(format!("{url}/consistency does not read: {error}")))?;
    if (growth.old, growth.new) != (old, new) {
        return Err(Failure::failed(format!(
            "{url}/consistency answered {} to {} when asked {old} to {new}",
            growth.old, growth.new
        ))
        .hint("something between may keep answers without looking at the query"));
    }
    Ok(broken(&ours.checkpoint, theirs, &growth.path))
}

fn broken(old: &Checkpoint, new: &Checkpoint, path: &[Hash]) -> Option<String> {
    let claim = Consistency {
        old_size: old.size,
        old_root: old.root,
        new_size: new.size,
        new_root: new.root,
        path,
    };
    verify_consistency(&claim).err().map(|error| error.to_string())
}

/// The failure, with both notes kept as evidence.
fn convict(disk: &Disk<'_>, ours: &Published, (size, note): (u64, &str), told: String) -> Failure {
    let kept = keep(disk, ("ours", ours.checkpoint.size), &ours.note)
        .and_then(|mine| Ok((mine, keep(disk, ("theirs", size), note)?)));
    let hint = match kept {
        Ok((mine, other)) => format!("both notes are kept: {mine} and {other}"),
        Err(failure) => format!("the notes could not be kept: {}", failure.message),
    };
    Failure::integrity(told).hint(hint)
}

/// Keeps a note that may belong to another history, and says so in words to append. It convicts
/// nobody: that takes a contradiction that the signatures alone show.
pub fn keep_unproven(disk: &Disk<'_>, seen: &Seen<'_>) -> String {
    match keep(disk, ("unproven", seen.theirs.size), seen.note) {
        Ok(path) => format!("; kept as {path}"),
        Err(failure) => format!("; not kept: {}", failure.message),
    }
}

/// Writes one note under `state/evidence` and returns its path. Earlier evidence is never replaced.
fn keep(disk: &Disk<'_>, (whose, size): (&str, u64), note: &str) -> Result<String, Failure> {
    // The writer of `state/tmp` holds this lock: a tick would clear the file away half-written.
    locked(disk, || {
        let folder = disk.layout.evidence();
        for private in [&folder, &disk.layout.state().join("tmp")] {
            disk.folder(private, true)?;
        }
        let mut path = folder.join(format!("{whose}-{size}.txt"));
        if disk.read(&path)?.is_some_and(|held| held != note.as_bytes()) {
            let root = note.lines().nth(2).unwrap_or_default();
            let name: String = root.chars().filter(char::is_ascii_alphanumeric).take(16).collect();
            path = folder.join(format!("{whose}-{size}-{name}.txt"));
        }
        disk.put(&path, note.as_bytes(), (Keep::Durable, Readers::Usual))?;
        Ok(path.display().to_string())
    })
}
