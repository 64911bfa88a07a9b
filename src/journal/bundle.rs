//! Entry bundles (c2sp.org/tlog-tiles): the lines themselves as files that never change.
//!
//! A bundle holds the 256 lines whose hashes fill one tile of level 0, each after its length
//! instead of before a line feed. The journal stays the source; bundles can be rebuilt from it.

use crate::journal::tile::{Tile, parse_position, position_path, tiles_between_at};

/// Largest line a bundle can hold, in bytes, because its length is a u16.
pub const ENTRY_BYTES_MAX: usize = u16::MAX as usize;

/// Which lines an entry bundle holds, without them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bundle {
    /// Position among the bundles; its first line is 256 times this.
    pub index: u64,
    /// Number of lines, 1 to 256; below 256 the bundle is partial.
    pub width: u16,
}

impl Bundle {
    /// The path under the log's prefix, such as `tile/entries/x001/x234/067.p/8`.
    pub fn path(&self) -> String {
        format!("tile/entries/{}", position_path(self.index, self.width))
    }

    /// Reads a path, only in the spelling that [`Bundle::path`] prints.
    pub fn parse_path(path: &str) -> Option<Self> {
        let (index, width) = parse_position(path.strip_prefix("tile/entries/")?)?;
        let bundle = Self { index, width };
        (bundle.path() == path).then_some(bundle)
    }
}

/// Why lines cannot be bundled, or a bundle cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// A line does not fit a bundle.
    #[error("a bundled line has {found} bytes, expected at most {ENTRY_BYTES_MAX}")]
    EntryTooLong {
        /// Bytes of the line.
        found: usize,
    },
    /// A bundle ends within a length or a line.
    #[error("the bundle ends within a line, expected {expected} more bytes")]
    Cut {
        /// Bytes missing.
        expected: usize,
    },
}

/// The bytes of a bundle: each line, without its line feed, after its length as a big-endian u16.
///
/// # Errors
/// [`BundleError::EntryTooLong`] when a line is longer than [`ENTRY_BYTES_MAX`].
pub fn bundle_bytes(lines: &[&[u8]]) -> Result<Vec<u8>, BundleError> {
    let mut bytes = Vec::with_capacity(lines.iter().map(|line| 2 + line.len()).sum());
    for line in lines {
        let length = u16::try_from(line.len())
            .map_err(|_| BundleError::EntryTooLong { found: line.len() })?;
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(line);
    }
    Ok(bytes)
}

/// Reads a bundle back into its lines.
///
/// # Errors
/// [`BundleError::Cut`] when the bytes end within a line.
pub fn parse_bundle(mut bytes: &[u8]) -> Result<Vec<&[u8]>, BundleError> {
    let mut lines = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = split(bytes, 2)?;
        let (line, rest) = split(rest, usize::from(length[0]) << 8 | usize::from(length[1]))?;
        lines.push(line);
        bytes = rest;
    }
    Ok(lines)
}

/// Every entry bundle to write when a log published at `old` lines is next published at `new`.
pub fn bundles_between(old: u64, new: u64) -> Vec<Bundle> {
    let as_bundle = |tile: Tile| Bundle { index: tile.index, width: tile.width };
    tiles_between_at(0, old, new).map(as_bundle).collect()
}

fn split(bytes: &[u8], at: usize) -> Result<(&[u8], &[u8]), BundleError> {
    let cut = || BundleError::Cut { expected: at - bytes.len() };
    bytes.split_at_checked(at).ok_or_else(cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_spelling() {
        assert_eq!(Bundle::parse_path("tile/entries/005"), Some(Bundle { index: 5, width: 256 }));
        assert_eq!(Bundle::parse_path("tile/0/005"), None);
    }

    #[test]
    fn a_bundle_round_trips_and_a_cut_one_is_refused() {
        let longest = vec![b'x'; ENTRY_BYTES_MAX];
        let lines: [&[u8]; 3] = [b"one", b"", &longest];
        let bytes = bundle_bytes(&lines).expect("every line fits");
        assert_eq!(parse_bundle(&bytes), Ok(lines.to_vec()));
        assert_eq!(parse_bundle(&bytes[..4]), Err(BundleError::Cut { expected: 1 }));
        assert_eq!(parse_bundle(&bytes[..1]), Err(BundleError::Cut { expected: 1 }));
        let too_long = vec![b'x'; ENTRY_BYTES_MAX + 1];
        let error = BundleError::EntryTooLong { found: ENTRY_BYTES_MAX + 1 };
        assert_eq!(bundle_bytes(&[&too_long]), Err(error));
    }
}
