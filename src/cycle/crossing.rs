//! Crossing over to a later epoch: another node serialises, and perhaps since before our last lines.
//!
//! What counts is an `anchor` line that the log key before it, or the recovery key, signed: an
//! operator's act, provable to everybody who holds the lines before it (design section 9). Our own
//! lines beyond the place where the two part are kept whole, and what members signed among them is
//! merged again.

use super::fork;
use super::server::Server;
use crate::auth::vkey::VerifierKey;
use crate::error::Failure;
use crate::journal::checkpoint::open_checkpoint;
use crate::journal::note::SignedNote;
use crate::journal::page::{ANSWER_BYTES_MAX, End, Page};
use crate::journal::prefix::Prefix;
use crate::journal::replay::{LogKeys, Succession};
use crate::store::cut::{self, Cut};
use crate::store::disk::Disk;
use crate::store::identity::Identity;
use crate::store::scan;
use crate::store::view::View;

/// Pages read of the other epoch before the line that begins it must have come.
const PAGES_MAX: usize = 64;

/// A later epoch, proven.
#[derive(Clone, Debug)]
pub(super) struct Crossing {
    /// Who serialises in it.
    pub(super) succession: Succession,
    /// Its number.
    pub(super) epoch: u64,
    /// Lines that both have.
    common: u64,
    /// Their length in bytes.
    bytes: u64,
    /// Who shows it.
    pub(super) url: String,
}

/// Whether a note could be by a log key of ours that we do not know yet: it names our origin.
pub(super) fn is_of_origin(note: &[u8], origin: &str) -> bool {
    SignedNote::parse(note).is_ok_and(|note| note.body.split('\n').next() == Some(origin))
}

/// Whether a note is a checkpoint of another federation.
pub(super) fn is_of_another(note: &[u8], origin: &str) -> bool {
    SignedNote::parse(note).is_ok() && !is_of_origin(note, origin)
}

/// Looks for the proof that `server` shows a later epoch than ours; `None` where it gives none.
pub(super) fn shown_by(
    disk: &Disk<'_>,
    identity: &Identity,
    server: &Server<'_>,
) -> Result<Option<Crossing>, Failure> {
    let Ok((ours, floor)) = View::signed(*disk) else { return Ok(None) };
    let Some(common) = fork::common(disk, (&identity.origin, ours.checkpoint.size), server)? else {
        return Ok(None);
    };
    let mut theirs = scan::prefix(disk, &identity.origin, common.min(floor.size))?;
    let (common, bytes) = (theirs.tip.size, theirs.bytes);
    let held = ours.fold.log.as_ref().map_or(0, |log| log.epoch);
    for _ in 0..PAGES_MAX {
        let Some(end) = next_page(&mut theirs, server) else { return Ok(None) };
        let Some(log) = later(&theirs, held) else { continue };
        if is_signed(log, &theirs, &end) {
            let Some(succession) = log.succession.clone() else { return Ok(None) };
            let (epoch, url) = (log.epoch, server.url.clone());
            return Ok(Some(Crossing { succession, epoch, common, bytes, url }));
        }
    }
    Ok(None)
}

/// The page after `theirs`, taken in; `None` where it does not follow or brings nothing.
fn next_page(theirs: &mut Prefix, server: &Server<'_>) -> Option<End> {
    let path = format!("/sync?size={}&since={}", theirs.tip.size, theirs.tip.head);
    let answer = server.fetch(&path, ANSWER_BYTES_MAX).ok()?;
    let page = Page::parse(&answer).ok()?;
    page.lines.iter().try_for_each(|line| theirs.take(line)).ok()?;
    page.end.filter(|_| !page.lines.is_empty() && theirs.forged.is_none())
}

fn later(theirs: &Prefix, held: u64) -> Option<&LogKeys> {
    theirs.fold.log.as_ref().filter(|log| log.epoch > held)
}

/// Whether the checkpoint is by the key that the lines name, and covers them.
fn is_signed(log: &LogKeys, theirs: &Prefix, end: &End) -> bool {
    let vkey = VerifierKey::parse(&log.vkey).ok();
    let opened = vkey.and_then(|vkey| open_checkpoint(&end.note, &vkey).ok());
    opened.is_some_and(|(checkpoint, _)| theirs.proves(&checkpoint, &end.path).is_ok())
}

/// Cuts our journal where the epochs part; the append lock is held. Returns what was done, in words.
pub(super) fn cut(disk: &Disk<'_>, crossing: &Crossing) -> Result<String, Failure> {
    let Crossing { succession, epoch, common, bytes, .. } = crossing;
    let kept = cut::begin(disk, &Cut { size: *common, bytes: *bytes })?;
    Ok(format!(
        "{} serialises in epoch {epoch}, which began before our last lines: ours after the first {common} are kept in {kept}, and what members signed among them is merged again",
        succession.anchor
    ))
}
