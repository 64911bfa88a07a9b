//! Settings of the rules: what is nonsense is refused with the reason, before anything is done.

use crate::federation::{Federation, Node};
use std::fs;

/// Ends every verb with 78 and these words, and changes nothing.
#[track_caller]
fn refused(node: &Node, text: &str, words: &[&str]) {
    let held = node.text("crowny-fed.toml");
    fs::write(node.file("crowny-fed.toml"), format!("interval = \"0\"\n{text}\n")).unwrap();
    for verb in [&["tick"][..], &["status"], &["accept-loss"]] {
        let ran = node.unchanged(|| node.fed(verb));
        assert_eq!(ran.code, Some(78), "{text} with {verb:?}: {ran:?}");
        ran.saying(words);
    }
    fs::write(node.file("crowny-fed.toml"), held).unwrap();
}

#[test]
fn nonsense_is_refused_with_the_reason() {
    let fed = Federation::found();
    let anchor = &fed.anchor;
    for (text, words) in [
        ("helpers = 17", &["helpers 17", "at most 16"][..]),
        ("helpers = -1", &["line 2"]),
        ("helpers = 1.5", &["line 2"]),
        ("helpers = \"3\"", &["line 2"]),
        ("probe_all_max = 1001", &["probe_all_max 1001", "1000"]),
        ("probe_all_max = -20", &["line 2"]),
        ("reap_ticks = 0", &["reap_ticks 0"]),
        ("reap_ticks = -3", &["line 2"]),
        ("suspicion_ticks = 0", &["suspicion_ticks 0"]),
        ("suspicion_ticks = -2", &["line 2"]),
        ("accusers = -1", &["line 2"]),
        ("accusers = \"many\"", &["line 2"]),
        ("alpha = 0.9", &["alpha 0.9", "1 to 100"]),
        ("alpha = nan", &["alpha NaN"]),
        ("alpha = inf", &["alpha inf"]),
        ("alpha = -4.0", &["alpha -4"]),
        ("beta = 101.0", &["beta 101"]),
        ("beta = 0.0", &["beta 0"]),
        ("beta = \"6\"", &["line 2"]),
        ("helper = 3", &["helper", "line 2"]),
        ("alpha = 2.0\nalpha = 3.0", &["line 3"]),
    ] {
        refused(anchor, text, words);
    }
    // A member's own file is held to the same.
    let n1 = fed.join("n1");
    refused(&n1, "alpha = 0.5", &["alpha 0.5"]);
}

/// Numbers that no journal line can hold (2^53 - 1) or that would outlast every machine.
#[test]
fn a_suspicion_without_an_end_is_refused() {
    let fed = Federation::found();
    for ticks in ["9007199254740992", "9223372036854775807"] {
        refused(&fed.anchor, &format!("suspicion_ticks = {ticks}"), &["suspicion_ticks", ticks]);
    }
}

#[test]
fn what_makes_sense_is_taken() {
    let fed = Federation::found();
    for text in [
        "helpers = 0\nprobe_all_max = 0\naccusers = 0",
        "helpers = 16\nprobe_all_max = 1000\naccusers = 64",
        "alpha = 1.0\nbeta = 1.0\nreap_ticks = 1",
        "alpha = 100.0\nbeta = 100.0\nsuspicion_ticks = 100000",
    ] {
        fs::write(fed.anchor.file("crowny-fed.toml"), format!("interval = \"0\"\n{text}\n"))
            .unwrap();
        fed.anchor.idle();
    }
}

/// The formula's numbers are those of the settings: `status` tells the longest suspicion.
#[test]
fn status_tells_how_long_a_suspicion_lasts() {
    let fed = Federation::found();
    let _others = ["n1", "n2", "n3"].map(|id| fed.join(id));
    for (text, ticks) in [
        ("suspicion_ticks = 9", 9),
        ("alpha = 2.0\nbeta = 3.0", 6),
        ("alpha = 4.0\nbeta = 6.0", 24),
        ("alpha = 1.5\nbeta = 1.5", 3),
    ] {
        fs::write(fed.anchor.file("crowny-fed.toml"), format!("interval = \"0\"\n{text}\n"))
            .unwrap();
        assert_eq!(fed.anchor.status()["suspicion_ticks_max"], ticks, "{text}");
    }
}
