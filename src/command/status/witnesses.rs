//! What `status` says of the witnesses.

use crate::command::context::Context;
use crate::cycle::publish::rfc3339;
use crate::cycle::witnesses::{self, Standing};
use crate::host::Host;
use crate::store::view::View;
use serde_json::{Value, json};

/// One line a witness: what it cosigned, and how long ago.
pub(super) fn text(context: &Context, view: &View<'_>) -> String {
    let now_s = context.host.clock().wall_ms / 1_000;
    let line = |witness: &Standing| {
        let kind = if witness.required { "required witness" } else { "witness" };
        match witness.last {
            Some((size, time_s)) => {
                let age_s = now_s.saturating_sub(time_s);
                format!("{kind} {} cosigned {size} lines {age_s} s ago\n", witness.name)
            }
            None => format!("{kind} {} has cosigned nothing yet\n", witness.name),
        }
    };
    let lines: String = standings(context, view).iter().map(line).collect();
    if lines.is_empty() { lines } else { lines + "\n" }
}

/// The same for machines.
pub(super) fn value(context: &Context, view: &View<'_>) -> Vec<Value> {
    let one = |witness: &Standing| {
        json!({
            "witness": witness.name,
            "required": witness.required,
            "size": witness.last.map(|(size, _)| size),
            "cosigned_at": witness.last.map(|(_, time_s)| rfc3339(time_s.saturating_mul(1_000))),
        })
    };
    standings(context, view).iter().map(one).collect()
}

/// Who keeps readers from what is signed. The floor is private, so only its owner is told.
pub(super) fn trouble(context: &Context, view: &View<'_>) -> Option<String> {
    let disk = context.disk();
    if !view.identity.is_anchor() {
        return None;
    }
    let missing = witnesses::missing(&disk, &context.config).unwrap_or_default();
    if missing.is_empty() {
        return None;
    }
    let signed = View::signed(disk).map_or(view.checkpoint.size, |(_, floor)| floor.size);
    Some(format!(
        "waiting for witness {}: {signed} lines are signed, readers see {}",
        missing.join(", "),
        view.checkpoint.size
    ))
}

fn standings(context: &Context, view: &View<'_>) -> Vec<Standing> {
    if !view.identity.is_anchor() {
        return Vec::new();
    }
    witnesses::standings(&context.disk(), &context.config, view)
}
