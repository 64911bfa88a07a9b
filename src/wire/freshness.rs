//! `freshness.json`: how old what we publish is, for gateways and people.

use serde::{Deserialize, Serialize};

/// When the last tick ended, and until when its answers may be trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Freshness {
    /// Executed tick number.
    pub tick: u64,
    /// RFC 3339 UTC.
    pub time: String,
    /// RFC 3339 UTC; past it the timer is late.
    pub valid_until: String,
    /// Whether that tick could not trust its own network.
    pub blind: bool,
}

/// Three missed ticks are not an accident; by hand (interval 0) an hour.
pub fn validity_ms(interval_ms: u64) -> u64 {
    if interval_ms == 0 { 3_600_000 } else { (3 * interval_ms).max(10_000) }
}
