//! Walks the journal line by line in bounded memory.

use super::disk::Disk;
use crate::error::Failure;
use crate::host::Span;
use crate::journal::chain::Tip;
use crate::journal::line::{LINE_BYTES_MAX, Line};
use crate::journal::prefix::Prefix;

/// Bytes read at once.
const CHUNK_BYTES: u64 = 1 << 20;

/// Where a walk begins: the tip there and the byte offset of the next line.
#[derive(Clone, Debug)]
pub struct Start {
    /// What the next line must continue.
    pub tip: Tip,
    /// Its offset.
    pub bytes: u64,
}

/// Where and why a walk ended.
#[derive(Clone, Debug)]
pub struct End {
    /// The tip after the last good line.
    pub tip: Tip,
    /// Offset right after it.
    pub bytes: u64,
    /// Why the next line is none; `None` at the clean end of the file or at the wanted size.
    pub reason: Option<String>,
}

/// One good line on the walk.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Its bytes without LF.
    pub raw: &'a [u8],
    /// Parsed.
    pub line: &'a Line,
    /// Its leaf hash, and the ts.
    pub tip: &'a Tip,
    /// Offset of its first byte.
    pub at: u64,
}

/// The first `size` lines with the tree over them and what they mean; fewer where there are not as
/// many. They are ours, so nobody's signature is checked.
pub fn prefix(disk: &Disk<'_>, origin: &str, size: u64) -> Result<Prefix, Failure> {
    let mut prefix = Prefix::origin(origin);
    let start = Start { tip: prefix.tip.clone(), bytes: 0 };
    let end = walk(disk, start, size, &mut |step| {
        prefix.frontier.push(step.tip.head);
        prefix.fold.apply(step.line);
        Ok(())
    })?;
    Ok(Prefix { tip: end.tip, bytes: end.bytes, ..prefix })
}

/// Visits the chained lines from `start` on until `size_max` lines, the end, or the first line
/// that is none.
pub fn walk(
    disk: &Disk<'_>,
    start: Start,
    size_max: u64,
    visit: &mut dyn FnMut(Step<'_>) -> Result<(), Failure>,
) -> Result<End, Failure> {
    let path = disk.layout.journal();
    let mut end = End { tip: start.tip, bytes: start.bytes, reason: None };
    let mut read_to = start.bytes;
    let mut pending: Vec<u8> = Vec::new();
    while end.tip.size < size_max {
        let chunk = disk.read_span(&path, Span { from: read_to, most: CHUNK_BYTES })?;
        if chunk.is_empty() {
            end.reason = (!pending.is_empty()).then(|| "the line has no end".to_owned());
            return Ok(end);
        }
        read_to += chunk.len() as u64;
        pending.extend_from_slice(&chunk);
        let used = visit_whole_lines(&pending, size_max, &mut end, visit)?;
        if end.reason.is_some() {
            return Ok(end);
        }
        pending.drain(..used);
        if pending.len() > LINE_BYTES_MAX && end.tip.size < size_max {
            end.reason = Some(format!("the line has more than {LINE_BYTES_MAX} bytes"));
            return Ok(end);
        }
    }
    Ok(end)
}

fn visit_whole_lines(
    bytes: &[u8],
    size_max: u64,
    end: &mut End,
    visit: &mut dyn FnMut(Step<'_>) -> Result<(), Failure>,
) -> Result<usize, Failure> {
    let mut used = 0;
    while end.tip.size < size_max {
        let Some(length) = bytes[used..].iter().position(|byte| *byte == b'\n') else {
            break;
        };
        let raw = &bytes[used..used + length];
        match end.tip.accept(raw) {
            Ok(line) => visit(Step { raw, line: &line, tip: &end.tip, at: end.bytes })?,
            Err(error) => {
                end.reason = Some(error.to_string());
                break;
            }
        }
        used += length + 1;
        end.bytes += length as u64 + 1;
    }
    Ok(used)
}
