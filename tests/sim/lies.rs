//! What a member that lies may answer and tell.

use crowny_fed::auth::envelope::Envelope;
use crowny_fed::auth::{keys, mac, pae};
use crowny_fed::host::Host;
use crowny_fed::http::Response;
use crowny_fed::journal::chain::Tip;
use crowny_fed::journal::line::Line;
use crowny_fed::journal::merkle::leaf_hash;
use crowny_fed::journal::statement::{Observe, Saw, Sighting};
use crowny_fed::protocol::address::Address;
use crowny_fed::protocol::member::{Incarnation, NodeId};
use crowny_fed::sim::world::{SimHost, Twist};
use crowny_fed::store::disk::Disk;
use crowny_fed::store::identity::{Identity, load_key};
use crowny_fed::store::shared_keys::unhex;
use crowny_fed::wire::call::{Answer, Call, Method, Read, Targets};
use serde_json::{Value, json};
use std::rc::Rc;
use std::time::Duration;

/// One of the ways to answer falsely.
pub fn answers(which: u64) -> Twist {
    Rc::new(move |request, response| {
        let body: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        match (request.path.as_str(), which) {
            ("/q/ping-req", 0) => Response::json(&json!({ "reason": "timeout" })),
            ("/q/ping-req", 1) => Response::json(&json!({ "answer": "{\"node\":\"n2\"}" })),
            ("/q/health", 2) => changed(body, "incarnation", json!(9_007_199_254_740_991_u64)),
            ("/q/health", 3) if !body["refute"].is_null() => refutes_for_another(body),
            ("/q/health", 4) => Response::text("nothing to see here").status(200),
            _ => response,
        }
    })
}

fn changed(mut body: Value, field: &str, to: Value) -> Response {
    body[field] = to;
    Response::json(&body)
}

/// A refutation in the name of somebody else, far above what that one ever said.
fn refutes_for_another(mut body: Value) -> Response {
    let mut refute = body["refute"].clone();
    let mut payload: Value =
        serde_json::from_str(refute["payload"].as_str().unwrap_or("{}")).unwrap_or_default();
    let victim = if payload["node"] == "n2" { "n3" } else { "n2" };
    payload["node"] = json!(victim);
    payload["incarnation"] = json!(1_000_000);
    refute["node"] = json!(victim);
    refute["payload"] = json!(payload.to_string());
    body["refute"] = refute;
    Response::json(&body)
}

/// Signs and posts, as the member that this machine is.
pub fn post(host: &SimHost, (kind, payload): (&str, &Value), anchor: &str) -> Answer {
    send(host, (kind, sealed(host, (kind, payload)).into_bytes()), anchor)
}

/// The envelope around what this machine's member says.
fn sealed(host: &SimHost, (kind, payload): (&str, &Value)) -> String {
    let config = host.config();
    let disk = Disk { host, layout: &config.layout };
    let text = payload.to_string();
    let signed = pae::encode(kind, &text);
    let shared = disk.read_text(&config.layout.key("shared")).ok().flatten();
    let (mode, sig) = match shared.and_then(|hex| unhex(hex.trim_end())) {
        Some(key) => (mac::HMAC_SHA256, keys::encode_sig(&*mac::mac(&*key, &[&signed]))),
        None => (keys::ED25519, keys::sign(&load_key(&disk, "node").unwrap(), &signed)),
    };
    let envelope = Envelope {
        mode: mode.to_owned(),
        node: payload["node"].as_str().unwrap_or_default().to_owned(),
        nonce: payload["nonce"].as_str().unwrap_or_default().to_owned(),
        ts: payload["ts"].as_u64().unwrap_or_default(),
        payload: text,
        sig: Some(sig),
        proof: None,
    };
    envelope.render()
}

fn send(host: &SimHost, (kind, body): (&str, Vec<u8>), anchor: &str) -> Answer {
    let (ip, port) = anchor.split_once(':').unwrap();
    let call = Call {
        method: Method::Post,
        address: Address::parse(ip, port.parse().unwrap()).unwrap(),
        path: format!("/{kind}"),
        host_header: anchor.to_owned(),
        headers: Vec::new(),
        body,
        timeout: Duration::from_secs(3),
        read: Read::Body { max: 65_536 },
        targets: Targets::Any,
    };
    host.dial(&[call], u64::MAX).remove(0)
}

/// What every signed word says of itself, as this machine's member.
pub fn claims(host: &SimHost) -> Option<Value> {
    let config = host.config();
    let disk = Disk { host, layout: &config.layout };
    let identity = Identity::load(&disk).ok().flatten()?;
    let mut bytes = [0_u8; 16];
    host.chance(&mut bytes).unwrap();
    let nonce: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let shared = disk.read_text(&config.layout.key("shared")).ok().flatten().is_some();
    Some(json!({
        "origin": identity.origin,
        "node": identity.id,
        "nonce": nonce,
        "ts": host.clock().wall_ms / 1_000,
        "mode": if shared { mac::HMAC_SHA256 } else { keys::ED25519 },
    }))
}

/// A register at an incarnation of our choice; `None` where the anchor did not answer.
pub fn registers(host: &SimHost, incarnation: u64, anchor: &str) -> Option<u16> {
    let own = Identity::load(&Disk { host, layout: &host.config().layout }).ok().flatten()?;
    let mut payload = claims(host)?;
    payload["incarnation"] = json!(incarnation);
    payload["urls"] = json!(own.urls);
    payload["services"] = json!(own.services);
    payload["reach"] = json!("inbound");
    post(host, ("register", &payload), anchor).ok().map(|reply| reply.status)
}

/// What others signed, word for word, brought as if it had been said in isolation: what the anchor
/// makes of each word, or of all.
pub fn replays(host: &SimHost, said: &[Line], anchor: &str) -> Option<String> {
    let mut tip = Tip { size: 1, head: leaf_hash(b"somewhere"), ts: 0 };
    let mut lines = String::new();
    for word in said {
        let line = Line { prev: tip.head, seq: tip.size, ..word.clone() };
        tip = Tip { size: tip.size + 1, head: leaf_hash(line.render().as_bytes()), ts: 0 };
        lines.push_str(&line.render());
        lines.push('\n');
    }
    let mut head = claims(host)?;
    (head["fork"], head["head"], head["count"]) = (json!(1), json!(tip.head), json!(said.len()));
    let body = format!("{}\n{lines}", sealed(host, ("merge", &head)));
    let reply = send(host, ("merge", body.into_bytes()), anchor).ok()?;
    let told: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let fate = |fate: &Value| fate.as_object()?.keys().next().cloned();
    let Some(lines) = told["lines"].as_array() else {
        return told["message"].as_str().map(str::to_owned);
    };
    Some(lines.iter().filter_map(fate).collect::<Vec<_>>().join(", "))
}

/// An observation that misses `whom`, whatever is so. `health` is what it says of itself.
pub fn observes(host: &SimHost, whom: &[(NodeId, u64)], health: u64, anchor: &str) {
    let Some(claims) = claims(host) else { return };
    let text = |name: &str| claims[name].as_str().unwrap_or_default().to_owned();
    let sighting = |(node, inc): &(NodeId, u64)| Sighting {
        node: node.clone(),
        inc: Incarnation::new(*inc).unwrap(),
        saw: Saw::Unheard,
    };
    let observe = Observe {
        origin: text("origin"),
        node: NodeId::parse(&text("node")).unwrap(),
        nonce: text("nonce"),
        // One second on, so that it replaces what the member's own tick told.
        ts: claims["ts"].as_u64().unwrap() + 1,
        mode: text("mode"),
        tick: 1_000_000,
        health,
        size: 0,
        seen: whom.iter().map(sighting).collect(),
    };
    let payload = serde_json::to_value(&observe).unwrap();
    let _ = post(host, ("observe", &payload), anchor);
}
