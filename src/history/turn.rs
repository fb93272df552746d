//! The turning of a shard's two generations, as one word. Pure.

use crate::mutation::{Rule, obeys};

/// The state of a shard: when its current generation began, whether a thread is clearing the other
/// one, and which one is current. While the other one is being cleared: when that one will have
/// begun.
///
/// ```text
/// 63         2          1         0
/// | tick 62  | clearing | current |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn(pub(super) u64);

impl Turn {
    pub(super) const UNUSED: Turn = Turn(0);

    pub(super) fn new(began: u64, current: usize) -> Self {
        debug_assert!(current <= 1);
        Turn(began << 2 | current as u64)
    }

    pub(super) fn began(self) -> u64 {
        self.0 >> 2
    }

    pub(super) fn current(self) -> usize {
        (self.0 & 1) as usize
    }

    pub(super) fn is_clearing(self) -> bool {
        self.0 & 2 != 0
    }

    /// Returns the state in which the other generation is being cleared, and will have begun at
    /// this tick.
    pub(super) fn clearing(self, begins: u64) -> Self {
        Turn(begins << 2 | 2 | self.0 & 1)
    }

    /// Returns the state in which that generation has been cleared, and is the current one.
    pub(super) fn cleared(self) -> Self {
        debug_assert!(self.is_clearing());
        Turn::new(self.began(), 1 - self.current())
    }

    /// Returns the state in which the next generation begins after this tick, at which a caller
    /// still inserts into the one before; `None` if it does anyway.
    pub(super) fn put_off(self, now: u64) -> Option<Self> {
        (now >= self.began()).then(|| self.clearing(now + 1))
    }

    /// Returns true if the current generation takes insertions at this tick.
    pub(super) fn takes(self, now: u64, horizon_ticks: u64) -> bool {
        // Without the rule a generation lasts a little longer than a horizon, as it did once.
        let longer = if obeys(Rule::OneHorizon) { 0 } else { horizon_ticks / 64 };
        !self.is_clearing() && now < self.began() + horizon_ticks + longer
    }
}
