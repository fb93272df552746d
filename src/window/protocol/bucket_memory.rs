//! The memory that the protocol of a bucket ([`bucket`](super::bucket)) runs on. A trait, so that
//! models and tests stop callers between two accesses, and vectors look at buckets.

use crate::Outcome;
use crate::window::bits::slot::{Key, Slot, Tag};
use crate::window::bits::tick::{Moment, Tick};
use crate::window::look::view::{Glance, Sight, View};

/// The memory that the protocol runs on.
pub(crate) trait BucketMemory: Sized {
    /// The number of slots in a bucket.
    const SLOTS: usize;
    /// The bits of a version.
    const VERSION_MASK: u64;

    /// Returns the number of buckets, which is even.
    fn buckets(&self) -> usize;
    /// Looks at a bucket. Acquire: writes that were made before the slots that it shows are visible
    /// afterwards.
    fn view(&self, bucket: usize, key: Key, moment: &Moment) -> View {
        self.view_with_head(bucket, key, moment).0
    }
    /// Looks at a bucket in the same way; returns the slot that the view shows at the head of the
    /// ring, too. Inlined, so that what is not asked for is not computed; to be called only by what
    /// is compiled for this memory as a whole.
    fn view_with_head(&self, bucket: usize, key: Key, moment: &Moment) -> (View, Slot);
    /// Looks at a bucket in the same way, for an id that hardly ever is there.
    #[inline(always)]
    fn glance(&self, bucket: usize, key: Key, moment: &Moment) -> Glance {
        Glance::of(self.view_with_head(bucket, key, moment))
    }
    /// Looks at a bucket in the same way, without branches.
    #[inline(always)]
    fn sight(&self, bucket: usize, key: Key, moment: &Moment) -> Sight {
        Sight::of(self.view_with_head(bucket, key, moment))
    }
    /// Loads one slot, Acquire.
    fn load(&self, bucket: usize, slot: usize) -> Slot;
    /// Loads one slot, sequentially consistent: partner of the fence of whoever forgets.
    fn load_in_order(&self, bucket: usize, slot: usize) -> Slot;
    /// Replaces a slot by a compare-and-swap, sequentially consistent on success. `lost` is an
    /// entry that goes for good with it, and is then counted.
    fn replace(&self, bucket: usize, slot: usize, old: Slot, new: Slot, lost: Option<Lost>) -> bool;
    /// Asks for a bucket that will be needed soon.
    #[inline(always)]
    fn prefetch(&self, bucket: usize) {
        self.prefetcher()(bucket);
    }
    /// Returns a function that asks for buckets.
    fn prefetcher(&self) -> impl Fn(usize) + Copy;
    /// Returns the tick from which on the bucket's shard must be swept for its ticks to be
    /// unambiguous.
    fn ready_until(&self, bucket: usize) -> u64;
    /// Returns a tick before which no shard must be swept.
    fn all_ready_until(&self) -> u64;

    /// Returns true if the bucket's shard was swept recently enough.
    #[inline(always)]
    fn is_ready(&self, bucket: usize, moment: &Moment) -> bool {
        moment.tick.now < self.all_ready_until() || moment.tick.now < self.ready_until(bucket)
    }

    /// Returns true if the shards of all of these buckets were.
    #[inline(always)]
    fn are_ready(&self, mut buckets: impl Iterator<Item = usize>, moment: &Moment) -> bool {
        moment.tick.now < self.all_ready_until() || buckets.all(|bucket| moment.tick.now < self.ready_until(bucket))
    }

    /// Sweeps the bucket's shard if it is not ready.
    fn ready(&self, bucket: usize, moment: &Moment);
    /// Returns true if others' time is ahead of the moment by more than the protocol allows.
    fn overtaken(&self, moment: &Moment) -> bool;
    /// Counts an entry of a bucket that has gone for good.
    fn lost(&self, bucket: usize, entry: Slot, lost: Lost);
    /// Counts a broken bucket that was repaired.
    fn repaired(&self);
    /// Returns true if a caller is forgetting everything.
    fn is_clearing(&self) -> bool;
    /// Notes that an entry that must be kept stood where another was inserted: a sign that the
    /// table is full.
    fn displaced(&self, bucket: usize);

    /// Returns the moment of a tick, to which ages refer.
    fn moment(&self, tick: Tick) -> Moment;

    /// Calls [`check_here`](super::bucket::check_here), compiled for this memory and not inlined.
    fn check_thoroughly(&self, id: Place, tick: Tick, refresh: bool) -> Result<Outcome, Overtaken>;
}

/// The place of an id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The id's home bucket.
    pub(crate) bucket: usize,
    pub(crate) tag: Tag,
}

/// An entry that was displaced although it may be live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    /// The time for which it was remembered.
    pub(crate) age_ticks: u64,
    /// The time when it was displaced.
    pub(crate) now: u64,
}

impl Lost {
    pub(crate) fn now(entry: Slot, moment: &Moment) -> Self {
        Lost { age_ticks: moment.age_ticks(entry.0), now: moment.tick.now }
    }
}

/// The caller's moment is too far behind the others': it must read the time again and start over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overtaken;
