//! What the sweeps disturb of the time without an anchor and of the change to another one: words that
//! are kept and brought home, an offer, a handover, the take-over that answers it, a recovery.

use super::harness::{Fed, Ran, has};
use super::scene::{NOWHERE, Scene, beside};
use super::sweep::{Run, Says, Verb, heals};
use super::trace::{Fault, read_with};
use std::fs;

/// A word that finds no anchor.
pub const KEPT: Verb = Verb {
    name: "drain while no anchor answers",
    base: isolated,
    run: |scene| said(scene, &["drain"]),
    says: Says::Code,
    again: |scene| drop(said(scene, &["drain"]).ended().expect(0)),
    ends: |_| {},
    same_map: false,
};

/// Words brought home.
pub const MERGE: Verb = Verb {
    name: "merge",
    base: || back(isolated_with_words()),
    run: |scene| said(scene, &["merge"]),
    again: |scene| drop(said(scene, &["merge"]).ended().expect(0)),
    ends: words_are_home,
    ..KEPT
};

/// The same by the timer.
pub const MERGING_TICK: Verb = Verb {
    name: "tick that merges",
    run: |scene| said(scene, &["tick"]),
    again: |scene| drop(scene.fed.tick().expect(0)),
    ..MERGE
};

/// The node's side of a handover.
pub const OFFER: Verb = Verb {
    name: "handover --offer",
    base: || Scene::joined("ed25519"),
    run: |scene| said(scene, &["handover", "--offer"]),
    again: |scene| drop(said(scene, &["handover", "--offer"]).ended().expect(0)),
    ..KEPT
};

/// The anchor's side, disturbed while the node stands by.
pub const HANDOVER: Verb = Verb {
    name: "handover",
    base: offered,
    run: hand_over,
    again: |scene| {
        let ran = hand_over(scene).ended();
        let over = ["not the anchor", "serialises since line"];
        let done = ran.code == Some(0) || over.iter().any(|why| ran.err.contains(why));
        assert!(done, "the same word again: {ran:#?}");
    },
    ends: one_serialises,
    ..KEPT
};

/// The first tick of the node that was named.
pub const TAKE_OVER: Verb = Verb {
    name: "tick that takes over",
    base: || {
        let scene = offered();
        hand_over(&scene).ended().expect(0);
        scene
    },
    run: |scene| said(scene, &["tick"]),
    again: |scene| drop(scene.fed.tick().expect(0)),
    ends: one_serialises,
    ..KEPT
};

/// A node in the place of an anchor that is gone.
pub const RECOVER: Verb = Verb {
    name: "recover",
    base: || {
        let joined = Scene::joined("ed25519");
        let key = joined.journal_of().read("keys/recovery.key");
        Scene { spoken: String::from_utf8(key).unwrap(), ..alone(&joined) }
    },
    run: recover,
    again: |scene| drop(recover(scene).ended().expect(0)),
    ends: |scene| serialises(&scene.fed),
    ..KEPT
};

fn said(scene: &Scene, words: &[&str]) -> Run {
    let mut command = scene.fed.verb(words[0]);
    command.args(&words[1..]);
    command.into()
}

fn hand_over(scene: &Scene) -> Run {
    let mut command = scene.journal_of().verb("handover");
    // The node of the sweep serves nobody.
    command.args(["--force", "-"]);
    Run { command, input: scene.spoken.clone().into_bytes() }
}

fn recover(scene: &Scene) -> Run {
    let command = scene.fed.verb("recover");
    Run { command, input: scene.spoken.clone().into_bytes() }
}

/// A member whose anchor does not answer.
fn isolated() -> Scene {
    alone(&Scene::joined("ed25519"))
}

fn alone(joined: &Scene) -> Scene {
    let scene = Scene::alone(joined.fed.copy());
    let path = scene.fed.path("self.json");
    let text = fs::read_to_string(&path).unwrap();
    let mut identity: serde_json::Value = serde_json::from_str(&text).unwrap();
    identity["anchors"] = serde_json::json!([NOWHERE]);
    fs::write(path, format!("{identity:#}\n")).unwrap();
    scene
}

/// What a member said while its anchor was away, beside that anchor.
fn isolated_with_words() -> (Scene, Scene) {
    let joined = Scene::joined("ed25519");
    let scene = alone(&joined);
    for word in [&["drain"][..], &["drain", "--off"], &["register"], &["drain"]] {
        said(&scene, word).ended().expect(0);
    }
    assert!(scene.fed.path("branch.ndjson").exists());
    (joined, scene)
}

fn back((joined, scene): (Scene, Scene)) -> Scene {
    let anchor = joined.anchor;
    let scene = Scene { anchor, ..scene };
    scene.follow();
    scene
}

#[track_caller]
fn words_are_home(scene: &Scene) {
    assert!(!scene.fed.path("branch.ndjson").exists(), "lines wait");
    let journal = String::from_utf8(scene.journal_of().journal()).unwrap();
    assert_eq!(journal.matches("\"type\":\"merged\"").count(), 4, "each line once");
}

/// A member that offered to take over, and its anchor.
fn offered() -> Scene {
    let scene = Scene::joined("ed25519");
    let offer = said(&scene, &["handover", "--offer"]).ended().expect(0).out;
    Scene { spoken: offer, ..scene }
}

/// The node writes, the old anchor does not, and follows.
#[track_caller]
fn one_serialises(scene: &Scene) {
    scene.fed.tick().expect(0);
    serialises(&scene.fed);
    let old = scene.journal_of();
    let ran = Ran::of(old.verb("grant").args(["late", "n2"]));
    assert_ne!(ran.code, Some(0), "two write: {ran:#?}");
    old.tick().expect(0);
    old.verify().expect(0);
}

#[track_caller]
fn serialises(fed: &Fed) {
    Ran::of(fed.verb("grant").args(["new", "n2"])).expect(0);
    fed.heals();
}

/// The short form of the sweeps: killed before each name appears, which is between any two files.
#[test]
fn another_anchor_comes_to_be_wherever_the_run_was_killed() {
    if !has("strace") {
        return;
    }
    for verb in [HANDOVER, TAKE_OVER, RECOVER] {
        let base = (verb.base)();
        let mut killed = 0;
        for nth in 1.. {
            let scene = base.copy();
            let run = (verb.run)(&scene);
            let fault = Fault::at("signal=KILL", "?rename,renameat,renameat2", nth);
            let reading = (&run.command, run.input.as_slice());
            if !read_with(beside(&scene).path(), reading, &fault).reached {
                break;
            }
            scene.settle();
            heals(&verb, &scene, nth.is_multiple_of(2));
            killed += 1;
        }
        assert!(killed > 3, "{}: {killed} places", verb.name);
    }
}
