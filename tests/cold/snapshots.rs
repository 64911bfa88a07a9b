//! The snapshot is a help and never a witness: damaged, old or another host's, it changes nothing.

use crate::federation::{Federation, Node};
use crate::scene::federation;
use serde_json::Value;
use std::fs;

/// What readers see of the journal's meaning.
fn meaning(node: &Node) -> (Vec<String>, Value) {
    let status: Value = serde_json::from_str(&node.good(&["status", "--json"])).unwrap();
    (node.map(), status["members"].clone())
}

#[test]
fn snapshot_writes_what_a_tick_writes() {
    let fed = federation(300);
    for node in [&fed.anchor, &fed.others[0]] {
        let whole = node.bytes("snapshot.json");
        let told = node.good(&["snapshot"]);
        assert_eq!(node.bytes("snapshot.json"), whole, "the fold is the same on any way");
        let sealed: Value = serde_json::from_slice(&whole).unwrap();
        let sha256 = sealed["sha256"].as_str().unwrap();
        let head = sealed["snapshot"]["head"].as_str().unwrap();
        assert!(told.contains(sha256) && told.contains(head), "{told}");
        for damaged in [&whole[..whole.len() / 2], b"", b"{}"] {
            fs::write(node.file("snapshot.json"), damaged).unwrap();
            let json: Value = serde_json::from_str(&node.good(&["snapshot", "--json"])).unwrap();
            assert_eq!((&json["sha256"], &json["size"]), (&sealed["sha256"], &node.size().into()));
            assert_eq!(node.bytes("snapshot.json"), whole);
        }
        node.remove("snapshot.json");
        node.remove("state/tmp");
        node.good(&["snapshot"]);
        assert_eq!(node.bytes("snapshot.json"), whole);
    }
}

#[test]
fn nothing_is_written_from_lines_or_tiles_that_are_not_the_signed_ones() {
    let fed = federation(300);
    let node = &fed.anchor;
    let (whole, journal) = (node.bytes("snapshot.json"), node.text("nodes.ndjson"));
    fs::write(node.file("nodes.ndjson"), journal.replace("name-50", "name-51")).unwrap();
    node.remove("snapshot.json");
    node.fed(&["snapshot"]).expect(5).saying(&["nodes.ndjson"]);
    assert!(!node.file("snapshot.json").exists());
    fs::write(node.file("nodes.ndjson"), &journal).unwrap();
    let upper = "tile/1/000.p/1";
    let tile = node.bytes(upper);
    fs::write(node.file(upper), [7; 32]).unwrap();
    node.fed(&["snapshot"]).expect(5).saying(&["tile"]);
    assert!(!node.file("snapshot.json").exists());
    fs::write(node.file(upper), tile).unwrap();
    node.good(&["snapshot"]);
    assert_eq!(node.bytes("snapshot.json"), whole);
}

/// One of before, with the lines since: no full replay is needed, and the meaning is the same.
#[test]
fn an_older_snapshot_and_the_tail_mean_the_same() {
    let fed = federation(30);
    let node = &fed.anchor;
    let old = node.bytes("snapshot.json");
    fed.grow(40);
    let (whole, meant) = (node.bytes("snapshot.json"), meaning(node));
    fs::write(node.file("snapshot.json"), &old).unwrap();
    assert_eq!(meaning(node), meant);
    node.heals();
    assert_eq!(meaning(node), meant);
    node.good(&["snapshot"]);
    assert_eq!(node.bytes("snapshot.json"), whole);
}

/// A whole snapshot with a good checksum of another federation: smaller, as large, larger.
#[test]
fn another_hosts_snapshot_is_ignored() {
    let fed = federation(30);
    let node = &fed.anchor;
    let (whole, meant, size) = (node.bytes("snapshot.json"), meaning(node), node.size());
    let other = Federation::named("other.example/fed");
    let mut foreign = vec![other.anchor.bytes("snapshot.json")];
    for lines in [size - 3, 7] {
        other.grow(lines);
        foreign.push(other.anchor.bytes("snapshot.json"));
    }
    for snapshot in &foreign {
        fs::write(node.file("snapshot.json"), snapshot).unwrap();
        assert_eq!(meaning(node), meant, "a reader believed it");
        node.fed(&["tick"]).expect(0);
        node.good(&["snapshot"]);
        assert_eq!(node.bytes("snapshot.json"), whole);
        fs::write(node.file("snapshot.json"), snapshot).unwrap();
        node.heals();
        assert_eq!(meaning(node), meant);
    }
}
