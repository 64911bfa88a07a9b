//! Law 5: no verdict from a blind observer, and none right after a sleep.
//!
//! Intuition: when more than half of those who were fine a moment ago are silent at once, the
//! likelier explanation is our own network. And after a pause, what we remember is stale: one
//! tick is spent listening before anybody is accused (restate#5156, consul#1337).

use super::probe::Outcome;

/// How many of the last gaps are remembered.
pub const GAPS_KEPT: usize = 8;

/// What a tick may conclude.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pulse {
    /// Counts in full.
    Counted,
    /// Sooner than half an interval after the last: probes, ages nothing.
    Early,
    /// First after a new boot or a long gap: accuses nobody, ages nothing.
    Grace,
}

/// The time since the last tick, as far as it can be told.
#[derive(Clone, Copy, Debug)]
pub struct Gap<'a> {
    /// Milliseconds of boot time since the last tick, `None` after a new boot or a lost memory.
    pub since_ms: Option<u64>,
    /// The last counted gaps, oldest first.
    pub counted_ms: &'a [u64],
    /// Configured interval; 0 switches the gap rules off.
    pub interval_ms: u64,
    /// Whether the last tick was a grace tick: never two running.
    pub last_was_grace: bool,
}

/// Decides what kind of tick this is, before anything is probed.
pub fn pulse(gap: &Gap<'_>) -> Pulse {
    let Some(since_ms) = gap.since_ms else {
        return if gap.last_was_grace { Pulse::Counted } else { Pulse::Grace };
    };
    if gap.interval_ms == 0 {
        return Pulse::Counted;
    }
    if since_ms < gap.interval_ms / 2 {
        return Pulse::Early;
    }
    let usual_ms = median(gap.counted_ms).unwrap_or(gap.interval_ms).max(gap.interval_ms / 2);
    if since_ms > 3 * usual_ms && !gap.last_was_grace {
        return Pulse::Grace;
    }
    Pulse::Counted
}

/// Whether over half of the peers alive at the tick's start went unheard.
pub fn is_blind<'a>(
    alive_at_start: impl Iterator<Item = &'a Outcome>,
    self_check_answered: bool,
) -> bool {
    let (mut peers, mut unheard) = (0_usize, 0_usize);
    for outcome in alive_at_start {
        peers += 1;
        unheard += usize::from(!outcome.was_heard());
    }
    !self_check_answered && unheard * 2 > peers
}

/// What is known when asking whether blindness has lasted long enough.
#[derive(Clone, Copy, Debug)]
pub struct BlindSpell {
    /// Blind ticks in a row, this one included.
    pub ticks: u64,
    /// Max of the suspicion formula.
    pub suspicion_ticks_max: u64,
    /// Heard keyed members that confirm what we see.
    pub agreeing: u64,
    /// Keyed members that can be asked at all.
    pub askable: u64,
    /// Whether any peer was heard in this tick.
    pub some_peer_heard: bool,
    /// Members and roster rows, ourselves included.
    pub members: u64,
}

/// Whether the silence is to be believed after all. Without an exit, the real death of a majority
/// would be held back for ever (eureka#1073).
pub fn spell_ends(spell: &BlindSpell) -> bool {
    if spell.ticks >= spell.suspicion_ticks_max && spell.agreeing >= 2 {
        return true;
    }
    let alone = spell.askable <= 1 && spell.some_peer_heard;
    spell.ticks >= 2 * spell.suspicion_ticks_max && (alone || spell.members < 3)
}

fn median(gaps: &[u64]) -> Option<u64> {
    let mut sorted = gaps.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(since_ms: Option<u64>, last_was_grace: bool) -> Gap<'static> {
        Gap { since_ms, counted_ms: &[30_000; 8], interval_ms: 30_000, last_was_grace }
    }

    #[test]
    fn a_sleep_or_a_boot_gives_one_grace_tick_and_never_two() {
        assert_eq!(pulse(&gap(Some(30_000), false)), Pulse::Counted);
        assert_eq!(pulse(&gap(Some(90_001), false)), Pulse::Grace);
        assert_eq!(pulse(&gap(Some(90_001), true)), Pulse::Counted);
        assert_eq!(pulse(&gap(None, false)), Pulse::Grace);
        assert_eq!(pulse(&gap(None, true)), Pulse::Counted);
    }

    #[test]
    fn an_impatient_hand_does_not_age_anybody() {
        assert_eq!(pulse(&gap(Some(14_999), false)), Pulse::Early);
        assert_eq!(pulse(&Gap { interval_ms: 0, ..gap(Some(1), false) }), Pulse::Counted);
    }

    #[test]
    fn short_gaps_cannot_make_an_ordinary_one_look_long() {
        let short = Gap { counted_ms: &[1; 8], ..gap(Some(45_000), false) };
        assert_eq!(pulse(&short), Pulse::Counted);
    }

    fn outcomes(heard: usize, unheard: usize) -> Vec<Outcome> {
        let failed = |heard| Outcome::Failed { reason: "timeout".into(), heard, ms: 1 };
        (0..heard).map(|_| failed(true)).chain((0..unheard).map(|_| failed(false))).collect()
    }

    #[test]
    fn only_a_silent_majority_blinds() {
        for (heard, unheard, want) in
            [(0, 0, false), (1, 1, false), (1, 2, true), (3, 3, false), (0, 1, true)]
        {
            assert_eq!(is_blind(outcomes(heard, unheard).iter(), false), want, "{heard}/{unheard}");
            assert!(!is_blind(outcomes(heard, unheard).iter(), true));
        }
    }

    #[test]
    fn blindness_has_an_exit_but_not_for_one_who_hears_nobody() {
        let spell = BlindSpell {
            ticks: 12,
            suspicion_ticks_max: 6,
            agreeing: 0,
            askable: 0,
            some_peer_heard: false,
            members: 7,
        };
        assert!(!spell_ends(&spell));
        assert!(spell_ends(&BlindSpell { some_peer_heard: true, ..spell }));
        assert!(spell_ends(&BlindSpell { members: 2, ..spell }));
        assert!(!spell_ends(&BlindSpell { members: 2, ticks: 11, ..spell }));
        assert!(spell_ends(&BlindSpell { ticks: 6, agreeing: 2, askable: 5, ..spell }));
    }
}
