//! Events in the midst of a call: time passes between two of its looks at the window, and other
//! callers fill tables.

use super::belief::Moment;
use super::world::World;
use crate::digest::Digest;
use crate::mutation::{after_looks, nothing_meanwhile};
use crate::random::mix;
use std::time::Duration;

/// An event in the midst of the next call.
#[derive(Clone, Copy, Debug)]
pub(super) struct ToCome {
    /// The number of looks before it.
    pub(super) looks: u8,
    /// The time that passes.
    pub(super) by: Duration,
    /// The number of ids that others insert.
    pub(super) others: u16,
}

impl World {
    /// Begins a call, in the midst of which happens what is to come. Returns the time.
    pub(super) fn begin(&mut self) -> Moment {
        let before = self.moment(false);
        if let Some(to_come) = self.to_come {
            let (advance, engine, from) = (self.machine.clocks(), self.dedup().engine.clone(), self.others);
            self.others += u64::from(to_come.others);
            after_looks(to_come.looks, move || {
                advance(to_come.by);
                let now = engine.now();
                engine.window.advance(now);
                let others = from..from + u64::from(to_come.others);
                others.for_each(|other| _ = engine.window.check_at(Digest::from(digest(other)), now));
            });
        }
        before
    }

    /// Ends a call that began at a time. Returns its time: if some has passed, any between.
    pub(super) fn end(&mut self, before: Moment) -> Moment {
        let has_come = nothing_meanwhile();
        let to_come = self.to_come.take().filter(|_| has_come);
        let Some(to_come) = to_come else { return before };
        self.lag_nanos = to_come.by.as_nanos() as u64;
        self.met.meanwhile += 1;
        let after = self.moment(false);
        Moment { real: after.real, latest: after.latest, ..before }
    }

    /// Returns true if the last call has taken so long that what it accepted may leave the window
    /// before it is in a segment.
    pub(super) fn took_too_long(&self) -> bool {
        self.lag_nanos + 2 * self.rules.tick >= self.rules.window / 4
    }
}

/// Returns the digest of another caller's id.
fn digest(other: u64) -> u128 {
    u128::from(mix(other)) << 64 | u128::from(mix(!other))
}
