//! Crossing over to a later epoch: another node serialises, and perhaps since before our last lines.
//!
//! What counts is an `anchor` line that the log key before it, or the recovery key, signed: an
//! operator's act, provable to everybody who holds the lines before it (design section 9). Our own
//! lines beyond the place where the two part are kept whole, and what members signed among them is
//! merged again.

use super::fork;
use super::server::Server;
use crate::auth::keys;
use crate::auth::vkey::VerifierKey;
use crate::error::Failure;
use crate::journal::checkpoint::open_checkpoint;
use crate::journal::line::Line;
use crate::journal::merkle::Hash;
use crate::journal::note::SignedNote;
use crate::journal::page::{ANSWER_BYTES_MAX, End, Page};
use crate::journal::prefix::Prefix;
use crate::journal::record::Record;
use crate::journal::replay::{LogKeys, Succession};
use crate::store::cut::{self, Cut};
use crate::store::disk::Disk;
use crate::store::identity::Identity;
use crate::store::pages::leaf;
use crate::store::scan::{self, Start};
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

/// What somebody shows under a log key that we do not know.
#[derive(Clone, Debug)]
pub(super) enum Found {
    /// Nothing that counts.
    Nothing,
    /// An epoch that is in force instead of ours.
    Later(Box<Crossing>),
    /// Our own log key named a successor at this line, and wrote on here.
    Fork(u64),
}

/// The first line after a fork that begins an epoch.
#[derive(Clone, Debug)]
struct Turn {
    kid: Option<String>,
    size: u64,
    leaf: Hash,
}

/// The other history as far as it was shown.
struct Theirs {
    prefix: Prefix,
    /// Lines that both have.
    fork: u64,
    parted: bool,
    turn: Option<Turn>,
}

/// Looks for the proof that `server` shows an epoch that is in force instead of ours.
///
/// A journal that merely goes on from ours is as good as its signatures. But only the recovery key
/// ends a history that wrote on: a log key that was stolen, or is in an old backup, could begin any
/// number of epochs below our last lines. Of two that it began the one that got further counts.
pub(super) fn shown_by(
    disk: &Disk<'_>,
    identity: &Identity,
    server: &Server<'_>,
) -> Result<Found, Failure> {
    let Ok((ours, floor)) = View::signed(*disk) else { return Ok(Found::Nothing) };
    let size = floor.size;
    let Some(common) = fork::common(disk, (&identity.origin, size), server)? else {
        return Ok(Found::Nothing);
    };
    let prefix = scan::prefix(disk, &identity.origin, common.min(size))?;
    let mut theirs = Theirs { fork: prefix.tip.size, prefix, parted: false, turn: None };
    for _ in 0..PAGES_MAX {
        let Some(end) = theirs.next_page(disk, size, server)? else { return Ok(Found::Nothing) };
        let Some(log) = theirs.prefix.fold.log.clone() else { return Ok(Found::Nothing) };
        if theirs.turn.is_some() && is_signed(&log, &theirs.prefix, &end) {
            return weighed((disk, &ours, size), &theirs, (&log, server));
        }
    }
    Ok(Found::Nothing)
}

/// Which of the two is in force.
fn weighed(
    (disk, ours, size): (&Disk<'_>, &View<'_>, u64),
    theirs: &Theirs,
    (log, server): (&LogKeys, &Server<'_>),
) -> Result<Found, Failure> {
    let (Some(turn), Some(succession)) = (&theirs.turn, &log.succession) else {
        return Ok(Found::Nothing);
    };
    let origin = &ours.identity.origin;
    let held = ours.fold.log.as_ref().map_or(0, |log| log.epoch);
    let recovery = ours.fold.recovery_kid();
    let stays = scan::prefix(disk, origin, theirs.fork)?;
    let crossing = Crossing {
        succession: succession.clone(),
        epoch: log.epoch,
        common: theirs.fork,
        bytes: stays.bytes,
        url: server.url.clone(),
    };
    if theirs.fork == size {
        return Ok(match log.epoch > held {
            true => Found::Later(Box::new(crossing)),
            false => Found::Nothing,
        });
    }
    if turn.kid != recovery {
        let own = kid_of(&ours.identity.vkey);
        return Ok(match turn.kid == own {
            true => Found::Fork(turn.size),
            false => Found::Nothing,
        });
    }
    let mut mine = None;
    let start = Start { tip: stays.tip, bytes: stays.bytes };
    scan::walk(disk, start, size, &mut |step| {
        mine = mine.take().or_else(|| Turn::of(step.line, step.tip.head));
        Ok(())
    })?;
    let mine = mine.filter(|mine| mine.kid == recovery);
    let wins = mine
        .is_none_or(|mine| (log.epoch, turn.size, turn.leaf.0) > (held, mine.size, mine.leaf.0));
    Ok(if wins { Found::Later(Box::new(crossing)) } else { Found::Nothing })
}

impl Turn {
    fn of(line: &Line, leaf: Hash) -> Option<Turn> {
        let Record::Anchor(_) = Record::of(line) else { return None };
        let kid = line.author.as_ref().map(|author| author.kid.clone());
        Some(Turn { kid, size: line.seq, leaf })
    }
}

impl Theirs {
    /// Takes in the next page; `None` where it does not follow or brings nothing.
    fn next_page(
        &mut self,
        disk: &Disk<'_>,
        size: u64,
        server: &Server<'_>,
    ) -> Result<Option<End>, Failure> {
        let tip = &self.prefix.tip;
        let path = format!("/sync?size={}&since={}", tip.size, tip.head);
        let Ok(answer) = server.fetch(&path, ANSWER_BYTES_MAX) else { return Ok(None) };
        let Ok(page) = Page::parse(&answer) else { return Ok(None) };
        for raw in &page.lines {
            let seq = self.prefix.tip.size;
            if self.prefix.take(raw).is_err() {
                return Ok(None);
            }
            let head = self.prefix.tip.head;
            // What a server says of where we part is its word: the lines tell.
            self.parted = self.parted || leaf(disk, size, seq)? != Some(head);
            if !self.parted {
                self.fork = seq + 1;
            } else if self.turn.is_none() {
                self.turn = Line::parse(raw).ok().and_then(|line| Turn::of(&line, head));
            }
        }
        Ok(page.end.filter(|_| !page.lines.is_empty() && self.prefix.forged.is_none()))
    }
}

fn kid_of(vkey: &str) -> Option<String> {
    let vkey = VerifierKey::parse(vkey).ok()?;
    Some(keys::kid(vkey.name(), vkey.key()))
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
    let again = match kept.operators.is_empty() {
        true => String::new(),
        false => {
            format!("; what the anchor's operator has to do again: {}", kept.operators.join(", "))
        }
    };
    Ok(format!(
        "{} serialises in epoch {epoch}, which began before our last lines: ours after the first {common} are kept in {}, and what members signed among them is merged again{again}",
        succession.anchor, kept.path
    ))
}
