//! A member that signs for itself, so that a test can say anything a key holder could say.

use crowny_fed::auth::envelope::Envelope;
use crowny_fed::auth::invite::Invite;
use crowny_fed::auth::keys::{self, ED25519};
use crowny_fed::auth::mac::{self, HMAC_SHA256};
use crowny_fed::auth::pae;
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where members of these tests say that they answer: nobody does.
pub const URL: &str = "http://127.0.0.1:1";

/// Seconds since 1970.
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// 32 hex digits that no other call returns.
pub fn fresh_nonce() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{:032x}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A key that only this test process has.
pub fn fresh_key() -> SigningKey {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut seed = [0x5a; 32];
    seed[..8].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    SigningKey::from_bytes(&seed)
}

pub enum Key {
    Ed25519(Box<SigningKey>),
    Shared([u8; 32]),
}

/// Somebody with a key.
pub struct Member {
    pub origin: String,
    pub node: String,
    pub key: Key,
    /// Where it says that it answers.
    pub url: String,
}

impl Member {
    pub fn ed25519(origin: &str, node: &str) -> Member {
        Member::of(origin, node, Key::Ed25519(Box::new(fresh_key())))
    }

    pub fn of(origin: &str, node: &str, key: Key) -> Member {
        Member { origin: origin.into(), node: node.into(), key, url: URL.into() }
    }

    /// The member that burned `invite` with `nonce`.
    pub fn shared(invite: &Invite, nonce: &str) -> Member {
        let bootstrap = bootstrap(invite);
        let key = Key::Shared(*mac::node_key(&bootstrap, nonce));
        Member::of(invite.vkey.name(), &invite.node, key)
    }

    /// The same member with another key.
    pub fn with(&self, key: Key) -> Member {
        Member { url: self.url.clone(), ..Member::of(&self.origin, &self.node, key) }
    }

    pub fn seed(&self) -> &SigningKey {
        match &self.key {
            Key::Ed25519(key) => key,
            Key::Shared(_) => panic!("a shared key has no seed"),
        }
    }

    pub fn mode(&self) -> &'static str {
        match self.key {
            Key::Ed25519(_) => ED25519,
            Key::Shared(_) => HMAC_SHA256,
        }
    }

    /// Signature or tag over a payload, for one kind of request.
    pub fn sign(&self, kind: &str, payload: &str) -> String {
        let signed = pae::encode(kind, payload);
        match &self.key {
            Key::Ed25519(key) => keys::sign(key, &signed),
            Key::Shared(key) => keys::encode_sig(&*mac::mac(key, &[&signed])),
        }
    }

    /// The claims every payload makes, with a nonce of its own, and more fields.
    pub fn payload(&self, ts: u64, fields: Value) -> Value {
        let mut payload = json!({
            "origin": self.origin, "node": self.node, "nonce": fresh_nonce(), "ts": ts,
            "mode": self.mode(),
        });
        let Value::Object(fields) = fields else { panic!("fields are an object") };
        payload.as_object_mut().unwrap().extend(fields);
        payload
    }

    /// A payload as text, signed, with the copies outside that it asks for.
    pub fn envelope(&self, kind: &str, payload: &str) -> Envelope {
        let told: Value = serde_json::from_str(payload).unwrap();
        let text = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
        Envelope {
            mode: text("mode"),
            node: text("node"),
            nonce: text("nonce"),
            ts: told["ts"].as_u64().unwrap_or_default(),
            sig: Some(self.sign(kind, payload)),
            payload: payload.to_owned(),
            proof: None,
        }
    }

    /// What a registration says of this member.
    pub fn registration(&self, ts: u64, incarnation: u64) -> Value {
        self.payload(
            ts,
            json!({
                "incarnation": incarnation, "urls": [self.url], "services": [], "reach": "inbound",
            }),
        )
    }

    pub fn register(&self, ts: u64, incarnation: u64) -> Envelope {
        self.envelope("register", &self.registration(ts, incarnation).to_string())
    }

    /// A registration that offers one service.
    pub fn offer(&self, ts: u64, incarnation: u64, service: &str) -> Envelope {
        let mut payload = self.registration(ts, incarnation);
        payload["services"] = json!([{ "name": service, "url": self.url, "weight": 1 }]);
        self.envelope("register", &payload.to_string())
    }

    pub fn leave(&self, ts: u64, incarnation: u64) -> Envelope {
        let payload = self.payload(ts, json!({ "incarnation": incarnation }));
        self.envelope("leave", &payload.to_string())
    }

    pub fn drain(&self, ts: u64, on: bool) -> Envelope {
        self.envelope("drain", &self.payload(ts, json!({ "on": on })).to_string())
    }

    /// Another key speaks for this member: `proof_by` shows that it is held.
    pub fn rotate(&self, ts: u64, next: &SigningKey, proof_by: &SigningKey) -> Envelope {
        let key = keys::render_public(&next.verifying_key());
        let mut payload = self.payload(ts, json!({ "alg": ED25519, "key": key }));
        let nonce = payload["nonce"].as_str().unwrap();
        let held = format!("{}\n{}\n{nonce}\n{key}\n", self.origin, self.node);
        let proof = keys::sign(proof_by, &pae::encode("rotate-possession", &held));
        payload["proof"] = proof.into();
        self.envelope("rotate", &payload.to_string())
    }
}

/// The key an invitation stands for.
pub fn bootstrap(invite: &Invite) -> [u8; 32] {
    *mac::bootstrap_key(&invite.secret, invite.vkey.name(), &invite.node)
}

/// The request that burns `invite` for `key`; with HMAC the key is derived and `key` not used.
pub fn enrolment(invite: &Invite, key: &SigningKey, nonce: &str, ts: u64) -> Envelope {
    let mut payload = json!({
        "origin": invite.vkey.name(), "node": invite.node, "nonce": nonce, "ts": ts,
        "mode": invite.alg,
    });
    if invite.alg == ED25519 {
        payload["key"] = keys::render_public(&key.verifying_key()).into();
    }
    sealed(invite, key, &payload)
}

/// Any payload under the invitation's key, with a proof by `key`.
pub fn sealed(invite: &Invite, key: &SigningKey, payload: &Value) -> Envelope {
    let text = payload.to_string();
    let signed = pae::encode("enroll", &text);
    let member = Member::of(invite.vkey.name(), &invite.node, Key::Shared(bootstrap(invite)));
    let mut envelope = member.envelope("enroll", &text);
    envelope.proof = (invite.alg == ED25519).then(|| keys::sign(key, &signed));
    envelope
}
