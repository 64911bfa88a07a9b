//! The one history that all members share, folded a second time by plain rules of our own, so that
//! a mistake of the product's fold does not hide itself.

use crate::checks;
use crowny_fed::journal::chain::Tip;
use crowny_fed::journal::checkpoint::Checkpoint;
use crowny_fed::journal::line::Line;
use crowny_fed::journal::merkle::{Frontier, Hash, empty_root, leaf_hash};
use crowny_fed::journal::note::SignedNote;
use crowny_fed::journal::record::{Record, VerdictRecord};
use crowny_fed::journal::replay::Fold;
use crowny_fed::protocol::member::{Liveness, NodeId};
use crowny_fed::sim::world::SimHost;
use crowny_fed::wire::routes::split;
use std::collections::{BTreeMap, BTreeSet};

/// How one member stands, and what it offers.
#[derive(Clone, Debug)]
struct Stands {
    liveness: Liveness,
    inc: u64,
    keyed: bool,
    services: BTreeSet<String>,
    /// Services of it that are held to be dead.
    down: BTreeSet<String>,
}

/// Published lines, and everything they say.
#[derive(Clone)]
pub struct History {
    seed: u64,
    /// All published lines, and where each ends; `ends[n]` is the length of the first n.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Root over the first n lines.
    roots: Vec<Hash>,
    frontier: Frontier,
    tip: Tip,
    fold: Fold,
    stands: BTreeMap<NodeId, Stands>,
    /// After n lines: services with a member alive or suspect, which no map may lack.
    served: Vec<BTreeSet<String>>,
    sizes: BTreeMap<NodeId, u64>,
    /// Members that spoke from elsewhere too, above what their own disk knows.
    outspoken: BTreeSet<NodeId>,
}

impl History {
    pub fn new(seed: u64, origin: &str) -> History {
        History {
            seed,
            bytes: Vec::new(),
            ends: vec![0],
            roots: vec![empty_root()],
            frontier: Frontier::new(),
            tip: Tip::origin(origin),
            fold: Fold::default(),
            stands: BTreeMap::new(),
            served: vec![BTreeSet::new()],
            sizes: BTreeMap::new(),
            outspoken: BTreeSet::new(),
        }
    }

    /// One node's disk agrees with what all others published before it, and adds to it only as the
    /// rules allow.
    pub fn agrees(&mut self, id: &NodeId, host: &SimHost) {
        let layout = host.config().layout;
        let Some(root) = checks::bytes(host, &layout.root()) else {
            assert!(!self.sizes.contains_key(id), "{}: {id} lost its root file", self.at());
            return;
        };
        let note = SignedNote::parse(&root).unwrap_or_else(|e| panic!("{}: {id}: {e}", self.at()));
        let shown = Checkpoint::parse(&note.body).unwrap();
        let held = self.sizes.insert(id.clone(), shown.size).unwrap_or_default();
        assert!(shown.size >= held, "{}: {id} went from {held} to {}", self.at(), shown.size);
        let size = usize::try_from(shown.size).unwrap();
        let journal = checks::journal(host);
        while self.size() < size {
            let next = journal.get(self.bytes.len()..).and_then(first_line);
            let next = next.unwrap_or_else(|| panic!("{}: {id} misses lines", self.at()));
            self.take(next);
        }
        let same = journal.starts_with(&self.bytes[..self.ends[size]]);
        assert!(same, "{}: {id} holds other lines under its checkpoint", self.at());
        assert_eq!(self.roots[size], shown.root, "{}: {id} shows another root", self.at());
        self.has_a_way(id, host);
        self.spoke_itself(id, host);
    }

    /// The next line, which must follow from those before.
    fn take(&mut self, raw: &[u8]) {
        let at = format!("{} line {}", self.at(), self.size());
        let line = self.tip.accept(raw).unwrap_or_else(|e| panic!("{at}: {e}"));
        self.fold.check_author(&line).unwrap_or_else(|e| panic!("{at}: {e}"));
        self.fold.apply(&line);
        self.follow(&Record::of(&line), &at);
        self.frontier.push(leaf_hash(raw));
        self.roots.push(self.frontier.root());
        self.bytes.extend_from_slice(raw);
        self.bytes.push(b'\n');
        self.ends.push(self.bytes.len());
        self.served.push(self.served_now());
    }

    fn follow(&mut self, record: &Record, at: &str) {
        match record {
            Record::Enroll(enroll) => {
                let held = self.stands.get(&enroll.node);
                let inc = held.map_or(0, |held| held.inc + u64::from(!held.liveness.is_routable()));
                self.stand(&enroll.node, Liveness::Alive, inc, true);
            }
            Record::Register(register) => {
                let (node, inc) = (&register.node, register.incarnation.value());
                let held = &self.stands[node];
                assert!(inc >= held.inc, "{at}: {node} fell from {} to {inc}", held.inc);
                assert!(held.liveness != Liveness::Revoked, "{at}: {node} is revoked and speaks");
                if inc > held.inc || held.liveness == Liveness::Alive {
                    self.stand(node, Liveness::Alive, inc, true);
                }
                let names = register.services.iter().map(|service| service.name.to_string());
                let stands = self.stands.get_mut(node).unwrap();
                stands.services = names.collect();
                stands.down.retain(|name| stands.services.contains(name));
            }
            Record::Leave(leave) => {
                self.stand(&leave.node, Liveness::Left, leave.incarnation.value(), true);
            }
            Record::Revoke(revoke) => {
                let inc = self.stands[&revoke.node].inc;
                self.stand(&revoke.node, Liveness::Revoked, inc, true);
            }
            Record::Roster(roster) => {
                let liveness = match roster.row {
                    Some(_) => self.stands.get(&roster.node).map_or(Liveness::Alive, |held| {
                        let new = roster.inc.value() > held.inc;
                        if new { Liveness::Alive } else { held.liveness }
                    }),
                    None => Liveness::Left,
                };
                self.stand(&roster.node, liveness, roster.inc.value(), false);
                let roles = roster.row.iter().map(|row| row.role.clone()).collect();
                self.stands.get_mut(&roster.node).unwrap().services = roles;
            }
            Record::Merged(merged) => self.came_home(&merged.said, at),
            Record::Verdict(verdict) => self.judged(verdict, at),
            Record::Reap(reap) => {
                let held = &self.stands[&reap.node];
                assert!(held.liveness == Liveness::Dead, "{at}: {} is reaped alive", reap.node);
            }
            _ => {}
        }
    }

    /// A word that was said while the anchor was away counts where it is newer, else nothing happens.
    fn came_home(&mut self, said: &Record, at: &str) {
        let (node, newer) = match said {
            Record::Register(register) => (&register.node, register.incarnation.value()),
            Record::Leave(leave) => (&leave.node, leave.incarnation.value()),
            _ => return,
        };
        let held = &self.stands[node];
        let goes = matches!(said, Record::Leave(_)) && held.liveness != Liveness::Left;
        if newer > held.inc || newer == held.inc && goes {
            self.follow(said, at);
        }
    }

    /// Dead only through suspect; back from it only by the subject's own word; at no incarnation
    /// that the subject did not speak of.
    fn judged(&mut self, verdict: &VerdictRecord, at: &str) {
        let held = self.stands.get_mut(&verdict.node).unwrap();
        let (inc, to) = (verdict.inc.value(), verdict.to);
        // No formula of ours asks for fewer than two ticks.
        let waited = verdict.waited >= verdict.needed && verdict.needed >= 2;
        assert!(waited || to != Liveness::Dead, "{at}: buried too early: {verdict:?}");
        if let Some(service) = &verdict.service {
            let name = service.to_string();
            match to {
                Liveness::Dead => held.down.insert(name),
                _ => held.down.remove(&name),
            };
            return;
        }
        let from_suspect = to != Liveness::Dead || held.liveness == Liveness::Suspect;
        assert!(from_suspect, "{at}: {} dies from {:?}", verdict.node, held.liveness);
        assert!(!held.keyed || to != Liveness::Alive, "{at}: {} is called back", verdict.node);
        assert!(!held.keyed || inc == held.inc, "{at}: {} at {inc}", verdict.node);
        let node = verdict.node.clone();
        let keyed = held.keyed;
        self.stand(&node, to, inc, keyed);
    }

    fn stand(&mut self, node: &NodeId, liveness: Liveness, inc: u64, keyed: bool) {
        let at = self.at();
        let empty = || BTreeSet::new();
        let held = self.stands.entry(node.clone()).or_insert_with(|| Stands {
            liveness,
            inc,
            keyed,
            services: empty(),
            down: empty(),
        });
        assert!(inc >= held.inc, "{at}: {node} fell from {} to {inc}", held.inc);
        (held.liveness, held.inc, held.keyed) = (liveness, inc, keyed);
    }

    fn served_now(&self) -> BTreeSet<String> {
        let routable = self.stands.values().filter(|held| held.liveness.is_routable());
        routable.flat_map(|held| held.services.difference(&held.down).cloned()).collect()
    }

    /// The map has a row for every service that had a member at the size it was made from.
    fn has_a_way(&self, id: &NodeId, host: &SimHost) {
        let layout = host.config().layout;
        let Some(map) = checks::bytes(host, &layout.routes()) else { return };
        let map = String::from_utf8(map).unwrap();
        let (_, rows) = split(&map).unwrap_or_else(|| panic!("{}: {id}: half a map", self.at()));
        let stamp = map.lines().nth(1).and_then(|stamp| stamp.split("size=").nth(1));
        let size = stamp.and_then(|text| text.split(' ').next()).unwrap().parse::<usize>().unwrap();
        // What waits for its checkpoint is in no map yet; what is lost with it is made anew.
        let Some(served) = self.served.get(size) else { return };
        for service in served {
            let found = rows.lines().any(|row| row.starts_with(&format!("{service}|")));
            assert!(found, "{}: {id} leads nobody to {service}:\n{map}", self.at());
        }
    }

    /// A member's own number is never below what was published of it: it is synced first.
    fn spoke_itself(&self, id: &NodeId, host: &SimHost) {
        if self.outspoken.contains(id) {
            return;
        }
        let own = checks::bytes(host, &host.config().layout.identity()).unwrap();
        let own: serde_json::Value = serde_json::from_slice(&own).unwrap();
        let inc = own["incarnation"].as_u64().unwrap();
        let told = self.stands.get(id).map_or(0, |held| held.inc);
        assert!(inc >= told, "{}: {id} is told at {told} and itself at {inc}", self.at());
    }

    /// Whole lines on the anchor's disk that are not published yet.
    pub fn unpublished(&self, anchor: &SimHost) -> Vec<Vec<u8>> {
        let journal = checks::journal(anchor);
        let mut rest = journal.get(self.bytes.len()..).unwrap_or_default();
        let mut lines = Vec::new();
        while let Some(line) = first_line(rest) {
            lines.push(line.to_vec());
            rest = &rest[line.len() + 1..];
        }
        lines
    }

    /// Law 6: what one tick took away is no more than its share of who was there at its start.
    /// `before` was on the anchor's disk, `new` is what the tick wrote.
    pub fn within_caps(&self, before: &[Vec<u8>], new: &[Vec<u8>]) {
        let mut start = self.clone();
        let at = self.at();
        before.iter().for_each(|line| start.follow(&record(line), &at));
        let mut dead = 0;
        for line in new {
            match record(line) {
                Record::Verdict(verdict) => dead += usize::from(verdict.to == Liveness::Dead),
                other => start.follow(&other, &at),
            }
        }
        let present = start.stands.values().filter(|held| held.liveness.is_routable()).count();
        let most = (present - present * 85 / 100).max(1);
        assert!(dead <= most, "{}: {dead} of {present} died in one tick", self.at());
    }

    /// All that have not said goodbye are alive, and so are their services.
    pub fn doubts_nobody(&self) -> Result<(), String> {
        for (id, held) in &self.stands {
            let gone = [Liveness::Left, Liveness::Revoked].contains(&held.liveness);
            let well = held.liveness == Liveness::Alive && held.down.is_empty();
            if !gone && !well {
                return Err(format!("{id} is {:?}, down {:?}", held.liveness, held.down));
            }
        }
        Ok(())
    }

    /// How a member stands, as told: liveness and incarnation.
    pub fn standing(&self, id: &NodeId) -> Option<(Liveness, u64)> {
        self.stands.get(id).map(|held| (held.liveness, held.inc))
    }

    /// A member's key is used elsewhere too: its disk need not know all it said.
    pub fn speaks_elsewhere(&mut self, id: &NodeId) {
        self.outspoken.insert(id.clone());
    }

    /// Everybody that was ever told of.
    pub fn ids(&self) -> Vec<NodeId> {
        self.stands.keys().cloned().collect()
    }

    /// Lines published so far.
    pub fn size(&self) -> usize {
        self.ends.len() - 1
    }

    /// What a member signed about itself, as it stands in published lines.
    pub fn said_by(&self, id: &NodeId) -> Vec<Line> {
        let raw = self.ends.windows(2).map(|ends| &self.bytes[ends[0]..ends[1] - 1]);
        let lines = raw.map(|raw| Line::parse(raw).unwrap());
        lines.filter(|line| line.author.is_some() && Record::of(line).node() == Some(id)).collect()
    }

    /// What published lines say, from `seq` on.
    pub fn records(&self, seq: usize) -> Vec<Record> {
        let lines = seq..self.size();
        lines.map(|at| record(&self.bytes[self.ends[at]..self.ends[at + 1] - 1])).collect()
    }

    fn at(&self) -> String {
        format!("SEED={}", self.seed)
    }
}

/// The first line of a text, without its end; `None` where it has none.
fn first_line(text: &[u8]) -> Option<&[u8]> {
    text.iter().position(|byte| *byte == b'\n').map(|end| &text[..end])
}

fn record(line: &[u8]) -> Record {
    Record::of(&Line::parse(line).unwrap())
}
