//! A journal of several pages: a run that is killed between two goes on at its last whole line, and
//! what waits for its checkpoint is shown to nobody.

use crate::federation::{Federation, Node, binding};
use crate::harness::{Ran, get, image, wait_for};
use crate::stand_in::Says;
use crowny_fed::journal::chain::Tip;
use crowny_fed::store::draft::Draft;
use std::fs::OpenOptions;
use std::io::Write;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};

/// More than three pages of 1 MiB.
const LINES: u64 = 18_000;
const JOURNAL_BYTES_MIN: usize = 3 << 20;

/// From the next question on, `pages` are given and the one after never comes.
fn stop_after(fed: &Federation, pages: usize) {
    let given = AtomicUsize::new(0);
    fed.front.answer(move |asked| {
        if asked.is("/sync") && given.fetch_add(1, Ordering::SeqCst) >= pages {
            return Says::Nothing;
        }
        Says::Truth
    });
}

/// `join` is killed while it waits for its third page.
fn killed_in_its_join() -> (Federation, Node) {
    let fed = Federation::found();
    fed.grow(LINES);
    assert!(fed.anchor.bytes("nodes.ndjson").len() > JOURNAL_BYTES_MIN);
    let node = Node::in_folder(&fed.folder, "n1");
    let (mut command, invitation) = fed.joining(&node, &node.url());
    stop_after(&fed, 2);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(invitation.as_bytes()).unwrap();
    wait_for("the third page to be asked for", || (fed.front.sizes().len() == 3).then_some(()));
    child.kill().unwrap();
    assert_eq!(Ran::ended(child).code, None);
    (fed, node)
}

#[test]
fn a_first_sync_that_is_killed_goes_on_where_it_was() {
    let (fed, mut node) = killed_in_its_join();
    let held = node.lines().len() as u64;
    assert!(node.bytes("nodes.ndjson").len() > (2 << 20) - 40_000, "{held} lines");
    assert_eq!(fed.front.sizes()[2], held);
    shows_nothing(&mut node);

    let begun = node.copy_as("begun");
    fed.front.honest();
    let out = node.fed(&["sync"]).quiet().out;
    assert_eq!(fed.front.sizes()[0], held, "it began anew");
    assert!(out.contains(&format!("{} now", fed.anchor.size())), "{out}");
    node.is_a_copy_of(&fed.anchor);
    assert_eq!(get(node.port, "/head").json()["size"], fed.anchor.size());

    // A tick goes on as well.
    fed.front.honest();
    begun.fed(&["tick"]).expect(0);
    assert_eq!(fed.front.sizes()[0], held, "it began anew");
    begun.is_a_copy_of(&fed.anchor);
}

/// Lines without their checkpoint are seen by no reader.
fn shows_nothing(node: &mut Node) {
    node.serve();
    let paths = ["/head", "/nodes", "/root", "/checkpoint", "/proof?seq=0", "/tile/0/000", "/sync"];
    let since = "0".repeat(64);
    for path in paths.into_iter().map(str::to_owned).chain([format!("/sync?size=0&since={since}")])
    {
        let answer = get(node.port, &path);
        assert!(answer.status >= 400, "{path}: {}", answer.text());
        assert!(!answer.text().contains("prev"), "{path}");
    }
    assert_eq!(get(node.port, "/q/health").json()["size"], serde_json::Value::Null);
    for verb in [&["log"][..], &["proof", "0"], &["routes"], &["root"]] {
        let ran = node.fed(verb);
        assert_ne!(ran.code, Some(0), "{verb:?}: {ran:?}");
        assert_eq!(ran.out, "");
    }
    let status = node.fed(&["status", "--json"]).expect(0).out;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["size"], serde_json::Value::Null, "{status}");
}

/// What only somebody's disk says is of no log: it is set aside, and the next sync starts anew.
#[test]
fn unfinished_lines_of_no_log_are_set_aside() {
    let (fed, node) = killed_in_its_join();
    fed.front.honest();
    // A line that was cut: the whole ones before it count.
    let torn = node.copy_as("torn");
    let held = torn.lines().len() as u64;
    append(&torn, b"{\"payload\":\"");
    torn.fed(&["sync"]).expect(0).saying(&["torn line", "set aside"]);
    assert_eq!(fed.front.sizes()[0], held);
    torn.is_a_copy_of(&fed.anchor);
    assert_eq!(set_aside(&torn), [b"{\"payload\":\""]);

    // Lines that chain, and that nobody signed.
    let mut tip = Tip::origin(crate::federation::ORIGIN);
    node.lines().iter().for_each(|line| drop(tip.accept(line.as_bytes()).unwrap()));
    for nth in 0..3 {
        let line = Draft::from(binding(nth)).line(&tip, 0).render();
        tip.accept(line.as_bytes()).unwrap();
        append(&node, format!("{line}\n").as_bytes());
    }
    let unfinished = node.bytes("nodes.ndjson");
    fed.front.honest();
    let ran = node.fed(&["sync"]).expect(1);
    ran.saying(&[&fed.front.url(), "unfinished lines after 0", "set aside"]);
    assert_eq!(fed.front.sizes(), [held + 3]);
    assert_eq!(set_aside(&node), [unfinished]);
    node.fed(&["sync"]).quiet();
    node.is_a_copy_of(&fed.anchor);
}

/// The same above a checkpoint: what was signed stays where it is.
#[test]
fn lines_beyond_the_checkpoint_that_nobody_signed_are_set_aside() {
    let fed = Federation::found();
    let node = fed.join("n1");
    node.fed(&["tick"]).expect(0);
    let (signed, map) = (node.fetched(), node.map());
    let mut tip = Tip::origin(crate::federation::ORIGIN);
    node.lines().iter().for_each(|line| drop(tip.accept(line.as_bytes()).unwrap()));
    let line = Draft::from(binding(7)).line(&tip, 0).render() + "\n";
    append(&node, line.as_bytes());
    assert!(!node.good(&["log", "--raw"]).contains(line.trim_end()));
    let ran = node.fed(&["tick"]).expect(0);
    ran.saying(&[&fed.front.url(), "they are set aside"]);
    assert_eq!(set_aside(&node), [line.as_bytes()]);
    let mut left = node.fetched();
    left.retain(|name, _| !name.starts_with("nodes.torn-"));
    assert!(left == signed, "more than the line went");
    assert_eq!(node.map(), map);
    fed.grow(2);
    node.fed(&["tick"]).expect(0);
    node.is_a_copy_of(&fed.anchor);
}

/// A tick ends by itself whoever keeps it waiting, keeps what is proven and goes on next time.
#[test]
fn a_tick_ends_in_time_and_the_next_one_goes_on() {
    let fed = Federation::found();
    let node = fed.join("n1");
    node.fed(&["tick"]).expect(0);
    let before = node.size();
    fed.grow(LINES);
    stop_after(&fed, 1);
    let map = node.map();
    node.fed(&["tick"]).expect(0).saying(&[&fed.front.url()]);
    let held = node.lines().len() as u64;
    assert!(held > before, "the proven page is kept");
    assert_eq!((node.size(), node.map()), (before, map), "and not shown");
    assert_eq!(node.fed(&["verify", "--full"]).expect(0).err, "");
    fed.front.honest();
    node.fed(&["tick"]).expect(0);
    assert_eq!(fed.front.sizes()[0], held);
    node.is_a_copy_of(&fed.anchor);
}

fn append(node: &Node, bytes: &[u8]) {
    let mut journal = OpenOptions::new().append(true).open(node.file("nodes.ndjson")).unwrap();
    journal.write_all(bytes).unwrap();
}

fn set_aside(node: &Node) -> Vec<Vec<u8>> {
    image(&node.dir, &["nodes.torn-"]).into_values().collect()
}
