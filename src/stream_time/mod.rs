//! An engine's two kinds of time: that of its clock, until the first call that carries a time, and
//! that of its events, from then on.
//!
//! The window's own time only grows; sweeps, tables and the history rely on it. Events are mapped
//! to it by an offset, which is chosen when the first of them comes and when an operator resets
//! stream time. [`policy`] decides; this file has the state that threads share.
//!
//! | offset | calls without a time go by |
//! |---|---|
//! | `UNUSED`: there was none yet | the clock, and make it `CLOCK` first |
//! | `CLOCK` | the clock |
//! | `DECLARED`: the builder says that times come with events | the latest time |
//! | a number | the latest time |
//!
//! A caller that is about to read the clock says so before, and looks again after that. So the
//! first event either sees that it must be no earlier than the clock, or is seen, and then the
//! clock's reading is not used.

mod policy;

pub(crate) use self::policy::{Bound, END, Policy, Resumed};

use self::policy::{Agreement, Before, Order, difference, external, internal, signed};
use crate::digest::Digest;
use crate::mutation::{Rule, obeys};
use crate::process::{Held, Rank, Rest, at_rest_in_forks};
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, unpoisoned};
use crate::{Refusal, Timestamp};
use std::sync::Arc;

/// The values of the offset that are none.
const UNUSED: i64 = i64::MIN;
const CLOCK: i64 = i64::MIN + 1;
const DECLARED: i64 = i64::MIN + 2;

/// The state of an engine's events' time.
pub(crate) struct StreamTime {
    /// The time from which on events are not accepted without a further look: those from `limit`
    /// on, or those whose time the window could not have. 0 if there is no offset yet, or if each
    /// event has to be compared with the latest.
    plain: AtomicU64,
    /// The time from which on events are ahead of the wall clock, as it was read last, or beyond
    /// the end. 0 until there is an offset.
    limit: AtomicU64,
    /// The amount by which the window's time is ahead of that of events, as an `i64`, or one of the
    /// constants.
    offset: AtomicU64,
    /// The latest event that was accepted, if the policy compares with it.
    latest: Option<Box<Latest>>,
    policy: Policy,
    /// The state for rare decisions.
    rare: Arc<RareLock>,
    resets: AtomicU64,
}

/// The latest event, by the window's time, plus 1; 0 if there was none. Alone in its cache lines,
/// as each later event writes to it.
#[repr(align(128))]
struct Latest(AtomicU64);

impl Latest {
    fn get(&self) -> Option<u64> {
        // Relaxed, as below: of two events that are compared at the same time, either may be the
        // first.
        self.0.load(Ordering::Relaxed).checked_sub(1)
    }

    #[inline(always)]
    fn raise(&self, at: u64) {
        if self.0.load(Ordering::Relaxed) <= at {
            self.0.fetch_max(at + 1, Ordering::Relaxed);
        }
    }
}

/// A lock that is at rest while the process forks.
struct RareLock(Mutex<Rare>);

impl RareLock {
    fn lock(&self) -> MutexGuard<'_, Rare> {
        // Nothing of ours panics under the lock; if a clock does, the state is still consistent.
        unpoisoned(self.0.lock())
    }
}

impl Rest for RareLock {
    fn rank(&self) -> Rank {
        Rank::StreamTime
    }

    fn hold<'s>(&'s self, held: &mut Vec<Box<dyn Held + 's>>) {
        held.push(Box::new(self.lock()));
    }
}

impl Held for MutexGuard<'_, Rare> {}

struct Rare {
    /// The agreement on jumps, if the policy has them.
    agreement: Option<Box<Agreement>>,
    resumed: Option<Resumed>,
}

/// The surroundings that a decision may have to ask.
pub(crate) trait Around {
    /// Returns the wall clock's time, for events' skew.
    fn wall(&self) -> u64;
    /// Returns the engine's clock, by the window's time.
    fn clock(&self) -> u64;
    /// Returns the window's latest time, if there was any call.
    fn latest(&self) -> Option<u64>;
    /// Returns the nanoseconds per tick.
    fn tick(&self) -> u64;
    /// Announces that the offset will be this one; no event was accepted with it yet.
    fn moved(&self, offset: i64);
}

/// The reason why stream time cannot be set to a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoReset {
    /// Events of that time would be refused.
    Ahead,
    /// The window's time has come to its end.
    Over,
}

impl StreamTime {
    pub(crate) fn new(policy: Policy, is_declared: bool) -> Self {
        let rare = Rare { agreement: Agreement::new(&policy).map(Box::new), resumed: None };
        let rare = Arc::new(RareLock(Mutex::new(rare)));
        at_rest_in_forks(&rare);
        StreamTime {
            plain: AtomicU64::new(0),
            limit: AtomicU64::new(0),
            offset: AtomicU64::new(if is_declared { DECLARED } else { UNUSED } as u64),
            latest: policy.compares().then(|| Box::new(Latest(AtomicU64::new(0)))),
            rare,
            policy,
            resets: AtomicU64::new(0),
        }
    }

    /// Returns the window's time of an event, in the common case: the event is not ahead of the
    /// limit that was looked up before, and has to be compared with nothing.
    #[inline(always)]
    pub(crate) fn admit(&self, at: Timestamp) -> Option<Timestamp> {
        // Acquire: partner of the release in `set_limit`. A thread that sees a limit sees an
        // offset.
        if at.as_nanos() >= self.plain.load(Ordering::Acquire) {
            return None;
        }
        // While stream time is reset, either of two offsets will do; and both are far from
        // overflowing.
        let internally = at.as_nanos() as i64 + self.offset.load(Ordering::Relaxed) as i64;
        Some(Timestamp::of_nanos(internally.max(0) as u64))
    }

    /// Sets the limit: events up to here are not ahead, from now on.
    fn set_limit(&self, limit: u64, offset: i64) {
        let plain = if self.latest.is_some() { 0 } else { limit.min(END - offset.max(0) as u64) };
        // Release: partner of the acquire in `admit` and in `decide`.
        self.limit.store(limit, Ordering::Release);
        self.plain.store(plain, Ordering::Release);
    }

    /// Returns the window's time of an event in all cases. `id` is that of the event, of a batch
    /// the first; none for a watermark.
    #[inline(never)]
    pub(crate) fn decide(
        &self,
        at: Timestamp,
        id: impl FnOnce() -> Option<Digest>,
        around: &impl Around,
    ) -> Result<Timestamp, Refusal> {
        let at = at.as_nanos();
        let limit = self.limit.load(Ordering::Acquire);
        if limit != 0
            && let Some(decided) = self.compare(at, limit)
        {
            return decided;
        }
        if at >= limit || limit == 0 {
            let limit = self.policy.limit(|| around.wall());
            refuse_ahead(at, limit)?;
            if let Some(offset) = self.offset() {
                // Of two threads that have read the wall clock either may be the last: the
                // difference is too small to matter.
                self.set_limit(limit, offset);
                if self.latest.is_none() {
                    return internal(at, offset).map(Timestamp::from_nanos).ok_or(Refusal::Ahead);
                }
            }
        }
        self.decide_alone(at, id(), around)
    }

    /// Compares an event that is not ahead of the limit with the latest one; returns `None` if that
    /// does not decide.
    #[inline(always)]
    fn compare(&self, at: u64, limit: u64) -> Option<Result<Timestamp, Refusal>> {
        let latest = self.latest.as_ref().filter(|_| at < limit)?;
        let offset = self.offset()?;
        let internal = internal(at, offset)?;
        match self.policy.order(signed(at, offset), latest.get()) {
            Order::Jump => None,
            Order::Late => Some(Err(Refusal::Late)),
            Order::Near => {
                latest.raise(internal);
                Some(Ok(Timestamp::from_nanos(internal)))
            }
        }
    }

    /// Decides about the first event, and about one that is too far ahead of the latest. One caller
    /// at a time.
    #[cold]
    fn decide_alone(&self, at: u64, id: Option<Digest>, around: &impl Around) -> Result<Timestamp, Refusal> {
        let mut rare = self.rare.lock();
        let limit = self.policy.limit(|| around.wall());
        refuse_ahead(at, limit)?;
        let seen = self.hold();
        let offset = offset_of(seen).unwrap_or_else(|| self.before(seen, rare.resumed, around).offset(at));
        let is_first = offset_of(seen).is_none();
        let now = match self.judge(at, id, offset, is_first, &mut rare) {
            Ok(now) => now,
            Err(refusal) => {
                if is_first {
                    self.offset.store(seen as u64, Ordering::Release);
                }
                return Err(refusal);
            }
        };
        if is_first {
            self.settle(offset, around);
        }
        if let Some(latest) = &self.latest {
            latest.raise(now);
        }
        self.set_limit(limit, offset);
        Ok(Timestamp::from_nanos(now))
    }

    /// Compares an event with the latest, and with those that were refused before.
    fn judge(&self, at: u64, id: Option<Digest>, offset: i64, is_first: bool, rare: &mut Rare) -> Result<u64, Refusal> {
        let now = internal(at, offset).ok_or(Refusal::Ahead)?;
        let latest = match rare.resumed {
            Some(Resumed::Events { latest, .. }) if is_first => Some(latest),
            // Nothing is known of how it compares.
            _ if is_first => None,
            _ => self.latest.as_ref().and_then(|latest| latest.get()),
        };
        match self.policy.order(signed(at, offset), latest) {
            Order::Near => Ok(now),
            Order::Late => Err(Refusal::Late),
            Order::Jump => {
                let witness = id.zip(rare.agreement.as_mut());
                let agree = witness.is_some_and(|(id, agreement)| agreement.hear(id, now));
                if agree { Ok(now) } else { Err(Refusal::Ahead) }
            }
        }
    }

    /// Lets calls without a time go by the latest, while the present is being looked up. Returns
    /// what they went by before. Under the lock.
    fn hold(&self) -> i64 {
        loop {
            let seen = self.offset.load(Ordering::Acquire) as i64;
            if !matches!(seen, UNUSED | CLOCK) {
                return seen;
            }
            // Acquire: partner of the release in `note_clock`. Release: a thread that has read the
            // clock and looks again after this drops its reading.
            let held = self.offset.compare_exchange(seen as u64, DECLARED as u64, Ordering::AcqRel, Ordering::Relaxed);
            if held.is_ok() {
                return seen;
            }
        }
    }

    /// Sets the offset. Under the lock.
    fn settle(&self, offset: i64, around: &impl Around) {
        // First, so that nothing is written with the new offset before it is announced.
        around.moved(offset);
        self.offset.store(offset as u64, Ordering::Release);
    }

    fn before(&self, seen: i64, resumed: Option<Resumed>, around: &impl Around) -> Before {
        let clock = (seen == CLOCK).then(|| around.clock());
        Before { latest: around.latest(), clock, resumed, tick: around.tick() }
    }

    /// Makes `to`, which events may have, the present. Returns the offset that does.
    pub(crate) fn reset(&self, to: Timestamp, around: &impl Around) -> Result<i64, NoReset> {
        let mut rare = self.rare.lock();
        let limit = self.policy.limit(|| around.wall());
        if to.as_nanos() >= limit {
            return Err(NoReset::Ahead);
        }
        let seen = self.hold();
        let clock = (seen == CLOCK).then(|| around.clock());
        let latest = self.latest.as_ref().and_then(|latest| latest.get());
        let now = around.latest().max(clock).max(latest).unwrap_or(0);
        // With less than a month left, events would soon be refused.
        if now >= END - (1 << 51) {
            self.offset.store(seen as u64, Ordering::Release);
            return Err(NoReset::Over);
        }
        let offset = difference(now, to.as_nanos());
        self.settle(offset, around);
        rare.agreement.iter_mut().for_each(|agreement| agreement.clear());
        if let Some(latest) = &self.latest {
            latest.raise(now);
        }
        self.set_limit(limit, offset);
        // Relaxed: a counter.
        self.resets.fetch_add(1, Ordering::Relaxed);
        Ok(offset)
    }

    /// Takes over another engine's time from a journal. Called before any other
    /// thread knows this one.
    pub(crate) fn resume(&self, resumed: Resumed) {
        self.rare.lock().resumed = Some(resumed);
        if resumed == Resumed::Clock {
            // This has no effect if the builder says that times come with events.
            self.note_clock();
        }
    }

    /// Returns the amount by which the window's time is ahead of the events', if the engine goes by
    /// them, or will with the next event.
    pub(crate) fn base(&self) -> Option<i64> {
        let resumed = || match self.rare.lock().resumed {
            Some(Resumed::Events { offset, .. }) if !self.is_by_clock() => Some(offset),
            _ => None,
        };
        self.offset().or_else(resumed)
    }

    /// Returns true if calls without a time go by the clock, and that was noted.
    #[inline(always)]
    pub(crate) fn is_by_clock(&self) -> bool {
        // Acquire: partner of the release in `settle`: a thread that sees an offset sees what led
        // to it.
        self.offset.load(Ordering::Acquire) as i64 == CLOCK
    }

    /// Notes that the clock is about to be read; returns false if time comes with events.
    pub(crate) fn note_clock(&self) -> bool {
        // Release: the first event sees this, or we see the event.
        let noted = self.offset.compare_exchange(UNUSED as u64, CLOCK as u64, Ordering::AcqRel, Ordering::Acquire);
        noted.is_ok() || self.is_by_clock()
    }

    /// Returns true if time comes with events.
    pub(crate) fn is_by_events(&self) -> bool {
        !matches!(self.offset.load(Ordering::Acquire) as i64, UNUSED | CLOCK)
    }

    fn offset(&self) -> Option<i64> {
        offset_of(self.offset.load(Ordering::Acquire) as i64)
    }

    /// Returns a time of the window as callers express it.
    pub(crate) fn external(&self, internally: Timestamp) -> Timestamp {
        let offset = self.base().unwrap_or(0);
        Timestamp::from_nanos(external(internally.as_nanos(), offset))
    }

    /// Returns the window's time of an event that was accepted before; whatever it is, it is no
    /// later than the latest.
    pub(crate) fn taken(&self, at: Timestamp, latest: Timestamp) -> Timestamp {
        let at = self.offset().and_then(|offset| internal(at.as_nanos(), offset));
        at.map_or(latest, |at| Timestamp::from_nanos(at).min(latest))
    }

    /// Returns the memory that it has beside itself.
    pub(crate) fn bytes(&self) -> usize {
        let agreement = self.rare.lock().agreement.as_ref().map_or(0, |agreement| agreement.bytes());
        self.latest.as_ref().map_or(0, |_| size_of::<Latest>()) + agreement
    }

    pub(crate) fn resets(&self) -> u64 {
        self.resets.load(Ordering::Relaxed)
    }
}

fn refuse_ahead(at: u64, limit: u64) -> Result<(), Refusal> {
    if at >= limit && obeys(Rule::RefuseAhead) { Err(Refusal::Ahead) } else { Ok(()) }
}

fn offset_of(seen: i64) -> Option<i64> {
    (seen > DECLARED).then_some(seen)
}

#[cfg(all(test, loom))]
mod models;
