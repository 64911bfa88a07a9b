//! Which of two words of one member holds: the higher incarnation, then the greater digest.
//!
//! Incarnations order what one machine says. Two machines with one key may say different things at
//! one incarnation; then the SHA-256 of what was signed decides, which is the same wherever and in
//! whichever order the two are heard (design section 8, "Precedence"). Time decides nothing.

use super::member::Incarnation;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt;

/// SHA-256 of what was signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// Below every other: of a word whose signed text is not at hand.
    pub const LEAST: Digest = Digest([0; 32]);
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let refused = || serde::de::Error::custom("expected 64 lower-case hex digits");
        let digits = text.as_bytes();
        if digits.len() != 64 || !text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(refused());
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| refused())?;
        }
        Ok(Digest(bytes))
    }
}

/// A place in the order of one member's words; the greater one holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Word {
    /// At which incarnation it was said.
    #[serde(rename = "inc")]
    pub incarnation: Incarnation,
    /// Of what was signed; absent where nothing was said at that incarnation yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

impl Word {
    /// Something signed at this incarnation.
    pub fn said(incarnation: Incarnation, digest: Digest) -> Word {
        Word { incarnation, digest: Some(digest) }
    }

    /// What is said at this incarnation or above counts; nothing was yet.
    pub fn awaited(incarnation: Incarnation) -> Word {
        Word { incarnation, digest: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incarnation_first_then_the_digest() {
        let inc = |value| Incarnation::new(value).unwrap();
        let (low, high) = (Digest::LEAST, Digest([7; 32]));
        let order = [
            Word::default(),
            Word::said(inc(0), low),
            Word::awaited(inc(1)),
            Word::said(inc(1), low),
            Word::said(inc(1), high),
            Word::said(inc(2), low),
        ];
        assert!(order.is_sorted() && order[0] == Word::awaited(inc(0)));
    }

    #[test]
    fn a_digest_reads_back_from_its_one_spelling() {
        let digest = Digest::of(b"x");
        let text = serde_json::to_string(&digest).unwrap();
        assert_eq!(serde_json::from_str::<Digest>(&text).unwrap(), digest);
        assert!(serde_json::from_str::<Digest>(&text.to_uppercase()).is_err());
        assert!(serde_json::from_str::<Digest>("\"한글\"").is_err());
    }
}
