//! Virtual time: whole ticks and the parts between them, so that members tick at different phases.

/// Parts of one tick. A period of SWIM, a tick of ours: both are this long.
pub const TICK: u64 = 1_000;

/// An instant of a run, in parts of a tick since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// The start of a tick.
    pub fn of_tick(tick: u64) -> Self {
        Moment(tick.saturating_mul(TICK))
    }

    /// So many parts after the start of the run.
    pub fn of_parts(parts: u64) -> Self {
        Moment(parts)
    }

    /// The instant `parts` later.
    #[must_use]
    pub fn after(self, parts: u64) -> Self {
        Moment(self.0.saturating_add(parts))
    }

    /// Parts since the start of the run.
    pub fn parts(self) -> u64 {
        self.0
    }

    /// The tick it lies in.
    pub fn tick(self) -> u64 {
        self.0 / TICK
    }

    /// Ticks since an earlier instant, with fractions; 0 if that one is later.
    pub fn ticks_since(self, earlier: Moment) -> f64 {
        self.0.saturating_sub(earlier.0) as f64 / TICK as f64
    }
}
