//! `why`: the story of one member, from its lines and the evidence in them.

use super::context::Context;
use super::{Ending, log, print};
use crate::cli::Why;
use crate::cycle::publish::rfc3339;
use crate::error::{Failure, Kind};
use crate::journal::record::{Evidence, Record, VerdictRecord};
use crate::protocol::contact::Said;
use crate::protocol::member::{Liveness, NodeId};
use crate::protocol::membership::Member;
use crate::protocol::memory::Memory;
use crate::protocol::probe::Outcome;
use crate::protocol::subject::Subject;
use crate::protocol::verdict::needed;
use crate::store::view::{Placed, View};

pub(super) fn run(context: &Context, typed: &Why) -> Ending {
    let view = View::open(context.disk())?;
    let id = NodeId::parse(&typed.node)
        .map_err(|error| Failure::new(Kind::Usage, format!("NODE: {error}")))?;
    let Some(member) = view.fold.membership.member(&id) else {
        anyhow::bail!(
            Failure::new(Kind::No, format!("no published line is about '{id}'"))
                .hint("crowny-fed status lists the members")
        );
    };
    let lines = view.newest(typed.last, Some(&id))?;
    if typed.json {
        let objects: String = lines.iter().map(log::as_json).collect();
        print::out(&objects)?;
        return Ok(None);
    }
    let memory: Option<Memory> = context
        .disk()
        .read(&context.config.layout.tick())?
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let mut story = standing(&id, member);
    if let Some(memory) = &memory {
        story.push_str(&doubts(context, &view, (&id, member, memory)));
    }
    story.push_str("\nwhat happened, oldest first:\n");
    for placed in &lines {
        story.push_str(&told(placed));
    }
    print::out(&story)?;
    Ok(None)
}

fn standing(id: &NodeId, member: &Member) -> String {
    let Member { standing, enrolled, .. } = member;
    let kind =
        if *enrolled { "member with a key of its own" } else { "row of the anchor's roster" };
    let mut text = format!(
        "{id} is {} at incarnation {}, a {kind}, since line {}\n",
        standing.liveness.word(),
        standing.incarnation.value(),
        member.changed_at
    );
    for offer in member.offers() {
        text.push_str(&format!(
            "  {}: {} at {}\n",
            offer.name,
            member.liveness_of(&offer.name).word(),
            offer.url
        ));
    }
    if member.reaped {
        text.push_str("  it counts no more, and is asked from time to time\n");
    }
    text
}

/// What this machine's own last ticks say, which no line does.
fn doubts(
    context: &Context,
    view: &View<'_>,
    (id, member, memory): (&NodeId, &Member, &Memory),
) -> String {
    let mut text = String::new();
    let members = view.fold.membership.present() as u64;
    for (subject, open) in memory.suspects.iter().filter(|(subject, _)| subject.node == *id) {
        let needed = needed(&context.config.profile, members, (memory, open));
        text.push_str(&format!(
            "  {subject} has failed in {} of {needed} healthy ticks; missed by {}\n",
            open.ticks,
            names(open.accusers.iter())
        ));
    }
    if memory.blind_ticks > 0 {
        text.push_str(&format!(
            "  this observer hears too little for {} ticks and accuses nobody\n",
            memory.blind_ticks
        ));
    }
    if memory.reach.unreachable.contains(id) {
        text.push_str("  unreachable-here: left out of this node's own map\n");
    } else if let Some(silent) = memory.reach.silent.get(id) {
        text.push_str(&format!("  it did not answer this node in its last {silent} ticks\n"));
    }
    if let (Some(seen), true) = (memory.observed.get(id), member.enrolled) {
        let ago = memory.tick.saturating_sub(seen.tick);
        text.push_str(&format!("  its own last observation came {ago} ticks ago\n"));
    }
    text
}

fn told(placed: &Placed) -> String {
    let line = &placed.line;
    let what = match Record::of(line) {
        Record::Verdict(verdict) => verdict_told(&verdict),
        Record::Register(register) => format!(
            "it said itself that it lives, at incarnation {}, with {} services",
            register.incarnation.value(),
            register.services.len()
        ),
        _ => log::told(placed),
    };
    format!("  line {:<5} {}  {what}\n", line.seq, rfc3339(line.ts * 1_000))
}

fn verdict_told(verdict: &VerdictRecord) -> String {
    let subject = Subject { node: verdict.node.clone(), service: verdict.service.clone() };
    let mut text = format!("{subject}: {} -> {}", verdict.from.word(), verdict.to.word());
    text.push_str(&match verdict.to {
        Liveness::Dead => format!(
            ", having failed in {} of {} healthy ticks up to tick {}",
            verdict.waited, verdict.needed, verdict.tick
        ),
        _ => format!(" in tick {}", verdict.tick),
    });
    text.push_str(&evidence_told(&verdict.evidence));
    for (service, heirs) in &verdict.heirs {
        text.push_str(&format!("\n      {service} goes to {}", names(heirs.iter())));
    }
    for service in &verdict.no_heir {
        text.push_str(&format!("\n      {service} has no heir: its last row stays in the map"));
    }
    text
}

fn evidence_told(evidence: &Evidence) -> String {
    let mut text = match &evidence.probe {
        Some(Outcome::Answered { http, ms }) => {
            format!("\n      {} answered {http} in {ms} ms", evidence.target)
        }
        Some(Outcome::Failed { reason, ms, .. }) => {
            format!("\n      {} did not answer: {reason}, after {ms} ms", evidence.target)
        }
        None => "\n      the anchor had not asked it in that tick".to_owned(),
    };
    for help in &evidence.helped {
        text.push_str(&match (help.said, &help.reason) {
            (Said::Reached, _) => format!("\n      {} reached it", help.helper),
            (Said::CouldNot, Some(why)) => {
                format!("\n      {} could not either: {why}", help.helper)
            }
            (Said::CouldNot, None) => format!("\n      {} could not either", help.helper),
            (Said::Silent, _) => format!("\n      {} was asked and silent", help.helper),
        });
    }
    if !evidence.accusers.is_empty() {
        text.push_str(&format!("\n      missed by {}", names(evidence.accusers.iter())));
    }
    let quoted = evidence.observations.len() + evidence.observation_hashes.len();
    if quoted > 0 {
        text.push_str(&format!("\n      signed observations in the line: {quoted}"));
    }
    text
}

fn names<'a>(ids: impl Iterator<Item = &'a NodeId>) -> String {
    let ids: Vec<&str> = ids.map(NodeId::as_str).collect();
    ids.join(" ")
}
