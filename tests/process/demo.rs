//! `demo`: it tells what is true, and leaves nothing behind on any way out.

use crate::harness::{FED, Folder, PATIENCE, Ran};
use rustix::process::{Pid, test_kill_process};
use std::fs;
use std::net::TcpListener;
use std::process::Command;
use std::time::Instant;

fn demo(folder: &Folder, args: &[&str]) -> Command {
    let mut command = Command::new(FED);
    command.arg("demo").args(args).current_dir(folder.path()).env("TMPDIR", folder.path());
    command
}

/// Process ids and ports that the story names.
fn cast(story: &str) -> Vec<(i32, u16)> {
    let told = story.lines().filter_map(|line| line.trim().split_once(" is process "));
    let parse = |(_, rest): (&str, &str)| {
        let (pid, address) = rest.split_once(" and answers at http://127.0.0.1:").unwrap();
        let port = address.split('/').next().unwrap();
        (pid.parse().unwrap(), port.parse().unwrap())
    };
    told.map(parse).collect()
}

fn left_nothing(folder: &Folder, story: &str) {
    let cast = cast(story);
    assert_eq!(cast.len(), 3, "{story}");
    for (pid, port) in cast {
        let pid = Pid::from_raw(pid).unwrap();
        assert!(test_kill_process(pid).is_err(), "{pid:?} is still there");
        assert!(TcpListener::bind(("127.0.0.1", port)).is_ok(), "port {port} is still taken");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "a folder is left");
}

#[test]
fn it_verifies_everything_it_tells_and_leaves_nothing_behind() {
    let folder = Folder::new();
    let began = Instant::now();
    let ran = Ran::of(demo(&folder, &[]));
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", ran.out);
    assert!(began.elapsed() < PATIENCE);
    assert!(ran.out.lines().last().unwrap().starts_with("verified: "), "{}", ran.out);
    for words in [
        "alive -> suspect",
        "suspect -> dead",
        "edge goes to gw1 gw3",
        "dead -> alive",
        "|타|000|",
        "the proof does not hold",
    ] {
        assert!(ran.out.contains(words), "{words}: {}", ran.out);
    }
    left_nothing(&folder, &ran.out);
}

/// A file size limit of 2 KiB breaks the journal in the middle of the story.
#[test]
fn a_claim_that_fails_ends_it_with_1_and_leaves_nothing_behind() {
    let folder = Folder::new();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 4 && exec \"$0\" demo", FED]);
    command.current_dir(folder.path()).env("TMPDIR", folder.path());
    let ran = Ran::of(command);
    assert_eq!(ran.code, Some(1), "{}", ran.out);
    assert!(ran.err.contains("the demo claims that"), "{}", ran.err);
    assert!(!ran.out.contains("verified:"), "{}", ran.out);
    left_nothing(&folder, &ran.out);
}

#[test]
fn keep_leaves_the_folder_and_says_where() {
    let folder = Folder::new();
    let ran = Ran::of(demo(&folder, &["--keep", "--quiet"]));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(ran.out.lines().count(), 1, "{}", ran.out);
    let kept = ran.err.trim().strip_prefix("crowny-fed: kept: ").unwrap();
    let dir = format!("{kept}/gw1");
    let verified = Command::new(FED).args(["verify", "--full", "--dir", &dir]).output().unwrap();
    assert!(verified.status.success());
}
