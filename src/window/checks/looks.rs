//! Checks that are compiled as a whole for a way of looking at buckets: no call stands between the
//! digest and the counter.

use crate::Timestamp;
use crate::clock::Reading;
use crate::digest::Digest;
use crate::window::look::Avx2;
use crate::window::protocol::bucket_memory::BucketMemory;
use crate::window::table_set::table::TableMemory;

/// A way of looking at buckets, as [`Checks`] get it.
pub(crate) trait Looks: Copy {
    /// Returns a table that is looked at in this way.
    fn memory(self, table: TableMemory<'_>) -> impl BucketMemory;

    /// Returns the proof that the processor has AVX2, if this way is compiled for it.
    fn avx2(self) -> Option<Avx2>;

    /// Checks an id by code that is compiled for this way, as a function of its own.
    fn check<K, C: Checks<K>>(self, checks: &C, asked: &Asked) -> C::Answer;
}

/// A check of an id that is compiled for each way of looking at buckets, from its beginning to its
/// end. `K` tells several checks of one type apart.
pub(crate) trait Checks<K> {
    type Answer;

    /// Checks an id. (To be inlined always, or it is compiled for any processor.)
    fn check_by(&self, looks: impl Looks, asked: &Asked) -> Self::Answer;
}

/// Work that is compiled as a whole for the vectors that there are. (No closure: that is not
/// inlined always, as this must be.)
pub(crate) trait ByVectors {
    type Answer;

    /// Does the work.
    fn by(self, avx2: Option<Avx2>) -> Self::Answer;
}

/// An id that a check is asked about, and when. (In memory: a check needs the registers.)
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) id: Digest,
    pub(crate) time: Timestamp,
    /// The latest that the time may be in truth: nearly all checks look at no more of it.
    pub(crate) end_nanos: u64,
}

impl Asked {
    #[inline(always)]
    pub(crate) fn new(id: Digest, at: Reading) -> Self {
        Asked { id, time: at.time, end_nanos: at.end_nanos() }
    }

    #[inline(always)]
    pub(crate) fn at(&self) -> Reading {
        Reading { time: self.time, lag_nanos: self.end_nanos - self.time.as_nanos() }
    }
}

/// The way that every processor has.
#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Looks for Portable {
    #[inline(always)]
    fn memory(self, table: TableMemory<'_>) -> impl BucketMemory {
        table
    }

    #[inline(always)]
    fn avx2(self) -> Option<Avx2> {
        None
    }

    #[inline(never)]
    fn check<K, C: Checks<K>>(self, checks: &C, asked: &Asked) -> C::Answer {
        checks.check_by(self, asked)
    }
}
