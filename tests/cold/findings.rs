//! What `doctor` finds: each with where, why and what to do, and nothing written.

use crate::federation::{Federation, append, binding};
use crate::harness::{FED, Ran};
use crate::scene::federation;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

#[test]
fn settings_owners_and_modes_are_all_told_at_once() {
    let fed = Federation::found();
    let node = &fed.anchor;
    node.doctor(0, &["all well"]);
    let config = node.text("crowny-fed.toml");
    fs::write(node.file("crowny-fed.toml"), format!("{config}intervall = \"1s\"\n")).unwrap();
    fs::set_permissions(node.file("keys/log.key"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(node.file("nodes.ndjson"), fs::Permissions::from_mode(0o666)).unwrap();
    let words = ["intervall", "log.key", "chmod go-rwx", "nodes.ndjson", "chmod go-w"];
    let ran = node.doctor(78, &words);
    assert!(ran.out.lines().filter(|line| line.starts_with("config: ")).count() == 3, "{ran:?}");
}

#[test]
fn keys_that_are_missing_or_others_are_named() {
    let fed = federation(3);
    for (node, key) in [(&fed.anchor, "log"), (&fed.anchor, "node"), (&fed.others[0], "node")] {
        let file = format!("keys/{key}.key");
        let whole = node.text(&file);
        node.remove(&file);
        node.doctor(78, &[&format!("{key}.key is missing"), "backup"]);
        let other = whole.chars().rev().collect::<String>();
        fs::write(node.file(&file), "0".repeat(64) + "\n").unwrap();
        fs::set_permissions(node.file(&file), fs::Permissions::from_mode(0o600)).unwrap();
        node.doctor(78, &[&format!("{key}.key")]);
        drop(other);
        fs::write(node.file(&file), whole).unwrap();
        node.doctor(0, &["all well"]);
    }
    fed.anchor.remove("self.json");
    fed.anchor.doctor(78, &["no federation in", "self.json"]);
}

#[test]
fn a_damaged_or_short_journal_is_named_by_line_and_offset() {
    let fed = federation(30);
    for node in [&fed.anchor, &fed.others[0]] {
        let whole = node.text("nodes.ndjson");
        let at = whole.find("name-17").unwrap();
        let line = whole[..at].matches('\n').count();
        let offset = whole[..at].rfind('\n').unwrap() + 1;
        fs::write(node.file("nodes.ndjson"), whole.replacen("name-17", "name-18", 1)).unwrap();
        node.doctor(5, &[&format!("line {line} at byte offset {offset}"), "next: "]);
        let half = whole[..offset].to_owned();
        fs::write(node.file("nodes.ndjson"), &half).unwrap();
        node.doctor(5, &["signed lines are missing", "next: "]);
        fs::write(node.file("nodes.ndjson"), format!("{whole}torn")).unwrap();
        node.doctor(3, &["0 whole lines and 4 torn bytes", "next: crowny-fed tick"]);
        fs::write(node.file("nodes.ndjson"), &whole).unwrap();
    }
    // What is told to a member is the cure.
    let node = &fed.others[0];
    let whole = node.lines();
    fs::write(node.file("nodes.ndjson"), node.text("nodes.ndjson").replace("name-9", "name-8"))
        .unwrap();
    let ran = node.doctor(5, &["nodes.ndjson"]);
    let told = ran.out.lines().find(|line| line.starts_with("integrity")).unwrap();
    let cure = told.split_once("; next: ").unwrap().1;
    let (moves, sync) = cure.split_once("; then: crowny-fed ").unwrap();
    assert!(Command::new("sh").args(["-c", moves]).status().unwrap().success(), "{moves}");
    Ran::of(with_words(sync), "").expect(0);
    assert_eq!(node.lines(), whole);
    node.heals();
}

fn with_words(words: &str) -> Command {
    let mut command = Command::new(FED);
    command.args(words.split(' '));
    command
}

#[test]
fn a_wrong_tile_or_index_is_named_and_its_cure_works() {
    let fed = federation(300);
    let node = &fed.anchor;
    for name in ["tile/0/000", "tile/entries/000", "index/offsets"] {
        let mut bytes = node.bytes(name);
        bytes[9] ^= 1;
        fs::write(node.file(name), bytes).unwrap();
        let ran = node.doctor(5, &[name.split('/').next().unwrap(), "it is derived"]);
        let told = ran.out.lines().find(|line| line.starts_with("integrity")).unwrap();
        let cure = told.split_once("; next: ").unwrap().1;
        let (moves, tick) = cure.split_once("; then: crowny-fed ").unwrap();
        assert!(Command::new("sh").args(["-c", moves]).status().unwrap().success(), "{moves}");
        Ran::of(with_words(tick), "").expect(0);
        node.remove("aside");
        node.heals();
        node.doctor(0, &["all well"]);
    }
}

#[test]
fn a_clock_behind_the_journal_is_told_and_accepted() {
    let fed = federation(3);
    let anchor = &fed.anchor;
    // The journal is of a clock that ran a year ahead.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    ahead(&anchor.dir, now + 365 * 86_400);
    anchor.heals();
    fed.others[0].fed(&["drain"]).kept(&["503", "clock", "doctor --accept-clock"]);
    let status = anchor.good(&["status"]);
    assert!(status.contains("--accept-clock"), "{status}");
    anchor.doctor(3, &["s behind line", "next: set the clock", "doctor --accept-clock --dir"]);
    let told = anchor.good(&["doctor", "--accept-clock"]);
    assert!(told.contains("accepted") && told.contains("601 s"), "{told}");
    anchor.doctor(3, &["note: ", "was accepted", "signed writes wait"]);
    fed.others[0].fed(&["drain"]).kept(&["503"]);
    // The wait is counted from the word, which the file of nonces has to agree with.
    let (clock, used) = (anchor.text("state/clock.json"), anchor.text("used-nonces.log"));
    let mut word: Value = serde_json::from_str(&clock).unwrap();
    let at = word["at"].as_u64().unwrap();
    word["at"] = json!(at - 700);
    fs::write(anchor.file("state/clock.json"), word.to_string()).unwrap();
    fs::write(
        anchor.file("used-nonces.log"),
        used.replace(&format!("since={at}"), &format!("since={}", at - 700)),
    )
    .unwrap();
    fed.others[0].fed(&["drain"]).expect(0);
    fed.others[0].fed(&["drain", "--off"]).expect(0);
    anchor.heals();
    for node in &fed.others {
        node.fed(&["sync"]).quiet();
        node.is_a_copy_of(anchor);
    }
    anchor.doctor(0, &["note: ", "all well"]);
}

/// Appends a line as an anchor with that clock would.
fn ahead(dir: &std::path::Path, now_s: u64) {
    use crowny_fed::host::dial::{Dialer, Options};
    use crowny_fed::host::real::RealHost;
    use crowny_fed::layout::Layout;
    use crowny_fed::store::disk::Disk;
    use crowny_fed::store::identity::Identity;
    use crowny_fed::store::ledger::{Ledger, Mend};
    use crowny_fed::store::log_keys;
    let host = RealHost::new(Dialer::new(Options::default()));
    let layout = Layout::new(dir);
    let disk = Disk { host: &host, layout: &layout };
    let identity = Identity::require(&disk).unwrap();
    let mut ledger = Ledger::open(disk, &identity, Mend::Yes).unwrap();
    ledger.append(vec![binding(1).into()], now_s).unwrap();
    ledger.publish(&log_keys::signing(&disk, &identity, ledger.fold(), now_s).unwrap()).unwrap();
}

#[test]
fn ticks_nonces_and_an_anchor_that_is_away_are_told() {
    let mut fed = federation(3);
    let anchor = &fed.anchor;
    anchor.remove("used-nonces.log");
    anchor.doctor(3, &["signed writes wait 601 s"]);
    fs::write(anchor.file("used-nonces.log"), "nonsense").unwrap();
    fs::set_permissions(anchor.file("used-nonces.log"), fs::Permissions::from_mode(0o600)).unwrap();
    anchor.doctor(3, &["used-nonces.log does not read"]);
    anchor.remove("used-nonces.log");
    anchor.remove("tick.json");
    anchor.doctor(3, &["tick.json is missing", "next: crowny-fed tick"]);
    anchor.good(&["tick"]);
    let config = anchor.text("crowny-fed.toml").replace("\"0\"", "\"10s\"");
    fs::write(anchor.file("crowny-fed.toml"), config).unwrap();
    let mut memory: Value = serde_json::from_str(&anchor.text("tick.json")).unwrap();
    memory["boot_id"] = json!("of-another-boot");
    memory["wall_ms"] = json!(memory["wall_ms"].as_u64().unwrap() - 3_600_000);
    fs::write(anchor.file("tick.json"), memory.to_string()).unwrap();
    anchor.doctor(3, &["the last tick is 36", "interval is 10 s", "list-timers"]);
    fed.anchor.stop();
    let node = &fed.others[0];
    node.fed(&["tick"]).expect(0);
    node.fed(&["tick"]).expect(0);
    node.doctor(3, &["no anchor answered for 2 ticks"]);
    fs::write(node.file("nodes.torn-1796068345123"), "some bytes").unwrap();
    node.doctor(3, &["nodes.torn-1796068345123 has 10 bytes", "mv "]);
    append(&fed.anchor.dir, &mut |seq| binding(seq).into(), 1);
}

/// (Platform row 20.) macOS keeps the local network from a program with this one error.
#[test]
fn when_everybody_is_unreachable_and_loopback_works_the_network_is_named() {
    let fed = Federation::found();
    let rows: String = (1..4).map(|nth| format!("p{nth}|192.0.2.{nth}|80|edge|active\n")).collect();
    fs::write(fed.anchor.file("피어목록.psv"), rows).unwrap();
    let script = "ip link set lo up && ip route add unreachable 192.0.2.0/24 && exec \"$0\" doctor --dir \"$1\"";
    let mut command = Command::new("unshare");
    command.args(["-rn", "sh", "-c", script, FED]).arg(&fed.anchor.dir);
    let probe = Command::new("unshare")
        .args(["-rn", "sh", "-c", "ip link set lo up && ip route add unreachable 192.0.2.0/24"])
        .output();
    if !probe.is_ok_and(|ran| ran.status.success()) {
        let required = std::env::var_os("CROWNY_FED_REQUIRE_TOOLS").is_some();
        assert!(!required, "unshare and ip are required here");
        println!("skipped: unshare -rn with ip is not permitted here");
        return;
    }
    let ran = Ran::of(command, "").expect(3);
    assert!(ran.out.contains("none of 3 peers") && ran.out.contains("macOS"), "{ran:?}");
}
