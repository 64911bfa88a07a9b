//! How things are told in a trace.

use crowny_fed::cycle::tick::Report;
use crowny_fed::journal::record::{Record, VerdictRecord};
use crowny_fed::protocol::blind::Pulse;
use crowny_fed::protocol::member::{Liveness, NodeId};
use crowny_fed::store::decisions::Decided;

/// One journal line, for people.
pub fn record(told: &Record) -> String {
    match told {
        Record::Merge(merge) => format!("merge by {}, {} lines", merge.node, merge.count),
        Record::Merged(merged) => format!("merged {}", record(&merged.said)),
        Record::Enroll(enroll) => format!("enroll {} {}", enroll.node, enroll.alg),
        Record::Register(register) => {
            format!("register {}@{}", register.node, register.incarnation.value())
        }
        Record::Leave(leave) => format!("leave {}@{}", leave.node, leave.incarnation.value()),
        Record::Revoke(revoke) => format!("revoke {}", revoke.node),
        Record::Roster(roster) => match &roster.row {
            Some(row) => format!(
                "roster {}@{} {}:{} {}",
                roster.node,
                roster.inc.value(),
                row.host,
                row.port,
                row.state
            ),
            None => format!("roster {}@{} left", roster.node, roster.inc.value()),
        },
        Record::Verdict(told) => verdict(told),
        Record::Reap(reap) => format!("reap {}@{}", reap.node, reap.inc.value()),
        other => other.kind().to_owned(),
    }
}

fn verdict(told: &VerdictRecord) -> String {
    let subject = match &told.service {
        Some(service) => format!("{}|{service}", told.node),
        None => told.node.to_string(),
    };
    let mut text = format!("{subject} {}@{} {}", told.to.word(), told.inc.value(), told.rule);
    let names = |ids: &[NodeId]| ids.iter().map(NodeId::to_string).collect::<Vec<_>>().join(",");
    if told.to == Liveness::Alive {
        return text;
    }
    if let Some(crowny_fed::protocol::probe::Outcome::Failed { reason, .. }) = &told.evidence.probe
    {
        text.push_str(&format!(" ({reason})"));
    }
    text.push_str(&format!(" by {}", names(&told.evidence.accusers)));
    if told.to == Liveness::Dead {
        text.push_str(&format!(", {} of {} ticks", told.waited, told.needed));
        for (service, heirs) in &told.heirs {
            text.push_str(&format!(", {service} to {}", names(heirs)));
        }
        told.no_heir.iter().for_each(|service| text.push_str(&format!(", no heir of {service}")));
    }
    text
}

/// What a tick noticed beside its lines.
pub fn noticed(id: &NodeId, report: &Report) -> Vec<String> {
    let mut told = Vec::new();
    if report.pulse == Pulse::Grace {
        told.push(format!("{id}: a grace tick"));
    }
    if report.decision.blind {
        told.push(format!("{id}: blind"));
    }
    let held = report.decision.held.iter();
    told.extend(held.map(|subject| format!("{id}: the cap holds {subject}")));
    told.extend(report.decided.iter().map(|decided| {
        let (how, node) = match decided {
            Decided::Reach(change) if change.reachable => ("reaches", &change.node),
            Decided::Reach(change) => ("does without", &change.node),
            Decided::Provisional(agreed) if agreed.dead => ("agrees to be dead:", &agreed.node),
            Decided::Provisional(agreed) => ("holds dead no more:", &agreed.node),
        };
        format!("{id}: {how} {node}")
    }));
    let vain = report.warnings.iter().filter(|warning| warning.contains("in vain"));
    told.extend(vain.map(|warning| format!("{id}: {warning}")));
    told
}

/// The same line again is told once, with a count; what ticks notice, wherever in the block it was.
pub fn counted(lines: Vec<String>) -> Vec<String> {
    let mut counted: Vec<(String, usize)> = Vec::new();
    for line in lines {
        let noticed = line.contains(": ");
        let same = counted.iter().rposition(|(told, _)| *told == line);
        match same.filter(|at| noticed || at + 1 == counted.len()) {
            Some(at) => counted[at].1 += 1,
            None => counted.push((line, 1)),
        }
    }
    let told = |(line, count): (String, usize)| match count {
        1 => line,
        _ => format!("{line} (x{count})"),
    };
    counted.into_iter().map(told).collect()
}
