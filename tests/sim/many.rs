//! Whole federations under every mishap at once: what may never happen is looked for after every
//! step, and what has to happen once all mishaps are over.

use crate::federation::{Federation, INTERVAL_MS};
use crate::{lies, seeds};
use crowny_fed::protocol::member::NodeId;

/// Rounds of mishaps, and rounds within which everything is well again.
const TROUBLED: std::ops::Range<u64> = 4..12;
const HEALING: usize = 8;
/// Short, so that members are reaped and come back within a run.
const SETTINGS: &str = "alpha = 2.0\nbeta = 3.0\nreap_ticks = 6\n";

#[test]
fn members_agree_again_after_any_mix_of_mishaps() {
    seeds::on_all_cores((200, 10_000), run);
}

#[test]
fn the_same_seed_gives_the_same_federation() {
    let journal = |seed| {
        let mut federation = begun(seed);
        (0..6).for_each(|_| round(&mut federation));
        crate::checks::journal(&federation.members[0].host)
    };
    assert_eq!(journal(3), journal(3));
    assert_ne!(journal(3), journal(4));
}

fn begun(seed: u64) -> Federation {
    let mut federation = Federation::found(seed, SETTINGS);
    let members = 2 + federation.world.below(3);
    for _ in 0..members {
        let hmac = federation.world.below(3) == 0;
        federation.join(hmac, SETTINGS);
    }
    let rows: Vec<usize> = (1..=federation.world.below(3) as usize).collect();
    federation.list(&rows);
    federation
}

fn run(seed: u64) {
    let mut federation = begun(seed);
    let troubled = federation.world.below(TROUBLED.end - TROUBLED.start);
    for _ in 0..TROUBLED.start + troubled {
        round(&mut federation);
    }
    federation.heal();
    let mut last = Ok(());
    for healing in 0..HEALING {
        for at in 0..federation.members.len() {
            if let Err(failure) = federation.try_tick(at) {
                let id = &federation.members[at].id;
                panic!("SEED={seed}: {id} in round {healing} after all is well: {failure}");
            }
            if !federation.members[at].announced && !federation.members[at].left {
                let _ = federation.announce(at);
            }
        }
        federation.world.pass(INTERVAL_MS);
        last = federation.converged();
        if last.is_ok() && healing > 1 {
            break;
        }
    }
    last.unwrap_or_else(|why| panic!("SEED={seed}: {HEALING} ticks after all is well: {why}"));
    for member in &federation.members {
        crate::checks::whole(&member.host, seed);
    }
}

/// Mishaps, then a tick of everybody who can, in any order.
fn round(federation: &mut Federation) {
    for _ in 0..=federation.world.below(2) {
        federation.trouble();
    }
    let mut order: Vec<usize> = (0..federation.members.len()).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, federation.world.below(last as u64 + 1) as usize);
    }
    for at in order {
        federation.world.pass(federation.world.below(5_000));
        federation.world.deliver_late();
        let host = &federation.members[at].host;
        if !host.is_paused() {
            federation.tick(at);
            lie(federation, at);
        }
        federation.restart_killed();
        federation.check();
    }
    federation.world.pass(INTERVAL_MS);
}

/// A member that lies misses everybody, at whatever incarnation they are, and says it is well.
fn lie(federation: &mut Federation, at: usize) {
    if !federation.members[at].lies {
        return;
    }
    let ids: Vec<NodeId> = federation.members.iter().map(|member| member.id.clone()).collect();
    let whom: Vec<(NodeId, u64)> = ids
        .into_iter()
        .filter_map(|id| federation.history.standing(&id).map(|(_, inc)| (id, inc)))
        .collect();
    let anchor = federation.members[0].agent.clone();
    let health = if federation.world.below(3) == 0 { 8 } else { 0 };
    lies::observes(&federation.members[at].host, &whom, health, &anchor);
}
