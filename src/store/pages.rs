//! What `/sync` sends: the published lines after a place, in pages that cost the same at any size.

use super::branch::Branch;
use super::disk::Disk;
use super::identity::Identity;
use super::index;
use super::scan::{self, Start};
use super::tree;
use super::view::Published;
use crate::auth::mac::HMAC_SHA256;
use crate::error::Failure;
use crate::host::Span;
use crate::journal::branch::{BRANCH_PAGE_BYTES_MAX, Twig, stored};
use crate::journal::chain::{Tip, origin_hash};
use crate::journal::locator::Place;
use crate::journal::merkle::Hash;
use crate::journal::page::{End, PAGE_BYTES_MAX, PAGE_BYTES_MIN, Page};
use crate::journal::proof::consistency_proof;
use crate::journal::tile::{TILE_WIDTH, Tile};

/// Whether the published journal has `place.size` lines that end with `place.head`.
pub fn holds(disk: &Disk<'_>, published: &Published, place: Place) -> Result<bool, Failure> {
    if place.size > published.checkpoint.size {
        return Ok(false);
    }
    let Some(last) = place.size.checked_sub(1) else {
        return Ok(place.head == origin_hash(&published.identity.origin));
    };
    Ok(leaf(disk, published.checkpoint.size, last)? == Some(place.head))
}

/// The leaf hash of line `seq` in the tree of `size` lines.
pub fn leaf(disk: &Disk<'_>, size: u64, seq: u64) -> Result<Option<Hash>, Failure> {
    let Some(tile) = Tile::in_tree(0, seq / TILE_WIDTH, size) else {
        return Ok(None);
    };
    Ok(tree::read_tile(disk, tile)?.get((seq % TILE_WIDTH) as usize).copied())
}

/// What `/sync?branch` sends: the lines that wait for an anchor, as they stand, or where that is more
/// than others read, the newest words among them. Those that are signed with a key shared with the
/// anchor are nobody else's to check. Behind a blank line stands what this member saw in its last
/// tick, signed; an anchor has nothing to say that is not in the journal.
pub fn branch(disk: &Disk<'_>) -> Result<Vec<u8>, Failure> {
    let branch = Branch::load(disk)?;
    let shared =
        |twig: &&Twig| twig.line.author.as_ref().is_some_and(|author| author.alg == HMAC_SHA256);
    let identity = Identity::require(disk)?;
    let path = disk.layout.observation(identity.id.as_str());
    let alone = identity.is_anchor() || disk.length(&disk.layout.key("shared"))?.is_some();
    let observation = disk.read(&path)?.filter(|_| !alone);
    let told = observation.map(|text| [b"\n", &*text, b"\n"].concat()).unwrap_or_default();
    let room = BRANCH_PAGE_BYTES_MAX.saturating_sub(told.len());
    let mut page = stored(branch.lines().filter(|twig| !shared(twig)));
    if page.len() > room {
        page = stored(branch.newest_words(room, |twig| !shared(&twig)).into_iter());
    }
    page.extend_from_slice(&told);
    Ok(page)
}

/// The page after the first `from` lines, with at most `most` bytes of lines.
pub fn page(
    disk: &Disk<'_>,
    published: &Published,
    (from, most): (u64, u64),
) -> Result<Vec<u8>, Failure> {
    let size = published.checkpoint.size;
    let lines = match from < size {
        true => whole_lines(disk, published, (from, most))?,
        false => Vec::new(),
    };
    let to = from + lines.iter().filter(|byte| **byte == b'\n').count() as u64;
    let path = match to < size {
        true => consistency_proof(to, size, |tile| tree::read_part(disk, tile, size))?,
        false => Vec::new(),
    };
    Ok(Page::render(&lines, &End { note: published.note.clone(), path }))
}

/// Whole lines from line `from` on, none of them beyond the checkpoint.
fn whole_lines(
    disk: &Disk<'_>,
    published: &Published,
    (from, most): (u64, u64),
) -> Result<Vec<u8>, Failure> {
    let at = match index::offset(disk, from)? {
        Some(at) => at,
        None => walked_to(disk, published, from)?,
    };
    let span = Span { from: at, most: most.clamp(PAGE_BYTES_MIN, PAGE_BYTES_MAX) };
    let mut bytes = disk.read_span(&disk.layout.journal(), span)?;
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let wanted = usize::try_from(published.checkpoint.size - from).unwrap_or(usize::MAX);
    let end = ends.take(wanted).last().unwrap_or(0);
    bytes.truncate(end);
    Ok(bytes)
}

/// The offset of a line that the index does not reach.
fn walked_to(disk: &Disk<'_>, published: &Published, from: u64) -> Result<u64, Failure> {
    let start = Start { tip: Tip::origin(&published.identity.origin), bytes: 0 };
    Ok(scan::walk(disk, start, from, &mut |_| Ok(()))?.bytes)
}
