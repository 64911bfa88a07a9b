//! HMAC-SHA256 (RFC 2104) and the keys derived with it.
//!
//! Two layers: a one-time invitation secret makes a bootstrap key that is bound to one federation
//! and one node, and for members that sign with HMAC the bootstrap key makes the node key. The
//! derived keys are computed on both sides and never travel.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

/// A 256-bit secret, wiped when dropped, without a printed form.
pub type Secret = Zeroizing<[u8; 32]>;

/// The algorithm name of lines and key records.
pub const HMAC_SHA256: &str = "hmac-sha256";
/// Shortest accepted key in bytes: shorter ones add guessing where there should be none.
pub const KEY_BYTES_MIN: usize = 16;

/// HMAC-SHA256 over the parts in order.
pub fn mac(key: &[u8], parts: &[&[u8]]) -> Secret {
    let mut hmac = start(key);
    parts.iter().for_each(|part| hmac.update(part));
    Zeroizing::new(hmac.finalize().into_bytes().into())
}

/// Compares a tag in constant time; another length than 32 bytes is simply wrong.
pub fn verify(key: &[u8], message: &[u8], tag: &[u8]) -> bool {
    let mut hmac = start(key);
    hmac.update(message);
    hmac.verify_slice(tag).is_ok()
}

/// The key an invitation stands for: HMAC(secret, "crowny-fed/bootstrap/v1" || origin || node).
pub fn bootstrap_key(secret: &[u8; 32], origin: &str, node: &str) -> Secret {
    mac(secret, &[b"crowny-fed/bootstrap/v1", origin.as_bytes(), node.as_bytes()])
}

/// The key of a member that signs with HMAC: HMAC(bootstrap key, "crowny-fed/node-key/v1" || nonce).
pub fn node_key(bootstrap: &[u8; 32], nonce: &str) -> Secret {
    mac(bootstrap, &[b"crowny-fed/node-key/v1", nonce.as_bytes()])
}

fn start(key: &[u8]) -> Hmac<Sha256> {
    Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length (RFC 2104 section 2)")
}
