//! `log`: the journal for people.

use super::context::Context;
use super::{Ending, print};
use crate::cli::Log;
use crate::cycle::publish::rfc3339;
use crate::error::{Failure, Kind};
use crate::journal::record::{Anchor, Record};
use crate::protocol::member::NodeId;
use crate::store::view::{Placed, View};
use serde_json::json;

pub(super) fn run(context: &Context, typed: &Log) -> Ending {
    let view = View::open(context.disk())?;
    let node = typed.node.as_deref().map(NodeId::parse).transpose();
    let node = node.map_err(|error| Failure::new(Kind::Usage, format!("--node: {error}")))?;
    if let Some(node) = node.as_ref().filter(|node| view.seq_about(node).is_none()) {
        let why = format!("no published line is about '{node}'");
        anyhow::bail!(Failure::new(Kind::No, why));
    }
    let lines = view.newest(typed.last, node.as_ref())?;
    let form: fn(&Placed) -> String = match (typed.raw, typed.json) {
        (true, _) => |placed| String::from_utf8_lossy(&placed.raw).into_owned() + "\n",
        (false, true) => as_json,
        (false, false) => as_text,
    };
    print::out(&lines.iter().map(form).collect::<String>())?;
    Ok(None)
}

pub(super) fn as_json(placed: &Placed) -> String {
    let payload: serde_json::Value = serde_json::from_str(&placed.line.payload).unwrap_or_default();
    let line = &placed.line;
    format!(
        "{}\n",
        json!({"seq": line.seq, "ts": line.ts, "type": line.kind, "hash": placed.leaf, "payload": payload})
    )
}

fn as_text(placed: &Placed) -> String {
    let line = &placed.line;
    format!("{:>6}  {}  {:<8}  {}\n", line.seq, rfc3339(line.ts * 1_000), line.kind, told(placed))
}

pub(super) fn told(placed: &Placed) -> String {
    said(Record::of(&placed.line))
}

fn said(record: Record) -> String {
    match record {
        Record::Genesis(genesis) => format!("{} founded by {}", genesis.origin, genesis.anchor),
        Record::Enroll(enroll) => format!("{}: {} key enrolled", enroll.node, enroll.alg),
        Record::Register(register) => {
            format!(
                "{}: registered, services {}, inc={}",
                register.node,
                register.services.len(),
                register.incarnation.value()
            )
        }
        Record::Leave(leave) => {
            format!("{}: leaves, inc={}", leave.node, leave.incarnation.value())
        }
        Record::Drain(drain) => {
            format!("{}: {}", drain.node, if drain.on { "drains" } else { "drains no more" })
        }
        Record::Rotate(rotate) => format!("{}: another {} key", rotate.node, rotate.alg),
        Record::Anchor(anchor) => epoch(&anchor),
        Record::Grant(grant) => {
            let what = if grant.on { "granted to" } else { "no more granted to" };
            format!("{} {what} {}", grant.service, grant.node)
        }
        Record::Revoke(revoke) => format!("{}: key {} revoked", revoke.node, revoke.kid),
        Record::Roster(roster) => match roster.row {
            Some(row) => format!(
                "{}: listed at {}:{} as {} ({})",
                roster.node, row.host, row.port, row.role, row.state
            ),
            None => format!("{}: gone from the roster", roster.node),
        },
        Record::Reap(reap) => {
            format!("{}: counts no more, dead for {} ticks", reap.node, reap.ticks)
        }
        Record::Verdict(verdict) => {
            let heirs: Vec<String> = verdict
                .heirs
                .iter()
                .map(|(service, ids)| {
                    let ids: Vec<&str> = ids.iter().map(NodeId::as_str).collect();
                    format!(", {service} goes to {}", ids.join(" "))
                })
                .chain(verdict.no_heir.iter().map(|service| format!(", {service} has no heir")))
                .collect();
            let waited = match verdict.needed {
                0 => String::new(),
                needed => format!(", waited {} of {needed} ticks", verdict.waited),
            };
            let service = verdict.service.as_ref().map(|name| format!("|{name}"));
            format!(
                "{}{}: {} -> {} ({}{waited}), inc={}{}",
                verdict.node,
                service.unwrap_or_default(),
                verdict.from.word(),
                verdict.to.word(),
                verdict.rule,
                verdict.inc.value(),
                heirs.concat()
            )
        }
        Record::Merge(merge) => format!(
            "{}: brought {} lines that were said after line {}",
            merge.node,
            merge.count,
            merge.fork.saturating_sub(1)
        ),
        Record::Merged(merged) => format!("{}, from a branch", said(merged.said)),
        Record::Unknown => "not understood by this version".to_owned(),
    }
}

fn epoch(anchor: &Anchor) -> String {
    let who = anchor.anchor.as_ref().map(|node| format!("{node} serialises, "));
    format!("{}log key of epoch {}: {}", who.unwrap_or_default(), anchor.epoch, anchor.vkey)
}
