//! The numbers a federation runs under, argued once per tick length.
//!
//! A suspicion of 24 ticks is 24 seconds at a 1 s timer and 24 minutes at a 60 s timer, so α, β
//! are chosen per interval (`reference` table: Lifeguard's α 5, β 6 shrunk as ticks grow longer).

use serde::{Deserialize, Serialize};

/// Rule parameters, checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Configured tick interval in milliseconds; 0 = started by hand, nothing is early or late.
    pub interval_ms: u64,
    /// Hard limit of one probe, lookup to body.
    pub timeout_ms: u64,
    /// From here on an answer is slow.
    pub slow_ms: u64,
    /// Lifeguard's α: Min = α·max(1, log10 n) ticks.
    pub alpha: f64,
    /// Lifeguard's β: Max = β·Min.
    pub beta: f64,
    /// Independent accusers after which suspicion is down to Min.
    pub accusers: u64,
    /// Fixes the suspicion length in ticks, whatever the formula says.
    pub suspicion_ticks: Option<u64>,
    /// Helpers asked when a probe fails (SWIM's k): at 5 % loss three make a false suspicion a
    /// thousand times rarer than none, a fourth no longer pays.
    pub helpers: u64,
    /// Up to so many keyed members all are probed each tick; above it three.
    pub probe_all_max: u64,
    /// Dead ticks after which a member no longer counts; three days of ticks.
    pub reap_ticks: u64,
}

/// Targets of one tick above [`Profile::probe_all_max`].
pub const PROBED_OF_MANY: usize = 3;
/// Longest fixed suspicion: at a tick a second more than eleven days.
const SUSPICION_TICKS_MAX: u64 = 1_000_000;
/// Three days.
const REAP_MS: u64 = 3 * 86_400_000;
/// Longest accepted interval: one day.
pub const INTERVAL_MS_MAX: u64 = 86_400_000;

impl Profile {
    /// The profile in force at an interval: the longest listed one that is not longer; by hand
    /// (interval 0) as at 30 s.
    pub fn for_interval(interval_ms: u64) -> Self {
        let (timeout_ms, slow_ms, alpha, beta) = match interval_ms {
            0 => (3_000, 1_000, 2.0, 3.0),
            1..10_000 => (500, 200, 4.0, 6.0),
            10_000..30_000 => (3_000, 1_000, 3.0, 4.0),
            30_000..60_000 => (3_000, 1_000, 2.0, 3.0),
            _ => (3_000, 1_000, 2.0, 2.0),
        };
        Profile {
            interval_ms,
            timeout_ms,
            slow_ms,
            alpha,
            beta,
            accusers: 3,
            suspicion_ticks: None,
            helpers: 3,
            probe_all_max: 20,
            reap_ticks: REAP_MS / if interval_ms == 0 { 30_000 } else { interval_ms },
        }
    }

    /// Refuses nonsense with the reason.
    pub fn checked(self) -> Result<Self, String> {
        if self.interval_ms > INTERVAL_MS_MAX {
            return Err(format!(
                "interval {} ms, expected at most {INTERVAL_MS_MAX} (one day)",
                self.interval_ms
            ));
        }
        if self.timeout_ms == 0 || self.slow_ms == 0 || self.slow_ms > self.timeout_ms {
            return Err(format!(
                "slow {} ms and timeout {} ms, expected 0 < slow <= timeout",
                self.slow_ms, self.timeout_ms
            ));
        }
        if self.timeout_ms > self.deadline_ms() {
            return Err(format!(
                "timeout {} ms is longer than a tick may last ({} ms, 0.8 of the interval)",
                self.timeout_ms,
                self.deadline_ms()
            ));
        }
        if !(1.0..=100.0).contains(&self.alpha) || !(1.0..=100.0).contains(&self.beta) {
            return Err(format!("alpha {} and beta {}, expected 1 to 100", self.alpha, self.beta));
        }
        if self.helpers > 16 || self.probe_all_max > 1_000 {
            return Err(format!(
                "helpers {} and probe_all_max {}, expected at most 16 and 1000",
                self.helpers, self.probe_all_max
            ));
        }
        if self.reap_ticks == 0 {
            return Err("reap_ticks 0 would forget the dead at once, expected 1 or more".to_owned());
        }
        if self.suspicion_ticks == Some(0) {
            return Err("suspicion_ticks 0 would skip suspicion, expected 1 or more".to_owned());
        }
        if let Some(ticks) = self.suspicion_ticks.filter(|ticks| *ticks > SUSPICION_TICKS_MAX) {
            return Err(format!(
                "suspicion_ticks {ticks} would never end, expected at most {SUSPICION_TICKS_MAX}"
            ));
        }
        Ok(self)
    }

    /// How long one tick may last: 0.8 of the interval, 10 s by hand (design section 3).
    pub fn deadline_ms(&self) -> u64 {
        if self.interval_ms == 0 { 10_000 } else { self.interval_ms / 5 * 4 }
    }
}

impl Default for Profile {
    fn default() -> Self {
        Profile::for_interval(30_000)
    }
}
