//! Invitations: one string that lets one node in once.
//!
//! `cfed1` + base64url of {url, vkey, node, alg, expiry, secret}. It names the anchor's key, so who
//! joins knows whom to believe before the first byte travels.

use super::mac::Secret;
use super::vkey::VerifierKey;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// What every invitation begins with.
pub const PREFIX: &str = "cfed1";
/// Invitations open at once (design section 16).
pub const OPEN_MAX: usize = 64;

/// An invitation, as handed to the operator of the new node.
pub struct Invite {
    /// Where the anchor answers.
    pub url: String,
    /// The log's key.
    pub vkey: VerifierKey,
    /// For which node.
    pub node: String,
    /// What the node will sign with.
    pub alg: String,
    /// Seconds since 1970.
    pub expiry: u64,
    /// 256 bits.
    pub secret: Secret,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Packed {
    alg: String,
    expiry: u64,
    node: String,
    secret: String,
    url: String,
    vkey: String,
}

impl Invite {
    /// The string to hand over.
    pub fn render(&self) -> Zeroizing<String> {
        let packed = Packed {
            alg: self.alg.clone(),
            expiry: self.expiry,
            node: self.node.clone(),
            secret: URL_SAFE_NO_PAD.encode(*self.secret),
            url: self.url.clone(),
            vkey: self.vkey.to_string(),
        };
        let json = Zeroizing::new(
            serde_json::to_string(&packed).expect("strings and integers have a JSON form"),
        );
        Zeroizing::new(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(json.as_bytes())))
    }

    /// Reads the string; the error never repeats any of it.
    pub fn parse(text: &str) -> Result<Invite, String> {
        let not_one = || format!("not an invitation, expected {PREFIX} and base64url");
        let packed = text.trim().strip_prefix(PREFIX).ok_or_else(not_one)?;
        let json = Zeroizing::new(URL_SAFE_NO_PAD.decode(packed).map_err(|_| not_one())?);
        let packed: Packed = serde_json::from_slice(&json).map_err(|_| not_one())?;
        let secret = Zeroizing::new(URL_SAFE_NO_PAD.decode(&packed.secret).map_err(|_| not_one())?);
        let secret: [u8; 32] = secret.as_slice().try_into().map_err(|_| not_one())?;
        Ok(Invite {
            url: packed.url,
            vkey: VerifierKey::parse(&packed.vkey)
                .map_err(|error| format!("the invitation's vkey: {error}"))?,
            node: packed.node,
            alg: packed.alg,
            expiry: packed.expiry,
            secret: Zeroizing::new(secret),
        })
    }
}

/// How a burned invitation is named in the journal: hex SHA-256 of its secret.
pub fn secret_sha256(secret: &[u8; 32]) -> String {
    Sha256::digest(secret).iter().map(|byte| format!("{byte:02x}")).collect()
}
