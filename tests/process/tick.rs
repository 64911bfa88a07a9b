//! `tick` by hand: what it concludes from answers, silence and a network that is gone.

use crate::harness::{Folder, Ran, Serving, row, wait_for};
use crate::peers::{Peer, Vacant, empty, hold};
use crate::world::without_network;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::process::Stdio;

/// Liveness of every member but the anchor, by `status`.
fn liveness(folder: &Folder) -> Vec<(String, String)> {
    let status = status(folder);
    let members = status["members"].as_array().unwrap().iter();
    let pair = |member: &Value| {
        let word = |key: &str| member[key].as_str().unwrap().to_owned();
        (word("node"), word("liveness"))
    };
    members.map(pair).filter(|(id, _)| id != "gw1").collect()
}

fn status(folder: &Folder) -> Value {
    serde_json::from_str(&folder.good("d", &["status", "--json"])).unwrap()
}

fn of(folder: &Folder, id: &str) -> String {
    liveness(folder).into_iter().find(|(found, _)| found == id).unwrap().1
}

fn listed(folder: &Folder) -> Vec<String> {
    let list = folder.good("d", &["failover"]);
    list.lines().map(|line| line.split('|').next().unwrap().to_owned()).collect()
}

fn all(word: &str, ids: &[String]) -> Vec<(String, String)> {
    ids.iter().map(|id| (id.clone(), word.to_owned())).collect()
}

#[test]
fn o35_a_peer_that_answers_every_other_time_never_dies() {
    let folder = Folder::new();
    folder.found("d", "timeout = \"1s\"\n");
    let flaky = Peer::new(|number, mut stream, _| {
        if number % 2 == 0 {
            let _ = stream.write_all(empty(200).as_bytes());
        } else {
            hold(&mut stream);
        }
    });
    let well = Peer::status(200);
    folder.roster("d", &[row("n1", flaky.port), row("n2", well.port), row("n3", well.port)]);
    for round in 0..5 {
        folder.good("d", &["tick"]);
        let (word, list) = if round % 2 == 0 {
            ("alive", ["n1", "n2", "n3"])
        } else {
            ("suspect", ["n2", "n3", "n1"])
        };
        assert_eq!(of(&folder, "n1"), word, "tick {round}");
        assert_eq!(listed(&folder), list, "tick {round}");
    }
}

/// Ten ticks in which nothing can be reached, by rows that lead nowhere.
#[test]
fn o36_an_offline_prober_kills_nobody_and_its_list_is_marked_old() {
    let folder = Folder::new();
    folder.found("d", "");
    let well = Peer::status(200);
    let ids: Vec<String> = (1..=6).map(|n| format!("n{n}")).collect();
    let good: Vec<String> = ids.iter().map(|id| row(id, well.port)).collect();
    folder.roster("d", &good);
    folder.good("d", &["tick"]);
    let nowhere = ["255.255.255.255", "gw.invalid", "other.invalid"];
    let hosts = ids.iter().zip(nowhere.iter().cycle());
    let cut: Vec<String> = hosts.map(|(id, host)| format!("{id}|{host}|9|edge|active")).collect();
    folder.roster("d", &cut);
    ten_blind_ticks(&folder, &ids, || folder.fed("d", &["tick"]));
    folder.roster("d", &good);
    folder.good("d", &["tick"]);
    sees_again(&folder, &ids);
}

/// The same where the network goes and returns under unchanged rows, one of them suspect before.
#[test]
fn o36_what_was_suspect_when_the_network_went_is_no_nearer_to_death() {
    let folder = Folder::new();
    folder.found("d", "");
    let well = Peer::status(200);
    let once = Peer::new(|number, mut stream, _| {
        if number > 0 {
            let _ = stream.write_all(empty(200).as_bytes());
        }
    });
    let mut rows: Vec<String> = (1..=5).map(|n| row(&format!("n{n}"), well.port)).collect();
    rows.push(row("n6", once.port));
    folder.roster("d", &rows);
    folder.good("d", &["tick"]);
    assert_eq!(of(&folder, "n6"), "suspect");
    if without_network(&folder, "d", &["status"]).is_none() {
        return;
    }
    let lines = folder.text("d/nodes.ndjson").lines().count();
    for _ in 0..10 {
        let ran = without_network(&folder, "d", &["tick"]).unwrap();
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""), "{}", ran.err);
    }
    assert_eq!(folder.text("d/nodes.ndjson").lines().count(), lines);
    assert_eq!(of(&folder, "n6"), "suspect");
    assert_eq!(folder.status("d")["n1"][4], "음");
    folder.good("d", &["tick"]);
    let ids: Vec<String> = (1..=6).map(|n| format!("n{n}")).collect();
    sees_again(&folder, &ids);
}

fn ten_blind_ticks(folder: &Folder, ids: &[String], tick: impl Fn() -> Ran) {
    for round in 0..10 {
        let ran = tick();
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        assert!(!ran.out.contains("dead") && !ran.out.contains("suspect"), "{}", ran.out);
        assert_eq!(liveness(folder), all("alive", ids), "tick {round}");
    }
    let status = folder.good("d", &["status"]);
    assert!(status.contains("local network problem"), "{status}");
    for (id, fields) in folder.status("d") {
        assert_eq!(fields[4], "음", "{id}");
        assert!(fields[8].starts_with("local network problem: "), "{}", fields[8]);
    }
    let list = folder.fed("d", &["failover"]);
    assert_eq!((list.code, list.out.lines().count()), (Some(0), 6));
    assert!(list.err.contains("old list: local network problem"), "{}", list.err);
    let json: Value = serde_json::from_str(&folder.good("d", &["failover", "--json"])).unwrap();
    assert!(json["old"].as_str().is_some_and(|why| why.contains("last healthy tick")), "{json}");
    let map = folder.text("d/federated-routes.txt");
    assert!(map.ends_with("# end 6\n") && !map.contains("|suspect|"), "{map}");
}

fn sees_again(folder: &Folder, ids: &[String]) {
    assert_eq!(liveness(folder), all("alive", ids));
    let list = folder.fed("d", &["failover"]);
    assert_eq!((list.code, list.err.as_str(), listed(folder).as_slice()), (Some(0), "", ids));
    assert_eq!(status(folder)["blind"], false);
    assert_eq!(folder.status("d")["n1"][4], "티");
}

/// Alive, and with nothing to hear from: the peer that a grace tick must not accuse.
fn one_gone_of_three(folder: &Folder) -> (Peer, Vacant) {
    folder.found("d", "");
    let (well, gone) = (Peer::status(200), Vacant::new());
    folder.roster("d", &[row("n1", gone.port), row("n2", well.port), row("n3", well.port)]);
    (well, gone)
}

#[test]
fn a_lost_or_damaged_tick_json_costs_a_grace_tick_and_restarts_suspicion() {
    for damage in ["lost", "{\"tick\":", "{\"tick\":1,\"unknown\":2}"] {
        let folder = Folder::new();
        let _peers = one_gone_of_three(&folder);
        for _ in 0..2 {
            folder.good("d", &["tick"]);
        }
        assert_eq!(of(&folder, "n1"), "suspect");
        match damage {
            "lost" => fs::remove_file(folder.join("d/tick.json")).unwrap(),
            text => folder.write("d/tick.json", text),
        }
        let grace = folder.fed("d", &["tick", "--explain"]);
        assert!(grace.out.contains("(grace: "), "{}", grace.out);
        assert!(grace.err.contains("tick.json") && grace.err.contains("anew"), "{}", grace.err);
        for waited in 1..=2 {
            assert_eq!(of(&folder, "n1"), "suspect", "{damage}: before counted tick {waited}");
            let tick = folder.fed("d", &["tick", "--explain"]);
            assert!(tick.out.contains("(counted)"), "never two grace ticks: {}", tick.out);
        }
        assert_eq!(of(&folder, "n1"), "dead", "{damage}");
    }
}

#[test]
fn the_first_tick_of_another_boot_accuses_nobody() {
    let folder = Folder::new();
    folder.found("d", "");
    let (well, gone) = (Peer::status(200), Vacant::new());
    folder.roster("d", &[row("n1", well.port), row("n2", well.port), row("n3", well.port)]);
    folder.good("d", &["tick"]);
    folder.roster("d", &[row("n1", gone.port), row("n2", well.port), row("n3", well.port)]);
    let mut memory: Value = serde_json::from_str(&folder.text("d/tick.json")).unwrap();
    memory["boot_id"] = "another-boot".into();
    folder.write("d/tick.json", memory.to_string());
    let grace = folder.good("d", &["tick", "--explain"]);
    assert!(grace.contains("(grace: "), "{grace}");
    assert_eq!(of(&folder, "n1"), "alive");
    let counted = folder.good("d", &["tick", "--explain"]);
    assert!(counted.contains("(counted)"), "{counted}");
    assert_eq!(of(&folder, "n1"), "suspect");
}

#[test]
fn a_dry_run_says_what_would_happen_and_changes_no_byte() {
    let folder = Folder::new();
    let (well, _gone) = one_gone_of_three(&folder);
    let before = folder.contents("d");
    let would = folder.good("d", &["tick", "--dry-run"]);
    let expected = ["n1 listed", "n2 listed", "n3 listed", "n1 alive -> suspect (probe-failed)"];
    assert_eq!(would.lines().collect::<Vec<_>>(), expected.map(|it| format!("would: {it}")));
    assert_eq!(folder.contents("d"), before);

    for _ in 0..2 {
        folder.good("d", &["tick"]);
    }
    folder.roster("d", &[row("n2", well.port)]);
    let before = folder.contents("d");
    let would = folder.good("d", &["tick", "--dry-run", "--explain"]);
    assert!(would.contains("would: n1 gone from the roster\n"), "{would}");
    assert_eq!(folder.contents("d"), before);

    // What would have to be mended stays as it is, too.
    fs::remove_file(folder.join("d/tick.json")).unwrap();
    fs::remove_dir_all(folder.join("d/index")).unwrap();
    let torn = folder.text("d/nodes.ndjson") + "{\"payload\":\"";
    folder.write("d/nodes.ndjson", torn);
    let before = folder.contents("d");
    assert_eq!(folder.fed("d", &["tick", "--dry-run"]).code, Some(0));
    assert_eq!(folder.contents("d"), before);
}

#[test]
fn explain_says_for_every_peer_what_was_seen_and_why_nothing_more_happened() {
    let folder = Folder::new();
    let _peers = one_gone_of_three(&folder);
    let mut told = Vec::new();
    for _ in 0..4 {
        told.push(folder.good("d", &["tick", "--explain"]));
    }
    let n1 = |text: &String| {
        let line = text.lines().find(|line| line.starts_with("  n1: ")).unwrap();
        line.rsplit(": ").next().unwrap().to_owned()
    };
    assert_eq!(
        told.iter().map(n1).collect::<Vec<_>>(),
        [
            "now suspect, by probe-failed",
            "suspect for 1 of 2 failed healthy ticks, missed by gw1",
            "now dead, by suspicion-expired",
            "stays dead"
        ]
    );
    for (number, text) in (1..).zip(&told) {
        assert!(text.contains(&format!("tick {number} (counted)")), "{text}");
        assert!(text.contains("  n2: answered 200 in "), "{text}");
    }
}

#[test]
fn a_tick_beside_a_running_one_leaves_at_once() {
    let folder = Folder::new();
    folder.found("d", "");
    let silent = Peer::silent();
    folder.roster("d", &[row("n1", silent.port)]);
    let mut first = folder.command("d", &["tick"]).stdout(Stdio::null()).spawn().unwrap();
    wait_for("the first tick to probe", || (!silent.heads().is_empty()).then_some(()));
    let second = folder.fed("d", &["tick"]);
    assert_eq!((second.code, second.out.as_str()), (Some(0), "tick in progress\n"));
    assert_eq!(first.wait().unwrap().code(), Some(0));
}

#[test]
fn a_death_is_seen_by_a_server_that_was_never_restarted() {
    let folder = Folder::new();
    let (_well, gone) = one_gone_of_three(&folder);
    let mut serving = Serving::start(&folder, "d", 0, &[]);
    let mut seen = Vec::new();
    for _ in 0..3 {
        folder.good("d", &["tick"]);
        let health = serving.get("/q/health").json();
        let map = serving.get("/routes").text();
        let lines = folder.text("d/nodes.ndjson").lines().count();
        assert_eq!(health["size"], lines, "only and all that is signed is shown");
        let row = map.lines().find(|row| row.starts_with("edge|n1|")).unwrap_or("none").to_owned();
        seen.push(row.split('|').nth(4).unwrap_or("none").to_owned());
    }
    assert_eq!(seen, ["suspect", "suspect", "none"]);
    assert!(
        serving.get("/q/peers").text().contains(&format!("n1|127.0.0.1|{}|edge|타|000", gone.port))
    );
    assert_eq!(serving.get("/verify").status, 200);
    assert!(serving.runs());
}
