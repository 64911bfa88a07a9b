//! Two federations whose members have the same names, and whose addresses are exchanged
//! (membership report 22: hashicorp/consul#843 and #260, redis#7287: two clusters became one).

use crate::federation::{Federation, INTERVAL_MS};
use crate::{checks, lies};
use crowny_fed::cycle::tick::Report;
use crowny_fed::sim::world::{Place, SimHost, World};
use crowny_fed::store::decisions::Decided;
use std::path::{Path, PathBuf};

/// A namesake's word is for another federation before it is anybody's: it is said so, whoever
/// signed it, and no file changes.
#[test]
fn a_word_for_another_federation_is_refused_before_anything_is_looked_at() {
    let world = World::new(1);
    let mut here = Federation::beside(&world, (1, ""), ("one.example/fed", 0));
    let mut there = Federation::beside(&world, (1, ""), ("other.example/fed", 4));
    here.join(false, "");
    there.join(false, "");
    let (host, at, anchor) = (&here.members[1].host, &there.members[0].agent, &there.members[0]);
    // Nobody needs a journal to say so.
    let journal = anchor.host.config().layout.journal();
    let held = checks::bytes(&anchor.host, &journal).unwrap();
    anchor.host.disk(|disk| disk.put(&journal, b"damaged\n"));
    let before = image(&anchor.host);
    for kind in ["register", "leave", "drain", "rotate", "observe", "q/ping-req"] {
        let payload = lies::claims(host).unwrap();
        let answer = lies::post(host, (kind, &payload), at).unwrap();
        let told = String::from_utf8_lossy(&answer.body);
        assert_eq!(answer.status, 400, "{kind}: {told}");
        assert!(told.contains("for another federation"), "{kind}: {told}");
    }
    let said = here.history.said_by(&here.members[1].id);
    let told = lies::replays(host, &said, at).unwrap();
    assert!(told.contains("for another federation"), "merge: {told}");
    assert_eq!(image(&anchor.host), before);
    anchor.host.disk(|disk| disk.put(&journal, &held));
    tick_all(&mut there);
}

fn image(host: &SimHost) -> Vec<(PathBuf, Vec<u8>)> {
    let copied = |(path, bytes): (&Path, &[u8])| (path.to_owned(), bytes.to_vec());
    host.disk(|disk| disk.files().map(copied).collect())
}

/// What comes from another federation is refused and told in one line of each question, nothing of
/// it is kept, and an anchor whose address a stranger took counts as away.
#[test]
fn exchanged_addresses_join_nobody_to_another_federation() {
    let world = World::new(1);
    let settings = "alpha = 2.0\n";
    let mut here = Federation::beside(&world, (1, settings), ("one.example/fed", 0));
    let mut there = Federation::beside(&world, (1, settings), ("other.example/fed", 4));
    for federation in [&mut here, &mut there] {
        for _ in 0..3 {
            federation.join(false, settings);
        }
    }
    // The journals are of different lengths: one is longer than what it is asked for, one shorter.
    there.announce(2).unwrap();
    for _ in 0..2 {
        tick_all(&mut here);
        tick_all(&mut there);
    }
    answer_at_each_other(&mut here, &mut there);
    let mut buries_the_anchor = 0;
    for _ in 0..12 {
        for federation in [&mut here, &mut there] {
            let reports = tick_all(federation);
            reports.iter().skip(1).for_each(|report| tells_once(federation, report));
            for report in &reports[1..] {
                buries_the_anchor += report.decided.iter().filter(|told| is_death(told)).count();
            }
        }
        keeps_nothing(&here, &there);
        keeps_nothing(&there, &here);
    }
    assert_eq!(buries_the_anchor, 6, "an anchor that is not there counts as one that answers");
    for federation in [&mut here, &mut there] {
        for member in &mut federation.members {
            let machine = member.host.name().to_owned();
            world.place(&member.agent, Place::Agent { machine });
            member.lies = false;
        }
    }
    for federation in [&mut here, &mut there] {
        for _ in 0..4 {
            tick_all(federation);
        }
        federation.converged().unwrap();
    }
}

fn is_death(told: &Decided) -> bool {
    matches!(told, Decided::Provisional(agreed) if agreed.dead && agreed.node.as_str() == "n1")
}

fn tick_all(federation: &mut Federation) -> Vec<Report> {
    let reports = (0..federation.members.len()).map(|at| federation.try_tick(at).unwrap());
    let reports = reports.collect();
    federation.world.pass(INTERVAL_MS);
    reports
}

/// From now on whoever asks one of them hears its namesake; nothing is true of what they are asked.
fn answer_at_each_other(here: &mut Federation, there: &mut Federation) {
    for (one, other) in here.members.iter_mut().zip(&mut there.members) {
        let agent = |name: &str| Place::Agent { machine: name.to_owned() };
        here.world.place(&one.agent, agent(other.host.name()));
        here.world.place(&other.agent, agent(one.host.name()));
        (one.lies, other.lies) = (true, true);
    }
}

/// One line of each address that was asked, which says what is wrong there.
fn tells_once(federation: &Federation, report: &Report) {
    let told: Vec<&String> =
        report.warnings.iter().filter(|warning| warning.contains(":9160")).collect();
    for member in &federation.members {
        let of: Vec<_> = told.iter().filter(|told| told.contains(&member.agent)).collect();
        assert!(of.len() <= 1, "{of:#?}");
    }
    let named = told.iter().all(|told| told.contains("another federation"));
    assert!(named && !told.is_empty(), "{told:#?}");
}

/// No file of anybody here holds a word of those there, and nobody is convicted of anything.
fn keeps_nothing(here: &Federation, there: &Federation) {
    for member in &here.members {
        let evidence = member.host.config().layout.evidence();
        member.host.disk(|disk| {
            for (path, bytes) in disk.files() {
                let text = String::from_utf8_lossy(bytes);
                assert!(!text.contains(&there.origin), "{}: {text}", path.display());
                assert!(!path.starts_with(&evidence), "{}: {text}", path.display());
            }
        });
    }
}
