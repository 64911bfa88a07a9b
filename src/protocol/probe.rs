//! What one probe says: the outcome, whether the peer was heard at all, and the verdict word.
//!
//! Two questions are kept apart. *Did it answer well?* decides the row's judgement. *Was anything
//! of it heard?* decides whether we may trust our own ears (`blind`).

use serde::{Deserialize, Serialize};

/// What came back from one peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "class", rename_all = "lowercase")]
pub enum Outcome {
    /// An HTTP response head arrived.
    Answered {
        /// HTTP status as sent.
        http: u16,
        /// Milliseconds to the response head.
        ms: u64,
    },
    /// No HTTP response head arrived.
    Failed {
        /// One of `dns connect refused reset timeout not-http tls local unasked`.
        reason: String,
        /// Whether the peer's machine was heard all the same (a refusal, a reset, other bytes).
        heard: bool,
        /// Milliseconds until we gave up.
        ms: u64,
    },
}

impl Outcome {
    /// An answer below 500 at any speed: the gateway stands (design section 12, "< 500").
    pub fn is_success(&self) -> bool {
        matches!(self, Outcome::Answered { http, .. } if *http < 500)
    }

    /// Whether anything of the peer was heard.
    pub fn was_heard(&self) -> bool {
        match self {
            Outcome::Answered { .. } => true,
            Outcome::Failed { heard, .. } => *heard,
        }
    }

    /// Whether the failure is ours: no route, no descriptor, no turn. It says nothing of the peer.
    pub fn is_local(&self) -> bool {
        matches!(self, Outcome::Failed { reason, .. } if reason == "local" || reason == "unasked")
    }
}

/// The Q-peer verdict (판정) on one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Judgement {
    /// 티: answered in time.
    Ok,
    /// 옴: answered, but slowly.
    Slow,
    /// 타: did not answer, or answered with 500 or more.
    Down,
    /// 음: not judged yet, or cannot be judged from here.
    Unknown,
}

impl Judgement {
    /// The Korean state word of the psv files.
    pub fn word(self) -> &'static str {
        match self {
            Judgement::Ok => "티",
            Judgement::Slow => "옴",
            Judgement::Down => "타",
            Judgement::Unknown => "음",
        }
    }

    /// The English word of tables and JSON.
    pub fn english(self) -> &'static str {
        match self {
            Judgement::Ok => "ok",
            Judgement::Slow => "slow",
            Judgement::Down => "down",
            Judgement::Unknown => "unknown",
        }
    }

    /// Reads a state word.
    pub fn parse(word: &str) -> Option<Self> {
        [Judgement::Ok, Judgement::Slow, Judgement::Down, Judgement::Unknown]
            .into_iter()
            .find(|judgement| judgement.word() == word)
    }
}

/// Judges one outcome: below 500 by time to the response head, 500 and above down with its code,
/// silence down, our own trouble or a blind tick unknown.
pub fn judge(outcome: &Outcome, slow_ms: u64, blind: bool) -> Judgement {
    match outcome {
        Outcome::Answered { http, ms } if *http < 500 => {
            if *ms < slow_ms {
                Judgement::Ok
            } else {
                Judgement::Slow
            }
        }
        failure if blind || failure.is_local() => Judgement::Unknown,
        _ => Judgement::Down,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_one_judgement() {
        for http in 100..=999 {
            let judged = judge(&Outcome::Answered { http, ms: 20 }, 1_000, false);
            let expected = if http < 500 { Judgement::Ok } else { Judgement::Down };
            assert_eq!(judged, expected, "{http}");
        }
        assert_eq!(
            judge(&Outcome::Answered { http: 200, ms: 1_000 }, 1_000, false),
            Judgement::Slow
        );
    }

    #[test]
    fn our_own_trouble_never_condemns_a_peer() {
        let local = Outcome::Failed { reason: "local".into(), heard: false, ms: 0 };
        let timeout = Outcome::Failed { reason: "timeout".into(), heard: false, ms: 3_000 };
        assert_eq!(judge(&local, 1_000, false), Judgement::Unknown);
        assert_eq!(judge(&timeout, 1_000, false), Judgement::Down);
        assert_eq!(judge(&timeout, 1_000, true), Judgement::Unknown);
    }
}
