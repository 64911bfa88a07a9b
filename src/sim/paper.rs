//! Whether the baseline is the SWIM of its paper: measured figures beside the published ones.
//!
//! A yardstick that is too short makes everybody tall. Before any comparison is believed, plain
//! SWIM has to reach here what its paper says of it.

use super::course::{Course, Crash, Plan, WHOLE};
use super::field::run;
use super::plain_swim::PlainSwim;
use super::plain_swim::setting::{LogBase, Setting, Suspicion};
use super::score::{Score, median};

/// One figure of the paper and what the baseline came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What is measured.
    pub what: &'static str,
    /// The paper's figure.
    pub paper: f64,
    /// Ours.
    pub measured: f64,
    /// How far apart they may be: three standard errors of the measurement, or what the paper
    /// leaves open.
    pub tolerance: f64,
}

impl Finding {
    /// Whether the two agree.
    pub fn agrees(&self) -> bool {
        (self.measured - self.paper).abs() <= self.tolerance
    }
}

/// How much is measured: runs of each kind.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Crashes, each in a run of its own.
    pub crashes: u64,
    /// Periods of the runs under loss.
    pub periods: u64,
    /// Runs of joining members.
    pub joinings: u64,
}

/// Members of the runs in which their number hardly matters.
const MEMBERS: usize = 64;
/// Ten packets of a hundred, the paper's loss.
const LOSS: u64 = WHOLE / 10;

/// Measures everything.
pub fn findings(effort: &Effort, seed: u64) -> Vec<Finding> {
    let mut all = vec![first_detection(effort, seed)];
    all.extend([(1, 0.1028), (3, 0.0122)].map(|case| false_detection(effort, seed, case)));
    all.push(load(effort, seed));
    all.push(joiners(effort, seed));
    all
}

/// Periods from a crash to the first ping of the crashed, the one of the ping included: e/(e-1),
/// for 64 members 1/(1-(1-1/63)^63) (SWIM, section 3.1).
fn first_detection(effort: &Effort, seed: u64) -> Finding {
    let crash = Some(Crash { members: 1, tick: 4 });
    let plan = Plan { crash, ..Plan::quiet(MEMBERS, 16) };
    let periods = (0..effort.crashes).filter_map(|nth| {
        let score = baseline(Setting::baseline(5.0), plan, seed + nth);
        score.detections.first()?.probed.map(|ticks| ticks.floor() + 1.0)
    });
    let (sum, count) = periods.fold((0.0, 0.0), |(sum, count), one| (sum + one, count + 1.0));
    // A geometric distribution of success 1 - 1/e has a standard deviation of 0.96.
    let tolerance = 3.0 * 0.96 / f64::sqrt(count);
    Finding { what: "periods to first detection", paper: 1.582, measured: sum / count, tolerance }
}

/// False detections of a member per period in which it is pinged at all, at 10 % loss: the formula
/// of section 3.1, (1-q²)(1-q⁴)^k e/(e-1).
fn false_detection(effort: &Effort, seed: u64, (helpers, paper): (usize, f64)) -> Finding {
    let endless = Suspicion::Endless;
    let setting = Setting { helpers, suspicion: endless, ..Setting::baseline(5.0) };
    let plan = Plan { loss: LOSS, ..Plan::quiet(MEMBERS, effort.periods) };
    let score = baseline(setting, plan, seed);
    let what = match helpers {
        1 => "false detections a member and period, k=1, 10 % loss",
        _ => "false detections a member and period, k=3, 10 % loss",
    };
    let measured = score.false_probes as f64 / score.probed_ticks as f64;
    // Counts of rare events: their standard deviation is their root.
    let tolerance = 3.0 * paper / f64::sqrt(paper * score.probed_ticks as f64);
    Finding { what, paper, measured, tolerance }
}

/// Packets a member sends in a period: a ping, and an answer to one (section 5.1).
fn load(effort: &Effort, seed: u64) -> Finding {
    let plan = Plan::quiet(MEMBERS, effort.periods.min(100));
    let score = baseline(Setting::paper(LogBase::Ten), plan, seed);
    let measured = score.messages as f64 / (MEMBERS as u64 * plan.ticks) as f64;
    Finding { what: "packets sent a member and period", paper: 2.0, measured, tolerance: 0.05 }
}

/// Section 5.3: 17 processes join one after another at 10 % loss and are counted after 87 periods;
/// dead is for good there. The paper names no base of its logarithm: with 10 suspicion lasts six
/// periods, with e nine. Its 12 is one run.
fn joiners(effort: &Effort, seed: u64) -> Finding {
    let measured = joining(Setting::paper(LogBase::Ten), effort.joinings, seed);
    let what = "stable of 17 joiners, 10 % loss";
    Finding { what, paper: 12.0, measured, tolerance: 3.0 }
}

/// Periods between two joins. The paper shows a curve without a number; 17 joins fill half of it.
const JOIN_APART: u64 = 3;

/// Median size of the group that joiners come to.
pub fn joining(setting: Setting, runs: u64, seed: u64) -> f64 {
    let plan = Plan { loss: LOSS, join_apart: Some(JOIN_APART), ..Plan::quiet(17, 87) };
    let sizes = (0..runs).map(|nth| baseline(setting, plan, seed + nth).stable_members as f64);
    median(sizes).unwrap_or(0.0)
}

fn baseline(setting: Setting, plan: Plan, seed: u64) -> Score {
    let mut swim = PlainSwim::new(setting, plan.members);
    run(&mut swim, Course::new(plan, seed), seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_baseline_is_the_swim_of_its_paper() {
        let effort = Effort { crashes: 120, periods: 150, joinings: 9 };
        for finding in findings(&effort, 1) {
            assert!(finding.agrees(), "{finding:?}");
        }
    }

    #[test]
    fn suspicion_is_what_keeps_joiners_in_the_group() {
        let without = Setting { suspicion: Suspicion::Fixed(0.0), ..Setting::paper(LogBase::Ten) };
        let (kept, longer) = (Setting::paper(LogBase::Ten), Setting::paper(LogBase::E));
        let sizes = [without, kept, longer].map(|setting| joining(setting, 9, 1));
        assert!(sizes[0] <= 4.0 && sizes[0] < sizes[1] && sizes[1] < sizes[2], "{sizes:?}");
    }
}
