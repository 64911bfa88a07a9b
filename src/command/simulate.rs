//! `simulate`: a seeded model of many members, ours or plain SWIM. Touches no file and no network.

use super::Ending;
use super::print;
use crate::cli::Simulate;
use crate::error::{Failure, Kind};
use crate::protocol::profile::Profile;
use crate::sim::course::{Crash, Pause, Plan, Split, WHOLE};
use crate::sim::grid::Contender;
use crate::sim::score::{Score, median};
use serde_json::{Value, json};

mod tables;

/// α of Lifeguard's baseline.
const BASELINE_ALPHA: f64 = 5.0;

/// The fields scripts rely on, and some more, in the order people read them in.
const FIELDS: [&str; 13] = [
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

pub(super) fn run(typed: &Simulate) -> Ending {
    if typed.check {
        return tables::check(typed);
    }
    let usage = |why: String| Failure::new(Kind::Usage, why);
    let plan = plan(typed).map_err(usage)?;
    let profile = profile(typed).map_err(usage)?;
    if typed.grid {
        return tables::grid(typed, &profile);
    }
    let contender = match typed.plain_swim {
        true => Contender::PlainSwim(BASELINE_ALPHA),
        false => Contender::Ours(profile),
    };
    let told = told(typed, &contender.run(plan, typed.seed));
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
    Plan {
        members: typed.nodes,
        ticks: typed.ticks,
        loss: (typed.loss * WHOLE as f64) as u64,
        pause: read(("pause", &typed.pause), Pause::parse)?,
        deaf: read(("deaf", &typed.deaf), Pause::parse)?,
        split: read(("partition", &typed.partition), Split::parse)?,
        crash: read(("crash", &typed.crash), Crash::parse)?,
        join_apart: typed.join,
    }
    .checked()
}

fn read<T>(
    (flag, text): (&str, &Option<String>),
    parse: fn(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    let parsed = text.as_deref().map(parse).transpose();
    parsed.map_err(|why| format!("--{flag}: {why}"))
}

/// The profile of a 30 s interval, with what was typed.
fn profile(typed: &Simulate) -> Result<Profile, String> {
    let usual = Profile::default();
    Profile {
        alpha: typed.alpha.unwrap_or(usual.alpha),
        beta: typed.beta.unwrap_or(usual.beta),
        accusers: typed.accusers.unwrap_or(usual.accusers),
        ..usual
    }
    .checked()
}

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
        "first_detection_ticks": first,
        "full_detection_ticks": full,
        "false_positives": score.false_positives,
        "false_positives_at_healthy": score.false_positives_at_healthy,
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
    let row = |name: &&str| vec![name.replace('_', " "), cell(&told[*name])];
    print::table(&["what", "how much"], FIELDS.iter().map(row).collect())
}
