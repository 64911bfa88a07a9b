//! What a network can do to one exchange: carry it, lose it, lose only its answer, carry it twice,
//! or deliver it long after its sender gave up.

use crate::http::Request;
use crate::sim::chance::Chance;
use std::collections::{BTreeMap, BTreeSet};

/// How often, out of 1,000, each thing happens to an exchange on an open link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    /// The question never arrives.
    pub lost: u64,
    /// It is acted upon, and the answer never arrives.
    pub unanswered: u64,
    /// A POST arrives twice, as a front that tries again would deliver it.
    pub doubled: u64,
    /// A POST arrives after its sender gave up, behind later ones.
    pub late: u64,
    /// Answers take up to so many milliseconds.
    pub delay_ms: u64,
}

/// What becomes of one exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nothing arrives.
    Lost,
    /// The question arrives, the answer does not.
    Unanswered,
    /// The question arrives when nobody waits for the answer any more.
    Late {
        /// Milliseconds from now.
        after_ms: u64,
    },
    /// Question and answer arrive.
    Carried {
        /// Milliseconds from question to answer.
        ms: u64,
        /// Whether the question arrives a second time.
        twice: bool,
    },
}

/// A request that nobody waits for.
#[derive(Clone, Debug)]
pub(super) struct Stray {
    pub(super) due_ms: u64,
    pub(super) to: String,
    pub(super) request: Request,
}

/// The links between machines.
#[derive(Clone, Debug, Default)]
pub(super) struct Net {
    /// Directed links that carry no packet: no connection over them, whoever begins it.
    pub(super) cut: BTreeSet<(String, String)>,
    /// Directed pairs of which the first may not begin a connection, as behind a firewall.
    pub(super) barred: BTreeSet<(String, String)>,
    pub(super) weather: Weather,
    /// Out of 1,000 answers to a machine's own questions, how many it loses.
    pub(super) deaf: BTreeMap<String, u64>,
    pub(super) strays: Vec<Stray>,
}

/// Milliseconds from question to answer on an untroubled link.
pub(super) const ROUND_TRIP_MS: u64 = 10;
/// Longest that a request stays under way.
const STRAY_MS_MAX: u64 = 1_200_000;

impl Net {
    /// Whether `from` can begin a connection to `to`.
    pub(super) fn open(&self, from: &str, to: &str) -> bool {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        !self.cut.contains(&pair(from, to))
            && !self.cut.contains(&pair(to, from))
            && !self.barred.contains(&pair(from, to))
    }

    /// Draws what becomes of an exchange; only a POST is doubled or late.
    pub(super) fn fate(
        &self,
        (from, to): (&str, &str),
        is_post: bool,
        chance: &mut Chance,
    ) -> Fate {
        let weather = &self.weather;
        if !self.open(from, to) || chance.hits(weather.lost, 1_000) {
            return Fate::Lost;
        }
        let deaf = self.deaf.get(from).copied().unwrap_or(0);
        if deaf > 0 && chance.hits(deaf, 1_000) {
            return Fate::Unanswered;
        }
        if weather.unanswered > 0 && chance.hits(weather.unanswered, 1_000) {
            return Fate::Unanswered;
        }
        if is_post && weather.late > 0 && chance.hits(weather.late, 1_000) {
            return Fate::Late { after_ms: chance.below(STRAY_MS_MAX) };
        }
        let ms = match weather.delay_ms {
            0 => ROUND_TRIP_MS,
            most => chance.below(most).max(ROUND_TRIP_MS),
        };
        let twice = is_post && weather.doubled > 0 && chance.hits(weather.doubled, 1_000);
        Fate::Carried { ms, twice }
    }

    /// Takes what is due by now, in the order in which it arrives.
    pub(super) fn due(&mut self, now_ms: u64) -> Vec<Stray> {
        let (mut due, rest): (Vec<Stray>, Vec<Stray>) =
            std::mem::take(&mut self.strays).into_iter().partition(|stray| stray.due_ms <= now_ms);
        self.strays = rest;
        due.sort_by_key(|stray| stray.due_ms);
        due
    }
}
