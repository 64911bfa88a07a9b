//! Where another log under our log's key parts from ours, shown by its own lines.
//!
//! A checkpoint that does not fit and a server that cannot show why may be a broken server. Lines
//! that continue what both share, differ from ours and give the root under the log's signature are
//! something else: then one key signed two histories.

use super::server::Server;
use crate::error::Failure;
use crate::journal::chain::{Tip, origin_hash};
use crate::journal::checkpoint::open_checkpoint;
use crate::journal::locator::{self, Place, sizes_back_from, sizes_between};
use crate::journal::merkle::Hash;
use crate::journal::page::{ANSWER_BYTES_MAX, Page};
use crate::journal::prefix::Prefix;
use crate::journal::replay::Fold;
use crate::journal::tile::frontier_from_edge;
use crate::store::disk::Disk;
use crate::store::pages::leaf;
use crate::store::tree::{self, ReadError};
use crate::store::view::Published;
use serde::Deserialize;

/// Rounds of questions after which we give up: more than any honest search needs.
const ROUNDS_MAX: usize = 16;
/// Pages read of the other history.
const PAGES_MAX: usize = 64;

/// Two histories under one signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    /// The first line that differs.
    pub line: u64,
    /// The other history's signed checkpoint, verbatim.
    pub note: String,
    /// Its size.
    pub size: u64,
}

/// What a 409 of `/sync` says, none of it signed but the checkpoint.
#[derive(Debug, Deserialize)]
pub(super) struct Unknown {
    /// Their signed checkpoint.
    pub(super) checkpoint: String,
    /// Lines of the largest place in the locator that they have too.
    common: Option<u64>,
}

/// Looks for the proof that `server` shows another history; `None` where it gives none.
pub fn shown_by(
    disk: &Disk<'_>,
    ours: &Published,
    server: &Server<'_>,
) -> Result<Option<Fork>, Failure> {
    let place = (ours.identity.origin.as_str(), ours.checkpoint.size);
    let Some(common) = common(disk, place, server)? else {
        return Ok(None);
    };
    let Some(mut theirs) = ours_up_to(disk, ours, common)? else {
        return Ok(None);
    };
    let mine = leaf(disk, ours.checkpoint.size, common)?;
    let mut first = None;
    for _ in 0..PAGES_MAX {
        let (size, head) = (theirs.tip.size, theirs.tip.head);
        let path = format!("/sync?size={size}&since={head}");
        let Ok(answer) = server.fetch(&path, ANSWER_BYTES_MAX) else { return Ok(None) };
        let Some((page, end)) = whole(&answer) else { return Ok(None) };
        for line in &page.lines {
            if theirs.take(line).is_err() {
                return Ok(None);
            }
            first = first.or(Some(theirs.tip.head));
        }
        let Ok((checkpoint, _)) = open_checkpoint(&end.note, &ours.vkey) else { return Ok(None) };
        if theirs.proves(&checkpoint, &end.path).is_err() || page.lines.is_empty() {
            return Ok(None);
        }
        if first != mine {
            // The page is proven to be of a tree that the key signed: the rest adds nothing.
            return Ok(Some(Fork { line: common, note: end.note, size: checkpoint.size }));
        }
    }
    Ok(None)
}

fn whole(answer: &[u8]) -> Option<(Page, crate::journal::page::End)> {
    let mut page = Page::parse(answer).ok()?;
    let end = page.end.take()?;
    Some((page, end))
}

/// Lines that both have, as `server` says: narrowed down to the one after which they part.
pub(super) fn common(
    disk: &Disk<'_>,
    (origin, size): (&str, u64),
    server: &Server<'_>,
) -> Result<Option<u64>, Failure> {
    let (mut common, mut differing) = (0, size);
    let mut asked = sizes_back_from(size);
    for _ in 0..ROUNDS_MAX {
        if differing - common <= 1 {
            return Ok(Some(common));
        }
        let places = places(disk, size, &asked)?;
        let Some(told) = told((origin, size), server, &places) else { return Ok(None) };
        // What they say only steers the search: the lines themselves decide.
        let known = told.filter(|known| asked.contains(known)).unwrap_or(common);
        differing = asked.iter().copied().filter(|at| *at > known).fold(differing, u64::min);
        common = known.max(common);
        asked = sizes_between(common, differing);
    }
    Ok(None)
}

fn told((origin, size): (&str, u64), server: &Server<'_>, places: &[Place]) -> Option<Option<u64>> {
    if places.is_empty() {
        return None;
    }
    // A position that nobody has, so that the answer is about the locator.
    let none = origin_hash(&format!("{origin}/none"));
    let path = format!("/sync?size={size}&since={none}&locator={}", locator::render(places));
    let reply = server.ask(&path, ANSWER_BYTES_MAX).ok().filter(|reply| reply.status == 409)?;
    serde_json::from_slice::<Unknown>(&reply.body).ok().map(|unknown| unknown.common)
}

fn places(disk: &Disk<'_>, size: u64, asked: &[u64]) -> Result<Vec<Place>, Failure> {
    let mut places = Vec::with_capacity(asked.len());
    for at in asked {
        if let Some(head) = leaf(disk, size, at - 1)? {
            places.push(Place { size: *at, head });
        }
    }
    Ok(places)
}

/// Our first `size` lines, as far as continuing them needs.
fn ours_up_to(disk: &Disk<'_>, ours: &Published, size: u64) -> Result<Option<Prefix>, Failure> {
    let held = ours.checkpoint.size;
    let head = match size.checked_sub(1) {
        Some(last) => leaf(disk, held, last)?,
        None => Some(origin_hash(&ours.identity.origin)),
    };
    let read = |tile| tree::read_part(disk, tile, held);
    let frontier = frontier_from_edge::<ReadError>(size, read).map_err(Failure::from)?;
    Ok(head.map(|head: Hash| Prefix {
        tip: Tip { size, head, ts: 0 },
        frontier,
        fold: Fold::default(),
        bytes: 0,
        forged: None,
    }))
}
