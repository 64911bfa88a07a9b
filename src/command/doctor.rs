//! `doctor`: what is wrong, one line a finding, and the repairs that an operator asks for by name.

use super::context::Context;
use super::{Ending, print, progress};
use crate::cli::{Common, Doctor, Peers};
use crate::cycle::doctor::{adopting, clock, gather};
use crate::error::{Failure, Kind};
use crate::protocol::diagnosis::{Cause, Finding, Trouble, Weight, findings};
use serde_json::json;
use std::path::Path;

pub(super) fn run(common: &Common, typed: &Doctor) -> Ending {
    if typed.adopt.is_none() && !typed.accept_clock {
        return look(common, typed.json);
    }
    let context = Context::new(common, &Peers::default())?;
    let bar = progress::bar(progress::LINES);
    let done = match &typed.adopt {
        Some(url) => {
            let from = Some(url.as_str()).filter(|url| !url.is_empty());
            adopting::adopt(&context.host, &context.config, from, &progress::show(&bar))
        }
        None => clock::accept_clock(&context.host, &context.config),
    };
    bar.finish_and_clear();
    let done = done?;
    match typed.json {
        true => print::json(&json!({ "done": done }))?,
        false => print::out(&(done + "\n"))?,
    }
    Ok(None)
}

fn look(common: &Common, as_json: bool) -> Ending {
    let (context, told) = Context::looking(common)?;
    let place = shell_word(context.config.layout.dir());
    let bar = progress::bar(progress::BYTES);
    let troubles = told.into_iter().map(setting).collect();
    let facts = gather(&context.host, &context.config, (&place, troubles), &progress::show(&bar));
    bar.finish_and_clear();
    let found = findings(&facts);
    let worst = found.iter().map(|finding| finding.weight).max();
    let ending = match worst {
        None | Some(Weight::Note) => None,
        Some(Weight::Finding) => Some(Kind::No),
        Some(Weight::Config) => Some(Kind::Config),
        Some(Weight::Integrity) => Some(Kind::Integrity),
    };
    if as_json {
        print::json(&json!({ "well": ending.is_none(), "findings": found }))?;
        return Ok(ending);
    }
    let mut text: String = found.iter().map(line).collect();
    if ending.is_none() {
        text.push_str(&format!("all well: {} lines\n", facts.size));
    }
    print::out(&text)?;
    Ok(ending)
}

fn setting(failure: Failure) -> Trouble {
    let hint = failure.hint.unwrap_or_else(|| "correct what the line names".to_owned());
    Trouble { cause: Cause::Setting(hint), weight: Weight::Config, told: failure.message }
}

fn line(finding: &Finding) -> String {
    let Finding { weight, what, why, next } = finding;
    let word = match weight {
        Weight::Note => "note",
        Weight::Finding => "finding",
        Weight::Config => "config",
        Weight::Integrity => "integrity",
    };
    print::one_line(&format!("{word}: {what}: {why}; next: {next}")) + "\n"
}

/// The folder as a shell takes it.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+@:".contains(c);
    match text.chars().all(plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}
