//! Turns maps into windows: times in the values, and a purge now and then.

use super::{Allowance, Failure, Id, Plan, Sort, Strategy};
use hapax::Timestamp;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The hash function of all maps: the fastest one that is in use for them.
pub(super) type Hasher = foldhash::fast::RandomState;

/// The locks that a sharded map has for each thread: enough that two threads seldom want the same
/// one, few enough that they stay in the innermost cache.
pub(super) const SHARDS_PER_THREAD: usize = 32;

/// A concurrent map from ids to the time at which each was accepted.
pub trait Map<I: Id + ?Sized>: Send + Sync + Sized {
    /// Its names ([`Strategy::NAME`]) if it is purged [`ONCE`] a window, and [`OFTEN`].
    const NAMES: [&'static str; 2];

    /// Its names if it keeps digests; empty if it is not compared so.
    const NAMES_OF_DIGESTS: [&'static str; 2] = ["", ""];

    /// See [`Strategy::ANY_LENGTH_ONLY`].
    const ANY_LENGTH_ONLY: bool = false;

    /// Creates a map with room for a number of ids: those of the plan, and those that have expired
    /// and were not removed yet.
    ///
    /// # Errors
    ///
    /// See [`Strategy::new`].
    fn new(ids: usize, plan: &Plan) -> Result<Self, Failure>;

    /// Accepts the id and returns true, if it is absent or has expired. One atomic step, with one
    /// lookup where the crate has a call for that.
    fn accept(&self, id: &I, now: Moment) -> bool;

    /// Accepts ids in order.
    #[inline(always)]
    fn accept_batch<'a>(&self, ids: impl Iterator<Item = &'a I>, now: Moment, fresh: &mut Vec<bool>) {
        fresh.extend(ids.map(|id| self.accept(id, now)));
    }

    /// Removes expired ids.
    fn purge(&self, now: Moment);

    /// See [`Strategy::allowance`].
    fn allowance(plan: &Plan) -> Allowance {
        let _ = plan;
        Allowance::NONE
    }
}

/// A map as a strategy.
///
/// An entry that a check finds expired is accepted again in place. The others are removed `PURGES`
/// times a window, by whichever thread comes first. Each purge reads the whole map, and the map has
/// room for the ids of the time between two of them on top of those of a window: so few purges are
/// quick, and many save memory. Maps are measured with both, and their users may have the better of
/// the two: see benches/README.md.
pub struct Expiring<M, const PURGES: u32> {
    map: M,
    grain: Grain,
    purge_every: Duration,
    /// The time at which the next purge is due, in nanoseconds.
    purge_at: AtomicU64,
}

/// The number of purges in a window that is quickest for most maps.
pub(super) const ONCE: u32 = 1;

/// The number of purges in a window that saves most of the memory that can be saved.
pub(super) const OFTEN: u32 = 4;

/// Returns the names of a map that is purged [`ONCE`] a window, and [`OFTEN`].
macro_rules! names {
    ($name:literal) => {
        [$name, concat!($name, ", 4 purges")]
    };
}
pub(super) use names;

/// The rounding of a map's times: to a power of two of nanoseconds, at most 2^-16 of the window, so
/// that 32 bits hold a time, and no check divides.
#[derive(Clone, Copy, Debug)]
struct Grain {
    shift: u32,
    window: u32,
}

/// The time of a check as a map sees it.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    now: u32,
    window: u32,
}

impl Grain {
    fn of_window(window: Duration) -> Self {
        let nanos = window.as_nanos() as u64;
        let shift = nanos.ilog2().saturating_sub(16);
        Grain { shift, window: (nanos >> shift) as u32 }
    }

    #[inline(always)]
    fn at(self, time: Timestamp) -> Moment {
        // Truncated: only differences count, and purges keep them far below 2^31.
        Moment { now: (time.as_nanos() >> self.shift) as u32, window: self.window }
    }
}

impl Moment {
    /// Returns the stamp to keep with an id that is accepted now.
    #[inline(always)]
    pub fn stamp(self) -> u32 {
        self.now
    }

    /// Returns true if an id with this stamp is within the window. A stamp of the future is:
    /// another thread is ahead.
    #[inline(always)]
    pub fn is_live(self, stamp: u32) -> bool {
        (self.now.wrapping_sub(stamp) as i32) < self.window as i32
    }

    /// Accepts an id that is present again if it has expired. Returns true if it has.
    #[inline(always)]
    pub fn renew(self, stamp: &mut u32) -> bool {
        let has_expired = !self.is_live(*stamp);
        if has_expired {
            *stamp = self.stamp();
        }
        has_expired
    }
}

impl<I: Id + ?Sized, M: Map<I>, const PURGES: u32> Strategy<I> for Expiring<M, PURGES> {
    const NAME: &'static str = M::NAMES[(PURGES == OFTEN) as usize];
    const SORT: Sort = Sort::Window;
    const ANY_LENGTH_ONLY: bool = M::ANY_LENGTH_ONLY;

    fn new(plan: &Plan) -> Result<Self, Failure> {
        let purge_every = plan.window / PURGES;
        Ok(Expiring {
            map: M::new(plan.live + plan.live / PURGES as usize, plan)?,
            grain: Grain::of_window(plan.window),
            purge_every,
            purge_at: AtomicU64::new((plan.window + purge_every).as_nanos() as u64),
        })
    }

    #[inline(always)]
    fn check(&self, id: &I, now: Timestamp) -> bool {
        self.map.accept(id, self.grain.at(now))
    }

    #[inline(always)]
    fn check_batch<'a>(&self, ids: impl Iterator<Item = &'a I>, now: Timestamp, fresh: &mut Vec<bool>) {
        fresh.clear();
        self.map.accept_batch(ids, self.grain.at(now), fresh);
    }

    fn advance(&self, now: Timestamp) {
        let due = self.purge_at.load(Ordering::Relaxed);
        let next = (now + self.purge_every).as_nanos();
        let is_due = now.as_nanos() >= due;
        // Relaxed: the thread that wins purges, and the map does its own synchronization.
        if is_due && self.purge_at.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.map.purge(self.grain.at(now));
        }
    }

    fn allowance(plan: &Plan) -> Allowance {
        M::allowance(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::Place;

    /// Counts its purges, and keeps the number of ids that it was given room for.
    struct Counted {
        purges: AtomicU64,
        room: usize,
    }

    impl Map<u64> for Counted {
        const NAMES: [&'static str; 2] = names!("counted");

        fn new(ids: usize, _plan: &Plan) -> Result<Self, Failure> {
            Ok(Counted { purges: AtomicU64::new(0), room: ids })
        }

        fn accept(&self, _id: &u64, _now: Moment) -> bool {
            true
        }

        fn purge(&self, _now: Moment) {
            self.purges.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn maps_are_purged_as_often_as_their_names_say_and_have_room_until_then() {
        fn seen<const PURGES: u32>() -> (&'static str, u64, usize) {
            let window = Duration::from_secs(100);
            let plan = Plan { window, live: 1_000, threads: 1, place: Place::Memory };
            let map: Expiring<Counted, PURGES> = Strategy::new(&plan).unwrap();
            (0..=300).for_each(|tick| Strategy::<u64>::advance(&map, Timestamp::from_secs(tick)));
            (<Expiring<Counted, PURGES> as Strategy<u64>>::NAME, map.map.purges.into_inner(), map.map.room)
        }
        // In the first window nothing expires.
        assert_eq!(seen::<ONCE>(), ("counted", 2, 2_000));
        assert_eq!(seen::<OFTEN>(), ("counted, 4 purges", 8, 1_250));
    }

    #[test]
    fn a_grain_rounds_by_less_than_a_tick() {
        for window in [Duration::from_millis(1), Duration::from_secs(100), Duration::from_secs(1 << 30)] {
            let (grain, tick) = (Grain::of_window(window), window / 100);
            let start = Timestamp::from_nanos(1_234_567_890_123_456_789);
            let stamp = grain.at(start).stamp();
            let is_live = |later| grain.at(start + later).is_live(stamp);
            assert!(is_live(Duration::ZERO) && is_live(window - tick));
            assert!(!is_live(window) && !is_live(window * 2));
            let earlier = Timestamp::from_nanos(start.as_nanos() - tick.as_nanos() as u64);
            assert!(grain.at(earlier).is_live(stamp));
        }
    }
}
