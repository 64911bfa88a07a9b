//! One answer of `/sync`: lines, a blank line, the signed checkpoint and, where the lines end short
//! of it, the proof that they are its beginning.
//!
//! Whoever holds the tree over the lines before can check a page by itself: the lines must chain,
//! and their root must be the signed one or provably lead to it. Until then they are bytes that
//! somebody sent. A reader with fewer lines than the checkpoint is never shown more of it than
//! this, so a page that breaks off costs its rest and nothing else.

use super::merkle::Hash;
use super::note::NOTE_BYTES_MAX;

/// Most bytes of lines in one page (design section 9).
pub const PAGE_BYTES_MAX: u64 = 1 << 20;
/// Fewest bytes of lines that may be asked for: any line fits.
pub const PAGE_BYTES_MIN: u64 = 32 << 10;
/// Largest whole answer: lines, checkpoint, and a proof of at most 64 hashes.
pub const ANSWER_BYTES_MAX: usize = PAGE_BYTES_MAX as usize + NOTE_BYTES_MAX + 64 * 45 + 2;

/// A page as it came: nothing in it is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Whole lines without their line feeds.
    pub lines: Vec<Vec<u8>>,
    /// The signed checkpoint with the proof that leads to it; `None` where the answer broke off.
    pub end: Option<End>,
}

/// What stands behind the lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The signed note, verbatim.
    pub note: String,
    /// Consistency proof from the page's last line to the note; empty where the page ends there.
    pub path: Vec<Hash>,
}

impl Page {
    /// Reads an answer. One that breaks off anywhere still gives the whole lines before.
    ///
    /// # Errors
    /// Says what stands where the checkpoint or its proof should.
    pub fn parse(answer: &[u8]) -> Result<Page, String> {
        let mut lines = Vec::new();
        let mut rest = answer;
        while let Some(length) = rest.iter().position(|byte| *byte == b'\n') {
            let line = &rest[..length];
            rest = &rest[length + 1..];
            if line.is_empty() {
                let end = if is_whole(rest) { Some(End::parse(rest)?) } else { None };
                return Ok(Page { lines, end });
            }
            lines.push(line.to_vec());
        }
        Ok(Page { lines, end: None })
    }

    /// Prints a page; `lines` end with a line feed each.
    pub fn render(lines: &[u8], end: &End) -> Vec<u8> {
        let mut answer = Vec::with_capacity(lines.len() + end.note.len() + 64);
        answer.extend_from_slice(lines);
        answer.push(b'\n');
        answer.extend_from_slice(end.note.as_bytes());
        if !end.path.is_empty() {
            answer.push(b'\n');
        }
        for hash in &end.path {
            answer.extend_from_slice(hash.to_base64().as_bytes());
            answer.push(b'\n');
        }
        answer
    }
}

/// Whether a note's blank line is there and the last line is ended: else it was cut.
fn is_whole(rest: &[u8]) -> bool {
    rest.ends_with(b"\n") && !rest.ends_with(b"\n\n") && rest.windows(2).any(|two| two == b"\n\n")
}

impl End {
    fn parse(rest: &[u8]) -> Result<End, String> {
        let text = std::str::from_utf8(rest).map_err(|_| "the checkpoint is not UTF-8")?;
        // A checkpoint's body has no blank line, so the first one is before its signatures.
        let mut parts = text.splitn(3, "\n\n");
        let (Some(body), Some(signatures)) = (parts.next(), parts.next()) else {
            return Err("the checkpoint has no signature".to_owned());
        };
        let Some(proof) = parts.next() else {
            return Ok(End { note: text.to_owned(), path: Vec::new() });
        };
        let path = proof
            .lines()
            .map(Hash::parse_base64)
            .collect::<Result<Vec<Hash>, _>>()
            .map_err(|error| format!("the proof after the checkpoint: {error}"))?;
        Ok(End { note: format!("{body}\n\n{signatures}\n"), path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::merkle::leaf_hash;

    fn end(hashes: u8) -> End {
        let path = (0..hashes).map(|n| leaf_hash(&[n])).collect();
        End { note: "o\n3\nroot\n\n\u{2014} o c2ln\n".to_owned(), path }
    }

    #[test]
    fn every_page_reads_back() {
        for (lines, hashes) in [("", 0), ("a\nbb\n", 0), ("a\n", 3)] {
            let sent = Page::render(lines.as_bytes(), &end(hashes));
            let page = Page::parse(&sent).expect("our own page");
            let found: Vec<&[u8]> = page.lines.iter().map(Vec::as_slice).collect();
            let wanted: Vec<&[u8]> = lines.lines().map(str::as_bytes).collect();
            assert_eq!((found, page.end), (wanted, Some(end(hashes))));
        }
    }

    #[test]
    fn a_cut_at_any_byte_keeps_whole_lines_and_never_a_false_end() {
        let sent = Page::render(b"first\nsecond\n", &end(2));
        for length in 0..sent.len() {
            let Ok(page) = Page::parse(&sent[..length]) else { continue };
            let whole = [6, 13].iter().filter(|end| **end <= length).count();
            assert_eq!(page.lines.len(), whole, "cut at {length}");
            if let Some(cut) = page.end {
                assert!(end(2).path.starts_with(&cut.path), "cut at {length}");
                assert!(end(2).note.starts_with(&cut.note), "cut at {length}");
            }
        }
    }

    #[test]
    fn rubbish_where_the_checkpoint_should_be_is_told() {
        assert!(Page::parse(b"a\n\nnot base64\n\nsig\n\n!!\n").is_err());
        assert!(Page::parse(b"a\n\n\xff\n\n\xff\n").is_err());
    }
}
