//! A folder on a new host, whole or with a line lost on the way, and the look at the members that
//! comes before the first signature there.

use crate::scene::federation;
use std::fs;

#[test]
fn a_whole_copy_goes_on_on_the_new_host() {
    let mut fed = federation(300);
    fed.anchor.stop();
    let mut moved = fed.anchor.copy_as("moved");
    moved.port = fed.anchor.port;
    moved.as_of_another_boot();
    fs::rename(&fed.anchor.dir, fed.anchor.dir.with_file_name("gone")).unwrap();
    moved.serve();
    let map = moved.map();
    moved.heals();
    assert_eq!(moved.map(), map);
    fed.others[0].fed(&["drain"]).expect(0);
    for node in &fed.others {
        node.fed(&["tick"]).expect(0);
        node.is_a_copy_of(&moved);
    }
    moved.doctor(0, &["all well"]);
}

/// (reference/tlog.md, incident 25.) On the anchor, with its floor, with the root file alone, and
/// whichever line it is.
#[test]
fn a_copy_with_one_line_missing_is_refused() {
    let fed = federation(20);
    let lines = fed.anchor.lines();
    for missing in [0, 3, 12, lines.len() - 1] {
        for gone in ["nothing", "state/committed.json", "federation-root.txt"] {
            let node = fed.anchor.copy_as(&format!("lacks-{missing}-{}", gone.len()));
            node.as_of_another_boot();
            node.remove(gone);
            let mut left = lines.clone();
            left.remove(missing);
            fs::write(node.file("nodes.ndjson"), left.join("\n") + "\n").unwrap();
            let (before, map) = (node.fetched(), node.stamp("federated-routes.txt"));
            for verb in [&["tick"][..], &["grant", "api", "n1"], &["doctor", "--adopt"]] {
                node.fed(verb).expect(5).saying(&["nodes.ndjson"]);
            }
            node.doctor(5, &["nodes.ndjson", "next: put nodes.ndjson back"]);
            assert!(before == node.fetched(), "line {missing}: something was written");
            assert_eq!(node.stamp("federated-routes.txt"), map);
        }
    }
}

/// A lone anchor has to work, and what nobody says is told once.
#[test]
fn silent_members_are_told_once_after_a_boot_and_stop_nothing() {
    let mut fed = federation(10);
    fed.others.iter_mut().for_each(crate::federation::Node::stop);
    fed.anchor.as_of_another_boot();
    let ran = fed.anchor.fed(&["tick"]).expect(0).saying(&["none of 2 members showed"]);
    assert_eq!(ran.err.matches("none of 2 members").count(), 1, "{ran:?}");
    let ran = fed.anchor.fed(&["tick"]).expect(0);
    assert!(!ran.err.contains("members showed"), "{ran:?}");
    // A signed write asks once as well.
    fed.anchor.as_of_another_boot();
    let journal = fed.anchor.lines().len();
    fed.anchor.good(&["grant", "api", "n1"]);
    assert!(fed.anchor.file("state/looked.json").exists());
    let looked = fed.anchor.stamp("state/looked.json");
    fed.anchor.good(&["grant", "api", "n2"]);
    assert_eq!(fed.anchor.stamp("state/looked.json"), looked, "asked again");
    assert_eq!(fed.anchor.lines().len(), journal + 2);
}
