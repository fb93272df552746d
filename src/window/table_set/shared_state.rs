//! The state that the tables of a window share: the time that all callers agree on, counters of
//! rare events, and the trigger of growth.

use super::counters::Counters;
use super::trigger::GrowthTrigger;
use crate::mutation::{Rule, obeys};
use crate::sync::{AtomicU64, Ordering, explored};
use crate::window::bits::tick::{GRACE, Limits, Moment, Tick};

pub(crate) struct SharedState {
    /// The latest time of any caller, packed by [`Tick::pack`].
    latest: AtomicU64,
    /// A time, in nanoseconds, up to which no reading is a later tick than `latest`; 0: none.
    settled_nanos: AtomicU64,
    /// The number of callers that are forgetting everything now.
    clearing: AtomicU64,
    /// The limit of live ages, from which the others follow: so only one is loaded.
    live: u64,
    pub(crate) window_ticks: u64,
    pub(crate) counters: Counters,
    pub(crate) trigger: GrowthTrigger,
}

impl SharedState {
    pub(crate) fn new(window_ticks: u64) -> Self {
        SharedState {
            latest: AtomicU64::new(0),
            settled_nanos: AtomicU64::new(0),
            clearing: AtomicU64::new(0),
            live: Limits::of_window(window_ticks).live,
            window_ticks,
            counters: Counters::new(window_ticks),
            trigger: GrowthTrigger::new(),
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
            self.trigger.note_time(tick.now);
            return tick;
        }
        Tick::unpack(latest)
    }

    /// Returns a time, in nanoseconds, up to which no reading is a later tick than
    /// [`agreed`](Self::agreed).
    #[inline(always)]
    pub(crate) fn settled_nanos(&self) -> u64 {
        // Acquire: partner of the release in `settle`. A caller that sees it sees a `latest` that
        // is no earlier.
        self.settled_nanos.load(Ordering::Acquire)
    }

    /// Notes that the agreed tick settles all readings up to this time. (A caller that comes late
    /// may set it back. Then others only agree once more.)
    pub(crate) fn settle(&self, nanos: u64) {
        // Release: partner of the acquire above.
        self.settled_nanos.store(nanos, Ordering::Release);
    }

    /// Returns the latest tick that any caller agreed on, for a caller that does not set the time
    /// for others.
    #[inline(always)]
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
        let latest = self.latest.load(Ordering::Relaxed);
        // (Most of the time it is the same word.)
        latest != moment.tick.pack() && Tick::unpack(latest).now > moment.tick.now + GRACE && obeys(Rule::Overtaken)
    }

    /// Does something while no entry is refreshed by a new one.
    pub(crate) fn while_clearing(&self, clear: impl FnOnce()) {
        // Sequentially consistent, before the buckets are cleaned: partner of the look in
        // `is_clearing`, by a caller that has reserved a slot too late for us to see it.
        self.clearing.fetch_add(1, Ordering::SeqCst);
        clear();
        // Release: partner of the acquire below.
        self.clearing.fetch_sub(1, Ordering::AcqRel);
    }

    /// Returns true if a caller is forgetting everything. If not, the entries that earlier such
    /// callers have removed are not seen any more.
    pub(crate) fn is_clearing(&self) -> bool {
        self.clearing.load(Ordering::SeqCst) != 0 && obeys(Rule::RestWhileCleared)
    }

    /// Forgets the callers that were forgetting everything: they are in another process.
    #[cfg_attr(any(not(unix), modelled), allow(dead_code, reason = "there are no forks"))]
    pub(crate) fn nobody_is_clearing(&self) {
        // Relaxed: this process has no other thread yet.
        self.clearing.store(0, Ordering::Relaxed);
    }

    /// Returns the moment of a tick, to which ages refer.
    #[inline(always)]
    pub(crate) fn moment(&self, tick: Tick) -> Moment {
        explored::agreed(tick.pack());
        Moment::new(tick, Limits::from_live(self.live))
    }
}
