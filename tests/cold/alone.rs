//! Starts with next to nothing: the journal alone, a peer alone, everything derived gone, an `init`
//! that was cut off, files that a power cut emptied.

use crate::federation::{Federation, Node};
use crate::harness::Folder;
use crate::scene::{DERIVED, federation};
use std::fs;

/// Removes everything but what is named.
fn keep_only(node: &Node, kept: &[&str]) {
    for entry in fs::read_dir(&node.dir).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !kept.contains(&name.as_str()) {
            node.remove(&name);
        }
    }
}

#[test]
fn an_anchor_goes_on_from_its_journal_alone_after_a_word() {
    let fed = federation(20);
    let (anchor, lines) = (&fed.anchor, fed.anchor.lines());
    keep_only(anchor, &["nodes.ndjson", "self.json", "keys", "crowny-fed.toml"]);
    // Nobody knows how much was signed, so nothing is.
    for verb in ["tick", "verify"] {
        anchor.fed(&[verb]).expect(5).saying(&["how many were signed", "doctor --adopt"]);
    }
    assert!(!anchor.file("federated-routes.txt").exists());
    anchor.doctor(5, &["how many were signed", "next: crowny-fed doctor --adopt --dir"]);
    let told = anchor.good(&["doctor", "--adopt"]);
    assert!(told.starts_with("adopted") && told.contains("601 s"), "{told}");
    assert_eq!(anchor.lines(), lines);
    anchor.heals();
    anchor.doctor(3, &["signed writes wait"]);
    fed.others[0].fed(&["register"]).kept(&["503"]);
    fed.others[0].good(&["merge"]);
    anchor.wait_is_over();
    fed.others[0].fed(&["drain"]).expect(0);
    for node in &fed.others {
        node.fed(&["sync"]).quiet();
        node.is_a_copy_of(anchor);
    }
    anchor.doctor(0, &["all well"]);
    // Once is enough.
    anchor.fed(&["doctor", "--adopt"]).expect(3).saying(&["nothing to adopt"]);
}

#[test]
fn an_anchor_with_nothing_but_its_keys_takes_the_journal_from_a_member_that_is_named() {
    let fed = federation(300);
    let (anchor, lines) = (&fed.anchor, fed.anchor.lines());
    keep_only(anchor, &["self.json", "keys", "crowny-fed.toml"]);
    anchor.doctor(5, &["has no lines yet", "doctor --adopt URL"]);
    // Neither a roster row nor an operator's word may become the first line of another log.
    fs::write(anchor.file("피어목록.psv"), "p1|127.0.0.1|1|edge|active\n").unwrap();
    fs::write(anchor.file("federated-routes.txt"), "the last map\n").unwrap();
    for verb in [&["tick"][..], &["grant", "api", "n1"]] {
        anchor.fed(verb).expect(5).saying(&["has no lines", "doctor --adopt URL"]);
    }
    assert!(!anchor.file("nodes.ndjson").exists());
    assert_eq!(anchor.text("federated-routes.txt"), "the last map\n");
    anchor.remove("피어목록.psv");
    anchor.fed(&["doctor", "--adopt"]).expect(1).saying(&["doctor --adopt URL"]);
    let told = anchor.good(&["doctor", "--adopt", &fed.others[1].url()]);
    assert!(
        told.contains(&format!("{} lines from {}", lines.len(), fed.others[1].url())),
        "{told}"
    );
    assert_eq!(anchor.lines(), lines);
    anchor.heals();
    anchor.is_a_copy_of(&fed.others[0]);
}

/// Without its own floor it asks first, and fetches what it lacks before it signs anything.
#[test]
fn an_anchor_without_floor_and_with_an_old_journal_takes_the_rest_from_its_members() {
    let fed = federation(40);
    let (anchor, lines) = (&fed.anchor, fed.anchor.lines());
    keep_only(anchor, &["nodes.ndjson", "self.json", "keys", "crowny-fed.toml"]);
    let old: String = lines[..lines.len() - 9].iter().map(|line| format!("{line}\n")).collect();
    fs::write(anchor.file("nodes.ndjson"), old).unwrap();
    let told = anchor.good(&["doctor", "--adopt"]);
    assert!(told.contains("adopted: 9 lines from"), "{told}");
    assert_eq!(anchor.lines(), lines);
    anchor.heals();
    anchor.is_a_copy_of(&fed.others[0]);
}

#[test]
fn a_changed_line_is_not_adopted() {
    let fed = federation(20);
    let anchor = &fed.anchor;
    keep_only(anchor, &["nodes.ndjson", "self.json", "keys", "crowny-fed.toml"]);
    // A line that its author did not sign, in a chain that was made anew after it.
    let lines = anchor.lines();
    let at = lines.iter().position(|line| line.contains("\"register\"")).unwrap();
    let forged = lines[at].replace("\\\"weight\\\":1", "\\\"weight\\\":9");
    assert!(forged != lines[at]);
    let head: String = lines[..at].iter().map(|line| format!("{line}\n")).collect();
    fs::write(anchor.file("nodes.ndjson"), format!("{head}{forged}\n")).unwrap();
    let before = anchor.fetched();
    anchor.fed(&["doctor", "--adopt"]).expect(5).saying(&[&format!("line {at}")]);
    assert!(before == anchor.fetched(), "something was signed");
}

#[test]
fn a_member_with_nothing_but_its_keys_takes_the_journal_from_another_member() {
    let mut fed = federation(300);
    let node = fed.others.remove(0);
    fed.anchor.stop();
    keep_only(&node, &["self.json", "keys", "crowny-fed.toml"]);
    node.doctor(3, &["has no lines yet", "next: crowny-fed sync"]);
    node.fed(&["sync", "--from", &fed.others[0].url()]).expect(0);
    node.fed(&["tick"]).expect(0);
    node.is_a_copy_of(&fed.others[0]);
    let rows = |node: &Node| node.map().len();
    assert_eq!(rows(&node), rows(&fed.others[0]));
}

#[test]
fn everything_derived_comes_back_at_once() {
    let fed = federation(300);
    for node in [&fed.anchor, &fed.others[0]] {
        let (map, journal) = (node.map(), node.lines());
        DERIVED.iter().for_each(|name| node.remove(name));
        node.doctor(3, &["the next tick makes it anew"]);
        node.heals();
        assert_eq!((node.map(), node.lines()), (map, journal));
        node.doctor(0, &["all well"]);
    }
}

/// The first line alone, without any floor, as a killed `init` may leave it.
#[test]
fn a_lone_own_genesis_is_completed() {
    for finish in ["init", "tick"] {
        let folder = Folder::new();
        let node = Node::in_folder(&folder, "gw1");
        let init = ["init", "--origin", "test.example/lone", "--id", "gw1", "--interval", "0"];
        node.good(&init);
        let genesis = node.lines().swap_remove(0);
        for name in
            DERIVED.into_iter().chain(["state/committed.json", "tick.json", "freshness.json"])
        {
            node.remove(name);
        }
        fs::write(node.file("nodes.ndjson"), format!("{genesis}\n")).unwrap();
        match finish {
            "init" => drop(node.good(&init)),
            verb => drop(node.fed(&[verb]).expect(0)),
        }
        assert_eq!(node.lines()[0], genesis);
        node.heals();
        assert!(node.size() >= 1);
    }
}

/// A live file of zero bytes after a power cut, with the good new one still beside it
/// (tailscale#20515): old or new state, or an error that names this very file.
#[test]
fn an_emptied_file_beside_a_good_temporary_one() {
    let fed = federation(5);
    let anchor = &fed.anchor;
    let beside = |node: &Node, name: &str| {
        let name = name.rsplit('/').next().unwrap();
        node.file(&format!("state/tmp/{name}"))
    };
    for name in [
        "snapshot.json",
        "tick.json",
        "head.txt",
        "federation-root.txt",
        "freshness.json",
        "federated-routes.txt",
        "index/offsets",
        "state/looked.json",
        "state/clock.json",
    ] {
        let node = anchor.copy_as(&format!("emptied-{}", name.replace('/', "-")));
        let (map, journal) = (node.map(), node.lines());
        fs::write(beside(&node, name), node.bytes(name)).unwrap();
        fs::write(node.file(name), "").unwrap();
        node.heals();
        assert_eq!((node.map(), node.lines()), (map, journal), "{name}");
    }
    for (name, code) in [("state/committed.json", 5), ("self.json", 78), ("keys/log.key", 78)] {
        let node = anchor.copy_as(&format!("emptied-{}", name.replace('/', "-")));
        let whole = node.bytes(name);
        fs::write(beside(&node, name), &whole).unwrap();
        fs::write(node.file(name), "").unwrap();
        let file = name.rsplit('/').next().unwrap();
        node.fed(&["tick"]).expect(code).saying(&[file]);
        let ran = node.doctor(code, &[file, "next: "]);
        match name {
            "state/committed.json" => {
                assert!(ran.out.contains("mv "), "{ran:?}");
                node.remove(name);
            }
            _ => fs::write(node.file(name), whole).unwrap(),
        }
        node.heals();
    }
}

/// What a gateway reads stays as it is until a tick is good again.
#[test]
fn the_last_map_is_untouched_until_the_first_good_tick() {
    let fed = Federation::found();
    fed.grow(10);
    fed.anchor.good(&["tick"]);
    let node = &fed.anchor;
    let (stamp, map) = (node.stamp("federated-routes.txt"), node.bytes("federated-routes.txt"));
    let journal = node.text("nodes.ndjson");
    let floor = node.bytes("state/committed.json");
    let damages: [(&str, Vec<u8>); 3] = [
        ("nodes.ndjson", journal.replace("name-5", "name-6").into_bytes()),
        ("nodes.ndjson", journal.as_bytes()[..journal.len() / 2].to_vec()),
        ("state/committed.json", b"{}".to_vec()),
    ];
    for (name, damaged) in damages {
        fs::write(node.file(name), damaged).unwrap();
        for _ in 0..2 {
            node.fed(&["tick"]).expect(5);
            node.doctor(5, &[name]);
        }
        fs::write(node.file("nodes.ndjson"), &journal).unwrap();
        fs::write(node.file("state/committed.json"), &floor).unwrap();
        assert_eq!(node.bytes("federated-routes.txt"), map);
        assert_eq!(node.stamp("federated-routes.txt"), stamp, "written by a tick that failed");
    }
    node.heals();
    assert_eq!(node.bytes("federated-routes.txt"), map);
}
