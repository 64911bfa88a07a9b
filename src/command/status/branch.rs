//! What waits for an anchor, and what branches brought that does not agree.

use super::super::context::Context;
use crate::host::Host;
use crate::layout::DAMAGED_BRANCH;
use crate::protocol::member::NodeId;
use crate::protocol::membership::Member;
use crate::store::branch::Branch;
use crate::store::view::View;
use serde_json::{Value, json};

/// Lines that wait in `branch.ndjson`.
pub(super) fn waiting(context: &Context) -> usize {
    Branch::load(&context.disk()).map_or(0, |branch| branch.count())
}

/// Members that said two things at one incarnation, and which of them holds; and names that were
/// announced and are not routed.
pub(super) fn conflicts(view: &View<'_>) -> Vec<Value> {
    let one = |(id, member): (&NodeId, &Member)| {
        let withheld: Vec<String> =
            member.withheld().iter().map(|service| service.name.to_string()).collect();
        let losers: Vec<String> = member.rivals().map(ToString::to_string).collect();
        let some = !withheld.is_empty() || !losers.is_empty();
        some.then(|| {
            json!({
                "node": id,
                "incarnation": member.word().incarnation,
                "winner": member.word().digest,
                "losers": losers,
                "withheld": withheld,
            })
        })
    };
    view.fold.membership.members().filter_map(one).collect()
}

/// Branches that were found damaged when a journal gave way.
fn set_aside(context: &Context) -> Vec<String> {
    let names = context.host.names(context.config.layout.dir()).unwrap_or_default();
    let damaged = names.into_iter().filter(|name| name.starts_with(DAMAGED_BRANCH));
    damaged
        .map(|name| {
            format!("{name} holds lines that do not read; those that do are in branch.ndjson: remove it once you have seen what is lost")
        })
        .collect()
}

/// What of it an operator should know; `refused` where the last tick's post was, line by line.
pub(super) fn troubles(context: &Context, view: Option<&View<'_>>, refused: bool) -> Vec<String> {
    let mut troubles = Vec::new();
    match Branch::load(&context.disk()) {
        Ok(branch) => {
            troubles.extend(branch.damage(&context.disk()).map(|failure| failure.message));
            if !branch.is_empty() {
                let how = match refused {
                    true => "the anchor refused them: crowny-fed merge tells why",
                    false => "the next tick that reaches the anchor merges them",
                };
                let count = branch.count();
                troubles.push(format!("lines that wait in branch.ndjson: {count}; {how}"));
            }
        }
        Err(failure) => troubles.push(failure.message),
    }
    troubles.extend(set_aside(context));
    let members = view.into_iter().flat_map(|view| view.fold.membership.members());
    for (id, member) in members {
        let losers = member.rivals().count();
        if losers > 0 {
            troubles.push(format!(
                "{id} said {} things at incarnation {}: does a second machine run with its key? Its next register settles it",
                losers + 1,
                member.word().incarnation.value()
            ));
        }
        for service in member.withheld() {
            troubles.push(format!(
                "{id} offers {} without a right to the name, so it is not routed: crowny-fed grant {} {id}, and crowny-fed register there",
                service.name, service.name
            ));
        }
    }
    troubles
}
