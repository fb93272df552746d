//! The common state of a window's tables: the time that all callers agree on, and counters.

use super::tally::Tally;
use super::tick::{GRACE, Limits, Moment, Tick};
use crate::sync::{AtomicU64, Ordering, StdAtomicU64};
use std::sync::OnceLock;

pub(crate) struct Common {
    /// The latest time of any caller, packed by [`Tick::pack`].
    latest: AtomicU64,
    /// The number of callers that are forgetting everything now.
    clearing: AtomicU64,
    limits: Limits,
    pub(crate) window_ticks: u64,
    pub(crate) tally: Tally,
    pub(crate) bell: Bell,
}

/// A bell, which calls for management of the tables: when more entries are displaced than in a
/// table that is not full, and when it is time for something that was put off.
pub(crate) struct Bell {
    displaced: StdAtomicU64,
    /// The distance of counted lines: displacements count in one of this many lines.
    sample: StdAtomicU64,
    /// The number of displacements in the sample of lines at which it rings …
    displaced_max: StdAtomicU64,
    /// … and the tick from which on it rings.
    due: StdAtomicU64,
    answer: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Bell {
    /// Returns the distance of the lines, a power of two, in which displacements are counted in a
    /// table of this many lines: small enough to count often, and large enough that callers do not
    /// all compete for the counter. In a small table, where few are displaced before it is full,
    /// more lines count.
    pub(crate) fn sample(lines: usize) -> usize {
        if lines < 1 << 15 { 4 } else { 16 }
    }

    fn new() -> Self {
        let never = || StdAtomicU64::new(u64::MAX);
        let zero = || StdAtomicU64::new(0);
        Bell { displaced: zero(), sample: zero(), displaced_max: never(), due: never(), answer: OnceLock::new() }
    }

    /// Sets the function that answers from now on.
    pub(crate) fn connect(&self, answer: impl Fn() + Send + Sync + 'static) {
        let _ = self.answer.set(Box::new(answer));
    }

    /// Sets when to ring next.
    pub(crate) fn set(&self, sample: usize, displaced_max: u64, due: u64) {
        self.displaced.store(0, Ordering::Relaxed);
        self.sample.store(sample as u64, Ordering::Relaxed);
        self.displaced_max.store(displaced_max, Ordering::Relaxed);
        self.due.store(due, Ordering::Relaxed);
    }

    /// Returns true if as many again were displaced since it rang.
    pub(crate) fn is_urgent(&self) -> bool {
        let displaced = self.displaced.load(Ordering::Relaxed);
        displaced >= self.displaced_max.load(Ordering::Relaxed).saturating_mul(2)
    }

    #[cold]
    pub(crate) fn ring(&self) {
        if let Some(answer) = self.answer.get() {
            answer();
        }
    }
}

impl Common {
    pub(crate) fn new(window_ticks: u64) -> Self {
        Common {
            latest: AtomicU64::new(0),
            clearing: AtomicU64::new(0),
            limits: Limits::of_window(window_ticks),
            window_ticks,
            tally: Tally::new(window_ticks),
            bell: Bell::new(),
        }
    }

    /// Returns the tick of a caller, which from now on is among those that agree on the time: no
    /// earlier than any other caller's.
    #[inline(always)]
    pub(crate) fn agree(&self, tick: Tick) -> Tick {
        // A caller that inserts at a tick has raised `latest` to it before, and publishes both with
        // the insertion. Acquire: partner of the release in `close`. (Values that others add are in
        // the release sequence that it heads.)
        let latest = self.latest.load(Ordering::Acquire);
        let packed = tick.pack();
        if packed > latest {
            let latest = self.latest.fetch_max(packed, Ordering::Acquire).max(packed);
            let tick = Tick::unpack(latest);
            if tick.now >= self.bell.due.load(Ordering::Relaxed) {
                self.bell.ring();
            }
            return tick;
        }
        Tick::unpack(latest)
    }

    /// Returns the latest tick that any caller agreed on, for a caller that does not set the time
    /// for others.
    pub(crate) fn agreed(&self) -> Tick {
        // Acquire: as in `agree`.
        Tick::unpack(self.latest.load(Ordering::Acquire))
    }

    /// Returns the latest tick that was agreed on by any caller that has not seen what this caller
    /// did before. It is an atomic operation that changes nothing, since only such an operation
    /// certainly reads the latest value.
    pub(crate) fn close(&self) -> Tick {
        Tick::unpack(self.latest.fetch_max(0, Ordering::AcqRel))
    }

    /// Returns the agreed tick for a caller that only reads: it does not set the time for others.
    pub(crate) fn agree_at_rest(&self, tick: Tick) -> Tick {
        Tick::unpack(tick.pack().max(self.latest.load(Ordering::Relaxed)))
    }

    /// Returns the latest tick of any caller.
    #[inline(always)]
    pub(crate) fn latest(&self) -> u64 {
        Tick::unpack(self.latest.load(Ordering::Relaxed)).now
    }

    /// Returns true if others' time is ahead of the moment by more than the protocol allows.
    #[inline(always)]
    pub(crate) fn overtaken(&self, moment: &Moment) -> bool {
        // Relaxed, after the acquire of a view: the thread that wrote an entry that the view shows
        // has raised `latest` before.
        self.latest() > moment.tick.now + GRACE
    }

    /// Does something while no entry is refreshed by a new one.
    pub(crate) fn while_clearing(&self, clear: impl FnOnce()) {
        // Release, together with the insertions of vacancies that follow: a thread that sees one of
        // those sees this.
        self.clearing.fetch_add(1, Ordering::AcqRel);
        clear();
        // Release: partner of the acquire below.
        self.clearing.fetch_sub(1, Ordering::AcqRel);
    }

    /// Returns true if a caller is forgetting everything. If not, the entries that earlier such
    /// callers have removed are not seen any more.
    pub(crate) fn is_clearing(&self) -> bool {
        self.clearing.load(Ordering::Acquire) != 0
    }

    /// Forgets the callers that were forgetting everything: they are in another process.
    #[cfg_attr(any(not(unix), modelled), allow(dead_code, reason = "there are no forks"))]
    pub(crate) fn nobody_is_clearing(&self) {
        // Relaxed: this process has no other thread yet.
        self.clearing.store(0, Ordering::Relaxed);
    }

    /// Notes that an entry that must be kept was displaced in a line.
    pub(crate) fn displaced(&self, line: usize) {
        if line as u64 & (self.bell.sample.load(Ordering::Relaxed).wrapping_sub(1)) == 0 {
            let displaced = self.bell.displaced.fetch_add(1, Ordering::Relaxed);
            if displaced >= self.bell.displaced_max.load(Ordering::Relaxed) {
                self.bell.ring();
            }
        }
    }

    /// Returns the moment of a tick, to which ages refer.
    #[inline(always)]
    pub(crate) fn moment(&self, tick: Tick) -> Moment {
        #[cfg(explore)]
        crate::explore::agreed(tick);
        Moment::new(tick, self.limits)
    }
}
