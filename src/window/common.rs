//! What the tables of a window have in common: the time that all callers agree on, and what is counted.

use super::tally::Tally;
use super::tick::{GRACE, Limits, Moment, Tick};
use crate::sync::{AtomicU64, Ordering};

pub(crate) struct Common {
    /// The latest time at which anybody was here, as [`Tick::pack`] has it.
    latest: AtomicU64,
    limits: Limits,
    pub(crate) window_ticks: u64,
    pub(crate) tally: Tally,
}

impl Common {
    pub(crate) fn new(window_ticks: u64) -> Self {
        Common {
            latest: AtomicU64::new(0),
            limits: Limits::of_window(window_ticks),
            window_ticks,
            tally: Tally::new(window_ticks),
        }
    }

    /// The tick of a caller, who from now on is among those that agree on the time: no earlier than any other's.
    #[inline(always)]
    pub(crate) fn agree(&self, tick: Tick) -> Tick {
        // Relaxed: whoever inserts at a tick has raised `latest` to it before, and publishes both with the insertion.
        let latest = self.latest.load(Ordering::Relaxed);
        let packed = tick.pack();
        if packed > latest {
            self.latest.fetch_max(packed, Ordering::Relaxed);
        }
        Tick::unpack(packed.max(latest))
    }

    /// The same for a caller that only reads: it does not set the time for others.
    pub(crate) fn agree_at_rest(&self, tick: Tick) -> Tick {
        Tick::unpack(tick.pack().max(self.latest.load(Ordering::Relaxed)))
    }

    /// The latest tick at which anybody was here.
    #[inline(always)]
    pub(crate) fn latest(&self) -> u64 {
        Tick::unpack(self.latest.load(Ordering::Relaxed)).now
    }

    /// Whether others' time is ahead of the moment by more than the protocol allows for.
    #[inline(always)]
    pub(crate) fn overtaken(&self, moment: &Moment) -> bool {
        // Relaxed, after the acquire of a view: whoever wrote an entry that the view shows has raised `latest` before.
        self.latest() > moment.tick.now + GRACE
    }

    /// What ages are measured with at a tick.
    #[inline(always)]
    pub(crate) fn moment(&self, tick: Tick) -> Moment {
        Moment::new(tick, self.limits)
    }
}
