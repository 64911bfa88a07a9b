//! The one shape of every signed request: who, when, once, the signed text, the signature.
//!
//! `{"mode","node","nonce","payload","sig","ts"}`, for `/enroll` also `"proof"`. The signature is
//! over the payload's bytes as sent; what stands outside is a copy for whoever has to find the key
//! first, and must say the same.

use super::{json, keys::ED25519, mac::HMAC_SHA256};
use serde::Deserialize;

/// Hex digits of a nonce: 128 bits.
pub const NONCE_DIGITS: usize = 32;

/// A signed request, as sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// `ed25519` or `hmac-sha256`.
    pub mode: String,
    /// Who claims to speak.
    pub node: String,
    /// 32 hex digits, never used twice.
    pub nonce: String,
    /// Seconds since 1970 on the sender's clock.
    pub ts: u64,
    /// The signed text.
    pub payload: String,
    /// Padded base64; `None` where none was sent.
    pub sig: Option<String>,
    /// Possession of the key that is being enrolled.
    pub proof: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    mode: String,
    node: String,
    nonce: String,
    ts: u64,
    payload: String,
    #[serde(default)]
    sig: Option<String>,
    #[serde(default)]
    proof: Option<String>,
}

/// What every payload says about itself.
#[derive(Deserialize)]
struct Claims {
    origin: String,
    node: String,
    nonce: String,
    ts: u64,
    mode: String,
}

/// Reads a request body. The error is a sentence for a 400.
pub fn parse(body: &[u8]) -> Result<Envelope, String> {
    let text = std::str::from_utf8(body).map_err(|_| "the body is not UTF-8".to_owned())?;
    json::check_object(text).map_err(|error| format!("the body is not strict JSON: {error}"))?;
    let sent: Sent = serde_json::from_str(text).map_err(|error| format!("the body: {error}"))?;
    if ![ED25519, HMAC_SHA256].contains(&sent.mode.as_str()) {
        return Err(format!(
            "mode '{}', expected {ED25519} or {HMAC_SHA256}",
            sent.mode.escape_debug()
        ));
    }
    if !is_nonce(&sent.nonce) {
        return Err(format!("nonce, expected a string of {NONCE_DIGITS} lower-case hex digits"));
    }
    json::check_object(&sent.payload)
        .map_err(|error| format!("the payload is not strict JSON: {error}"))?;
    Ok(Envelope {
        mode: sent.mode,
        node: sent.node,
        nonce: sent.nonce,
        ts: sent.ts,
        payload: sent.payload,
        sig: sent.sig,
        proof: sent.proof,
    })
}

/// Whether a text can be a nonce.
pub fn is_nonce(text: &str) -> bool {
    text.len() == NONCE_DIGITS && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

impl Envelope {
    /// Checks that the signed text says what the envelope says, and means this federation.
    pub fn agrees(&self, origin: &str) -> Result<(), String> {
        let claims: Claims =
            serde_json::from_str(&self.payload).map_err(|error| format!("the payload: {error}"))?;
        let same = [
            ("origin", claims.origin == origin),
            ("node", claims.node == self.node),
            ("nonce", claims.nonce == self.nonce),
            ("ts", claims.ts == self.ts),
            ("mode", claims.mode == self.mode),
        ];
        match same.iter().find(|(_, same)| !same) {
            Some(("origin", _)) => Err(stranger(origin)),
            Some((field, _)) => {
                Err(format!("{field} in the payload differs from {field} beside it"))
            }
            None => Ok(()),
        }
    }

    /// Turns away what is meant for another federation, before anything of this one is looked at.
    pub fn expect_for(&self, origin: &str) -> Result<(), String> {
        match serde_json::from_str::<Claims>(&self.payload) {
            Ok(claims) if claims.origin != origin => Err(stranger(origin)),
            // What is no payload at all is told where its signature has been checked.
            _ => Ok(()),
        }
    }

    /// The body to send.
    pub fn render(&self) -> String {
        let mut body = serde_json::json!({
            "mode": self.mode,
            "node": self.node,
            "nonce": self.nonce,
            "payload": self.payload,
            "ts": self.ts,
        });
        if let Some(sig) = &self.sig {
            body["sig"] = sig.clone().into();
        }
        if let Some(proof) = &self.proof {
            body["proof"] = proof.clone().into();
        }
        body.to_string()
    }
}

fn stranger(origin: &str) -> String {
    format!("the payload is for another federation, this one is {origin}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(change: impl FnOnce(&mut Envelope)) -> Vec<u8> {
        let nonce = "0".repeat(NONCE_DIGITS);
        let payload =
            format!(r#"{{"mode":"ed25519","node":"n1","nonce":"{nonce}","origin":"o","ts":7}}"#);
        let mut envelope = Envelope {
            mode: ED25519.into(),
            node: "n1".into(),
            nonce,
            ts: 7,
            payload,
            sig: Some("x".into()),
            proof: None,
        };
        change(&mut envelope);
        envelope.render().into_bytes()
    }

    #[test]
    fn the_copy_outside_must_say_what_was_signed() {
        parse(&body(|_| ())).unwrap().agrees("o").unwrap();
        assert!(
            parse(&body(|_| ()))
                .unwrap()
                .agrees("another")
                .unwrap_err()
                .contains("another federation")
        );
        assert!(parse(&body(|e| e.ts = 8)).unwrap().agrees("o").unwrap_err().contains("ts"));
        assert!(
            parse(&body(|e| e.node = "n2".into()))
                .unwrap()
                .agrees("o")
                .unwrap_err()
                .contains("node")
        );
    }

    #[test]
    fn a_body_that_is_no_envelope_is_refused() {
        for bad in [&b"[]"[..], b"{}", b"\xff", b"{\"sig\":[]}", b"null"] {
            assert!(parse(bad).is_err());
        }
        assert!(parse(&body(|e| e.nonce = "1788872638667723579".into())).is_err());
        assert!(parse(&body(|e| e.mode = "none".into())).is_err());
        assert!(parse(&body(|e| e.payload = "{\"a\":1,\"a\":2}".into())).is_err());
        let text = String::from_utf8(body(|_| ())).unwrap();
        assert!(parse(text.replacen("\"x\"", "[]", 1).as_bytes()).is_err());
        assert!(parse(text.replacen("{", "{\"more\":1,", 1).as_bytes()).is_err());
        assert!(parse(text.replacen("\"n1\"", "\"n1\",\"node\":\"n2\"", 1).as_bytes()).is_err());
    }
}
