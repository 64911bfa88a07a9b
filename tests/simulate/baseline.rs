//! Plain SWIM against what its papers say of it.

use crate::{simulate, told};
use serde_json::Value;

/// Lifeguard's own model of its baseline: α·log10(128) + 1.58 = 12.1 periods to a verdict. Ours
/// hears of it somewhat later, through gossip.
#[test]
fn the_baseline_detects_a_crash_when_its_formula_says() {
    let told = told("--plain-swim --nodes 128 --crash 4@20 --ticks 50");
    let first = told["first_detection_ticks"].as_f64().unwrap();
    assert!((11.0..13.2).contains(&first), "{told}");
    let full = told["full_detection_ticks"].as_f64().unwrap();
    assert!(full >= first && full < first + 2.0, "{told}");
    assert_eq!(told["stable_members"], 124);
}

#[test]
fn a_partition_is_a_verdict_on_each_side_and_heals() {
    let apart = told("--plain-swim --nodes 16 --partition 12:4@10-40 --ticks 40");
    assert_eq!(apart["stable_members"], 0, "{apart}");
    // Four members each give up the twelve that nothing befell.
    assert_eq!(apart["false_positives"], 48, "{apart}");
    assert_eq!(apart["false_positives_at_healthy"], 0, "{apart}");
}

/// Every figure with its tolerance, thousands of runs: `make full`.
#[test]
fn the_baseline_agrees_with_its_paper_in_every_figure() {
    if std::env::var_os("CROWNY_FED_FULL").is_none() {
        return;
    }
    let ran = simulate("--check --json --seed 1");
    let told: Value = serde_json::from_slice(&ran.stdout).unwrap();
    println!("{told}");
    assert_eq!((ran.status.code(), &told["agrees"]), (Some(0), &true.into()), "{told}");
    assert_eq!(told["findings"].as_array().unwrap().len(), 5);
}
