//! A repair that is killed at any of its writes is finished by the next, and until then nothing is
//! signed that does not fit.

use crate::federation::{Federation, Node, append, binding};
use crate::harness::{FED, Ran, fed as fed_command, full};
use crate::scene::federation;
use std::process::Command;

/// Calls that change something for good; each is counted for itself.
const CHANGES: [&str; 4] = ["?rename,renameat,renameat2", "fdatasync", "?unlink,unlinkat", "fsync"];

fn strace_is_there() -> bool {
    let there = Command::new("strace").arg("-V").output().is_ok();
    if !there {
        assert!(std::env::var_os("CROWNY_FED_REQUIRE_TOOLS").is_none(), "strace is required here");
        println!("skipped: strace is not installed");
    }
    there
}

/// Runs a repair that is killed at its `nth` call of a kind; whether it came so far.
fn killed(node: &Node, args: &[&str], (calls, nth): (&str, u32)) -> bool {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={calls}")]);
    command.args(["-e", &format!("inject={calls}:signal=SIGKILL:when={nth}"), FED, "--dir"]);
    command.arg(&node.dir).args(args);
    let ran = Ran::of(command, "");
    assert!(ran.code != Some(5), "{ran:?}");
    ran.code != Some(0)
}

/// Kills `args` on copies of `node` at every `stride`-th change, in the long form at each, and looks
/// at what is left.
fn sweep(node: &Node, (args, stride): (&[&str], usize), look: &dyn Fn(&Node, bool)) {
    let kinds = if full() { &CHANGES[..] } else { &CHANGES[..3] };
    for calls in kinds {
        for nth in (1..).step_by(if full() { 1 } else { stride }) {
            let copy = node.copy_as(&format!("killed-{nth}"));
            let cut_off = killed(&copy, args, (calls, nth));
            look(&copy, cut_off);
            std::fs::remove_dir_all(&copy.dir).unwrap();
            if !cut_off {
                assert!(nth > 1, "no {calls} at all");
                break;
            }
        }
    }
}

/// An anchor restored from before the last twelve lines, which a bundle ends in.
fn restored() -> (Federation, Node, Vec<String>) {
    let mut fed = federation(240);
    let old = fed.anchor.copy_as("backup");
    fed.grow(12);
    fed.others.iter().for_each(|node| drop(node.fed(&["sync"]).quiet()));
    let lines = fed.anchor.lines();
    fed.anchor.stop();
    old.as_of_another_boot();
    old.fed(&["tick"]).expect(5).saying(&["rolled back"]);
    (fed, old, lines)
}

#[test]
fn an_adoption_killed_anywhere_is_finished_by_the_next() {
    if !strace_is_there() {
        return;
    }
    let (_fed, old, lines) = restored();
    sweep(&old, (&["doctor", "--adopt"], 1), &|node, cut_off| {
        // Whatever comes first: a tick goes on only with all that was signed.
        let ran = Ran::of(fed_command(&node.dir, &["tick"]), "");
        match ran.code {
            Some(0) => assert_eq!(node.lines(), lines, "{ran:?}"),
            Some(5) => assert!(cut_off, "{ran:?}"),
            _ => panic!("{ran:?}"),
        }
        let ran = node.fed(&["doctor", "--adopt"]);
        assert!(matches!(ran.code, Some(0 | 3)), "{ran:?}");
        assert_eq!(node.lines(), lines);
        node.heals();
        let kept = node.evidence();
        assert!(kept.keys().all(|name| name.contains("/settled-")), "{kept:?}");
        for whose in ["ours-", "theirs-"] {
            assert!(kept.keys().any(|name| name.contains(whose)), "{whose} is lost: {kept:?}");
        }
        assert!(!node.text("used-nonces.log").contains("since=0"), "nobody waits");
    });
}

/// Its own floor lost as well.
#[test]
fn a_new_base_killed_anywhere_is_finished_by_the_next() {
    if !strace_is_there() {
        return;
    }
    let fed = federation(20);
    let lines = fed.anchor.lines();
    let node = fed.anchor.copy_as("alone");
    for name in ["state", "federation-root.txt", "head.txt", "snapshot.json", "index", "tile"] {
        node.remove(name);
    }
    sweep(&node, (&["doctor", "--adopt"], 1), &|node, _| {
        let ran = node.fed(&["doctor", "--adopt"]);
        assert!(matches!(ran.code, Some(0 | 3)), "{ran:?}");
        node.heals();
        assert_eq!(node.lines(), lines);
        assert!(!node.text("used-nonces.log").contains("since=0"), "nobody waits");
    });
}

/// Our own lines given up for the other history, which the operator named.
#[test]
fn a_crossing_killed_anywhere_is_finished_by_the_next() {
    if !strace_is_there() {
        return;
    }
    let (fed, old, lines) = restored();
    old.remove("state/evidence");
    append(&old.dir, &mut |seq| binding(seq + 150).into(), 20);
    let (url, own) = (fed.others[0].url(), old.lines());
    sweep(&old, (&["doctor", "--adopt", &url], 7), &|node, cut_off| {
        let ran = Ran::of(fed_command(&node.dir, &["tick"]), "");
        match ran.code {
            Some(0) => assert_eq!(node.lines(), lines, "{ran:?}"),
            Some(5) => assert!(cut_off, "{ran:?}"),
            _ => panic!("{ran:?}"),
        }
        let ran = node.fed(&["doctor", "--adopt", &url]);
        assert!(matches!(ran.code, Some(0 | 3)), "{ran:?}");
        assert_eq!(node.lines(), lines);
        node.heals();
        let kept = node.evidence();
        let is_tail = |name: &str| name.contains("/tail-") && name.ends_with(".ndjson");
        let tails = kept.iter().filter(|(name, _)| is_tail(name));
        let whole = |tail: &[u8]| {
            let tail: Vec<&str> = std::str::from_utf8(tail).unwrap().lines().collect();
            tail.len() == 20
                && own.ends_with(&tail.iter().map(|line| line.to_string()).collect::<Vec<_>>())
        };
        let held: Vec<bool> = tails.map(|(_, tail)| whole(tail)).collect();
        assert!(held.contains(&true), "our own lines are lost: {:?}", kept.keys());
    });
}
