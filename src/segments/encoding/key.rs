//! The part of a digest that a segment keeps, and how it counts time. Pure.

#![allow(clippy::cast_possible_truncation, reason = "bits are cut out of words")]

use crate::Timestamp;
use crate::digest::Digest;

/// The bits of a digest's place that are kept.
pub(in crate::segments) const PLACE_BITS: u32 = 40;
/// The bits of a digest's mark that are kept.
pub(in crate::segments) const MARK_BITS: u32 = 56;

/// 96 bits of a digest: the upper ones of its place, then those of its mark. Segments are sorted by
/// it.
///
/// 10^9 questions against 10^9 ids have a wrong answer once in 8 * 10^10 such runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::segments) struct Key(u128);

impl Key {
    pub(in crate::segments) fn of(digest: Digest) -> Self {
        Self::new(digest.place >> (64 - PLACE_BITS), digest.mark >> (64 - MARK_BITS))
    }

    pub(in crate::segments) fn new(place: u64, mark: u64) -> Self {
        debug_assert!(place >> PLACE_BITS == 0 && mark >> MARK_BITS == 0);
        Key(u128::from(place) << MARK_BITS | u128::from(mark))
    }

    /// Returns the 40 bits of the place.
    pub(in crate::segments) fn place(self) -> u64 {
        (self.0 >> MARK_BITS) as u64
    }

    /// Returns the place as a number that is spread over the whole range.
    pub(in crate::segments) fn spread(self) -> u64 {
        self.place() << (64 - PLACE_BITS)
    }

    /// Returns the 56 bits of the mark.
    pub(in crate::segments) fn mark(self) -> u64 {
        self.0 as u64 & ((1 << MARK_BITS) - 1)
    }

    /// Returns the upper 64 bits, and the 32 below them.
    pub(in crate::segments) fn halves(self) -> (u64, u32) {
        ((self.0 >> 32) as u64, self.0 as u32)
    }

    /// Packs the key with 16 bits more, in this order.
    pub(in crate::segments) fn with(self, low: u16) -> u128 {
        self.0 << 16 | u128::from(low)
    }

    pub(in crate::segments) fn unpack(packed: u128) -> (Self, u16) {
        (Key(packed >> 16), packed as u16)
    }
}

/// The tick of an id that was forgotten.
pub(in crate::segments) const TOMBSTONE: u16 = u16::MAX;

/// The way in which a segment counts time: ticks of 2^shift ns, from a first one on.
///
/// A time is rounded up to the next multiple of a power of two, so that nothing is out of retention
/// too early, and so that rounding again when segments are merged adds nothing to the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::segments) struct Scale {
    pub(in crate::segments) base: u64,
    pub(in crate::segments) shift: u32,
}

/// The coarsest ticks: with them all times of 64 bits are within reach of each other.
pub(in crate::segments) const SHIFT_MAX: u32 = 48;

impl Scale {
    /// Returns the finest scale for times of this span.
    pub(in crate::segments) fn of(first: Timestamp, last: Timestamp) -> Self {
        let (first, last) = (first.as_nanos(), last.as_nanos().max(first.as_nanos()));
        let fits = |shift: &u32| rounded_up(last, *shift) - rounded_up(first, *shift) < u64::from(TOMBSTONE);
        let shift = (0..SHIFT_MAX).find(fits).unwrap_or(SHIFT_MAX);
        Scale { base: rounded_up(first, shift), shift }
    }

    /// Returns the tick of a time; the first or the last one for times beyond the span.
    pub(in crate::segments) fn tick(self, time: Timestamp) -> u16 {
        let ticks = rounded_up(time.as_nanos(), self.shift).saturating_sub(self.base);
        ticks.min(u64::from(TOMBSTONE - 1)) as u16
    }

    /// Returns the time of a tick, which is at most a tick later than that of the id.
    pub(in crate::segments) fn time(self, tick: u16) -> Timestamp {
        let ticks = self.base.saturating_add(u64::from(tick));
        Timestamp::from_nanos(ticks.saturating_mul(1 << self.shift))
    }
}

fn rounded_up(nanos: u64, shift: u32) -> u64 {
    (nanos >> shift) + u64::from(nanos & ((1 << shift) - 1) != 0)
}

#[cfg(all(test, not(any(modelled, alone))))]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn times_are_never_earlier_and_less_than_a_tick_later_also_if_rounded_again() {
        let mut random = Random::new(5);
        for _ in 0..20_000 {
            let first = random.next() >> (1 + random.below(63));
            let span = random.next() >> (1 + random.below(63));
            let time = first.saturating_add(random.below(span + 1)).min(i64::MAX as u64);
            let [first, last, time] = [first, first.saturating_add(span), time].map(Timestamp::from_nanos);
            let scale = Scale::of(first, last);
            let told = scale.time(scale.tick(time));
            assert!(told >= time && told.as_nanos() - time.as_nanos() < 1 << scale.shift, "{time} as {told}");
            let earlier = Timestamp::from_nanos(random.below(first.as_nanos() + 1));
            let wider = Scale::of(earlier, last);
            assert!(wider.shift >= scale.shift);
            assert_eq!(wider.tick(told), wider.tick(time), "rounded twice");
        }
        let all = Scale::of(Timestamp::from_nanos(0), Timestamp::from_nanos(u64::MAX));
        assert!(all.shift <= SHIFT_MAX && all.time(all.tick(Timestamp::from_nanos(7))).as_nanos() <= 1 << all.shift);
    }

    #[test]
    fn keys_are_in_the_order_of_their_digests() {
        let mut random = Random::new(6);
        let mut digests: Vec<_> = (0..1_000).map(|_| Digest { place: random.next(), mark: random.next() }).collect();
        digests.sort_by_key(|digest| u128::from(*digest));
        assert!(digests.iter().map(|digest| Key::of(*digest)).is_sorted());
        let key = Key::of(digests[7]);
        assert_eq!(Key::new(key.place(), key.mark()), key);
        assert_eq!(Key::unpack(key.with(9)), (key, 9));
    }
}
