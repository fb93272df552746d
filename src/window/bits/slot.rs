//! One slot: 64 bits that hold an entry of the window. Pure.
//!
//! ```text
//!  63            18 17   16      7 6        5        0
//! | tag 46         |away| tick 10 |spilled | version 6 |
//! ```
//!
//! | field   | meaning |
//! |---------|---------|
//! | tag     | tells an id from its neighbours in the bucket; below 2^12: vacant |
//! | away    | the entry is in its alternate bucket, not in its home bucket |
//! | tick    | the tick when the id was accepted, modulo 2^10 |
//! | spilled | entries of this bucket have moved to their alternate buckets: look there, too |
//! | version | the number of times that the slot has been written, modulo 2^6 |
//!
//! The reason for 46 and 6: a false duplicate takes two ids of one bucket with one tag, 8 x 0.45 x
//! 2^-46 = 5e-14 per check. A view that stalls while its bucket takes exactly (2^6 - 1) x 8 + 1 =
//! 505 insertions can be fooled by the wrapped version; the smallest table has 1,024 buckets, so
//! that takes a stall of half a million insertions, exact to a single one. Two bits moved from tag
//! to version would make that two million and the false duplicates 2e-13, a rate that shows at 10^7
//! checks a second.
//!
//! A vacant slot's tag says why: 0, nothing was ever there, or long ago; 1, it was forgotten; else
//! the slot is *reserved* for an entry that somebody is about to copy here, unless that is
//! forgotten first, and the tag has 10 bits of the entry's.

#![allow(clippy::cast_possible_truncation, reason = "bits are cut out of words")]

use super::tick::{Moment, TICK_BITS, TICK_SHIFT, stamp_bits};
use crate::mutation::{Rule, obeys};

/// The number of slots in a bucket.
pub const SLOTS: usize = 8;
/// The number of bits of a slot's version.
pub(crate) const VERSION_BITS: u32 = 6;

const SPILLED: u64 = 1 << 6;
const AWAY: u64 = 1 << 17;
const TAG_SHIFT: u32 = 18;
const TAG: u64 = !0 << TAG_SHIFT;
/// The tag of a vacant slot whose entry was forgotten …
const FORGOTTEN: u64 = 1 << TAG_SHIFT;
/// … those of slots that are reserved, in the alternate bucket and at home …
const RESERVED: [u64; 2] = [1 << (TAG_SHIFT + 10), 3 << (TAG_SHIFT + 10)];
/// … and the first one of an id. (A comparison with a constant of more bits takes two
/// instructions.)
const FIRST_TAG: u64 = 1 << (TAG_SHIFT + 12);
/// The bits of tag and away: two entries are the same if they agree in these.
const KEY: u64 = TAG | AWAY;
const TICK: u64 = stamp_bits(u64::MAX);

const _: () = assert!(TICK_SHIFT == 7 && TICK_SHIFT + TICK_BITS == 17);
const _: () = assert!(KEY == !0 << (TAG_SHIFT - 1));
const _: () = assert!(SPILLED > (1 << VERSION_BITS) - 1);

/// Returns the probability that an id that is not there matches an entry of its bucket: as many
/// comparisons as a bucket has live entries on average, each of all bits of a tag.
pub fn false_match_rate(live: f64, buckets: f64) -> f64 {
    live / buckets * (-f64::from(u64::BITS - TAG_SHIFT)).exp2()
}

/// A tag, in its place in a slot. Never that of a vacant slot except by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tag(u64);

/// The key by which an entry is found: its tag, and whether it is at home or away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u64);

/// The content of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slot(pub(crate) u64);

impl Tag {
    /// Returns the tag of a digest's half.
    #[inline(always)]
    pub(crate) fn of(mark: u64) -> Self {
        match mark & TAG {
            bits if bits < FIRST_TAG => Self::instead_of(bits),
            bits => Tag(bits),
        }
    }

    /// Returns a tag instead of one that a vacant slot has: so rarely that a branch is free.
    #[cold]
    fn instead_of(bits: u64) -> Self {
        Tag(bits | 1 << 63)
    }

    /// Returns a half of a digest that has this tag.
    #[inline(always)]
    pub(crate) fn as_mark(self) -> u64 {
        self.0
    }

    #[inline(always)]
    pub(crate) fn at_home(self) -> Key {
        Key(self.0)
    }

    #[inline(always)]
    pub(crate) fn away(self) -> Key {
        Key(self.0 | AWAY)
    }

    /// Returns the bucket where entries of `bucket` go when they must leave it; an involution: back
    /// again from there. `buckets` is even, and the sum of both buckets is odd modulo `buckets`, so
    /// no bucket is its own alternate.
    #[inline(always)]
    pub(crate) fn alternate(self, bucket: usize, buckets: usize) -> usize {
        debug_assert!(buckets.is_multiple_of(2) && bucket < buckets);
        let sum = scale(self.0, buckets) | 1;
        if sum >= bucket { sum - bucket } else { sum + buckets - bucket }
    }
}

/// Maps 64 uniform bits to 0..n (Lemire's multiply-shift: any n will do).
#[inline(always)]
pub(crate) fn scale(bits: u64, n: usize) -> usize {
    ((u128::from(bits) * n as u128) >> 64) as usize
}

impl Key {
    /// The key for a look at a bucket that looks for nothing.
    pub(crate) const NONE: Key = Key(0);

    /// The number of bits of a slot below its key.
    #[allow(dead_code, reason = "only the looks by vectors ask")]
    pub(crate) const SHIFT: u32 = TAG_SHIFT - 1;

    /// Returns the key without the bits below it: a slot that matches has the same.
    #[allow(dead_code, reason = "only the looks by vectors ask")]
    #[inline(always)]
    pub(crate) fn shifted(self) -> u64 {
        self.0 >> Self::SHIFT
    }

    /// Returns a slot that matches.
    #[allow(dead_code, reason = "only the looks by vectors ask")]
    #[inline(always)]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// Returns true if a slot with this low half matches, given that its high half does.
    #[allow(dead_code, reason = "only the looks by vectors ask")]
    #[inline(always)]
    pub(crate) fn is_of_low_half(self, half: u32) -> bool {
        (half ^ self.0 as u32) >> Self::SHIFT == 0
    }

    /// Returns the words that vectors compare with: a slot matches if it differs from the first in
    /// no bit of the second.
    #[allow(dead_code, reason = "only the looks by vectors ask")]
    pub(crate) fn terms(self) -> (u64, u64) {
        (self.0, KEY)
    }
}

impl Slot {
    /// Returns an entry accepted now, in its home bucket. (Flag and version are given by the
    /// insertion.)
    #[inline(always)]
    pub(crate) fn accepted(tag: Tag, moment: &Moment) -> Self {
        debug_assert!(tag.0 >= FIRST_TAG);
        Slot(tag.0 | moment.stamp_bits())
    }

    /// Returns a slot that is reserved for this entry. It is marked as away, since a flag counts at
    /// any age there; at home it has one, so that no check of the id takes the short way past it.
    pub(crate) fn reserved(self) -> Self {
        let is_home = !self.is_away();
        Slot(self.0 & !TAG | Self::reserved_tag(Tag(self.0 & TAG), is_home) | AWAY | u64::from(is_home) << 6)
    }

    fn reserved_tag(tag: Tag, is_home: bool) -> u64 {
        RESERVED[usize::from(is_home)] | tag.0 >> (u64::BITS - 10) << TAG_SHIFT
    }

    /// Returns this slot, which was reserved for an entry, with that entry.
    pub(crate) fn filled(self, entry: Slot) -> Self {
        debug_assert!(self.is_reserved(Tag(entry.0 & TAG), !entry.is_away()), "reserved for another one");
        const OF_SLOT: u64 = SPILLED | VERSION_FIELD;
        Slot(self.0 & OF_SLOT | entry.0 & !OF_SLOT)
    }

    /// Returns true if the slot is reserved for an id with this tag, at its home or away.
    pub(crate) fn is_reserved(self, tag: Tag, is_home: bool) -> bool {
        self.0 & TAG == Self::reserved_tag(tag, is_home)
    }

    /// Returns this entry as it will be in its alternate bucket.
    pub(crate) fn moved_away(self) -> Self {
        Slot(self.0 & !SPILLED & !VERSION_FIELD | AWAY)
    }

    /// Returns this entry, inserted with this flag and version.
    #[inline(always)]
    pub(crate) fn inserted(self, spilled: bool, version: u64) -> Self {
        debug_assert!(self.0 & VERSION_FIELD == 0 && version & !VERSION_FIELD == 0);
        Slot(self.0 | u64::from(spilled) << 6 | version)
    }

    /// Returns this slot with its entry removed: flag, tick and version stay, since others rely on
    /// them.
    pub(crate) fn tombstone(self) -> Self {
        Slot(self.0 & !TAG | FORGOTTEN)
    }

    /// Returns this slot with everything removed but the version.
    pub(crate) fn swept(self) -> Self {
        Slot(self.0 & VERSION_FIELD)
    }

    /// Returns this slot with another version.
    pub(crate) fn with_version(self, version: u64) -> Self {
        Slot(self.0 & !VERSION_FIELD | version)
    }

    /// Returns this entry, accepted again now.
    pub(crate) fn refreshed(self, moment: &Moment) -> Self {
        Slot(self.0 & !TICK | moment.stamp_bits())
    }

    pub(crate) fn tag(self) -> Option<Tag> {
        (!self.is_vacant()).then_some(Tag(self.0 & TAG))
    }

    pub(crate) fn is_reserved_for_any(self) -> bool {
        self.is_vacant() && self.0 >= RESERVED[0]
    }

    /// Returns true if an entry is there, or was until it was forgotten: it takes a place of the
    /// ring either way.
    pub(crate) fn is_taken(self) -> bool {
        self.0 & TAG != 0
    }

    #[inline(always)]
    pub(crate) fn is_vacant(self) -> bool {
        self.0 < FIRST_TAG
    }

    #[inline(always)]
    pub(crate) fn is_away(self) -> bool {
        self.0 & AWAY != 0
    }

    /// Returns true if there may be entries of this bucket in alternate buckets. The flag is set by
    /// an insertion that displaces one, and inherited by an insertion that displaces the flag while
    /// it still counts.
    #[inline(always)]
    pub(crate) fn spilled(self) -> bool {
        self.0 & SPILLED != 0
    }

    /// Returns the version, given its mask (models use fewer bits).
    #[inline(always)]
    pub(crate) fn version(self, mask: u64) -> u64 {
        self.0 & mask
    }

    #[inline(always)]
    pub(crate) fn matches(self, key: Key) -> bool {
        let key_bits = if obeys(Rule::MatchPlace) { KEY } else { TAG };
        (self.0 ^ key.0) & key_bits == 0
    }

    /// Returns true if the entry must be moved rather than dropped.
    #[inline(always)]
    pub(crate) fn keep(self, moment: &Moment) -> bool {
        let limit = if obeys(Rule::KeepGrace) { moment.limits.keep } else { moment.limits.live };
        !self.is_vacant() & (moment.age(self.0) < limit)
    }

    /// Returns true if `spilled` still counts. It must outlive what it protects. An entry that was
    /// displaced when this slot was written was not younger than the slot, unless the slot holds an
    /// away entry, which carries an older tick.
    #[inline(always)]
    pub(crate) fn carries(self, moment: &Moment) -> bool {
        let limit = if obeys(Rule::FlagGrace) { moment.limits.carry } else { moment.limits.keep };
        self.spilled() & ((self.is_away() & obeys(Rule::AwayFlag)) | (moment.age(self.0) < limit))
    }

    /// The number of bits of a slot below its tag.
    #[allow(dead_code, reason = "only the looks by vectors ask")]
    pub(crate) const TAG_SHIFT: u32 = TAG_SHIFT;

    /// The bits that vectors test: `spilled`, `away`.
    #[allow(dead_code, reason = "only the looks by vectors ask")]
    pub(crate) const FLAGS: (u64, u64) = (SPILLED, AWAY);
}

const VERSION_FIELD: u64 = (1 << VERSION_BITS) - 1;

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::super::tick::{Limits, Tick};
    use super::*;
    use proptest::prelude::*;

    fn moment(now: u64) -> Moment {
        Moment::new(Tick { now, stamp: now }, Limits::of_window(100))
    }

    proptest! {
        #[test]
        fn the_alternate_is_an_involution_without_fixed_points(mark: u64, half in 1..1_usize << 40, at: u64) {
            let buckets = 2 * half;
            let (tag, bucket) = (Tag::of(mark), scale(at, buckets));
            let alternate = tag.alternate(bucket, buckets);
            prop_assert!(alternate < buckets && alternate != bucket);
            prop_assert_eq!(tag.alternate(alternate, buckets), bucket);
        }

        #[test]
        fn fields_do_not_disturb_each_other(mark: u64, now in 0..1_u64 << 40, spilled: bool, version in 0..64_u64) {
            let (tag, at) = (Tag::of(mark), moment(now));
            let home = Slot::accepted(tag, &at).inserted(spilled, version);
            prop_assert_eq!(home.tag(), Some(tag));
            prop_assert!(home.matches(tag.at_home()) && !home.matches(tag.away()));
            prop_assert_eq!((home.spilled(), home.version(63), home.is_away()), (spilled, version, false));
            prop_assert_eq!(at.age_ticks(home.0), 0);

            let away = home.moved_away().inserted(!spilled, version ^ 1);
            prop_assert!(away.matches(tag.away()) && !away.matches(tag.at_home()));
            prop_assert_eq!((away.spilled(), away.version(63), away.is_away()), (!spilled, version ^ 1, true));
            prop_assert_eq!(at.age(away.0), at.age(home.0));

            for (is_home, filled) in [(true, Slot::accepted(tag, &at)), (false, home.moved_away())] {
                let reserved = filled.reserved().inserted(spilled, version);
                prop_assert!(reserved.is_reserved(tag, is_home) && !reserved.is_reserved(tag, !is_home));
                prop_assert!(reserved.is_vacant() && reserved.is_taken() && !reserved.keep(&at));
                prop_assert_eq!(reserved.carries(&moment(now + 900)), spilled || is_home);
                prop_assert_eq!(reserved.filled(filled), filled.inserted(spilled || is_home, version));
            }

            let gone = away.tombstone();
            prop_assert!(gone.is_vacant() && gone.is_taken() && gone.tag().is_none());
            prop_assert_eq!((gone.spilled(), gone.version(63), gone.is_away()), (!spilled, version ^ 1, true));
            prop_assert_eq!(home.swept(), Slot(version));
            prop_assert_eq!(home.with_version(version ^ 5).version(63), version ^ 5);
            prop_assert_eq!(home.with_version(version ^ 5).with_version(version), home);

            let later = moment(now + 7);
            let refreshed = home.refreshed(&later);
            prop_assert_eq!(later.age_ticks(refreshed.0), 0);
            prop_assert_eq!(refreshed.refreshed(&at), home);
        }
    }

    #[test]
    fn what_is_kept_and_what_flags_count() {
        let tag = Tag::of(u64::MAX);
        let home = Slot::accepted(tag, &moment(1_000)).inserted(true, 0);
        let away = home.moved_away().inserted(true, 0);
        let at = |age: u64| moment(1_000 + age);
        assert!(home.keep(&at(0)) && home.keep(&at(101)) && !home.keep(&at(102)));
        assert!(home.carries(&at(103)) && !home.carries(&at(104)));
        assert!(away.carries(&at(900)));
        assert!(!home.tombstone().keep(&at(0)));
        assert!(home.tombstone().carries(&at(103)));
        assert!(!Slot::default().keep(&at(0)) && !Slot::default().carries(&at(0)));
    }

    #[test]
    fn no_tag_is_zero() {
        assert!(!Slot::accepted(Tag::of(0), &moment(0)).is_vacant());
    }
}
