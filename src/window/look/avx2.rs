//! A look at a bucket with AVX2: the eight slots are compared at once. Same results as
//! [`View::of`].
//!
//! The unsafe part of the window. The processor's support is determined once, when a table is
//! built.

#![allow(clippy::cast_possible_truncation, reason = "all but the tag is in the low half of a slot")]

use super::view::{Glance, Sight, View};
use crate::sync::AtomicU64;
use crate::window::bits::slot::{Key, SLOTS, Slot, VERSION_BITS};
use crate::window::bits::tick::{Moment, SinceSweep, TICK_BITS, TICK_SHIFT};
use std::arch::x86_64::*;

/// A proof that this processor has AVX2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// Returns the proof, if the processor has AVX2.
    pub(crate) fn detect() -> Option<Self> {
        // The others (trailing zeros, shifts) come with AVX2 in every processor so far; they are
        // tested all the same.
        let has_all = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt");
        has_all.then_some(Avx2(()))
    }

    /// Returns the proof.
    #[inline(always)]
    pub(crate) fn avx2(self) -> Option<Self> {
        Some(self)
    }

    /// Returns the proof to code that runs only where there is one.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
    pub(crate) fn here() -> Self {
        Avx2(())
    }
}

/// Looks at a bucket; returns the slot at the head of its ring, too.
///
/// The slots are read as if by eight relaxed loads in some order; the caller adds the acquire
/// fence.
///
/// # Safety
///
/// The processor has AVX2, and the caller is compiled for it. (Not said by an attribute, since a
/// function that has one cannot be inlined always.)
#[inline(always)]
pub(crate) unsafe fn view(bucket: &[AtomicU64; SLOTS], key: Key, moment: &Moment) -> (View, Slot) {
    const VERSION_MASK: i32 = (1 << VERSION_BITS) - 1;
    // SAFETY: as the caller promises.
    unsafe {
        let (low, high) = load(bucket);
        let halves = low_halves(low, high);
        let (hit, spilled) = hit_and_spilled((low, high), halves, key, moment);
        let first = _mm256_castsi256_si128(low);
        let in_order = _mm256_permute4x64_epi64::<0b11_01_10_00>(halves);
        let lag = _mm256_sub_epi32(_mm256_broadcastd_epi32(first), in_order);
        let lag = _mm256_and_si256(lag, _mm256_set1_epi32(VERSION_MASK));
        let newest = _mm256_cmpeq_epi32(lag, _mm256_setzero_si256());

        let view = View::new::<SLOTS>(
            any_top_bit(hit),
            any_top_bit(spilled),
            _mm256_movemask_ps(_mm256_castsi256_ps(newest)) as u32,
            _mm256_testz_si256(lag, _mm256_set1_epi32(VERSION_MASK - 1)) != 0,
            _mm_cvtsi128_si64(first) as u64 & VERSION_MASK as u64,
            VERSION_MASK as u64,
        );
        (view, Slot(slots_of(low, high).0[view.ring.head]))
    }
}

/// Returns lanes, in the order of [`low_halves`], whose top bits say that a slot holds the entry
/// with this key, live, or that its flag counts.
///
/// # Safety
///
/// As of [`view`].
#[inline(always)]
unsafe fn hit_and_spilled(
    (low, high): (__m256i, __m256i),
    halves: __m256i,
    key: Key,
    moment: &Moment,
) -> (__m256i, __m256i) {
    // SAFETY: as the caller promises.
    unsafe {
        // All but the tag is in the low halves of the slots, so one register has it for eight.
        let (base, age_mask) = moment.age_terms();
        let age = _mm256_and_si256(_mm256_sub_epi32(splat32(base), halves), splat32(age_mask));
        let younger_than = |limit| _mm256_cmpgt_epi32(splat32(limit), age);
        let key = splat(key.shifted());
        let matches = |slots| _mm256_cmpeq_epi64(_mm256_srli_epi64::<{ Key::SHIFT as i32 }>(slots), key);
        let hit = _mm256_and_si256(low_halves(matches(low), matches(high)), younger_than(moment.limits.live));
        // Only the top bit of each lane counts: `spilled` and `away` are shifted there.
        let counts = _mm256_or_si256(_mm256_slli_epi32::<14>(halves), younger_than(moment.limits.carry));
        (hit, _mm256_and_si256(_mm256_slli_epi32::<25>(halves), counts))
    }
}

/// Looks at a bucket for an id that is inserted if it is not there. Reads as [`view`] does.
///
/// # Safety
///
/// As of [`view`].
#[inline(always)]
pub(crate) unsafe fn sight(bucket: &[AtomicU64; SLOTS], key: Key, moment: &Moment) -> Sight {
    // SAFETY: as the caller promises.
    unsafe {
        let (low, high) = load(bucket);
        let halves = low_halves(low, high);
        let (hit, spilled) = hit_and_spilled((low, high), halves, key, moment);
        // 0 or 1 in a ring, in the bits of a version.
        let lag = _mm256_sub_epi32(_mm256_broadcastd_epi32(_mm256_castsi256_si128(low)), halves);
        let is_close = _mm256_testz_si256(lag, splat32((1 << VERSION_BITS) - 2)) != 0;
        let head = head_by(lag);
        let clear = !any_top_bit(spilled) & is_close & (head < SLOTS);
        let head = head % SLOTS;
        Sight { hit: any_top_bit(hit), clear, head, old: Slot(slots_of(low, high).0[head]) }
    }
}

/// Looks at a bucket for an id that hardly ever is there: one test of a vector tells whether it may
/// be. Reads as [`view`] does.
///
/// # Safety
///
/// As of [`view`].
#[inline(always)]
pub(crate) unsafe fn glance(bucket: &[AtomicU64; SLOTS], key: Key, moment: &Moment) -> Glance {
    // SAFETY: as the caller promises.
    unsafe {
        let (low, high) = load(bucket);
        let halves = low_halves(low, high);
        // Half of the key: one in 2^29 buckets has another entry with the same.
        let key_halves = splat(key.bits());
        let alike = |slots| _mm256_cmpeq_epi32(slots, key_halves);
        let alike = high_halves(alike(low), alike(high));
        let (base, _) = moment.age_terms();
        // Negative if the age is below the limit, or so far above that the ten bits wrap around.
        let carries = _mm256_sub_epi32(splat32(base.wrapping_sub(moment.limits.carry)), halves);
        // At the bit of `spilled`: its sign, or `away`.
        let counts = _mm256_or_si256(_mm256_srli_epi32::<10>(carries), _mm256_srli_epi32::<11>(halves));
        let spilled = _mm256_and_si256(halves, counts);
        let doubt = _mm256_or_si256(alike, spilled);
        // 0 or 1 in a ring, in the bits of a version.
        let lag = _mm256_sub_epi32(_mm256_broadcastd_epi32(_mm256_castsi256_si128(low)), halves);
        let is_clear = _mm256_testz_si256(doubt, splat32(Slot::FLAGS.0)) != 0
            && _mm256_testz_si256(lag, splat32((1 << VERSION_BITS) - 2)) != 0;
        let head = head_by(lag);
        if is_clear {
            let slot = slots_of(low, high).0.get(head).copied();
            return slot.map_or(Glance::Unclear, |slot| Glance::Absent(head, Slot(slot)));
        }
        let (mut lanes, halves) = (_mm256_movemask_ps(_mm256_castsi256_ps(alike)) as u32, lanes_of(halves));
        while lanes != 0 {
            let half = halves.0[lanes.trailing_zeros() as usize % SLOTS];
            if key.is_of_low_half(half) && moment.is_live(half.into()) {
                return Glance::Hit;
            }
            lanes &= lanes - 1;
        }
        Glance::Unclear
    }
}

/// Returns the head of a ring, given by how much the versions of its slots, in the order of
/// [`low_halves`], lag behind that of the first: by 0 or 1; no slot, if they are no ring.
#[inline]
#[target_feature(enable = "avx2")]
fn head_by(lag: __m256i) -> usize {
    let older = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_slli_epi32::<31>(lag)));
    HEADS[older as u32 as usize % HEADS.len()] as usize
}

/// The head of a ring, by the set of lanes of [`low_halves`] whose version is one behind that of
/// the first slot; no slot, if they are not the last ones in the order of slots.
// (A constant, which is copied to where it is used: nothing must be loaded to find it.)
const HEADS: &[u8; 1 << SLOTS] = &{
    let lane_of_slot = [0, 1, 4, 5, 2, 3, 6, 7];
    let mut heads = [u8::MAX; 1 << SLOTS];
    let (mut older, mut written) = ((1 << SLOTS) - 1, 0);
    while written < SLOTS {
        older &= !(1 << lane_of_slot[written]);
        written += 1;
        heads[older] = (written % SLOTS) as u8;
    }
    heads
};

const _: () = assert!(Slot::FLAGS.0 << 25 == 1 << 31 && Slot::FLAGS.1 << 14 == 1 << 31);
const _: () = assert!(Slot::FLAGS.1 >> 11 == Slot::FLAGS.0 && 1 << (TICK_SHIFT + TICK_BITS - 1) >> 10 == Slot::FLAGS.0);

/// Returns true if a bucket has something for a sweep to clear; see `sweep::has_old`.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
pub(crate) fn has_old(bucket: &[AtomicU64; SLOTS], ages: SinceSweep) -> bool {
    let (low, high) = load(bucket);
    let (earliest, mask, old) = ages.terms();
    let unused_or_young = |slots| {
        let after = _mm256_and_si256(_mm256_sub_epi64(slots, splat(earliest)), splat(mask));
        let unused = _mm256_cmpeq_epi64(_mm256_srli_epi64::<{ VERSION_BITS as i32 }>(slots), _mm256_setzero_si256());
        _mm256_or_si256(unused, _mm256_cmpgt_epi64(after, splat(old)))
    };
    let all = _mm256_and_si256(unused_or_young(low), unused_or_young(high));
    top_bits(all) != 0b1111
}

/// Counts the slots of a shard's buckets that were taken less than so many ticks ago; see
/// `sweep::count_younger`.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
pub(crate) fn count_younger<'a>(
    buckets: impl Iterator<Item = &'a [AtomicU64; SLOTS]>,
    ages: SinceSweep,
    than: [u64; 3],
) -> [u32; 3] {
    let zero = _mm256_setzero_si256();
    let free = |slots| _mm256_cmpeq_epi64(_mm256_srli_epi64::<{ Slot::TAG_SHIFT as i32 }>(slots), zero);
    // Each of eight lanes counts for itself.
    let mut counts = [zero; 3];
    for bucket in buckets {
        let (low, high) = load(bucket);
        let (earliest, mask, _) = ages.terms();
        let after = _mm256_sub_epi32(low_halves(low, high), splat32(earliest));
        // Of a free slot it is -1, less than any.
        let after = _mm256_or_si256(_mm256_and_si256(after, splat32(mask)), low_halves(free(low), free(high)));
        for (count, ticks) in counts.iter_mut().zip(than) {
            let older = splat32(ages.least_of_younger(ticks).wrapping_sub(1));
            *count = _mm256_sub_epi32(*count, _mm256_cmpgt_epi32(after, older));
        }
    }
    let sum = |counts| {
        let halves = _mm_add_epi32(_mm256_castsi256_si128(counts), _mm256_extracti128_si256::<1>(counts));
        let pairs = _mm_add_epi32(halves, _mm_shuffle_epi32::<0b01_00_11_10>(halves));
        _mm_cvtsi128_si32(_mm_add_epi32(pairs, _mm_shuffle_epi32::<0b10_11_00_01>(pairs))) as u32
    };
    counts.map(sum)
}

/// Reads the eight slots.
#[inline]
#[target_feature(enable = "avx2")]
fn load(bucket: &[AtomicU64; SLOTS]) -> (__m256i, __m256i) {
    let (low, high);
    // SAFETY: the reference makes the 64 bytes readable, and buckets are aligned to 64 bytes
    // (`table::Bucket`), as `vmovdqa` demands of its 32. Other threads may write during the read,
    // so it must not be a plain load; inside `asm!` it may be what the hardware does: every aligned
    // 8-byte lane of a vector load is read in one piece on all processors with AVX2 (it stays
    // within a cache line), which is what eight relaxed loads promise.
    unsafe {
        std::arch::asm!(
            "vmovdqa {low}, [{bucket}]",
            "vmovdqa {high}, [{bucket} + 32]",
            bucket = in(reg) bucket,
            low = out(ymm_reg) low,
            high = out(ymm_reg) high,
            options(readonly, nostack, preserves_flags),
        );
    }
    (low, high)
}

#[inline]
#[target_feature(enable = "avx2")]
fn splat(bits: u64) -> __m256i {
    _mm256_set1_epi64x(bits as i64)
}

#[inline]
#[target_feature(enable = "avx2")]
fn splat32(bits: u64) -> __m256i {
    _mm256_set1_epi32(bits as i32)
}

/// Returns the low halves of eight lanes: of 0, 1, 4, 5, 2, 3, 6 and 7.
#[inline]
#[target_feature(enable = "avx2")]
fn low_halves(low: __m256i, high: __m256i) -> __m256i {
    let both = _mm256_shuffle_ps::<0b10_00_10_00>(_mm256_castsi256_ps(low), _mm256_castsi256_ps(high));
    _mm256_castps_si256(both)
}

/// Returns the high halves of eight lanes, in the same order.
#[inline]
#[target_feature(enable = "avx2")]
fn high_halves(low: __m256i, high: __m256i) -> __m256i {
    let both = _mm256_shuffle_ps::<0b11_01_11_01>(_mm256_castsi256_ps(low), _mm256_castsi256_ps(high));
    _mm256_castps_si256(both)
}

/// Eight slots. (Aligned as the stack is anyway: who wants more of it must make room.)
#[repr(align(16))]
struct Slots([u64; SLOTS]);

/// Returns the slots as an array.
#[inline]
#[target_feature(enable = "avx2")]
fn slots_of(low: __m256i, high: __m256i) -> Slots {
    let mut slots = Slots([0; SLOTS]);
    let to = slots.0.as_mut_ptr().cast::<__m256i>();
    // SAFETY: there are 64 bytes.
    unsafe {
        _mm256_storeu_si256(to, low);
        _mm256_storeu_si256(to.add(1), high);
    }
    slots
}

/// Eight lanes. (Aligned as the stack is anyway.)
#[repr(align(16))]
struct Lanes([u32; SLOTS]);

/// Returns the lanes as an array.
#[inline]
#[target_feature(enable = "avx2")]
fn lanes_of(vector: __m256i) -> Lanes {
    let mut lanes = Lanes([0; SLOTS]);
    // SAFETY: there are 32 bytes.
    unsafe { _mm256_storeu_si256(lanes.0.as_mut_ptr().cast(), vector) };
    lanes
}

/// Returns true if the top bit of any lane is set.
#[inline]
#[target_feature(enable = "avx2")]
fn any_top_bit(lanes: __m256i) -> bool {
    let lanes = _mm256_castsi256_ps(lanes);
    _mm256_testz_ps(lanes, lanes) == 0
}

/// Returns the top bits of the lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn top_bits(lanes: __m256i) -> u32 {
    _mm256_movemask_pd(_mm256_castsi256_pd(lanes)) as u32
}
