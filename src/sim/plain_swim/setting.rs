//! The numbers plain SWIM runs under: as its paper gives them, and as Lifeguard's baseline has them.

use super::super::moment::TICK;

/// How long doubt lasts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Suspicion {
    /// SWIM 2002, section 5: multiplier and base of ⌈log(N+1)⌉ periods; the paper names no base.
    Paper(f64, LogBase),
    /// Lifeguard with β 1: α·max(1, log10 n) periods, whoever else accuses.
    Fixed(f64),
    /// For measuring the probes alone: nobody is ever declared dead.
    Endless,
}

/// Base of a logarithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogBase {
    /// e.
    E,
    /// 10.
    Ten,
}

impl LogBase {
    fn log(self, value: f64) -> f64 {
        match self {
            LogBase::E => value.ln(),
            LogBase::Ten => value.log10(),
        }
    }
}

/// One kind of plain SWIM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Members asked to probe on our behalf (k).
    pub helpers: usize,
    /// How long doubt lasts.
    pub suspicion: Suspicion,
    /// How often one update is passed on: this times ⌈log(n+1)⌉.
    pub retransmit: f64,
    /// Base of that logarithm.
    pub base: LogBase,
    /// Packets of updates alone, between pings: parts of a period apart, members each time.
    pub gossip: Option<(u64, usize)>,
    /// Periods between two full exchanges of a member, for up to 32 members.
    pub push_pull: Option<u64>,
    /// Whether dead is for good, as in the paper, or can be refuted, as in memberlist.
    pub dead_is_final: bool,
}

/// Parts of a period after which a direct ping counts as unanswered (memberlist: half).
pub const TIMEOUT: u64 = TICK / 2;
/// Most updates of one packet (SWIM 2002, section 5).
pub const UPDATES_MAX: usize = 6;
/// Payload of a packet without updates, and of one update (15 B and 135 B with six, section 5).
pub const PACKET_BYTES: u64 = 15;
/// Bytes of one update.
pub const UPDATE_BYTES: u64 = 20;
/// How long memberlist still gossips to the dead, in periods.
pub const GOSSIP_TO_DEAD_TICKS: u64 = 30;

impl Setting {
    /// SWIM of 2002 as its section 5 ran it. `base`: the paper names none, and 10 is what reproduces
    /// its group of joiners.
    pub fn paper(base: LogBase) -> Self {
        Setting {
            helpers: 1,
            suspicion: Suspicion::Paper(3.0, base),
            retransmit: 3.0,
            base,
            gossip: None,
            push_pull: None,
            dead_is_final: true,
        }
    }

    /// The baseline of Lifeguard's grid: memberlist with its SWIM alone (α 5, β 1).
    pub fn baseline(alpha: f64) -> Self {
        Setting {
            helpers: 3,
            suspicion: Suspicion::Fixed(alpha),
            retransmit: 4.0,
            base: LogBase::Ten,
            gossip: Some((TICK / 5, 3)),
            push_pull: Some(30),
            dead_is_final: false,
        }
    }

    /// Parts of a period doubt lasts among `members`; `None`: for ever.
    pub fn suspicion_parts(&self, members: usize) -> Option<u64> {
        let n = members as f64;
        let periods = match self.suspicion {
            Suspicion::Paper(times, base) => times * base.log(n + 1.0).ceil(),
            Suspicion::Fixed(alpha) => alpha * n.log10().max(1.0),
            Suspicion::Endless => return None,
        };
        Some((periods * TICK as f64) as u64)
    }

    /// How often one update is passed on among `members`.
    pub fn retransmits(&self, members: usize) -> u32 {
        (self.retransmit * self.base.log(members as f64 + 1.0).ceil()) as u32
    }

    /// Periods between two full exchanges of a member (memberlist scales them over 32 members).
    pub fn push_pull_ticks(&self, members: usize) -> Option<u64> {
        let scale = if members <= 32 { 1 } else { (members as f64).log2().ceil() as u64 - 5 + 1 };
        self.push_pull.map(|ticks| ticks * scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_published_ones() {
        let baseline = Setting::baseline(5.0);
        assert_eq!(baseline.suspicion_parts(8), Some(5_000));
        assert_eq!(baseline.suspicion_parts(128), Some(10_536));
        assert_eq!(baseline.retransmits(128), 12);
        assert_eq!(baseline.push_pull_ticks(32), Some(30));
        assert_eq!(baseline.push_pull_ticks(33), Some(60));
        assert_eq!(baseline.push_pull_ticks(65), Some(90));
        assert_eq!(Setting::paper(LogBase::E).suspicion_parts(17), Some(9_000));
        assert_eq!(Setting::paper(LogBase::Ten).retransmits(17), 6);
    }
}
