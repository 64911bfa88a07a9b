//! Several runs at once: what a witness is shown and what readers see stay one log.

use crate::anchor::{Anchor, finished, wait_until};
use crate::server::Mood;
use std::process::{Child, Stdio};

fn started(anchor: &Anchor, args: &[&str]) -> Child {
    anchor.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// A timer's tick waits for a slow witness: a second one steps aside, and others may write.
#[test]
fn while_a_tick_waits_for_a_witness_others_write() {
    let anchor = Anchor::found();
    let witness = anchor.witness();
    anchor.settings(&witness.config(""));
    witness.becomes(Mood::Gated);
    let size = anchor.signed();
    let ticking = started(&anchor, &["tick"]);
    wait_until("the witness to be asked", || witness.waits());
    let second = anchor.tick();
    second.ends(0, &[]);
    assert_eq!(second.out, "tick in progress\n");
    anchor.grow("meanwhile").quietly();
    assert_eq!(anchor.shown().0.size, size + 1);
    witness.open();
    finished(ticking).ends(0, &[]);
    assert_eq!(anchor.cosigned_at(&witness), None, "it was about fewer lines");
    anchor.tick().quietly();
    assert!(anchor.cosigned_at(&witness).is_some());
    anchor.verifies();
}

/// Which of two gets to the witness first is chance; the later one must not roll anything back.
#[test]
fn a_run_that_is_overtaken_takes_nothing_back() {
    let anchor = Anchor::found();
    let witness = anchor.witness();
    anchor.settings(&witness.config("required = true"));
    anchor.tick().quietly();
    witness.asked();
    let size = anchor.signed();
    witness.becomes(Mood::Gated);
    let first = started(&anchor, &["grant", "first", "gw1"]);
    wait_until("the witness to be asked", || witness.waits());
    anchor.grow("second").quietly();
    assert_eq!(anchor.shown().0.size, size + 2);
    witness.open();
    let first = finished(first);
    first.ends(0, &[]);
    assert_eq!(witness.asked(), [(size, size + 2, 200), (size, size + 1, 409)]);
    assert_eq!(anchor.shown().0.size, size + 2);
    assert!(anchor.cosigned_at(&witness).is_some());
    anchor.verifies();
}

#[test]
fn many_at_once_end_with_one_cosigned_log() {
    let anchor = Anchor::found();
    let witness = anchor.witness();
    anchor.settings(&witness.config("required = true"));
    anchor.tick().quietly();
    let size = anchor.signed();
    let names: Vec<String> = (0..6).map(|number| format!("s{number}")).collect();
    let runs: Vec<Child> =
        names.iter().map(|name| started(&anchor, &["grant", name, "gw1"])).collect();
    for run in runs {
        let ran = finished(run);
        // Whoever could not show its line in time says that it is there.
        assert!(ran.code == Some(0) || ran.err.contains("is committed"), "{ran:?}");
    }
    anchor.tick().ends(0, &[]);
    assert_eq!((anchor.signed(), anchor.shown().0.size), (size + 6, size + 6));
    assert!(anchor.cosigned_at(&witness).is_some());
    anchor.verifies();
}
