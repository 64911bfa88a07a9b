//! What a good witness is asked, when, and what becomes of its answer.

use crate::anchor::Anchor;
use crate::rules::Said;
use crate::server::Mood;
use std::fs;

#[test]
fn the_root_file_carries_the_cosignature_and_an_idle_tick_leaves_it() {
    let anchor = Anchor::found();
    let witness = anchor.witness();
    anchor.settings(&witness.config(""));
    let size = anchor.signed();
    anchor.tick().quietly();
    assert_eq!(witness.asked(), [(0, size, 200)]);
    assert!(anchor.cosigned_at(&witness).is_some());
    let state = anchor.text("state/witnesses.json");
    let line = anchor.text("federation-root.txt").lines().last().unwrap().to_owned();
    let vkey = witness.rules(|rules| rules.vkey());
    assert_eq!(state, format!("{{\"{vkey}\":{{\"size\":{size},\"line\":\"{line}\"}}}}\n"));
    let written = |name| fs::metadata(anchor.path(name)).unwrap().modified().unwrap();
    let before = ["federation-root.txt", "state/witnesses.json", "head.txt"].map(written);
    anchor.tick().quietly();
    assert_eq!(witness.asked(), [], "a cosignature of some minutes is good enough");
    assert_eq!(["federation-root.txt", "state/witnesses.json", "head.txt"].map(written), before);
    let status = anchor.fed(&["status"]);
    assert!(
        status.out.contains(&format!("witness test.example/w1 cosigned {size} lines ")),
        "{}",
        status.out
    );
    anchor.verifies();
}

#[test]
fn growth_is_proved_from_where_the_witness_stands() {
    let anchor = Anchor::found();
    let witness = anchor.witness();
    anchor.settings(&witness.config(""));
    anchor.tick().quietly();
    let first = anchor.signed();
    witness.asked();
    for (number, service) in (1..).zip(["a", "b", "c", "d", "e"]) {
        anchor.grow(service).quietly();
        assert_eq!(witness.asked(), [], "a request leaves witnesses that nobody waits for alone");
        assert_eq!(anchor.shown().0.size, first + number, "and readers see its line at once");
        assert_eq!(anchor.cosigned_at(&witness), None, "no cosignature is carried to another text");
        anchor.tick().quietly();
        assert_eq!(witness.asked(), [(first + number - 1, first + number, 200)]);
        assert!(anchor.cosigned_at(&witness).is_some());
    }
    anchor.verifies();
}

#[test]
fn a_request_that_changes_nothing_keeps_the_cosignature() {
    let anchor = Anchor::found();
    let witness = anchor.witness();
    anchor.settings(&witness.config(""));
    anchor.grow("a").quietly();
    anchor.tick().quietly();
    let root = anchor.text("federation-root.txt");
    assert!(anchor.cosigned_at(&witness).is_some());
    anchor.grow("a").quietly();
    assert_eq!(anchor.text("federation-root.txt"), root);
}

#[test]
fn an_old_cosignature_is_renewed_in_its_place() {
    let anchor = Anchor::found();
    let witness = anchor.witness();
    anchor.settings(&witness.config(""));
    witness.becomes(Mood::Slow(3_600));
    anchor.tick().quietly();
    let (size, first) = (anchor.signed(), anchor.cosigned_at(&witness).unwrap());
    witness.becomes(Mood::Honest);
    anchor.tick().quietly();
    assert_eq!(witness.asked(), [(0, size, 200), (size, size, 200)]);
    assert!(anchor.cosigned_at(&witness).unwrap() >= first + 3_600);
    assert_eq!(anchor.shown().1.signatures.len(), 2, "one line of each");
}

#[test]
fn what_was_forgotten_here_or_there_costs_one_question_more() {
    let anchor = Anchor::found();
    let witness = anchor.witness();
    anchor.settings(&witness.config(""));
    anchor.tick().quietly();
    let size = anchor.signed();
    witness.asked();

    fs::remove_file(anchor.path("state/witnesses.json")).unwrap();
    anchor.grow("a").quietly();
    anchor.tick().quietly();
    assert_eq!(witness.asked(), [(0, size + 1, 409), (size, size + 1, 200)]);

    fs::write(anchor.path("state/witnesses.json"), "{ not json").unwrap();
    anchor.grow("b").quietly();
    anchor.tick().quietly();
    assert_eq!(witness.asked(), [(0, size + 2, 409), (size + 1, size + 2, 200)]);

    witness.rules(|rules| rules.latest = None);
    anchor.grow("c").quietly();
    anchor.tick().quietly();
    assert_eq!(witness.asked(), [(size + 2, size + 3, 409), (0, size + 3, 200)]);
    assert!(anchor.cosigned_at(&witness).is_some());
}

/// It is asked twice and no more, however often it says that it stands elsewhere.
#[test]
fn there_is_no_loop_to_be_led_into() {
    let anchor = Anchor::found();
    let witness = anchor.witness();
    anchor.settings(&witness.config(""));
    let mut next = [1, 2, 1, 2].into_iter().cycle();
    let size =
        |size| Said { content_type: "text/x.tlog.size", ..Said::new(409, format!("{size}\n")) };
    witness.becomes(Mood::Lying(Box::new(move |_| size(next.next().unwrap()))));
    let ran = anchor.tick();
    ran.ends(0, &["witness test.example/w1: asked from where it said it stands"]);
    assert_eq!(witness.asked().len(), 2);
    anchor.verifies();
}

#[test]
fn two_witnesses_are_two_lines_and_one_that_is_gone_leaves_with_the_next_line() {
    let anchor = Anchor::found();
    let (one, two) = (anchor.witness(), crate::server::Witness::start("w2", 12, anchor.vkey()));
    anchor.settings(&(one.config("") + &two.config("")));
    anchor.tick().quietly();
    assert!(anchor.cosigned_at(&one).is_some() && anchor.cosigned_at(&two).is_some());
    anchor.settings(&two.config(""));
    anchor.grow("a").quietly();
    anchor.tick().quietly();
    assert!(anchor.cosigned_at(&one).is_none() && anchor.cosigned_at(&two).is_some());
    assert!(!anchor.text("state/witnesses.json").contains("w1+"));
}

#[test]
fn without_witnesses_nothing_is_different() {
    let anchor = Anchor::found();
    anchor.grow("a").quietly();
    anchor.tick().quietly();
    assert!(!anchor.path("state/witnesses.json").exists());
    assert_eq!(anchor.shown().1.signatures.len(), 1);
    assert!(!anchor.fed(&["status"]).out.contains("witness"));
}

/// A dry run asks nobody.
#[test]
fn a_dry_run_asks_nobody() {
    let anchor = Anchor::found();
    let witness = anchor.witness();
    anchor.settings(&witness.config(""));
    anchor.fed(&["tick", "--dry-run"]).quietly();
    assert_eq!(witness.asked(), []);
}
