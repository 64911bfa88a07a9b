//! `doctor --accept-clock`: the wall clock is right, the journal was written by one that was not.

use crate::auth::gate::SKEW_S_MAX;
use crate::config::Config;
use crate::cycle::enrolment::require_anchor;
use crate::cycle::pull::locked;
use crate::error::{Failure, Kind};
use crate::host::Host;
use crate::journal::chain::Tip;
use crate::journal::record::Record;
use crate::journal::replay::submitted;
use crate::store::accepted_clock::AcceptedClock;
use crate::store::disk::Disk;
use crate::store::ledger::{Ledger, Mend};
use crate::store::scan::{self, Start};
use crate::store::used_nonces::{UsedNonces, WAIT_S};

/// What is known of the time in which the clock ran ahead.
struct Ahead {
    /// Nonces that a request could still carry when that time comes: of lines, and of requests that
    /// made none.
    nonces: Vec<(u64, String, String)>,
    /// Of which seconds others were forgotten.
    forgotten: Option<(u64, u64)>,
}

/// Lets the wall clock decide again whether a request is in time, and says what was done.
///
/// # Errors
/// Kind `No` where the clock is not behind.
pub fn accept_clock(host: &dyn Host, config: &Config) -> Result<String, Failure> {
    let disk = Disk { host, layout: &config.layout };
    let identity = require_anchor(&disk)?;
    locked(&disk, || {
        let ledger = Ledger::open(disk, &identity, Mend::Yes)?;
        let (tip, at) = (ledger.tip(), host.clock().wall_ms / 1_000);
        if at + SKEW_S_MAX >= tip.ts {
            return Err(Failure::new(
                Kind::No,
                "the clock is not behind the journal's last line: nothing to accept",
            ));
        }
        let Ahead { nonces, forgotten } = ahead(&disk, &identity.origin, (at, tip))?;
        // The nonces first: without those that belong to it the clock is not taken as accepted.
        UsedNonces::begin(&disk, at, nonces)?;
        AcceptedClock { at, forgotten, size: tip.size, ts: tip.ts }.store(&disk)?;
        Ok(format!(
            "accepted: the clock is right and {} s behind line {}; new lines carry that line's time until the clock has passed it, and signed writes wait {WAIT_S} s from now",
            tip.ts - at,
            tip.size - 1
        ))
    })
}

fn ahead(disk: &Disk<'_>, origin: &str, (at, tip): (u64, &Tip)) -> Result<Ahead, Failure> {
    let from_s = at.saturating_sub(SKEW_S_MAX);
    let used = UsedNonces::peek(disk)?;
    let mut nonces = used.as_ref().map(|used| used.since(from_s)).unwrap_or_default();
    let (mut began, mut before) = (tip.ts, 0);
    let start = Start { tip: Tip::origin(origin), bytes: 0 };
    scan::walk(disk, start, tip.size, &mut |step| {
        match step.line.ts > at {
            true => began = began.min(step.line.ts),
            false => before = step.line.ts,
        }
        let record = Record::of(step.line);
        if let Some((node, nonce, ts)) = submitted(&record).filter(|(_, _, ts)| *ts >= from_s) {
            nonces.push((ts, nonce.to_owned(), node.to_string()));
        }
        Ok(())
    })?;
    let accepted = AcceptedClock::load(disk)?.filter(|accepted| accepted.ts == tip.ts);
    // A file that was begun anew since the last line before that time may have lost some of it, but
    // for the one that an earlier word began; without any, all of it is lost.
    let kept = used.filter(|used| {
        let ours = accepted.as_ref().is_some_and(|accepted| accepted.at == used.since_s());
        ours || used.since_s() <= before
    });
    let to = kept.map_or(tip.ts + SKEW_S_MAX + 1, |used| used.pruned_s());
    let from = began.saturating_sub(SKEW_S_MAX);
    let held = accepted.and_then(|accepted| accepted.forgotten);
    Ok(Ahead { nonces, forgotten: (to > from).then_some((from, to)).or(held) })
}
