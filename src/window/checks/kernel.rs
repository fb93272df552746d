//! The way of looking at buckets that a window uses: decided once, when it is built.

use super::batch::{self, Chunk, Decided};
use crate::Outcome;
use crate::id_set::IdSet;
use crate::window::bits::slot::SLOTS;
use crate::window::bits::tick::{Moment, Tick};
use crate::window::look::sweep::{self, Sampled};
use crate::window::protocol::bucket;
use crate::window::protocol::bucket_memory::{Overtaken, Place};
use crate::window::table_set::table::TableMemory;

/// Declares the ways that there are on a target. A macro that is declared by a macro needs its own
/// `$`, which is handed over.
macro_rules! kernels {
    ($d:tt $($kernel:ident of $module:ident),*) => {
        /// A way of looking at buckets. All give the same answers.
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum Kernel {
            $($kernel(crate::window::look::$module::$kernel),)*
            Portable,
        }

        impl Kernel {
            /// Returns the ways that this processor supports, the fastest first.
            pub(crate) fn all() -> impl Iterator<Item = Self> {
                let all = [
                    $(crate::window::look::$module::$kernel::detect().map(Kernel::$kernel),)*
                    Some(Kernel::Portable),
                ];
                all.into_iter().flatten()
            }
        }

        /// Calls a function in the way of a kernel: with the portable memory, or that which is
        /// compiled for its vectors.
        macro_rules! call {
            ($d kernel:expr, $d function:ident($d($d argument:expr),*), $d portable:expr) => {
                match $d kernel {
                    Kernel::Portable => $d portable,
                    $(
                        // SAFETY: the proof exists only if the processor has what these functions
                        // are compiled for.
                        Kernel::$kernel(proof) => unsafe { vector::$module::$d function(proof, $d($d argument),*) },
                    )*
                }
            };
        }
    };
}

#[cfg(all(target_arch = "x86_64", not(modelled)))]
kernels!($ Avx512 of avx512, Avx2 of avx2);
#[cfg(all(target_arch = "aarch64", target_endian = "little", not(modelled)))]
kernels!($ Neon of neon);
#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_endian = "little", not(modelled))))]
kernels!($);

impl Kernel {
    /// Returns the fastest way that this processor supports.
    pub(crate) fn best() -> Self {
        Self::all().next().unwrap_or(Kernel::Portable)
    }

    #[inline(always)]
    pub(crate) fn check_one(
        self,
        table: TableMemory<'_>,
        id: Place,
        tick: Tick,
        refresh: bool,
    ) -> Result<Outcome, Overtaken> {
        call!(self, check_one(table, id, tick, refresh), batch::check_one(&table, id, tick, refresh))
    }

    /// Calls [`bucket::contains`].
    #[inline(always)]
    pub(crate) fn contains(self, table: TableMemory<'_>, id: Place, moment: &Moment) -> bool {
        call!(self, contains(table, id, moment), bucket::contains(&table, id, moment))
    }

    /// Calls [`sweep::count_younger`].
    pub(crate) fn count_younger<'a>(
        self,
        buckets: impl Iterator<Item = Sampled<'a, SLOTS>>,
        than: [u64; 3],
    ) -> ([u32; 3], u32) {
        call!(self, count_younger(buckets, than), sweep::count_younger(buckets, than))
    }

    /// Calls [`Chunk::seen_in`].
    #[inline(always)]
    pub(crate) fn seen_in(
        self,
        table: TableMemory<'_>,
        chunk: &Chunk,
        todo: IdSet,
        tick: Tick,
        meanwhile: impl FnMut(),
    ) -> IdSet {
        call!(self, seen_in(table, chunk, todo, tick, meanwhile), chunk.seen_in(&table, todo, tick, meanwhile))
    }

    /// Calls [`Chunk::check`].
    #[inline(always)]
    pub(crate) fn check_chunk(
        self,
        table: TableMemory<'_>,
        chunk: &mut Chunk,
        todo: IdSet,
        tick: Tick,
        refresh: bool,
        meanwhile: impl FnMut(),
    ) -> Decided {
        call!(
            self,
            check_chunk(table, chunk, todo, tick, refresh, meanwhile),
            chunk.check(&table, todo, tick, refresh, meanwhile)
        )
    }
}

/// Functions that are compiled as a whole for processors with vectors; so is everything that they
/// inline.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_endian = "little", not(modelled)))]
mod vector {
    use super::*;
    use crate::sync::{AtomicU64, Ordering, fence};
    use crate::window::bits::slot::{Key, Slot};
    use crate::window::bits::tick::SinceSweep;
    use crate::window::look::view::View;
    use crate::window::protocol::bucket_memory::{BucketMemory, Lost};

    /// A proof that a processor has some vectors, and the operations that they provide.
    trait Vectors: Copy {
        fn view(self, bucket: &[AtomicU64; SLOTS], key: Key, moment: &Moment) -> (View, Slot);
        fn has_old(self, bucket: &[AtomicU64; SLOTS], ages: SinceSweep) -> bool;
        fn check_thoroughly(
            self,
            table: &VectorMemory<Self>,
            id: Place,
            tick: Tick,
            refresh: bool,
        ) -> Result<Outcome, Overtaken>;
    }

    macro_rules! vectors {
        ($($module:ident: $proof:ident, $features:literal;)*) => {
            $(pub(super) mod $module {
                use super::*;
                use crate::window::look::$module as vectors;
                use crate::window::look::$module::$proof;

                #[target_feature(enable = $features)]
                pub(in crate::window) fn check_one(
                    proof: $proof,
                    table: TableMemory<'_>,
                    id: Place,
                    tick: Tick,
                    refresh: bool,
                ) -> Result<Outcome, Overtaken> {
                    batch::check_one(&VectorMemory { table, vectors: proof }, id, tick, refresh)
                }

                #[target_feature(enable = $features)]
                pub(in crate::window) fn contains(
                    proof: $proof,
                    table: TableMemory<'_>,
                    id: Place,
                    moment: &Moment,
                ) -> bool {
                    bucket::contains(&VectorMemory { table, vectors: proof }, id, moment)
                }

                #[target_feature(enable = $features)]
                pub(in crate::window) fn check_chunk(
                    proof: $proof,
                    table: TableMemory<'_>,
                    chunk: &mut Chunk,
                    todo: IdSet,
                    tick: Tick,
                    refresh: bool,
                    meanwhile: impl FnMut(),
                ) -> Decided {
                    chunk.check(&VectorMemory { table, vectors: proof }, todo, tick, refresh, meanwhile)
                }

                #[target_feature(enable = $features)]
                pub(in crate::window) fn seen_in(
                    proof: $proof,
                    table: TableMemory<'_>,
                    chunk: &Chunk,
                    todo: IdSet,
                    tick: Tick,
                    meanwhile: impl FnMut(),
                ) -> IdSet {
                    chunk.seen_in(&VectorMemory { table, vectors: proof }, todo, tick, meanwhile)
                }

                #[target_feature(enable = $features)]
                pub(in crate::window) fn count_younger<'a>(
                    _: $proof,
                    buckets: impl Iterator<Item = Sampled<'a, SLOTS>>,
                    than: [u64; 3],
                ) -> ([u32; 3], u32) {
                    vectors::count_younger(buckets, than)
                }

                #[cfg(test)]
                #[target_feature(enable = $features)]
                pub(in crate::window) fn agree(
                    proof: $proof,
                    bucket: &tests::Bucket,
                    key: Key,
                    moment: &Moment,
                    ages: SinceSweep,
                ) {
                    tests::agree(proof, bucket, key, moment, ages);
                }

                #[target_feature(enable = $features)]
                fn check_thoroughly(
                    table: &VectorMemory<$proof>,
                    id: Place,
                    tick: Tick,
                    refresh: bool,
                ) -> Result<Outcome, Overtaken> {
                    bucket::check_here(table, id, tick, refresh)
                }

                impl Vectors for $proof {
                    #[inline(always)]
                    fn view(self, bucket: &[AtomicU64; SLOTS], key: Key, moment: &Moment) -> (View, Slot) {
                        // SAFETY: `self` exists only if the processor has what the function is
                        // compiled for.
                        unsafe { vectors::view(bucket, key, moment) }
                    }

                    #[inline(always)]
                    fn has_old(self, bucket: &[AtomicU64; SLOTS], ages: SinceSweep) -> bool {
                        // SAFETY: `self` exists only if the processor has what the function is
                        // compiled for.
                        unsafe { vectors::has_old(bucket, ages) }
                    }

                    #[inline(always)]
                    fn check_thoroughly(
                        self,
                        table: &VectorMemory<Self>,
                        id: Place,
                        tick: Tick,
                        refresh: bool,
                    ) -> Result<Outcome, Overtaken> {
                        // SAFETY: `self` exists only if the processor has what the function is
                        // compiled for.
                        unsafe { check_thoroughly(table, id, tick, refresh) }
                    }
                }
            })*
        };
    }

    #[cfg(target_arch = "x86_64")]
    vectors! {
        avx2: Avx2, "avx2,bmi1,bmi2,lzcnt";
        avx512: Avx512, "avx512f,avx512dq,bmi1,bmi2,lzcnt";
    }
    #[cfg(target_arch = "aarch64")]
    vectors! { neon: Neon, "neon"; }

    /// A table that is looked at with vectors.
    struct VectorMemory<'a, V> {
        table: TableMemory<'a>,
        vectors: V,
    }

    impl<V: Vectors> BucketMemory for VectorMemory<'_, V> {
        const SLOTS: usize = <TableMemory>::SLOTS;
        const VERSION_MASK: u64 = <TableMemory>::VERSION_MASK;

        #[inline(always)]
        fn view_with_head(&self, bucket: usize, key: Key, moment: &Moment) -> (View, Slot) {
            let view = self.vectors.view(self.table.bucket(bucket), key, moment);
            // As in the portable view.
            fence(Ordering::Acquire);
            view
        }

        #[inline(always)]
        fn buckets(&self) -> usize {
            self.table.buckets()
        }

        #[inline(always)]
        fn load(&self, bucket: usize, slot: usize) -> Slot {
            self.table.load(bucket, slot)
        }

        #[inline(always)]
        fn replace(&self, bucket: usize, slot: usize, old: Slot, new: Slot, lost: Option<Lost>) -> bool {
            self.table.replace(bucket, slot, old, new, lost)
        }

        #[inline(always)]
        fn prefetcher(&self) -> impl Fn(usize) + Copy {
            self.table.prefetcher()
        }

        #[inline(always)]
        fn ready_until(&self, bucket: usize) -> u64 {
            self.table.ready_until(bucket)
        }

        #[inline(always)]
        fn ready(&self, bucket: usize, moment: &Moment) {
            self.table.ready_by(bucket, moment, |bucket, ages| self.vectors.has_old(bucket, ages));
        }

        #[inline(always)]
        fn overtaken(&self, moment: &Moment) -> bool {
            self.table.overtaken(moment)
        }

        fn lost(&self, bucket: usize, entry: Slot, lost: Lost) {
            self.table.lost(bucket, entry, lost);
        }

        fn repaired(&self) {
            self.table.repaired();
        }

        fn load_in_order(&self, bucket: usize, slot: usize) -> Slot {
            self.table.load_in_order(bucket, slot)
        }

        fn is_clearing(&self) -> bool {
            self.table.is_clearing()
        }

        fn displaced(&self, bucket: usize) {
            self.table.displaced(bucket);
        }

        #[inline(always)]
        fn moment(&self, tick: Tick) -> Moment {
            self.table.moment(tick)
        }

        #[inline(always)]
        fn check_thoroughly(&self, id: Place, tick: Tick, refresh: bool) -> Result<Outcome, Overtaken> {
            self.vectors.check_thoroughly(self, id, tick, refresh)
        }
    }

    #[cfg(test)]
    mod tests {
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
            assert_eq!(vectors.view(&bucket.0, key, moment), (view, slots[view.ring.head]));
            assert_eq!(vectors.has_old(&bucket.0, ages), sweep::has_old(&bucket.0, ages));
        }

        proptest! {
            #[test]
            fn vectors_count_what_the_portable_way_counts(
                buckets in proptest::collection::vec((slots(), 0..1_u64 << 62, prop_oneof![0..2_000_u64, any::<u64>()]), 0..9),
                than in [1..1_200_u64, 1..300_u64, 1..100_u64],
            ) {
                let aged = |(slots, now, idle): &([u64; SLOTS], u64, u64)| {
                    (Bucket(slots.map(AtomicU64::new)), SinceSweep::new(now.saturating_sub(*idle), *now))
                };
                let aged: Vec<_> = buckets.iter().map(aged).collect();
                let sampled = || aged.iter().map(|(bucket, ages)| (&bucket.0, *ages));
                for kernel in Kernel::all() {
                    prop_assert_eq!(kernel.count_younger(sampled(), than), sweep::count_younger(sampled(), than));
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
    }
}
