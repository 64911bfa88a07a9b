//! Our rules in the model: nobody healthy is given up, and the dead are, in the ticks the formula
//! says.

use crate::{simulate, told};
use serde_json::Value;

#[test]
fn the_same_seed_is_the_same_run() {
    let flags = "--nodes 24 --loss 0.05 --pause 4:8:3 --ticks 40 --json";
    let run = |seed: u64| simulate(&format!("{flags} --seed {seed}")).stdout;
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

/// 16 nodes and three accusers: Min is 2·log10(16) = 3 ticks. Before it a dead member's last own
/// word stands for up to two ticks and a suspicion is opened; after it every member syncs within a
/// tick.
#[test]
fn the_dead_are_given_up_when_the_formula_says() {
    let told = told("--nodes 16 --crash 2@20 --ticks 40");
    let first = told["first_detection_ticks"].as_f64().unwrap();
    let full = told["full_detection_ticks"].as_f64().unwrap();
    assert!(3.0 < first && first <= 6.0, "{told}");
    assert!(first <= full && full <= first + 1.0, "{told}");
    assert_eq!((&told["detected"], &told["stable_members"]), (&2.into(), &14.into()));
}

#[test]
fn nobody_healthy_is_given_up_because_others_are_unwell() {
    for trouble in [
        "--pause 16:1:4",
        "--pause 2:1:4",
        "--deaf 30:10:4",
        "--deaf 4:1:4",
        "--loss 0.1",
        "--crash 4@20",
    ] {
        for seed in [1, 2] {
            let told = told(&format!("--nodes 16 --ticks 100 --seed {seed} {trouble}"));
            assert_eq!(told["false_positives"], 0, "{trouble}: {told}");
        }
    }
}

/// SWIM's paper lost 5 of 17 at this loss.
#[test]
fn all_of_seventeen_stay_at_ten_percent_loss() {
    for seed in 1..=3 {
        let told = told(&format!("--nodes 17 --loss 0.1 --ticks 87 --seed {seed}"));
        assert_eq!(told["stable_members"], 17, "{told}");
    }
}

/// The anchor among the few: it hears less than half and judges nobody (law 5).
#[test]
fn an_anchor_cut_off_with_the_few_gives_nobody_up() {
    let told = told("--nodes 9 --partition 3:6@10-60 --ticks 60");
    assert_eq!(told["false_positives_at_healthy"], 0, "{told}");
    let healed = crate::told("--nodes 9 --partition 3:6@10-60 --ticks 80");
    assert_eq!(healed["stable_members"], 9, "{healed}");
}

#[test]
fn rule_parameters_are_checked_like_a_configuration() {
    for (flags, word) in [("--alpha 0", "alpha"), ("--beta 101", "beta")] {
        let ran = simulate(flags);
        let said = String::from_utf8(ran.stderr).unwrap();
        assert_eq!((ran.status.code(), said.contains(word)), (Some(2), true), "{said}");
    }
    let slower = told("--nodes 16 --crash 2@20 --ticks 60 --alpha 5 --beta 6");
    assert!(slower["full_detection_ticks"].as_f64().unwrap() > 7.0, "{slower}");
}

/// The goals of the grid, at a size that takes some minutes: `make full`. False verdicts at most
/// 1.5 % of the baseline's at no more than its detection, 5 % at 85 %; ours keep both at once.
#[test]
fn the_grid_keeps_its_goals() {
    if std::env::var_os("CROWNY_FED_FULL").is_none() {
        return;
    }
    let ran = simulate("--grid --nodes 64 --seeds 1 --json");
    let told: Value = serde_json::from_slice(&ran.stdout).unwrap();
    println!("{told}");
    let rows = told["rows"].as_array().unwrap();
    let (baseline, usual) = (&rows[0], &rows[3]);
    let number = |row: &Value, field: &str| row[field].as_f64().unwrap();
    for field in ["false_positives", "false_positives_deaf"] {
        let most = number(baseline, field) * 0.015;
        assert!(rows[1..].iter().all(|row| number(row, field) <= most), "{field}: {told}");
    }
    let full = "full_detection_ticks";
    assert!(number(usual, full) <= 0.85 * number(baseline, full), "{told}");
}
