//! Reports of other people's crashes, each as it happened there: clocks that jump, machines that
//! sleep, files emptied by a power loss, a disk that fails twice, a request whose end nobody saw.

use super::harness::{Fed, Ran, STATUS, has, whole_lines};
use super::peers::{Refusing, StandIn, row};
use super::scene::{NOWHERE, Scene};
use super::trace::{Fault, append, run_with, tick_with};
use std::os::unix::fs::{MetadataExt, chown};
use std::process::Command;

/// A member whose first peer answers and whose second refuses.
fn watching(config: &str) -> (Fed, StandIn, Refusing) {
    let fed = Fed::founded();
    fed.write("crowny-fed.toml", config);
    let (up, down) = (StandIn::answering(), Refusing::new());
    fed.list(&[row("n2", up.port, "active"), down.row("n3", "active")]);
    (fed, up, down)
}

/// systemd 6036 and 16347: a clock set back or far ahead must neither stop nor hurry anything.
#[test]
fn a_clock_two_days_back_and_a_year_ahead_changes_no_verdict_and_no_order() {
    if !has("faketime") {
        return;
    }
    let (fed, _up, _down) = watching(super::harness::CONFIG);
    let told: Vec<String> = ["-2d", "+400d", "-2d", "+0", "+400d"]
        .iter()
        .map(|off| {
            let mut faked = Command::new("faketime");
            faked.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").args(["-f", off]);
            Ran::of(append(&mut faked, &fed.verb("tick"))).expect(0).out
        })
        .collect();
    assert!(told[0].contains("n3 alive -> suspect"), "{told:?}");
    assert!(told[2].contains("n3 suspect -> dead"), "{told:?}");
    assert!(told.iter().all(|out| !out.contains("n2 alive -> suspect")), "{told:?}");
    let journal = fed.journal();
    let stamp = |line: &&[u8]| -> u64 {
        serde_json::from_slice::<serde_json::Value>(line).unwrap()["ts"].as_u64().unwrap()
    };
    let stamps: Vec<u64> = whole_lines(&journal).iter().map(stamp).collect();
    assert!(stamps.is_sorted(), "{stamps:?}");
    fed.heals();
}

/// homebrew-autoupdate 28: what an interval lost in sleep leaves behind is a gap, not a death.
#[test]
fn the_first_tick_after_a_sleep_asks_everybody_and_accuses_nobody() {
    if !has("unshare") {
        return;
    }
    let (fed, _up, _down) = watching("interval = \"10s\"\nsuspicion_ticks = 2\n");
    fed.list(&[]);
    let asleep = |seconds: u64| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--time", "--boottime", &seconds.to_string()]);
        Ran::of(append(&mut unshare, &fed.verb("tick")))
    };
    if asleep(10).code != Some(0) {
        println!("skipped: no right to another boot clock");
        return;
    }
    for tick in 2..6 {
        asleep(tick * 10).expect(0);
    }
    let (up, down) = (StandIn::answering(), Refusing::new());
    fed.list(&[row("n2", up.port, "active"), down.row("n3", "active")]);
    let asked = up.asked();
    let told = asleep(3_700).expect(0).out;
    assert!(up.asked() > asked, "nobody was asked");
    assert!(!told.contains("suspect"), "{told}");
    let told = asleep(3_710).expect(0).out;
    assert!(told.contains("n3 alive -> suspect") && !told.contains("n2 alive"), "{told}");
    let told = [3_720, 3_730].map(|at| asleep(at).expect(0).out).concat();
    assert!(told.contains("n3 suspect -> dead"), "{told}");
}

/// tailscale 20515: an empty file where the good one stands beside it, half renamed.
#[test]
fn an_emptied_file_beside_its_good_temporary_one_is_made_anew() {
    let (fed, _up, _down) = watching(super::harness::CONFIG);
    fed.tick().expect(0);
    let names = [
        "snapshot.json",
        "head.txt",
        "federation-root.txt",
        "federated-routes.txt",
        "freshness.json",
        "tick.json",
        "index/offsets",
        STATUS,
    ];
    for name in names {
        let fed = fed.copy();
        let (whole, journal) = (fed.read(name), fed.journal());
        fed.write(name, "");
        let short = name.rsplit('/').next().unwrap();
        fed.write(&format!("state/tmp/{short}"), whole);
        fed.heals();
        assert!(!fed.read(name).is_empty(), "{name} stayed empty");
        assert!(fed.journal().starts_with(&journal), "{name}");
    }
}

/// cloudflare/azul 84: a tile could not be written, then the state could not be read, and the log
/// grew past what was there.
#[test]
fn a_tile_that_is_not_written_and_a_disk_that_is_not_read_stop_the_log() {
    if !has("strace") {
        return;
    }
    let (fed, _up, _down) = watching(super::harness::CONFIG);
    let size = fed.signed_size();
    // The first fsync of a tick that appends is that of a tile.
    tick_with(&fed, &Fault::at("error=EIO", "fsync", 1)).expect(1);
    assert_eq!(fed.signed_size(), size);
    for nth in [40, 50, 60, 70, 80] {
        let before = fed.image();
        let failed = run_with(&fed, &fed.verb("tick"), &Fault::at("error=EIO", "read", nth));
        if failed.reached && failed.ran.code != Some(0) {
            assert!(fed.signed_size() <= whole_lines(&fed.journal()).len() as u64, "{failed:#?}");
            // Whatever is signed can be proven.
            Ran::of(&mut fed.verb("verify")).expect(0);
            let journal = &before[std::path::Path::new("nodes.ndjson")];
            assert!(fed.journal().starts_with(journal), "{failed:#?}");
        }
    }
    fed.heals();
    assert!(fed.signed_size() > size);
}

/// inadyn 51, ddclient 544: said to be done before it was, and "nothing to do" taken for failure.
#[test]
fn a_repeated_join_is_a_success_and_brings_no_old_key_back() {
    for alg in ["ed25519", "hmac-sha256"] {
        let scene = Scene::joined(alg);
        let join = || Ran::reading(&mut scene.join(), scene.input().as_bytes());
        let enrolled = || {
            let journal = String::from_utf8(scene.journal_of().journal()).unwrap();
            journal.matches("\"type\":\"enroll\"").count()
        };
        let before = enrolled();
        join().expect(0);
        assert_eq!(enrolled(), before, "an invitation was burned twice");
        Ran::of(&mut scene.fed.verb("rotate-key")).expect(0);
        let key = scene.fed.read("keys/node.key");
        join().expect(0);
        assert_eq!((enrolled(), scene.fed.read("keys/node.key")), (before, key));
        assert!(!scene.fed.path("keys/shared.key").exists(), "a retired key came back");
        // Another invitation is another matter: the key that speaks already is not let in by it.
        let lost = Ran::of(scene.fed.verb("revoke").arg("n2"));
        assert_ne!(lost.code, Some(0), "a member is no anchor");
        scene.fed.heals();
    }
}

/// borg 4263: one run as root left files behind that the owner could not write any more.
#[test]
fn a_tick_as_root_leaves_the_owner_everything() {
    let fed = Fed::founded();
    let user = 54_321;
    if chown(&fed.dir, Some(user), Some(user)).is_err() {
        println!("skipped: no right to give a folder to somebody else");
        return;
    }
    if !has("chown") {
        return;
    }
    Ran::of(Command::new("chown").arg("-R").arg(format!("{user}:{user}")).arg(&fed.dir)).expect(0);
    let peer = StandIn::answering();
    fed.list(&[row("n2", peer.port, "active")]);
    chown(fed.path(super::harness::ROSTER), Some(user), Some(user)).unwrap();
    // Started as root, it works as the owner.
    let lines = fed.signed_size();
    fed.tick().expect(0);
    assert!(fed.signed_size() > lines);
    for name in fed.image().into_keys() {
        let owner = std::fs::metadata(fed.dir.join(&name)).unwrap().uid();
        assert_eq!(owner, user, "{} belongs to somebody else", name.display());
    }
    fed.heals();
    // Another user than the owner is told whose it is.
    if !has("setpriv") {
        return;
    }
    let mut other = Command::new("setpriv");
    other.args(["--reuid", "54322", "--regid", "54322", "--clear-groups"]);
    let ran = Ran::of(append(&mut other, &fed.verb("tick")));
    assert!(matches!(ran.code, Some(1 | 78)), "{ran:#?}");
    assert!(ran.err.contains(&fed.dir.display().to_string()), "{ran:#?}");
}

/// tessera 972 to 1020: paths relative to a folder that changes, and litter of half-written files.
#[test]
fn a_relative_folder_is_the_same_folder_from_anywhere() {
    let (fed, _up, _down) = watching(super::harness::CONFIG);
    let from = |folder: &str, dir: &str| {
        let mut tick = Command::new(super::harness::binary());
        tick.args(["tick", "--dir", dir]).current_dir(fed.temp.path().join(folder));
        Ran::of(&mut tick).expect(0)
    };
    std::fs::create_dir_all(fed.temp.path().join("a/b")).unwrap();
    from("", "D");
    from("a/b", "../../D");
    from("D", ".");
    fed.verify().expect(0);
    fed.assert_tidy();
    let beside = super::harness::names(fed.temp.path());
    assert_eq!(beside, ["D", "a"], "written elsewhere");
    assert_eq!(super::harness::names(&fed.temp.path().join("a/b")), [""; 0]);
}

/// A retired key file that a power cut brought back would speak for a member that has another.
#[test]
fn what_is_put_away_is_put_away_for_good() {
    if !has("strace") {
        return;
    }
    let scene = Scene::joined("hmac-sha256");
    let rotate = scene.fed.verb("rotate-key");
    let which = "?unlink,unlinkat,fsync";
    let (ran, calls) = super::trace::record(&scene.fed, &rotate, which);
    ran.expect(0);
    for key in ["shared.key", "node-next.key"] {
        let gone = calls.iter().position(|call| {
            call.name.starts_with("unlink") && call.rest.contains(&format!("/keys/{key}\""))
        });
        let gone = gone.unwrap_or_else(|| panic!("{key} stays: {calls:#?}"));
        let synced =
            calls[gone..].iter().any(|call| call.name == "fsync" && call.rest.contains("/D/keys>"));
        assert!(synced, "{key} may come back: {calls:#?}");
    }
    Ran::of(scene.fed.verb("register").args(["--url", NOWHERE])).expect(0);
}
