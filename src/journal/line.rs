//! One journal line: a strict codec with exactly one spelling.
//!
//! Parse, print again, compare the bytes: what differs is no line. So two readers can never
//! disagree about a line they both accept (design section 5).

use super::merkle::Hash;
use crate::protocol::member::INTEGER_MAX;
use serde::{Deserialize, Serialize};

/// Largest line submitted by a member, in bytes without LF.
pub const SUBMITTED_BYTES_MAX: usize = 4_096;
/// Largest line written by the anchor, in bytes without LF.
pub const ANCHOR_BYTES_MAX: usize = 16_384;
/// Largest journal line of any origin.
pub const LINE_BYTES_MAX: usize = ANCHOR_BYTES_MAX;
/// The form we write.
pub const VERSION: u64 = 1;

/// Who signed a line, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// `ed25519` or `hmac-sha256`.
    pub alg: String,
    /// Eight hex digits of the signed-note key id of (name, 0x01, key).
    pub kid: String,
    /// Padded base64 of the signature over the DSSE encoding of the payload.
    pub sig: String,
}

/// One line, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Present where somebody other than the anchor's checkpoint vouches.
    pub author: Option<Author>,
    /// A JSON object as text, exactly as signed or sent.
    pub payload: String,
    /// Leaf hash of the line before.
    pub prev: Hash,
    /// Index in the journal, from 0.
    pub seq: u64,
    /// Seconds since 1970 on the anchor's clock, never below the line before.
    pub ts: u64,
    /// What kind of line, lower-case letters.
    pub kind: String,
    /// Version of the form.
    pub version: u64,
}

/// Why bytes are no line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// Longer than its kind allows.
    #[error("line has {bytes} bytes, limit {limit}")]
    TooLong {
        /// Bytes without LF.
        bytes: usize,
        /// The limit that applies.
        limit: usize,
    },
    /// Not the JSON object we expect.
    #[error("not a journal line: {0}")]
    Syntax(String),
    /// Readable, but not the one spelling.
    #[error("not the canonical spelling (sorted keys, no spaces, no duplicate, no null)")]
    Spelling,
    /// `alg`, `kid` and `sig` come together or not at all.
    #[error("alg, kid and sig must come together")]
    HalfSigned,
    /// A number beyond 2^53 - 1.
    #[error("{0} is beyond 2^53-1")]
    Range(&'static str),
    /// `type` is not 1-32 lower-case letters.
    #[error("type '{0}', expected 1 to 32 of a-z")]
    Kind(String),
}

/// Field order is the sorted key order: serde writes fields as declared.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    alg: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kid: Option<String>,
    payload: String,
    prev: Hash,
    seq: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sig: Option<String>,
    ts: u64,
    #[serde(rename = "type")]
    kind: String,
    v: u64,
}

impl Line {
    /// Reads one line without its LF.
    pub fn parse(bytes: &[u8]) -> Result<Line, LineError> {
        if bytes.len() > LINE_BYTES_MAX {
            return Err(LineError::TooLong { bytes: bytes.len(), limit: LINE_BYTES_MAX });
        }
        let stored: Stored =
            serde_json::from_slice(bytes).map_err(|error| LineError::Syntax(error.to_string()))?;
        let line = Line::from_stored(stored)?;
        if line.render().as_bytes() != bytes {
            return Err(LineError::Spelling);
        }
        Ok(line)
    }

    /// The one spelling, without LF.
    pub fn render(&self) -> String {
        let author = self.author.as_ref();
        let stored = Stored {
            alg: author.map(|a| a.alg.clone()),
            kid: author.map(|a| a.kid.clone()),
            payload: self.payload.clone(),
            prev: self.prev,
            seq: self.seq,
            sig: author.map(|a| a.sig.clone()),
            ts: self.ts,
            kind: self.kind.clone(),
            v: self.version,
        };
        serde_json::to_string(&stored).expect("strings and integers always have a JSON form")
    }

    fn from_stored(stored: Stored) -> Result<Line, LineError> {
        for (value, name) in [(stored.seq, "seq"), (stored.ts, "ts"), (stored.v, "v")] {
            if value > INTEGER_MAX {
                return Err(LineError::Range(name));
            }
        }
        let letters = stored.kind.bytes().all(|b| b.is_ascii_lowercase());
        if !letters || stored.kind.is_empty() || stored.kind.len() > 32 {
            return Err(LineError::Kind(stored.kind.escape_debug().to_string()));
        }
        let author = match (stored.alg, stored.kid, stored.sig) {
            (None, None, None) => None,
            (Some(alg), Some(kid), Some(sig)) => Some(Author { alg, kid, sig }),
            _ => return Err(LineError::HalfSigned),
        };
        Ok(Line {
            author,
            payload: stored.payload,
            prev: stored.prev,
            seq: stored.seq,
            ts: stored.ts,
            kind: stored.kind,
            version: stored.v,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"payload":"{}","prev":"f95e316794a89214720391f05fbc9bd2584f4551021471a00aeb1deae1806766","seq":0,"ts":1700000000,"type":"roster","v":1}"#;

    #[test]
    fn a_line_has_exactly_one_spelling() {
        assert_eq!(Line::parse(GOOD.as_bytes()).unwrap().render(), GOOD);
        let changes: [(&str, &str); 12] = [
            ("\"seq\":0", "\"seq\": 0"),
            ("\"seq\":0", "\"seq\":0,\"seq\":0"),
            ("\"seq\":0", "\"seq\":0.0"),
            ("\"seq\":0", "\"seq\":00"),
            ("\"seq\":0", "\"seq\":-0"),
            ("\"seq\":0", "\"seq\":1e0"),
            ("\"seq\":0", "\"seq\":null"),
            ("\"seq\":0", "\"seq\":9007199254740992"),
            ("\"v\":1}", "\"v\":1,\"x\":1}"),
            ("f95e", "F95E"),
            ("\"{}\"", "\"\\u007b}\""),
            ("\"payload\":\"{}\",\"prev\"", "\"alg\":null,\"payload\":\"{}\",\"prev\""),
        ];
        for (from, to) in changes {
            let bad = GOOD.replacen(from, to, 1);
            assert_ne!(bad, GOOD);
            assert!(Line::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(Line::parse(format!("{GOOD}\r").as_bytes()).is_err());
        assert!(Line::parse(format!(" {GOOD}").as_bytes()).is_err());
        assert!(Line::parse(b"\xff").is_err());
    }

    #[test]
    fn half_a_signature_is_none() {
        let half = GOOD.replacen("{\"payload\"", "{\"alg\":\"ed25519\",\"payload\"", 1);
        assert_eq!(Line::parse(half.as_bytes()), Err(LineError::HalfSigned));
    }
}
