//! What a holder of a member's key could say.

use crate::federation::{Node, ORIGIN};
use crowny_fed::auth::envelope::Envelope;
use crowny_fed::auth::keys::{self, ED25519};
use crowny_fed::auth::pae;
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// 32 hex digits that no other call returns.
pub fn fresh_hex() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{:032x}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The claims that every payload makes, and more fields.
pub fn payload(node: &str, fields: Value) -> Value {
    let mut payload = json!({
        "origin": ORIGIN, "node": node, "nonce": fresh_hex(), "ts": now_s(), "mode": ED25519,
    });
    let Value::Object(fields) = fields else { panic!("fields are an object") };
    payload.as_object_mut().unwrap().extend(fields);
    payload
}

/// The same with another field.
pub fn with(payload: &Value, name: &str, value: Value) -> Value {
    let mut payload = payload.clone();
    payload[name] = value;
    payload
}

/// A payload signed by `key`, with the copies outside that it asks for.
pub fn sealed(key: &SigningKey, kind: &str, payload: &Value) -> String {
    let text = payload.to_string();
    let copy = |name: &str| payload[name].as_str().unwrap_or_default().to_owned();
    let envelope = Envelope {
        mode: copy("mode"),
        node: copy("node"),
        nonce: copy("nonce"),
        ts: payload["ts"].as_u64().unwrap_or_default(),
        sig: Some(keys::sign(key, &pae::encode(kind, &text))),
        payload: text,
        proof: None,
    };
    envelope.render()
}

/// A register that raises the incarnation of `node` with what it offers now.
pub fn register(node: &Node, incarnation: u64) -> Value {
    let held = node.json("self.json");
    let list = |name: &str| held.get(name).cloned().unwrap_or_else(|| json!([]));
    let fields = json!({
        "incarnation": incarnation, "urls": list("urls"), "services": list("services"),
        "reach": "inbound",
    });
    payload(&node.id, fields)
}

/// One sighting of an observation.
pub fn saw(node: &str, inc: u64, saw: &str) -> Value {
    json!({ "node": node, "inc": inc, "saw": saw })
}

/// An observation under a key of `node`. Later ticks replace earlier ones.
pub fn observation(node: &str, key: &SigningKey, (health, seen): (u64, Vec<Value>)) -> String {
    static TICK: AtomicU64 = AtomicU64::new(1_000);
    let tick = TICK.fetch_add(1, Ordering::Relaxed);
    let fields = json!({ "tick": tick, "health": health, "size": 5, "seen": seen });
    sealed(key, "observe", &payload(node, fields))
}
