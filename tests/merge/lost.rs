//! Answers that are lost and runs that are killed cost nothing but a second question.

use crate::away::{all_tick, count, fronted};
use crate::harness::{fed, wait_for};
use crate::stand_in::Says;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_lost_answer_is_found_in_the_journal() {
    let (federation, front, gw2) = fronted();
    front.answer(|_| Says::Bytes(Vec::new()));
    gw2.good(&["drain"]);
    front.answer(|asked| {
        if asked.is("/merge") {
            asked.truth();
            return Says::Bytes(Vec::new());
        }
        Says::Truth
    });
    assert!(gw2.tick().contains("holds now: 1"));
    assert!(!gw2.file("branch.ndjson").exists());
    front.honest();
    all_tick(&[&federation.anchor, &gw2]);
    assert_eq!((count(&gw2, "merge"), count(&gw2, "merged")), (1, 1));
}

#[test]
fn an_answer_lost_with_the_anchor_is_found_by_the_next_tick() {
    let (federation, front, gw2) = fronted();
    front.answer(|_| Says::Bytes(Vec::new()));
    gw2.good(&["drain"]);
    let gone = AtomicBool::new(false);
    front.answer(move |asked| {
        if asked.is("/merge") {
            asked.truth();
            gone.store(true, Ordering::SeqCst);
        }
        if gone.load(Ordering::SeqCst) { Says::Bytes(Vec::new()) } else { Says::Truth }
    });
    gw2.tick();
    assert!(gw2.file("branch.ndjson").exists());
    assert_eq!(count(&federation.anchor, "merged"), 1);
    front.honest();
    gw2.tick();
    assert!(!gw2.file("branch.ndjson").exists());
    assert_eq!(count(&gw2, "merge"), 1);
}

/// The word itself was taken and its answer lost: it is in the branch too, and counts once.
#[test]
fn a_word_that_was_taken_after_all_makes_no_second_line() {
    let (federation, front, gw2) = fronted();
    front.answer(|asked| {
        if asked.is("/drain") {
            asked.truth();
        }
        Says::Bytes(Vec::new())
    });
    assert!(gw2.good(&["drain"]).contains("kept as line 1"));
    assert_eq!(count(&federation.anchor, "drain"), 1);
    front.honest();
    gw2.tick();
    assert!(!gw2.file("branch.ndjson").exists());
    assert_eq!((count(&gw2, "merge"), count(&gw2, "merged")), (0, 0));
}

#[test]
fn killed_between_the_post_and_the_file_it_goes_on() {
    let (federation, front, gw2) = fronted();
    front.answer(|_| Says::Bytes(Vec::new()));
    gw2.good(&["drain"]);
    let kept = gw2.text("branch.ndjson");
    front.answer(|asked| {
        if asked.is("/merge") {
            asked.truth();
            return Says::Nothing;
        }
        Says::Truth
    });
    let mut command = fed(&gw2.dir, &["merge"]);
    let mut merging = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the merge line", || (count(&federation.anchor, "merged") == 1).then_some(()));
    merging.kill().unwrap();
    merging.wait().unwrap();
    assert_eq!(gw2.text("branch.ndjson"), kept);
    front.honest();
    gw2.tick();
    assert!(!gw2.file("branch.ndjson").exists());
    assert_eq!(count(&gw2, "merge"), 1);
    gw2.good(&["verify", "--full"]);
}
