//! Deaths that members agree on, and words they believe each other.

use crate::federation::{Federation, Node};
use crate::harness::get;
use crowny_fed::auth::keys::{self, parse_seed};
use crowny_fed::auth::pae;
use crowny_fed::journal::line::{Author, Line};
use serde_json::{Value, json};
use std::fs;

/// Three members that answer, and an anchor that does not any more.
fn without_anchor() -> (Federation, [Node; 3]) {
    let mut fed = Federation::found();
    let mut nodes = ["n1", "n2", "n3"].map(|id| fed.join(id));
    for node in &mut nodes {
        node.serve();
        node.good(&["tick"]);
    }
    fed.anchor.good(&["tick"]);
    for node in &nodes {
        node.fed(&["tick"]).expect(0);
    }
    fed.anchor.stop();
    (fed, nodes)
}

fn status(node: &Node) -> Value {
    serde_json::from_str(&node.good(&["status", "--json"])).unwrap()
}

fn row(node: &Node, id: &str) -> Option<String> {
    node.map().into_iter().find(|row| row.split('|').nth(1) == Some(id))
}

fn decisions(node: &Node, kind: &str) -> Vec<Value> {
    let lines = node.text("decisions.ndjson");
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_kind = lines.filter(|line| line["type"] == kind);
    of_kind.map(|line| serde_json::from_str(line["payload"].as_str().unwrap()).unwrap()).collect()
}

#[test]
fn members_agree_that_one_is_dead_and_the_anchor_has_the_last_word() {
    let (mut fed, [n1, n2, mut n3]) = without_anchor();
    n3.stop();
    let all = ["gw1", "n1", "n2", "n3"];
    // What the others saw last speaks for it, until they have looked again.
    n1.fed(&["tick"]).expect(0);
    assert!(!row(&n1, "n3").unwrap().contains("provisional"), "{:?}", n1.map());
    n2.fed(&["tick"]).expect(0);
    n1.fed(&["tick"]).expect(0);
    assert!(row(&n1, "n3").unwrap().ends_with("|provisional"), "{:?}", n1.map());
    assert!(n1.good(&["status"]).contains("n3 is doubted, with no anchor to judge"));
    for _ in 0..4 {
        n1.fed(&["tick"]).expect(0);
        n2.fed(&["tick"]).expect(0);
    }
    for node in [&n1, &n2] {
        let held = status(node)["provisional"]["dead"].clone();
        assert_eq!(held, json!(["gw1", "n3"]), "{}", node.good(&["status"]));
        assert_eq!(node.map().len(), 2, "{:?}", node.map());
        let told = decisions(node, "provisional");
        let mut dead: Vec<&str> = told.iter().map(|it| it["node"].as_str().unwrap()).collect();
        dead.sort_unstable();
        assert_eq!(dead, ["gw1", "n3"], "one line for each, whatever came after");
    }
    // No line of it is the journal's.
    assert_eq!(n1.lines(), fed.anchor.lines());

    n3.serve();
    n1.fed(&["tick"]).expect(0);
    assert!(row(&n1, "n3").is_some(), "one answer ends it");
    fed.anchor.serve();
    n1.fed(&["tick"]).expect(0).saying(&["the anchor is back"]);
    assert_eq!(status(&n1)["provisional"], json!({}));
    n1.fed(&["tick"]).expect(0);
    for id in all {
        assert!(!row(&n1, id).unwrap_or_default().contains("provisional"), "{id}: {:?}", n1.map());
    }
    assert_eq!(n1.map().len(), all.len());
}

#[test]
fn a_map_that_is_to_hold_holds_and_is_marked() {
    let (_fed, [n1, n2, mut n3]) = without_anchor();
    n3.stop();
    let hold = n1.text("crowny-fed.toml") + "anchorless = \"hold\"\n";
    fs::write(n1.file("crowny-fed.toml"), hold).unwrap();
    for _ in 0..6 {
        n1.fed(&["tick"]).expect(0);
        n2.fed(&["tick"]).expect(0);
    }
    assert_eq!(n1.map().len(), 4, "{:?}", n1.map());
    for id in ["gw1", "n3"] {
        assert!(row(&n1, id).unwrap().ends_with("|provisional"), "{:?}", n1.map());
    }
    assert_eq!(n2.map().len(), 2);
    fs::write(n1.file("crowny-fed.toml"), "anchorless = \"die\"\n").unwrap();
    n1.fed(&["tick"]).expect(78).saying(&["line 1", "expected `agree` or `hold`"]);
}

#[test]
fn what_a_member_says_in_isolation_counts_for_the_others_at_once() {
    let (mut fed, [n1, n2, n3]) = without_anchor();
    let ran = n1.fed(&["drain"]).expect(0);
    assert!(ran.out.contains("branch.ndjson") || ran.err.contains("branch.ndjson"), "{ran:?}");
    n1.fed(&["tick"]).expect(0);
    n2.fed(&["tick"]).expect(0);
    let told = row(&n2, "n1").unwrap();
    assert!(told.ends_with("|drain|provisional"), "{told}");
    // Somebody else's word in one's own branch is believed by its signature alone.
    let page = get(n1.port, "/sync?branch").text();
    let (line, rest) = page.split_once('\n').unwrap();
    assert!(rest.starts_with("\n{\"mode\":\"ed25519\",\"node\":\"n1\""), "{rest}");
    let forged = line.replace("\\\"on\\\":true", "\\\"on\\\":false");
    assert_ne!(forged, line);
    fs::write(n3.file("branch.ndjson"), forged + "\n").unwrap();
    n2.fed(&["tick"]).expect(0);
    assert!(row(&n2, "n1").unwrap().ends_with("|drain|provisional"));
    fs::remove_file(n3.file("branch.ndjson")).unwrap();

    fed.anchor.serve();
    n1.fed(&["tick"]).expect(0);
    n1.fed(&["tick"]).expect(0);
    assert!(!n1.file("branch.ndjson").exists(), "the journal holds it");
    for node in [&n1, &n2, &n3] {
        node.fed(&["tick"]).expect(0);
        assert!(row(node, "n1").unwrap().ends_with("|drain"), "{:?}", node.map());
        assert_eq!(node.lines(), fed.anchor.lines());
    }
}

/// Who says something and goes, or whose disk dies, is heard all the same: the others keep it.
#[test]
fn a_word_outlives_who_said_it() {
    let (mut fed, [mut n1, n2, n3]) = without_anchor();
    n1.fed(&["drain"]).expect(0);
    n2.fed(&["tick"]).expect(0);
    n1.stop();
    n2.fed(&["tick"]).expect(0);
    let told = row(&n2, "n1").unwrap();
    assert!(told.ends_with("|drain|provisional"), "{told}");
    // Who has not heard it from its author hears it from whoever keeps it.
    n3.fed(&["tick"]).expect(0);
    assert!(row(&n3, "n1").unwrap().contains("|drain|"), "{:?}", n3.map());
    assert_eq!(n2.text("branch.ndjson"), n1.text("branch.ndjson"));
    fs::remove_dir_all(&n1.dir).unwrap();

    fed.anchor.serve();
    n2.fed(&["tick"]).expect(0);
    n2.fed(&["tick"]).expect(0);
    assert!(!n2.file("branch.ndjson").exists(), "the journal holds it");
    assert!(fed.anchor.good(&["log"]).contains("n1: drains, from a branch"));
    n3.fed(&["tick"]).expect(0);
    assert!(!n3.file("branch.ndjson").exists());
}

/// A registration as a holder of the node's key could sign it, in a line of a branch.
fn registration(node: &Node, id: &str, fields: Value) -> String {
    let lines = node.lines();
    let mut lines = lines.iter().map(|raw| Line::parse(raw.as_bytes()).unwrap());
    let of_node =
        |line: &Line| line.kind == "register" && line.payload.contains(&format!("{id:?}"));
    let last = lines.rfind(of_node).unwrap();
    let mut said: Value = serde_json::from_str(&last.payload).unwrap();
    let fields = fields.as_object().unwrap().clone();
    said.as_object_mut().unwrap().extend(fields);
    let payload = said.to_string();
    let key = parse_seed(&node.text("keys/node.key")).unwrap();
    let author = Author {
        sig: keys::sign(&key, &pae::encode("register", &payload)),
        ..last.author.clone().unwrap()
    };
    Line { payload, author: Some(author), ..last }.render() + "\n"
}

/// The rules for what may be said hold while nobody is there to enforce them.
#[test]
fn what_no_anchor_would_take_counts_for_nobody() {
    let (_fed, [_n1, n2, n3]) = without_anchor();
    let held = row(&n2, "n3").unwrap();
    let name = held.split('|').next().unwrap();
    let service = |url: &str| json!([{ "name": name, "url": url, "weight": 1 }]);
    let nonce = |n: u64| json!(format!("{n:032x}"));
    let inside = service("http://169.254.169.254");
    let many: Vec<Value> = (0..200)
        .map(|n| json!({ "name": format!("s{n}"), "url": "http://192.0.2.1", "weight": 1 }))
        .collect();
    let long = json!({ "a": "x".repeat(5_000) });
    for (n, bad) in [
        json!({ "incarnation": 9, "nonce": nonce(1), "services": inside }),
        json!({ "incarnation": 9, "nonce": nonce(2), "urls": ["http://169.254.169.254"] }),
        json!({ "incarnation": 9, "nonce": nonce(3), "services": many }),
        json!({ "incarnation": 9, "nonce": nonce(4), "tags": long }),
        json!({ "incarnation": 1u64 << 40, "nonce": nonce(5) }),
        json!({ "incarnation": 9, "nonce": "short" }),
        json!({ "incarnation": 9, "nonce": nonce(6), "origin": "other.example/fed" }),
    ]
    .into_iter()
    .enumerate()
    {
        fs::write(n3.file("branch.ndjson"), registration(&n3, "n3", bad)).unwrap();
        n2.fed(&["tick"]).expect(0);
        let told = row(&n2, "n3").unwrap();
        assert_eq!(told.split('|').nth(2), held.split('|').nth(2), "{n}: {told}");
        assert!(!told.contains("provisional"), "{n}: {told}");
        assert!(!n2.file("branch.ndjson").exists(), "{n}: nobody carries it");
    }
    let good = json!({
        "incarnation": 9, "nonce": nonce(7), "services": service("http://127.0.0.1:9"),
    });
    fs::write(n3.file("branch.ndjson"), registration(&n3, "n3", good)).unwrap();
    n2.fed(&["tick"]).expect(0);
    assert!(row(&n2, "n3").unwrap().contains("127.0.0.1:9|"), "{:?}", n2.map());
}
