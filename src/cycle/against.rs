//! `verify --against`: our published checkpoint held against the one that somebody else shows.
//!
//! Two checkpoints by one key must be two moments of one log. Where they are not, the two notes
//! together convict the key that signed both, so both are kept. What somebody merely says (a
//! number, a note by another key) convicts nobody.

use super::rounds::{PATIENCE, take_lock};
use crate::auth::vkey::VerifierKey;
use crate::config::Config;
use crate::error::{Failure, Kind};
use crate::host::{Host, Keep, Readers};
use crate::journal::checkpoint::{Checkpoint, open_checkpoint};
use crate::journal::merkle::Hash;
use crate::journal::note::{NOTE_BYTES_MAX, NoteError, SignedNote};
use crate::journal::proof::{Consistency, verify_consistency};
use crate::protocol::address::Address;
use crate::protocol::registration::parse_url;
use crate::store::audit::{Depth, audit};
use crate::store::disk::Disk;
use crate::store::view::View;
use crate::wire::call::{Call, Extent, Method, Read, Targets};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::time::Duration;

/// The time one request may take, in milliseconds.
const ASK_MS: u64 = 10_000;

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
/// `Failed` where nothing can be compared: nobody answers, or the answer is not by our log's key.
pub fn against(host: &dyn Host, config: &Config, url: &str) -> Result<Agreement, Failure> {
    let server = Server::named(host, url)?;
    let shown = server.fetch("/checkpoint")?;
    // Ours is read after theirs, or a line committed in between would look like one that we lost.
    let disk = Disk { host, layout: &config.layout };
    let view = View::open(disk)?;
    let (theirs, note) = opened(&view, &shown).map_err(|error| {
        let origin = &view.checkpoint.origin;
        Failure::failed(format!("{}/checkpoint is no checkpoint of {origin}: {error}", server.url))
    })?;
    if let Some(reason) = contradiction(&disk, &view, &theirs, &server)? {
        return Err(convict(&disk, &view, (&theirs, &note.render()), reason));
    }
    Ok(Agreement { url: server.url.to_owned(), ours: view.checkpoint.size, theirs: theirs.size })
}

/// Theirs under the log key in force or, where they lag, under the one before.
fn opened(view: &View<'_>, shown: &[u8]) -> Result<(Checkpoint, SignedNote), NoteError> {
    let before = view.fold.log.as_ref().and_then(|log| log.before.as_ref());
    let before = before.and_then(|(vkey, _)| VerifierKey::parse(vkey).ok());
    open_checkpoint(shown, &view.vkey)
        .or_else(|error| before.and_then(|vkey| open_checkpoint(shown, &vkey).ok()).ok_or(error))
}

/// Why the two cannot be of one log; `None` where they are.
fn contradiction(
    disk: &Disk<'_>,
    view: &View<'_>,
    theirs: &Checkpoint,
    server: &Server<'_>,
) -> Result<Option<String>, Failure> {
    let (ours, url) = (&view.checkpoint, server.url);
    if ours.size == 0 || theirs.size == 0 {
        return Err(Failure::failed("nothing to compare: one of the two logs is empty"));
    }
    match theirs.size.cmp(&ours.size) {
        Ordering::Equal => Ok((theirs.root != ours.root)
            .then(|| format!("{url} shows another root at the same size {}", ours.size))),
        Ordering::Less => earlier(disk, view, theirs, url),
        // Only the anchor signs, so for itself the signature alone tells (design section 6).
        Ordering::Greater if view.identity.is_anchor() => Ok(Some(format!(
            "{url} shows {} lines under our signature, but we hold {}: rolled back, or another machine signs with this key",
            theirs.size, ours.size
        ))),
        Ordering::Greater => later(ours, theirs, server),
    }
}

/// Theirs is the smaller one: our own tiles must lead to it.
fn earlier(
    disk: &Disk<'_>,
    view: &View<'_>,
    theirs: &Checkpoint,
    url: &str,
) -> Result<Option<String>, Failure> {
    let path = view.consistency(theirs.size, view.checkpoint.size)?;
    let Some(reason) = broken(theirs, &view.checkpoint, &path) else {
        return Ok(None);
    };
    // Tiles are derived: before somebody is accused, they are held against the journal.
    audit(disk, Depth::Full)?;
    Ok(Some(format!(
        "our {} lines do not begin with the {} that {url} shows: {reason}",
        view.checkpoint.size, theirs.size
    )))
}

/// Theirs is the larger one: they have to prove that it continues ours.
fn later(
    ours: &Checkpoint,
    theirs: &Checkpoint,
    server: &Server<'_>,
) -> Result<Option<String>, Failure> {
    let (old, new, url) = (ours.size, theirs.size, server.url);
    let answer = server.fetch(&format!("/consistency?old={old}&new={new}"))?;
    let growth: Growth = serde_json::from_slice(&answer)
        .map_err(|error| Failure::failed(format!("{url}/consistency does not read: {error}")))?;
    if (growth.old, growth.new) != (old, new) {
        return Err(Failure::failed(format!(
            "{url}/consistency answered {} to {} when asked {old} to {new}",
            growth.old, growth.new
        ))
        .hint("something between may keep answers without looking at the query"));
    }
    let lines = format!("the {new} lines that {url} shows");
    Ok(broken(ours, theirs, &growth.path)
        .map(|reason| format!("{lines} do not continue our {old}: {reason}")))
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
fn convict(
    disk: &Disk<'_>,
    view: &View<'_>,
    (theirs, note): (&Checkpoint, &str),
    reason: String,
) -> Failure {
    let ours = &view.checkpoint;
    let kept = keep(disk, ("ours", ours), &view.note)
        .and_then(|mine| Ok((mine, keep(disk, ("theirs", theirs), note)?)));
    let hint = match kept {
        Ok((mine, other)) => format!("both notes are kept: {mine} and {other}"),
        Err(failure) => format!("the notes could not be kept: {}", failure.message),
    };
    Failure::integrity(reason).hint(hint)
}

/// Writes one note under `state/evidence` and returns its path. Earlier evidence is never replaced.
fn keep(
    disk: &Disk<'_>,
    (whose, checkpoint): (&str, &Checkpoint),
    note: &str,
) -> Result<String, Failure> {
    // The writer of `state/tmp` holds this lock: a tick would clear the file away half-written.
    let _one_writer = take_lock(disk.host, &disk.layout.state(), PATIENCE)?
        .ok_or_else(|| Failure::new(Kind::Busy, "another process works on the journal"))?;
    let folder = disk.layout.evidence();
    for private in [&folder, &disk.layout.state().join("tmp")] {
        disk.folder(private, true)?;
    }
    let mut path = folder.join(format!("{whose}-{}.txt", checkpoint.size));
    if disk.read(&path)?.is_some_and(|held| held != note.as_bytes()) {
        path = folder.join(format!("{whose}-{}-{}.txt", checkpoint.size, checkpoint.root));
    }
    disk.put(&path, note.as_bytes(), (Keep::Durable, Readers::Usual))?;
    Ok(path.display().to_string())
}

/// Who is asked.
struct Server<'a> {
    host: &'a dyn Host,
    url: &'a str,
    address: Address,
}

impl<'a> Server<'a> {
    fn named(host: &'a dyn Host, url: &'a str) -> Result<Self, Failure> {
        let address = parse_url(url).map_err(|error| Failure::new(Kind::Usage, error))?;
        Ok(Server { host, url: url.trim_end_matches('/'), address })
    }

    /// One GET whose answer is 200 and whole.
    fn fetch(&self, path: &str) -> Result<Vec<u8>, Failure> {
        let call = Call {
            method: Method::Get,
            address: self.address.clone(),
            path: path.to_owned(),
            host_header: self.address.authority(),
            headers: Vec::new(),
            body: Vec::new(),
            timeout: Duration::from_millis(ASK_MS),
            read: Read::Body { max: NOTE_BYTES_MAX },
            targets: Targets::Any,
        };
        let until = self.host.clock().boot_ms + ASK_MS;
        let why = match self.host.dial(&[call], until).into_iter().next() {
            Some(Ok(reply)) if reply.status != 200 => format!("answered {}", reply.status),
            Some(Ok(reply)) if reply.extent == Extent::Whole => return Ok(reply.body),
            Some(Ok(_)) => "the answer is cut short or too long".to_owned(),
            Some(Err(fault)) => fault.to_string(),
            None => "not asked".to_owned(),
        };
        Err(Failure::failed(format!("{}{path}: {why}", self.url)))
    }
}
