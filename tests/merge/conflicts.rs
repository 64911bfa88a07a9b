//! Two machines with one name, names of others, and members that are gone.

use crate::away::{all_tick, count, three};
use crate::branch::{Writer, body, bring, fates};
use crate::federation::Node;
use crate::harness::{Ran, Serving, fed};
use crate::signed::register;
use sha2::{Digest, Sha256};
use std::path::Path;
use std::process::Command;

/// The same files in another folder.
fn copied(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

/// What a run of ticks said of conflicts.
fn conflicts(dir: &Path) -> Vec<String> {
    let ran = Ran::of(fed(dir, &["tick"]), "").expect(0);
    ran.err.lines().filter(|line| line.contains("conflict:")).map(str::to_owned).collect()
}

fn rows(dir: &Path) -> Vec<String> {
    let map = std::fs::read_to_string(dir.join("federated-routes.txt")).unwrap();
    map.lines().filter(|line| !line.starts_with("# origin")).map(str::to_owned).collect()
}

/// O-39: a host and its clone wrote the same number while apart. Whoever comes home first, all end
/// with the same map, root and winner, and the conflict is told once.
#[test]
fn two_words_of_one_number_end_the_same_in_both_orders() {
    let (mut federation, mut gw2, gw3) = three();
    federation.anchor.stop();
    gw2.stop();
    let clone = gw2.dir.with_file_name("clone");
    copied(&gw2.dir, &clone);
    gw2.good(&["register", "--service", &format!("web={}", gw3.url())]);
    let clones = fed(&clone, &["register", "--service", &format!("web={}", gw2.url())]);
    Ran::of(clones, "").expect(0);
    let payload = |dir: &Path| {
        let line = std::fs::read_to_string(dir.join("branch.ndjson")).unwrap();
        let line: serde_json::Value = serde_json::from_str(line.trim_end()).unwrap();
        line["payload"].as_str().unwrap().to_owned()
    };
    let place = |payload: &str| {
        let told: serde_json::Value = serde_json::from_str(payload).unwrap();
        assert_eq!(told["incarnation"], 2);
        told["services"][0]["url"].as_str().unwrap().to_owned()
    };
    let said = [payload(&gw2.dir), payload(&clone)];
    let winner = said.iter().max_by_key(|payload| Sha256::digest(payload.as_bytes())).unwrap();

    let mut ends = Vec::new();
    for (nth, clone_first) in [false, true].into_iter().enumerate() {
        let at = |dir: &Path| {
            let name = format!("{}-{nth}", dir.file_name().unwrap().to_str().unwrap());
            let to = dir.with_file_name(name);
            copied(dir, &to);
            to
        };
        let (anchor, one, two, other) =
            (at(&federation.anchor.dir), at(&gw2.dir), at(&clone), at(&gw3.dir));
        let log = anchor.with_extension("log");
        let serving = [
            Serving::start(&anchor, federation.anchor.port, &log),
            Serving::start(&one, gw2.port, &one.with_extension("log")),
        ];
        let order = if clone_first { [&two, &one] } else { [&one, &two] };
        let mut told: Vec<String> = order.iter().flat_map(|dir| conflicts(dir)).collect();
        let everybody = [&anchor, &one, &two, &other];
        for _ in 0..2 {
            told.extend(everybody.iter().flat_map(|dir| conflicts(dir)));
        }
        assert_eq!(told.len(), 1, "{told:#?}");
        assert!(told[0].contains("gw2 said two things at incarnation 2"), "{told:?}");
        let file = |dir: &Path, name: &str| std::fs::read(dir.join(name)).unwrap();
        for dir in everybody {
            assert_eq!(rows(dir), rows(&anchor), "{}", dir.display());
            assert_eq!(file(dir, "federation-root.txt"), file(&anchor, "federation-root.txt"));
            assert!(!dir.join("branch.ndjson").exists());
        }
        assert!(rows(&anchor).iter().any(|row| row.contains(&place(winner))));
        let status = Ran::of(fed(&other, &["status", "--json"]), "").expect(0).out;
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        assert_eq!(status["conflicts"][0]["node"], "gw2");
        assert_eq!(status["conflicts"][0]["losers"].as_array().unwrap().len(), 1);
        // The next word settles it.
        let again = fed(&one, &["register"]);
        Ran::of(again, "").expect(0);
        let status = Ran::of(fed(&anchor, &["status", "--json"]), "").expect(0).out;
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        assert_eq!(status["conflicts"], serde_json::json!([]));
        ends.push(rows(&other));
        drop(serving);
    }
    assert_eq!(ends[0], ends[1]);
}

/// A name that is new is asked for afterwards; one that another node serves is told once and given
/// up, so that later words are not refused for it.
#[test]
fn a_branch_takes_no_name() {
    let (mut federation, gw2, gw3) = three();
    gw2.good(&["register", "--service", &format!("shop={}", gw2.url())]);
    all_tick(&[&federation.anchor, &gw2, &gw3]);
    federation.anchor.stop();
    let services: Vec<String> = ["web", "api", "shop"]
        .iter()
        .flat_map(|name| ["--service".to_owned(), format!("{name}={}", gw3.url())])
        .collect();
    let mut args = vec!["register"];
    args.extend(services.iter().map(String::as_str));
    gw3.good(&args);
    federation.anchor.serve();
    let ran = gw3.fed(&["tick"]).expect(0);
    for name in ["api", "shop"] {
        assert!(ran.err.contains(&format!("gw3 may not route {name} before")), "{ran:?}");
    }
    assert!(ran.err.contains("service not granted: shop"), "{ran:?}");
    let again = gw3.fed(&["tick"]).expect(0);
    assert_eq!(again.err, "");
    all_tick(&[&federation.anchor, &gw2, &gw3]);
    for node in [&federation.anchor, &gw2, &gw3] {
        assert_eq!(node.row("api", "gw3").as_deref(), Some("alive"), "{}", node.id);
        assert_eq!(node.row("web", "gw3").as_deref(), Some("alive"), "{}", node.id);
        assert_eq!(node.row("shop", "gw3"), None, "{}", node.id);
        assert_eq!(node.row("shop", "gw2").as_deref(), Some("alive"), "{}", node.id);
        assert_eq!(node.status()["conflicts"], serde_json::json!([]));
    }
    gw3.good(&["register"]);
}

/// O-37: whoever was removed while it was away does not come back with what it said meanwhile.
#[test]
fn who_was_removed_is_not_brought_back() {
    let (mut federation, gw2, gw3) = three();
    federation.anchor.stop();
    gw2.good(&["register", "--service", &format!("web={}", gw2.url())]);
    federation.anchor.good(&["revoke", "gw2"]);
    federation.anchor.serve();
    let refused = gw2.fed(&["merge"]).expect(1);
    assert!(refused.err.contains("401"), "{refused:?}");
    assert!(gw2.file("branch.ndjson").exists());
    // Nor does anybody else bring it in.
    let lines = gw2.text("branch.ndjson");
    let told = fates(&bring(&federation, &body(("gw3", &gw3.key()), lines.as_bytes())));
    assert!(told[0].contains("refused the key of 'gw2' was revoked"), "{told:?}");
    all_tick(&[&gw3, &federation.anchor]);
    assert_eq!(gw3.standing("gw2"), "revoked 1");
    assert_eq!((gw3.row("web", "gw2"), count(&gw3, "merged")), (None, 0));
}

/// The same of one that left: an older word stays older, whoever brings it.
#[test]
fn who_left_stays_gone() {
    let (federation, gw2, gw3) = three();
    let old = register(&gw2, 1);
    gw2.good(&["leave"]);
    gw3.tick();
    let mut writer = Writer::after(&gw3);
    writer.say(("register", &old), ("gw2", &gw2.key()));
    let told = fates(&bring(&federation, &body(("gw2", &gw2.key()), &writer.bytes)));
    assert!(told[0].starts_with("merged "), "{told:?}");
    let told = fates(&bring(&federation, &body(("gw3", &gw3.key()), &writer.bytes)));
    assert!(told[0].starts_with("held "), "{told:?}");
    all_tick(&[&federation.anchor, &gw3]);
    assert_eq!(gw3.standing("gw2"), "left 1");
    assert_eq!(gw3.row("web", "gw2"), None);
}

/// A folder of before there were branches: its snapshot is of another fold, and is made anew.
#[test]
fn an_older_folder_replays() {
    let (federation, gw2, _) = three();
    let old: Node = gw2;
    let text = old.text("snapshot.json").replacen("\"fold_version\":3", "\"fold_version\":2", 1);
    std::fs::write(old.file("snapshot.json"), text).unwrap();
    old.good(&["verify"]);
    federation.anchor.tick();
    old.tick();
    assert_eq!(old.map(), federation.anchor.map());
}
