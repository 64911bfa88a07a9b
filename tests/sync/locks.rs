//! Runs of one member at the same time: one works, the others wait or say so.

use crate::federation::Federation;
use crate::harness::{Ran, fed, get, wait_for};
use crate::stand_in::Says;
use std::fs::File;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn started(node: &crate::federation::Node, verb: &str) -> Child {
    let mut command = fed(&node.dir, &[verb]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[test]
fn beside_a_tick_another_tick_ends_and_a_sync_waits() {
    let fed = Federation::found();
    let mut node = fed.join("n1");
    node.fed(&["tick"]).expect(0);
    node.serve();
    fed.grow(5);
    // The tick waits for its page until we let it go.
    let held = Arc::new(AtomicBool::new(true));
    let holds = Arc::clone(&held);
    fed.front.answer(move |asked| {
        while asked.is("/sync") && holds.load(Ordering::SeqCst) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Says::Truth
    });
    let working = started(&node, "tick");
    wait_for("the tick to ask", || (fed.front.sizes().len() == 1).then_some(()));
    let second = node.fed(&["tick"]).quiet();
    assert_eq!(second.out, "tick in progress\n");
    // Readers need no lock.
    assert_eq!(get(node.port, "/head").status, 200);
    node.good(&["status"]);
    let waiting = started(&node, "sync");
    held.store(false, Ordering::SeqCst);
    Ran::ended(working).expect(0);
    Ran::ended(waiting).quiet();
    assert_eq!(fed.front.sizes().len(), 1, "the sync found nothing left to do");
    node.is_a_copy_of(&fed.anchor);
}

#[test]
fn many_runs_at_once_make_one_journal() {
    let fed = Federation::found();
    let node = fed.join("n1");
    node.fed(&["tick"]).expect(0);
    fed.grow(2_000);
    let verbs = ["sync", "tick", "sync", "tick", "sync", "tick"];
    let running: Vec<Child> = verbs.iter().map(|verb| started(&node, verb)).collect();
    for child in running {
        Ran::ended(child).expect(0);
    }
    node.fed(&["sync"]).quiet();
    node.is_a_copy_of(&fed.anchor);
    assert_eq!(node.lines().len() as u64, fed.anchor.size());
}

/// Whoever holds a lock for long is waited for, and then that is said.
#[test]
fn a_lock_that_is_held_for_long_ends_a_sync_with_75() {
    let fed = Federation::found();
    let node = fed.join("n1");
    fed.grow(1);
    let before = node.fetched();
    let copies = ["keys", "state"].map(|folder| (node.copy_as(&format!("held-{folder}")), folder));
    let locks = copies.each_ref().map(|(node, folder)| {
        let lock = File::open(node.file(folder)).unwrap();
        lock.lock().unwrap();
        lock
    });
    let running = copies.each_ref().map(|(node, _)| started(node, "sync"));
    for child in running {
        Ran::ended(child).expect(75);
    }
    drop(locks);
    for (node, _) in &copies {
        assert!(before == node.fetched());
        node.fed(&["sync"]).quiet();
    }
}
