//! Every disk change of a run, disturbed in every way the model knows, on whole nodes: not done, done
//! and reported lost, killed before, within and after it, with the power going or staying. The next
//! ticks must bring everybody together again, and nothing that was answered may be gone.

use crate::federation::{Federation, INTERVAL_MS};
use crate::{checks, seeds};
use crowny_fed::cycle::handover;
use crowny_fed::cycle::merging::bring;
use crowny_fed::cycle::speaking::Word;
use crowny_fed::cycle::sync;
use crowny_fed::error::Failure;
use crowny_fed::host::{Change, Host};
use crowny_fed::sim::chance::Chance;
use crowny_fed::sim::disk::{Cut, FAULTS, Fault};
use crowny_fed::store::disk::Disk;

/// Rounds within which everything is well again.
const HEALING: usize = 4;
/// What the power does after the fault, each with a seed of its own. The first is what every
/// `make test` has time for.
const POWER: [(Option<Cut>, u64); 6] = [
    (Some(Cut::Lost), 1),
    (None, 1),
    (Some(Cut::Mixed), 1),
    (Some(Cut::Mixed), 2),
    (Some(Cut::Mixed), 3),
    (Some(Cut::Mixed), 4),
];
const SETTINGS: &str = "alpha = 2.0\nbeta = 3.0\n";

/// One run of one machine.
struct Run {
    name: &'static str,
    /// Whose disk is disturbed: the one that runs, or the anchor that answers.
    disturbed: usize,
    /// What happened before.
    before: fn(&mut Federation),
    run: fn(&mut Federation) -> Result<(), Failure>,
    /// Whether `make test` has time for it.
    smoke: bool,
}

const RUNS: [Run; 12] = [
    Run { name: "tick", disturbed: 0, before: a_row_comes, run: |all| tick(all, 0), smoke: true },
    Run {
        name: "tick of a member",
        disturbed: 1,
        before: anchor_moves_on,
        run: |all| tick(all, 1),
        smoke: false,
    },
    Run {
        name: "register",
        disturbed: 1,
        before: |_| {},
        run: |all| all.announce(1).map(drop),
        smoke: true,
    },
    Run {
        name: "register, at the anchor that answers",
        disturbed: 0,
        before: |_| {},
        run: |all| all.announce(1).map(drop),
        smoke: false,
    },
    Run {
        name: "register on the anchor",
        disturbed: 0,
        before: |_| {},
        run: |all| all.announce(0).map(drop),
        smoke: false,
    },
    Run {
        name: "sync",
        disturbed: 1,
        before: anchor_moves_on,
        run: |all| synced(all, 1),
        smoke: true,
    },
    Run {
        name: "rotate-key",
        disturbed: 1,
        before: |_| {},
        run: |all| all.say(1, &Word::RotateKey).map(drop),
        smoke: false,
    },
    Run {
        name: "rotate-key of a shared key",
        disturbed: 2,
        before: |_| {},
        run: |all| all.say(2, &Word::RotateKey).map(drop),
        smoke: false,
    },
    Run {
        name: "merge",
        disturbed: 1,
        before: words_are_kept,
        run: |all| merged(all, 1),
        smoke: false,
    },
    Run {
        name: "merge, at the anchor that answers",
        disturbed: 0,
        before: words_are_kept,
        run: |all| merged(all, 1),
        smoke: false,
    },
    Run {
        name: "tick that takes over",
        disturbed: 1,
        before: |all| handed_over(all).unwrap(),
        run: |all| tick(all, 1),
        smoke: false,
    },
    Run {
        name: "tick that rebuilds",
        disturbed: 0,
        before: |all| {
            a_row_comes(all);
            let host = &all.members[0].host;
            let layout = host.config().layout;
            for path in [&layout.index(), &layout.tile("0"), &layout.snapshot()] {
                host.change(Change::Remove { path }).unwrap();
            }
        },
        run: |all| tick(all, 0),
        smoke: false,
    },
];

#[test]
fn every_change_of_the_disk_lost_or_misreported_heals_by_itself() {
    let all = seeds::full();
    let only = std::env::var("CROWNY_FED_VERB").ok();
    let wanted = |run: &Run| only.as_ref().map_or(all || run.smoke, |name| name == run.name);
    for (at, run) in RUNS.iter().enumerate().filter(|(_, run)| wanted(run)) {
        let ways = if all { POWER.len() } else { 1 } * FAULTS.len();
        let cases: Vec<u64> =
            (0..ways as u64).map(|way| way * RUNS.len() as u64 + at as u64).collect();
        let places = seeds::each(cases, disturb_everywhere);
        let cut: u64 = places.iter().sum();
        println!("model {}: {cut} places, 0 losses, 0 operator actions", run.name);
    }
}

/// One run, one fault, one way of the power, at each change in turn. Returns how many there were.
fn disturb_everywhere(case: u64) -> u64 {
    let run = &RUNS[(case % RUNS.len() as u64) as usize];
    let way = (case / RUNS.len() as u64) as usize;
    let (fault, (cut, seed)) = (FAULTS[way % FAULTS.len()], POWER[way / FAULTS.len()]);
    for after in 0.. {
        let at = format!("{} {fault:?} after {after}, power {cut:?} {seed}", run.name);
        if !disturb(run, (fault, after), (cut, seed * 1_000 + after), &at) {
            assert!(after > 0, "{at}: it changes nothing");
            return after;
        }
    }
    0
}

/// Whether the fault was met.
fn disturb(
    run: &Run,
    (fault, after): (Fault, u64),
    (cut, seed): (Option<Cut>, u64),
    at: &str,
) -> bool {
    let mut all = begun(seed);
    (run.before)(&mut all);
    let host = all.members[run.disturbed].host.clone();
    host.disk(|disk| {
        disk.plan(after, fault);
        if let Some(cut) = cut {
            disk.plan_power(cut, Chance::new(seed));
        }
    });
    let ended = (run.run)(&mut all);
    let met = host.disk(|disk| disk.has_met());
    assert!(met || ended.is_ok(), "{at}: {ended:?}");
    host.reboot_after(cut);
    all.check();
    if after % 2 == 1 {
        // Whoever is quicker than the timer may be refused, and must do no harm.
        let _ = (run.run)(&mut all);
    }
    let mut last = Ok(());
    for healing in 0..HEALING {
        for member in 0..all.members.len() {
            all.try_tick(member).unwrap_or_else(|why| panic!("{at}: round {healing}: {why}"));
        }
        all.world.pass(INTERVAL_MS);
        last = all.converged();
        if last.is_ok() && healing > 0 {
            break;
        }
    }
    last.unwrap_or_else(|why| panic!("{at}: {HEALING} ticks later: {why}"));
    // The same word is taken again, and whoever was disturbed still has a key that is believed.
    (run.run)(&mut all).unwrap_or_else(|why| panic!("{at}: the same again: {why}"));
    let mut word = all.announce(run.disturbed);
    if word.as_ref().is_err_and(|why| why.to_string().contains("signed writes wait")) {
        // What the anchor before answered could be sent again for as long.
        all.world.pass(2 * INTERVAL_MS);
        word = all.announce(run.disturbed);
    }
    word.unwrap_or_else(|why| panic!("{at}: a word after it: {why}"));
    all.members.iter().for_each(|member| checks::whole(&member.host, seed));
    met
}

/// An anchor, a member that signs, one with a shared key, and two roster rows.
fn begun(seed: u64) -> Federation {
    let mut all = Federation::found(seed, SETTINGS);
    all.join(false, SETTINGS);
    all.join(true, SETTINGS);
    all.list(&[1, 2]);
    for _ in 0..2 {
        (0..all.members.len()).for_each(|at| drop(all.try_tick(at).unwrap()));
        all.world.pass(INTERVAL_MS);
    }
    all
}

/// The anchor's next tick has lines to write.
fn a_row_comes(all: &mut Federation) {
    all.list(&[1, 2, 3]);
}

/// The anchor has written what the members do not have yet.
fn anchor_moves_on(all: &mut Federation) {
    a_row_comes(all);
    tick(all, 0).unwrap();
    all.announce(2).map(drop).unwrap();
    all.world.pass(INTERVAL_MS / 2);
}

fn tick(all: &mut Federation, at: usize) -> Result<(), Failure> {
    all.try_tick(at).map(|_| ())
}

fn synced(all: &mut Federation, at: usize) -> Result<(), Failure> {
    let host = all.members[at].host.clone();
    let config = host.config();
    let disk = Disk { host: &host, layout: &config.layout };
    let run = sync::Run { until_boot_ms: u64::MAX, turn: 0, from: &[], progress: &|_, _| {} };
    let synced = sync::run(disk, &config, &run).map(|_| ());
    all.check();
    synced
}

/// Words of the first member that find no anchor, which is back afterwards.
fn words_are_kept(all: &mut Federation) {
    let (anchor, member) = (all.members[0].host.clone(), all.members[1].host.clone());
    all.world.link(member.name(), anchor.name(), false);
    for on in [true, false, true] {
        assert!(!all.say(1, &Word::Drain { on, for_s: None }).unwrap(), "an anchor answered");
    }
    all.world.link(member.name(), anchor.name(), true);
}

fn merged(all: &mut Federation, at: usize) -> Result<(), Failure> {
    let host = all.members[at].host.clone();
    let config = host.config();
    let disk = Disk { host: &host, layout: &config.layout };
    let run = sync::Run { until_boot_ms: u64::MAX, turn: 0, from: &[], progress: &|_, _| {} };
    let merging =
        sync::run(disk, &config, &run).and_then(|synced| bring(disk, &config, (synced, &run)));
    all.check();
    merging.map(|_| ())
}

/// The anchor names the first member.
fn handed_over(all: &mut Federation) -> Result<(), Failure> {
    let (anchor, next) = (all.members[0].host.clone(), all.members[1].host.clone());
    let offer = handover::offer(&next, &next.config())?;
    handover::hand_over(&anchor, &anchor.config(), (&offer, true))?;
    all.check();
    Ok(())
}
