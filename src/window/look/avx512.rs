//! A look at a bucket with AVX-512: the whole bucket in one register, comparisons in mask
//! registers. Same results as [`View::of`].
//!
//! Unsafe for the same reason as `avx2`.

#![allow(clippy::cast_possible_truncation, reason = "counts of slots")]

use super::avx2::Avx2;
use super::view::{Glance, Sight, View};
use crate::sync::AtomicU64;
use crate::window::bits::slot::{Key, SLOTS, Slot, VERSION_BITS};
use crate::window::bits::tick::{Moment, SinceSweep};
use std::arch::x86_64::*;

/// A proof that this processor has AVX-512, and does not slow down when it is used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// Returns the proof, if the processor has it.
    pub(crate) fn detect() -> Option<Self> {
        // VBMI2 came with Ice Lake and Zen 4. Processors before these lower their clock for 512-bit
        // operations.
        let has_all = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vbmi2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt");
        has_all.then_some(Avx512(()))
    }

    /// Returns the proof that it has AVX2: AVX-512 comes with that.
    #[inline(always)]
    pub(crate) fn avx2(self) -> Option<Avx2> {
        // SAFETY: so the processor has all that the function is compiled for.
        Some(unsafe { Avx2::here() })
    }

    /// Returns the proof to code that runs only where there is one.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,bmi1,bmi2,lzcnt")]
    pub(crate) fn here() -> Self {
        Avx512(())
    }
}

/// Looks at a bucket; returns the slot at the head of its ring, too.
///
/// The slots are read as if by eight relaxed loads in some order; the caller adds the acquire
/// fence.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,bmi1,bmi2,lzcnt")]
pub(crate) fn view(bucket: &[AtomicU64; SLOTS], key: Key, moment: &Moment) -> (View, Slot) {
    const VERSION_MASK: u64 = (1 << VERSION_BITS) - 1;
    let slots = load(bucket);
    let (want, key_mask) = key.terms();
    let (base, age_mask) = moment.age_terms();

    let age = _mm512_and_si512(_mm512_sub_epi64(splat(base), slots), splat(age_mask));
    let matches = _mm512_testn_epi64_mask(_mm512_xor_si512(slots, splat(want)), splat(key_mask));
    let hit = _mm512_mask_cmplt_epu64_mask(matches, age, splat(moment.limits.live));
    let counts =
        _mm512_test_epi64_mask(slots, splat(Slot::FLAGS.1)) | _mm512_cmplt_epu64_mask(age, splat(moment.limits.carry));
    let spilled = _mm512_mask_test_epi64_mask(counts, slots, splat(Slot::FLAGS.0));

    let low = _mm512_castsi512_si128(slots);
    let lag = _mm512_sub_epi64(_mm512_broadcastq_epi64(low), slots);
    let newest = _mm512_testn_epi64_mask(lag, splat(VERSION_MASK));
    let far = _mm512_test_epi64_mask(lag, splat(VERSION_MASK - 1));

    let view = View::new::<SLOTS>(
        hit != 0,
        spilled != 0,
        u32::from(newest),
        far == 0,
        _mm_cvtsi128_si64(low) as u64 & VERSION_MASK,
        VERSION_MASK,
    );
    (view, Slot(slots_of(slots)[view.ring.head]))
}

/// Looks at a bucket for an id that is inserted if it is not there.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,bmi1,bmi2,lzcnt")]
pub(crate) fn sight(bucket: &[AtomicU64; SLOTS], key: Key, moment: &Moment) -> Sight {
    Sight::of(view(bucket, key, moment))
}

/// Looks at a bucket for an id that hardly ever is there.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,bmi1,bmi2,lzcnt")]
pub(crate) fn glance(bucket: &[AtomicU64; SLOTS], key: Key, moment: &Moment) -> Glance {
    Glance::of(view(bucket, key, moment))
}

/// Returns true if a bucket has something for a sweep to clear; see `sweep::has_old`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,bmi1,bmi2,lzcnt")]
pub(crate) fn has_old(bucket: &[AtomicU64; SLOTS], ages: SinceSweep) -> bool {
    let slots = load(bucket);
    let (earliest, mask, old) = ages.terms();
    let after = _mm512_and_si512(_mm512_sub_epi64(slots, splat(earliest)), splat(mask));
    let used = _mm512_test_epi64_mask(slots, splat(!((1 << VERSION_BITS) - 1)));
    _mm512_mask_cmple_epu64_mask(used, after, splat(old)) != 0
}

/// Counts the slots of a shard's buckets that were taken less than so many ticks ago; see
/// `sweep::count_younger`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,bmi1,bmi2,lzcnt")]
pub(crate) fn count_younger<'a>(
    buckets: impl Iterator<Item = &'a [AtomicU64; SLOTS]>,
    ages: SinceSweep,
    than: [u64; 3],
) -> [u32; 3] {
    // Each of eight lanes counts for itself.
    let mut counts = [_mm512_setzero_si512(); 3];
    for bucket in buckets {
        let entries = load(bucket);
        let (earliest, mask, _) = ages.terms();
        let after = _mm512_and_si512(_mm512_sub_epi64(entries, splat(earliest)), splat(mask));
        let taken = _mm512_test_epi64_mask(entries, splat(!0 << Slot::TAG_SHIFT));
        for (count, ticks) in counts.iter_mut().zip(than) {
            let younger = _mm512_mask_cmpge_epu64_mask(taken, after, splat(ages.least_of_younger(ticks)));
            *count = _mm512_mask_add_epi64(*count, younger, *count, splat(1));
        }
    }
    counts.map(|count| _mm512_reduce_add_epi64(count) as u32)
}

/// Reads the eight slots.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(bucket: &[AtomicU64; SLOTS]) -> __m512i {
    let slots;
    // SAFETY: as in `avx2::load`: the reference makes the 64 bytes readable, buckets are aligned to
    // 64 bytes, and `asm!` may do what the hardware does while other threads write: read every
    // aligned 8-byte lane in one piece.
    unsafe {
        std::arch::asm!(
            "vmovdqa64 {slots}, [{bucket}]",
            bucket = in(reg) bucket,
            slots = out(zmm_reg) slots,
            options(readonly, nostack, preserves_flags),
        );
    }
    slots
}

#[inline]
#[target_feature(enable = "avx512f")]
fn splat(bits: u64) -> __m512i {
    _mm512_set1_epi64(bits as i64)
}

/// Returns the slots as an array.
#[inline]
#[target_feature(enable = "avx512f")]
fn slots_of(slots: __m512i) -> [u64; SLOTS] {
    #[repr(align(64))]
    struct Slots([u64; SLOTS]);
    let mut all = Slots([0; SLOTS]);
    // SAFETY: there are 64 bytes, aligned to 64.
    unsafe { _mm512_store_si512(all.0.as_mut_ptr().cast(), slots) };
    all.0
}
