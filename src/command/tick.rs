//! `tick`: one run, silent unless something changed or was asked for.

use super::context::Context;
use super::{Ending, print, probe, progress};
use crate::cli::Tick;
use crate::cycle::tick::{Ended, How, Report, run_telling as tick};
use crate::error::Kind;
use crate::protocol::blind::Pulse;
use crate::protocol::contact::{Contact, Help, Said};
use crate::protocol::member::{Liveness, NodeId};
use crate::protocol::probe::Outcome;
use crate::protocol::subject::Subject;
use crate::protocol::verdict::needed;
use crate::store::decisions::Decided;

pub(super) fn run(context: &Context, typed: &Tick) -> Ending {
    let bar = progress::bar(progress::PARTS);
    let how = How { dry_run: typed.dry_run, progress: &progress::show(&bar) };
    let ended = tick(&context.host, &context.config, how);
    bar.finish_and_clear();
    let report = match ended? {
        Ended::InProgress => {
            if !context.common.quiet {
                print::out("tick in progress\n")?;
            }
            return Ok(None);
        }
        Ended::Done(report) => report,
    };
    for warning in &report.warnings {
        print::warn(warning);
    }
    let rejected = probe::rejected(&context.config.peers, &report.rejected)
        .or(report.without_roster.then_some(Kind::Partial));
    if !context.common.quiet {
        print::out(&changes(&report, typed.dry_run))?;
    }
    if report.pulse == Pulse::Early && !report.decision.memory.suspects.is_empty() {
        print::warn("early tick, sooner than half an interval: suspicions did not age");
    }
    if typed.explain || context.common.verbose > 0 {
        print::out(&explanation(context, &report))?;
    }
    Ok(rejected)
}

/// One line a change; nothing on a tick without any.
fn changes(report: &Report, dry_run: bool) -> String {
    let would = if dry_run { "would: " } else { "" };
    let mut text = String::new();
    for change in &report.changes {
        let what = match &change.row {
            None => "gone from the roster".to_owned(),
            Some(row) if row.is_active() => "listed".to_owned(),
            Some(row) => format!("listed as {}: probed, not routed", row.state),
        };
        text.push_str(&format!("{would}{} {what}\n", change.node));
    }
    for (id, held) in &report.refuted {
        text.push_str(&format!("{would}{id} {} -> alive (its own word)\n", held.word()));
    }
    for id in &report.decision.reaped {
        text.push_str(&format!("{would}{id} counts no more: dead for too long\n"));
    }
    for verdict in &report.decision.verdicts {
        text.push_str(&format!(
            "{would}{} {} -> {} ({})\n",
            verdict.subject,
            verdict.from.word(),
            verdict.to.liveness.word(),
            verdict.rule.name()
        ));
    }
    report.decided.iter().for_each(|decided| text.push_str(&format!("{would}{}\n", told(decided))));
    if report.merged > 0 {
        text.push_str(&format!(
            "lines of branch.ndjson that the journal holds now: {}\n",
            report.merged
        ));
    }
    for held in &report.decision.held {
        text.push_str(&format!(
            "{would}{held} is due to be declared dead, held back by the cap of this tick\n"
        ));
    }
    text
}

/// What this node decided for its own map.
fn told(decided: &Decided) -> String {
    match decided {
        Decided::Reach(change) if change.reachable => {
            format!("{} is reachable from here again", change.node)
        }
        Decided::Reach(change) => format!(
            "{} is unreachable from here for {} ticks: left out of this node's map",
            change.node, change.silent
        ),
        Decided::Provisional(agreed) if agreed.dead => format!(
            "{} is missed by those who can be asked for {} ticks, and no anchor answers: left out of this node's map",
            agreed.node, agreed.missed
        ),
        Decided::Provisional(agreed) => {
            format!("{} is no more held to be dead by this node alone", agreed.node)
        }
    }
}

fn explanation(context: &Context, report: &Report) -> String {
    let decision = &report.decision;
    let kind = match (report.pulse, decision.blind) {
        (Pulse::Grace, _) => {
            "grace: first after a boot, a long gap or a lost tick.json; accuses nobody"
        }
        (_, true) => {
            "blind: over half of the alive peers are unheard; a local network problem, accuses nobody"
        }
        (Pulse::Early, _) => "early: sooner than half an interval; suspicions do not age",
        (Pulse::Counted, _) => "counted",
    };
    let mut text =
        format!("tick {} ({kind}), journal {} lines\n", decision.memory.tick, report.size);
    for heard in &report.heard {
        let id = &heard.listed.id;
        let seen = seen(&heard.outcome, &heard.reason);
        text.push_str(&format!(
            "  {id}: {seen}: {}\n",
            reason(context, report, &Subject::node(id))
        ));
    }
    let rows: Vec<&NodeId> = report.heard.iter().map(|heard| &heard.listed.id).collect();
    for (subject, contact) in &report.contacts {
        if subject.service.is_none() && rows.contains(&&subject.node) {
            continue;
        }
        let why = match &contact.outcome {
            Outcome::Failed { reason, .. } => reason.as_str(),
            Outcome::Answered { .. } => "",
        };
        let seen = seen(&contact.outcome, why);
        let broken =
            if contact.path_is_broken() { ", but it speaks: the way to it is broken" } else { "" };
        let helped = helped(contact) + broken;
        text.push_str(&format!(
            "  {subject}: {seen}{helped}: {}\n",
            reason(context, report, subject)
        ));
    }
    text
}

fn seen(outcome: &Outcome, why: &str) -> String {
    match outcome {
        Outcome::Answered { http, ms } => format!("answered {http} in {ms} ms"),
        Outcome::Failed { heard: true, .. } => format!("no answer ({why}; heard)"),
        Outcome::Failed { heard: false, .. } => format!("no answer ({why}; not heard)"),
    }
}

fn helped(contact: &Contact) -> String {
    let said = |help: &Help| match help.said {
        Said::Reached => format!(", {} reached it", help.helper),
        Said::CouldNot => format!(", {} could not either", help.helper),
        Said::Silent => format!(", {} was silent", help.helper),
    };
    contact.helped.iter().map(said).collect()
}

/// Why nothing more happened to this subject.
fn reason(context: &Context, report: &Report, subject: &Subject) -> String {
    let Some(member) = report.membership.member(&subject.node) else {
        return "not in the journal".to_owned();
    };
    let new = report.decision.verdicts.iter().find(|verdict| verdict.subject == *subject);
    if let Some(verdict) = new {
        return format!("now {}, by {}", verdict.to.liveness.word(), verdict.rule.name());
    }
    let open = report.decision.memory.suspects.get(subject);
    let held = match &subject.service {
        Some(name) => member.liveness_of(name),
        None => member.standing.liveness,
    };
    match (held, open) {
        (Liveness::Suspect, Some(open)) => {
            let accusers: Vec<&str> = open.accusers.iter().map(NodeId::as_str).collect();
            let memory = &report.decision.memory;
            let members = report.membership.present() as u64;
            let needed = needed(&context.config.profile, members, (memory, open));
            format!(
                "suspect for {} of {needed} failed healthy ticks, missed by {}",
                open.ticks,
                accusers.join(" ")
            )
        }
        (liveness, _) => format!("stays {}", liveness.word()),
    }
}
