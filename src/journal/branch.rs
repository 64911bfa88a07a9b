//! `branch.ndjson`: what was said while no anchor answered, in lines like the journal's.
//!
//! A branch grows on the last line of the journal that its writer holds. It is one or more runs: a
//! run goes on while each line continues the one before, and where one does not a new run begins,
//! on a newer journal or on another one. So lines that are in the journal by now can be taken out
//! anywhere, and what is left is a branch again. Nothing here is believed: each line carries its
//! author's signature, and the chain only shows that none was changed on the way.

use super::line::Line;
use super::merkle::{Hash, leaf_hash};

/// Largest file in bytes (design section 16).
pub const BRANCH_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Most lines of one request (design section 16).
pub const MERGE_LINES_MAX: usize = 1_000;
/// Most bytes that a member shows of its branch, with the observation behind them: what others read
/// in each tick while no anchor answers.
pub const BRANCH_PAGE_BYTES_MAX: usize = 128 * 1024;
/// Most bytes of lines of one request.
pub const MERGE_BYTES_MAX: usize = 1 << 20;

/// One line with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Twig {
    /// Its bytes without LF.
    pub raw: Vec<u8>,
    /// Parsed.
    pub line: Line,
    /// Its leaf hash.
    pub leaf: Hash,
}

impl Twig {
    /// Reads one line.
    ///
    /// # Errors
    /// Says what it is instead.
    pub fn parse(raw: &[u8]) -> Result<Twig, String> {
        let line = Line::parse(raw).map_err(|error| error.to_string())?;
        Ok(Twig { raw: raw.to_vec(), line, leaf: leaf_hash(raw) })
    }
}

/// Lines that continue one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// At least one.
    lines: Vec<Twig>,
}

impl Run {
    /// Lines of the journal on top of which it was said.
    pub fn fork(&self) -> u64 {
        self.lines.first().map_or(0, |first| first.line.seq)
    }

    /// Leaf hash of its last line.
    pub fn head(&self) -> Hash {
        self.lines.last().map_or(Hash([0; 32]), |last| last.leaf)
    }

    /// Its lines, oldest first.
    pub fn lines(&self) -> &[Twig] {
        &self.lines
    }

    /// Its lines, oldest first.
    pub fn into_lines(self) -> Vec<Twig> {
        self.lines
    }

    /// Its lines as stored, with their line feeds.
    pub fn bytes(&self) -> Vec<u8> {
        stored(self.lines.iter())
    }

    /// The same lines in runs that one request can carry.
    pub fn parts(&self) -> Vec<Run> {
        let mut parts: Vec<Run> = Vec::new();
        let mut bytes = 0;
        for twig in &self.lines {
            let more = twig.raw.len() + 1;
            match parts.last_mut() {
                Some(part)
                    if part.lines.len() < MERGE_LINES_MAX && bytes + more < MERGE_BYTES_MAX =>
                {
                    part.lines.push(twig.clone());
                    bytes += more;
                }
                _ => {
                    parts.push(Run { lines: vec![twig.clone()] });
                    bytes = more;
                }
            }
        }
        parts
    }

    fn goes_on_with(&self, next: &Twig) -> bool {
        let seq = self.lines.last().map(|last| last.line.seq + 1);
        seq == Some(next.line.seq) && self.head() == next.line.prev
    }
}

/// Lines as a file holds them.
pub fn stored<'a>(lines: impl Iterator<Item = &'a Twig>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for twig in lines {
        bytes.extend_from_slice(&twig.raw);
        bytes.push(b'\n');
    }
    bytes
}

/// Reads a branch up to the first bytes that are no line, such as a torn end, and says how many
/// bytes that were. A blank line ends it too: what stands behind one is not of the branch.
pub fn parse(bytes: &[u8]) -> (Vec<Run>, usize) {
    let (mut runs, mut good): (Vec<Run>, usize) = (Vec::new(), 0);
    for raw in bytes.split_inclusive(|byte| *byte == b'\n') {
        let twig = raw.strip_suffix(b"\n").and_then(|line| Twig::parse(line).ok());
        let Some(twig) = twig else { break };
        good += raw.len();
        match runs.last_mut().filter(|run| run.goes_on_with(&twig)) {
            Some(run) => run.lines.push(twig),
            None => runs.push(Run { lines: vec![twig] }),
        }
    }
    (runs, good)
}

/// The one run that a request must carry.
///
/// # Errors
/// Names the line, counted from 1, that is none or does not continue the one before.
pub fn one_run(bytes: &[u8]) -> Result<Run, String> {
    let mut run = Run { lines: Vec::new() };
    for (number, raw) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        let whole = raw.strip_suffix(b"\n").ok_or_else(|| format!("line {number} is cut"))?;
        let twig = Twig::parse(whole).map_err(|error| format!("line {number}: {error}"))?;
        if !run.lines.is_empty() && !run.goes_on_with(&twig) {
            return Err(format!("line {number} does not continue the line before"));
        }
        run.lines.push(twig);
    }
    if run.lines.is_empty() {
        return Err("no line after the head".to_owned());
    }
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::line::VERSION;

    fn twig(seq: u64, prev: Hash) -> Twig {
        let line = Line {
            author: None,
            payload: format!("{{\"n\":{seq}}}"),
            prev,
            seq,
            ts: 7,
            kind: "drain".to_owned(),
            version: VERSION,
        };
        Twig::parse(line.render().as_bytes()).unwrap()
    }

    fn chain(fork: u64, count: u64) -> Vec<Twig> {
        let mut prev = leaf_hash(b"journal");
        let next = |seq| {
            let twig = twig(seq, prev);
            prev = twig.leaf;
            twig
        };
        (fork..fork + count).map(next).collect()
    }

    #[test]
    fn a_file_is_runs_and_taking_lines_out_leaves_runs() {
        let lines = chain(5, 4);
        let (runs, good) = parse(&stored(lines.iter()));
        assert_eq!((runs.len(), runs[0].fork(), runs[0].head()), (1, 5, lines[3].leaf));
        assert_eq!(good, stored(lines.iter()).len());
        let (left, _) = parse(&stored([&lines[0], &lines[2], &lines[3]].into_iter()));
        let forks: Vec<u64> = left.iter().map(Run::fork).collect();
        assert_eq!(forks, [5, 7]);
        assert_eq!(left[1].head(), lines[3].leaf);
        let newer = chain(9, 2);
        let (both, _) = parse(&stored(lines.iter().chain(&newer)));
        assert_eq!(both.iter().map(|run| run.lines().len()).collect::<Vec<_>>(), [4, 2]);
    }

    #[test]
    fn a_cut_at_any_byte_keeps_the_whole_lines_before() {
        let lines = chain(0, 3);
        let bytes = stored(lines.iter());
        for length in 0..=bytes.len() {
            let (runs, good) = parse(&bytes[..length]);
            let whole = bytes[..length].iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(runs.iter().map(|run| run.lines().len()).sum::<usize>(), whole);
            assert_eq!(good, stored(lines[..whole].iter()).len(), "cut at {length}");
        }
    }

    #[test]
    fn what_stands_behind_a_blank_line_is_not_of_the_branch() {
        let lines = chain(0, 2);
        let bytes = [stored(lines[..1].iter()), b"\n".to_vec(), stored(lines[1..].iter())].concat();
        let (runs, good) = parse(&bytes);
        assert_eq!((runs[0].lines().len(), good), (1, lines[0].raw.len() + 1));
    }

    #[test]
    fn parts_are_runs_that_one_request_can_carry() {
        let (runs, _) = parse(&stored(chain(0, 2_500).iter()));
        let parts = runs[0].parts();
        assert_eq!(
            parts.iter().map(|part| part.lines().len()).collect::<Vec<_>>(),
            [1_000, 1_000, 500]
        );
        for part in &parts {
            assert_eq!(one_run(&part.bytes()).as_ref(), Ok(part));
            assert!(part.bytes().len() <= MERGE_BYTES_MAX);
        }
        assert_eq!(parts[1].fork(), 1_000);
    }

    #[test]
    fn one_run_names_the_line_that_does_not_fit() {
        let lines = chain(3, 3);
        let gap = stored([&lines[0], &lines[2]].into_iter());
        assert!(one_run(&gap).unwrap_err().starts_with("line 2 does not continue"));
        let mut changed = stored(lines.iter());
        let at = changed.iter().position(|byte| *byte == b'7').unwrap();
        changed[at] = b'8';
        assert!(one_run(&changed).unwrap_err().starts_with("line 2"));
        assert!(one_run(b"").is_err() && one_run(b"{}\n").unwrap_err().starts_with("line 1:"));
        let bytes = stored(lines.iter());
        assert!(one_run(&bytes[..bytes.len() - 1]).unwrap_err().contains("line 3 is cut"));
    }
}
