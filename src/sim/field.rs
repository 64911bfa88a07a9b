//! One run: members, virtual time, and whatever the course lets through.
//!
//! A protocol is one value for all its members. It is told of events at a member and answers with
//! timers, packets and exchanges. A silent member executes nothing: what was due there waits for
//! the end of its silence, timers first and packets after them. That is how Lifeguard's anomalies
//! work, which block a member's sending and receiving while its timers go on.

use super::chance::Chance;
use super::course::Course;
use super::moment::{Moment, TICK};
use super::score::Score;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One way of a packet, in parts of a tick: small against a period, as both papers ask.
const LATENCY_MIN: u64 = 5;
const LATENCY_SPREAD: u64 = 10;

/// A membership protocol under test.
pub trait Protocol {
    /// What a member can be told of.
    type Event;

    /// A member enters: at the start, or as it joins.
    fn enter(&mut self, member: usize, run: &mut Run<Self::Event>);

    /// A timer or a packet of a member is due.
    fn handle(&mut self, member: usize, event: Self::Event, run: &mut Run<Self::Event>);

    /// Whether `observer` is in the group and would send traffic to `subject`.
    fn lists(&self, observer: usize, subject: usize) -> bool;
}

/// Why something is due: at one instant timers come before packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Timer,
    Packet,
}

#[derive(Debug)]
enum What<E> {
    Enter,
    Misfortune(usize),
    Event(E),
}

/// Something due; ordered by instant, class, and the order it was scheduled in.
#[derive(Debug)]
struct Due<E> {
    key: (Moment, Class, u64),
    member: usize,
    what: What<E>,
}

impl<E> PartialEq for Due<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Due<E> {}

impl<E> PartialOrd for Due<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Due<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

/// A run as its protocol sees it.
#[derive(Debug)]
pub struct Run<E> {
    /// The present instant.
    pub now: Moment,
    /// The run's dice.
    pub chance: Chance,
    /// What befalls whom.
    pub course: Course,
    /// What it comes to.
    pub score: Score,
    queue: BinaryHeap<Reverse<Due<E>>>,
    scheduled: u64,
}

impl<E> Run<E> {
    /// Sets a timer of `member`.
    pub fn wake(&mut self, member: usize, at: Moment, event: E) {
        self.schedule((at, Class::Timer), member, What::Event(event));
    }

    /// Sends a packet. It may be lost, and it passes no partition.
    pub fn send(&mut self, (from, to): (usize, usize), bytes: u64, event: E) {
        self.score.sent(bytes);
        if self.course.connects(from, to, self.now) && !self.is_lost() {
            let latency = LATENCY_MIN + self.chance.below(LATENCY_SPREAD);
            self.schedule((self.now.after(latency), Class::Packet), to, What::Event(event));
        }
    }

    /// A request and its response over TCP, short against a tick. Whether the response came.
    pub fn exchange(&mut self, (from, to): (usize, usize), (asks, answers): (u64, u64)) -> bool {
        self.score.sent(asks);
        let reached = self.is_awake(to) && self.course.connects(from, to, self.now);
        if !reached || self.is_lost() {
            return false;
        }
        self.score.sent(answers);
        true
    }

    /// Whether a member is there and not silent.
    pub fn is_awake(&self, member: usize) -> bool {
        self.course.is_up(member, self.now) && self.course.paused_until(member, self.now).is_none()
    }

    /// The first instant after now at `phase` parts into a tick: a late tick moves no later one.
    pub fn next_tick(&self, phase: u64) -> Moment {
        let start = Moment::of_tick(self.now.tick()).after(phase);
        if start > self.now { start } else { start.after(TICK) }
    }

    fn is_lost(&mut self) -> bool {
        let loss = self.course.plan().loss;
        loss > 0 && self.chance.hits(loss, super::course::WHOLE)
    }

    fn schedule(&mut self, (at, class): (Moment, Class), member: usize, what: What<E>) {
        self.scheduled += 1;
        self.queue.push(Reverse(Due { key: (at, class, self.scheduled), member, what }));
    }
}

/// Runs `protocol` through `course`.
pub fn run<P: Protocol>(protocol: &mut P, course: Course, seed: u64) -> Score {
    let mut run = Run {
        now: Moment::default(),
        chance: Chance::new(seed),
        score: Score::new(&course),
        course,
        queue: BinaryHeap::new(),
        scheduled: 0,
    };
    let anomalies = run.course.anomalies();
    for (nth, anomaly) in anomalies.iter().enumerate() {
        run.schedule((anomaly.start, Class::Timer), anomaly.member, What::Misfortune(nth));
    }
    for member in 0..run.course.plan().members {
        run.schedule((run.course.enters(member), Class::Timer), member, What::Enter);
    }
    let end = Moment::of_tick(run.course.plan().ticks);
    while let Some(Reverse(due)) = run.queue.pop() {
        if due.key.0 >= end {
            break;
        }
        run.now = due.key.0;
        step(protocol, &mut run, due, &anomalies);
    }
    run.now = end;
    run.score.stable_members = stable_members(protocol, &run);
    run.score
}

fn step<P: Protocol>(
    protocol: &mut P,
    run: &mut Run<P::Event>,
    due: Due<P::Event>,
    anomalies: &[super::course::Anomaly],
) {
    let member = due.member;
    match due.what {
        What::Misfortune(nth) => run.score.begin(anomalies[nth]),
        what if run.course.is_up(member, run.now) => {
            if let Some(end) = run.course.paused_until(member, run.now) {
                run.schedule((end, due.key.1), member, what);
                return;
            }
            match what {
                What::Event(event) => protocol.handle(member, event, run),
                _ => protocol.enter(member, run),
            }
        }
        _ => {}
    }
}

fn stable_members<P: Protocol>(protocol: &P, run: &Run<P::Event>) -> usize {
    let up: Vec<usize> = (0..run.course.plan().members)
        .filter(|member| run.course.is_up(*member, run.now) && protocol.lists(*member, *member))
        .collect();
    up.iter()
        .filter(|subject| up.iter().all(|observer| protocol.lists(*observer, **subject)))
        .count()
}
