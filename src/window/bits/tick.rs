//! Time as the window's slots hold it: ten bits of ticks. Pure.

/// The number of bits of a tick in a slot.
pub(crate) const TICK_BITS: u32 = 10;

/// The number of ticks by which the clocks of two callers may differ: a caller that finds itself
/// further behind starts over (see `Table::overtaken`).
pub const GRACE: u64 = 2;

/// The number of ticks by which a slot's tick may lie ahead of a reader's: GRACE, and two for a
/// stamp rounded up with a clock that lags.
const AHEAD: u64 = 16;

/// The number of ticks after its last sweep at which a shard is swept when it is used …
pub(crate) const SWEEP_EVERY: u64 = 480;

/// … and the age in ticks below which the sweep leaves an entry.
pub(crate) const SWEEP_KEEPS: u64 = 512;

/// The most ticks that a window has.
pub(crate) const WINDOW_TICKS_MAX: u64 = 250;

// Between two sweeps ages run from -AHEAD to SWEEP_KEEPS + SWEEP_EVERY: ten bits tell them all
// apart.
const _: () = assert!(AHEAD + SWEEP_KEEPS + SWEEP_EVERY <= 1 << TICK_BITS);
const _: () = assert!(AHEAD >= GRACE + 2);
// A sweep may drop `spilled` with the rest of a slot: the flag protects nothing by then (see
// `Slot::spilled`).
const _: () = assert!(SWEEP_KEEPS >= 2 * WINDOW_TICKS_MAX + 4 * GRACE);

/// The position of the tick in a slot.
pub(crate) const TICK_SHIFT: u32 = 7;
const TICK_MASK: u64 = ((1 << TICK_BITS) - 1) << TICK_SHIFT;

/// A time in ticks, rounded both ways, so that nothing is forgotten early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tick {
    /// The tick rounded down: for measuring ages.
    pub(crate) now: u64,
    /// The tick rounded up: for stamping entries.
    pub(crate) stamp: u64,
}

impl Tick {
    /// The latest tick that fits in a word together with the tick that it rounds up to: with ticks
    /// of 1 ns, time stands still from 2116 on.
    const NOW_MAX: u64 = (1 << 62) - 1;

    /// Packs both into one word, in the order of time: of two times in one tick, the later one may
    /// be stamped later.
    #[inline(always)]
    pub(crate) fn pack(self) -> u64 {
        debug_assert!(self.stamp - self.now <= 2);
        self.now.min(Self::NOW_MAX) << 2 | (self.stamp - self.now)
    }

    #[inline(always)]
    pub(crate) fn unpack(word: u64) -> Self {
        Tick { now: word >> 2, stamp: (word >> 2) + (word & 3) }
    }
}

/// A moment, and the limits to compare the ages of slots with. Ages are in the position that the
/// tick has in a slot, and counted from AHEAD ticks before the moment, so that none is negative.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The moment in full.
    pub(crate) tick: Tick,
    base: u64,
    pub(crate) limits: Limits,
}

/// The ages at which the status of an entry changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The limit of live ages: an entry below it is within the window.
    pub(crate) live: u64,
    /// The limit of kept ages (those entries are moved rather than dropped): a caller whose clock
    /// is behind may still find them live.
    pub(crate) keep: u64,
    /// The limit up to which `spilled` counts.
    pub(crate) carry: u64,
}

impl Limits {
    pub(crate) fn of_window(ticks: u64) -> Self {
        Self::from_live((ticks + AHEAD) << TICK_SHIFT)
    }

    /// Returns the limits of a window, given that of live ages.
    #[inline(always)]
    pub(crate) fn from_live(live: u64) -> Self {
        Limits { live, keep: live + (GRACE << TICK_SHIFT), carry: live + ((2 * GRACE) << TICK_SHIFT) }
    }
}

impl Moment {
    #[inline(always)]
    pub(crate) fn new(tick: Tick, limits: Limits) -> Self {
        // Ones below the tick, so that the slot's bits there cannot borrow from it.
        let base = (tick.now + AHEAD) << TICK_SHIFT | ((1 << TICK_SHIFT) - 1);
        Moment { tick, base, limits }
    }

    /// Returns this moment with another meaning of "live": stamped when this slot was, or later.
    pub(crate) fn not_older_than(&self, slot: u64) -> Self {
        let live = self.age(slot) + (1 << TICK_SHIFT);
        Moment { limits: Limits { live, ..self.limits }, ..*self }
    }

    /// Returns this moment with another meaning of "live": still live this many ticks later. For a
    /// caller that looks ahead and must not sweep for a time that no caller has agreed on.
    pub(crate) fn seen_from(&self, ticks_later: u64) -> Self {
        // Beyond these, nothing is live.
        let later = ticks_later.min(1 << TICK_BITS) << TICK_SHIFT;
        // Flags that an entry is elsewhere have expired then as well, as for a check at that time.
        let [live, carry] = [self.limits.live, self.limits.carry].map(|limit| limit.saturating_sub(later));
        Moment { limits: Limits { live, carry, ..self.limits }, ..*self }
    }

    /// Returns the time since a slot was stamped; comparable with the fields.
    #[inline(always)]
    pub(crate) fn age(&self, slot: u64) -> u64 {
        self.base.wrapping_sub(slot) & TICK_MASK
    }

    /// Returns true if a slot that was stamped then is within the window.
    #[inline(always)]
    pub(crate) fn is_live(&self, slot: u64) -> bool {
        self.age(slot) < self.limits.live
    }

    /// Returns the words from which vectors compute [`age`](Self::age): `base - slot & mask`.
    #[allow(dead_code, reason = "only the looks by vectors ask")]
    pub(crate) fn age_terms(&self) -> (u64, u64) {
        (self.base, TICK_MASK)
    }

    /// Returns an age in whole ticks; 0 if it is negative.
    pub(crate) fn age_ticks(&self, slot: u64) -> u64 {
        (self.age(slot) >> TICK_SHIFT).saturating_sub(AHEAD)
    }

    /// Returns the tick with which a slot was stamped, if it is live.
    pub(crate) fn stamp_of(&self, slot: u64) -> u64 {
        (self.tick.now + AHEAD).saturating_sub(self.age(slot) >> TICK_SHIFT)
    }

    /// Returns the bits of a slot that is stamped now.
    #[inline(always)]
    pub(crate) fn stamp_bits(&self) -> u64 {
        stamp_bits(self.tick.stamp)
    }
}

/// Returns the bits of a tick in a slot.
pub(crate) const fn stamp_bits(tick: u64) -> u64 {
    (tick << TICK_SHIFT) & TICK_MASK
}

/// The aging of a shard's slots that was swept at a known tick until now, however long that is:
/// their ticks lie within SWEEP_KEEPS before and SWEEP_EVERY after the sweep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SinceSweep {
    /// The earliest tick that a slot may have, as bits of a slot.
    earliest: u64,
    /// The age of that tick.
    oldest_ticks: u64,
    /// The most ticks after the earliest one at which an entry that is to be cleared was stamped;
    /// as bits of a slot.
    old: u64,
}

impl SinceSweep {
    pub(crate) fn new(swept: u64, now: u64) -> Self {
        let since_ticks = now.saturating_sub(swept);
        SinceSweep {
            earliest: swept.wrapping_sub(SWEEP_KEEPS) << TICK_SHIFT,
            oldest_ticks: since_ticks.saturating_add(SWEEP_KEEPS),
            old: since_ticks.min((1 << TICK_BITS) - 1) << TICK_SHIFT,
        }
    }

    /// Returns the time since a slot was stamped; 0 if its stamp is ahead of now.
    #[inline(always)]
    pub(crate) fn age_ticks(&self, slot: u64) -> u64 {
        let after_earliest = (slot.wrapping_sub(self.earliest) & TICK_MASK) >> TICK_SHIFT; // nothing below to borrow
        self.oldest_ticks.saturating_sub(after_earliest)
    }

    /// Returns true if a slot is as old as those that a sweep clears: SWEEP_KEEPS or more.
    #[inline(always)]
    pub(crate) fn is_old(&self, slot: u64) -> bool {
        slot.wrapping_sub(self.earliest) & TICK_MASK <= self.old
    }

    /// Returns the words that vectors compute with: a slot is old if, less the first, what remains
    /// in the second is at most the third.
    #[allow(dead_code, reason = "only the looks by vectors ask")]
    pub(crate) fn terms(&self) -> (u64, u64, u64) {
        (self.earliest, TICK_MASK, self.old)
    }

    /// Returns the least that remains so of a slot that is younger than this many ticks, of which
    /// there is one at least; more than remains of any, if none is.
    #[inline(always)]
    pub(crate) fn least_of_younger(&self, ticks: u64) -> u64 {
        debug_assert!(ticks > 0, "a stamp that is ahead of now is younger than one tick");
        (self.oldest_ticks.saturating_add(1)).saturating_sub(ticks).min(1 << TICK_BITS) << TICK_SHIFT
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::super::division::Ticks;
    use super::*;
    use crate::Timestamp;
    use proptest::prelude::*;
    use std::time::Duration;

    #[test]
    fn not_older_than_a_slot_is_what_was_stamped_when_it_was_or_later() {
        let ticks = Ticks::of_window(Duration::from_secs(100)).unwrap();
        let at =
            |second: u64| Moment::new(ticks.at(Timestamp::from_secs(second).into()), Limits::of_window(ticks.window));
        let moment = at(500).not_older_than(at(450).stamp_bits());
        assert!([450, 451, 500].into_iter().all(|second| moment.is_live(at(second).stamp_bits())));
        assert!([449, 440, 401].into_iter().all(|second| !moment.is_live(at(second).stamp_bits())));
    }

    proptest! {
        #[test]
        fn ages_are_exact_between_two_sweeps(now in 0..1_u64 << 62, age in -16_i64..992, window in 100..251_u64) {
            prop_assume!(now as i64 - age >= 0);
            let written = (now as i64 - age) as u64;
            let moment = Moment::new(Tick { now, stamp: now }, Limits::of_window(window));
            let slot = stamp_bits(written) | 0x5a;
            prop_assert_eq!(moment.age_ticks(slot), age.max(0) as u64);
            prop_assert_eq!(moment.age(slot) < moment.limits.live, age < window as i64);
            prop_assert_eq!(moment.age(slot) < moment.limits.keep, age < (window + GRACE) as i64);
        }

        #[test]
        fn packed_ticks_are_in_the_order_of_time(now in 0..1_u64 << 63, later in 0..1_u64 << 63, up in 0..3_u64) {
            let tick = |now| Tick { now, stamp: now + up };
            let (earlier, later) = (now.min(later), now.max(later));
            prop_assert!(tick(earlier).pack() <= tick(later).pack());
            let exact = Tick { now, stamp: now };
            prop_assert!(exact.pack() <= tick(now).pack());
            if now <= Tick::NOW_MAX {
                prop_assert_eq!(Tick::unpack(tick(now).pack()), tick(now));
            }
        }

        #[test]
        fn a_sweep_knows_every_age(swept in 512..1_u64 << 62, offset in -512_i64..=480, since in 0..1_u64 << 40) {
            let written = swept.wrapping_add_signed(offset);
            let now = swept + since;
            let slot = stamp_bits(written) | 0x5a;
            let ages = SinceSweep::new(swept, now);
            prop_assert_eq!(ages.age_ticks(slot), now.saturating_sub(written));
            prop_assert_eq!(ages.is_old(slot), now.saturating_sub(written) >= SWEEP_KEEPS);
        }
    }
}
