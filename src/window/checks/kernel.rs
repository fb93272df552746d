//! The way of looking at buckets that a window uses: decided once, when it is built.

use super::batch::{Chunk, Decided};
use super::looks::{Asked, ByVectors, Checks, Looks, Portable};
use crate::id_set::IdSet;
use crate::sync::AtomicU64;
use crate::window::bits::slot::SLOTS;
use crate::window::bits::tick::{Moment, SinceSweep, Tick};
use crate::window::look::sweep;
use crate::window::protocol::bucket;
use crate::window::protocol::bucket_memory::{BucketMemory, Place};
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

    /// Checks an id, by code that is compiled as a whole for this way of looking.
    #[inline(always)]
    pub(crate) fn check<K, C: Checks<K>>(self, checks: &C, asked: Asked) -> C::Answer {
        call!(self, check(checks, &asked), Portable.check(checks, &asked))
    }

    /// Returns the same check, for whoever need not choose again.
    pub(crate) fn compiled<K, C: Checks<K>>(self) -> Compiled<C, C::Answer> {
        fn check<K, C: Checks<K>>(checks: &C, asked: &Asked) -> C::Answer {
            checks.check_by(Portable, asked)
        }
        Compiled(call!(self, compiled(std::marker::PhantomData::<(K, C)>), check::<K, C>))
    }

    /// Does work that is compiled as a whole for the vectors of this way.
    #[inline(always)]
    pub(crate) fn work<W: ByVectors>(self, work: W) -> W::Answer {
        call!(self, work(work), work.by(None))
    }

    /// Calls [`bucket::contains`].
    #[inline(always)]
    pub(crate) fn contains(self, table: TableMemory<'_>, id: Place, moment: &Moment) -> bool {
        call!(self, contains(table, id, moment), bucket::contains(&table, id, moment))
    }

    /// Calls [`sweep::count_younger`].
    pub(crate) fn count_younger<'a>(
        self,
        buckets: impl Iterator<Item = &'a [AtomicU64; SLOTS]>,
        ages: SinceSweep,
        than: [u64; 3],
    ) -> [u32; 3] {
        call!(self, count_younger(buckets, ages, than), sweep::count_younger(buckets, ages, than))
    }

    /// Calls [`Chunk::seen_in`].
    pub(crate) fn seen_in(
        self,
        table: TableMemory<'_>,
        chunk: &Chunk,
        todo: IdSet,
        tick: Tick,
        next: Option<TableMemory<'_>>,
    ) -> IdSet {
        call!(self, seen_in(table, chunk, todo, tick, next), chunk.seen_in(&table, todo, tick, next.as_ref()))
    }

    /// Calls [`Chunk::check`].
    pub(crate) fn check_chunk(
        self,
        table: TableMemory<'_>,
        chunk: &mut Chunk,
        todo: IdSet,
        tick: Tick,
        refresh: bool,
        meanwhile: &mut dyn FnMut(),
    ) -> Decided {
        call!(
            self,
            check_chunk(table, chunk, todo, tick, refresh, meanwhile),
            chunk.check(&table, todo, tick, refresh, meanwhile)
        )
    }
}

/// A check that is compiled as a whole for the way of looking that its engine has chosen. Its
/// function may run where the processor has that way: `Kernel::compiled`, which has the proof, is
/// all that makes one.
pub(crate) struct Compiled<C, A>(unsafe fn(&C, &Asked) -> A);

impl<C, A> Compiled<C, A> {
    #[inline(always)]
    pub(crate) fn check(&self, checks: &C, asked: &Asked) -> A {
        // SAFETY: `Kernel::compiled` has made it, so the processor has what it is compiled for.
        unsafe { (self.0)(checks, asked) }
    }
}

#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_endian = "little", not(modelled)))]
mod vector;
