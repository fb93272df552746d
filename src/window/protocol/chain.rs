//! Chains of displacements: an entry that must move displaces another one, which must move first.

use super::bucket_memory::BucketMemory;
use crate::window::bits::slot::Tag;

/// A chain of displacements: the buckets that it has come through, each an entry's home, and where
/// it goes next.
pub(in crate::window) struct Chain {
    buckets: [usize; Self::BUCKETS_MAX],
    len: usize,
}

impl Chain {
    /// The longest chain. At the rated load three in a hundred insertions displace an entry that
    /// must be kept. Six in a row: 1e-9.
    const BUCKETS_MAX: usize = 6;

    pub(in crate::window) fn none() -> Self {
        Chain { buckets: [0; Self::BUCKETS_MAX], len: 0 }
    }

    /// Returns the chain that goes on to the alternate bucket of an entry of `bucket`, unless it is
    /// long enough or has been there.
    pub(in crate::window) fn extend<M: BucketMemory>(&self, memory: &M, bucket: usize, tag: Tag) -> Option<Self> {
        let next = tag.alternate(bucket, memory.buckets());
        let mut buckets = self.buckets;
        let mut len = self.len;
        if len == 0 {
            buckets[0] = bucket;
            len = 1;
        }
        if len == Self::BUCKETS_MAX || buckets[..len].contains(&next) {
            return None;
        }
        buckets[len] = next;
        Some(Chain { buckets, len: len + 1 })
    }

    pub(in crate::window) fn end(&self) -> usize {
        self.buckets[self.len - 1]
    }
}
