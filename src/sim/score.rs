//! What a run comes to: verdicts counted against what really happened.
//!
//! A verdict is a member's view of another turning to dead, each time it turns. It is false when
//! nothing ever befalls that other in the run (Lifeguard's count: the members picked for anomalies
//! are left out, whether silent at that instant or not); it is false *at a healthy member* when
//! nothing befalls the one who holds it either.

use super::course::{Anomaly, Course};
use super::moment::Moment;

/// One misfortune and how it was noticed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Detection {
    /// The misfortune.
    pub anomaly: Anomaly,
    /// Ticks until anybody first probed the victim.
    pub probed: Option<f64>,
    /// Ticks until a healthy member held it dead.
    pub first: Option<f64>,
    /// Ticks until every healthy member had held it dead.
    pub full: Option<f64>,
}

/// Counters of one run.
#[derive(Clone, Debug)]
pub struct Score {
    members: usize,
    healthy: Vec<bool>,
    /// View of `observer` on `subject`, at `observer * members + subject`.
    dead: Vec<bool>,
    /// Like `dead`: raised since the subject's misfortune began.
    raised: Vec<bool>,
    /// Per member: its misfortune in `detections` that is being measured.
    open: Vec<Option<usize>>,
    /// Per member: the last tick somebody probed it in.
    last_probed: Vec<Option<u64>>,
    /// False verdicts.
    pub false_positives: u64,
    /// Those at healthy members.
    pub false_positives_at_healthy: u64,
    /// Packets, or requests and responses.
    pub messages: u64,
    /// Bytes in them, without the headers of IP, UDP, TCP and TLS.
    pub bytes: u64,
    /// Direct probes.
    pub probes: u64,
    /// Pairs of a member and a tick in which somebody probed it.
    pub probed_ticks: u64,
    /// Probes that failed, helpers included, although the probed member was there and not silent.
    pub false_probes: u64,
    /// Misfortunes of members that everybody held alive when they began.
    pub detections: Vec<Detection>,
    /// Members that everybody present lists at the end.
    pub stable_members: usize,
}

impl Score {
    /// All zero.
    pub fn new(course: &Course) -> Self {
        let members = course.plan().members;
        Score {
            members,
            healthy: (0..members).map(|member| course.is_healthy(member)).collect(),
            dead: vec![false; members * members],
            raised: vec![false; members * members],
            open: vec![None; members],
            false_positives: 0,
            false_positives_at_healthy: 0,
            messages: 0,
            bytes: 0,
            probes: 0,
            probed_ticks: 0,
            false_probes: 0,
            last_probed: vec![None; members],
            detections: Vec::new(),
            stable_members: 0,
        }
    }

    /// A message left.
    pub fn sent(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
    }

    /// A direct probe of `subject` begins.
    pub fn probed(&mut self, subject: usize, now: Moment) {
        self.probes += 1;
        let before = self.last_probed[subject].replace(now.tick());
        self.probed_ticks += u64::from(before != Some(now.tick()));
        if let Some(open) = self.open[subject] {
            let detection = &mut self.detections[open];
            detection.probed.get_or_insert(now.ticks_since(detection.anomaly.start));
        }
    }

    /// A misfortune begins. It is measured if no healthy member holds its victim dead already.
    pub fn begin(&mut self, anomaly: Anomaly) {
        let subject = anomaly.member;
        let held = self.healthy_members().any(|observer| self.dead[self.view(observer, subject)]);
        self.open[subject] = (!held).then_some(self.detections.len());
        if held {
            return;
        }
        self.detections.push(Detection { anomaly, probed: None, first: None, full: None });
        for observer in 0..self.members {
            let view = self.view(observer, subject);
            self.raised[view] = false;
        }
    }

    /// `observer` holds `subject` dead from now on. Holding on to it counts once.
    pub fn holds_dead(&mut self, observer: usize, subject: usize, now: Moment) {
        let view = self.view(observer, subject);
        if observer == subject || std::mem::replace(&mut self.dead[view], true) {
            return;
        }
        if self.healthy[subject] {
            self.false_positives += 1;
            self.false_positives_at_healthy += u64::from(self.healthy[observer]);
        }
        if self.healthy[observer] {
            self.raised[view] = true;
            self.detect(subject, now);
        }
    }

    /// `observer` does not hold `subject` dead any more.
    pub fn holds_alive(&mut self, observer: usize, subject: usize) {
        let view = self.view(observer, subject);
        self.dead[view] = false;
    }

    fn detect(&mut self, subject: usize, now: Moment) {
        let Some(open) = self.open[subject] else { return };
        let everybody =
            self.healthy_members().all(|observer| self.raised[self.view(observer, subject)]);
        let detection = &mut self.detections[open];
        let ticks = now.ticks_since(detection.anomaly.start);
        detection.first.get_or_insert(ticks);
        if everybody {
            detection.full.get_or_insert(ticks);
        }
    }

    fn healthy_members(&self) -> impl Iterator<Item = usize> {
        (0..self.members).filter(|member| self.healthy[*member])
    }

    fn view(&self, observer: usize, subject: usize) -> usize {
        observer * self.members + subject
    }
}

/// The middle value, the lower one of two; `None` of nothing.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::course::{Crash, Plan};

    #[test]
    fn a_verdict_counts_when_it_turns_and_is_false_about_those_nothing_befalls() {
        let crash = Some(Crash { members: 1, tick: 5 });
        let course = Course::new(Plan { crash, ..Plan::quiet(4, 20) }, 1);
        let mut score = Score::new(&course);
        let victim = (0..4).find(|member| !course.is_healthy(*member)).unwrap();
        let well: Vec<usize> = (0..4).filter(|member| *member != victim).collect();
        score.begin(course.anomalies()[0]);
        for tick in [7, 8] {
            score.holds_dead(well[0], victim, Moment::of_tick(tick));
        }
        score.holds_dead(well[1], victim, Moment::of_tick(8));
        assert_eq!(score.detections[0].full, None);
        score.holds_dead(well[2], victim, Moment::of_tick(9));
        assert_eq!(score.false_positives, 0);
        assert_eq!((score.detections[0].first, score.detections[0].full), (Some(2.0), Some(4.0)));

        score.holds_dead(victim, well[0], Moment::of_tick(9));
        score.holds_dead(well[1], well[0], Moment::of_tick(9));
        score.holds_dead(well[1], well[0], Moment::of_tick(10));
        assert_eq!((score.false_positives, score.false_positives_at_healthy), (2, 1));
        score.holds_alive(well[1], well[0]);
        score.holds_dead(well[1], well[0], Moment::of_tick(11));
        assert_eq!(score.false_positives, 3);
    }

    #[test]
    fn a_median_of_nothing_is_nothing() {
        assert_eq!(median([].into_iter()), None);
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([4.0, 1.0].into_iter()), Some(1.0));
    }
}
