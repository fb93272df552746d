//! Functions that are compiled as a whole for processors with vectors; so is everything that they
//! inline.

use super::*;
use crate::Outcome;
use crate::sync::{Ordering, fence};
use crate::window::bits::slot::{Key, Slot};
use crate::window::look::Avx2;
use crate::window::look::view::{Glance, Sight, View};
use crate::window::protocol::bucket_memory::{Lost, Overtaken};
use std::marker::PhantomData;

/// A proof that a processor has some vectors, and the operations that they provide.
trait Vectors: Copy {
    fn view(self, bucket: &[AtomicU64; SLOTS], key: Key, moment: &Moment) -> View;
    fn view_with_head(self, bucket: &[AtomicU64; SLOTS], key: Key, moment: &Moment) -> (View, Slot);
    fn glance(self, bucket: &[AtomicU64; SLOTS], key: Key, moment: &Moment) -> Glance;
    fn sight(self, bucket: &[AtomicU64; SLOTS], key: Key, moment: &Moment) -> Sight;
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

            #[inline(never)]
            #[target_feature(enable = $features)]
            pub(in crate::window) fn check<K, C: Checks<K>>(
                proof: $proof,
                checks: &C,
                asked: &Asked,
            ) -> C::Answer {
                checks.check_by(proof, asked)
            }

            #[target_feature(enable = $features)]
            pub(in crate::window) fn compiled<K, C: Checks<K>>(
                _: $proof,
                _: PhantomData<(K, C)>,
            ) -> unsafe fn(&C, &Asked) -> C::Answer {
                #[target_feature(enable = $features)]
                fn check<K, C: Checks<K>>(checks: &C, asked: &Asked) -> C::Answer {
                    checks.check_by($proof::here(), asked)
                }
                check::<K, C>
            }

            #[target_feature(enable = $features)]
            pub(in crate::window) fn work<W: ByVectors>(proof: $proof, work: W) -> W::Answer {
                work.by(proof.avx2())
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
                meanwhile: &mut dyn FnMut(),
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
                next: Option<TableMemory<'_>>,
            ) -> IdSet {
                let with_vectors = |table| VectorMemory { table, vectors: proof };
                chunk.seen_in(&with_vectors(table), todo, tick, next.map(with_vectors).as_ref())
            }

            #[target_feature(enable = $features)]
            pub(in crate::window) fn count_younger<'a>(
                _: $proof,
                buckets: impl Iterator<Item = &'a [AtomicU64; SLOTS]>,
                ages: SinceSweep,
                than: [u64; 3],
            ) -> [u32; 3] {
                vectors::count_younger(buckets, ages, than)
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
            #[allow(unused_unsafe, reason = "of some vectors, this has an attribute of its own")]
            fn view(bucket: &[AtomicU64; SLOTS], key: Key, moment: &Moment) -> View {
                // SAFETY: it is compiled for the same features.
                unsafe { vectors::view(bucket, key, moment).0 }
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

            impl Looks for $proof {
                #[inline(always)]
                fn memory(self, table: TableMemory<'_>) -> impl BucketMemory {
                    VectorMemory { table, vectors: self }
                }

                #[inline(always)]
                fn avx2(self) -> Option<Avx2> {
                    self.avx2()
                }

                #[inline(always)]
                fn check<K, C: Checks<K>>(self, checks: &C, asked: &Asked) -> C::Answer {
                    // SAFETY: `self` exists only if the processor has what the function is
                    // compiled for.
                    unsafe { check(self, checks, asked) }
                }
            }

            impl Vectors for $proof {
                #[inline(always)]
                fn view(self, bucket: &[AtomicU64; SLOTS], key: Key, moment: &Moment) -> View {
                    // SAFETY: `self` exists only if the processor has what the function is
                    // compiled for.
                    unsafe { view(bucket, key, moment) }
                }

                #[inline(always)]
                fn view_with_head(
                    self,
                    bucket: &[AtomicU64; SLOTS],
                    key: Key,
                    moment: &Moment,
                ) -> (View, Slot) {
                    // SAFETY: as above.
                    unsafe { vectors::view(bucket, key, moment) }
                }

                #[inline(always)]
                fn glance(self, bucket: &[AtomicU64; SLOTS], key: Key, moment: &Moment) -> Glance {
                    // SAFETY: `self` exists only if the processor has what the function is
                    // compiled for.
                    unsafe { vectors::glance(bucket, key, moment) }
                }

                #[inline(always)]
                fn sight(self, bucket: &[AtomicU64; SLOTS], key: Key, moment: &Moment) -> Sight {
                    // SAFETY: as above.
                    unsafe { vectors::sight(bucket, key, moment) }
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
    fn view(&self, bucket: usize, key: Key, moment: &Moment) -> View {
        let view = self.vectors.view(self.table.bucket(bucket), key, moment);
        // As in the portable view.
        fence(Ordering::Acquire);
        view
    }

    #[inline(always)]
    fn view_with_head(&self, bucket: usize, key: Key, moment: &Moment) -> (View, Slot) {
        let view = self.vectors.view_with_head(self.table.bucket(bucket), key, moment);
        fence(Ordering::Acquire);
        view
    }

    #[inline(always)]
    fn glance(&self, bucket: usize, key: Key, moment: &Moment) -> Glance {
        let glance = self.vectors.glance(self.table.bucket(bucket), key, moment);
        fence(Ordering::Acquire);
        glance
    }

    #[inline(always)]
    fn sight(&self, bucket: usize, key: Key, moment: &Moment) -> Sight {
        let sight = self.vectors.sight(self.table.bucket(bucket), key, moment);
        fence(Ordering::Acquire);
        sight
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
    fn all_ready_until(&self) -> u64 {
        self.table.all_ready_until()
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

#[cfg(all(test, not(modelled)))]
mod tests;
