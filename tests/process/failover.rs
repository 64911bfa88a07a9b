//! `failover`: the list, its order, and the exit codes a script can lean on.

use crate::harness::{FED, Folder, ROSTER, row};
use crate::peers::{Peer, Vacant};
use std::process::{Command, Stdio};
use std::time::Duration;

/// `crowny-fed failover > list.new && mv list.new list`, over a list that must survive.
fn keeps_the_old_list(folder: &Folder, words: &str) {
    folder.fed("d", &["failover"]).refuses(3, words);
    folder.write("list", "old|192.0.2.1|1\n");
    let script = "\"$0\" --dir d failover > list.new && mv list.new list";
    let status = Command::new("sh")
        .args(["-c", script, FED])
        .current_dir(folder.path())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(!status.success());
    assert_eq!(folder.text("list"), "old|192.0.2.1|1\n");
    assert_eq!(folder.text("list.new"), "");
}

#[test]
fn o15_all_peers_down_keeps_the_old_list() {
    let folder = Folder::new();
    let (one, two) = (Vacant::new(), Peer::status(503));
    folder.roster("d", &[row("n1", one.port), row("n2", two.port)]);
    folder.good("d", &["probe"]);
    keeps_the_old_list(&folder, "of 2 in the roster 2 are active, and none of those is usable");
}

#[test]
fn o15_a_missing_roster_keeps_the_old_list() {
    let folder = Folder::new();
    folder.write("d/x", "");
    keeps_the_old_list(&folder, "no roster");
}

#[test]
fn o15_an_empty_roster_keeps_the_old_list() {
    let folder = Folder::new();
    for text in ["", "# 노드ID|호스트|포트|역할|상태\n\n"] {
        folder.write(&format!("d/{ROSTER}"), text);
        keeps_the_old_list(&folder, "no usable rows");
    }
}

#[test]
fn o15_rows_on_standby_only_keep_the_old_list() {
    let folder = Folder::new();
    let peer = Peer::status(200);
    folder.roster("d", &[format!("n1|127.0.0.1|{}|edge|standby", peer.port)]);
    folder.good("d", &["probe"]);
    assert_eq!(folder.status("d")["n1"][4], "티", "a standby row is probed all the same");
    keeps_the_old_list(&folder, "of 1 in the roster 0 are active");
}

#[test]
fn o15_an_unjudged_roster_keeps_the_old_list() {
    let folder = Folder::new();
    folder.roster("d", &[row("n1", 9)]);
    keeps_the_old_list(&folder, "not judged yet");
}

#[test]
fn ok_before_slow_in_roster_order_without_the_down_the_unknown_and_the_standby() {
    let folder = Folder::new();
    let (well, down) = (Peer::status(200), Vacant::new());
    let late = Peer::slow(Duration::from_millis(1_300));
    let rows = [
        row("late1", late.port),
        row("zz", well.port),
        row("down", down.port),
        "here|255.255.255.255|9|edge|active".to_owned(),
        format!("spare|127.0.0.1|{}|edge|standby", well.port),
        row("aa", well.port),
        row("late0", late.port),
    ];
    folder.roster("d", &rows);
    folder.good("d", &["probe"]);
    assert_eq!(folder.status("d")["late1"][4], "옴");
    let line = |id: &str, port: u16| format!("{id}|127.0.0.1|{port}\n");
    let expected = [
        line("zz", well.port),
        line("aa", well.port),
        line("late1", late.port),
        line("late0", late.port),
    ]
    .concat();
    assert_eq!(folder.good("d", &["failover"]), expected);

    let json: serde_json::Value =
        serde_json::from_str(&folder.good("d", &["failover", "--json"])).unwrap();
    assert_eq!((&json["rule"], &json["old"]), (&"roster".into(), &serde_json::Value::Null));
    let ids: Vec<_> = json["nodes"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert_eq!(ids, ["zz", "aa", "late1", "late0"]);
}

#[test]
fn a_row_added_or_moved_since_the_probe_is_not_judged_yet() {
    let folder = Folder::new();
    let peer = Peer::status(200);
    folder.roster("d", &[row("n1", peer.port)]);
    folder.good("d", &["probe"]);
    folder.roster("d", &[row("new", peer.port), row("n1", peer.port)]);
    assert_eq!(folder.good("d", &["failover"]), format!("n1|127.0.0.1|{}\n", peer.port));
    let other = Peer::status(200);
    folder.roster("d", &[row("n1", other.port)]);
    folder.fed("d", &["failover"]).refuses(3, "nobody to fail over to");
    folder.good("d", &["probe"]);
    assert_eq!(folder.good("d", &["failover"]), format!("n1|127.0.0.1|{}\n", other.port));
}

/// 타 after one failed probe: the roster rule drops at once, the federation rule waits for death.
#[test]
fn o35_with_federation_state_one_miss_moves_a_row_to_the_end() {
    let folder = Folder::new();
    let (well, flaky) = (Peer::status(200), Peer::new(|_, _, _| ()));
    folder.found("d", "");
    folder.roster("d", &[row("n1", flaky.port), row("n2", well.port), row("n3", well.port)]);
    folder.good("d", &["tick"]);
    assert_eq!(folder.status("d")["n1"][4], "타");
    let json: serde_json::Value =
        serde_json::from_str(&folder.good("d", &["failover", "--json"])).unwrap();
    assert_eq!(json["rule"], "federation");
    let ids: Vec<_> = json["nodes"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert_eq!(ids, ["n2", "n3", "n1"]);
    for _ in 0..2 {
        folder.good("d", &["tick"]);
    }
    let listed = folder.good("d", &["failover"]);
    assert_eq!(listed, format!("n2|127.0.0.1|{0}\nn3|127.0.0.1|{0}\n", well.port));
}
