//! Verifier keys (c2sp.org/signed-note): the one line that says whose signature to trust.
//!
//! The text `name+id+key` ties a public key to a name; its four-byte id only picks the key that
//! a signature line means and proves nothing by itself. Two types are read, each with a Rust type
//! of its own, so that one can never be taken for the other: plain Ed25519 of logs (0x01) and the
//! timestamped cosignatures of witnesses (0x04). Keys of small order are refused, since some
//! signature fits them for every message.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{SigningKey, VerifyingKey};
use sha2::{Digest, Sha256};

/// Signature type of plain Ed25519 over the note's body.
pub const KIND_ED25519: u8 = 0x01;
/// Signature type of an Ed25519 cosignature with its time (tlog-cosignature, "Format").
pub const KIND_COSIGNATURE: u8 = 0x04;

/// The short name of a key within a signature line; a hint, not a fingerprint to rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub [u8; 4]);

impl fmt::Display for KeyId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:08x}", u32::from_be_bytes(self.0))
    }
}

/// The id of a key: SHA-256(name || LF || kind || public key)\[:4\] (signed-note, "Signatures").
pub fn key_id(name: &str, kind: u8, public_key: &[u8]) -> KeyId {
    let hasher = Sha256::new().chain_update(name).chain_update([b'\n', kind]);
    let [a, b, c, d, ..] = <[u8; 32]>::from(hasher.chain_update(public_key).finalize());
    KeyId([a, b, c, d])
}

/// Whether a text can name a key: not empty, and neither `+`, a Unicode space nor a control
/// character in it, which would blur where the name ends.
pub fn is_key_name(name: &str) -> bool {
    let blurs = |letter: char| letter == '+' || letter.is_whitespace() || letter.is_control();
    !name.is_empty() && !name.contains(blurs)
}

/// A public key for signatures of type `KIND`, its name and the id that follows from all three.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedKey<const KIND: u8> {
    name: String,
    id: KeyId,
    key: VerifyingKey,
}

/// The key of a log, which signs notes as they are.
pub type VerifierKey = NamedKey<KIND_ED25519>;
/// The key of a witness, which signs checkpoints with the time at which it saw them.
pub type CosignerKey = NamedKey<KIND_COSIGNATURE>;

impl<const KIND: u8> NamedKey<KIND> {
    /// Names a public key.
    ///
    /// # Errors
    /// [`VerifierKeyError::Name`] for a bad name, [`VerifierKeyError::Weak`] for a weak key.
    pub fn new(name: &str, key: VerifyingKey) -> Result<Self, VerifierKeyError> {
        if !is_key_name(name) {
            return Err(VerifierKeyError::Name);
        }
        if key.is_weak() {
            return Err(VerifierKeyError::Weak);
        }
        let id = key_id(name, KIND, key.as_bytes());
        Ok(Self { name: name.to_string(), id, key })
    }

    /// The key that checks what `key` signs under `name`.
    ///
    /// # Errors
    /// [`VerifierKeyError::Name`] for a bad name.
    pub fn of(name: &str, key: &SigningKey) -> Result<Self, VerifierKeyError> {
        Self::new(name, key.verifying_key())
    }

    /// Reads `name+id+key`, only in the spelling that [`fmt::Display`] prints.
    ///
    /// # Errors
    /// [`VerifierKeyError`] naming the first part that is wrong.
    pub fn parse(text: &str) -> Result<Self, VerifierKeyError> {
        // Base64 may itself contain a plus, so only the first two separate.
        let mut parts = text.splitn(3, '+');
        let (Some(name), Some(id), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(VerifierKeyError::Form);
        };
        let bytes = STANDARD.decode(key).map_err(|_| VerifierKeyError::Form)?;
        let (kind, public_key) = bytes.split_first().ok_or(VerifierKeyError::Form)?;
        if *kind != KIND {
            return Err(VerifierKeyError::Kind { expected: KIND, found: *kind });
        }
        let point = public_key.try_into().map_err(|_| VerifierKeyError::Point)?;
        let point = VerifyingKey::from_bytes(point).map_err(|_| VerifierKeyError::Point)?;
        let vkey = Self::new(name, point)?;
        if vkey.id.to_string() != id {
            return Err(VerifierKeyError::Id { expected: vkey.id });
        }
        Ok(vkey)
    }

    /// The name; for a log's key it is the log's origin.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The id that signature lines carry.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The public key.
    pub fn key(&self) -> &VerifyingKey {
        &self.key
    }
}

impl<const KIND: u8> fmt::Display for NamedKey<KIND> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = vec![KIND];
        bytes.extend_from_slice(self.key.as_bytes());
        write!(out, "{}+{}+{}", self.name, self.id, STANDARD.encode(bytes))
    }
}

impl<const KIND: u8> FromStr for NamedKey<KIND> {
    type Err = VerifierKeyError;

    fn from_str(text: &str) -> Result<Self, VerifierKeyError> {
        Self::parse(text)
    }
}

/// Why a text is not a verifier key that can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifierKeyError {
    /// Not three parts, or the last is not base64.
    #[error("expected a verifier key of the form name+id+base64")]
    Form,
    /// The name cannot stand in a signature line.
    #[error("expected a key name without spaces, control characters or plus signs")]
    Name,
    /// Another signature type.
    #[error("expected signature type {expected:#04x} ({}), found {found:#04x}", word(*.expected))]
    Kind {
        /// The type that was asked for.
        expected: u8,
        /// The type that the text names.
        found: u8,
    },
    /// The id does not follow from name and key, as after a typing error.
    #[error("the key id does not match name and key, expected {expected}")]
    Id {
        /// The id that would match.
        expected: KeyId,
    },
    /// Not 32 bytes, or not a point on the curve.
    #[error("expected a public key of 32 bytes on the ed25519 curve")]
    Point,
    /// A point of small order.
    #[error("the public key is weak: a signature by it proves nothing")]
    Weak,
}

/// What a signature type is called.
fn word(kind: u8) -> &'static str {
    if kind == KIND_COSIGNATURE { "cosignature" } else { "ed25519" }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "fed.example.org/crowny+181f093c+Abe68Bzc2GV2Ly3j9yWGIgA/x3U7PXfFxWS4/jT5MCZ7";
    const WITNESS: &str =
        "witness.example.net/w1+f2aca289+BM/PJzusVcMfhvSurOi+xPzxEzBveac6tdzHCzZ8uS+R";

    #[test]
    fn a_witness_key_is_no_log_key() {
        assert_eq!(CosignerKey::parse(WITNESS).map(|key| key.to_string()), Ok(WITNESS.to_owned()));
        let taken = VerifierKeyError::Kind { expected: 1, found: 4 };
        assert_eq!(VerifierKey::parse(WITNESS), Err(taken));
        let taken = VerifierKeyError::Kind { expected: 4, found: 1 };
        assert_eq!(CosignerKey::parse(GOOD), Err(taken));
        assert!(taken.to_string().contains("0x04 (cosignature), found 0x01"), "{taken}");
    }

    #[test]
    fn a_key_has_one_spelling() {
        let vkey = VerifierKey::parse(GOOD).expect("a good key");
        assert_eq!(vkey.to_string(), GOOD);
        assert_eq!(vkey.name(), "fed.example.org/crowny");
        let parse = |text: String| VerifierKey::parse(&text).expect_err("another spelling");
        let expected = vkey.id();
        assert_eq!(parse(GOOD.replace("181f093c", "181F093C")), VerifierKeyError::Id { expected });
        assert_eq!(parse(GOOD.replace("181f093c", "181f093d")), VerifierKeyError::Id { expected });
        assert_eq!(parse(format!("{GOOD}\n")), VerifierKeyError::Form);
        assert_eq!(parse(format!("{GOOD}=")), VerifierKeyError::Form);
        assert_eq!(parse("a+b".into()), VerifierKeyError::Form);
        assert_eq!(parse(GOOD.replace("fed.", "fed ")), VerifierKeyError::Name);
        assert_eq!(parse(GOOD.replace("fed.example.org/crowny", "")), VerifierKeyError::Name);
    }

    #[test]
    fn weak_and_foreign_keys_are_refused() {
        let vkey = |kind: u8, point: &[u8]| {
            let bytes = [&[kind], point].concat();
            let text = format!("n+{}+{}", key_id("n", kind, point), STANDARD.encode(bytes));
            VerifierKey::parse(&text)
        };
        let mut neutral = [0; 32];
        neutral[0] = 1;
        assert_eq!(vkey(1, &neutral), Err(VerifierKeyError::Weak));
        assert_eq!(vkey(1, &[0; 32]), Err(VerifierKeyError::Weak));
        assert_eq!(vkey(1, &[2; 31]), Err(VerifierKeyError::Point));
        let weak = format!(
            "n+{}+{}",
            key_id("n", 4, &neutral),
            STANDARD.encode([&[4], &neutral[..]].concat())
        );
        assert_eq!(CosignerKey::parse(&weak), Err(VerifierKeyError::Weak));
    }
}
