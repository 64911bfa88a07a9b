//! `recover`: the anchor's host is destroyed.

use crate::federation::{Federation, Node};
use crate::harness::{Ran, fed};
use std::fs;
use std::path::PathBuf;

/// The key that the operator kept offline.
fn kept_offline(fed: &Federation) -> PathBuf {
    let path = fed.folder.path().join("recovery.key");
    fs::copy(fed.anchor.file("keys/recovery.key"), &path).unwrap();
    path
}

fn recover(node: &Node, key: &std::path::Path, more: &[&str]) -> Ran {
    let args = [&["recover", "--key", key.to_str().unwrap()], more].concat();
    node.fed(&args)
}

fn destroy(fed: &mut Federation) {
    fed.anchor.stop();
    fs::remove_dir_all(&fed.anchor.dir).unwrap();
}

/// The drill: host destroyed, a node promoted, all follow, no line lost that any node held, the old
/// anchor coming back is refused.
#[test]
fn a_node_takes_the_place_of_a_destroyed_anchor() {
    let mut fed = Federation::found();
    let (mut n1, mut n2, mut n3) = (fed.join("n1"), fed.join("n2"), fed.join("n3"));
    for node in [&mut n1, &mut n2] {
        node.serve();
    }
    for node in [&n1, &n2, &n3] {
        node.good(&["tick"]);
    }
    let key = kept_offline(&fed);
    // Lines that only n2 has by the time of the accident: n1 must get them.
    fed.grow(40);
    n2.good(&["tick"]);
    let held = n2.lines();
    // Lines that only somebody has who cannot be reached, one of them signed by a member.
    n3.good(&["drain"]);
    fed.anchor.good(&["grant", "extra", "n2"]);
    n3.good(&["tick"]);
    let only_there = n3.lines();
    assert!(only_there.len() > held.len());
    let mut old = fed.anchor.copy_as("old");
    destroy(&mut fed);

    let ran = recover(&n1, &key, &[]).expect(0);
    assert!(ran.out.contains("n1 serialises in epoch 1"), "{ran:?}");
    assert!(ran.out.contains("not asked, for they do not answer: n3;"), "{ran:?}");
    assert_eq!(n1.lines()[..held.len()], held[..], "what any reachable node held is kept");
    assert_eq!(n1.size(), held.len() as u64 + 1);
    n1.fed(&["verify", "--full"]).quiet();
    n2.fed(&["tick"]).expect(0);
    n1.good(&["tick"]);
    for _ in 0..4 {
        n2.fed(&["tick"]).expect(0);
    }
    n2.is_a_copy_of(&n1);

    // Whoever held more cuts, keeps it, and follows.
    n3.serve();
    let ran = n3.fed(&["tick"]).expect(0).saying(&[
        "serialises in epoch 1",
        "kept in",
        "do again: grant extra n2",
    ]);
    assert!(!ran.err.contains("fork"), "{ran:?}");
    n3.is_a_copy_of(&n1);
    let kept = n3.evidence();
    let tail = kept.iter().find(|(name, _)| name.contains("/tail-") && name.ends_with(".ndjson"));
    let tail = String::from_utf8(tail.unwrap().1.clone()).unwrap();
    assert_eq!(tail.lines().collect::<Vec<_>>(), only_there[held.len()..], "no line is lost");
    assert!(kept.keys().any(|name| name.contains("/tail-") && name.ends_with(".txt")));

    // What members signed among them goes home at once, though words wait: it comes in only once.
    n3.fed(&["tick"]).expect(0);
    n3.fed(&["tick"]).expect(0);
    assert!(n1.good(&["log"]).contains("n3: drains, from a branch"), "{}", n1.good(&["log"]));
    assert!(n1.map().iter().any(|row| row.contains("|n3|") && row.contains("drain")));
    assert!(!n3.file("branch.ndjson").exists(), "{}", n3.text("branch.ndjson"));
    n3.is_a_copy_of(&n1);

    // The old anchor coming back signs nothing, and follows.
    let (size, lines) = (old.size(), old.lines().len());
    old.serve();
    let told = old.fed(&["tick"]).expect(5);
    assert!(told.err.contains("n1 serialises in epoch 1"), "{told:?}");
    assert_eq!((old.size(), old.lines().len()), (size, lines), "it signed nothing");
    // It follows, says that it lives, and fetches that as well.
    old.fed(&["tick"]).expect(0);
    old.fed(&["tick"]).expect(0);
    old.is_a_copy_of(&n1);
    old.fed(&["grant", "x", "n1"]).expect(78).saying(&["not the anchor"]);
}

#[test]
fn only_the_recovery_key_recovers_and_only_a_lost_anchor() {
    let mut fed = Federation::found();
    let mut n1 = fed.join("n1");
    n1.serve();
    n1.good(&["tick"]);
    let key = kept_offline(&fed);
    let size = n1.size();
    recover(&n1, &key, &[]).expect(3).saying(&["an anchor answers", "handover"]);
    recover(&n1, &n1.file("keys/node.key"), &[]).expect(3).saying(&["not the recovery key"]);
    Ran::of(fed_recover(&n1), "nonsense\n").expect(2).saying(&["recovery key"]);
    recover(&n1, &fed.folder.path().join("none"), &[]).expect(1);
    assert_eq!(n1.size(), size, "nothing was written");
    fed.anchor.stop();
    let text = fs::read_to_string(&key).unwrap();
    Ran::of(fed_recover(&n1), &text).expect(0);
    assert!(!n1.text("nodes.ndjson").contains(text.trim()), "the key is nowhere");
    assert_eq!(n1.size(), size + 1);
    // Once more is another epoch, not a second one of the same number.
    let ran = recover(&n1, &key, &[]).expect(0);
    assert!(ran.out.contains("epoch 2"), "{ran:?}");
    n1.good(&["tick"]);
    n1.fed(&["verify", "--full"]).quiet();
}

fn fed_recover(node: &Node) -> std::process::Command {
    fed(&node.dir, &["recover"])
}

/// Somebody who shows the origin's name over lines of his own proves nothing.
#[test]
fn a_false_epoch_convinces_nobody() {
    let fed = Federation::found();
    let n1 = fed.join("n1");
    n1.good(&["tick"]);
    // Another federation of the same name, with keys of its own.
    let other = Federation::found();
    other.grow(50);
    let (port, before) = (other.anchor.port, n1.fetched());
    fed.front.answer(move |_| crate::stand_in::Says::Another(port));
    n1.fed(&["tick"]).expect(0).saying(&[&fed.front.url()]);
    assert_eq!(n1.fetched(), before);
    let served = n1.copy_as("copy");
    drop(served);
    fed.front.honest();
    n1.fed(&["tick"]).quiet();
}
