//! Rules held against any order, any repetition and any mix, drawn from seeds.

use crowny_fed::protocol::blind::Pulse;
use crowny_fed::protocol::contact::Contact;
use crowny_fed::protocol::member::{INTEGER_MAX, Incarnation, Liveness, NodeId, Standing};
use crowny_fed::protocol::membership::{Membership, Registration};
use crowny_fed::protocol::memory::{Beginning, Memory};
use crowny_fed::protocol::probe::Outcome;
use crowny_fed::protocol::profile::Profile;
use crowny_fed::protocol::service::Service;
use crowny_fed::protocol::subject::Subject;
use crowny_fed::protocol::suspicion;
use crowny_fed::protocol::verdict::{Round, Witnesses, decide};
use crowny_fed::sim::chance::Chance;
use std::collections::{BTreeMap, BTreeSet};

/// One thing told of the member `m`.
#[derive(Clone, Copy, Debug)]
enum Update {
    Registers(u64),
    Judged(Liveness, u64),
}

fn id(name: &str) -> NodeId {
    NodeId::parse(name).unwrap()
}

fn inc(value: u64) -> Incarnation {
    Incarnation::new(value).unwrap()
}

fn registration(node: &str, incarnation: u64) -> Registration {
    let at = format!("http://10.0.0.{}:80", incarnation % 200 + 1);
    Registration {
        node: id(node),
        incarnation: inc(incarnation),
        urls: vec![at.clone()],
        services: vec![Service::parse(&format!("web={at}")).unwrap()],
        outbound: false,
    }
}

impl Update {
    fn apply(self, membership: &mut Membership, seq: u64) {
        match self {
            Update::Registers(value) => membership.register(registration("m", value), seq),
            Update::Judged(liveness, value) => {
                let standing = Standing { liveness, incarnation: inc(value) };
                membership.judge(&id("m"), standing, seq);
            }
        }
    }
}

/// What the member has said, and what was said of it at numbers that it spoke of itself.
fn updates(chance: &mut Chance) -> Vec<Update> {
    let spoken: Vec<u64> = (0..=chance.below(4)).map(|_| chance.below(6)).collect();
    let mut updates: Vec<Update> = spoken.iter().map(|value| Update::Registers(*value)).collect();
    for _ in 0..chance.below(5) {
        let value = spoken[chance.below(spoken.len() as u64) as usize];
        let liveness = match chance.below(8) {
            0 => Liveness::Left,
            1 => Liveness::Revoked,
            2..5 => Liveness::Suspect,
            _ => Liveness::Dead,
        };
        updates.push(Update::Judged(liveness, value));
    }
    updates
}

/// Standing, address and offers after these updates in this order.
fn end(order: &[Update]) -> (Standing, Vec<String>, Vec<Service>) {
    let mut membership = Membership::default();
    membership.enrol(&id("m"), 0);
    for (seq, update) in (1..).zip(order) {
        update.apply(&mut membership, seq);
    }
    let member = membership.member(&id("m")).unwrap();
    (member.standing, member.urls.clone(), member.services.clone())
}

#[test]
fn any_order_and_repetition_of_the_same_words_ends_the_same() {
    for seed in 0..3_000 {
        let mut chance = Chance::new(seed);
        let told = updates(&mut chance);
        // One revocation ends the key: what its owner says afterwards has no order to keep.
        let revoked = told.iter().any(|told| matches!(told, Update::Judged(Liveness::Revoked, _)));
        let expected = end(&told);
        for _ in 0..20 {
            let mut order = told.clone();
            for _ in 0..chance.below(6) {
                order.push(told[chance.below(told.len() as u64) as usize]);
            }
            chance.shuffle(&mut order);
            let found = end(&order);
            match revoked {
                true => assert_eq!(found.0.liveness, Liveness::Revoked, "{seed}: {order:?}"),
                false => assert_eq!(found, expected, "SEED={seed}: {told:?} as {order:?}"),
            }
        }
    }
}

#[test]
fn a_number_never_falls_and_never_wraps() {
    for seed in 0..3_000 {
        let mut chance = Chance::new(seed);
        let (mut membership, mut held) = (Membership::default(), 0);
        membership.enrol(&id("m"), 0);
        for seq in 1..40 {
            let high = if chance.below(9) == 0 { INTEGER_MAX - 1 } else { 0 };
            let value = (high + chance.below(8)).min(INTEGER_MAX);
            let now = membership.member(&id("m")).unwrap().standing;
            match chance.below(9) {
                0..3 => membership.register(registration("m", value), seq),
                3 => membership.enrol(&id("m"), seq),
                4 => membership.reap(&id("m"), seq),
                5 => {
                    let revoked = Standing { liveness: Liveness::Revoked, ..now };
                    membership.judge(&id("m"), revoked, seq);
                }
                _ => Update::Judged(Liveness::Dead, value).apply(&mut membership, seq),
            }
            let now = membership.member(&id("m")).unwrap().standing.incarnation.value();
            assert!(now >= held && now <= INTEGER_MAX, "SEED={seed}: from {held} to {now}");
            held = now;
        }
    }
}

fn contact(answers: bool) -> Contact {
    Contact::from(match answers {
        true => Outcome::Answered { http: 200, ms: 1 },
        false => Outcome::Failed { reason: "timeout".to_owned(), heard: false, ms: 3_000 },
    })
}

/// Members that fail in spells, ticks of every kind, accusers of any number: nobody dies before as
/// many failed counted ticks in a row as the formula asks for with everybody accusing.
#[test]
fn no_suspicion_is_shorter_than_the_formula() {
    for seed in 0..400 {
        let mut chance = Chance::new(seed);
        let profile = Profile { beta: 1.0 + chance.below(4) as f64, ..Profile::default() };
        let count = 2 + chance.below(8);
        let mut membership = Membership::default();
        for nth in 0..count {
            let name = format!("m{nth}");
            membership.enrol(&id(&name), 0);
            membership.register(registration(&name, 1), 0);
        }
        let now = Beginning { boot_id: "b", boot_ms: 0, wall_ms: 0 };
        let mut memory = Memory::fresh(&now);
        // Counted failures of each suspect since it was last heard, or since doubt began.
        let mut ages: BTreeMap<NodeId, u64> = BTreeMap::new();
        let mut down: BTreeSet<u64> = BTreeSet::new();
        for tick in 1..60 {
            // Fewer than half, so that no tick is blind: blind ticks have their own rule.
            if chance.below(4) == 0 {
                down = (0..chance.below(count.div_ceil(2))).map(|_| chance.below(count)).collect();
            }
            let contacts: BTreeMap<Subject, Contact> = (0..count)
                .map(|nth| (Subject::node(&id(&format!("m{nth}"))), contact(!down.contains(&nth))))
                .collect();
            let pulse = [Pulse::Counted, Pulse::Counted, Pulse::Early, Pulse::Grace]
                [chance.below(4) as usize];
            let by: BTreeSet<NodeId> =
                (0..chance.below(count)).map(|nth| id(&format!("m{nth}"))).collect();
            let accusers = down.iter().map(|nth| (id(&format!("m{nth}")), by.clone())).collect();
            for (subject, contact) in &contacts {
                let Some(age) = ages.get_mut(&subject.node) else { continue };
                match (contact.outcome.is_success(), pulse) {
                    (true, _) => *age = 0,
                    (false, Pulse::Counted) => *age += 1,
                    (false, _) => {}
                }
            }
            let decision = decide(&Round {
                own: &id("own"),
                membership: &membership,
                memory: &memory,
                contacts: &contacts,
                accusers: &accusers,
                witnesses: Witnesses::default(),
                pulse,
                self_check_answered: true,
                profile: &profile,
            });
            let least = suspicion::ticks(&profile, count, count);
            for verdict in &decision.verdicts {
                let node = &verdict.subject.node;
                let waited = ages.insert(node.clone(), 0).unwrap_or(0);
                let dies = verdict.to.liveness == Liveness::Dead;
                assert!(!dies || waited >= least, "SEED={seed} tick {tick}: {waited} of {least}");
                membership.judge(node, verdict.to, tick);
            }
            memory = decision.memory;
        }
    }
}
