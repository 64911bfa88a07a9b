//! Whole nodes, whole ticks, one seed: gateways watch each other through faults of disk, network,
//! clock and power; three with a roster each, and federations of an anchor and its members.
//! `SEED=7 cargo test --test sim` replays one run.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic, unreachable_pub)] // tests meet the world and panic to fail

mod checks;
mod cuts;
mod federation;
mod growth;
mod lies;
mod many;
mod merging;
mod properties;
mod scenario;
mod seeds;
mod swapped;
mod three;

use checks::Published;
use crowny_fed::cycle::tick::Ended;
use crowny_fed::protocol::member::Liveness;
use three::{Three, tick};

#[test]
fn three_nodes_agree_again_after_any_mix_of_faults() {
    seeds::on_all_cores((24, 3_000), agree_again);
}

fn agree_again(seed: u64) {
    let three = Three::found(seed);
    let mut published: Vec<Published> = three.hosts.iter().map(|_| Published::default()).collect();
    for _ in 0..40 {
        three.trouble();
        for (host, seen) in three.hosts.iter().zip(&mut published) {
            let _ = tick(host);
            if host.disk(|disk| disk.was_killed()) {
                host.reboot(three.world.below(2) == 0);
            }
            seen.only_grew(host, seed);
        }
        three.world.pass(30_000);
    }
    three.heal();
    for _ in 0..12 {
        for host in &three.hosts {
            tick(host).unwrap_or_else(|failure| panic!("SEED={seed}: {failure}"));
        }
        three.world.pass(30_000);
    }
    for (host, seen) in three.hosts.iter().zip(&mut published) {
        seen.only_grew(host, seed);
        checks::whole(host, seed);
        checks::all_alive(host, seed);
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let journal = |seed| {
        let three = Three::found(seed);
        for _ in 0..20 {
            three.trouble();
            for host in &three.hosts {
                let _ = tick(host);
                if host.disk(|disk| disk.was_killed()) {
                    host.reboot(true);
                }
            }
            three.world.pass(30_000);
        }
        checks::journal(&three.hosts[0])
    };
    assert_eq!(journal(5), journal(5));
    assert_ne!(journal(5), journal(6));
}

/// O-36: an observer whose own network is gone accuses nobody, however long it lasts.
#[test]
fn an_observer_without_a_network_buries_nobody_and_recovers_at_once() {
    let three = Three::found(1);
    tick(&three.hosts[0]).unwrap();
    for other in &three.names[1..] {
        three.world.link(&three.names[0], other, false);
    }
    for _ in 0..40 {
        three.world.pass(30_000);
        let Ended::Done(report) = tick(&three.hosts[0]).unwrap() else { panic!("locked") };
        assert!(report.decision.blind && report.decision.verdicts.is_empty());
    }
    assert!(checks::map(&three.hosts[0]).contains("|alive|"));
    three.heal();
    three.world.pass(30_000);
    let Ended::Done(report) = tick(&three.hosts[0]).unwrap() else { panic!("locked") };
    assert!(!report.decision.blind);
    checks::all_alive(&three.hosts[0], 1);
}

/// A machine that slept wakes to silent peers: the first tick only listens.
#[test]
fn a_long_sleep_ages_nobody() {
    let three = Three::found(2);
    for _ in 0..10 {
        three.world.pass(30_000);
        tick(&three.hosts[0]).unwrap();
    }
    three.hosts[1].serve(false);
    three.world.pass(50 * 30_000);
    let Ended::Done(report) = tick(&three.hosts[0]).unwrap() else { panic!("locked") };
    assert!(report.decision.verdicts.is_empty(), "{:?}", report.decision.verdicts);
    three.world.pass(30_000);
    let Ended::Done(report) = tick(&three.hosts[0]).unwrap() else { panic!("locked") };
    assert_eq!(report.decision.verdicts.len(), 1);
    assert_eq!(report.decision.verdicts[0].to.liveness, Liveness::Suspect);
}

/// Wall clocks decide nothing: the journal of a run with a jumping clock has the same verdicts.
#[test]
fn a_jumping_wall_clock_changes_no_verdict() {
    let verdicts = |steps: &[i64]| {
        let three = Three::found(3);
        let mut told = Vec::new();
        for (round, step) in (0..).zip(steps.iter().cycle().take(24)) {
            three.hosts[0].step_clock(*step);
            three.hosts[1].serve(!(4..14).contains(&round));
            let Ended::Done(report) = tick(&three.hosts[0]).unwrap() else { panic!("locked") };
            told.extend(report.decision.verdicts);
            three.world.pass(30_000);
        }
        checks::whole(&three.hosts[0], 3);
        told
    };
    let steady = verdicts(&[0]);
    assert!(steady.iter().any(|verdict| verdict.to.liveness == Liveness::Dead));
    assert_eq!(steady, verdicts(&[-86_400_000, 63_072_000_000, -1_700_000_000_000, 400_000]));
}
