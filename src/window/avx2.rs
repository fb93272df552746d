//! A look at a bucket with AVX2: the eight slots are compared at once. Same results as
//! [`View::of`].
//!
//! The unsafe part of the window. The processor's support is determined once, when a table is
//! built.

use super::slot::{Key, SLOTS, Slot, VERSION_BITS};
use super::tick::{Moment, SinceSweep};
use super::view::View;
use crate::sync::AtomicU64;
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
}

/// Looks at a bucket.
///
/// The slots are read as if by eight relaxed loads in some order; the caller adds the acquire
/// fence.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
pub(crate) fn view(bucket: &[AtomicU64; SLOTS], key: Key, moment: &Moment) -> View {
    const VERSION_MASK: u64 = (1 << VERSION_BITS) - 1;
    let (low, high) = load(bucket);
    let (want, key_mask) = key.terms();
    let (base, age_mask) = moment.age_terms();
    let zero = _mm256_setzero_si256();

    let half = |slots: __m256i| {
        let age = _mm256_and_si256(_mm256_sub_epi64(splat(base), slots), splat(age_mask));
        let younger_than = |limit| _mm256_cmpgt_epi64(splat(limit), age);
        let other = _mm256_and_si256(_mm256_xor_si256(slots, splat(want)), splat(key_mask));
        let hit = _mm256_and_si256(_mm256_cmpeq_epi64(other, zero), younger_than(moment.limits.live));
        // Only the top bit of each lane counts: `spilled` and `away` are shifted there.
        let counts = _mm256_or_si256(_mm256_slli_epi64::<46>(slots), younger_than(moment.limits.carry));
        (hit, _mm256_and_si256(_mm256_slli_epi64::<57>(slots), counts))
    };
    let (hit_low, spilled_low) = half(low);
    let (hit_high, spilled_high) = half(high);

    let first = _mm256_broadcastq_epi64(_mm256_castsi256_si128(low));
    let lag = |slots| _mm256_and_si256(_mm256_sub_epi64(first, slots), splat(VERSION_MASK));
    let (lag_low, lag_high) = (lag(low), lag(high));
    let newest_low = top_bits(_mm256_cmpeq_epi64(lag_low, zero));
    let newest_high = top_bits(_mm256_cmpeq_epi64(lag_high, zero));

    View::new::<SLOTS>(
        any_bit(_mm256_or_si256(hit_low, hit_high)),
        any_top_bit(_mm256_or_si256(spilled_low, spilled_high)),
        newest_low | newest_high << 4,
        !any_bit(_mm256_and_si256(_mm256_or_si256(lag_low, lag_high), splat(VERSION_MASK - 1))),
        _mm_cvtsi128_si64(_mm256_castsi256_si128(low)) as u64 & VERSION_MASK,
        VERSION_MASK,
    )
}

const _: () = assert!(Slot::FLAGS.0 << 57 == 1 << 63 && Slot::FLAGS.1 << 46 == 1 << 63);

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

/// Returns true if any bit is set.
#[inline]
#[target_feature(enable = "avx2")]
fn any_bit(bits: __m256i) -> bool {
    _mm256_testz_si256(bits, bits) == 0
}

/// Returns true if the top bit of any lane is set.
#[inline]
#[target_feature(enable = "avx2")]
fn any_top_bit(lanes: __m256i) -> bool {
    let lanes = _mm256_castsi256_pd(lanes);
    _mm256_testz_pd(lanes, lanes) == 0
}

/// Returns the top bits of the lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn top_bits(lanes: __m256i) -> u32 {
    _mm256_movemask_pd(_mm256_castsi256_pd(lanes)) as u32
}
