//! Two epochs that do not go on from each other: a thief with an old log key, an old copy that wrote
//! on, two recoveries apart.

use crate::federation::{Federation, Node};
use crate::harness::{Ran, fed};
use crate::stand_in::{Says, saying};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

/// An anchor with three members that are served, and its recovery key.
fn four() -> (Federation, [Node; 3], PathBuf) {
    let fed_ = Federation::found();
    let mut nodes = ["n1", "n2", "n3"].map(|id| fed_.join(id));
    for node in &mut nodes {
        node.serve();
        node.good(&["tick"]);
    }
    nodes.iter().for_each(|node| drop(node.good(&["tick"])));
    let key = fed_.folder.path().join("recovery.key");
    fs::copy(fed_.anchor.file("keys/recovery.key"), &key).unwrap();
    (fed_, nodes, key)
}

fn recover(node: &Node, key: &std::path::Path) {
    node.fed(&["recover", "--force", "--key", key.to_str().unwrap()]).expect(0);
}

/// Whoever holds an old log key can begin epochs below what the recovery key began, and is followed
/// by nobody; who followed him before crosses over to what the recovery key says.
#[test]
fn a_thief_with_an_old_log_key_takes_nothing_over() {
    let (mut fed_, [mut n1, mut n2, mut n3], key) = four();
    let offer = n3.good(&["handover", "--offer"]);
    // The thief's copy of everything, and an accomplice with the name and keys of n3.
    let (mut thief, mut accomplice) = (fed_.anchor.copy_as("thief"), n3.copy_as("accomplice"));
    let misled = n2.copy_as("misled");
    fed_.anchor.stop();
    recover(&n1, &key);
    n2.fed(&["tick"]).expect(0);
    n2.fed(&["tick"]).expect(0);
    n2.is_a_copy_of(&n1);

    Ran::of(fed(&thief.dir, &["handover", "-"]), &offer).expect(0);
    thief.serve();
    // Apart from all others, for they would show the recovery.
    [&mut n1, &mut n2, &mut n3].into_iter().for_each(Node::stop);
    accomplice.follow(&thief.url());
    accomplice.serve();
    assert!(accomplice.fed(&["tick"]).expect(0).err.contains("serialises from now on"));
    crate::federation::grow(&accomplice.dir, 30);
    misled.follow(&accomplice.url());
    misled.fed(&["tick"]).expect(0);
    assert!(misled.lines().len() > n1.lines().len(), "{}", misled.good(&["status"]));
    n1.serve();
    n2.serve();

    // Those who follow the recovered anchor, and that anchor itself, stay where they are.
    let held = n2.lines();
    n2.follow(&accomplice.url());
    for _ in 0..3 {
        n2.fed(&["tick"]).expect(0);
    }
    assert_eq!(n2.lines()[..held.len()], held[..]);
    for _ in 0..3 {
        n1.fed(&["tick"]).expect(0);
    }
    n1.good(&["grant", "mine", "n2"]);
    // Who was misled is shown the recovery, and crosses over.
    misled.follow(&n1.url());
    misled.fed(&["tick"]).expect(0).saying(&["n1 serialises in epoch 1", "kept in"]);
    misled.fed(&["tick"]).expect(0);
    assert_eq!(misled.lines()[..n1.lines().len()], n1.lines()[..]);
}

/// Two operators recover apart from each other: both acts count alike, and all end with one of them.
#[test]
fn of_two_recoveries_one_is_left() {
    let (mut fed_, [n1, n2, n3], key) = four();
    fed_.anchor.stop();
    let mut nodes = [n1, n2, n3];
    // Neither sees the other, nor the third.
    nodes.iter_mut().for_each(Node::stop);
    recover(&nodes[0], &key);
    recover(&nodes[1], &key);
    nodes.iter_mut().for_each(Node::serve);
    for _ in 0..6 {
        for node in &nodes {
            let ran = node.fed(&["tick"]);
            assert!(matches!(ran.code, Some(0 | 5)), "{ran:?}");
        }
    }
    let anchors: Vec<Value> =
        nodes.iter().map(|node| serde_json::from_str(&node.text("self.json")).unwrap()).collect();
    let signing = anchors.iter().filter(|identity| identity["anchors"] == json!(null)).count();
    assert_eq!(signing, 1, "{anchors:#?}");
    let last = nodes.iter().max_by_key(|node| node.lines().len()).unwrap();
    for node in &nodes {
        node.fed(&["tick"]).expect(0);
        let held = node.lines();
        assert!(last.lines().starts_with(&held[..held.len().min(last.lines().len())]));
        node.fed(&["verify", "--full"]).expect(0);
    }
}

/// What a server says of where two histories part is its word; the lines tell.
#[test]
fn a_liar_cuts_off_nothing_that_both_have() {
    let (mut fed_, [mut n1, n2, mut n3], key) = four();
    // A longer tail that only n3 holds.
    fed_.grow(5);
    n3.good(&["tick"]);
    n3.stop();
    fed_.anchor.stop();
    recover(&n1, &key);
    n1.serve();
    let fork = n1.lines().len() - 1;
    let port = n1.port;
    fed_.front.answer(move |asked| {
        if !asked.path.contains("locator=") {
            return Says::Another(port);
        }
        let told = asked.answer_of(port).unwrap();
        let mut value = told.json();
        value["common"] = Value::Null;
        saying("409 Conflict", value.to_string().as_bytes())
    });
    n3.fed(&["tick"]).expect(0).saying(&["serialises in epoch 1", "kept in"]);
    n3.is_a_copy_of(&n1);
    let tail = format!("/tail-{fork}-");
    assert!(n3.evidence().keys().any(|name| name.contains(&tail)), "{:?}", n3.evidence().keys());
    drop(n2);
}
