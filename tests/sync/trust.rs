//! What somebody shows beside our checkpoint: two histories under one signature convict the key
//! and stop everything; whatever is not signed by it is only told.

use crate::federation::{Federation, Node, ORIGIN, append, note};
use crate::harness::Ran;
use crate::stand_in::{Asked, Says, StandIn, saying};
use crowny_fed::auth::{keys, pae};
use crowny_fed::journal::line::Author;
use crowny_fed::journal::merkle::leaf_hash;
use crowny_fed::store::draft::Draft;
use ed25519_dalek::SigningKey;
use serde_json::json;
use std::fs;

/// A member `n1`, and what it sees at the URL of another one.
struct Scene {
    fed: Federation,
    node: Node,
    shown: StandIn,
}

impl Scene {
    fn new() -> Scene {
        let mut fed = Federation::found();
        let node = fed.join("n1");
        let mut other = Node::in_folder(&fed.folder, "n2");
        let shown = StandIn::before(other.port);
        other = fed.join_at(other, &shown.url());
        other.serve();
        fed.others.push(other);
        fed.grow(40);
        fed.others[0].fed(&["sync"]).quiet();
        node.fed(&["tick"]).expect(0);
        node.fed(&["sync"]).quiet();
        Scene { fed, node, shown }
    }

    /// `/checkpoint` of the other member is this from now on.
    fn shows(&self, note: String) {
        self.shown.answer(move |asked| match asked.is("/checkpoint") {
            true => saying("200 OK", note.as_bytes()),
            false => Says::Truth,
        });
    }

    /// A checkpoint by the log's own key of a log that never was.
    fn never(&self, size: u64) -> String {
        note(ORIGIN, (size, leaf_hash(b"never")), &self.fed.log_key())
    }

    /// The next tick convicts and so does every run after it, until a person has judged.
    #[track_caller]
    fn convicts(&self, words: &[&str], (ours, theirs): (u64, u64)) {
        convicts(&self.node, words, (ours, theirs));
        self.shown.honest();
        self.fed.front.honest();
        stays_convicted(&self.node);
        self.node.fed(&["tick"]).expect(0);
        self.node.is_a_copy_of(&self.fed.anchor);
    }

    /// The next tick warns of this server and does all it ever does.
    #[track_caller]
    fn only_warns(&self, server: &StandIn, words: &[&str]) {
        let before = self.node.fetched();
        let ran = self.node.fed(&["tick"]).expect(0);
        assert!(before == self.node.fetched());
        let told = ran.err.lines().filter(|line| line.contains(&server.url())).count();
        assert_eq!(told, 1, "{ran:?}");
        assert!(!self.node.file("state/evidence").exists(), "{ran:?}");
        ran.saying(words);
    }
}

/// Exit 5, both notes kept, and everything else untouched.
#[track_caller]
pub fn convicts(node: &Node, words: &[&str], (ours, theirs): (u64, u64)) -> Ran {
    let (before, map) = (node.fetched(), node.bytes("federated-routes.txt"));
    let ran = node.fed(&["tick"]).expect(5).saying(words);
    let evidence = node.evidence();
    for (whose, size) in [("ours", ours), ("theirs", theirs)] {
        let kept = evidence.get(&format!("state/evidence/{whose}-{size}.txt"));
        let kept = kept.unwrap_or_else(|| panic!("no {whose}-{size}: {:?}", evidence.keys()));
        assert!(kept.starts_with(format!("{ORIGIN}\n{size}\n").as_bytes()));
    }
    assert!(before == node.fetched(), "something of theirs was kept");
    assert_eq!(map, node.bytes("federated-routes.txt"), "the map was touched");
    ran
}

/// Nothing runs, whoever is asked now, until the folder of evidence is moved away.
#[track_caller]
pub fn stays_convicted(node: &Node) {
    let map = node.bytes("federated-routes.txt");
    for verb in ["tick", "sync", "tick"] {
        node.fed(&[verb]).expect(5).saying(&["state/evidence"]);
    }
    assert_eq!(map, node.bytes("federated-routes.txt"), "the map was touched");
    // Readers go on.
    node.good(&["routes"]);
    node.good(&["status"]);
    fs::rename(node.file("state/evidence"), node.file("judged")).unwrap();
    fs::remove_dir_all(node.file("judged")).unwrap();
}

#[test]
fn another_root_at_the_same_size_convicts() {
    let scene = Scene::new();
    let size = scene.node.size();
    scene.shows(scene.never(size));
    scene.convicts(&["another root at the same size", &scene.shown.url()], (size, size));
}

#[test]
fn a_smaller_log_that_is_not_our_beginning_convicts() {
    let scene = Scene::new();
    let size = scene.node.size();
    for smaller in [size - 1, 8, 1] {
        scene.shows(scene.never(smaller));
        let words = format!("do not begin with the {smaller}");
        scene.convicts(&[&words], (size, smaller));
    }
}

/// Whatever way the anchor itself shows its other history.
#[test]
fn an_anchor_that_shows_another_log_is_convicted() {
    let scene = Scene::new();
    let size = scene.node.size();
    let unknown = |note: &str| json!({ "checkpoint": note, "common": 1 }).to_string();
    let head = |size: u64| json!({ "size": size, "head": leaf_hash(b"never") }).to_string();

    let (at, told) = (head(size), unknown(&scene.never(size)));
    scene.fed.front.answer(move |asked| match () {
        () if asked.is("/head") => saying("200 OK", at.as_bytes()),
        () if asked.is("/sync") => saying("409 Conflict", told.as_bytes()),
        () => Says::Truth,
    });
    scene.convicts(&["another root at the same size"], (size, size));

    let (at, told) = (head(8), scene.never(8));
    scene.fed.front.answer(move |asked| match () {
        () if asked.is("/head") => saying("200 OK", at.as_bytes()),
        () if asked.is("/checkpoint") => saying("200 OK", told.as_bytes()),
        () => Says::Truth,
    });
    scene.convicts(&["do not begin with the 8"], (size, 8));
}

/// The checkpoint of a page counts as much as any other.
#[test]
fn a_page_under_another_root_convicts() {
    let scene = Scene::new();
    let size = scene.node.size();
    let head = json!({ "size": size + 1, "head": leaf_hash(b"never") }).to_string();
    for theirs in [size, 8] {
        let (head, page) = (head.clone(), format!("\n{}", scene.never(theirs)));
        scene.fed.front.answer(move |asked| match () {
            () if asked.is("/head") => saying("200 OK", head.as_bytes()),
            () if asked.is("/sync") => saying("200 OK", page.as_bytes()),
            () => Says::Truth,
        });
        scene.convicts(&[&scene.fed.front.url()], (size, theirs));
    }
}

/// Numbers that nobody signed, and notes by whoever is not our log.
#[test]
fn what_the_logs_key_did_not_sign_convicts_nobody() {
    let scene = Scene::new();
    let size = scene.node.size();
    let head = |at: u64| {
        let told = json!({ "size": at, "head": leaf_hash(b"never") }).to_string();
        move |asked: &Asked| match () {
            () if asked.is("/head") => saying("200 OK", told.as_bytes()),
            () if asked.is("/observe") => saying("202 Accepted", b"{}"),
            () => Says::Truth,
        }
    };
    scene.fed.front.answer(head(size - 3));
    scene.only_warns(&scene.fed.front, &["an old copy"]);
    // A larger number is answered by a question, and the truth ends it.
    scene.fed.front.answer(head(u64::MAX));
    scene.node.fed(&["sync"]).quiet();
    scene.fed.front.honest();

    let stranger = SigningKey::from_bytes(&[7; 32]);
    let good = scene.node.text("federation-root.txt");
    let at = good.trim_end().len() - 20;
    let mut bent = good.clone();
    bent.replace_range(at..=at, if &good[at..=at] == "A" { "B" } else { "A" });
    let notes = [
        note("other.example/fed", (size, leaf_hash(b"never")), &scene.fed.log_key()),
        note(ORIGIN, (size, leaf_hash(b"never")), &stranger),
        bent,
        good.replacen(&format!("\n{size}\n"), &format!("\n{}\n", size - 1), 1),
        good.split("\n\n").next().unwrap().to_owned() + "\n",
        "<html>\n\nno\n".to_owned(),
        String::new(),
    ];
    for note in notes {
        scene.fed.front.answer(|asked| match asked.is("/observe") {
            true => saying("202 Accepted", b"{}"),
            false => Says::Truth,
        });
        scene.shows(note);
        scene.only_warns(&scene.shown, &[]);
    }
    // Earlier moments of our own log are those of a replica that lags.
    scene.shown.honest();
    scene.fed.grow(9);
    scene.node.fed(&["sync"]).quiet();
    assert_eq!(scene.shown.paths().iter().filter(|path| *path == "/checkpoint").count(), 1);
    assert!(scene.fed.others[0].size() < scene.node.size());
}

/// A restored or copied folder that lacks a line is noticed before anything is fetched or written
/// (reference/tlog.md, incident 25).
#[test]
fn a_copy_with_one_line_missing_is_refused() {
    let scene = Scene::new();
    let lines = scene.node.lines();
    for missing in [0, 3, 20, lines.len() - 1] {
        for floor in ["state/committed.json", "nothing"] {
            let node = scene.node.copy_as(&format!("lacks-{missing}-{}", floor.len()));
            let mut left = lines.clone();
            left.remove(missing);
            fs::write(node.file("nodes.ndjson"), left.join("\n") + "\n").unwrap();
            let _ = fs::remove_file(node.file(floor));
            let (before, map) = (node.fetched(), node.bytes("federated-routes.txt"));
            for verb in ["sync", "tick", "verify"] {
                node.fed(&[verb]).expect(5).saying(&["nodes.ndjson"]);
            }
            assert!(before == node.fetched(), "line {missing}: something was written");
            assert_eq!(map, node.bytes("federated-routes.txt"));
        }
    }
}

/// A key that was ended is dead on every node with its next tick (law 4, design section 7).
#[test]
fn a_revoked_key_is_dead_on_every_node() {
    let scene = Scene::new();
    let (node, other) = (&scene.node, &scene.fed.others[0]);
    let routed = |node: &Node| node.map().iter().filter(|row| row.contains("n2")).count();
    node.fed(&["tick"]).expect(0);
    other.fed(&["tick"]).expect(0);
    assert_eq!((routed(node), routed(other)), (1, 1), "{:?}", node.map());
    scene.fed.anchor.good(&["revoke", "n2"]);
    node.fed(&["tick"]).expect(0);
    let ran = other.fed(&["tick"]).expect(0);
    assert_eq!((routed(node), routed(other)), (0, 0), "{:?}", node.map());
    assert!(!node.good(&["routes"]).contains("n2"));
    // It learns why.
    ran.saying(&["401"]);
    other.fed(&["register"]).expect(1).saying(&["401"]);
}

/// The log's key may sign what it wants: a line needs its author's signature as well (law 4).
#[test]
fn a_forged_line_under_the_logs_signature_is_refused() {
    let scene = Scene::new();
    let (node, anchor) = (&scene.node, &scene.fed.anchor);
    node.fed(&["tick"]).expect(0);
    let at = anchor.size();
    let stranger = SigningKey::from_bytes(&[9; 32]);
    let payload = json!({
        "incarnation": 77, "mode": "ed25519", "node": "n2", "nonce": "0".repeat(32),
        "origin": ORIGIN, "reach": "inbound", "services": [], "ts": 1_700_000_000,
        "urls": ["http://127.0.0.1:1"],
    });
    let payload = payload.to_string();
    let held = anchor.lines().into_iter().find(|line| line.contains("\"n2\\\"")).unwrap();
    let held: serde_json::Value = serde_json::from_str(&held).unwrap();
    let enrolled: serde_json::Value =
        serde_json::from_str(held["payload"].as_str().unwrap()).unwrap();
    let author = Author {
        alg: "ed25519".to_owned(),
        kid: enrolled["kid"].as_str().unwrap().to_owned(),
        sig: keys::sign(&stranger, &pae::encode("register", &payload)),
    };
    let draft = Draft::submitted("register", &payload, author);
    append(&anchor.dir, &mut |_| draft.clone(), 1);
    scene.fed.grow(2);

    let (before, map) = (node.fetched(), node.bytes("federated-routes.txt"));
    for verb in ["tick", "sync"] {
        let words = format!("line {at} is under the log's signature, but not by its author");
        node.fed(&[verb]).expect(5).saying(&[&words, "evidence/forged-"]);
    }
    assert!(before == node.fetched(), "something of it was kept");
    assert_eq!(map, node.bytes("federated-routes.txt"), "the map was touched");
    let kept = node.evidence().remove(&format!("state/evidence/forged-{at}.txt")).unwrap();
    let (line, note) = (anchor.lines()[at as usize].clone(), anchor.text("federation-root.txt"));
    assert_eq!(String::from_utf8(kept).unwrap(), format!("{line}\n\n{note}"));
    // Nor does it come by another way: a member that has it, or a whole journal.
    scene.fed.front.answer(|asked| match asked.is("/sync") {
        true => saying("404 Not Found", b""),
        false => Says::Truth,
    });
    node.fed(&["sync"]).expect(5);
    assert!(before == node.fetched(), "something of it was kept");
}
