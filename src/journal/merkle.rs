//! The Merkle tree over journal lines (RFC 6962 2.1): hashes, frontier, root.
//!
//! A tree of any size is a row of perfect subtrees, one for each one-bit of the size, biggest
//! first. Keeping only their roots (the frontier, at most 64 hashes) is enough to append forever
//! and to name the root at any moment. A node without a partner is promoted unchanged; pairing it
//! with a copy of itself instead gives different lists one root (CVE-2012-2459).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};

/// Prefix of a leaf's hash input; it keeps a line from passing as an inner node (RFC 6962 2.1).
const LEAF_PREFIX: [u8; 1] = [0x00];
/// Prefix of an inner node's hash input (RFC 6962 2.1).
const NODE_PREFIX: [u8; 1] = [0x01];

/// A SHA-256 hash: of a leaf, of an inner node, or a root. Hex in lines, base64 in checkpoints.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// Reads exactly 64 lower-case hex digits, the only spelling that [`fmt::Display`] prints.
    ///
    /// # Errors
    /// [`HashError::Hex`] for any other length, upper case or a foreign character.
    pub fn parse_hex(text: &str) -> Result<Self, HashError> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(HashError::Hex);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
        }
        Ok(Self(bytes))
    }

    /// Reads the 44 characters of padded standard base64 that checkpoints and proofs use.
    ///
    /// # Errors
    /// [`HashError::Base64`] for another alphabet, padding or length, or stray trailing bits.
    pub fn parse_base64(text: &str) -> Result<Self, HashError> {
        let bytes = STANDARD.decode(text).map_err(|_| HashError::Base64)?;
        bytes.try_into().map(Self).map_err(|_| HashError::Base64)
    }

    /// The hash as 44 characters of padded standard base64.
    pub fn to_base64(self) -> String {
        STANDARD.encode(self.0)
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(HexVisitor)
    }
}

/// Why a text is not a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HashError {
    /// The hex form is not what [`Hash::parse_hex`] takes.
    #[error("expected 64 lower-case hex digits")]
    Hex,
    /// The base64 form is not what [`Hash::parse_base64`] takes.
    #[error("expected 44 characters of padded standard base64")]
    Base64,
}

/// The hash of one line, without its line feed: SHA-256(0x00 || line) (RFC 6962 2.1).
pub fn leaf_hash(line: &[u8]) -> Hash {
    digest(&[&LEAF_PREFIX, line])
}

/// The hash of an inner node: SHA-256(0x01 || left || right) (RFC 6962 2.1).
pub fn node_hash(left: Hash, right: Hash) -> Hash {
    digest(&[&NODE_PREFIX, &left.0, &right.0])
}

/// The root of the tree without leaves: SHA-256 of nothing (RFC 6962 2.1).
pub fn empty_root() -> Hash {
    digest(&[])
}

/// The root over `leaves` in order, in one pass and without a copy of them.
pub fn root_of(leaves: &[Hash]) -> Hash {
    let mut frontier = Frontier::new();
    leaves.iter().for_each(|leaf| frontier.push(*leaf));
    frontier.root()
}

/// Joins neighbouring perfect subtrees, biggest first, into the root above them all.
///
/// Joining starts at the right, so a smaller subtree is promoted until it meets its neighbour.
pub fn join_subtrees(roots: &[Hash]) -> Hash {
    let joined = roots.iter().copied().rev().reduce(|right, left| node_hash(left, right));
    joined.unwrap_or_else(empty_root)
}

/// The compact range of a tree: enough to append and to name the root, not to prove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontier {
    size: u64,
    hashes: Vec<Hash>,
}

impl Frontier {
    /// The frontier of the empty tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// Rebuilds a frontier from what [`Frontier::size`] and [`Frontier::hashes`] gave.
    ///
    /// # Errors
    /// [`FrontierError`] unless there is one hash for each one-bit of `size`. Whether they are
    /// the right hashes only a comparison of roots can tell.
    pub fn from_parts(size: u64, hashes: Vec<Hash>) -> Result<Self, FrontierError> {
        let expected = size.count_ones() as usize;
        if hashes.len() != expected {
            return Err(FrontierError { size, expected, found: hashes.len() });
        }
        Ok(Self { size, hashes })
    }

    /// Appends one leaf; amortised one node hash.
    pub fn push(&mut self, leaf: Hash) {
        // Each trailing one-bit of the size is a perfect subtree that the new leaf completes into
        // one of twice its size, as a carry runs through a binary counter.
        let kept = self.hashes.len() - self.size.trailing_ones() as usize;
        let merged =
            self.hashes.drain(kept..).rev().fold(leaf, |right, left| node_hash(left, right));
        self.hashes.push(merged);
        self.size += 1;
    }

    /// The root of the tree so far.
    pub fn root(&self) -> Hash {
        join_subtrees(&self.hashes)
    }

    /// Number of leaves.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Roots of the perfect subtrees, biggest first.
    pub fn hashes(&self) -> &[Hash] {
        &self.hashes
    }
}

/// The number of frontier hashes does not fit the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a tree of {size} leaves has {expected} frontier hashes, found {found}")]
pub struct FrontierError {
    /// Number of leaves claimed.
    pub size: u64,
    /// Number of one-bits in `size`.
    pub expected: usize,
    /// Number of hashes given.
    pub found: usize,
}

fn digest(parts: &[&[u8]]) -> Hash {
    let hasher = parts.iter().fold(Sha256::new(), |hasher, part| hasher.chain_update(part));
    Hash(hasher.finalize().into())
}

fn hex_digit(digit: u8) -> Result<u8, HashError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(HashError::Hex),
    }
}

struct HexVisitor;

impl de::Visitor<'_> for HexVisitor {
    type Value = Hash;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", HashError::Hex)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Hash, E> {
        Hash::parse_hex(text).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_round_trip() {
        let hash = leaf_hash(b"line");
        assert_eq!(Hash::parse_hex(&hash.to_string()), Ok(hash));
        assert_eq!(Hash::parse_base64(&hash.to_base64()), Ok(hash));
    }

    #[test]
    fn every_other_spelling_is_refused() {
        let hex = empty_root().to_string();
        for bad in [hex.to_uppercase(), format!(" {hex}"), hex[1..].into(), "é".repeat(32)] {
            assert_eq!(Hash::parse_hex(&bad), Err(HashError::Hex), "{bad}");
        }
        let base64 = empty_root().to_base64();
        // The last digit before the padding carries two unused bits: `U=` and `V=` decode alike
        // in a careless reader.
        let stray_bits = base64.replace("FU=", "FV=");
        assert_ne!(stray_bits, base64);
        let unpadded = base64.trim_end_matches('=').to_string();
        let url_safe = base64.replace('+', "-").replace('/', "_");
        let bytes_31 = STANDARD.encode([0; 31]);
        for bad in [stray_bits, unpadded, url_safe, bytes_31, format!("{base64}\n")] {
            assert_eq!(Hash::parse_base64(&bad), Err(HashError::Base64), "{bad}");
        }
    }

    #[test]
    fn a_frontier_needs_one_hash_for_each_one_bit() {
        let hash = empty_root();
        assert!(Frontier::from_parts(5, vec![hash; 2]).is_ok());
        let error = FrontierError { size: 5, expected: 2, found: 3 };
        assert_eq!(Frontier::from_parts(5, vec![hash; 3]), Err(error));
    }
}
