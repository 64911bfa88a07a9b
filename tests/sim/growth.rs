//! How much is kept of whom (membership report 17: quickwit PR 6653, where tombstones piled up until
//! they did not fit any more).

use crate::seeds;
use crowny_fed::auth::keys;
use crowny_fed::journal::chain::Tip;
use crowny_fed::journal::line::{Author, Line, VERSION};
use crowny_fed::journal::merkle::Hash;
use crowny_fed::journal::record::{
    Enroll, Leave, Reap, Record, Register, Revoke, RosterRecord, VerdictRecord,
};
use crowny_fed::journal::replay::Fold;
use crowny_fed::journal::snapshot::{FOLD_VERSION, Snapshot};
use crowny_fed::protocol::member::{Incarnation, Liveness, NodeId};
use crowny_fed::protocol::roster::Row;
use crowny_fed::protocol::service::{Service, ServiceName};
use crowny_fed::sim::chance::Chance;
use std::collections::BTreeMap;

const ORIGIN: &str = "sim.example/fed";
const CYCLES: u64 = 5_000;
/// From one line to the next: beyond any window of nonces.
const STEP_S: u64 = 200;

/// Lines in order, and what they mean.
struct Journal {
    fold: Fold,
    chance: Chance,
    size: u64,
}

impl Journal {
    fn new() -> Journal {
        Journal { fold: Fold::default(), chance: Chance::new(1), size: 0 }
    }

    fn hex(&mut self, digits: usize) -> String {
        (0..digits)
            .map(|_| char::from(b"0123456789abcdef"[self.chance.below(16) as usize]))
            .collect()
    }

    fn add(&mut self, record: &Record) {
        let text = || "x".to_owned();
        let author = Author { alg: text(), kid: text(), sig: text() };
        let line = Line {
            author: Some(author),
            payload: record.payload(),
            prev: Tip::origin(ORIGIN).head,
            seq: self.size,
            ts: 1_700_000_000 + self.size * STEP_S,
            kind: record.kind().to_owned(),
            version: VERSION,
        };
        assert_ne!(Record::of(&line), Record::Unknown, "{}", line.payload);
        self.fold.apply(&line);
        self.size += 1;
    }

    /// Length of the snapshot in bytes.
    fn kept(&self) -> usize {
        let snapshot = Snapshot {
            fold_version: FOLD_VERSION,
            bytes: self.size * 1_000,
            size: self.size,
            head: Hash([0; 32]),
            ts: 1_700_000_000 + self.size * STEP_S,
            frontier: Vec::new(),
            fold: self.fold.clone(),
        };
        snapshot.render().len()
    }

    fn enrol(&mut self, node: &NodeId) {
        let seed = std::array::from_fn(|_| self.chance.below(256) as u8);
        let public = ed25519_dalek::SigningKey::from_bytes(&seed).verifying_key();
        let enroll = Enroll {
            node: node.clone(),
            alg: keys::ED25519.to_owned(),
            kid: keys::kid(node.as_str(), &public),
            key: Some(keys::render_public(&public)),
            invite: Some(self.hex(64)),
            nonce: Some(self.hex(32)),
            services: vec![ServiceName::parse("web").unwrap()],
        };
        self.add(&Record::Enroll(enroll));
    }

    fn register(&mut self, node: &NodeId, value: u64) {
        let nonce = self.hex(32);
        self.add(&Record::Register(Register {
            origin: ORIGIN.to_owned(),
            node: node.clone(),
            nonce,
            ts: 1_700_000_000 + self.size * STEP_S,
            mode: keys::ED25519.to_owned(),
            incarnation: Incarnation::new(value).unwrap(),
            urls: vec![format!("https://{node}.example.org:9160")],
            services: vec![Service::parse(&format!("web=https://{node}.example.org:443")).unwrap()],
            reach: "inbound".to_owned(),
            tags: BTreeMap::new(),
        }));
    }

    fn judge(&mut self, node: &NodeId, (to, value): (Liveness, u64)) {
        self.add(&Record::Verdict(VerdictRecord {
            node: node.clone(),
            service: None,
            inc: Incarnation::new(value).unwrap(),
            from: Liveness::Alive,
            to,
            rule: "probe-failed".to_owned(),
            waited: 4,
            needed: 4,
            tick: self.size,
            evidence: Default::default(),
            heirs: BTreeMap::new(),
            no_heir: Vec::new(),
        }));
    }

    fn die(&mut self, node: &NodeId, value: u64) {
        self.judge(node, (Liveness::Suspect, value));
        self.judge(node, (Liveness::Dead, value));
        let inc = Incarnation::new(value).unwrap();
        let (ticks, tick) = (8_640, self.size);
        self.add(&Record::Reap(Reap { node: node.clone(), inc, ticks, tick }));
    }
}

fn id(number: u64) -> NodeId {
    NodeId::parse(&format!("node-{number:04}")).unwrap()
}

/// 5,000 rounds of join, death and reap: of a member one thing is kept, however often it came.
#[test]
fn who_comes_and_goes_all_the_time_is_kept_once() {
    let mut journal = Journal::new();
    let nodes = [id(0), id(1)];
    nodes.iter().for_each(|node| journal.enrol(node));
    let mut early = 0;
    for cycle in 1..=CYCLES {
        for node in &nodes {
            journal.register(node, cycle);
            journal.die(node, cycle);
        }
        if cycle == 10 {
            early = journal.kept();
        }
    }
    // Numbers got longer, and nothing else.
    let late = journal.kept();
    assert!(late <= early + 100, "{early} bytes after 10 rounds, {late} after {CYCLES}");
}

/// A new id each time: what an id is, which keys and invitations are used up, and above which
/// number it would come back, is kept for ever (design sections 7 and 8), so that no old word or
/// invitation ever works again. It is this much of each, and no more.
#[test]
fn what_is_kept_of_those_that_are_gone_has_its_measure() {
    let heads = if seeds::full() { CYCLES } else { 500 };
    for (most, end) in [(800, End::Reaped), (800, End::Left), (800, End::Revoked), (330, End::Row)]
    {
        let mut journal = Journal::new();
        let empty = journal.kept();
        (0..heads).for_each(|number| journal.come_and_go(&id(number), end));
        let each = (journal.kept() - empty) as u64 / heads;
        assert!(each <= most, "{each} bytes a head of those {end:?}, expected {most} or fewer");
    }
}

/// How somebody comes to be gone.
#[derive(Clone, Copy, Debug)]
enum End {
    Reaped,
    Left,
    Revoked,
    Row,
}

impl Journal {
    fn come_and_go(&mut self, node: &NodeId, end: End) {
        if !matches!(end, End::Row) {
            self.enrol(node);
            self.register(node, 1);
        }
        let node = node.clone();
        match end {
            End::Reaped => self.die(&node, 1),
            End::Left => {
                let (origin, nonce) = (ORIGIN.to_owned(), self.hex(32));
                let (mode, ts) = (keys::ED25519.to_owned(), 7);
                let incarnation = Incarnation::new(1).unwrap();
                self.add(&Record::Leave(Leave { origin, node, nonce, ts, mode, incarnation }));
            }
            End::Revoked => self.add(&Record::Revoke(Revoke { node, kid: "00000000".into() })),
            End::Row => {
                let (host, role) = (format!("{node}.example.org"), "web".to_owned());
                let row = Row { host, port: 80, role, state: "active".to_owned() };
                for row in [Some(row), None] {
                    let (node, inc) = (node.clone(), Incarnation::FIRST);
                    self.add(&Record::Roster(RosterRecord { node, inc, row }));
                }
            }
        }
    }
}
