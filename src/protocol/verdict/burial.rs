//! Who dies in a tick: whose suspicion is old enough, as far as the cap has room.

use super::{Asked, Decision, Round, Rule, asked, verdict};
use crate::protocol::caps::withdrawals_max;
use crate::protocol::contact::Sign;
use crate::protocol::heirs;
use crate::protocol::member::{Liveness, NodeId, Standing};
use crate::protocol::memory::{Memory, Suspicion};
use crate::protocol::profile::Profile;
use crate::protocol::suspicion;
use std::collections::BTreeSet;

/// Healthy failed ticks that a suspicion must last: Lifeguard's formula, longer for an observer
/// that distrusts itself, unless an operator vouches for what it sees. The first accuser is no
/// confirmation.
pub fn needed(profile: &Profile, members: u64, (memory, open): (&Memory, &Suspicion)) -> u64 {
    let confirmations = (open.accusers.len() as u64).saturating_sub(1);
    let ticks = suspicion::ticks(profile, members, confirmations);
    match profile.suspicion_ticks {
        Some(fixed) => fixed,
        None if memory.accept_loss => ticks,
        None => ticks.saturating_mul(1 + memory.health),
    }
}

pub(super) fn bury(round: &Round<'_>, decision: &mut Decision) {
    let memory = &decision.memory;
    let members = round.membership.present() as u64;
    let mut due: Vec<(u64, u64, Asked<'_>)> = asked(round)
        .filter(|asked| asked.is(Liveness::Suspect, Sign::Bad))
        .filter_map(|asked| {
            let open = memory.suspects.get(asked.subject)?;
            let needed = needed(round.profile, members, (memory, open));
            (open.ticks >= needed).then_some((open.ticks, needed, asked))
        })
        .collect();
    // The longest silent first; equal ages by id, so that every replay agrees.
    due.sort_by(|a, b| b.0.cmp(&a.0).then(a.2.subject.cmp(b.2.subject)));
    // What one node loses counts once: a gateway with many services is one gateway.
    let mut gone_from: BTreeSet<&NodeId> = BTreeSet::new();
    let most = match round.memory.accept_loss {
        true => usize::MAX,
        false => withdrawals_max(round.membership.routable()),
    };
    let (dying, held): (Vec<_>, Vec<_>) = due.into_iter().partition(|(_, _, asked)| {
        let node = &asked.subject.node;
        let room = gone_from.contains(node) || gone_from.len() < most;
        if room {
            gone_from.insert(node);
        }
        room
    });
    decision.held = held.iter().map(|(_, _, asked)| asked.subject.clone()).collect();
    let gone: Vec<&NodeId> = dying
        .iter()
        .filter(|(_, _, asked)| asked.subject.service.is_none())
        .map(|(_, _, asked)| &asked.subject.node)
        .collect();
    for (waited, needed, asked) in &dying {
        let to = Standing { liveness: Liveness::Dead, ..asked.standing };
        let mut dead = verdict(asked, to, (Rule::SuspicionExpired, *waited, *needed));
        if let Some(open) = decision.memory.suspects.get(asked.subject) {
            dead.accusers.clone_from(&open.accusers);
        }
        dead.heirs = heirs::of(asked.subject, &gone, round.membership);
        decision.verdicts.push(dead);
    }
}
