//! With the anchor dead, any member gives what another lacks, and is believed no more than anybody.

use crate::federation::{Federation, Node};
use crate::stand_in::{Says, StandIn, promising, saying};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Two members that know each other; `n2` is served behind a stand-in and has `more` lines.
struct Scene {
    fed: Federation,
    behind: Node,
    ahead: Node,
    way: StandIn,
}

impl Scene {
    fn new(more: u64) -> Scene {
        let fed = Federation::found();
        let behind = fed.join("n1");
        let ahead = Node::in_folder(&fed.folder, "n2");
        let way = StandIn::before(ahead.port);
        let mut ahead = fed.join_at(ahead, &way.url());
        ahead.serve();
        behind.fed(&["sync"]).quiet();
        behind.fed(&["tick"]).expect(0);
        fed.grow(more);
        ahead.fed(&["sync"]).quiet();
        Scene { fed, behind, ahead, way }
    }
}

#[test]
fn a_member_heals_from_another_while_the_anchor_is_dead() {
    let mut scene = Scene::new(50);
    let by_sync = scene.behind.copy_as("by-sync");
    let (held, rows) = (scene.behind.size(), scene.behind.map());
    scene.fed.anchor.stop();
    scene.way.honest();
    let ran = by_sync.fed(&["sync"]).expect(0);
    assert!(ran.out.contains(&format!("50 lines from {}", scene.way.url())), "{ran:?}");
    ran.warning_once(&[&scene.fed.front.url()]);
    assert_eq!(scene.way.sizes(), [held]);
    by_sync.is_a_copy_of(&scene.fed.anchor);

    scene.behind.fed(&["tick"]).expect(0);
    scene.behind.is_a_copy_of(&scene.fed.anchor);
    let unmarked = |row: String| row.trim_end_matches("|provisional").to_owned();
    let kept: Vec<String> = scene.behind.map().into_iter().map(unmarked).collect();
    assert_eq!(kept, rows, "the map is kept");
    // Nothing newer and no anchor: sync says so, a tick goes on.
    by_sync.fed(&["sync"]).expect(1).saying(&["no anchor answered"]);
    scene.behind.fed(&["tick"]).expect(0);
}

/// Pages of one history fit together, whoever gave them.
#[test]
fn the_rest_of_a_sync_may_come_from_somebody_else() {
    let mut scene = Scene::new(9_000);
    let given = AtomicUsize::new(0);
    scene.fed.front.answer(move |asked| {
        if asked.is("/sync") && given.fetch_add(1, Ordering::SeqCst) > 0 {
            return Says::Bytes(Vec::new());
        }
        Says::Truth
    });
    let before = scene.behind.size();
    scene.way.answer(|_| saying("503 Later", b""));
    scene.behind.fed(&["sync"]).expect(1).saying(&[&scene.fed.front.url()]);
    let held = scene.behind.lines().len() as u64;
    assert!(scene.behind.size() == before && held > before, "one page of two");
    scene.fed.anchor.stop();
    scene.way.honest();
    scene.behind.fed(&["sync"]).expect(0);
    assert_eq!(scene.way.sizes(), [held]);
    scene.behind.is_a_copy_of(&scene.fed.anchor);
}

#[test]
fn a_member_that_lies_or_lags_costs_nothing() {
    let mut scene = Scene::new(50);
    scene.fed.anchor.stop();
    let before = scene.behind.fetched();
    let url = scene.way.url();
    scene.way.answer(|asked| match asked.is("/sync") {
        true => saying("200 OK", b"{}\n\nno\n"),
        false => Says::Truth,
    });
    scene.behind.fed(&["sync"]).expect(1).saying(&[&url, "does not follow"]);
    scene.way.answer(|asked| match asked.is("/sync") {
        true => promising("200 OK", b"x", 1 << 20),
        false => Says::Truth,
    });
    scene.behind.fed(&["sync"]).expect(1).saying(&[&url, "breaks off"]);
    scene.way.answer(|_| saying("200 OK", b"<html>\n"));
    scene.behind.fed(&["sync"]).expect(1).saying(&[&url, "/checkpoint is none of"]);
    assert!(before == scene.behind.fetched());

    // The one that is ahead asks the one that lags: nothing to take, nobody to accuse.
    scene.behind.serve();
    scene.ahead.fed(&["sync"]).expect(1);
    assert!(!scene.ahead.file("state/evidence").exists());
    scene.way.honest();
    scene.behind.fed(&["sync"]).expect(0);
    scene.behind.is_a_copy_of(&scene.ahead);
}

/// Any member may say that it does not know our lines: those that were proven stay.
#[test]
fn a_member_that_knows_nothing_takes_no_proven_line_from_us() {
    let scene = Scene::new(9_000);
    let given = AtomicUsize::new(0);
    scene.fed.front.answer(move |asked| {
        if asked.is("/sync") && given.fetch_add(1, Ordering::SeqCst) > 0 {
            return Says::Bytes(Vec::new());
        }
        Says::Truth
    });
    let unknown = serde_json::json!({ "checkpoint": scene.ahead.text("federation-root.txt") });
    scene.way.answer(move |asked| match asked.is("/sync") {
        true => saying("409 Conflict", unknown.to_string().as_bytes()),
        false => Says::Truth,
    });
    let before = scene.behind.lines().len();
    scene.behind.fed(&["sync"]).expect(1);
    let held = scene.behind.lines().len();
    scene.fed.front.honest();
    scene.behind.fed(&["sync"]).expect(0);
    scene.behind.is_a_copy_of(&scene.fed.anchor);
    let torn = crate::harness::image(&scene.behind.dir, &["nodes.torn-"]);
    assert!(held > before && torn.is_empty(), "proven lines were set aside: {:?}", torn.keys());
    assert_eq!(scene.fed.front.sizes()[0], held as u64);
}

/// With a dead anchor three members are asked in one run: one of them with newer lines is enough.
#[test]
fn dead_members_do_not_keep_us_from_a_live_one() {
    let mut fed = Federation::found();
    let node = fed.join("n1");
    let mut others: Vec<Node> = ["n2", "n3", "n4"].iter().map(|id| fed.join(id)).collect();
    node.fed(&["sync"]).quiet();
    fed.grow(5);
    others[1].fed(&["sync"]).quiet();
    others[1].serve();
    fed.anchor.stop();
    node.fed(&["sync"]).expect(0);
    node.is_a_copy_of(&fed.anchor);
}

/// Nothing is left but who we are and our keys, and the anchor is gone: a peer alone is enough.
#[test]
fn a_cold_start_from_one_peer_alone() {
    let mut scene = Scene::new(50);
    scene.fed.anchor.stop();
    scene.behind.forget_journal();
    scene.behind.fed(&["sync"]).expect(1).saying(&["no anchor answered"]);
    let rows = scene.behind.bytes("federated-routes.txt");
    scene.way.honest();
    let url = scene.way.url();
    scene.behind.fed(&["sync", "--from", &url]).expect(0);
    assert_eq!(scene.way.sizes(), [0]);
    scene.behind.is_a_copy_of(&scene.ahead);
    assert_eq!(rows, scene.behind.bytes("federated-routes.txt"), "until the first good tick");
    scene.behind.fed(&["tick"]).expect(0);
    // Whoever is named is believed no more than anybody.
    let before = scene.behind.fetched();
    scene.way.answer(|_| saying("200 OK", b"<html>\n"));
    scene.behind.fed(&["sync", "--from", &url]).expect(1).saying(&[&url]);
    assert!(before == scene.behind.fetched());
    scene.behind.fed(&["sync", "--from", "ftp://x"]).expect(2);
}

/// From nothing, a dead anchor and nobody we know of: the last map stays as it is.
#[test]
fn a_cold_start_without_anybody_keeps_the_last_map() {
    let mut scene = Scene::new(5);
    scene.fed.anchor.stop();
    scene.behind.forget_journal();
    let map = scene.behind.bytes("federated-routes.txt");
    assert!(!map.is_empty());
    let ran = scene.behind.fed(&["tick"]).expect(1);
    ran.saying(&["no journal here yet", &scene.fed.front.url()]);
    assert_eq!(map, scene.behind.bytes("federated-routes.txt"));
    scene.fed.anchor.serve();
    scene.behind.fed(&["tick"]).expect(0);
    scene.behind.is_a_copy_of(&scene.fed.anchor);
}
