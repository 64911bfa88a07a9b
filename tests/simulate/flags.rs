//! Flags in, fields out.

use crate::{simulate, told};
use std::path::Path;

/// What scripts rely on.
const FIELDS: [&str; 10] = [
    "nodes",
    "ticks",
    "seed",
    "false_positives",
    "false_positives_at_healthy",
    "first_detection_ticks",
    "full_detection_ticks",
    "messages",
    "bytes",
    "stable_members",
];

#[test]
fn the_same_seed_is_the_same_run_and_another_one_is_another() {
    let flags = "--plain-swim --nodes 24 --loss 0.05 --pause 4:8:3 --ticks 60";
    let run = |seed: u64| simulate(&format!("{flags} --json --seed {seed}")).stdout;
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn every_field_is_there_and_nothing_detected_is_null() {
    let calm = told("--plain-swim --nodes 5 --ticks 30");
    for field in FIELDS {
        assert!(calm.get(field).is_some(), "{field}: {calm}");
    }
    assert_eq!((&calm["nodes"], &calm["ticks"]), (&5.into(), &30.into()));
    assert!(calm["first_detection_ticks"].is_null() && calm["full_detection_ticks"].is_null());
    assert_eq!((&calm["false_positives"], &calm["stable_members"]), (&0.into(), &5.into()));
}

#[test]
fn nonsense_is_refused_in_one_line_that_names_the_flag() {
    for (flags, word) in [
        ("--pause 3", "--pause"),
        ("--pause 0:1:1", "--pause"),
        ("--pause 3:1:16", "16 nodes"),
        ("--partition 3:3@9-5", "--partition"),
        ("--partition 9:9@1-5", "partition names node 17"),
        ("--crash 0@3", "--crash"),
        ("--nodes 1", "1 nodes"),
        ("--nodes 2001", "2001 nodes"),
        ("--ticks 0", "0 ticks"),
        ("--loss 1", "--loss"),
        ("--loss -0.1", "--loss"),
    ] {
        let ran = simulate(&format!("--plain-swim {flags}"));
        let said = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(2), "{flags}: {said}");
        assert!(said.contains(word), "{flags}: {said}");
        assert!(ran.stdout.is_empty(), "{flags}");
    }
}

#[test]
fn it_leaves_nothing_behind() {
    let dir = std::env::temp_dir().join(format!("crowny-fed-simulate-{}", std::process::id()));
    let ran = simulate(&format!("--plain-swim --nodes 4 --ticks 20 --dir {}", dir.display()));
    assert!(ran.status.success());
    assert!(!Path::new(&dir).exists());
}
