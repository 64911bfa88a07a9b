//! An anchor that hears too little accuses nobody, and there is a way out of that for every case.

use crate::federation::{BY_HAND, Federation, Node};
use crate::signed::{observation, saw};
use crate::stand_in::{Says, StandIn, saying};
use serde_json::{Value, json};
use std::fs;

/// Silence is known within half a second.
const IMPATIENT: &str = "timeout = \"500ms\"\nslow = \"400ms\"\n";

/// Members behind stand-ins, by their ids.
struct Scene {
    fed: Federation,
    members: Vec<(Node, StandIn)>,
}

impl Scene {
    fn of(count: usize) -> Scene {
        Scene::with(&format!("{BY_HAND}{IMPATIENT}"), count)
    }

    fn with(config: &str, count: usize) -> Scene {
        let fed = Federation::with(config);
        let ids = (1..=count).map(|nth| format!("n{nth}"));
        let members: Vec<(Node, StandIn)> = ids.map(|id| fed.join_behind(&id)).collect();
        Scene { fed, members }
    }

    /// Not a byte comes back from these any more.
    fn silence(&self, which: &[usize]) {
        which.iter().for_each(|nth| self.members[nth - 1].1.answer(|_| Says::Nothing));
    }

    fn heal(&self) {
        self.members.iter().for_each(|(_, way)| way.honest());
    }

    /// A blind tick: no line, and the map as it was.
    #[track_caller]
    fn blind(&self, ticks: u64) {
        let anchor = &self.fed.anchor;
        let (lines, map) = (anchor.lines(), anchor.text("federated-routes.txt"));
        assert_eq!(anchor.tick(), "");
        assert_eq!((anchor.lines(), anchor.text("federated-routes.txt")), (lines, map));
        let status = anchor.status();
        assert_eq!((&status["blind"], &status["blind_ticks"]), (&json!(true), &json!(ticks)));
    }

    /// Nobody is missing from the map.
    #[track_caller]
    fn all_routed(&self) {
        assert_eq!(
            self.fed.anchor.map().len(),
            self.members.len() + 1,
            "{:?}",
            self.fed.anchor.map()
        );
    }

    /// A member tells the anchor whom it does not hear.
    fn misses(&self, teller: usize, missed: &[usize]) {
        let node = &self.members[teller - 1].0;
        let seen = missed.iter().map(|nth| saw(&format!("n{nth}"), 1, "unheard")).collect();
        let body = observation(&node.id, &node.key(), (0, seen));
        let answer = crate::harness::post(self.fed.anchor.port, "/observe", &body);
        assert_eq!(answer.status, 202, "{}", answer.text());
    }

    fn count(&self, to: &str) -> usize {
        let of_nodes = self.fed.anchor.payloads("verdict");
        of_nodes.iter().filter(|it| it["to"] == to && it.get("service").is_none()).count()
    }
}

#[test]
fn a_blind_anchor_accuses_nobody_and_forgets_nobody() {
    let mut scene = Scene::of(4);
    scene.silence(&[1, 2, 3]);
    // One is really gone: its machine says so, and it is spared all the same.
    scene.members[3].0.stop();
    scene.blind(1);
    scene.blind(2);
    let told = scene.fed.anchor.explain();
    assert!(told.contains("blind: over half of the alive peers are unheard"), "{told}");
    assert!(scene.fed.anchor.good(&["why", "n1"]).contains("hears too little for 2 ticks"));
    scene.blind(3);
    scene.heal();
    scene.members[3].0.serve();
    scene.fed.anchor.idle();
    let status = scene.fed.anchor.status();
    assert_eq!((&status["blind"], &status["blind_ticks"]), (&json!(false), &json!(0)));
    scene.all_routed();
}

#[test]
fn half_of_the_peers_are_no_majority() {
    let scene = Scene::of(4);
    scene.silence(&[1, 2]);
    scene.fed.anchor.tick();
    assert_eq!(scene.count("suspect"), 2, "two of four are believed to be silent");
    // From now on it is one of two that are alive: the doubted are no ears.
    scene.fed.anchor.idle();
    scene.fed.anchor.tick();
    assert_eq!(scene.count("dead"), 1, "law 6: one of five a tick");
    scene.fed.anchor.tick();
    assert_eq!(scene.count("dead"), 2);
}

#[test]
fn a_network_that_works_elsewhere_is_not_blind() {
    let target = StandIn::before(1);
    target.answer(|_| saying("500 Oops", b""));
    let check = format!("self_check = [\"127.0.0.1:{}\"]\n", target.port);
    let scene = Scene::with(&format!("{BY_HAND}{IMPATIENT}{check}"), 2);
    scene.silence(&[1, 2]);
    scene.fed.anchor.tick();
    assert_eq!(scene.count("suspect"), 2, "an answer is an answer");
    assert_eq!(scene.fed.anchor.status()["blind"], false);
}

#[test]
fn two_that_we_hear_and_that_agree_end_it_after_max() {
    let scene = Scene::of(5);
    scene.silence(&[3, 4, 5]);
    // One alone is not enough, nor two of whom one misses somebody else.
    scene.misses(1, &[3, 4, 5]);
    scene.misses(2, &[4]);
    scene.blind(1);
    scene.blind(2);
    scene.blind(3);
    scene.misses(1, &[3, 4, 5]);
    scene.misses(2, &[3, 5]);
    scene.fed.anchor.tick();
    assert_eq!(scene.count("suspect"), 3);
    let needed = scene.fed.anchor.payloads("verdict");
    assert!(needed.iter().all(|verdict| verdict["waited"] == 3), "blind ticks count: {needed:?}");
    // Their time is up; law 6 lets one go in each tick.
    for dead in 1..=3 {
        scene.fed.anchor.tick();
        assert_eq!(scene.count("dead"), dead);
    }
    for (nth, (_, way)) in scene.members.iter().enumerate() {
        assert_eq!(scene.fed.anchor.row("web", &format!("n{}", nth + 1)).is_none(), nth >= 2);
        way.honest();
    }
    scene.fed.anchor.tick();
    scene.all_routed();
}

#[test]
fn accept_loss_ends_it_at_once_and_without_a_cap() {
    let scene = Scene::of(4);
    let member = &scene.members[0].0;
    let ran = member.unchanged(|| member.fed(&["accept-loss"]));
    ran.expect(1).saying(&["judges nobody", "run it on the anchor"]);
    scene.silence(&[1, 2, 3, 4]);
    scene.blind(1);
    let out = scene.fed.anchor.good(&["accept-loss"]);
    assert!(out.contains("accepted: 0 suspects and 1 blind ticks"), "{out}");
    scene.fed.anchor.tick();
    assert_eq!(
        (scene.count("suspect"), scene.count("dead")),
        (4, 0),
        "never dead but through suspect"
    );
    scene.fed.anchor.tick();
    assert_eq!(scene.count("dead"), 4, "no cap");
    assert_eq!(scene.fed.anchor.map().len(), 1);
    // It was for these losses, not for those to come.
    scene.heal();
    scene.fed.anchor.tick();
    scene.all_routed();
    scene.silence(&[1, 2, 3, 4]);
    scene.blind(1);
}

#[test]
fn two_alone_believe_a_long_silence() {
    let scene = Scene::of(1);
    scene.silence(&[1]);
    for ticks in 1..4 {
        scene.blind(ticks);
    }
    scene.fed.anchor.tick();
    assert_eq!(scene.count("suspect"), 1, "2 x Max");
    scene.fed.anchor.tick();
    assert_eq!(scene.count("dead"), 1);
    assert_eq!(scene.fed.anchor.map().len(), 1);
    scene.heal();
    scene.fed.anchor.tick();
    scene.all_routed();
}

/// Three or more that hear nobody at all go on hearing nobody: it is their own network.
#[test]
fn whoever_hears_nobody_at_all_never_buries_anybody() {
    let scene = Scene::of(2);
    scene.silence(&[1, 2]);
    for ticks in 1..=7 {
        scene.blind(ticks);
    }
}

#[test]
fn a_lost_memory_is_one_grace_tick_and_starts_suspicion_anew() {
    let scene = Scene::of(3);
    let mut scene = scene;
    let anchor = &scene.fed.anchor;
    scene.members[0].0.stop();
    anchor.tick();
    anchor.idle();
    fs::remove_file(anchor.file("tick.json")).unwrap();
    let ran =
        anchor.fed(&["tick"]).expect(0).saying(&["tick.json is missing", "suspicions start anew"]);
    assert_eq!(ran.out, "", "grace accuses nobody");
    anchor.idle();
    anchor.tick();
    assert_eq!(scene.count("dead"), 1, "two counted ticks later");
    // One that is new to it is spared by the grace tick, and not by the next.
    scene.members[1].0.stop();
    fs::write(scene.fed.anchor.file("tick.json"), "{").unwrap();
    let ran = scene.fed.anchor.fed(&["tick"]).expect(0).saying(&["does not read"]);
    assert_eq!((ran.out.as_str(), scene.count("suspect")), ("", 1));
    scene.fed.anchor.tick();
    assert_eq!(scene.count("suspect"), 2);
}

/// (restatedev/restate#5156.) After a sleep one tick listens.
#[test]
fn a_long_gap_is_one_grace_tick() {
    let config = "interval = \"60s\"\nsuspicion_ticks = 2\n";
    let mut scene = Scene::with(config, 3);
    let anchor_file = scene.fed.anchor.file("tick.json");
    // What passed since the last tick, as its memory has it.
    let pass_s = |seconds: u64| -> bool {
        let mut memory: Value =
            serde_json::from_str(&fs::read_to_string(&anchor_file).unwrap()).unwrap();
        let Some(at) = memory["boot_ms"].as_u64().unwrap().checked_sub(seconds * 1_000) else {
            return false;
        };
        memory["boot_ms"] = at.into();
        fs::write(&anchor_file, memory.to_string()).unwrap();
        true
    };
    if !pass_s(60) {
        eprintln!("skipped: this machine has not been up for long enough");
        return;
    }
    scene.fed.anchor.idle();
    scene.members[0].0.stop();
    assert!(pass_s(600));
    scene.fed.anchor.idle();
    assert_eq!(scene.count("suspect"), 0, "grace");
    // A second long gap is no second grace.
    assert!(pass_s(600));
    scene.fed.anchor.tick();
    assert_eq!(scene.count("suspect"), 1);
    // Sooner than half an interval: asked, and no older for it.
    for _ in 0..4 {
        let ran = scene.fed.anchor.fed(&["tick"]).expect(0);
        ran.saying(&["early tick", "did not age"]);
    }
    assert_eq!(scene.count("dead"), 0);
    for _ in 0..2 {
        assert!(pass_s(60));
        scene.fed.anchor.tick();
    }
    assert_eq!(scene.count("dead"), 1);
}
