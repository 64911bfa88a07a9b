//! A member that dies, and how it comes back: by its own signed word alone.

use crate::federation::{BY_HAND, Federation};
use crate::stand_in::Says;
use serde_json::{Value, json};

/// Four of them under the formula: Min 2, Max 6 ticks.
const FORMULA: &str = "interval = \"0\"\n";

#[test]
fn a_member_dies_with_its_evidence_and_its_heirs_and_comes_back() {
    let fed = Federation::with(FORMULA);
    let (mut n1, n2, n3) = (fed.join("n1"), fed.join("n2"), fed.join("n3"));
    for node in [&n2, &n3, &n1] {
        node.good(&["sync"]);
    }
    fed.anchor.idle();
    n1.stop();
    let told = fed.anchor.tick();
    assert!(told.contains("n1 alive -> suspect (probe-failed)\n"), "{told}");
    assert_eq!(fed.anchor.row("web", "n1").unwrap(), "suspect", "the doubted are routed");
    let doubted = fed.anchor.payloads("verdict").remove(0);
    assert_eq!(doubted["evidence"]["target"], n1.url());
    assert_eq!(doubted["evidence"]["probe"]["reason"], "refused");
    assert_eq!(doubted["evidence"]["accusers"], json!(["gw1"]));
    assert_eq!((&doubted["needed"], &doubted["inc"]), (&json!(6), &json!(1)));
    let mut helped: Vec<String> = doubted["evidence"]["helped"]
        .as_array()
        .unwrap()
        .iter()
        .map(|help| {
            format!("{} {} {}", help["helper"], help["said"], help["reason"]).replace('"', "")
        })
        .collect();
    helped.sort();
    assert_eq!(helped, ["n2 could-not refused", "n3 could-not refused"]);

    for _ in 0..5 {
        fed.anchor.idle();
    }
    let story = fed.anchor.good(&["why", "n1"]);
    assert!(story.contains("n1 has failed in 5 of 6 healthy ticks; missed by gw1"), "{story}");
    let told = fed.anchor.tick();
    assert!(told.contains("n1 suspect -> dead (suspicion-expired)\n"), "{told}");
    let dead = fed.anchor.payloads("verdict");
    let dead = dead.iter().find(|verdict| verdict["to"] == "dead").unwrap();
    assert_eq!((&dead["waited"], &dead["needed"]), (&json!(6), &json!(6)));
    assert_eq!(dead["heirs"], json!({ "web": ["gw1", "n2", "n3"] }));
    assert_eq!(fed.anchor.row("web", "n1"), None);
    assert_eq!(fed.anchor.map().len(), 3);
    let story = fed.anchor.good(&["why", "n1"]);
    for words in [
        "n1 is dead at incarnation 1",
        "did not answer: refused",
        "n2 could not either: refused",
        "web goes to gw1 n2 n3",
        "failed in 6 of 6 healthy ticks",
    ] {
        assert!(story.contains(words), "'{words}' is not in {story}");
    }

    // One question tells it, one answer brings it back: within one tick, one number higher.
    n1.serve();
    let before = fed.anchor.payloads("register").len();
    fed.anchor.tick();
    assert_eq!(fed.anchor.payloads("register").len(), before + 1);
    assert_eq!(fed.anchor.standing("n1"), "alive 2");
    assert_eq!(fed.anchor.row("web", "n1").unwrap(), "alive");
    assert_eq!(n1.json("self.json")["incarnation"], 2);
    fed.anchor.idle();
    n1.tick();
    n1.tick();
    assert_eq!(n1.json("self.json")["incarnation"], 2);
    for node in [&n1, &n2] {
        node.tick();
        assert_eq!(node.map(), fed.anchor.map());
        node.good(&["verify", "--full"]);
    }
    fed.anchor.good(&["verify", "--full"]);
}

#[test]
fn a_suspect_that_answers_never_dies_and_is_alive_in_one_tick() {
    let fed = Federation::found();
    let mut n1 = fed.join("n1");
    n1.stop();
    fed.anchor.tick();
    fed.anchor.idle();
    n1.serve();
    fed.anchor.tick();
    assert_eq!(fed.anchor.standing("n1"), "alive 2");
    assert!(!fed.anchor.verdicts().iter().any(|verdict| verdict.ends_with("dead")));
    // Its age is gone with the suspicion: the next one waits in full.
    n1.stop();
    fed.anchor.tick();
    fed.anchor.idle();
    fed.anchor.tick();
    assert_eq!(fed.anchor.standing("n1"), "dead 2");
}

#[test]
fn a_member_that_is_not_served_refutes_in_its_own_tick() {
    let fed = Federation::found();
    let mut n1 = fed.join("n1");
    n1.stop();
    for incarnation in 1..4 {
        // It spoke a moment ago: that speaks for it, in this tick and the next.
        let spoken = if incarnation == 1 { 0 } else { 2 };
        (0..spoken).for_each(|_| assert!(!fed.anchor.tick().contains("n1 alive")));
        fed.anchor.tick();
        assert_eq!(fed.anchor.standing("n1"), format!("suspect {incarnation}"));
        n1.tick();
        assert_eq!(fed.anchor.standing("n1"), format!("alive {}", incarnation + 1));
        assert_eq!(n1.json("self.json")["incarnation"], incarnation + 1);
        // It has nothing more to refute.
        n1.tick();
        assert_eq!(n1.json("self.json")["incarnation"], incarnation + 1);
    }
    for _ in 0..5 {
        fed.anchor.tick();
    }
    assert_eq!(fed.anchor.standing("n1"), "dead 4");
    n1.tick();
    assert_eq!(fed.anchor.standing("n1"), "alive 5");
    // Its service is asked by itself, and nobody answers there either.
    assert_eq!(fed.anchor.row("web", "n1"), None);
}

/// An agent that no POST reaches, as behind a filter: who answers never dies, however it is asked.
#[test]
fn who_answers_the_plain_question_never_dies() {
    let fed = Federation::with(BY_HAND);
    let (mut n1, front) = fed.join_agent_behind("n1");
    n1.stop();
    fed.anchor.tick();
    assert_eq!(fed.anchor.standing("n1"), "suspect 1");
    n1.serve();
    front.answer(|asked| match asked.body().is_empty() {
        true => Says::Truth,
        false => crate::stand_in::saying("405 Method Not Allowed", b""),
    });
    for _ in 0..4 {
        fed.anchor.tick();
        let standing = fed.anchor.standing("n1");
        assert!(standing != "dead 1", "it answers: {}", fed.anchor.last_verdict());
    }
    // In its own tick it says so itself.
    n1.tick();
    assert_eq!(fed.anchor.standing("n1"), "alive 2");
    fed.anchor.idle();
}

/// The whole is decided by one anchor: members' maps say the same after their tick.
#[test]
fn a_death_is_in_the_maps_of_all_after_their_tick() {
    let fed = Federation::found();
    let (mut n1, n2) = (fed.join("n1"), fed.join("n2"));
    n2.tick();
    assert_eq!(n2.row("web", "n1").unwrap(), "alive");
    n1.stop();
    fed.anchor.tick();
    n2.tick();
    assert_eq!(n2.row("web", "n1").unwrap(), "suspect");
    fed.anchor.tick();
    fed.anchor.tick();
    assert_eq!(fed.anchor.standing("n1"), "dead 1");
    n2.tick();
    assert_eq!(n2.row("web", "n1"), None);
    assert_eq!(n2.map(), fed.anchor.map());
    let told: Value = n2.status();
    assert_eq!(told["troubles"].as_array().unwrap().len(), 0, "{told}");
}
