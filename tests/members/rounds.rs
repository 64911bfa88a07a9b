//! How much one tick takes away, whom it asks where there are many, and what members' maps show.

use crate::federation::{BY_HAND, Federation, Node};
use crate::stand_in::{Says, StandIn, saying};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

#[test]
fn no_tick_buries_more_than_its_share() {
    let fed = Federation::found();
    let mut nodes: Vec<Node> = (1..=6).map(|nth| fed.join(&format!("n{nth}"))).collect();
    nodes.iter_mut().for_each(Node::stop);
    fed.anchor.tick();
    fed.anchor.idle();
    let buried = |told: &str| {
        let nodes = told.lines().filter(|line| line.contains("suspect -> dead"));
        (nodes.count(), told.lines().filter(|line| line.contains("held back by the cap")).count())
    };
    // Seven are alive or suspect: two at once, nodes and single services together; then one.
    let first = buried(&fed.anchor.tick());
    assert_eq!(first.0, 2);
    assert!(first.1 > 0, "the rest is told to be held back");
    let mut ticks = 1;
    while fed.anchor.map().len() > 1 {
        let (dead, _) = buried(&fed.anchor.tick());
        assert_eq!(dead, 1);
        ticks += 1;
        assert!(ticks < 30, "{:?}", fed.anchor.map());
    }
    assert_eq!(fed.anchor.row("web", "gw1").unwrap(), "alive");
}

#[test]
fn the_long_dead_count_no_more_and_are_alive_at_once_when_they_answer() {
    let fed = Federation::with(&format!("{BY_HAND}reap_ticks = 3\n"));
    let (mut n1, n2) = (fed.join("n1"), fed.join("n2"));
    n1.stop();
    for _ in 0..3 {
        fed.anchor.tick();
    }
    assert_eq!(fed.anchor.standing("n1"), "dead 1");
    fed.anchor.idle();
    fed.anchor.idle();
    fed.anchor.tick();
    let reaped = fed.anchor.payloads("reap");
    assert_eq!(reaped.len(), 1);
    assert_eq!((&reaped[0]["node"], &reaped[0]["ticks"]), (&json!("n1"), &json!(3)));
    assert!(fed.anchor.good(&["why", "n1"]).contains("it counts no more"));
    for _ in 0..4 {
        fed.anchor.idle();
    }
    n2.tick();
    assert_eq!(n2.map(), fed.anchor.map());
    n1.serve();
    fed.anchor.tick();
    assert_eq!(fed.anchor.standing("n1"), "alive 2");
    assert_eq!(fed.anchor.row("web", "n1").unwrap(), "alive");
    assert!(!fed.anchor.good(&["why", "n1"]).contains("it counts no more"));
    // It can die again, and is counted anew.
    n1.stop();
    for _ in 0..5 {
        fed.anchor.tick();
    }
    assert_eq!(fed.anchor.payloads("reap").len(), 1);
    fed.anchor.tick();
    assert_eq!(fed.anchor.payloads("reap").len(), 2);
    // Not served, it comes back by its own tick.
    n1.tick();
    assert_eq!(fed.anchor.standing("n1"), "alive 3");
}

/// (SWIM, section 4.3.) Two questions to one member are at most 2⌈8/3⌉ - 1 ticks apart.
#[test]
fn where_there_are_many_everybody_has_its_turn() {
    let fed = Federation::with(&format!("{BY_HAND}probe_all_max = 3\n"));
    let nodes: Vec<Node> = (1..=8).map(|nth| fed.join(&format!("n{nth}"))).collect();
    let mut last: BTreeMap<&str, usize> = BTreeMap::new();
    for tick in 1..=20 {
        let told = fed.anchor.good(&["tick", "--explain"]);
        let asked = |node: &&Node| told.contains(&format!("  {}: answered", node.id));
        let turn: Vec<&Node> = nodes.iter().filter(asked).collect();
        assert_eq!(turn.len(), 3, "tick {tick}: {told}");
        for node in turn {
            let gap = tick - last.insert(&node.id, tick).unwrap_or(0);
            assert!(gap <= 5, "{} waited {gap} ticks", node.id);
        }
    }
    assert_eq!(last.len(), 8);
    assert_eq!(fed.anchor.verdicts(), [""; 0]);
}

/// A doubted one is asked in every tick, however many there are.
#[test]
fn the_doubted_need_no_turn() {
    let fed = Federation::with("interval = \"0\"\nsuspicion_ticks = 6\nprobe_all_max = 3\n");
    let mut nodes: Vec<Node> = (1..=5).map(|nth| fed.join(&format!("n{nth}"))).collect();
    nodes[0].stop();
    let mut ticks = 0;
    while fed.anchor.standing("n1") == "alive 1" {
        fed.anchor.tick();
        ticks += 1;
        assert!(ticks <= 3, "asked within the bound");
    }
    for _ in 0..5 {
        let told = fed.anchor.good(&["tick", "--explain"]);
        assert!(told.contains("  n1: no answer (refused; heard)"), "{told}");
    }
    fed.anchor.tick();
    assert_eq!(fed.anchor.standing("n1"), "dead 1");
}

#[test]
fn slow_answers_start_no_suspicion() {
    let fed = Federation::with(&format!("{BY_HAND}slow = \"20ms\"\n"));
    let (_n1, front) = fed.join_behind("n1");
    front.answer(|_| {
        // The link is slow, for every question alike.
        std::thread::sleep(Duration::from_millis(60));
        Says::Truth
    });
    for _ in 0..4 {
        fed.anchor.idle();
    }
    let told = fed.anchor.explain();
    assert!(told.contains("n1: answered 200 in "), "{told}");
    assert_eq!(fed.anchor.status()["health"], 0);
}

/// Seconds in the table are those of the status file.
#[test]
fn status_tells_how_long_an_answer_took() {
    let fed = Federation::found();
    let peer = StandIn::before(1);
    peer.answer(|_| saying("200 OK", b""));
    let row = format!("p1|127.0.0.1|{}|edge|active\n", peer.port);
    std::fs::write(fed.anchor.file(crowny_fed::layout::ROSTER), row).unwrap();
    fed.anchor.tick();
    let ms = fed.anchor.status()["peers"][0]["ms"].as_u64().unwrap();
    let told = format!(" {}.{:03} ", ms / 1_000, ms % 1_000);
    let text = fed.anchor.good(&["status"]);
    assert!(text.contains(&told), "'{told}' is not in {text}");
}

#[test]
fn who_goes_or_drains_does_so_in_all_maps() {
    let fed = Federation::found();
    let (n1, n2, n3) = (fed.join("n1"), fed.join("n2"), fed.join("n3"));
    let same = |rows: usize| {
        n3.tick();
        assert_eq!(n3.map(), fed.anchor.map());
        assert_eq!(n3.map().len(), rows, "{:?}", n3.map());
    };
    fed.anchor.tick();
    same(4);
    n1.good(&["drain"]);
    same(4);
    assert_eq!(n3.row("web", "n1").unwrap(), "alive drain");
    n1.good(&["drain", "--off"]);
    same(4);
    assert_eq!(n3.row("web", "n1").unwrap(), "alive");
    n1.good(&["leave"]);
    same(3);
    fed.anchor.good(&["revoke", "n2"]);
    same(2);
    // Nobody asks them any more, and nothing they do not answer is held against them.
    let told = fed.anchor.explain();
    assert!(!told.contains("  n1:") && !told.contains("  n2:"), "{told}");
    for _ in 0..3 {
        fed.anchor.idle();
        assert_eq!(n3.status()["unreachable_here"], json!([]));
        same(2);
    }
    // Who left comes back by registering again; whose key was revoked does not.
    n1.good(&["register"]);
    same(3);
    n2.fed(&["register"]).expect(1).saying(&["revoked"]);
    same(3);
}

#[test]
fn what_one_node_cannot_reach_leaves_its_own_map_alone() {
    let fed = Federation::found();
    let n1 = fed.join("n1");
    let (_n2, to_n2) = fed.join_behind("n2");
    let (_n3, to_n3) = fed.join_behind("n3");
    n1.tick();
    assert_eq!(n1.map().len(), 4);
    for way in [&to_n2, &to_n3] {
        way.answer(|_| Says::Bytes(Vec::new()));
    }
    n1.tick();
    assert_eq!(n1.map().len(), 4, "once is nothing");
    // Law 6 holds for a node's own map: one of four a tick.
    let told = n1.tick();
    assert!(told.contains("n2 is unreachable from here for 2 ticks"), "{told}");
    assert_eq!((n1.row("web", "n2"), n1.map().len()), (None, 3));
    n1.tick();
    assert_eq!(n1.map().len(), 2);
    assert_eq!(n1.status()["unreachable_here"], json!(["n2", "n3"]));
    assert!(n1.good(&["status"]).contains("unreachable-here: n2"));
    assert!(n1.good(&["why", "n2"]).contains("unreachable-here"));
    for way in [&to_n2, &to_n3] {
        way.honest();
    }
    fed.anchor.idle();
    assert_eq!(fed.anchor.map().len(), 4, "the anchor reaches both");
    n1.tick();
    assert_eq!(n1.map(), fed.anchor.map());
    let told: Vec<Value> = n1
        .text("decisions.ndjson")
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|line| serde_json::from_str(line["payload"].as_str().unwrap()).unwrap())
        .collect();
    let told: Vec<String> = told
        .iter()
        .map(|it| format!("{} {}", it["node"].as_str().unwrap(), it["reachable"]))
        .collect();
    assert_eq!(told, ["n2 false", "n3 false", "n2 true", "n3 true"]);
}
