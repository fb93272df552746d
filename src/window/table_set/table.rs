//! The memory of a table: buckets and their shards.

use super::shared_state::SharedState;
use crate::memory::{LINE_BYTES, Lines, Zeroed, prefetcher};
use crate::mutation::{Rule, obeys};
use crate::sync::{AtomicU64, Ordering, explored, fence, load_each};
use crate::window::bits::slot::{Key, SLOTS, Slot, VERSION_BITS};
use crate::window::bits::tick::{Moment, SinceSweep, Tick};
use crate::window::look::sweep::{self, SHARD_BUCKETS, Sweeps};
use crate::window::look::view::View;
use crate::window::protocol::bucket;
use crate::window::protocol::bucket_memory::{BucketMemory, Lost, Overtaken, Place};
use crate::{Error, Outcome};
use std::ops::Range;

/// A bucket of slots, alone in its cache line.
#[repr(align(64))]
pub(crate) struct Bucket<const SLOTS: usize>(pub(crate) [AtomicU64; SLOTS]);

impl<const SLOTS: usize> Default for Bucket<SLOTS> {
    fn default() -> Self {
        Bucket(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

// SAFETY: an array of atomics and nothing else: all-zero bytes are a value, there is nothing to
// drop, and it is Sync.
unsafe impl<const SLOTS: usize> Zeroed for Bucket<SLOTS> {}

const _: () = assert!(cfg!(modelled) || size_of::<Bucket<SLOTS>>() == LINE_BYTES);

/// The buckets of a table. Models have fewer slots and version bits.
pub(crate) struct Table<const SLOTS: usize = { self::SLOTS }, const VERSION_BITS: u32 = { self::VERSION_BITS }> {
    buckets: Lines<Bucket<SLOTS>>,
    sweeps: Sweeps,
}

impl<const SLOTS: usize, const VERSION_BITS: u32> Table<SLOTS, VERSION_BITS> {
    /// Returns a table of `buckets` buckets, an even number.
    pub(crate) fn new(buckets: usize) -> Result<Self, Error> {
        Self::with(buckets, Lines::new)
    }

    /// Returns a table whose memory is only promised until all of its parts are
    /// [prepared](Table::prepare).
    pub(crate) fn reserve(buckets: usize) -> Result<Self, Error> {
        Self::with(buckets, Lines::reserve)
    }

    fn with(
        buckets: usize,
        memory: impl FnOnce(usize, &'static str) -> Result<Lines<Bucket<SLOTS>>, Error>,
    ) -> Result<Self, Error> {
        assert!(buckets.is_multiple_of(2) && SLOTS <= self::SLOTS && VERSION_BITS <= self::VERSION_BITS);
        Ok(Table { buckets: memory(buckets, "window")?, sweeps: Sweeps::new(buckets) })
    }

    /// Returns the number of parts in which its memory is prepared.
    pub(crate) fn parts(&self) -> usize {
        self.buckets.parts()
    }

    /// Makes a part of the memory ready for use, for the `life`th time; for the first time: `None`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`].
    pub(crate) fn prepare(&self, part: usize, life: Option<u64>) -> Result<(), Error> {
        let Some(life) = life else {
            return self.buckets.populate(part, "window");
        };
        let version = life & TableMemory::<SLOTS, VERSION_BITS>::VERSION_MASK;
        let content = if obeys(Rule::VersionOfLife) { Slot::default().with_version(version) } else { Slot::default() };
        fill(&self.buckets[self.buckets.part(part)], content);
        Ok(())
    }

    /// Gives back the memory of a table that was retired. A caller that still looks at it sees
    /// vacancies.
    pub(crate) fn release(&self) {
        self.buckets.release();
        if cfg!(modelled) {
            fill(&self.buckets, Slot::default());
        }
    }

    /// Takes up a table that was retired, for the `life`th time; then its parts are to be
    /// [prepared](Table::prepare) for that.
    ///
    /// Its slots start at a version of their own. So a caller that has stalled since it was retired
    /// and means to overwrite a slot that it saw unused cannot: unless it stalls through as many
    /// lives as there are versions.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], before anything is touched.
    pub(crate) fn revive(&self, life: u64) -> Result<(), Error> {
        self.buckets.is_available("window")?;
        // As if the table had never been used: the ticks that sweeps knew are long past.
        self.sweeps.restart(life);
        Ok(())
    }

    /// Returns the table as the protocol sees it.
    #[inline(always)]
    pub(crate) fn memory<'a>(&'a self, shared: &'a SharedState) -> TableMemory<'a, SLOTS, VERSION_BITS> {
        TableMemory { table: self, buckets: &self.buckets, shared }
    }

    #[inline(always)]
    pub(crate) fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// Returns the number of entries that are live at a moment, counted one by one. An entry that
    /// is being moved may be counted twice.
    pub(crate) fn live(&self, moment: &Moment, window_ticks: u64) -> u64 {
        let live_in = |(shard, buckets): (usize, &[Bucket<SLOTS>])| {
            let ages = self.sweeps.ages(shard * SHARD_BUCKETS, moment.tick.now);
            let is_live = |slot: &&AtomicU64| {
                let slot = Slot(slot.load(Ordering::Relaxed));
                !slot.is_vacant() && ages.age_ticks(slot.0) < window_ticks
            };
            buckets.iter().flat_map(|bucket| &bucket.0).filter(is_live).count() as u64
        };
        self.buckets.chunks(SHARD_BUCKETS).enumerate().map(live_in).sum()
    }

    /// Returns some buckets, up to about `buckets`, spread evenly over the table: those of a shard
    /// together, with the ages of its slots.
    pub(crate) fn sample(
        &self,
        buckets: usize,
        now: u64,
    ) -> impl Iterator<Item = (SinceSweep, impl ExactSizeIterator<Item = &[AtomicU64; SLOTS]>)> {
        let step = self.buckets().div_ceil(buckets);
        self.buckets.chunks(SHARD_BUCKETS).enumerate().map(move |(shard, buckets)| {
            let start = shard * SHARD_BUCKETS;
            let sampled = buckets.iter().skip(start.next_multiple_of(step) - start).step_by(step);
            (self.sweeps.ages(start, now), sampled.map(|bucket| &bucket.0))
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        Self::bytes_of(self.buckets())
    }

    /// Returns the memory of a table of this many buckets.
    pub(crate) fn bytes_of(buckets: usize) -> usize {
        let beside = Sweeps::bytes_of(buckets) + size_of::<Self>();
        buckets.saturating_mul(size_of::<Bucket<SLOTS>>()).saturating_add(beside)
    }
}

fn fill<const SLOTS: usize>(buckets: &[Bucket<SLOTS>], content: Slot) {
    // Release: partner of the acquire fence in `view`. A thread that sees a slot filled sees that
    // its table was retired before.
    let slots = buckets.iter().flat_map(|bucket| &bucket.0);
    slots.for_each(|slot| slot.store(content.0, Ordering::Release));
}

/// The buckets of a table, and the state that it shares with others: the memory that the protocol
/// of a bucket runs on.
pub(crate) struct TableMemory<
    'a,
    const SLOTS: usize = { self::SLOTS },
    const VERSION_BITS: u32 = { self::VERSION_BITS },
> {
    table: &'a Table<SLOTS, VERSION_BITS>,
    /// Those of the table: their place and number are in registers, whatever is written meanwhile.
    buckets: &'a [Bucket<SLOTS>],
    shared: &'a SharedState,
}

impl<const SLOTS: usize, const VERSION_BITS: u32> Clone for TableMemory<'_, SLOTS, VERSION_BITS> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<const SLOTS: usize, const VERSION_BITS: u32> Copy for TableMemory<'_, SLOTS, VERSION_BITS> {}

impl<const SLOTS: usize, const VERSION_BITS: u32> TableMemory<'_, SLOTS, VERSION_BITS> {
    #[inline(always)]
    pub(crate) fn bucket(&self, bucket: usize) -> &[AtomicU64; SLOTS] {
        &self.buckets[bucket].0
    }

    #[inline(always)]
    fn look(&self, bucket: usize, key: Key, moment: &Moment) -> (View, Slot) {
        // Relaxed and one fence: partner of the release in `replace`, by which an entry is
        // published, and before it the copy of the entry that it displaced.
        let slots = load_each(self.bucket(bucket)).map(Slot);
        if obeys(Rule::Acquire) {
            fence(Ordering::Acquire);
        }
        let view = View::of(&slots, key, moment, Self::VERSION_MASK);
        (view, slots[view.ring.head])
    }

    /// Sweeps the bucket's shard if it is not ready, given a way to tell whether there is something
    /// to clear in a bucket.
    #[inline(always)]
    pub(crate) fn ready_by(
        &self,
        bucket: usize,
        moment: &Moment,
        has_old: impl Fn(&[AtomicU64; SLOTS], SinceSweep) -> bool,
    ) {
        if !self.is_ready(bucket, moment) {
            let buckets = |range: Range<usize>| {
                let end = range.end.min(self.buckets.len());
                self.buckets[range.start..end].iter().map(|bucket| &bucket.0)
            };
            self.table.sweeps.sweep(bucket, moment.tick.now, buckets, has_old);
        }
    }
}

impl<const SLOTS: usize, const VERSION_BITS: u32> BucketMemory for TableMemory<'_, SLOTS, VERSION_BITS> {
    const SLOTS: usize = SLOTS;
    const VERSION_MASK: u64 = (1 << VERSION_BITS) - 1;

    #[inline(always)]
    fn buckets(&self) -> usize {
        self.buckets.len()
    }

    #[inline(always)]
    fn view(&self, bucket: usize, key: Key, moment: &Moment) -> View {
        let (view, _) = self.look(bucket, key, moment);
        explored::remember(SLOTS, &view.numbers());
        view
    }

    #[inline(always)]
    fn view_with_head(&self, bucket: usize, key: Key, moment: &Moment) -> (View, Slot) {
        let (view, head) = self.look(bucket, key, moment);
        explored::remember(SLOTS, &[&view.numbers()[..], &[head.0]].concat());
        (view, head)
    }

    #[inline(always)]
    fn load(&self, bucket: usize, slot: usize) -> Slot {
        // Acquire: partner of the release in `replace`.
        Slot(self.bucket(bucket)[slot].load(Ordering::Acquire))
    }

    #[inline(always)]
    fn load_in_order(&self, bucket: usize, slot: usize) -> Slot {
        Slot(self.bucket(bucket)[slot].load(Ordering::SeqCst))
    }

    #[inline(always)]
    fn replace(&self, bucket: usize, slot: usize, old: Slot, new: Slot, lost: Option<Lost>) -> bool {
        let slot = &self.bucket(bucket)[slot];
        // Release: partner of the acquire fence in `view`. Sequentially consistent, too: partner of
        // the fence in `Tables::order_looks`, for a caller that looks afterwards which table is the
        // newest; and of that in `forget`, for one that has reserved a slot. A failure says nothing
        // but that it failed.
        let order = if obeys(Rule::NewestInOrder) { Ordering::SeqCst } else { Ordering::Release };
        let done = if obeys(Rule::Compare) {
            slot.compare_exchange(old.0, new.0, order, Ordering::Relaxed).is_ok()
        } else {
            slot.store(new.0, Ordering::Release);
            true
        };
        if let (true, Some(lost)) = (done, lost) {
            self.lost(bucket, old, lost);
        }
        done
    }

    #[inline(always)]
    fn prefetcher(&self) -> impl Fn(usize) + Copy {
        prefetcher(self.buckets)
    }

    #[inline(always)]
    fn ready_until(&self, bucket: usize) -> u64 {
        if obeys(Rule::SweepFirst) { self.table.sweeps.due(bucket) } else { u64::MAX }
    }

    #[inline(always)]
    fn all_ready_until(&self) -> u64 {
        if obeys(Rule::SweepFirst) { self.table.sweeps.all_due() } else { u64::MAX }
    }

    #[inline(always)]
    fn ready(&self, bucket: usize, moment: &Moment) {
        explored::sum_up(|| self.ready_by(bucket, moment, sweep::has_old), |()| 0);
    }

    #[inline(always)]
    fn overtaken(&self, moment: &Moment) -> bool {
        self.shared.overtaken(moment)
    }

    #[cfg_attr(not(explore), expect(unused_variables, reason = "only models tell who it was"))]
    fn lost(&self, bucket: usize, entry: Slot, lost: Lost) {
        self.shared.counters.evicted(lost);
        #[cfg(explore)]
        explored::happened(explored::Effect::Lost(self.bucket(bucket)[0].word(), entry.0));
    }

    fn repaired(&self) {
        self.shared.counters.repaired();
        #[cfg(explore)]
        explored::happened(explored::Effect::Repaired);
    }

    fn is_clearing(&self) -> bool {
        self.shared.is_clearing()
    }

    fn displaced(&self, bucket: usize) {
        self.shared.trigger.note_displaced(bucket);
    }

    #[inline(always)]
    fn moment(&self, tick: Tick) -> Moment {
        self.shared.moment(tick)
    }

    #[inline(never)]
    fn check_thoroughly(&self, id: Place, tick: Tick, refresh: bool) -> Result<Outcome, Overtaken> {
        bucket::check_here(self, id, tick, refresh)
    }
}
