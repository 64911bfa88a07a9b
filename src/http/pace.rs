//! How long one client may keep us waiting.
//!
//! A limit per read is no limit: a byte a second resets it for ever. So each request has one due
//! time, set at its first byte and not moved by later ones (axum#2741 is what happens without).
//! Only the client's time counts; while our handler works, or waits behind another request, no
//! clock runs against the client.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing of the next request has arrived.
    Idle,
    /// Some bytes of a request have.
    Reading,
    /// The request is whole and it is our turn.
    Answering,
    /// The answer is on its way out; the client has to take it.
    Writing,
}

/// The phase of one connection and when its client must have moved it on.
#[derive(Debug)]
pub(super) struct Pace {
    phase: Cell<Phase>,
    due: Cell<Instant>,
    request_limit: Duration,
    idle_limit: Duration,
}

impl Pace {
    /// A connection accepted at `now`.
    pub(super) fn new(request_limit: Duration, idle_limit: Duration, now: Instant) -> Pace {
        let due = Cell::new(now + idle_limit);
        Pace { phase: Cell::new(Phase::Idle), due, request_limit, idle_limit }
    }

    /// When the connection is to be dropped; `None` while the client waits for us.
    pub(super) fn due(&self) -> Option<Instant> {
        (self.phase.get() != Phase::Answering).then(|| self.due.get())
    }

    /// Bytes arrived: the first ones start the request's clock.
    pub(super) fn heard(&self, now: Instant) {
        if self.phase.get() == Phase::Idle {
            self.enter(Phase::Reading, now + self.request_limit);
        }
    }

    /// The whole request is in.
    pub(super) fn answering(&self) {
        self.phase.set(Phase::Answering);
    }

    /// An answer is ready; taking it has a limit of its own, or a client that never reads would
    /// hold its place for ever.
    pub(super) fn writing(&self, now: Instant) {
        self.enter(Phase::Writing, now + self.request_limit);
    }

    /// Everything written has reached the socket. Only after an answer does this mean idle: an
    /// interim 100 is flushed in the middle of reading.
    pub(super) fn flushed(&self, now: Instant) {
        if self.phase.get() == Phase::Writing {
            self.enter(Phase::Idle, now + self.idle_limit);
        }
    }

    fn enter(&self, phase: Phase, due: Instant) {
        self.phase.set(phase);
        self.due.set(due);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_bytes_do_not_move_the_due_time() {
        let second = Duration::from_secs(1);
        let start = Instant::now();
        let pace = Pace::new(10 * second, 5 * second, start);
        assert_eq!(pace.due(), Some(start + 5 * second));
        pace.heard(start + second);
        pace.heard(start + 4 * second);
        pace.flushed(start + 4 * second);
        assert_eq!(pace.due(), Some(start + 11 * second));
        pace.answering();
        assert_eq!(pace.due(), None);
        pace.writing(start + 30 * second);
        pace.heard(start + 31 * second);
        assert_eq!(pace.due(), Some(start + 40 * second));
        pace.flushed(start + 32 * second);
        assert_eq!(pace.due(), Some(start + 37 * second));
    }
}
