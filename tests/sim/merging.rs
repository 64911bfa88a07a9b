//! Branches held against every order in which they can come home, drawn from seeds.
//!
//! The journal before them is one, for the anchor fixed its order: registrations, grants, verdicts, a
//! goodbye. Then three branches of up to three lines, among them words of one incarnation from two
//! machines with one name, and lines that several branches share.

use crate::seeds;
use crowny_fed::journal::chain::Tip;
use crowny_fed::journal::line::{Author, Line, VERSION};
use crowny_fed::journal::merged::Merged;
use crowny_fed::journal::record::{
    Drain, Enroll, Grant, Leave, Reap, Record, Register, Revoke, VerdictRecord,
};
use crowny_fed::journal::replay::Fold;
use crowny_fed::protocol::member::{Incarnation, Liveness, NodeId};
use crowny_fed::protocol::route::{Local, routes};
use crowny_fed::protocol::service::{Service, ServiceName};
use crowny_fed::sim::chance::Chance;
use crowny_fed::wire::routes::render_rows;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const ORIGIN: &str = "sim.example/fed";
const NODES: [&str; 4] = ["a", "b", "c", "d"];
const NAMES: [&str; 3] = ["api", "shop", "web"];

fn id(name: &str) -> NodeId {
    NodeId::parse(name).unwrap()
}

fn inc(value: u64) -> Incarnation {
    Incarnation::new(value).unwrap()
}

/// A journal's fold with the place of its next line.
#[derive(Clone)]
struct Journal {
    fold: Fold,
    tip: Tip,
}

impl Journal {
    fn new() -> Journal {
        Journal { fold: Fold::default(), tip: Tip::origin(ORIGIN) }
    }

    fn add(&mut self, record: &Record) {
        self.apply(record.kind(), record.payload());
    }

    fn merge(&mut self, merged: &Merged) {
        self.apply("merged", merged.payload());
    }

    fn apply(&mut self, kind: &str, payload: String) {
        let line = line(kind, payload, (self.tip.size, None));
        self.fold.apply(&line);
        self.tip.size += 1;
    }

    /// Everything that may differ between two members is different bytes here; at which line it
    /// came to be so may.
    fn view(&self) -> String {
        let mut text = render_rows(&routes(&self.fold.membership, &Local::default(), 0));
        for (node, member) in self.fold.membership.members() {
            let rivals: Vec<String> = member.rivals().map(ToString::to_string).collect();
            writeln!(
                text,
                "{node} {:?} {:?} {:?} {:?} {:?} {rivals:?} {:?} {:?} {:?} {} {} {}",
                member.standing,
                member.urls,
                member.services,
                member.withheld(),
                member.word(),
                member.drain,
                member.drain_word(),
                member.doubted.keys().collect::<Vec<_>>(),
                member.outbound,
                member.registered,
                member.reaped,
            )
            .unwrap();
        }
        text
    }
}

fn line(kind: &str, payload: String, (seq, author): (u64, Option<Author>)) -> Line {
    let prev = Tip::origin(ORIGIN).head;
    Line { author, payload, prev, seq, ts: 1_000, kind: kind.to_owned(), version: VERSION }
}

fn services(chance: &mut Chance, node: &str) -> Vec<Service> {
    let mut names: Vec<&str> = NAMES.iter().copied().filter(|_| chance.below(2) == 0).collect();
    chance.shuffle(&mut names);
    let at = |name| format!("{name}=http://{node}.example:{}", 80 + chance.below(3));
    names.into_iter().map(at).map(|text| Service::parse(&text).unwrap()).collect()
}

fn register(chance: &mut Chance, (node, incarnation): (&str, u64)) -> Record {
    let services = services(chance, node);
    said(chance, (node, incarnation), services)
}

fn said(chance: &mut Chance, (node, value): (&str, u64), services: Vec<Service>) -> Record {
    Record::Register(Register {
        origin: ORIGIN.to_owned(),
        node: id(node),
        nonce: format!("{:032x}", chance.word()),
        ts: 7,
        mode: "ed25519".to_owned(),
        incarnation: inc(value),
        urls: vec![format!("http://{node}.example:{}", 9_000 + chance.below(2))],
        services,
        reach: "inbound".to_owned(),
        tags: BTreeMap::new(),
    })
}

fn leave(chance: &mut Chance, (node, value): (&str, u64)) -> Record {
    Record::Leave(Leave {
        origin: ORIGIN.to_owned(),
        node: id(node),
        nonce: format!("{:032x}", chance.word()),
        ts: 7,
        mode: "ed25519".to_owned(),
        incarnation: inc(value),
    })
}

fn drain(chance: &mut Chance, (node, value): (&str, u64)) -> Record {
    Record::Drain(Drain {
        origin: ORIGIN.to_owned(),
        node: id(node),
        nonce: format!("{:032x}", chance.word()),
        ts: 7,
        mode: "ed25519".to_owned(),
        incarnation: Some(inc(value)),
        on: chance.below(2) == 0,
        until: None,
    })
}

fn verdict(node: &str, (service, to): (Option<&str>, Liveness), value: u64) -> Record {
    Record::Verdict(VerdictRecord {
        node: id(node),
        service: service.map(|name| ServiceName::parse(name).unwrap()),
        inc: inc(value),
        from: Liveness::Alive,
        to,
        rule: "probe-failed".to_owned(),
        waited: 0,
        needed: 1,
        tick: 1,
        evidence: Default::default(),
        heirs: BTreeMap::new(),
        no_heir: Vec::new(),
    })
}

/// What the anchor wrote before it went away.
fn prefix(chance: &mut Chance) -> Journal {
    let mut journal = Journal::new();
    for node in NODES {
        let (alg, kid) = ("ed25519".to_owned(), "00000000".to_owned());
        let services = Vec::new();
        let (key, invite, nonce) = (None, None, None);
        let node = id(node);
        journal.add(&Record::Enroll(Enroll { node, alg, kid, key, invite, nonce, services }));
    }
    for _ in 0..4 + chance.below(8) {
        let node = NODES[chance.below(4) as usize];
        let name = NAMES[chance.below(3) as usize];
        let value = 1 + chance.below(4);
        let record = match chance.below(9) {
            0..4 => register(chance, (node, value)),
            4 => leave(chance, (node, value)),
            5 => {
                let service = ServiceName::parse(name).unwrap();
                Record::Grant(Grant { service, node: id(node), on: chance.below(3) > 0 })
            }
            6 => verdict(node, (Some(name), Liveness::Suspect), value),
            7 => verdict(node, (None, Liveness::Dead), value),
            _ => drain(chance, (node, value)),
        };
        journal.add(&record);
    }
    journal
}

/// One word as it stands in a branch.
fn word(chance: &mut Chance, before: &[Merged]) -> Merged {
    if !before.is_empty() && chance.below(4) == 0 {
        // Lines that several branches share.
        return before[chance.below(before.len() as u64) as usize].clone();
    }
    let (node, value) = (NODES[chance.below(4) as usize], 1 + chance.below(6));
    let record = match chance.below(8) {
        0..5 => register(chance, (node, value)),
        5 => leave(chance, (node, value)),
        _ => drain(chance, (node, value)),
    };
    branched(&record)
}

/// A record as a line of a branch; whose signature it is, the fold does not ask.
fn branched(record: &Record) -> Merged {
    let text = || "x".to_owned();
    let author = Author { alg: text(), kid: text(), sig: text() };
    Merged::of(line(record.kind(), record.payload(), (9, Some(author)))).unwrap()
}

fn branches(chance: &mut Chance) -> [Vec<Merged>; 3] {
    let mut all: Vec<Merged> = Vec::new();
    std::array::from_fn(|_| {
        let count = 1 + chance.below(3);
        let mut branch = Vec::new();
        for _ in 0..count {
            let next = word(chance, &all);
            all.push(next.clone());
            branch.push(next);
        }
        branch
    })
}

/// Every way to come home: each branch in its order, anything between. Returns how many there were.
fn interleave(journal: &Journal, at: [usize; 3], of: (&[Vec<Merged>; 3], &mut Vec<String>)) -> u64 {
    let (branches, views) = of;
    let mut ways = 0;
    for nth in 0..3 {
        let Some(next) = branches[nth].get(at[nth]) else { continue };
        let mut journal = journal.clone();
        journal.merge(next);
        let mut at = at;
        at[nth] += 1;
        ways += interleave(&journal, at, (branches, views));
    }
    if ways > 0 {
        return ways;
    }
    let view = journal.view();
    if !views.contains(&view) {
        views.push(view);
    }
    1
}

#[test]
fn branches_end_the_same_in_every_order_and_as_often_as_one_likes() {
    seeds::on_all_cores((60, 3_000), |seed| {
        let mut chance = Chance::new(seed);
        let journal = prefix(&mut chance);
        let branches = branches(&mut chance);
        let mut views = Vec::new();
        let ways = interleave(&journal, [0; 3], (&branches, &mut views));
        assert!(ways >= 6, "SEED={seed}");
        assert_eq!(views.len(), 1, "SEED={seed}: {ways} ways end in {views:#?}");
        let mut words: Vec<&Merged> = branches.iter().flatten().collect();
        for _ in 0..20 {
            // Out of their own order too, and more than once: others may bring single lines.
            let mut again = journal.clone();
            let doubled = words.clone();
            words.iter().chain(&doubled).for_each(|merged| again.merge(merged));
            assert_eq!(again.view(), views[0], "SEED={seed}");
            chance.shuffle(&mut words);
        }
    });
}

/// What is in the journal is known to be there, and what would change nothing is known to change
/// nothing.
#[test]
fn what_is_held_or_outdone_changes_nothing() {
    seeds::on_all_cores((60, 3_000), |seed| {
        let mut chance = Chance::new(seed);
        let mut journal = prefix(&mut chance);
        let words: Vec<Merged> = branches(&mut chance).into_iter().flatten().collect();
        for merged in words.iter().chain(&words) {
            let before = journal.view();
            let known = journal.fold.holds(merged).is_some() || journal.fold.outdoes(merged);
            journal.merge(merged);
            assert!(!known || journal.view() == before, "SEED={seed}: {merged:?}");
            assert_eq!(journal.fold.holds(merged), Some(journal.tip.size - 1), "SEED={seed}");
        }
    });
}

/// O-37: who is gone is not brought back by an older word.
#[test]
fn no_older_word_brings_back_who_is_gone() {
    for liveness in [Liveness::Left, Liveness::Dead, Liveness::Revoked] {
        let mut chance = Chance::new(1);
        let mut journal = prefix(&mut Chance::new(4));
        journal.add(&register(&mut chance, ("a", 20)));
        match liveness {
            Liveness::Left => journal.add(&leave(&mut chance, ("a", 20))),
            Liveness::Dead => {
                journal.add(&verdict("a", (None, Liveness::Dead), 20));
                journal.add(&Record::Reap(Reap { node: id("a"), inc: inc(20), ticks: 9, tick: 9 }));
            }
            _ => journal.add(&Record::Revoke(Revoke { node: id("a"), kid: "00000000".into() })),
        }
        let before = journal.fold.membership.member(&id("a")).unwrap().clone();
        for value in [5, 19, 20, if liveness == Liveness::Revoked { 21 } else { 20 }] {
            let record = register(&mut chance, ("a", value));
            journal.merge(&branched(&record));
        }
        let after = journal.fold.membership.member(&id("a")).unwrap();
        assert_eq!((after.standing, after.reaped), (before.standing, before.reaped));
    }
}

/// A branch never takes a name: not one that another serves, not one that nobody has.
#[test]
fn a_name_comes_from_the_anchor_alone() {
    let mut chance = Chance::new(2);
    let mut journal = Journal::new();
    let of =
        |name: &str, node: &str| vec![Service::parse(&format!("{name}=http://{node}:80")).unwrap()];
    for node in ["a", "b"] {
        let (alg, kid) = ("ed25519".to_owned(), "00000000".to_owned());
        let node = id(node);
        journal.add(&Record::Enroll(Enroll {
            node,
            alg,
            kid,
            key: None,
            invite: None,
            nonce: None,
            services: Vec::new(),
        }));
    }
    journal.add(&said(&mut chance, ("a", 1), of("api", "a")));
    journal.add(&said(&mut chance, ("b", 1), of("web", "b")));
    let mut branch = |journal: &mut Journal, node: &str, value: u64, services| {
        let record = said(&mut chance, (node, value), services);
        journal.merge(&branched(&record));
        let member = journal.fold.membership.member(&id(node)).unwrap();
        let names = |held: &[Service]| -> Vec<String> {
            held.iter().map(|service| service.name.to_string()).collect()
        };
        (names(&member.services), names(member.withheld()))
    };
    let both = [of("api", "b"), of("web", "b"), of("new", "b")].concat();
    assert_eq!(
        branch(&mut journal, "b", 2, both),
        (vec!["web".to_owned()], vec!["api".to_owned(), "new".to_owned()])
    );
    assert_eq!(branch(&mut journal, "b", 3, of("api", "b")).0, Vec::<String>::new());
    // One that went to somebody else with the anchor is its no more.
    journal.add(&Record::Leave(Leave {
        origin: ORIGIN.to_owned(),
        node: id("a"),
        nonce: "0".repeat(32),
        ts: 7,
        mode: "ed25519".to_owned(),
        incarnation: inc(1),
    }));
    let mut chance = Chance::new(3);
    journal.add(&said(&mut chance, ("b", 4), of("api", "b")));
    assert_eq!(branch(&mut journal, "a", 5, of("api", "a")), (Vec::new(), vec!["api".to_owned()]));
    assert_eq!(branch(&mut journal, "b", 5, of("api", "b")).0, ["api"]);
}
