//! Ed25519 keys: seeds in files, strict verification, and their short names.

use super::vkey::{KIND_ED25519, key_id};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use zeroize::Zeroizing;

/// The algorithm name of lines and key records.
pub const ED25519: &str = "ed25519";

/// Reads a key file: 64 hex digits and LF. Only the seed is stored; the public half is derived, so
/// the two can never disagree (GHSA-g693-v3jr-8hcr).
pub fn parse_seed(text: &str) -> Result<SigningKey, String> {
    let digits = text.trim_end_matches(['\r', '\n']);
    if digits.len() != 64 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err("not a key file, expected 64 hex digits".to_owned());
    }
    let mut seed = Zeroizing::new([0_u8; 32]);
    for (byte, pair) in seed.iter_mut().zip(digits.as_bytes().chunks(2)) {
        let pair = std::str::from_utf8(pair).map_err(|_| "not a key file".to_owned())?;
        *byte = u8::from_str_radix(pair, 16).map_err(|_| "not a key file".to_owned())?;
    }
    Ok(SigningKey::from_bytes(&seed))
}

/// The contents of a key file for `seed`.
pub fn render_seed(seed: &[u8; 32]) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(65));
    for byte in seed {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(digit), 16).expect("four bits are one hex digit"));
        }
    }
    text.push('\n');
    text
}

/// The key's short name: signed-note key id of (name, 0x01, key), in hex.
pub fn kid(name: &str, key: &VerifyingKey) -> String {
    key_id(name, KIND_ED25519, key.as_bytes()).to_string()
}

/// The short name of a shared key, made the same way.
pub fn shared_kid(name: &str, key: &[u8; 32]) -> String {
    key_id(name, KIND_ED25519, key).to_string()
}

/// Public key as stored in lines.
pub fn render_public(key: &VerifyingKey) -> String {
    STANDARD.encode(key.as_bytes())
}

/// Reads a public key; weak ones, under which anything verifies, are refused.
pub fn parse_public(text: &str) -> Result<VerifyingKey, String> {
    let bytes = STANDARD.decode(text).map_err(|_| "public key is not base64".to_owned())?;
    let bytes: [u8; 32] = bytes
        .try_into()
        .map_err(|b: Vec<u8>| format!("public key has {} bytes, expected 32", b.len()))?;
    let key =
        VerifyingKey::from_bytes(&bytes).map_err(|_| "public key is no curve point".to_owned())?;
    if key.is_weak() {
        return Err("public key is weak (low order)".to_owned());
    }
    Ok(key)
}

/// Signs, as padded base64.
pub fn sign(key: &SigningKey, message: &[u8]) -> String {
    STANDARD.encode(key.sign(message).to_bytes())
}

/// Signature or tag as padded base64.
pub fn encode_sig(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Signature bytes from padded base64.
pub fn decode_sig(sig: &str) -> Option<Vec<u8>> {
    STANDARD.decode(sig).ok()
}

/// Verifies strictly (RFC 8032 with the cofactorless equation and canonical encodings).
pub fn verify(key: &VerifyingKey, message: &[u8], sig: &str) -> bool {
    let signature = decode_sig(sig).and_then(|bytes| Signature::from_slice(&bytes).ok());
    signature.is_some_and(|signature| key.verify_strict(message, &signature).is_ok())
}
