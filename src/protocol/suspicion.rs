//! How long doubt lasts: Lifeguard's formula, in executed healthy ticks.
//!
//! T = max(Min, Max - (Max - Min)·ln(C+1)/ln(K+1)), Min = α·max(1, log10 n), Max = β·Min
//! (Lifeguard, arXiv 1707.00788, section IV-B). C counts independent accusers beyond the first.

use super::contact::SPEAKS_AGAINST_SILENCE;
use super::profile::{PROBED_OF_MANY, Profile};

/// Below this many members nobody independent can vouch, so Max holds (design section 8).
pub const MEMBERS_TO_CONFIRM_MIN: u64 = 4;

/// Ticks a suspicion lasts in a federation of `members` with `confirmations` independent
/// accusers beyond the first. Rounded up: rounding down would shorten the time to refute.
pub fn ticks(profile: &Profile, members: u64, confirmations: u64) -> u64 {
    if let Some(fixed) = profile.suspicion_ticks {
        return fixed;
    }
    let (least, most) = bounds(profile, members);
    let needed = profile.accusers.min(members.saturating_sub(2));
    if members < MEMBERS_TO_CONFIRM_MIN || needed == 0 {
        return ceil(most);
    }
    let share = ((confirmations as f64).ln_1p() / (needed as f64).ln_1p()).min(1.0);
    ceil((most - (most - least) * share).max(least))
}

/// The longest a suspicion can last: nobody else accuses.
pub fn ticks_max(profile: &Profile, members: u64) -> u64 {
    ticks(profile, members, 0)
}

/// Longest time from a death to its line in milliseconds: the tick in which its last own word still
/// stands, the next one's failed probe, the suspicion, and the tick that writes it. `None` where ticks are started by hand.
pub fn detection_ms_max(profile: &Profile, members: u64) -> Option<u64> {
    // Where not everybody is asked each tick, the turn has to come first (SWIM, section 4.3).
    let turn = match members > profile.probe_all_max {
        true => (2 * members).div_ceil(PROBED_OF_MANY as u64),
        false => 0,
    };
    let ticks = 1 + SPEAKS_AGAINST_SILENCE + turn + ticks_max(profile, members);
    (profile.interval_ms > 0).then(|| ticks * profile.interval_ms + profile.deadline_ms())
}

fn bounds(profile: &Profile, members: u64) -> (f64, f64) {
    let least = profile.alpha * (members as f64).log10().max(1.0);
    (least, profile.beta * least)
}

fn ceil(ticks: f64) -> u64 {
    // A hair above a whole number is rounding noise of log10, not a tick more.
    (ticks - 1e-9).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(alpha: f64, beta: f64, accusers: u64) -> Profile {
        Profile { alpha, beta, accusers, ..Profile::default() }
    }

    #[test]
    fn agrees_with_the_published_table() {
        let k2 = profile(4.0, 6.0, 2);
        let expected = [
            (5, [24, 12, 4]),
            (16, [29, 14, 5]),
            (32, [37, 18, 7]),
            (64, [44, 21, 8]),
            (128, [51, 24, 9]),
        ];
        for (members, by_accusers) in expected {
            for (confirmations, want) in by_accusers.into_iter().enumerate() {
                assert_eq!(
                    ticks(&k2, members, confirmations as u64),
                    want,
                    "n={members} C={confirmations}"
                );
            }
        }
        let k3 = profile(5.0, 6.0, 3);
        for (confirmations, want) in [30, 18, 11, 5].into_iter().enumerate() {
            assert_eq!(ticks(&k3, 10, confirmations as u64), want);
        }
    }

    #[test]
    fn few_members_wait_the_longest() {
        for members in 0..MEMBERS_TO_CONFIRM_MIN {
            assert_eq!(ticks(&profile(4.0, 6.0, 3), members, 5), 24, "n={members}");
        }
    }

    #[test]
    fn more_accusers_never_lengthen_and_min_is_kept() {
        for members in 4..200 {
            let p = profile(2.0, 3.0, 3);
            let row: Vec<u64> = (0..8).map(|c| ticks(&p, members, c)).collect();
            assert!(row.windows(2).all(|pair| pair[0] >= pair[1]), "{row:?}");
            assert!(*row.last().unwrap() >= 2);
        }
    }
}
