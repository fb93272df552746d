//! All ways of looking at buckets see the same.

use super::super::vector;
use super::*;
use crate::window::bits::slot::Tag;
use crate::window::bits::tick::{Limits, stamp_bits};
use crate::window::look::sweep;
use proptest::prelude::*;
use proptest::sample::select;

#[repr(align(64))]
pub(in crate::window) struct Bucket([AtomicU64; SLOTS]);

/// Returns tags that differ in bits that are compared apart from each other.
fn tags() -> impl Strategy<Value = u64> {
    select(&[0, 1, 2, 1 | 1 << 13, 1 | 1 << 14, 1 | 1 << 45]).prop_map(|tag: u64| tag << 18)
}

/// Returns slots with few tags and versions around one value, so that hits, rings and flags
/// occur.
fn slots() -> impl Strategy<Value = [u64; SLOTS]> {
    let others = prop_oneof![4 => any::<u64>(), 1 => Just(0)];
    let slot = (tags(), others, 0..4_u64).prop_map(|(tag, others, version)| tag | others & 0x3ffc0 | version);
    prop_oneof![proptest::array::uniform8(slot), proptest::array::uniform8(any::<u64>())]
}

/// Returns a moment; of some nothing is live, of some everything is.
fn moment(now: u64, kind: u8) -> Moment {
    let moment = Moment::new(Tick { now, stamp: now }, Limits::of_window(100 + now % 151));
    match kind {
        0 => moment.seen_from(now % 400),
        1 => moment.not_older_than(stamp_bits(now + 17)),
        2 => moment.not_older_than(stamp_bits(now - now % 400)),
        _ => moment,
    }
}

pub(super) fn agree(vectors: impl Vectors, bucket: &Bucket, key: Key, moment: &Moment, ages: SinceSweep) {
    let slots = bucket.0.each_ref().map(|slot| Slot(slot.load(Ordering::Relaxed)));
    let view = View::of(&slots, key, moment, 63);
    assert_eq!(vectors.view(&bucket.0, key, moment), view);
    assert_eq!(vectors.view_with_head(&bucket.0, key, moment), (view, slots[view.ring.head]));
    let (sight, exact) = (vectors.sight(&bucket.0, key, moment), Sight::of((view, slots[view.ring.head])));
    assert_eq!((sight.hit, sight.clear), (exact.hit, exact.clear));
    assert!(!sight.clear || sight == exact);
    // An entry that is half alike, or one whose flag has not counted for long.
    let is_alike = |slot: &Slot| (slot.0 ^ key.terms().0) >> 32 == 0 || slot.spilled();
    match (vectors.glance(&bucket.0, key, moment), Glance::of((view, slots[view.ring.head]))) {
        (Glance::Unclear, Glance::Absent(..)) => assert!(slots.iter().any(is_alike)),
        (glance, exact) => assert_eq!(glance, exact),
    }
    assert_eq!(vectors.has_old(&bucket.0, ages), sweep::has_old(&bucket.0, ages));
}

proptest! {
    #[test]
    fn vectors_count_what_the_portable_way_counts(
        buckets in proptest::collection::vec(slots(), 0..9), now in 0..1_u64 << 62,
        idle in prop_oneof![0..2_000_u64, any::<u64>()], than in [1..1_200_u64, 1..300_u64, 1..100_u64],
    ) {
        let ages = SinceSweep::new(now.saturating_sub(idle), now);
        let buckets: Vec<_> = buckets.into_iter().map(|slots| Bucket(slots.map(AtomicU64::new))).collect();
        let buckets = || buckets.iter().map(|bucket| &bucket.0);
        for kernel in Kernel::all() {
            prop_assert_eq!(kernel.count_younger(buckets(), ages, than), sweep::count_younger(buckets(), ages, than));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]
    #[test]
    fn vectors_see_what_the_portable_way_sees(
        slots in slots(), ring in 0..12_usize, now in 0..1_u64 << 62, kind in 0..6_u8, tag in tags(),
        away: bool, idle in prop_oneof![0..2_000_u64, any::<u64>()]
    ) {
        let mut slots = slots;
        if ring < 9 {
            // Mostly valid rings.
            for (i, slot) in slots.iter_mut().enumerate() {
                *slot = *slot & !63 | (now & 63).wrapping_sub(u64::from(i >= ring)) & 63;
            }
        }
        let (moment, tag) = (moment(now, kind), Tag::of(tag));
        let key = if away { tag.away() } else { tag.at_home() };
        let bucket = Bucket(slots.map(AtomicU64::new));
        let ages = SinceSweep::new(now.saturating_sub(idle), now);
        for kernel in Kernel::all() {
            call!(kernel, agree(&bucket, key, &moment, ages), ());
        }
    }
}
