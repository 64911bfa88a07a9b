//! `simulate`: a seeded model of many members, ours or plain SWIM. Touches no file and no network.

use super::Ending;
use super::print;
use crate::cli::Simulate;
use crate::error::{Failure, Kind};
use crate::sim::course::{Course, Crash, Pause, Plan, Split, WHOLE};
use crate::sim::field::run as run_field;
use crate::sim::paper::{self, Effort, Finding};
use crate::sim::plain_swim::PlainSwim;
use crate::sim::plain_swim::setting::Setting;
use crate::sim::score::{Score, median};
use serde_json::{Value, json};

/// What `--check` spends: some seconds.
const EFFORT: Effort = Effort { crashes: 2_000, periods: 2_000, joinings: 200 };
/// α of Lifeguard's baseline.
const BASELINE_ALPHA: f64 = 5.0;

pub(super) fn run(typed: &Simulate) -> Ending {
    if typed.check {
        return check(typed);
    }
    let plan = plan(typed).map_err(|why| Failure::new(Kind::Usage, why))?;
    let course = Course::new(plan, typed.seed);
    let score = match typed.plain_swim {
        true => {
            let mut swim = PlainSwim::new(Setting::baseline(BASELINE_ALPHA), plan.members);
            run_field(&mut swim, course, typed.seed)
        }
        false => return Err(Failure::new(Kind::Usage, "only --plain-swim is there so far").into()),
    };
    let told = told(typed, &score);
    match typed.json {
        true => print::json(&told)?,
        false => print::out(&table(&told))?,
    }
    Ok(None)
}

fn plan(typed: &Simulate) -> Result<Plan, String> {
    if !(0.0..1.0).contains(&typed.loss) {
        return Err(format!("--loss {}, expected 0 to below 1", typed.loss));
    }
    let flag = |name: &'static str| move |why: String| format!("--{name}: {why}");
    let read = |text: &Option<String>| text.clone();
    Plan {
        members: typed.nodes,
        ticks: typed.ticks,
        loss: (typed.loss * WHOLE as f64) as u64,
        pause: read(&typed.pause)
            .map(|text| Pause::parse(&text))
            .transpose()
            .map_err(flag("pause"))?,
        split: read(&typed.partition)
            .map(|text| Split::parse(&text))
            .transpose()
            .map_err(flag("partition"))?,
        crash: read(&typed.crash)
            .map(|text| Crash::parse(&text))
            .transpose()
            .map_err(flag("crash"))?,
        join_apart: typed.join,
    }
    .checked()
}

/// The fields scripts rely on, and some more.
fn told(typed: &Simulate, score: &Score) -> Value {
    let first = median(score.detections.iter().filter_map(|detection| detection.first));
    let full = median(score.detections.iter().filter_map(|detection| detection.full));
    let detected = score.detections.iter().filter(|detection| detection.full.is_some()).count();
    json!({
        "protocol": if typed.plain_swim { "plain-swim" } else { "crowny-fed" },
        "nodes": typed.nodes,
        "ticks": typed.ticks,
        "seed": typed.seed,
        "anomalies": score.detections.len(),
        "detected": detected,
        "false_positives": score.false_positives,
        "false_positives_at_healthy": score.false_positives_at_healthy,
        "first_detection_ticks": first,
        "full_detection_ticks": full,
        "messages": score.messages,
        "bytes": score.bytes,
        "stable_members": score.stable_members,
    })
}

fn table(told: &Value) -> String {
    let cell = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let row = |name: &str| vec![name.replace('_', " "), cell(&told[name])];
    let names = [
        "protocol",
        "nodes",
        "ticks",
        "seed",
        "anomalies",
        "detected",
        "first_detection_ticks",
        "full_detection_ticks",
        "false_positives",
        "false_positives_at_healthy",
        "messages",
        "bytes",
        "stable_members",
    ];
    print::table(&["what", "how much"], names.iter().map(|name| row(name)).collect())
}

/// The baseline beside its paper.
fn check(typed: &Simulate) -> Ending {
    let findings = paper::findings(&EFFORT, typed.seed);
    let agree = findings.iter().all(Finding::agrees);
    if typed.json {
        let rows: Vec<Value> = findings
            .iter()
            .map(|finding| {
                json!({
                    "what": finding.what,
                    "paper": finding.paper,
                    "measured": finding.measured,
                    "tolerance": finding.tolerance,
                    "agrees": finding.agrees(),
                })
            })
            .collect();
        print::json(&json!({ "seed": typed.seed, "agrees": agree, "findings": rows }))?;
    } else {
        let row = |finding: &Finding| {
            let word = if finding.agrees() { "agrees" } else { "differs" };
            vec![
                finding.what.to_owned(),
                format!("{}", finding.paper),
                format!("{:.4}", finding.measured),
                format!("{:.4}", finding.tolerance),
                word.to_owned(),
            ]
        };
        let head = ["what", "paper", "measured", "tolerance", ""];
        print::out(&print::table(&head, findings.iter().map(row).collect()))?;
    }
    if agree {
        return Ok(None);
    }
    Err(Failure::new(Kind::No, "plain SWIM as built here differs from its paper").into())
}
