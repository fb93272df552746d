//! Time as the window's slots hold it: ten bits of ticks. Pure.

use crate::clock::Reading;
use crate::{Error, Timestamp};
use std::time::Duration;

/// The number of bits of a tick in a slot.
pub(crate) const TICK_BITS: u32 = 10;

/// The number of ticks by which the clocks of two callers may differ: a caller that finds itself
/// further behind starts over (see `Table::overtaken`).
pub(crate) const GRACE: u64 = 2;

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

/// The lengths of ticks, in nanoseconds. Neighbours differ by at most a factor of 2.5, so the
/// largest one that is at most a hundredth of the window divides the window into 100 to 250 ticks.
const ROUND_TICKS: [u64; 54] = {
    const S: u64 = 1_000_000_000;
    const MIN: u64 = 60 * S;
    const H: u64 = 60 * MIN;
    const D: u64 = 24 * H;
    let long = [
        S,
        2 * S,
        5 * S,
        10 * S,
        20 * S,
        30 * S,
        MIN,
        2 * MIN,
        5 * MIN,
        10 * MIN,
        20 * MIN,
        30 * MIN,
        H,
        2 * H,
        5 * H,
        10 * H,
        D,
        2 * D,
        5 * D,
        10 * D,
        20 * D,
        50 * D,
        100 * D,
        200 * D,
        365 * D,
        730 * D,
        1825 * D,
    ];
    let mut ticks = [0; 54];
    let mut i = 0;
    let mut unit = 1;
    while i < 27 {
        ticks[i] = unit;
        ticks[i + 1] = 2 * unit;
        ticks[i + 2] = 5 * unit;
        unit *= 10;
        i += 3;
    }
    while i < 54 {
        ticks[i] = long[i - 27];
        i += 1;
    }
    ticks
};

/// The position of the tick in a slot.
pub(crate) const TICK_SHIFT: u32 = 7;
const TICK_MASK: u64 = ((1 << TICK_BITS) - 1) << TICK_SHIFT;

/// The division of a window's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticks {
    /// Nanoseconds per tick.
    pub(crate) nanos: u64,
    /// Ticks per window.
    pub(crate) window: u64,
    /// The reciprocal that divides by `nanos`.
    reciprocal: Reciprocal,
}

/// A divisor that is known long before: division by it is a multiplication, where a division would
/// cost as much as reading the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reciprocal {
    factor: u64,
    shift: u32,
}

impl Reciprocal {
    /// Returns the reciprocal for dividing numbers below 2^63 by `divisor` (Granlund and
    /// Montgomery, Division by Invariant Integers, 1994): the factor is 2^(63 + bits) / divisor,
    /// rounded up, for the fewest bits with 2^bits >= divisor.
    fn of(divisor: u64) -> Self {
        let bits = divisor.next_power_of_two().trailing_zeros();
        let factor = (1_u128 << (63 + bits)).div_ceil(u128::from(divisor));
        // At most 2^64 - 1, except for a divisor of 2^bits, where it is 2^63.
        Reciprocal { factor: factor as u64, shift: 63 + bits }
    }

    #[inline(always)]
    fn divide(self, number: u64) -> u64 {
        ((u128::from(number) * u128::from(self.factor)) >> self.shift) as u64
    }
}

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

impl Ticks {
    pub(crate) const WINDOW_MIN: Duration = Duration::from_nanos(100);
    pub(crate) const WINDOW_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

    /// Returns the division of a window.
    pub(crate) fn of_window(window: Duration) -> Result<Self, Error> {
        if !(Self::WINDOW_MIN..=Self::WINDOW_MAX).contains(&window) {
            return Err(Error::invalid("window", format_args!("{window:?}"), "a duration from 100ns to 100 years"));
        }
        let window = window.as_nanos() as u64;
        let longer = ROUND_TICKS.partition_point(|&tick| tick <= window / 100);
        let nanos = ROUND_TICKS[longer - 1];
        Ok(Ticks { nanos, window: window.div_ceil(nanos), reciprocal: Reciprocal::of(nanos) })
    }

    /// Returns a time in ticks. An entry of time t is live at t' if
    /// `at(t').now < at(t).stamp + window`: whenever t' - t < W + lag, and never once t' - t >= W +
    /// lag + 2 ticks. (These are readings; in truth both may be later by up to the lag.)
    #[inline(always)]
    pub(crate) fn at(&self, reading: Reading) -> Tick {
        let now = self.reciprocal.divide(reading.time.as_nanos());
        let rest = reading.time.as_nanos() - now * self.nanos + reading.lag_nanos;
        Tick { now, stamp: now + u64::from(rest > 0) + u64::from(rest > self.nanos) }
    }

    /// Returns the earliest reading that is this tick.
    #[inline(always)]
    pub(crate) fn reading_of(&self, tick: Tick) -> Reading {
        let time = self.start_of(tick.now);
        Reading { time, lag_nanos: tick.stamp.saturating_sub(tick.now).saturating_mul(self.nanos) }
    }

    /// Returns the first moment of a tick.
    #[inline(always)]
    pub(crate) fn start_of(&self, tick: u64) -> Timestamp {
        Timestamp::from_nanos(tick.saturating_mul(self.nanos))
    }

    /// Returns the last moment of a tick.
    pub(crate) fn end_of(&self, tick: u64) -> Timestamp {
        Timestamp::from_nanos((tick.saturating_add(1)).saturating_mul(self.nanos) - 1)
    }

    /// Returns the first moment at which an entry of this tick is not live any more.
    pub(crate) fn expiry_of(&self, tick: Tick) -> Timestamp {
        self.start_of(tick.stamp.saturating_add(self.window))
    }

    pub(crate) fn tick(&self) -> Duration {
        Duration::from_nanos(self.nanos)
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
        let age = |ticks: u64| (ticks + AHEAD) << TICK_SHIFT;
        Limits { live: age(ticks), keep: age(ticks + GRACE), carry: age(ticks + 2 * GRACE) }
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
    #[cfg(all(target_arch = "x86_64", not(modelled)))]
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
    #[cfg(all(target_arch = "x86_64", not(modelled)))]
    pub(crate) fn terms(&self) -> (u64, u64, u64) {
        (self.earliest, TICK_MASK, self.old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_older_than_a_slot_is_what_was_stamped_when_it_was_or_later() {
        let ticks = Ticks::of_window(Duration::from_secs(100)).unwrap();
        let at =
            |second: u64| Moment::new(ticks.at(Timestamp::from_secs(second).into()), Limits::of_window(ticks.window));
        let moment = at(500).not_older_than(at(450).stamp_bits());
        assert!([450, 451, 500].into_iter().all(|second| moment.is_live(at(second).stamp_bits())));
        assert!([449, 440, 401].into_iter().all(|second| !moment.is_live(at(second).stamp_bits())));
    }
    use proptest::prelude::*;

    #[test]
    fn stamps_are_rounded_up_for_the_lag_too() {
        let ticks = Ticks::of_window(Duration::from_secs(100)).unwrap();
        let at = |nanos: u64, lag_nanos: u64| {
            let Tick { now, stamp } = ticks.at(Reading { time: Timestamp::from_nanos(nanos), lag_nanos });
            (now, stamp)
        };
        const S: u64 = 1_000_000_000;
        assert_eq!([at(0, 0), at(1, 0), at(S - 1, 0), at(S, 0)], [(0, 0), (0, 1), (0, 1), (1, 1)]);
        assert_eq!([at(5 * S, 1), at(5 * S, S), at(5 * S + 1, S), at(6 * S - 1, S)], [(5, 6), (5, 6), (5, 7), (5, 7)]);
        assert_eq!(ticks.end_of(0), Timestamp::from_nanos(S - 1));
        assert_eq!(ticks.end_of(7), Timestamp::from_nanos(8 * S - 1));
    }

    #[test]
    fn ticks_are_round_and_100_to_250_a_window() {
        let tick = |window: Duration| Ticks::of_window(window).map(|t| (t.tick(), t.window));
        let ms = Duration::from_millis;
        let s = Duration::from_secs;
        assert_eq!(tick(ms(1)).unwrap(), (Duration::from_micros(10), 100));
        assert_eq!(tick(s(1)).unwrap(), (ms(10), 100));
        assert_eq!(tick(s(60)).unwrap(), (ms(500), 120));
        assert_eq!(tick(s(600)).unwrap(), (s(5), 120));
        assert_eq!(tick(s(86_400)).unwrap(), (s(600), 144));
        for i in 1..1_000_000_u64 {
            let ticks = Ticks::of_window(Duration::from_nanos(i * i * 3_000_017 + 100)).unwrap();
            assert!((100..=WINDOW_TICKS_MAX).contains(&ticks.window), "{ticks:?}");
        }
        assert_eq!(tick(Ticks::WINDOW_MIN).unwrap().1, 100);
        assert!(tick(Ticks::WINDOW_MAX).is_ok());
        for refused in [s(0), Duration::from_nanos(99), Ticks::WINDOW_MAX + ms(1), Duration::MAX] {
            assert!(tick(refused).is_err());
        }
    }

    proptest! {
        #[test]
        fn a_reciprocal_divides(number in 0..1_u64 << 63, divisor in 1..1_u64 << 62, shift in 0..62_u32) {
            let divisor: u64 = (divisor >> shift).max(1);
            let quotient = Reciprocal::of(divisor).divide(number);
            prop_assert_eq!(quotient, number / divisor);
            // Rounding shows at the edges.
            for number in [number - number % divisor, (number - number % divisor).saturating_sub(1), (1 << 63) - 1] {
                prop_assert_eq!(Reciprocal::of(divisor).divide(number), number / divisor);
            }
        }

        #[test]
        fn nothing_is_forgotten_before_w_nor_remembered_after_w_and_two_ticks(
            window in 100..1_u64 << 55, lag in 0..1_000_000_u64, accepted in 0..1_u64 << 60, elapsed in 0..1_u64 << 56,
        ) {
            let ticks = Ticks::of_window(Duration::from_nanos(window)).unwrap();
            let lag = lag.min(ticks.nanos);
            let at = |nanos| ticks.at(Reading { time: Timestamp::from_nanos(nanos), lag_nanos: lag });
            let (stamp, now) = (at(accepted).stamp, at(accepted + elapsed).now);
            let live = now < stamp + ticks.window;
            if elapsed < window + lag {
                prop_assert!(live);
            }
            if elapsed >= window + 2 * ticks.nanos + lag {
                prop_assert!(!live);
            }
        }

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
