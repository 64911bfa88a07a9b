//! Witnesses of this log, as `[[witness]]` in the configuration names them.
//!
//! A witness is a name with a key, a place to send checkpoints to and perhaps one where everybody
//! reads what it saw last (c2sp.org/tlog-witness, "HTTP Interface").

use crate::auth::vkey::{CosignerKey, VerifierKeyError};
use crate::protocol::address::Address;
use crate::protocol::registration::parse_url;
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// Most witnesses: readers must accept 16 signatures on a note and need not accept more
/// (signed-note, "Signatures"), and during a rotation two of them are the log's own.
pub const WITNESSES_MAX: usize = 14;

/// One `[[witness]]` as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenWitness {
    url: String,
    vkey: String,
    #[serde(default)]
    required: bool,
    monitor: Option<String>,
}

/// A witness of this log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// Its name and key.
    pub key: CosignerKey,
    /// The submission prefix: where it is asked.
    pub submission: Prefix,
    /// Whether readers see no checkpoint that it has not cosigned.
    pub required: bool,
    /// The monitoring prefix: where it shows what it saw.
    pub monitor: Option<Prefix>,
}

/// A URL to which the protocol's paths are added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Where to connect.
    pub address: Address,
    /// Empty, or a path that begins with a slash and does not end with one.
    pub path: String,
}

impl Witness {
    /// The path at [`Witness::monitor`] under which the log `origin` is shown
    /// (tlog-witness: lower-case hex of the origin's SHA-256).
    pub fn shown_at(prefix: &Prefix, origin: &str) -> String {
        let digest = Sha256::digest(origin);
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}/{hex}/checkpoint", prefix.path)
    }
}

/// Checks all witnesses together: a name or key that stands twice would let one of them count as
/// two, and the message that is signed does not tell two names with one key apart.
///
/// # Errors
/// The reason, naming the witness.
pub fn checked(written: &[WrittenWitness]) -> Result<Vec<Witness>, String> {
    if written.len() > WITNESSES_MAX {
        return Err(format!("{} witnesses, at most {WITNESSES_MAX}", written.len()));
    }
    let mut checked: Vec<Witness> = Vec::new();
    for one in written {
        let witness = one.checked()?;
        let name = witness.key.name();
        if checked.iter().any(|held| held.key.name() == name) {
            return Err(format!("witness '{name}' stands twice"));
        }
        if let Some(held) = checked.iter().find(|held| held.key.key() == witness.key.key()) {
            return Err(format!("witness '{name}' has the key of '{}'", held.key.name()));
        }
        checked.push(witness);
    }
    Ok(checked)
}

impl WrittenWitness {
    fn checked(&self) -> Result<Witness, String> {
        let key = CosignerKey::parse(&self.vkey).map_err(|error: VerifierKeyError| {
            format!("vkey '{}': {error}", self.vkey.escape_debug())
        })?;
        let prefix = |url: &String| {
            Prefix::parse(url).map_err(|reason| format!("witness '{}': {reason}", key.name()))
        };
        let submission = prefix(&self.url)?;
        let monitor = self.monitor.as_ref().map(prefix).transpose()?;
        Ok(Witness { submission, required: self.required, monitor, key })
    }
}

impl Prefix {
    fn parse(url: &str) -> Result<Prefix, String> {
        let start = url.find("://").map_or(0, |at| at + 3);
        let end = url[start..].find('/').map_or(url.len(), |at| start + at);
        let path = url[end..].trim_end_matches('/');
        let plain = |byte: u8| byte.is_ascii_graphic() && !b"?#\\".contains(&byte);
        if !path.bytes().all(plain) {
            let url = url.escape_debug();
            return Err(format!("url '{url}': expected a path in ASCII without query or fragment"));
        }
        Ok(Prefix { address: parse_url(&url[..end])?, path: path.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::vkey::VerifierKey;

    const W1: &str = "witness.example.net/w1+f2aca289+BM/PJzusVcMfhvSurOi+xPzxEzBveac6tdzHCzZ8uS+R";

    fn written(url: &str, vkey: &str) -> WrittenWitness {
        WrittenWitness { url: url.into(), vkey: vkey.into(), required: false, monitor: None }
    }

    #[test]
    fn a_prefix_keeps_its_path_and_nothing_else() {
        let path = |url: &str| Prefix::parse(url).map(|prefix| prefix.path);
        assert_eq!(path("https://w.example"), Ok(String::new()));
        assert_eq!(path("https://w.example/"), Ok(String::new()));
        assert_eq!(path("http://127.0.0.1:8000/a/b/"), Ok("/a/b".into()));
        for bad in [
            "w.example/a",
            "https://",
            "https://w.example/?q",
            "https://w.example/a#b",
            "https://w.example/a b",
            "https://w.example/한",
        ] {
            assert!(path(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_monitoring_path_is_the_worked_examples() {
        let prefix = Prefix::parse("https://w.example/m").expect("a prefix");
        let shown = Witness::shown_at(&prefix, "fed.example.org/crowny");
        let hash = "446642cdfcfc006bc6f06964457b0df2a104acd93fcf0fccd3303330ff822ada";
        assert_eq!(shown, format!("/m/{hash}/checkpoint"));
    }

    #[test]
    fn no_witness_counts_twice() {
        let url = "https://w.example";
        let one = checked(&[written(url, W1)]).expect("one witness");
        let twice = checked(&[written(url, W1), written(url, W1)]);
        assert!(twice.is_err_and(|reason| reason.contains("stands twice")));
        let renamed = CosignerKey::new("w2", *one[0].key.key()).expect("a good name").to_string();
        let shared = checked(&[written(url, W1), written(url, &renamed)]);
        assert!(shared.is_err_and(|reason| reason.contains("has the key of")));
        let log = VerifierKey::new("w1", *one[0].key.key()).expect("a good name").to_string();
        let reason = checked(&[written(url, &log)]).expect_err("a log's key");
        assert!(reason.contains("0x04 (cosignature), found 0x01"), "{reason}");
        let reason = checked(&[written("nowhere", W1)]).expect_err("no url");
        assert!(reason.starts_with("witness 'witness.example.net/w1': url 'nowhere'"), "{reason}");
    }
}
