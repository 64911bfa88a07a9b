//! Somebody who signs requests of its own, so that the very same bytes can be sent again.

use crowny_fed::auth::envelope::Envelope;
use crowny_fed::auth::invite::Invite;
use crowny_fed::auth::keys::{self, ED25519};
use crowny_fed::auth::{mac, pae};
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// What is sent, and by whom.
#[derive(Clone, Debug)]
pub struct Sender {
    /// `register`, `rotate` or `enroll`.
    pub kind: &'static str,
    /// The federation's name.
    pub origin: &'static str,
    /// The key that speaks, or is to speak, for `n2`.
    pub key: SigningKey,
    /// The join string, for an enrolment.
    pub invitation: Option<String>,
}

impl Sender {
    /// A whole POST, with a nonce and a time of its own.
    pub fn request(&self) -> Vec<u8> {
        let body = self.envelope().render();
        let length = body.len();
        let kind = self.kind;
        format!(
            "POST /{kind} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }

    fn envelope(&self) -> Envelope {
        let nonce = fresh_nonce();
        let ts = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let invitation = self.invitation.as_deref().map(|text| Invite::parse(text).unwrap());
        let mode = invitation.as_ref().map_or(ED25519.to_owned(), |invite| invite.alg.clone());
        let mut payload = json!({
            "origin": self.origin, "node": "n2", "nonce": nonce, "ts": ts, "mode": mode,
        });
        let Value::Object(said) = self.said(&nonce, &mode) else { panic!("an object") };
        payload.as_object_mut().unwrap().extend(said);
        let payload = payload.to_string();
        let signed = pae::encode(self.kind, &payload);
        let own = keys::sign(&self.key, &signed);
        let sig = invitation.as_ref().map_or(own.clone(), |invite| {
            let key = mac::bootstrap_key(&invite.secret, self.origin, "n2");
            keys::encode_sig(&*mac::mac(&*key, &[&signed]))
        });
        let proof = (invitation.is_some() && mode == ED25519).then_some(own);
        Envelope { mode, node: "n2".to_owned(), nonce, ts, payload, sig: Some(sig), proof }
    }

    fn said(&self, nonce: &str, mode: &str) -> Value {
        let public = |key: &SigningKey| keys::render_public(&key.verifying_key());
        match self.kind {
            "register" => json!({
                "incarnation": 40, "urls": [super::scene::NOWHERE], "services": [],
                "reach": "inbound",
            }),
            "rotate" => {
                let next = SigningKey::from_bytes(&[9; 32]);
                let key = public(&next);
                let held = format!("{}\nn2\n{nonce}\n{key}\n", self.origin);
                let proof = keys::sign(&next, &pae::encode("rotate-possession", &held));
                json!({ "alg": ED25519, "key": key, "proof": proof })
            }
            _ if mode == ED25519 => json!({ "key": public(&self.key) }),
            _ => json!({}),
        }
    }
}

/// 32 hex digits that no other call returns.
fn fresh_nonce() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{:032x}", NEXT.fetch_add(1, Ordering::Relaxed))
}
