//! Offers to serialise: one string by which a member shows the anchor the log key it would sign with.
//!
//! `cfedh1` + base64url of an envelope signed by the member's own key. Nothing in it is secret; it is
//! worth something only in the hands of the anchor's operator.

use super::envelope::{self, Envelope};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

/// What every offer begins with.
pub const PREFIX: &str = "cfedh1";
/// The kind under which it is signed.
pub const KIND: &str = "handover";

/// What the member says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// For which federation.
    pub origin: String,
    /// Who offers.
    pub node: String,
    /// 32 hex digits.
    pub nonce: String,
    /// Seconds since 1970 on the member's clock.
    pub ts: u64,
    /// The algorithm it signs with.
    pub mode: String,
    /// The epoch that would begin: an offer is worth nothing in a later one.
    pub epoch: u64,
    /// The log's verifier key in it.
    pub vkey: String,
    /// Signature by that key over the possession of it.
    pub proof: String,
    /// Where the member answers.
    pub urls: Vec<String>,
}

/// The string to hand over.
pub fn pack(envelope: &Envelope) -> String {
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(envelope.render()))
}

/// Reads the string: the envelope, whose signature is yet to be checked, and what it says.
///
/// # Errors
/// What is expected instead.
pub fn unpack(text: &str) -> Result<(Envelope, Offer), String> {
    let not_one = || format!("not an offer, expected {PREFIX} and base64url");
    let packed = text.trim().strip_prefix(PREFIX).ok_or_else(not_one)?;
    let json = URL_SAFE_NO_PAD.decode(packed).map_err(|_| not_one())?;
    let envelope = envelope::parse(&json)?;
    let offer = serde_json::from_str(&envelope.payload).map_err(|error| error.to_string())?;
    Ok((envelope, offer))
}
