//! What a request's time and nonce are held against.
//!
//! Usually the anchor's clock, never below its last line: after a step back of the clock no request
//! that was forgotten, and no key that was retired, is in time again. Where a clock ran ahead and was
//! put right, that would shut everybody out until the wrong time has come. An operator may then say
//! that the wall clock is right ([`AcceptedClock`]); so that no recorded request gets through,
//! every nonce is kept on disk from then on, also of requests that make lines, and a key that was
//! rotated ends at once.

use crate::auth::gate::{Refusal, SKEW_S_MAX};
use crate::journal::keyring::OVERLAP_S;
use crate::journal::pace::BURST;
use crate::protocol::member::NodeId;
use crate::store::accepted_clock::AcceptedClock;
use crate::store::used_nonces::UsedNonces;

/// The times of one request.
#[derive(Clone, Debug)]
pub(in crate::cycle) struct Times {
    /// Of the line it may become.
    pub(in crate::cycle) line_s: u64,
    /// What its ts and its nonce are held against.
    pub(in crate::cycle) gate_s: u64,
    /// What the retirement of keys is held against.
    pub(in crate::cycle) keys_s: u64,
    accepted: Option<AcceptedClock>,
}

impl Times {
    /// By the wall clock and the journal's last line.
    pub(super) fn of(wall_s: u64, last_s: u64, accepted: Option<AcceptedClock>) -> Times {
        let line_s = wall_s.max(last_s);
        match accepted.filter(|accepted| accepted.rules(last_s, wall_s)) {
            None => Times { line_s, gate_s: line_s, keys_s: line_s, accepted: None },
            Some(accepted) => Times {
                line_s,
                gate_s: wall_s.max(accepted.at),
                keys_s: last_s.saturating_add(OVERLAP_S),
                accepted: Some(accepted),
            },
        }
    }

    /// Whether signed writes are safe at all at this time.
    pub(super) fn expect_near(&self, wall_s: u64) -> Result<(), Refusal> {
        let behind_s = self.gate_s.saturating_sub(wall_s);
        if behind_s <= SKEW_S_MAX {
            return Ok(());
        }
        let what = match &self.accepted {
            None => "its own last line",
            Some(_) => "the time that was accepted",
        };
        Err(Refusal::Unavailable(format!(
            "clock: this anchor's clock ({wall_s}) is {behind_s} s behind {what}; signed writes wait until it is put right, or its operator says that it is right: crowny-fed doctor --accept-clock"
        )))
    }

    /// Where an operator accepted the clock: that nothing of what is needed for it was lost, and
    /// that the member does not write too fast, which its lines, all of one time, cannot tell.
    pub(super) fn expect_safe(
        &self,
        used: &UsedNonces,
        (node, ts): (&NodeId, u64),
    ) -> Result<(), Refusal> {
        let Some(accepted) = &self.accepted else { return Ok(()) };
        if used.since_s() != accepted.at {
            return Err(Refusal::Unavailable(
                "clock: used-nonces.log is not the one that the clock was accepted with; the anchor's operator accepts it again: crowny-fed doctor --accept-clock".to_owned(),
            ));
        }
        let forgotten = accepted.forgotten.filter(|(from, to)| (*from..*to).contains(&ts));
        if let Some((_, to)) = forgotten {
            return Err(Refusal::Unavailable(format!(
                "clock: requests of this time were answered before, when the clock ran ahead, and are forgotten; signed writes wait {} s",
                to - ts
            )));
        }
        if used.count(node, self.gate_s) as u64 >= BURST {
            return Err(Refusal::TooMany(format!(
                "{node} writes too fast, {BURST} requests in {SKEW_S_MAX} s while the clock is behind the journal"
            )));
        }
        Ok(())
    }

    /// Whether nonces of lines have to be kept beside the journal, which forgets them by its own
    /// lines' time.
    pub(super) fn keeps_nonces_of_lines(&self) -> bool {
        self.accepted.is_some()
    }
}
