//! Fixed sets of runs: the baseline beside its paper, and Lifeguard's grid.

use super::BASELINE_ALPHA;
use crate::cli::Simulate;
use crate::command::{Ending, print};
use crate::error::{Failure, Kind};
use crate::protocol::profile::Profile;
use crate::sim::grid::{Contender, Row, through};
use crate::sim::paper::{self, Effort, Finding};
use serde_json::{Value, json};

/// What `--check` spends: some seconds.
const EFFORT: Effort = Effort { crashes: 2_000, periods: 2_000, joinings: 200 };

/// The baseline beside its paper.
pub(super) fn check(typed: &Simulate) -> Ending {
    let findings = paper::findings(&EFFORT, typed.seed);
    let agree = findings.iter().all(Finding::agrees);
    if typed.json {
        let rows: Vec<Value> = findings.iter().map(finding_json).collect();
        print::json(&json!({ "seed": typed.seed, "agrees": agree, "findings": rows }))?;
    } else {
        let head = ["what", "paper", "measured", "tolerance", ""];
        print::out(&print::table(&head, findings.iter().map(finding_row).collect()))?;
    }
    if agree {
        return Ok(None);
    }
    Err(Failure::new(Kind::No, "plain SWIM as built here differs from its paper").into())
}

fn finding_json(finding: &Finding) -> Value {
    json!({
        "what": finding.what,
        "paper": finding.paper,
        "measured": finding.measured,
        "tolerance": finding.tolerance,
        "agrees": finding.agrees(),
    })
}

fn finding_row(finding: &Finding) -> Vec<String> {
    let word = if finding.agrees() { "agrees" } else { "differs" };
    vec![
        finding.what.to_owned(),
        format!("{}", finding.paper),
        format!("{:.4}", finding.measured),
        format!("{:.4}", finding.tolerance),
        word.to_owned(),
    ]
}

/// Plain SWIM, then our rules: under Lifeguard's numbers, faster ones, and those typed or usual.
pub(super) fn grid(typed: &Simulate, profile: &Profile) -> Ending {
    let ours = |alpha, beta| Contender::Ours(Profile { alpha, beta, ..profile.clone() });
    let contenders = [
        Contender::PlainSwim(BASELINE_ALPHA),
        ours(5.0, 6.0),
        ours(4.0, 6.0),
        Contender::Ours(profile.clone()),
    ];
    let run = |contender| through(contender, typed.nodes, typed.seeds);
    let rows: Vec<Row> = contenders.iter().map(run).collect();
    if typed.json {
        let told: Vec<Value> = rows.iter().map(|row| row_json(row, &rows[0])).collect();
        print::json(&json!({ "nodes": typed.nodes, "seeds": typed.seeds, "rows": told }))?;
        return Ok(None);
    }
    let head = [
        "contender",
        "FP silent",
        "%",
        "at healthy",
        "FP deaf",
        "%",
        "at healthy",
        "first",
        "full",
        "%",
        "never",
        "messages %",
        "bytes %",
    ];
    print::out(&print::table(&head, rows.iter().map(|row| row_cells(row, &rows[0])).collect()))?;
    Ok(None)
}

/// A share of the baseline's in percent; `None` of nothing.
fn percent(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| (part / whole * 10_000.0).round() / 100.0)
}

fn of_first(row: &Row, first: &Row) -> [Option<f64>; 5] {
    let full = row.full.zip(first.full).and_then(|(own, baseline)| percent(own, baseline));
    [
        percent(row.silent.0 as f64, first.silent.0 as f64),
        percent(row.deaf.0 as f64, first.deaf.0 as f64),
        full,
        percent(row.load.0 as f64, first.load.0 as f64),
        percent(row.load.1 as f64, first.load.1 as f64),
    ]
}

fn row_json(row: &Row, first: &Row) -> Value {
    let [silent, deaf, full, messages, bytes] = of_first(row, first);
    json!({
        "name": row.name,
        "false_positives": row.silent.0,
        "false_positives_at_healthy": row.silent.1,
        "false_positives_percent": silent,
        "false_positives_deaf": row.deaf.0,
        "false_positives_deaf_at_healthy": row.deaf.1,
        "false_positives_deaf_percent": deaf,
        "first_detection_ticks": row.first,
        "full_detection_ticks": row.full,
        "full_detection_percent": full,
        "deaths": row.deaths.0,
        "never_detected": row.deaths.1,
        "messages": row.load.0,
        "messages_percent": messages,
        "bytes": row.load.1,
        "bytes_percent": bytes,
    })
}

fn row_cells(row: &Row, first: &Row) -> Vec<String> {
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    let [silent, deaf, full, messages, bytes] = of_first(row, first);
    vec![
        row.name.clone(),
        row.silent.0.to_string(),
        number(silent),
        row.silent.1.to_string(),
        row.deaf.0.to_string(),
        number(deaf),
        row.deaf.1.to_string(),
        number(row.first),
        number(row.full),
        number(full),
        format!("{} of {}", row.deaths.1, row.deaths.0),
        number(messages),
        number(bytes),
    ]
}
