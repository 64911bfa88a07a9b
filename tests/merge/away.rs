//! The anchor goes away and comes back: what was said meanwhile is home in one tick.

use crate::branch::{self, body, bring, fates, said};
use crate::federation::{Federation, Node};
use crate::harness::{Ran, fed, get};
use crate::stand_in::{Says, StandIn, saying};

/// Everybody up to date.
pub fn all_tick(nodes: &[&Node]) {
    nodes.iter().for_each(|node| drop(node.tick()));
}

/// Two members beside the anchor, all of one mind.
pub fn three() -> (Federation, Node, Node) {
    let federation = Federation::found();
    let (gw2, gw3) = (federation.join("gw2"), federation.join("gw3"));
    all_tick(&[&federation.anchor, &gw2, &gw3]);
    (federation, gw2, gw3)
}

/// How many lines of a kind the journal of this node has.
pub fn count(node: &Node, kind: &str) -> usize {
    node.payloads(kind).len()
}

/// An anchor that its members reach through a front only, and a member that offers `web`.
pub fn fronted() -> (Federation, StandIn, Node) {
    let federation = Federation::found();
    let front = StandIn::before(federation.anchor.port);
    federation.anchor.good(&["register", "--url", &front.url()]);
    let gw2 = federation.join("gw2");
    all_tick(&[&federation.anchor, &gw2]);
    assert!(!gw2.text("self.json").contains(&federation.anchor.url()));
    (federation, front, gw2)
}

#[test]
fn what_was_said_meanwhile_is_home_in_one_tick() {
    let (mut federation, gw2, gw3) = three();
    federation.anchor.stop();
    let place = format!("web={}", gw3.url());
    let told = gw2.good(&["register", "--service", &place]);
    assert!(
        told.starts_with("no anchor answered: ") && told.contains("line 1 of branch.ndjson"),
        "{told}"
    );
    gw2.good(&["drain", "--for", "10h"]);
    gw2.good(&["drain", "--off"]);
    assert!(gw2.good(&["drain"]).contains("line 4 of branch.ndjson"));
    gw3.good(&["leave"]);
    assert_eq!(gw2.status()["branch"], 4);
    assert!(gw2.good(&["status"]).contains("lines that wait in branch.ndjson: 4"));
    let shown = get(gw2.port, "/sync?branch");
    assert_eq!((shown.status, said(&shown)), (200, gw2.text("branch.ndjson")));
    assert!(shown.head.contains("no-store") && shown.head.contains("text/plain"), "{}", shown.head);
    // It counts at once where it was said and where it is heard, and is marked.
    gw2.tick();
    assert_eq!(gw2.row("web", "gw3"), None, "it said that it leaves");
    let own = gw2.map().into_iter().find(|row| row.starts_with("web|gw2|")).unwrap();
    assert!(own.contains(&gw3.url()) && own.ends_with("|drain|provisional"), "{own}");
    assert_eq!(count(&gw2, "merge"), 0);

    federation.anchor.serve();
    assert!(gw2.tick().contains("lines of branch.ndjson that the journal holds now: 5"));
    assert!(!gw2.file("branch.ndjson").exists());
    assert_eq!((count(&gw2, "merge"), count(&gw2, "merged")), (2, 5));
    gw3.tick();
    let nodes = [&federation.anchor, &gw2, &gw3];
    all_tick(&nodes);
    for node in nodes {
        assert_eq!(node.map(), federation.anchor.map(), "{}", node.id);
        assert_eq!(node.lines(), federation.anchor.lines(), "{}", node.id);
        assert_eq!(node.row("web", "gw3"), None);
        assert!(
            node.map().iter().any(|row| row.starts_with(&format!("web|gw2|{}|", gw3.url()))
                && row.ends_with("|drain"))
        );
        node.good(&["verify", "--full"]);
    }
    assert_eq!(said(&get(gw2.port, "/sync?branch")), "");
    gw2.idle();
    assert_eq!(gw2.good(&["merge"]), "nothing waits in branch.ndjson\n");
    assert_eq!(gw2.status()["branch"], 0);
    assert!(federation.anchor.good(&["log", "--node", "gw2"]).contains("from a branch"));
}

#[test]
fn a_refusal_is_no_silence() {
    let (federation, gw2, gw3) = three();
    gw2.good(&["register", "--service", &format!("shop={}", gw2.url())]);
    let place = format!("shop={}", gw3.url());
    let before = gw3.json("self.json")["services"].clone();
    gw3.fed(&["register", "--service", &place]).expect(1).saying(&["403", "shop"]);
    assert!(!gw3.file("branch.ndjson").exists());
    // What was refused is not said again with the next word.
    assert_eq!(gw3.json("self.json")["services"], before);
    gw3.good(&["register"]);
    drop(federation);
}

#[test]
fn a_gateway_that_lost_the_anchor_speaks_for_nobody() {
    let (federation, front, gw2) = fronted();
    front.answer(|_| saying("502 Bad Gateway", b"<html>no upstream</html>"));
    let said = gw2.good(&["drain"]);
    assert!(said.contains("502") && said.contains("line 1"), "{said}");
    let ours =
        br#"{"type":"about:blank","title":"x","status":503,"error":"not-now","message":"later"}"#;
    front.answer(move |_| saying("503 Service Unavailable", ours));
    // One that takes no words now is as good as away.
    let said = gw2.good(&["drain", "--off"]);
    assert!(said.contains("503") && said.contains("later: kept as line 2"), "{said}");
    // A key is changed with the anchor alone, and what the old key signed goes home first.
    gw2.fed(&["rotate-key"]).expect(1).saying(&["branch.ndjson"]);
    front.honest();
    assert_eq!(gw2.good(&["merge"]), "merged: 2\n");
    gw2.good(&["rotate-key"]);
    federation.anchor.tick();
    assert_eq!(federation.anchor.row("web", "gw2").unwrap(), "alive");
    front.answer(|_| Says::Bytes(Vec::new()));
    gw2.fed(&["rotate-key"]).expect(1).saying(&["no anchor answered"]);
    assert!(!gw2.file("branch.ndjson").exists());
}

#[test]
fn merge_by_hand_tells_what_it_did() {
    let (mut federation, gw2, _) = three();
    federation.anchor.stop();
    gw2.good(&["drain"]);
    gw2.fed(&["merge"]).expect(1).saying(&["no anchor answers; lines that wait: 1"]);
    assert_eq!(federation.anchor.good(&["merge"]), "nothing waits in branch.ndjson\n");
    federation.anchor.serve();
    let told: serde_json::Value = serde_json::from_str(&gw2.good(&["merge", "--json"])).unwrap();
    assert_eq!((&told["merged"], &told["waiting"]), (&1.into(), &0.into()));
    assert!(!gw2.file("branch.ndjson").exists());
}

/// A second branch grows on the journal that holds the first.
#[test]
fn two_absences_are_two_branches() {
    let (mut federation, gw2, _) = three();
    for on in [true, false] {
        federation.anchor.stop();
        gw2.good(if on { &["drain"][..] } else { &["drain", "--off"] });
        let size = gw2.lines().len() as u64;
        assert_eq!(branch::of(&gw2)[0].fork(), size);
        federation.anchor.serve();
        gw2.tick();
        let state = if on { "alive drain" } else { "alive" };
        federation.anchor.tick();
        assert_eq!(federation.anchor.row("web", "gw2").unwrap(), state);
    }
    assert_eq!(count(&federation.anchor, "merge"), 2);
}

/// Doubted with nobody there to tell: said once for each number, and it counts afterwards.
#[test]
fn a_refutation_waits_too() {
    let (mut federation, mut gw2, gw3) = three();
    gw2.stop();
    // Its own last observation speaks for it during two ticks.
    for _ in 0..4 {
        if federation.anchor.standing("gw2") == "suspect 1" {
            break;
        }
        federation.anchor.tick();
    }
    gw2.good(&["sync"]);
    federation.anchor.stop();
    let ran = gw2.fed(&["tick"]).expect(0);
    assert!(ran.err.contains("its refutation is kept as line 1 of branch.ndjson"), "{ran:?}");
    let kept = gw2.text("branch.ndjson");
    assert!(!gw2.fed(&["tick"]).expect(0).err.contains("refutation"));
    assert_eq!(gw2.text("branch.ndjson"), kept);
    federation.anchor.serve();
    gw2.serve();
    gw2.tick();
    assert_eq!(gw2.standing("gw2"), "alive 2");
    all_tick(&[&gw3, &federation.anchor, &gw2, &gw3]);
    assert_eq!(gw3.map(), federation.anchor.map());
}

/// A member with a shared key shows its branch to nobody and brings it home like all others.
#[test]
fn a_shared_key_waits_too() {
    let mut federation = Federation::found();
    let mut gw2 = federation.machine("gw2");
    let invitation = federation.anchor.good(&["invite", "gw2", "--alg", "hmac-sha256"]);
    let command = fed(&gw2.dir, &["join", "--url", &gw2.url(), "-"]);
    Ran::of(command, &invitation).expect(0);
    gw2.serve();
    let gw3 = federation.join("gw3");
    all_tick(&[&federation.anchor, &gw2, &gw3]);
    federation.anchor.stop();
    gw2.good(&["register", "--service", &format!("shop={}", gw2.url())]);
    gw2.good(&["drain"]);
    assert_eq!(branch::of(&gw2)[0].lines().len(), 2);
    assert_eq!(said(&get(gw2.port, "/sync?branch")), "");
    let kept = gw2.text("branch.ndjson");
    federation.anchor.serve();
    gw2.good(&["merge"]);
    // A word under a key that gw3 cannot know is brought by it all the same, and held by then.
    let told = fates(&bring(&federation, &body(("gw3", &gw3.key()), kept.as_bytes())));
    assert!(told.iter().all(|fate| fate.starts_with("held")), "{told:?}");
    let other = kept.replacen("\\\"on\\\":true", "\\\"on\\\":false", 1);
    let line = other.lines().nth(1).unwrap().to_owned() + "\n";
    let told = fates(&bring(&federation, &body(("gw3", &gw3.key()), line.as_bytes())));
    assert!(told[0].contains("signature does not hold"), "{told:?}");
    // The new name is asked for, and got.
    all_tick(&[&gw2, &federation.anchor, &gw2, &gw3]);
    for node in [&federation.anchor, &gw2, &gw3] {
        assert_eq!(node.row("shop", "gw2").as_deref(), Some("alive drain"), "{}", node.id);
        let told: serde_json::Value =
            serde_json::from_str(&node.good(&["verify", "--full", "--json"])).unwrap();
        // Its first register, the two words that came home, and the one for the name.
        assert_eq!(told["by_checkpoint_alone"], 4, "{}", node.id);
        assert_eq!(node.status()["conflicts"], serde_json::json!([]));
    }
}
