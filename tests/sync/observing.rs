//! A tick posts one signed observation; the anchor keeps the newest that its member signed.

use crate::federation::{Federation, Node, ORIGIN};
use crate::harness::{Answer, image};
use crate::stand_in::{Says, saying};
use crowny_fed::auth::envelope::Envelope;
use crowny_fed::auth::keys::{self, parse_seed};
use crowny_fed::auth::pae;
use crowny_fed::layout::ROSTER;
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// What `n1` could say.
fn payload(ts: u64) -> Value {
    json!({
        "origin": ORIGIN, "node": "n1", "nonce": format!("{ts:032x}"), "ts": ts,
        "mode": "ed25519", "tick": 9, "health": 0, "size": 5, "seen": [],
    })
}

/// The same with another field.
fn with(payload: &Value, name: &str, value: Value) -> Value {
    let mut payload = payload.clone();
    payload[name] = value;
    payload
}

/// A body under `key`, with the outer copies that it asks for.
fn body(key: &SigningKey, payload: &Value) -> String {
    sealed(key, "observe", payload)
}

fn sealed(key: &SigningKey, kind: &str, payload: &Value) -> String {
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

fn key_of(node: &Node) -> SigningKey {
    parse_seed(&node.text("keys/node.key")).unwrap()
}

/// Refused like this, and not a byte on the anchor's disk is another.
#[track_caller]
fn refuses(fed: &Federation, body: &str, status: u16) -> Answer {
    let before = image(&fed.anchor.dir, &[""]);
    let answer = fed.post("/observe", body);
    assert_eq!(answer.status, status, "{} to {body}", answer.text());
    assert!(before == image(&fed.anchor.dir, &[""]), "a refusal wrote something: {body}");
    answer
}

#[test]
fn a_tick_tells_what_it_saw_and_the_anchor_keeps_it_as_signed() {
    let fed = Federation::found();
    let (n1, mut n2) = (fed.join("n1"), fed.join("n2"));
    n2.serve();
    n1.fed(&["tick"]).expect(0);
    let kept: Value = serde_json::from_str(&fed.anchor.text("observations/n1.json")).unwrap();
    let told: Value = serde_json::from_str(kept["payload"].as_str().unwrap()).unwrap();
    assert_eq!(kept["node"], "n1");
    assert_eq!(told["size"], n1.size());
    assert_eq!(told["tick"], 1);
    let saw = |told: &Value| -> Vec<(String, String)> {
        let text = |seen: &Value, name: &str| seen[name].as_str().unwrap().to_owned();
        let seen = told["seen"].as_array().unwrap();
        seen.iter().map(|seen| (text(seen, "node"), text(seen, "saw"))).collect()
    };
    let found: BTreeSet<(String, String)> = saw(&told).into_iter().collect();
    let answered = |id: &str| (id.to_owned(), "answered".to_owned());
    assert_eq!(found, BTreeSet::from([answered("gw1"), answered("n2")]));
    let signed = pae::encode("observe", kept["payload"].as_str().unwrap());
    let key = key_of(&n1).verifying_key();
    assert!(keys::verify(&key, &signed, kept["sig"].as_str().unwrap()));

    // The later one takes its place, with n2 away and heard.
    n2.stop();
    let first = fed.anchor.text("observations/n1.json");
    crate::harness::wait_for("the next second", || {
        n1.fed(&["tick"]).expect(0);
        (fed.anchor.text("observations/n1.json") != first).then_some(())
    });
    let kept: Value = serde_json::from_str(&fed.anchor.text("observations/n1.json")).unwrap();
    let told: Value = serde_json::from_str(kept["payload"].as_str().unwrap()).unwrap();
    assert!(told["tick"].as_u64().unwrap() > 1);
    assert_eq!(saw(&told)[0], ("n2".to_owned(), "failed".to_owned()), "who failed comes first");
    let names: Vec<String> = image(&fed.anchor.dir, &["observations/"]).into_keys().collect();
    assert_eq!(names, ["observations/n1.json"]);
}

#[test]
fn a_false_observation_is_refused_and_changes_nothing() {
    let fed = Federation::found();
    let (n1, n2) = (fed.join("n1"), fed.join("n2"));
    let key = key_of(&n1);
    let now = now_s();
    let good = payload(now);
    // Before the first, and again after it.
    for round in 0..2 {
        // Another key, another kind, no signature, somebody else's name.
        refuses(&fed, &body(&key_of(&n2), &good), 403);
        refuses(&fed, &sealed(&key, "leave", &good), 403);
        refuses(&fed, &body(&key, &with(&good, "node", "n2".into())), 403);
        let mut unsigned: Value = serde_json::from_str(&body(&key, &good)).unwrap();
        unsigned.as_object_mut().unwrap().remove("sig");
        refuses(&fed, &unsigned.to_string(), 403);
        let changed = body(&key, &good).replace("\\\"tick\\\":9", "\\\"tick\\\":8");
        assert_ne!(changed, body(&key, &good));
        refuses(&fed, &changed, 403);
        // Nobody that we know.
        refuses(&fed, &body(&key, &with(&good, "node", "n3".into())), 401);
        // A clock that is off.
        for ts in [now - 400, now + 400, 0] {
            refuses(&fed, &body(&key, &payload(ts)), 408);
        }
        // No observation.
        for (name, value) in [
            ("origin", json!("other.example/fed")),
            ("tick", json!("9")),
            ("tick", json!(-1)),
            ("seen", json!([{ "node": "n2", "inc": 1, "saw": "dead" }])),
            ("seen", json!(vec![json!({ "node": "n2", "inc": 1, "saw": "failed" }); 65])),
            ("seen", json!([{ "node": "../n2", "inc": 1, "saw": "failed" }])),
            ("more", json!(1)),
        ] {
            refuses(&fed, &body(&key, &with(&good, name, value)), 400);
        }
        refuses(&fed, "{}", 400);
        refuses(&fed, "", 400);
        if round == 0 {
            let answer = fed.post("/observe", &body(&key, &good));
            assert_eq!(answer.status, 202, "{}", answer.text());
        }
    }
    // Now there is one: the same again, an older one, an earlier tick of the same second.
    refuses(&fed, &body(&key, &good), 409);
    refuses(&fed, &body(&key, &payload(now - 1)), 409);
    refuses(&fed, &body(&key, &with(&good, "tick", 8.into())), 409);
    let most = json!(vec![json!({ "node": "n2", "inc": 1, "saw": "failed" }); 64]);
    let answer = fed.post("/observe", &body(&key, &with(&payload(now + 1), "seen", most)));
    assert_eq!(answer.status, 202, "{}", answer.text());
    // A revoked key says nothing any more.
    fed.anchor.good(&["revoke", "n1"]);
    refuses(&fed, &body(&key, &payload(now + 2)), 401);
}

/// A tick by hand may follow another within the second: that is nothing to tell anybody.
#[test]
fn ticks_of_one_second_are_quiet() {
    let fed = Federation::found();
    let node = fed.join("n1");
    node.fed(&["tick"]).expect(0);
    for _ in 0..5 {
        node.fed(&["tick"]).quiet();
    }
}

/// The roster is the anchor's: a member without one of its own lacks nothing.
#[test]
fn a_member_needs_no_roster_of_its_own() {
    let fed = Federation::found();
    let node = fed.join("n1");
    std::fs::write(fed.anchor.file(ROSTER), "p1|127.0.0.1|1|edge|active\n").unwrap();
    fed.anchor.fed(&["tick"]).expect(0);
    let _ = std::fs::remove_file(node.file(ROSTER));
    node.fed(&["tick"]).expect(0);
    assert!(node.text("nodes.ndjson").contains("\"type\":\"roster\""));
    let ran = node.fed(&["tick"]).expect(0);
    assert!(!ran.err.contains(ROSTER), "{ran:?}");
}

/// What others say is told on one line, without what a terminal would obey.
#[test]
fn a_refused_observation_is_one_warning() {
    let fed = Federation::found();
    let node = fed.join("n1");
    node.fed(&["tick"]).expect(0);
    fed.front.answer(|asked| match asked.is("/observe") {
        true => saying("409 Conflict", br#"{"message":"no\nno \u001b[31mno"}"#),
        false => Says::Truth,
    });
    let ran = node.fed(&["tick"]).expect(0);
    assert!(!ran.err.contains('\u{1b}'), "{ran:?}");
    ran.warning_once(&[&fed.front.url(), " with 409: no"]);
    // No answer at all is no word every tick, only its begin and its end.
    fed.front.answer(|asked| match asked.is("/observe") {
        true => saying("503 Later", b""),
        false => Says::Truth,
    });
    node.fed(&["tick"]).expect(0);
    node.fed(&["tick"]).expect(0);
    assert_eq!(fed.front.paths().iter().filter(|path| *path == "/observe").count(), 2);
}
