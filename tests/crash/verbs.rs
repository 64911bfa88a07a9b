//! Which runs the sweeps disturb: one entry a verb. A new verb that writes gets an entry here and is
//! swept by everything that goes through the table.

use super::harness::{CONFIG, Fed, Ran, full, has};
use super::peers::{Refusing, StandIn, row};
use super::scene::{NOWHERE, Scene};
use super::succession::{HANDOVER, KEPT, MERGE, MERGING_TICK, OFFER, RECOVER, TAKE_OVER};
use super::sweep::{Run, Says, Sweep, Verb, WAYS, Way};
use super::trace::{Fault, tick_with};
use std::sync::OnceLock;

/// What every `make test` has time for.
const SMOKE: [Way; 2] = [Way::Kill, Way::Error("ENOSPC")];

/// A member's word, said to the anchor.
const fn word(name: &'static str, run: fn(&Scene) -> Run) -> Verb {
    Verb { name, base: member, run, says: Says::Code, again: |_| {}, ends: |_| {}, same_map: false }
}

/// A tick with something to write.
pub const TICK: Verb = Verb {
    name: "tick",
    base: about_to_bury,
    run: |scene| scene.fed.verb("tick").into(),
    says: Says::Code,
    // The tick that heals is the same word again.
    again: nothing_was_torn,
    ends: |_| {},
    same_map: true,
};

/// A member's word.
pub const REGISTER: Verb = Verb { again: registers, ..word("register", register) };

/// Every run that writes: the verbs, the requests an anchor answers, and what only some runs do.
pub static VERBS: [Verb; 28] = [
    TICK,
    REGISTER,
    Verb { name: "tick of a member", run: TICK.run, ..SYNC },
    Verb { name: "register on the anchor", base: anchor, ..REGISTER },
    JOIN,
    Verb { name: "join with a shared key", base: || Scene::invited("hmac-sha256"), ..JOIN },
    SYNC,
    ROTATE,
    Verb { name: "rotate-key of a shared key", base: || Scene::joined("hmac-sha256"), ..ROTATE },
    Verb { name: "rotate-key on the anchor", base: anchor, ..ROTATE },
    Verb {
        name: "rotate-key --log",
        base: anchor,
        // Where it was done already, the old key signs along for a week.
        again: |_| {},
        ..word("", |scene| said(scene, &["rotate-key", "--log"]))
    },
    Verb { again: |scene| again(scene, drain), ..word("drain", drain) },
    Verb { again: |scene| again(scene, leave), ..word("leave", leave) },
    Verb { base: anchor, again: |scene| again(scene, grant), ..word("grant", grant) },
    Verb { base: anchor, again: |scene| again(scene, inviting), ..word("invite", inviting) },
    Verb { base: with_member, again: |scene| again(scene, revoke), ..word("revoke", revoke) },
    KEPT,
    MERGE,
    MERGING_TICK,
    OFFER,
    HANDOVER,
    TAKE_OVER,
    RECOVER,
    Verb {
        base: without_snapshot,
        again: |scene| again(scene, snapshot),
        ..word("snapshot", snapshot)
    },
    INIT,
    MENDING,
    Verb { name: "tick that fills a bundle", base: before_a_full_bundle, ..TICK },
    Verb { name: "tick that rebuilds", base: nothing_derived, ..TICK },
];

const JOIN: Verb = Verb {
    name: "join",
    base: || Scene::invited("ed25519"),
    run: join,
    says: Says::Code,
    again: |scene| {
        again(scene, join);
        scene.fed.write("crowny-fed.toml", CONFIG);
        registers(scene);
    },
    ends: |_| {},
    same_map: false,
};

/// A member that fetches what it lacks.
pub const SYNC: Verb = Verb {
    base: behind,
    again: |scene| again(scene, |scene| scene.fed.verb("sync").into()),
    ..word("sync", |scene| scene.fed.verb("sync").into())
};

const ROTATE: Verb = Verb {
    again: |scene| {
        // With whichever key it holds now, it is believed.
        registers(scene);
        again(scene, rotate);
        registers(scene);
    },
    ..word("rotate-key", rotate)
};

/// A founding.
pub const INIT: Verb = Verb {
    name: "init",
    base: || Scene::alone(Fed::nowhere()),
    run: |scene| scene.fed.init().into(),
    says: Says::Code,
    again: init_again,
    ends: |_| {},
    same_map: true,
};

const MENDING: Verb = Verb { name: "tick that mends", base: torn, again: was_mended, ..TICK };

#[test]
fn a_tick_or_register_killed_or_refused_anywhere_heals_by_itself() {
    if has("strace") {
        [TICK, REGISTER].into_iter().for_each(|verb| Sweep::of(verb, &SMOKE));
    }
}

#[test]
fn an_init_killed_anywhere_is_finished_by_the_next() {
    if has("strace") {
        Sweep::of(INIT, &[Way::Kill]);
    }
}

#[test]
fn a_mending_tick_killed_anywhere_mends_at_last() {
    if has("strace") {
        Sweep::of(MENDING, &[Way::Kill]);
    }
}

#[test]
fn every_verb_disturbed_anywhere_in_every_way_heals_by_itself() {
    if !full() || !has("strace") {
        println!("skipped: a long form, asked for with CROWNY_FED_FULL");
        return;
    }
    let only = std::env::var("CROWNY_FED_VERB").ok();
    let wanted = |verb: &&Verb| {
        only.as_ref().is_none_or(|names| names.split(';').any(|name| name == verb.name))
    };
    VERBS.iter().filter(wanted).for_each(|verb| Sweep::of(*verb, &WAYS));
}

/// A verb on the scene's own folder.
fn said(scene: &Scene, words: &[&str]) -> Run {
    let mut command = scene.fed.verb(words[0]);
    command.args(&words[1..]);
    command.into()
}

/// The same word again ends well.
#[track_caller]
fn again(scene: &Scene, run: fn(&Scene) -> Run) {
    let ran = run(scene).ended();
    assert_eq!(ran.code, Some(0), "the same word again: {ran:#?}");
}

fn register(scene: &Scene) -> Run {
    said(scene, &["register", "--url", NOWHERE])
}

#[track_caller]
fn registers(scene: &Scene) {
    again(scene, register);
}

fn join(scene: &Scene) -> Run {
    Run { command: scene.join(), input: scene.input().into_bytes() }
}

fn rotate(scene: &Scene) -> Run {
    said(scene, &["rotate-key"])
}

fn drain(scene: &Scene) -> Run {
    said(scene, &["drain"])
}

fn leave(scene: &Scene) -> Run {
    said(scene, &["leave"])
}

fn snapshot(scene: &Scene) -> Run {
    said(scene, &["snapshot"])
}

fn grant(scene: &Scene) -> Run {
    said(scene, &["grant", "web", "n9"])
}

fn inviting(scene: &Scene) -> Run {
    said(scene, &["invite", "n9", "--service", "web"])
}

fn revoke(scene: &Scene) -> Run {
    said(scene, &["revoke", "n2"])
}

fn member() -> Scene {
    Scene::joined("ed25519")
}

fn without_snapshot() -> Scene {
    let scene = member();
    scene.fed.remove("snapshot.json");
    scene
}

fn anchor() -> Scene {
    Scene::alone(Scene::inviting())
}

/// The anchor of a member that joined.
fn with_member() -> Scene {
    let joined = member();
    Scene::alone(joined.anchor.as_ref().expect("a member has an anchor").fed.copy())
}

/// A member whose anchor has written lines since.
fn behind() -> Scene {
    let scene = member();
    let anchor = scene.journal_of();
    for service in ["api", "db"] {
        Ran::of(anchor.verb("grant").args([service, "n2"])).expect(0);
    }
    scene
}

/// Peers that refuse, for as long as the process runs.
fn refusing() -> &'static [Refusing; 2] {
    static PEERS: OnceLock<[Refusing; 2]> = OnceLock::new();
    PEERS.get_or_init(|| [Refusing::new(), Refusing::new()])
}

/// A peer that answers, for as long as the process runs.
fn answering() -> &'static StandIn {
    static PEER: OnceLock<StandIn> = OnceLock::new();
    PEER.get_or_init(StandIn::answering)
}

/// A member whose next tick declares `n2` dead, lists `n3` and suspects it: three lines, and a map
/// with one row gone and one row new.
fn about_to_bury() -> Scene {
    let fed = Fed::founded();
    let peers = refusing();
    fed.list(&[peers[0].row("n2", "active")]);
    fed.tick().expect(0);
    fed.tick().expect(0);
    fed.list(&[peers[0].row("n2", "active"), peers[1].row("n3", "active")]);
    let told = fed.copy().tick().expect(0).out;
    for line in ["n3 listed", "n3 alive -> suspect", "n2 suspect -> dead"] {
        assert!(told.contains(line), "{told}");
    }
    Scene::alone(fed)
}

#[track_caller]
fn nothing_was_torn(scene: &Scene) {
    assert_eq!(scene.fed.torn(), [""; 0], "nothing was torn");
}

/// Running `init` again finishes it with the keys of the first time. Only where it died after its
/// last write there is nothing left to finish.
#[track_caller]
fn init_again(scene: &Scene) {
    let fed = &scene.fed;
    let keys = || {
        let named = fed.image_if_any().into_iter().filter(|(name, _)| name.starts_with("keys"));
        named.collect::<Vec<_>>()
    };
    let made = keys();
    let was_done = fed.path("tick.json").exists();
    let ran = Ran::of(&mut fed.init());
    if was_done {
        ran.expect(1).saying(&["already holds a federation"]);
    } else {
        ran.expect(0);
    }
    let kept = keys();
    assert!(made.iter().all(|key| kept.contains(key)) && kept.len() == 3, "a key was made anew");
}

const TORN: &[u8] = b"{\"seq\":8,\"node\":\"";

/// Lines beyond the floor and a torn end after them; the peer answers, so that one tick more or
/// less decides nothing.
fn torn() -> Scene {
    let fed = Fed::founded();
    for state in ["standby", "active"] {
        fed.list(&["n2", "n3"].map(|id| row(id, answering().port, state)));
        if state == "standby" {
            fed.tick().expect(0);
        }
    }
    tick_with(&fed, &Fault::at("signal=KILL", "fsync", 1));
    fed.write("nodes.ndjson", [fed.journal(), TORN.to_vec()].concat());
    // Its stamp has whole seconds: whether a tick writes it must not depend on the clock.
    fed.remove(super::harness::STATUS);
    Scene::alone(fed)
}

/// A mending run may be killed between setting aside and cutting: then the tail is aside twice.
#[track_caller]
fn was_mended(scene: &Scene) {
    scene.fed.heals();
    let torn = scene.fed.torn();
    assert!(matches!(torn.len(), 1 | 2), "{torn:?}");
    assert!(torn.iter().all(|name| scene.fed.read(name) == TORN), "{torn:?}");
}

/// 255 lines, so that the next ones fill the first bundle and begin the second.
fn before_a_full_bundle() -> Scene {
    let fed = Fed::founded();
    let rows = |state: &str, more: &[String]| -> Vec<String> {
        let rows = (0..63).map(|nth| row(&format!("p{nth}"), answering().port, state));
        rows.chain(more.iter().cloned()).collect()
    };
    for state in ["active", "standby", "active", "standby"] {
        fed.list(&rows(state, &[]));
        fed.tick().expect(0);
    }
    assert_eq!(fed.signed_size(), 255);
    let more = ["n2", "n3"].map(|id| row(id, answering().port, "active"));
    fed.list(&rows("standby", &more));
    Scene::alone(fed)
}

/// Everything derived is gone: the tick that makes it anew may die as well.
fn nothing_derived() -> Scene {
    let scene = before_a_full_bundle();
    for name in ["index", "tile", "snapshot.json", "head.txt"] {
        scene.fed.remove(name);
    }
    scene
}
