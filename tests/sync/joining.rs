//! A member joins and follows: it has the whole journal byte for byte, and its own line is proven.

use crate::federation::{Federation, Node};
use crate::harness::{Folder, Ran, image};
use crate::stand_in::{Says, saying};
use serde_json::Value;

#[test]
fn a_join_ends_with_the_whole_journal_and_the_same_map() {
    let fed = Federation::found();
    fed.anchor.good(&["grant", "api", "gw1"]);
    fed.grow(20);
    let mut node = Node::in_folder(&fed.folder, "n1");
    let place = node.url();
    let ran = fed.join_with(&node, &place).expect(0);
    assert_eq!(ran.err, "", "{ran:?}");
    node.is_a_copy_of(&fed.anchor);
    let own = node.lines().iter().rposition(|line| line.contains("\"type\":\"register\"")).unwrap();
    assert!(ran.out.contains(&own.to_string()), "line {own} is not named: {}", ran.out);
    assert!(node.good(&["proof", "n1"]).contains(&format!("index {own}\n")));

    node.serve();
    node.fed(&["tick"]).expect(0);
    fed.anchor.fed(&["tick"]).expect(0);
    node.fed(&["tick"]).expect(0);
    assert_eq!(node.map(), fed.anchor.map());
    assert_eq!(node.map().len(), 2, "both offer web: {:?}", node.map());
    node.is_a_copy_of(&fed.anchor);
}

/// A proof of another entry says nothing of ours (reference/tlog.md, incident 12).
#[test]
fn a_join_that_is_answered_with_another_line_is_refused() {
    let fed = Federation::found();
    let other = fed.anchor.lines().len() - 1;
    let hash = leaf_of(&fed.anchor, other);
    let node = Node::in_folder(&fed.folder, "n1");
    let place = node.url();
    let (command, invitation) = fed.joining(&node, &place);
    fed.front.answer(move |asked| {
        if !asked.is("/register") {
            return Says::Truth;
        }
        // A line that is in the journal, but not the one that was registered.
        let mut accepted: Value = asked.truth().unwrap().json();
        accepted["hash"] = hash.clone().into();
        saying("200 OK", accepted.to_string().as_bytes())
    });
    let ran = Ran::of(command, &invitation).expect(5);
    ran.saying(&["is not the one that the anchor answered with"]);
}

fn leaf_of(node: &Node, seq: usize) -> String {
    crowny_fed::journal::merkle::leaf_hash(node.lines()[seq].as_bytes()).to_string()
}

#[test]
fn a_tick_fetches_only_the_lines_that_are_missing() {
    let fed = Federation::found();
    let node = fed.join("n1");
    let watched = &fed.front;
    let before = node.size();
    watched.honest();
    node.fed(&["tick"]).expect(0);
    assert_eq!(watched.sizes(), [0_u64; 0], "equal heads end it");
    fed.grow(7);
    node.fed(&["tick"]).expect(0);
    assert_eq!(watched.sizes(), [before], "one page, from our end on");
    assert_eq!(node.size(), before + 7);
    node.is_a_copy_of(&fed.anchor);
    let posts = watched.paths().iter().filter(|path| *path == "/observe").count();
    assert_eq!(posts, 2, "one observation each tick: {:?}", watched.paths());

    // Looking changes nothing and asks for no lines.
    fed.grow(1);
    let held = image(&node.dir, &[""]);
    node.fed(&["tick", "--dry-run"]).expect(0);
    assert!(held == image(&node.dir, &[""]), "a dry run wrote something");
    assert_eq!(watched.sizes().len(), 1);
}

#[test]
fn a_server_without_pages_still_gives_its_whole_journal() {
    for status in ["400 Bad Request", "404 Not Found", "405 Nope", "501 Not Implemented"] {
        let fed = Federation::found();
        let node = fed.join("n1");
        fed.grow(5);
        let old = &fed.front;
        old.answer(move |asked| match asked.is("/sync") {
            true => saying(status, b"no such path\n"),
            false => Says::Truth,
        });
        node.fed(&["sync"]).quiet();
        node.is_a_copy_of(&fed.anchor);
        // From nothing, too.
        node.forget_journal();
        node.fed(&["sync"]).quiet();
        node.is_a_copy_of(&fed.anchor);
        let whole = ["/checkpoint", "/nodes"].map(|path| old.paths().contains(&path.to_owned()));
        assert_eq!(whole, [true, true]);
    }
}

/// The dump is held against the checkpoint like any page.
#[test]
fn a_whole_journal_that_is_not_the_signed_one_is_refused() {
    let fed = Federation::found();
    let node = fed.join("n1");
    fed.grow(5);
    let cut = |text: &str, at: usize| text.as_bytes()[..text.len() - at].to_vec();
    let journal = fed.anchor.text("nodes.ndjson");
    let swapped = journal.replace("name-7", "name-8").into_bytes();
    for body in [cut(&journal, 2), cut(&journal, 400), swapped, b"<html>\n".to_vec(), vec![]] {
        let lie = body.clone();
        let old = &fed.front;
        old.answer(move |asked| match () {
            () if asked.is("/sync") => saying("404 Not Found", b""),
            () if asked.is("/nodes") => saying("200 OK", &lie),
            () => Says::Truth,
        });
        let before = node.fetched();
        node.fed(&["sync"]).expect(1).saying(&[&old.url()]);
        assert!(before == node.fetched(), "kept something of {} bytes", body.len());
    }
    fed.front.honest();
    node.fed(&["sync"]).quiet();
    node.is_a_copy_of(&fed.anchor);
}

#[test]
fn the_anchor_has_nobody_to_sync_from() {
    let fed = Federation::found();
    fed.anchor.fed(&["sync"]).expect(1).saying(&["this is the anchor"]);
    let folder = Folder::new();
    let nobody = Node::in_folder(&folder, "n");
    nobody.fed(&["sync"]).expect(78);
    // A dead anchor, and nobody else to ask.
    let mut fed = fed;
    let node = fed.join("n1");
    fed.anchor.stop();
    let before = node.fetched();
    node.fed(&["sync"]).expect(1).saying(&[&fed.front.url(), "no anchor answered"]);
    assert!(before == node.fetched());
}

/// A member whose key only the anchor shares: its lines rest on the checkpoint, and it follows as
/// everybody does.
#[test]
fn a_member_with_a_shared_key_follows_too() {
    let fed = Federation::found();
    let node = fed.join("n1");
    let shared = Node::in_folder(&fed.folder, "n2");
    let invitation = fed.anchor.good(&["invite", "n2", "--alg", "hmac-sha256"]);
    let join = crate::harness::fed(&shared.dir, &["join", "--url", &shared.url(), "-"]);
    Ran::of(join, &invitation).quiet();
    shared.is_a_copy_of(&fed.anchor);
    shared.fed(&["tick"]).expect(0);
    assert!(fed.anchor.file("observations/n2.json").exists());
    node.fed(&["sync"]).quiet();
    node.is_a_copy_of(&fed.anchor);
}

/// The checkpoint is under both keys, so that members that were away recognise it by the old one.
#[test]
fn a_member_follows_a_new_log_key() {
    let fed = Federation::found();
    let (node, away) = (fed.join("n1"), fed.join("n2"));
    let vkey = |node: &Node| -> Value {
        serde_json::from_str::<Value>(&node.text("self.json")).unwrap()["vkey"].clone()
    };
    let first = vkey(&node);
    fed.anchor.good(&["rotate-key", "--log"]);
    for _ in 0..2 {
        node.fed(&["tick"]).expect(0);
        node.is_a_copy_of(&fed.anchor);
        assert!(vkey(&node) == vkey(&fed.anchor) && vkey(&node) != first);
        fed.grow(3);
    }
    away.fed(&["sync"]).quiet();
    away.is_a_copy_of(&fed.anchor);
    assert_eq!(vkey(&away), vkey(&fed.anchor));
}
