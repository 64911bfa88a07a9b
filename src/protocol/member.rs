//! Who a member is and how alive it is: ids, liveness, incarnations, and the one order of precedence.
//!
//! Intuition: every statement about a member is a pair (incarnation, liveness). The pairs are
//! totally ordered, a member holds the greatest one it has been told of, and so the order in
//! which statements arrive cannot matter.

use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use unicode_normalization::UnicodeNormalization;

/// Longest node id in characters (design section 1).
pub const NODE_ID_CHARS_MAX: usize = 64;
/// Largest integer that every JSON reader keeps exact: 2^53 - 1.
pub const INTEGER_MAX: u64 = (1 << 53) - 1;

/// A node's name: NFC, 1-64 of `A-Z a-z 0-9 _ . -` and Hangul syllables.
///
/// Two spellings that differ in case only are one node, in every comparison and every table
/// (design section 1); each keeps the spelling it was typed in.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct NodeId(String);

/// Why a text is no node id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeIdError {
    /// Empty or longer than [`NODE_ID_CHARS_MAX`].
    #[error("node id has {0} characters, expected 1 to {NODE_ID_CHARS_MAX}")]
    Length(usize),
    /// A character outside the alphabet, printed escaped.
    #[error("node id holds '{0}', expected A-Z a-z 0-9 _ . - or Hangul syllables")]
    Character(String),
    /// `.` or `..`, which would name a folder.
    #[error("node id is '{0}', which names a folder")]
    Dots(String),
}

impl NodeId {
    /// Reads an id; a decomposed (NFD) Hangul name becomes its NFC form.
    pub fn parse(text: &str) -> Result<Self, NodeIdError> {
        let id: String = text.nfc().collect();
        let chars = id.chars().count();
        if chars == 0 || chars > NODE_ID_CHARS_MAX {
            return Err(NodeIdError::Length(chars));
        }
        if let Some(bad) = id.chars().find(|c| !in_name_alphabet(*c)) {
            return Err(NodeIdError::Character(bad.escape_default().to_string()));
        }
        if id == "." || id == ".." {
            return Err(NodeIdError::Dots(id));
        }
        Ok(NodeId(id))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The form under which two ids are the same node.
    pub fn folded(&self) -> String {
        self.0.to_ascii_lowercase()
    }

    /// The bytes of that form; only ASCII letters of the alphabet have a case.
    fn folded_bytes(&self) -> impl Iterator<Item = u8> + '_ {
        self.0.bytes().map(|byte| byte.to_ascii_lowercase())
    }
}

impl PartialEq for NodeId {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for NodeId {}

impl Ord for NodeId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.folded_bytes().cmp(other.folded_bytes())
    }
}

impl PartialOrd for NodeId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for NodeId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.folded_bytes().for_each(|byte| state.write_u8(byte));
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for NodeId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let id = NodeId::parse(&text).map_err(serde::de::Error::custom)?;
        if id.0 != text {
            return Err(serde::de::Error::custom("node id is not in NFC form"));
        }
        Ok(id)
    }
}

/// Characters of node ids and service names.
pub(crate) fn in_name_alphabet(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '가'..='힣')
}

/// How alive the federation holds a member to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Liveness {
    /// Answers, or has not been doubted (T 티).
    Alive,
    /// Doubted; still routed, after the alive ones (O 옴).
    Suspect,
    /// Withdrawn from the map (A 타).
    Dead,
    /// Said goodbye itself.
    Left,
    /// Its key was revoked by the anchor; terminal for that key.
    Revoked,
}

impl Liveness {
    /// The word used in lines, maps and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Liveness::Alive => "alive",
            Liveness::Suspect => "suspect",
            Liveness::Dead => "dead",
            Liveness::Left => "left",
            Liveness::Revoked => "revoked",
        }
    }

    /// Whether it has neither gone nor been sent away: a dead one may be back any time.
    pub fn may_answer(self) -> bool {
        matches!(self, Liveness::Alive | Liveness::Suspect | Liveness::Dead)
    }

    /// Whether routes may lead there.
    pub fn is_routable(self) -> bool {
        matches!(self, Liveness::Alive | Liveness::Suspect)
    }
}

/// A number only the subject raises (for keyless roster rows: the anchor).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Incarnation(u64);

impl Incarnation {
    /// The incarnation every member starts with.
    pub const FIRST: Incarnation = Incarnation(0);

    /// `None` beyond 2^53 - 1.
    pub fn new(value: u64) -> Option<Self> {
        (value <= INTEGER_MAX).then_some(Incarnation(value))
    }

    /// The plain number.
    pub fn value(self) -> u64 {
        self.0
    }

    /// One higher, or the same at the very end: a counter that wraps would let one accusation
    /// evict a node for ever (memberlist#358).
    #[must_use]
    pub fn raised(self) -> Self {
        Incarnation((self.0 + 1).min(INTEGER_MAX))
    }
}

impl<'de> Deserialize<'de> for Incarnation {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = u64::deserialize(deserializer)?;
        Incarnation::new(value).ok_or_else(|| serde::de::Error::custom("incarnation beyond 2^53-1"))
    }
}

/// One statement about a member: at this incarnation it is so alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Standing {
    /// How alive.
    pub liveness: Liveness,
    /// At which incarnation.
    #[serde(rename = "inc")]
    pub incarnation: Incarnation,
}

impl Standing {
    /// Whether `told` replaces `held`: incarnation first, then alive < suspect < dead < left;
    /// revoked beats everything and is beaten by nothing (design section 8, "Precedence").
    pub fn superseded_by(self, told: Standing) -> bool {
        use Liveness::{Alive, Dead, Left, Revoked, Suspect};
        match (self.liveness, told.liveness) {
            (Revoked, _) => false,
            (_, Revoked) => true,
            (Alive | Suspect | Dead | Left, Alive | Suspect | Dead | Left) => {
                (told.incarnation, told.liveness) > (self.incarnation, self.liveness)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(liveness: Liveness, incarnation: u64) -> Standing {
        Standing { liveness, incarnation: Incarnation(incarnation) }
    }

    #[test]
    fn any_order_of_statements_ends_in_the_same_standing() {
        let told = [
            standing(Liveness::Alive, 1),
            standing(Liveness::Dead, 1),
            standing(Liveness::Dead, 10),
            standing(Liveness::Alive, 2),
        ];
        for rotation in 0..told.len() {
            for flip in [false, true] {
                let mut order = told;
                order.rotate_left(rotation);
                if flip {
                    order.reverse();
                }
                let end = order.into_iter().fold(standing(Liveness::Alive, 0), |held, next| {
                    if held.superseded_by(next) { next } else { held }
                });
                assert_eq!(end, standing(Liveness::Dead, 10));
            }
        }
    }

    #[test]
    fn spellings_that_differ_in_case_are_one_node_in_every_table() {
        let id = |text| NodeId::parse(text).unwrap();
        assert_eq!(id("GW-1.서울"), id("gw-1.서울"));
        assert!(id("a") < id("B") && id("B") < id("c") && id("a") != id("a_"));
        let tree: std::collections::BTreeSet<_> = [id("N2"), id("n2"), id("n20")].into();
        assert_eq!(tree.len(), 2);
        assert_eq!(id("N2").as_str(), "N2");
    }

    #[test]
    fn an_incarnation_never_wraps() {
        let last = Incarnation::new(INTEGER_MAX).unwrap();
        assert_eq!(last.raised(), last);
        assert_eq!(Incarnation::new(INTEGER_MAX + 1), None);
    }

    #[test]
    fn names_that_would_leave_the_folder_or_the_column_are_refused() {
        for bad in ["", ".", "..", "a/b", "n1|x", "n1\n", "n1\r", "\u{202e}1n", "n 1", "é"] {
            assert!(NodeId::parse(bad).is_err(), "{bad:?}");
        }
        assert!(NodeId::parse(&"x".repeat(65)).is_err());
        assert_eq!(NodeId::parse("서울-1").unwrap().as_str(), "서울-1");
        let decomposed: String = "서울-1".nfd().collect();
        assert_eq!(NodeId::parse(&decomposed).unwrap().as_str(), "서울-1");
    }
}
