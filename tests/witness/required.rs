//! A required witness: readers see nothing that it has not cosigned, and everything else goes on.

use crate::anchor::{Anchor, Serving};
use crate::rules::Said;
use crate::server::{Mood, Witness};
use serde_json::Value;
use std::fs;

const WAITING: &str = "waiting for witness test.example/w1";

fn away() -> Mood {
    Mood::Stubborn(Said::new(503, "later\n"))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn readers_wait_and_are_shown_everything_at_once() {
    let anchor = Anchor::found();
    let witness = anchor.witness();
    anchor.settings(&witness.config("required = true"));
    anchor.tick().quietly();
    let (shown, root) = (anchor.signed(), anchor.text("federation-root.txt"));
    let head = anchor.text("head.txt");
    witness.becomes(away());
    for (number, service) in (0..).zip(["a", "b", "c"]) {
        let line = shown + number;
        anchor.grow(service).ends(1, &[&format!("line {line} is committed, {WAITING}")]);
        anchor.tick().ends(0, &[WAITING, "status 503"]);
        assert_eq!((anchor.signed(), anchor.shown().0.size), (line + 1, shown));
    }
    assert_eq!((anchor.text("federation-root.txt"), anchor.text("head.txt")), (root, head));
    let status = anchor.fed(&["status"]).out;
    let waiting = format!("! {WAITING}: {} lines are signed, readers see {shown}\n", shown + 3);
    assert!(status.contains(&waiting), "{status}");
    assert!(status.contains(&format!("required witness test.example/w1 cosigned {shown} lines")));
    anchor.verifies();

    let serving = Serving::start(&anchor);
    assert_eq!(json(&serving.get("/head").1)["size"], shown);
    assert_eq!(serving.get("/root").1, anchor.text("federation-root.txt"));
    assert_eq!(serving.get(&format!("/proof?seq={}", shown - 1)).0, 200);
    assert_eq!(serving.get(&format!("/proof?seq={shown}")).0, 404);
    let hidden = anchor.text("nodes.ndjson").lines().nth(shown as usize).unwrap().to_owned();
    let leaf = crowny_fed::journal::merkle::leaf_hash(hidden.as_bytes());
    assert_eq!(serving.get(&format!("/proof?hash={leaf}")).0, 404);
    assert_eq!(serving.get("/nodes").1.lines().count() as u64, shown);
    let since = crowny_fed::journal::chain::origin_hash("test.example/fed");
    let (status, page) = serving.get(&format!("/sync?size=0&since={since}"));
    assert!(status == 200 && !page.contains(&hidden), "{page}");

    witness.becomes(Mood::Honest);
    anchor.tick().quietly();
    assert_eq!(anchor.shown().0.size, shown + 3);
    assert!(anchor.cosigned_at(&witness).is_some());
    assert_eq!(json(&serving.get("/head").1)["size"], shown + 3);
    assert_eq!(serving.get(&format!("/proof?hash={leaf}")).0, 200);
    assert!(serving.get(&format!("/sync?size=0&since={since}")).1.contains(&hidden));
    let snapshot = json(&anchor.text("snapshot.json"));
    assert_eq!(snapshot["snapshot"]["size"], shown + 3, "readers need not fold it again");
    anchor.verifies();
}

#[test]
fn a_request_asks_the_witness_and_is_answered_with_what_covers_it() {
    let anchor = Anchor::found();
    let witness = anchor.witness();
    anchor.settings(&witness.config("required = true"));
    for service in ["a", "b"] {
        anchor.grow(service).quietly();
        assert_eq!(anchor.shown().0.size, anchor.signed());
        assert!(anchor.cosigned_at(&witness).is_some());
    }
    // What is said already is answered at once.
    witness.asked();
    anchor.grow("b").quietly();
    assert_eq!(witness.asked(), []);
    anchor.verifies();
}

/// A signed request over HTTP, as a member would send it: the anchor's own registration, moved.
#[test]
fn over_http_the_answer_is_503_until_it_is_cosigned() {
    let anchor = Anchor::found();
    let witness = anchor.witness();
    let serving_config = witness.config("required = true");
    anchor.settings(&serving_config);
    anchor.tick().quietly();
    let serving = Serving::start(&anchor);
    let line = anchor.signed();
    witness.becomes(away());
    let first = registration(&anchor, 1);
    let (status, body) = serving.post("/register", &first);
    assert_eq!(status, 503, "{body}");
    let told = json(&body)["message"].as_str().unwrap().to_owned();
    assert_eq!(told, format!("line {line} is committed, {WAITING}"));
    assert_eq!((anchor.signed(), anchor.shown().0.size), (line + 1, line));
    // Said again, it makes no further line.
    assert_eq!(serving.post("/register", &registration(&anchor, 1)).0, 503);
    assert_eq!(anchor.signed(), line + 1);
    witness.becomes(Mood::Honest);
    let (status, body) = serving.post("/register", &registration(&anchor, 1));
    assert_eq!((status, &json(&body)["seq"]), (200, &line.into()), "{body}");
    assert_eq!(json(&body)["checkpoint"], anchor.text("federation-root.txt"));
    assert!(anchor.cosigned_at(&witness).is_some());
}

fn registration(anchor: &Anchor, incarnation: u64) -> String {
    use crowny_fed::auth::{keys, pae};
    let now_s = std::time::SystemTime::now();
    let now_s = now_s.duration_since(std::time::UNIX_EPOCH).unwrap();
    let (ts, nonce) = (now_s.as_secs(), format!("{:032x}", now_s.as_nanos()));
    let payload = format!(
        "{{\"incarnation\":{incarnation},\"mode\":\"ed25519\",\"node\":\"gw1\",\"nonce\":\"{nonce}\",\"origin\":\"test.example/fed\",\"reach\":\"inbound\",\"services\":[],\"ts\":{ts},\"urls\":[\"http://127.0.0.1:9161\"]}}"
    );
    let key = keys::parse_seed(anchor.text("keys/node.key").trim()).unwrap();
    let sig = keys::sign(&key, &pae::encode("register", &payload));
    let request = serde_json::json!({
        "mode": "ed25519", "node": "gw1", "nonce": nonce, "payload": payload, "ts": ts, "sig": sig,
    });
    request.to_string()
}

/// The one that is there does not have to be asked again when the other one comes back.
#[test]
fn what_one_witness_said_is_kept_while_another_is_waited_for() {
    let anchor = Anchor::found();
    let (required, other) = (anchor.witness(), Witness::start("w2", 12, anchor.vkey()));
    anchor.settings(&(required.config("required = true") + &other.config("")));
    required.becomes(away());
    anchor.grow("a").ends(1, &[WAITING]);
    anchor.tick().ends(0, &[WAITING]);
    assert_eq!(other.asked().len(), 1);
    anchor.tick().ends(0, &[WAITING]);
    assert_eq!(other.asked(), []);
    assert_eq!(anchor.cosigned_at(&other), None);
    required.becomes(Mood::Honest);
    anchor.tick().quietly();
    assert_eq!(other.asked(), []);
    assert!(anchor.cosigned_at(&required).is_some() && anchor.cosigned_at(&other).is_some());
    assert_eq!(anchor.shown().0.size, anchor.signed());
}

#[test]
fn files_that_are_lost_meanwhile_come_back() {
    let anchor = Anchor::found();
    let witness = anchor.witness();
    anchor.settings(&witness.config("required = true"));
    anchor.grow("a").quietly();
    let root = anchor.text("federation-root.txt");
    witness.becomes(away());
    // What was cosigned is known without the witness.
    for name in ["federation-root.txt", "head.txt", "snapshot.json"] {
        fs::remove_file(anchor.path(name)).unwrap();
        anchor.tick().quietly();
        assert_eq!(anchor.text("federation-root.txt"), root);
        anchor.verifies();
    }
    // What was not stays unseen, and is shown when it may be.
    anchor.grow("b").ends(1, &[WAITING]);
    fs::write(anchor.path("federation-root.txt"), "spoilt").unwrap();
    anchor.tick().ends(0, &[WAITING]);
    witness.becomes(Mood::Honest);
    anchor.tick().quietly();
    assert_eq!(anchor.shown().0.size, anchor.signed());
    // Without the floor the root file is one, and lines beyond it are signed as they were.
    witness.becomes(away());
    anchor.grow("c").ends(1, &[WAITING]);
    let signed = anchor.text("state/committed.json");
    fs::remove_file(anchor.path("state/committed.json")).unwrap();
    anchor.tick().ends(0, &[WAITING]);
    assert_eq!(anchor.text("state/committed.json"), signed);
}

/// Who knows only the log key before must be able to read what is shown, however long that waits.
#[test]
fn another_log_key_while_readers_wait() {
    let anchor = Anchor::found();
    let witness = anchor.witness();
    anchor.settings(&witness.config("required = true"));
    anchor.tick().quietly();
    let before = anchor.vkey();
    witness.becomes(away());
    anchor.fed(&["rotate-key", "--log"]).ends(1, &["is committed, waiting for witness"]);
    anchor.tick().ends(0, &[WAITING]);
    assert_eq!(anchor.vkey().to_string(), before.to_string());
    anchor.verifies();
    witness.becomes(Mood::Honest);
    anchor.tick().quietly();
    assert_ne!(anchor.vkey().to_string(), before.to_string());
    assert_eq!(anchor.shown().0.size, anchor.signed());
    anchor.tick().quietly();
    anchor.verifies();
}

#[test]
fn no_longer_required_means_no_longer_waited_for() {
    let anchor = Anchor::found();
    let witness = anchor.witness();
    anchor.settings(&witness.config("required = true"));
    witness.becomes(away());
    anchor.grow("a").ends(1, &[WAITING]);
    anchor.settings(&witness.config(""));
    anchor.tick().ends(0, &["status 503"]);
    assert_eq!(anchor.shown().0.size, anchor.signed());
    anchor.verifies();
}
