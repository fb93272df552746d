//! A look at a bucket with NEON: the eight slots are compared at once. Same results as
//! [`View::of`].
//!
//! Unsafe for the same reason as `avx2`.

#![allow(clippy::cast_possible_truncation, reason = "pieces of slots are taken")]

use super::view::{Glance, Sight, View};
use crate::sync::AtomicU64;
use crate::window::bits::slot::{Key, SLOTS, Slot, VERSION_BITS};
use crate::window::bits::tick::{Moment, SinceSweep, TICK_BITS, TICK_SHIFT};
use std::arch::aarch64::*;
use std::arch::is_aarch64_feature_detected;
use std::mem::transmute;

/// A proof that this processor has NEON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neon(());

impl Neon {
    /// Returns the proof, if the processor has NEON: all that Rust's standard library runs on do.
    pub(crate) fn detect() -> Option<Self> {
        // Miri has no `asm!`.
        (is_aarch64_feature_detected!("neon") && !cfg!(miri)).then_some(Neon(()))
    }

    /// Returns no proof of other vectors.
    #[inline(always)]
    pub(crate) fn avx2(self) -> Option<super::Avx2> {
        None
    }

    /// Returns the proof to code that runs only where there is one.
    #[inline]
    #[target_feature(enable = "neon")]
    pub(crate) fn here() -> Self {
        Neon(())
    }
}

/// Looks at a bucket; returns the slot at the head of its ring, too.
///
/// The slots are read as if by eight relaxed loads in some order; the caller adds the acquire
/// fence.
#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn view(bucket: &[AtomicU64; SLOTS], key: Key, moment: &Moment) -> (View, Slot) {
    const VERSION_MASK: u64 = (1 << VERSION_BITS) - 1;
    let slots = load(bucket);
    // A register has 16 bits of each of the eight slots, cut out where they are needed.
    let (low, high) = halves(slots);
    let lowest = vuzp1q_u16(pieces(low.0), pieces(low.1));
    let ticks = ticks(low);

    // Nothing below the tick matters: limits have no bits there, and a base those that no slot
    // borrows from.
    let (base, _) = moment.age_terms();
    let age = modulo_ticks(vsubq_u16(splat(base >> TICK_SHIFT), ticks));
    let younger_than = |limit: u64| {
        debug_assert_eq!(limit >> TICK_SHIFT << TICK_SHIFT, limit);
        vcgtq_u16(splat(limit >> TICK_SHIFT), age)
    };

    // The upper half of a slot decides whether it matches, and some of the 16 bits below that.
    let (want, key_mask) = key.terms();
    debug_assert_eq!(key_mask & !0xffff_0000, !0 << 32);
    let upper = vdupq_n_u32((want >> 32) as u32);
    let equal = vuzp1q_u16(pieces(vceqq_u32(high.0, upper)), pieces(vceqq_u32(high.1, upper)));
    let differing = veorq_u16(vuzp2q_u16(pieces(low.0), pieces(low.1)), splat(want >> 16));
    let matches = vbicq_u16(equal, vtstq_u16(differing, splat(key_mask >> 16)));
    let hit = vandq_u16(matches, younger_than(moment.limits.live));

    // Only the bit of `away` counts: `spilled` is shifted there.
    let counts = vorrq_u16(ticks, younger_than(moment.limits.carry));
    let spilled = vandq_u16(vshlq_n_u16::<4>(lowest), counts);
    // It goes on to bit 6, and the top four bits stay hits: a byte of each slot has both.
    let found = word(vshrn_n_u16::<6>(vsriq_n_u16::<4>(hit, spilled)));

    // A byte for each slot, 0 where its version is that of the first.
    let first = vdupq_laneq_u16::<0>(lowest);
    let lag = word(vmovn_u16(vsubq_u16(first, lowest))) & (VERSION_MASK * EACH);
    // In a ring all bytes are 1 from the first on that is not 0.
    let ring = (lag | lag.wrapping_neg()) & EACH;

    let view = View::of_ring::<SLOTS>(
        found & (EACH << 7) != 0,
        found & EACH != 0,
        lag.trailing_zeros() as usize / 8,
        lag == ring,
        vgetq_lane_u64::<0>(slots[0]) & VERSION_MASK,
        VERSION_MASK,
    );
    (view, Slot(slots_of(slots)[view.ring.head]))
}

const _: () = assert!(Slot::FLAGS.0 << 4 == 1 << 10 && Slot::FLAGS.1 >> TICK_SHIFT == 1 << 10);

/// A one in each byte.
const EACH: u64 = u64::MAX / 0xff;

/// Looks at a bucket for an id that is inserted if it is not there.
#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn sight(bucket: &[AtomicU64; SLOTS], key: Key, moment: &Moment) -> Sight {
    Sight::of(view(bucket, key, moment))
}

/// Looks at a bucket for an id that hardly ever is there.
#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn glance(bucket: &[AtomicU64; SLOTS], key: Key, moment: &Moment) -> Glance {
    Glance::of(view(bucket, key, moment))
}

/// Returns true if a bucket has something for a sweep to clear; see `sweep::has_old`.
#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn has_old(bucket: &[AtomicU64; SLOTS], ages: SinceSweep) -> bool {
    let slots = load(bucket);
    let (earliest, _, old) = ages.terms();
    let (low, high) = halves(slots);
    let after = modulo_ticks(vsubq_u16(ticks(low), splat(earliest >> TICK_SHIFT)));
    let used = |low, high| {
        let content = vorrq_u32(vbicq_u32(low, vdupq_n_u32((1 << VERSION_BITS) - 1)), high);
        vtstq_u32(content, content)
    };
    let used = vuzp1q_u16(pieces(used(low.0, high.0)), pieces(used(low.1, high.1)));
    let old = vandq_u16(used, vcleq_u16(after, splat(old >> TICK_SHIFT)));
    word(vmovn_u16(old)) != 0
}

/// Counts the slots of a shard's buckets that were taken less than so many ticks ago; see
/// `sweep::count_younger`.
#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn count_younger<'a>(
    buckets: impl Iterator<Item = &'a [AtomicU64; SLOTS]>,
    ages: SinceSweep,
    than: [u64; 3],
) -> [u32; 3] {
    let mut counts = [0; 3];
    for bucket in buckets {
        let (low, high) = halves(load(bucket));
        let (earliest, _, _) = ages.terms();
        let after = modulo_ticks(vsubq_u16(ticks(low), splat(earliest >> TICK_SHIFT)));
        let taken = |low, high| {
            let tag = vorrq_u32(vbicq_u32(low, vdupq_n_u32((1 << Slot::TAG_SHIFT) - 1)), high);
            vtstq_u32(tag, tag)
        };
        let taken = vuzp1q_u16(pieces(taken(low.0, high.0)), pieces(taken(low.1, high.1)));
        for (count, ticks) in counts.iter_mut().zip(than) {
            let younger = vcgeq_u16(after, splat(ages.least_of_younger(ticks) >> TICK_SHIFT));
            *count += u32::from(vaddvq_u16(vshrq_n_u16::<15>(vandq_u16(younger, taken))));
        }
    }
    counts
}

/// Reads the eight slots.
#[inline]
#[target_feature(enable = "neon")]
fn load(bucket: &[AtomicU64; SLOTS]) -> [uint64x2_t; 4] {
    let (a, b, c, d);
    // Other threads may write during the read, so it must not be a plain load; inside `asm!` it may
    // be what the architecture promises: a 128-bit value that is read into a SIMD register from
    // memory aligned to 64 bits is "treated as a pair of single-copy atomic 64-bit reads" (Arm
    // Architecture Reference Manual, B2.2.1), each of them a read like any other in its memory
    // model. That is what eight relaxed loads promise; and the `dmb ishld` that the caller's
    // acquire fence becomes orders all reads before it, these too, before what follows.
    // SAFETY: the reference makes the 64 bytes readable, and buckets are aligned to 64 bytes
    // (`table::Bucket`); it writes nothing but its four registers.
    unsafe {
        std::arch::asm!(
            "ldp {a:q}, {b:q}, [{bucket}]",
            "ldp {c:q}, {d:q}, [{bucket}, 32]",
            bucket = in(reg) bucket,
            a = out(vreg) a,
            b = out(vreg) b,
            c = out(vreg) c,
            d = out(vreg) d,
            options(readonly, nostack, preserves_flags),
        );
    }
    [a, b, c, d]
}

/// Returns the lower and the upper halves of the slots, in their order.
#[inline]
#[target_feature(enable = "neon")]
fn halves([a, b, c, d]: [uint64x2_t; 4]) -> ((uint32x4_t, uint32x4_t), (uint32x4_t, uint32x4_t)) {
    let (a, b) = (vreinterpretq_u32_u64(a), vreinterpretq_u32_u64(b));
    let (c, d) = (vreinterpretq_u32_u64(c), vreinterpretq_u32_u64(d));
    ((vuzp1q_u32(a, b), vuzp1q_u32(c, d)), (vuzp2q_u32(a, b), vuzp2q_u32(c, d)))
}

/// Returns the ticks of the slots, given their lower halves; the bits above each are others'.
#[inline]
#[target_feature(enable = "neon")]
fn ticks(low: (uint32x4_t, uint32x4_t)) -> uint16x8_t {
    vshrn_high_n_u32::<{ TICK_SHIFT as i32 }>(vshrn_n_u32::<{ TICK_SHIFT as i32 }>(low.0), low.1)
}

#[inline]
#[target_feature(enable = "neon")]
fn modulo_ticks(ticks: uint16x8_t) -> uint16x8_t {
    vandq_u16(ticks, splat((1 << TICK_BITS) - 1))
}

#[inline]
#[target_feature(enable = "neon")]
fn pieces(halves: uint32x4_t) -> uint16x8_t {
    vreinterpretq_u16_u32(halves)
}

#[inline]
#[target_feature(enable = "neon")]
fn splat(bits: u64) -> uint16x8_t {
    vdupq_n_u16(bits as u16)
}

/// Returns eight bytes as a word, the first one lowest.
#[inline]
#[target_feature(enable = "neon")]
fn word(bytes: uint8x8_t) -> u64 {
    vget_lane_u64::<0>(vreinterpret_u64_u8(bytes))
}

/// Returns the slots as an array.
#[inline(always)]
fn slots_of(slots: [uint64x2_t; 4]) -> [u64; SLOTS] {
    // SAFETY: any bits are integers. The lowest lane is the first one: it is little-endian.
    unsafe { transmute(slots) }
}
