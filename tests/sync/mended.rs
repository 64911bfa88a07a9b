//! What a killed run, a lost answer, a lost file or a link left behind, and that none of it costs a
//! member its key, its honest anchor or somebody else's files.

use crate::federation::Federation;
use crate::stand_in::{Says, saying};
use std::fs;

/// Killed between floor and root file, while the anchor was killed between root and head.
#[test]
fn a_root_file_that_was_left_behind_convicts_nobody_and_is_brought_up() {
    let fed = Federation::found();
    let node = fed.join("n1");
    fed.grow(2);
    node.fed(&["sync"]).quiet();
    let (root, head) = (node.bytes("federation-root.txt"), fed.anchor.bytes("head.txt"));
    fed.grow(2);
    node.fed(&["sync"]).quiet();
    fs::write(node.file("federation-root.txt"), root).unwrap();
    fs::write(fed.anchor.file("head.txt"), head).unwrap();
    node.fed(&["tick"]).expect(0);
    assert!(node.evidence().is_empty(), "{:?}", node.evidence().keys());
    fed.anchor.fed(&["tick"]).expect(0);
    node.fed(&["sync"]).expect(0);
    node.is_a_copy_of(&fed.anchor);
}

#[test]
fn what_readers_see_is_published_again_where_it_was_lost() {
    let fed = Federation::found();
    let node = fed.join("n1");
    for lost in ["federation-root.txt", "head.txt", "snapshot.json"] {
        fs::remove_file(node.file(lost)).unwrap();
        node.fed(&["tick"]).expect(0);
        assert!(node.file(lost).exists(), "{lost}");
    }
    fs::remove_dir_all(node.file("state/tmp")).unwrap();
    node.fed(&["tick"]).expect(0);
    node.is_a_copy_of(&fed.anchor);
}

/// Somebody between says "done" under the anchor's real checkpoint, and forwards nothing.
#[test]
fn a_lying_done_costs_nobody_the_key_that_is_believed() {
    let fed = Federation::found();
    let node = fed.join("n1");
    let key = node.bytes("keys/node.key");
    let checkpoint = fed.anchor.text("federation-root.txt");
    fed.front.answer(move |asked| match asked.is("/rotate") {
        true => {
            let hash = "ab".repeat(32);
            let done = serde_json::json!({ "seq": 0, "hash": hash, "checkpoint": checkpoint });
            saying("200 OK", done.to_string().as_bytes())
        }
        false => Says::Truth,
    });
    node.fed(&["rotate-key"]).expect(1).saying(&["does not name the new key"]);
    assert_eq!(node.bytes("keys/node.key"), key);
    fed.front.honest();
    node.fed(&["rotate-key"]).expect(0);
    assert_ne!(node.bytes("keys/node.key"), key);
    node.fed(&["register"]).expect(0);
}

/// The anchor took the new key and its answer was lost: the next tick finds it in the journal.
#[test]
fn a_lost_answer_to_a_rotation_is_made_good_by_the_next_tick() {
    let fed = Federation::found();
    let node = fed.join("n1");
    let key = node.bytes("keys/node.key");
    fed.front.answer(|asked| match asked.is("/rotate") {
        true => {
            let _ = asked.truth();
            Says::Bytes(Vec::new())
        }
        false => Says::Truth,
    });
    node.fed(&["rotate-key"]).expect(1);
    assert_eq!(node.bytes("keys/node.key"), key);
    fed.front.honest();
    node.fed(&["tick"]).expect(0);
    assert_ne!(node.bytes("keys/node.key"), key);
    assert!(!node.file("keys/node-next.key").exists());
}

/// Law 1: whatever a link in our folder leads to is neither written nor cleared away.
#[test]
fn a_link_in_our_folder_leads_nobody_to_other_files() {
    let fed = Federation::found();
    let node = fed.join("n1");
    let precious = fed.folder.path().join("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("thesis.txt"), "years").unwrap();
    for ours in ["state/tmp", "tile"] {
        let kept = fed.folder.path().join("kept");
        fs::rename(node.file(ours), &kept).unwrap();
        std::os::unix::fs::symlink(&precious, node.file(ours)).unwrap();
        fed.grow(1);
        node.fed(&["sync"]).expect(78).saying(&["link"]);
        assert_eq!(fs::read_dir(&precious).unwrap().count(), 1, "{ours}");
        fs::remove_file(node.file(ours)).unwrap();
        fs::rename(&kept, node.file(ours)).unwrap();
        node.fed(&["sync"]).expect(0);
    }
    node.is_a_copy_of(&fed.anchor);
}

/// Whoever stole a key is not let in again with it.
#[test]
fn a_key_that_spoke_before_is_not_enrolled_again() {
    let fed = Federation::found();
    let node = fed.join("n1");
    fed.anchor.good(&["revoke", "n1"]);
    let place = node.url();
    fed.join_with(&node, &place).expect(1).saying(&["spoke for 'n1' before", "node.key"]);
    fs::remove_file(node.file("keys/node.key")).unwrap();
    fed.join_with(&node, &place).expect(0);
}
