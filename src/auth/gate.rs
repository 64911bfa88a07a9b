//! The gate in front of every signed write: parse, key, signature, ts, nonce, in this order.
//!
//! The order keeps a stranger from learning or costing anything: without a valid signature nobody
//! is told whether a clock is off or a nonce was used, and a forged request burns nothing.

use super::envelope::Envelope;
use super::{keys, mac, pae};
use ed25519_dalek::VerifyingKey;

/// How far a request's clock may be off, in seconds.
pub const SKEW_S_MAX: u64 = 300;

/// Why a signed request was not done. One table turns these into HTTP statuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The body is not what this path takes.
    #[error("{0}")]
    Malformed(String),
    /// The line it would make is longer than lines may be.
    #[error("{0}")]
    TooLarge(String),
    /// Signature wrong, missing or malformed: which of these is nobody's business.
    #[error("the signature does not hold")]
    Signature,
    /// No key is enrolled under this name, or it was revoked.
    #[error("{0}")]
    Unknown(String),
    /// The request's time is out of the window.
    #[error(
        "clock skew: ts is {difference_s} s {direction}, server time is {now_s}, allowed are {SKEW_S_MAX} s"
    )]
    Skew {
        /// How far off.
        difference_s: u64,
        /// `ahead` or `behind`.
        direction: &'static str,
        /// Our time.
        now_s: u64,
    },
    /// This nonce was used before.
    #[error("{0}")]
    Replay(String),
    /// The journal knows something newer, or the name is another's.
    #[error("{0}")]
    Conflict(String),
    /// The name needs a grant.
    #[error("service not granted: '{0}'")]
    NotGranted(String),
    /// Too many lines in too short a time.
    #[error("{0}")]
    TooMany(String),
    /// We cannot take signed writes now.
    #[error("{0}")]
    Unavailable(String),
}

/// A key that may speak for a node.
pub enum Key {
    /// A public key.
    Ed25519(VerifyingKey),
    /// A shared key, which only the anchor and the node hold.
    Hmac(mac::Secret),
}

impl Key {
    /// The algorithm's name.
    pub fn alg(&self) -> &'static str {
        match self {
            Key::Ed25519(_) => keys::ED25519,
            Key::Hmac(_) => mac::HMAC_SHA256,
        }
    }

    /// Whether the envelope's signature over its payload, as a request of this kind, is by this key.
    /// The algorithm is the key's, never the message's (PyJWT CVE-2022-29217).
    pub fn verifies(&self, kind: &str, envelope: &Envelope) -> bool {
        let Some(sig) = &envelope.sig else {
            return false;
        };
        if envelope.mode != self.alg() {
            return false;
        }
        let signed = pae::encode(kind, &envelope.payload);
        match self {
            Key::Ed25519(key) => keys::verify(key, &signed, sig),
            Key::Hmac(key) => {
                keys::decode_sig(sig).is_some_and(|tag| mac::verify(&**key, &signed, &tag))
            }
        }
    }
}

/// Checks a request's time against ours.
pub fn check_ts(ts: u64, now_s: u64) -> Result<(), Refusal> {
    let difference_s = ts.abs_diff(now_s);
    if difference_s <= SKEW_S_MAX {
        return Ok(());
    }
    let direction = if ts > now_s { "ahead" } else { "behind" };
    Err(Refusal::Skew { difference_s, direction, now_s })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_closed_at_both_ends_and_names_the_difference() {
        assert_eq!(check_ts(1_300, 1_000), Ok(()));
        assert_eq!(check_ts(700, 1_000), Ok(()));
        let refused = check_ts(1_401, 1_001).unwrap_err().to_string();
        assert!(refused.contains("400 s ahead") && refused.contains("1001"), "{refused}");
        assert!(check_ts(0, 1_796_000_000).unwrap_err().to_string().contains("behind"));
    }
}
