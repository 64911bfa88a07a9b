//! Our protocol in the model: one anchor that judges, members that tell what they see.
//!
//! Everything that decides is called from `protocol`: whom a tick asks, when it is blind, who
//! accuses, how long doubt lasts, who dies, what a member leaves out of its own map. What stands
//! here is the order of a tick and what travels. The journal is its fold alone; a member that syncs
//! takes the fold as it is then. Node 0 is the anchor.

use super::field::{Protocol, Run};
use super::moment::TICK;
use crate::protocol::blind::{self, Pulse};
use crate::protocol::contact::Contact;
use crate::protocol::hearsay::Told;
use crate::protocol::member::{Incarnation, Liveness, NodeId};
use crate::protocol::membership::{Membership, Registration};
use crate::protocol::memory::{Beginning, Memory};
use crate::protocol::probe::Outcome;
use crate::protocol::profile::Profile;
use crate::protocol::reach::Sight;
use crate::protocol::subject::Subject;
use crate::protocol::{asking, health, suspicion};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

mod anchor;

/// Request and response bytes of each question, headers included: what the real program sends, to
/// some tens of bytes.
mod bytes {
    /// `GET /q/health`, signed answer; telling of an accusation adds its line and proof.
    pub(super) const HEALTH: (u64, u64) = (190, 560);
    pub(super) const ACCUSE: (u64, u64) = (3_000, 1_300);
    pub(super) const HEAD: (u64, u64) = (150, 270);
    pub(super) const CHECKPOINT: (u64, u64) = (160, 430);
    pub(super) const PING_REQ: (u64, u64) = (640, 700);
    pub(super) const REGISTER: (u64, u64) = (700, 520);
    pub(super) const OBSERVE: (u64, u64) = (620, 160);
    /// Each member seen, in an observation.
    pub(super) const SEEN: u64 = 60;
    /// Each line that a sync brings.
    pub(super) const LINE: u64 = 900;
}

/// Other members asked for the journal when the anchor does not answer.
const MEMBERS_ASKED: usize = 3;

/// The journal at a size, folded.
#[derive(Debug)]
struct Fold {
    size: u64,
    membership: Membership,
    /// Per node: dead by the journal.
    dead: Vec<bool>,
}

#[derive(Debug)]
struct Node {
    id: NodeId,
    phase: u64,
    memory: Memory,
    /// What it last signed.
    incarnation: Incarnation,
    held: Rc<Fold>,
    /// Journal size and own exceptions of the map it last published.
    shown: (u64, BTreeSet<NodeId>),
}

/// What a tick of a member saw.
struct Looked {
    contacts: BTreeMap<Subject, Contact>,
    blind: bool,
}

/// A member's observation as the anchor holds it.
#[derive(Debug)]
struct Heard {
    told: Told,
    /// When it was made: the instant, and the member's own tick.
    made: (u64, u64),
}

/// A federation under test.
#[derive(Debug)]
pub struct Federation {
    profile: Profile,
    nodes: Vec<Node>,
    /// The anchor's journal.
    journal: Rc<Fold>,
    observations: BTreeMap<NodeId, Heard>,
}

impl Federation {
    /// All members enrolled and registered, nobody doubted. Of the profile the interval is set to
    /// the model's tick.
    pub fn new(profile: &Profile, members: usize) -> Self {
        let ids: Vec<NodeId> = (0..members).map(name).collect();
        let mut membership = Membership::default();
        for id in &ids {
            membership.enrol(id, 0);
            membership.register(registration(id, Incarnation::FIRST.raised()), 0);
        }
        let journal = Rc::new(Fold { size: 0, membership, dead: vec![false; members] });
        let node = |id: NodeId| Node {
            id,
            phase: 0,
            memory: Memory::default(),
            incarnation: Incarnation::FIRST.raised(),
            held: Rc::clone(&journal),
            shown: (0, BTreeSet::new()),
        };
        let profile = Profile { interval_ms: TICK, ..profile.clone() };
        let nodes = ids.into_iter().map(node).collect();
        Federation { profile, nodes, journal, observations: BTreeMap::new() }
    }

    fn tick(&mut self, node: usize, run: &mut Run<()>) {
        run.wake(node, run.next_tick(self.nodes[node].phase), ());
        let now = Beginning { boot_id: "", boot_ms: run.now.parts(), wall_ms: run.now.parts() };
        // The order is long and only `whom` wants it: not worth a copy.
        let own = &mut self.nodes[node].memory;
        let order = std::mem::take(&mut own.order);
        let (pulse, mut memory) = own.open(&now, self.profile.interval_ms);
        memory.order = order;
        self.nodes[node].memory = memory;
        match node {
            0 => self.anchor_tick(pulse, run),
            _ => self.member_tick(node, pulse, run),
        }
        self.show(node, run);
    }

    /// sync → refute → look → judge → tell.
    fn member_tick(&mut self, node: usize, pulse: Pulse, run: &mut Run<()>) {
        let anchor_answered = self.sync(node, run);
        let refuted = self.refute_in_own_tick(node, anchor_answered, run);
        let looked = self.look(node, pulse, run);
        self.judge(node, (pulse, refuted), &looked);
        if anchor_answered {
            self.tell(node, &looked, run);
        }
    }

    fn sync(&mut self, node: usize, run: &mut Run<()>) -> bool {
        let anchor_answered = run.exchange((node, 0), bytes::HEAD);
        if anchor_answered {
            self.pull((node, 0), run);
        }
        let asked = if anchor_answered { 1 } else { MEMBERS_ASKED };
        for _ in 0..asked {
            let other = 1 + run.chance.below(self.nodes.len() as u64 - 1) as usize;
            if other != node && run.exchange((node, other), bytes::CHECKPOINT) && !anchor_answered {
                self.pull((node, other), run);
            }
        }
        anchor_answered
    }

    /// Takes what another holds, if it is more.
    fn pull(&mut self, (node, from): (usize, usize), run: &mut Run<()>) {
        let theirs = if from == 0 { &self.journal } else { &self.nodes[from].held };
        let lines = theirs.size.saturating_sub(self.nodes[node].held.size);
        if lines > 0 && run.exchange((node, from), (bytes::HEAD.0, lines * bytes::LINE)) {
            self.nodes[node].held = Rc::clone(theirs);
        }
    }

    /// What the journal holds against us, answered where nobody told us to our face.
    fn refute_in_own_tick(&mut self, node: usize, answered: bool, run: &mut Run<()>) -> bool {
        let own = &self.nodes[node];
        let Some(accused) = doubted(&own.held.membership, &own.id) else { return false };
        let told = self.raise(node, accused);
        if answered && run.exchange((node, 0), bytes::REGISTER) {
            self.append(vec![Line::Register(told)]);
        }
        true
    }

    /// One raise for each accused incarnation.
    fn raise(&mut self, node: usize, accused: Incarnation) -> Registration {
        let own = &mut self.nodes[node];
        if own.incarnation <= accused {
            own.incarnation = accused.raised();
        }
        registration(&own.id, own.incarnation)
    }

    fn look(&mut self, node: usize, pulse: Pulse, run: &mut Run<()>) -> Looked {
        let own = &mut self.nodes[node];
        let held = Rc::clone(&own.held);
        let memory = (&mut own.memory, &self.profile);
        let agents =
            asking::whom(&held.membership, &own.id, memory, &mut |bound| run.chance.below(bound));
        let asked = agents.into_iter().map(|id| {
            let outcome = ask(run, (node, number(&id)), bytes::HEALTH);
            (Subject { node: id, service: None }, Contact::from(outcome))
        });
        let contacts: BTreeMap<Subject, Contact> = asked.collect();
        let alive = contacts.iter().filter_map(|(subject, contact)| {
            let member = held.membership.member(&subject.node)?;
            (member.standing.liveness == Liveness::Alive).then_some(&contact.outcome)
        });
        let blind = pulse != Pulse::Grace && blind::is_blind(alive, false);
        Looked { contacts, blind }
    }

    fn judge(&mut self, node: usize, (pulse, refuted): (Pulse, bool), looked: &Looked) {
        let own = &mut self.nodes[node];
        let membership = &own.held.membership;
        let sight = Sight {
            membership,
            contacts: &looked.contacts,
            counts: pulse == Pulse::Counted && !looked.blind,
            ticks_max: suspicion::ticks_max(&self.profile, membership.present() as u64),
        };
        own.memory.reach = own.memory.reach.after(&sight);
        if pulse != Pulse::Early {
            let signs = (looked.blind, refuted);
            own.memory.health = health::after(own.memory.health, &looked.contacts, signs);
        }
    }

    /// Posts one observation.
    fn tell(&mut self, node: usize, looked: &Looked, run: &mut Run<()>) {
        let own = &self.nodes[node];
        let missed = looked
            .contacts
            .iter()
            .filter(|(_, contact)| !contact.outcome.is_success() && !contact.outcome.is_local());
        let missed = missed.filter_map(|(subject, _)| {
            let member = own.held.membership.member(&subject.node)?;
            Some((subject.node.clone(), member.standing.incarnation))
        });
        let told = Told { health: own.memory.health, missed: missed.collect() };
        let made = (run.now.parts(), own.memory.tick);
        let asks = bytes::OBSERVE.0 + bytes::SEEN * looked.contacts.len() as u64;
        if run.exchange((node, 0), (asks, bytes::OBSERVE.1)) {
            self.observations.insert(own.id.clone(), Heard { told, made });
        }
    }

    /// The map this node publishes: the journal's, without what it cannot reach itself.
    fn show(&mut self, node: usize, run: &mut Run<()>) {
        let held = if node == 0 { &self.journal } else { &self.nodes[node].held };
        let own = &self.nodes[node];
        if own.shown.0 == held.size && own.shown.1 == own.memory.reach.unreachable {
            return;
        }
        for (subject, dead) in held.dead.iter().enumerate() {
            let unreachable = own.memory.reach.unreachable.contains(&self.nodes[subject].id);
            match *dead || unreachable {
                true => run.score.holds_dead(node, subject, run.now),
                false => run.score.holds_alive(node, subject),
            }
        }
        let shown = (held.size, own.memory.reach.unreachable.clone());
        self.nodes[node].shown = shown;
    }

    /// Appends lines to the journal.
    fn append(&mut self, lines: Vec<Line>) {
        if lines.is_empty() {
            return;
        }
        let mut membership = self.journal.membership.clone();
        let mut size = self.journal.size;
        for line in lines {
            match line {
                Line::Register(told) => membership.register(told, size),
                Line::Verdict(id, to) => membership.judge(&id, to, size),
            }
            size += 1;
        }
        let is_dead = |node: &Node| {
            let member = membership.member(&node.id);
            member.is_some_and(|member| member.standing.liveness == Liveness::Dead)
        };
        let dead = self.nodes.iter().map(is_dead).collect();
        self.journal = Rc::new(Fold { size, membership, dead });
    }
}

/// A line that changes who is alive.
enum Line {
    Register(Registration),
    Verdict(NodeId, crate::protocol::member::Standing),
}

/// One question to an agent. A machine that is gone answers with silence, not with a refusal, which
/// is the harder case for law 5.
fn ask(run: &mut Run<()>, (from, to): (usize, usize), sizes: (u64, u64)) -> Outcome {
    run.score.probed(to, run.now);
    match run.exchange((from, to), sizes) {
        true => Outcome::Answered { http: 200, ms: 10 },
        false => Outcome::Failed { reason: "timeout".to_owned(), heard: false, ms: 3_000 },
    }
}

fn doubted(membership: &Membership, id: &NodeId) -> Option<Incarnation> {
    let standing = membership.member(id)?.standing;
    matches!(standing.liveness, Liveness::Suspect | Liveness::Dead).then_some(standing.incarnation)
}

fn registration(id: &NodeId, incarnation: Incarnation) -> Registration {
    let urls = vec![format!("http://{id}.example")];
    Registration { node: id.clone(), incarnation, urls, services: Vec::new(), outbound: false }
}

fn name(number: usize) -> NodeId {
    NodeId::parse(&format!("n{number:04}")).expect("a letter and digits are an id")
}

fn number(id: &NodeId) -> usize {
    id.as_str()[1..].parse().expect("ids are made by `name` alone")
}

impl Protocol for Federation {
    type Event = ();

    fn enter(&mut self, node: usize, run: &mut Run<()>) {
        let own = &mut self.nodes[node];
        own.phase = run.chance.below(TICK);
        let now = Beginning { boot_id: "", boot_ms: run.now.parts(), wall_ms: run.now.parts() };
        own.memory = Memory::fresh(&now);
        let first = run.next_tick(own.phase);
        run.wake(node, first, ());
    }

    fn handle(&mut self, node: usize, (): (), run: &mut Run<()>) {
        self.tick(node, run);
    }

    fn lists(&self, observer: usize, subject: usize) -> bool {
        let own = &self.nodes[observer];
        let held = if observer == 0 { &self.journal } else { &own.held };
        let unreachable = own.memory.reach.unreachable.contains(&self.nodes[subject].id);
        observer == subject || !(held.dead[subject] || unreachable)
    }
}
