//! Plain SWIM (Das, Gupta, Motivala 2002) under the same course: the yardstick, in the same binary.
//!
//! Each period a member pings one other, in shuffled round-robin order; unanswered for half a
//! period, it asks helpers; unanswered at the period's end, the target is suspect, and dead when a
//! fixed time-out passes without refutation. Updates ride on packets. [`Setting`] says which
//! SWIM: the paper's, or memberlist with Lifeguard switched off, which Lifeguard measured against.

mod everything;
pub mod gossip;
pub mod setting;
pub mod table;

use super::field::{Protocol, Run};
use super::moment::{Moment, TICK};
use gossip::{Gossip, Update, Updates};
use setting::{GOSSIP_TO_DEAD_TICKS, PACKET_BYTES, Setting, TIMEOUT, UPDATE_BYTES};
use table::{State, Told, replaces};

/// What a member can be told of.
#[derive(Debug)]
pub enum Event {
    /// A period begins.
    Period,
    /// The direct ping of that number is late.
    Late(u64),
    /// A suspicion that began then is over.
    SuspicionOver(usize, Moment),
    /// Time to pass on what waits.
    Gossip,
    /// A packet from somebody.
    Packet(usize, Packet, Updates),
}

/// The packets of SWIM.
#[derive(Clone, Copy, Debug)]
pub enum Packet {
    /// Answer this number; on behalf of a member that asked the sender, if so.
    Ping(u64, Option<usize>),
    /// The answer, with the same.
    Ack(u64, Option<usize>),
    /// Ping that member for me.
    PingReq(u64, usize),
    /// Updates alone.
    Gossip,
}

/// What one member holds of another.
#[derive(Clone, Copy, Debug)]
struct Held {
    told: Told,
    since: Moment,
}

/// One ping under way.
#[derive(Clone, Copy, Debug)]
struct Probe {
    number: u64,
    target: usize,
    /// Whether the target was there and awake when it was pinged.
    fair: bool,
    answered: bool,
}

#[derive(Debug)]
struct Member {
    /// In the group: entered, and not told that it is dead for good.
    present: bool,
    phase: u64,
    incarnation: u32,
    table: Vec<Held>,
    /// Members that are not unknown.
    known: usize,
    /// Probe order; a cursor into it.
    order: Vec<usize>,
    next: usize,
    probe: Option<Probe>,
    gossip: Gossip,
    /// Whether a gossip timer is set.
    gossiping: bool,
    periods: u64,
}

/// All members of a run of plain SWIM.
#[derive(Debug)]
pub struct PlainSwim {
    setting: Setting,
    members: Vec<Member>,
    numbers: u64,
}

impl PlainSwim {
    /// A group that `Protocol::enter` fills.
    pub fn new(setting: Setting, members: usize) -> Self {
        let unknown = Told { state: State::Unknown, incarnation: 0 };
        let held = Held { told: unknown, since: Moment::default() };
        let member = |_| Member {
            present: false,
            phase: 0,
            incarnation: 1,
            table: vec![held; members],
            known: 0,
            order: Vec::new(),
            next: 0,
            probe: None,
            gossip: Gossip::default(),
            gossiping: false,
            periods: 0,
        };
        PlainSwim { setting, members: (0..members).map(member).collect(), numbers: 0 }
    }

    fn send(&mut self, ends: (usize, usize), packet: Packet, run: &mut Run<Event>) {
        let sender = &mut self.members[ends.0];
        let updates = sender.gossip.pick(self.setting.retransmits(sender.known));
        let bytes = PACKET_BYTES + UPDATE_BYTES * updates.len() as u64;
        run.send(ends, bytes, Event::Packet(ends.0, packet, updates));
    }

    fn period(&mut self, member: usize, run: &mut Run<Event>) {
        let next = run.next_tick(self.members[member].phase);
        run.wake(member, next, Event::Period);
        self.conclude(member, run);
        self.members[member].periods += 1;
        if self.members[member].known < 2 {
            self.join(member, run);
            return;
        }
        self.push_pull(member, run);
        let Some(target) = self.next_target(member, run) else { return };
        self.numbers += 1;
        let number = self.numbers;
        let fair = run.is_awake(target);
        self.members[member].probe = Some(Probe { number, target, fair, answered: false });
        run.score.probed(target, run.now);
        self.send((member, target), Packet::Ping(number, None), run);
        run.wake(member, run.now.after(TIMEOUT), Event::Late(number));
    }

    /// The period's end: who did not answer is suspect.
    fn conclude(&mut self, member: usize, run: &mut Run<Event>) {
        let Some(probe) = self.members[member].probe.take() else { return };
        if probe.answered {
            return;
        }
        run.score.false_probes += u64::from(probe.fair && run.is_awake(probe.target));
        let incarnation = self.members[member].table[probe.target].told.incarnation;
        let told = Told { state: State::Suspect, incarnation };
        self.hear(member, Update { subject: probe.target, told }, run);
    }

    /// Round-robin over a list that is shuffled at each wrap (SWIM 2002, section 4.3).
    fn next_target(&mut self, member: usize, run: &mut Run<Event>) -> Option<usize> {
        let own = &mut self.members[member];
        for _ in 0..own.order.len() {
            if own.next >= own.order.len() {
                run.chance.shuffle(&mut own.order);
                own.next = 0;
            }
            let target = own.order[own.next];
            own.next += 1;
            if matches!(own.table[target].told.state, State::Alive | State::Suspect) {
                return Some(target);
            }
        }
        None
    }

    fn late(&mut self, member: usize, number: u64, run: &mut Run<Event>) {
        let Some(probe) = self.members[member].probe.filter(|probe| probe.number == number) else {
            return;
        };
        if probe.answered {
            return;
        }
        for helper in self.some_others(member, self.setting.helpers, Some(probe.target), run) {
            self.send((member, helper), Packet::PingReq(number, probe.target), run);
        }
    }

    /// Any members not held dead, each as likely; with `besides` `None` also the freshly dead.
    fn some_others(
        &self,
        member: usize,
        count: usize,
        besides: Option<usize>,
        run: &mut Run<Event>,
    ) -> Vec<usize> {
        let own = &self.members[member];
        let fits = |other: usize| match own.table[other].told.state {
            State::Alive | State::Suspect => Some(other) != besides,
            State::Dead => {
                let dead_ticks = run.now.ticks_since(own.table[other].since);
                besides.is_none() && dead_ticks < GOSSIP_TO_DEAD_TICKS as f64
            }
            State::Unknown => false,
        };
        let mut fitting: Vec<usize> =
            own.order.iter().copied().filter(|other| fits(*other)).collect();
        let count = count.min(fitting.len());
        for at in 0..count {
            let other = at + run.chance.below((fitting.len() - at) as u64) as usize;
            fitting.swap(at, other);
        }
        fitting.truncate(count);
        fitting
    }

    fn packet(&mut self, member: usize, from: usize, packet: Packet, run: &mut Run<Event>) {
        match packet {
            Packet::Ping(number, asker) => {
                self.send((member, from), Packet::Ack(number, asker), run);
            }
            Packet::Ack(number, Some(asker)) => {
                self.send((member, asker), Packet::Ack(number, None), run);
            }
            Packet::Ack(number, None) => {
                let probe = &mut self.members[member].probe;
                if let Some(probe) = probe.as_mut().filter(|probe| probe.number == number) {
                    probe.answered = true;
                }
            }
            Packet::PingReq(number, target) => {
                self.send((member, target), Packet::Ping(number, Some(from)), run);
            }
            Packet::Gossip => {}
        }
    }

    /// One statement reaches one member.
    fn hear(&mut self, member: usize, update: Update, run: &mut Run<Event>) {
        if update.subject == member {
            return self.hear_of_self(member, update, run);
        }
        let own = &mut self.members[member];
        let held = own.table[update.subject];
        if !replaces(held.told, update.told, self.setting.dead_is_final) {
            return;
        }
        own.table[update.subject] = Held { told: update.told, since: run.now };
        if held.told.state == State::Unknown {
            own.known += 1;
            // At a random place, so that a newcomer is not always the last (section 4.3).
            let at = run.chance.below(own.order.len() as u64 + 1) as usize;
            own.order.insert(at, update.subject);
        }
        match update.told.state {
            State::Dead => run.score.holds_dead(member, update.subject, run.now),
            State::Suspect => {
                if let Some(parts) = self.setting.suspicion_parts(own.known) {
                    let over = Event::SuspicionOver(update.subject, run.now);
                    run.wake(member, run.now.after(parts), over);
                }
            }
            State::Alive | State::Unknown => run.score.holds_alive(member, update.subject),
        }
        self.pass_on(member, update, run);
    }

    /// Who is doubted says so with a higher incarnation; who is dead for good goes.
    fn hear_of_self(&mut self, member: usize, update: Update, run: &mut Run<Event>) {
        let own = &mut self.members[member];
        let doubted = matches!(update.told.state, State::Suspect | State::Dead);
        if !doubted || (update.told.incarnation < own.incarnation && !self.setting.dead_is_final) {
            return;
        }
        if self.setting.dead_is_final && update.told.state == State::Dead {
            own.present = false;
            return;
        }
        if update.told.incarnation < own.incarnation {
            return;
        }
        own.incarnation = update.told.incarnation.saturating_add(1);
        let told = Told { state: State::Alive, incarnation: own.incarnation };
        own.table[member].told = told;
        self.pass_on(member, Update { subject: member, told }, run);
    }

    fn pass_on(&mut self, member: usize, update: Update, run: &mut Run<Event>) {
        let own = &mut self.members[member];
        own.gossip.add(update);
        if let Some((apart, _)) = self.setting.gossip
            && !std::mem::replace(&mut own.gossiping, true)
        {
            let first = 1 + run.chance.below(apart);
            run.wake(member, run.now.after(first), Event::Gossip);
        }
    }

    fn gossip(&mut self, member: usize, run: &mut Run<Event>) {
        let Some((apart, fanout)) = self.setting.gossip else { return };
        for other in self.some_others(member, fanout, None, run) {
            if !self.members[member].gossip.is_empty() {
                self.send((member, other), Packet::Gossip, run);
            }
        }
        let own = &mut self.members[member];
        own.gossiping = !own.gossip.is_empty();
        if own.gossiping {
            run.wake(member, run.now.after(apart), Event::Gossip);
        }
    }

    fn suspicion_over(
        &mut self,
        member: usize,
        subject: usize,
        began: Moment,
        run: &mut Run<Event>,
    ) {
        let held = self.members[member].table[subject];
        if held.told.state == State::Suspect && held.since == began {
            let told = Told { state: State::Dead, ..held.told };
            self.hear(member, Update { subject, told }, run);
        }
    }
}

impl Protocol for PlainSwim {
    type Event = Event;

    fn enter(&mut self, member: usize, run: &mut Run<Event>) {
        let all = if run.course.plan().join_apart.is_some() { 0 } else { self.members.len() };
        let own = &mut self.members[member];
        own.present = true;
        own.phase = run.chance.below(TICK);
        let alive = Told { state: State::Alive, incarnation: 1 };
        own.table[member].told = alive;
        own.table[..all].iter_mut().for_each(|held| held.told = alive);
        own.known = all.max(1);
        own.order = (0..all).filter(|other| *other != member).collect();
        run.chance.shuffle(&mut own.order);
        own.periods = run.chance.below(TICK);
        let first = run.next_tick(own.phase);
        run.wake(member, first, Event::Period);
    }

    fn handle(&mut self, member: usize, event: Event, run: &mut Run<Event>) {
        if !self.members[member].present {
            return;
        }
        match event {
            Event::Period => self.period(member, run),
            Event::Late(number) => self.late(member, number, run),
            Event::SuspicionOver(subject, began) => {
                self.suspicion_over(member, subject, began, run)
            }
            Event::Gossip => self.gossip(member, run),
            Event::Packet(from, packet, updates) => {
                updates.into_iter().for_each(|update| self.hear(member, update, run));
                self.packet(member, from, packet, run);
            }
        }
    }

    fn lists(&self, observer: usize, subject: usize) -> bool {
        let own = &self.members[observer];
        let held = own.table[subject].told.state;
        own.present && matches!(held, State::Alive | State::Suspect)
    }
}
