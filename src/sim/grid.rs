//! Lifeguard's grid (arXiv 1707.00788, section V): anomalies of every length, distance and number,
//! under plain SWIM and under our rules, from the same seeds.
//!
//! One run lasts two minutes of one-second periods, as there. False verdicts come from the runs
//! with anomalies, detection from runs in which members die for good, because an anomaly shorter
//! than a suspicion is nothing to be detected.

use super::course::{Course, Crash, Pause, Plan, QUIET_TICKS};
use super::federation::Federation;
use super::field::run;
use super::plain_swim::PlainSwim;
use super::plain_swim::setting::Setting;
use super::score::{Score, median};
use crate::protocol::profile::Profile;

/// Ticks of an anomaly.
const SILENT: [u64; 6] = [1, 2, 4, 8, 16, 32];
/// Ticks from one to the next.
const APART: [u64; 4] = [1, 4, 16, 64];
/// Members at once, of 128; fewer where that is over a quarter.
const AT_ONCE: [usize; 9] = [1, 4, 8, 12, 16, 20, 24, 28, 32];
/// Runs of each number of deaths.
const DEATHS: u64 = 10;
/// Two minutes after the quiet start.
const TICKS: u64 = QUIET_TICKS + 120;

/// Who is run through the grid.
#[derive(Clone, Debug)]
pub enum Contender {
    /// The baseline, with its α.
    PlainSwim(f64),
    /// Our rules under a profile.
    Ours(Profile),
}

/// What one contender came to.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// False verdicts where members were silent: in all, and at healthy members.
    pub silent: (u64, u64),
    /// False verdicts where members were deaf: in all, and at healthy members.
    pub deaf: (u64, u64),
    /// Messages and bytes of the silent runs.
    pub load: (u64, u64),
    /// Median ticks from a death to its first verdict at a healthy member; never is the longest.
    pub first: Option<f64>,
    /// The same to the last healthy member.
    pub full: Option<f64>,
    /// Deaths, and those that not every healthy member came to know.
    pub deaths: (usize, usize),
}

/// Runs one contender through every cell of the grid, under seeds 1 to `seeds`.
pub fn through(contender: &Contender, members: usize, seeds: u64) -> Row {
    let mut row = Row {
        name: contender.name(),
        silent: (0, 0),
        deaf: (0, 0),
        load: (0, 0),
        first: None,
        full: None,
        deaths: (0, 0),
    };
    let mut deaths = Vec::new();
    for seed in 1..=seeds {
        for (cell, nth) in cells(members).into_iter().zip(0..) {
            let silent = Plan { pause: Some(cell), ..Plan::quiet(members, TICKS) };
            let score = contender.run(silent, of_run(seed, nth));
            add(&mut row.silent, (score.false_positives, score.false_positives_at_healthy));
            add(&mut row.load, (score.messages, score.bytes));
            let deaf = Plan { deaf: Some(cell), ..Plan::quiet(members, TICKS) };
            let score = contender.run(deaf, of_run(seed, nth));
            add(&mut row.deaf, (score.false_positives, score.false_positives_at_healthy));
        }
        for at_once in at_once(members) {
            let crash = Some(Crash { members: at_once, tick: QUIET_TICKS });
            let plan = Plan { crash, ..Plan::quiet(members, TICKS) };
            for nth in 0..DEATHS {
                deaths.extend(contender.run(plan, of_run(seed, nth)).detections);
            }
        }
    }
    let known = |ticks: Option<f64>| ticks.unwrap_or(f64::INFINITY);
    let finite = |ticks: Option<f64>| ticks.filter(|ticks| ticks.is_finite());
    row.first = finite(median(deaths.iter().map(|death| known(death.first))));
    row.full = finite(median(deaths.iter().map(|death| known(death.full))));
    row.deaths = (deaths.len(), deaths.iter().filter(|death| death.full.is_none()).count());
    row
}

/// The seed of one run. Each has victims of its own, or one seed whose first victim is the anchor
/// would stand for all of its runs.
fn of_run(seed: u64, nth: u64) -> u64 {
    seed * 1_000 + nth
}

fn cells(members: usize) -> Vec<Pause> {
    let mut cells = Vec::new();
    for ticks in SILENT {
        for apart in APART {
            cells.extend(at_once(members).map(|members| Pause { ticks, apart, members }));
        }
    }
    cells
}

fn at_once(members: usize) -> impl Iterator<Item = usize> {
    AT_ONCE.into_iter().filter(move |at_once| *at_once == 1 || *at_once <= members / 4)
}

fn add(sum: &mut (u64, u64), more: (u64, u64)) {
    sum.0 += more.0;
    sum.1 += more.1;
}

impl Contender {
    /// One run.
    pub fn run(&self, plan: Plan, seed: u64) -> Score {
        let course = Course::new(plan, seed);
        match self {
            Contender::PlainSwim(alpha) => {
                let mut swim = PlainSwim::new(Setting::baseline(*alpha), plan.members);
                run(&mut swim, course, seed)
            }
            Contender::Ours(profile) => {
                run(&mut Federation::new(profile, plan.members), course, seed)
            }
        }
    }

    fn name(&self) -> String {
        match self {
            Contender::PlainSwim(alpha) => format!("plain SWIM, α {alpha}"),
            Contender::Ours(profile) => format!("ours, α {} β {}", profile.alpha, profile.beta),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_is_lifeguards_and_shrinks_with_the_group() {
        assert_eq!(cells(128).len(), 6 * 4 * 9);
        assert_eq!(at_once(64).collect::<Vec<_>>(), [1, 4, 8, 12, 16]);
        assert_eq!(at_once(5).collect::<Vec<_>>(), [1]);
    }
}
