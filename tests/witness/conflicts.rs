//! Witnesses that saw something else: a number is a warning, our own signature convicts us.

use crate::anchor::Anchor;
use crate::rules::Said;
use crate::server::{Mood, Witness};
use std::fs;

/// The anchor goes on as if nothing were: lines, map and readers.
fn goes_on(anchor: &Anchor) {
    let before = anchor.signed();
    anchor.grow(&format!("on{before}")).quietly();
    assert_eq!((anchor.signed(), anchor.shown().0.size), (before + 1, before + 1));
    assert!(anchor.evidence().is_empty());
    anchor.verifies();
}

/// Nothing is signed any more, by tick or request, until a person has judged it.
fn has_stopped(anchor: &Anchor) {
    let names =
        ["state/committed.json", "federation-root.txt", "nodes.ndjson", "federated-routes.txt"];
    let before = names.map(|name| anchor.text(name));
    for args in [&["tick"][..], &["grant", "more", "gw1"]] {
        anchor.fed(args).ends(5, &["state/evidence"]);
    }
    assert_eq!(names.map(|name| anchor.text(name)), before);
    fs::rename(anchor.path("state/evidence"), anchor.path("judged")).unwrap();
}

/// Both notes stand in `state/evidence`, ours with this size and theirs with that.
fn evidence_is_kept(anchor: &Anchor, ours: u64, theirs: u64) {
    assert_eq!(anchor.evidence(), [format!("ours-{ours}.txt"), format!("theirs-{theirs}.txt")]);
}

fn watched(witness: &Witness) -> String {
    witness.config(&format!("monitor = \"{}\"", witness.url()))
}

#[test]
fn a_larger_number_alone_is_reported_and_convicts_nobody() {
    let anchor = Anchor::found();
    let witness = anchor.witness();
    anchor.settings(&witness.config(""));
    witness.becomes(Mood::Stubborn(Said::new(409, "99\n")));
    let lines = anchor.signed();
    let words = format!(
        "witness test.example/w1: says it saw 99 lines of this log, we have {lines}: restored backup?"
    );
    anchor.tick().ends(0, &[&words]);
    goes_on(&anchor);
}

/// A copy of yesterday is put back and goes on with other lines, while a witness saw today's.
#[test]
fn a_restored_copy_is_told_and_convicted_where_the_newer_signature_is_shown() {
    let anchor = Anchor::found();
    let witness = anchor.witness();
    anchor.settings(&witness.config(""));
    anchor.tick().quietly();
    let restored = anchor.copy();
    anchor.grow_by(&["a", "b"]);
    anchor.tick().quietly();
    let newest = anchor.signed();

    restored.grow("other").quietly();
    let held = restored.signed();
    let words = format!("says it saw {newest} lines of this log, we have {held}: restored backup?");
    restored.tick().ends(0, &[&words]);
    assert_eq!(restored.cosigned_at(&witness), None);
    goes_on(&restored);

    // The same where the witness can be read.
    let restored = anchor.copy();
    anchor.grow_by(&["c", "d"]);
    anchor.tick().quietly();
    let newest = anchor.signed();
    restored.settings(&watched(&witness));
    restored.grow("again").quietly();
    let held = restored.signed();
    restored.tick().ends(5, &["lines under our signature, but we hold", "both notes are kept"]);
    evidence_is_kept(&restored, held, newest);
    let shown = witness.rules(|rules| rules.latest.clone().unwrap().1);
    assert_eq!(restored.text(&format!("state/evidence/theirs-{newest}.txt")), shown);
    has_stopped(&restored);
}

/// Two anchors with one key: the witness saw the other one's lines at a size that both have.
#[test]
fn another_root_at_the_same_size_convicts() {
    let anchor = Anchor::found();
    let witness = anchor.witness();
    anchor.settings(&witness.config(""));
    anchor.tick().quietly();
    let twin = anchor.copy();
    anchor.grow("ours").quietly();
    anchor.tick().quietly();
    let size = anchor.signed();

    twin.grow("theirs").quietly();
    twin.tick()
        .ends(0, &[&format!("says it saw another log of {size} lines under this name (409)")]);
    goes_on(&twin);

    // Both have gone on, and differ at one size again; now the witness can be read.
    anchor.grow("more").quietly();
    anchor.tick().quietly();
    assert_eq!(anchor.signed(), twin.signed());
    twin.settings(&watched(&witness));
    twin.tick().ends(5, &["shows another root at the same size", "both notes are kept"]);
    evidence_is_kept(&twin, twin.signed(), twin.signed());
    has_stopped(&twin);
}

/// The same with more lines than the witness saw: the proof from there cannot hold.
#[test]
fn a_history_that_parted_earlier_is_unproven_and_convicts() {
    let anchor = Anchor::found();
    let witness = anchor.witness();
    anchor.settings(&witness.config(""));
    anchor.tick().quietly();
    let twin = anchor.copy();
    anchor.grow("ours").quietly();
    anchor.tick().quietly();
    let seen = anchor.signed();
    twin.grow_by(&["x", "y", "z"]);
    twin.tick().ends(0, &["what it saw of this log is not how ours begins (422)"]);
    witness.asked();
    twin.settings(&watched(&witness));
    twin.tick().ends(5, &[&format!("do not begin with the {seen} that"), "both notes are kept"]);
    assert_eq!(witness.asked(), [(seen, twin.signed(), 422)], "where it stands was remembered");
    evidence_is_kept(&twin, twin.signed(), seen);
    has_stopped(&twin);
}

#[test]
fn what_a_monitor_shows_counts_only_under_our_signature() {
    let anchor = Anchor::found();
    let witness = anchor.witness();
    anchor.settings(&watched(&witness));
    anchor.tick().quietly();
    let stranger = Anchor::found();
    stranger.grow_by(&["a", "b", "c"]);
    let own = anchor.text("federation-root.txt");
    let larger = own.replacen(&format!("\n{}\n", anchor.signed()), "\n99\n", 1);
    let shown: [(Vec<u8>, &str); 6] = [
        (stranger.text("federation-root.txt").into(), "of no use"),
        (larger.into(), "of no use"),
        (b"".to_vec(), "of no use"),
        (b"\xff".to_vec(), "of no use"),
        (vec![b'x'; 1 << 20], "cut short or too long"),
        (own.clone().into(), "says it saw 99 lines"),
    ];
    for (note, words) in shown {
        witness.becomes(Mood::Stubborn(Said::new(409, "99\n")));
        witness.shows(note);
        anchor.grow(&format!("s{}", anchor.signed())).quietly();
        anchor.tick().ends(0, &["says it saw 99 lines", words]);
        assert!(anchor.evidence().is_empty(), "{words}");
    }
    goes_on(&anchor);
}

/// A required witness that saw more holds readers back where they are, and nothing is lost.
#[test]
fn a_required_witness_that_saw_more_holds_readers_back() {
    let anchor = Anchor::found();
    let witness = anchor.witness();
    anchor.settings(&witness.config("required = true"));
    anchor.tick().quietly();
    let restored = anchor.copy();
    anchor.grow_by(&["a", "b"]);
    let shown = restored.shown().0.size;
    restored.grow("other").ends(1, &["waiting for witness test.example/w1"]);
    restored.tick().ends(0, &["restored backup?", "waiting for witness test.example/w1"]);
    assert_eq!((restored.shown().0.size, restored.signed()), (shown, shown + 1));
}
