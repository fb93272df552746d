//! Deduplication by version: the last counts, not only the first.
//!
//! [`shard`] decides, purely, over the [`index`]; [`shards`] has the locks and the time; this file
//! is what users call, [`builder`] what they configure.

mod builder;
mod index;
#[cfg(test)]
mod judge;
#[cfg(all(test, any(loom, shuttle)))]
mod models;
mod shard;
mod shards;
mod stats;
#[cfg(all(test, not(modelled)))]
mod tests;
mod verdict;

pub use self::builder::LatestBuilder;
pub use self::stats::LatestStats;
pub use self::verdict::VersionVerdict;

use self::shards::Shards;
use crate::Timestamp;
use crate::clock::{EngineClock, Reading};
use crate::digest::{Digest, Digester};
use crate::stream_time::{Around, StreamTime};
use crate::sync::{Ordering, StdAtomicU64};
use std::sync::Arc;

/// A memory of the highest version of each id: it passes a version once, and none that is lower
/// than one it has passed.
///
/// For messages that say what something is by now (a row that was changed, a price, a position),
/// each with a number that grows: a sequence number, a revision, a time in nanoseconds. Where
/// [`Dedup`](crate::Dedup) answers whether an id was seen, this answers whether anything newer was.
///
/// ```
/// use hapax::{Latest, VersionVerdict};
/// use std::time::Duration;
///
/// let latest = Latest::builder().retention(Duration::from_secs(3_600)).capacity(100_000).build()?;
/// assert!(latest.check("user-17", 5).is_newer());
/// assert!(latest.check("user-17", 7).is_newer());
/// assert_eq!(latest.check("user-17", 7), VersionVerdict::Duplicate);
/// assert_eq!(latest.check("user-17", 6), VersionVerdict::Stale { known: 7 }); // overtaken on its way
/// assert!(latest.check("user-18", 1).is_newer());
/// # Ok::<(), hapax::Error>(())
/// ```
///
/// It is shared by reference or by clone: a clone is another handle to the same memory. All calls
/// take `&self`, from any thread.
///
/// # Guarantees
///
/// - Of any number of threads that check one version of an id within the retention, exactly one is
///   told that it is newer. When a version has passed, no lower one passes after it. Of 5 and 6 at
///   the same time, 6 is known afterwards, in whatever order they come; 5 passes if it comes first.
/// - An id is known for the retention from when its highest version was accepted: exactly that
///   long in the time of the caller's events; by the clock as much longer as that may lag. Then it
///   is forgotten, and any version passes. So the retention is longer than a message can be late.
///   A duplicate or a stale version does not extend it.
/// - Nothing is forgotten early as long as no more ids are known at a time than the capacity. (It
///   is divided among up to 64 shards, with some room to spare in each: of a million engines that
///   are full to the capacity, fewer than one forgets anything.) Beyond, the id of a full shard
///   whose version was accepted first is forgotten for each new one, and counted
///   ([`forgotten_early`](LatestStats::forgotten_early)).
/// - Ids are told apart by all 128 bits of their digests, under a secret key.
/// - Nothing is shared between processes, and nothing survives a restart: for that, the same in a
///   store is `VersionStore` of the crate `hapax-store`, and `TieredLatest` is this memory before
///   it.
///
/// # What a version that passes means
///
/// That nobody has been told to handle a higher one; not that it was handled. If the caller dies
/// after the answer and before the effect, the redelivered message is a duplicate, and its effect
/// is missing until a higher version comes. Where that may not be, let the effect's own database
/// compare (`UPDATE … SET version = 6 WHERE id = … AND version < 6`; in SQLite also
/// `SqliteTable::advance` in the effect's transaction), and keep this before it, to spare most of
/// the calls: [`known`](Latest::known) first, then the transaction, then [`check`](Latest::check)
/// to remember it.
///
/// Two versions that have passed may be handled at the same time, and the lower one may end last: a
/// handler that overwrites has to compare, too, or handle an id's messages one after another.
///
/// # No debounce
///
/// Waiting whether something newer comes, and then handling only the last of a burst, is something
/// else: it delays each message and needs timers, and whoever holds a message back must not lose
/// it. This answers at once, and passes each version that is higher. To handle only the last,
/// take a batch from the broker, keep the highest version of each id in it, check these, and
/// acknowledge the others of an id when that one is handled.
///
/// # Cost
///
/// A check takes the lock of one of up to 64 shards, for about as long as two cache misses, and
/// allocates nothing. It takes 51 bytes for each id of the capacity, asked for when it is built,
/// and used as ids come. A batch asks for the memory of its next ids ahead.
///
/// Idea: a register that only grows (a max register: Aspnes, Attiya, Censor, PODC 2009), under a
/// lock for each part; entries in the order of their acceptance, as in a cache by recency.
#[derive(Clone)]
pub struct Latest {
    core: Arc<Core>,
    digester: Digester,
}

/// The state that all handles share.
struct Core {
    shards: Arc<Shards>,
    clock: EngineClock,
    stream_time: StreamTime,
    unscoped: Digester,
    refused: StdAtomicU64,
}

/// The number of ids whose memory is asked for at a time.
const CHUNK: usize = 64;

impl Latest {
    /// Starts configuring a memory of versions.
    pub fn builder() -> LatestBuilder {
        LatestBuilder::new()
    }

    /// Returns a handle to the same memory for another scope: the same id there is another id.
    ///
    /// ```
    /// let latest = hapax::Latest::builder().build()?;
    /// let (prices, stock) = (latest.with_scope("prices"), latest.with_scope("stock"));
    /// assert!(prices.check("article-17", 9).is_newer());
    /// assert!(stock.check("article-17", 4).is_newer());
    /// # Ok::<(), hapax::Error>(())
    /// ```
    pub fn with_scope(&self, scope: &str) -> Self {
        Latest { core: Arc::clone(&self.core), digester: self.core.unscoped.scoped(scope) }
    }

    /// Checks a version of an id now: newer than any that is known, a duplicate, or stale. A newer
    /// one is known from now on.
    ///
    /// Now is the time of the clock; or, if time comes with the events
    /// ([`check_at`](Latest::check_at)), the latest of these.
    #[inline]
    pub fn check(&self, id: impl AsRef<[u8]>, version: u64) -> VersionVerdict {
        self.core.shards.advance(self.digester.digest(id), version, self.core.now())
    }

    /// Checks a version of an id at a time that the caller gives: that of the event, say.
    ///
    /// From the first such call on, time is that of the events: the latest given so far, also for
    /// calls without a time. See [`Dedup::check_at`](crate::Dedup::check_at), which has the same
    /// rules.
    ///
    /// ```
    /// use hapax::{Latest, Timestamp, VersionVerdict};
    /// use std::time::Duration;
    ///
    /// let latest = Latest::builder().retention(Duration::from_secs(60)).build()?;
    /// assert!(latest.check_at("a", 6, Timestamp::from_secs(1_000)).is_newer());
    /// assert_eq!(latest.check_at("a", 5, Timestamp::from_secs(1_059)), VersionVerdict::Stale { known: 6 });
    /// assert!(latest.check_at("a", 5, Timestamp::from_secs(1_060)).is_newer()); // forgotten by then
    /// # Ok::<(), hapax::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A time that cannot be right is [`Refused`](VersionVerdict::Refused), and nothing changes:
    /// one ahead of the wall clock by more than the retention (at least by more than a minute),
    /// unless [`event_time`](LatestBuilder::event_time) says otherwise.
    #[inline]
    pub fn check_at(&self, id: impl AsRef<[u8]>, version: u64, at: Timestamp) -> VersionVerdict {
        let id = self.digester.digest(id);
        match self.core.event(at, || Some(id)) {
            Ok(at) => self.core.shards.advance(id, version, at),
            Err(refused) => self.core.refuse(refused, 1),
        }
    }

    /// Checks many versions, in order, with one reading of the clock: memory is asked for ahead.
    /// `verdicts` is cleared, and then holds one verdict for each.
    ///
    /// ```
    /// let latest = hapax::Latest::builder().build()?;
    /// let mut verdicts = Vec::new(); // reuse it: then nothing is allocated
    /// latest.check_batch([("a", 1), ("a", 3), ("a", 2)], &mut verdicts);
    /// let newer: Vec<bool> = verdicts.iter().map(|verdict| verdict.is_newer()).collect();
    /// assert_eq!(newer, [true, true, false]);
    /// # Ok::<(), hapax::Error>(())
    /// ```
    ///
    /// The batch is not one step: other threads may come between its checks.
    pub fn check_batch<I, K>(&self, versions: I, verdicts: &mut Vec<VersionVerdict>)
    where
        I: IntoIterator<Item = (K, u64)>,
        K: AsRef<[u8]>,
    {
        verdicts.clear();
        let at = self.core.now();
        self.advance_all(versions.into_iter(), at, verdicts);
    }

    /// Checks many versions at a time that the caller gives; see [`check_at`](Latest::check_at). An
    /// empty batch tells what time it is, like a watermark. A batch is refused as a whole or not at
    /// all.
    pub fn check_batch_at<I, K>(&self, versions: I, at: Timestamp, verdicts: &mut Vec<VersionVerdict>)
    where
        I: IntoIterator<Item = (K, u64)>,
        K: AsRef<[u8]>,
    {
        verdicts.clear();
        let mut versions = versions.into_iter().peekable();
        let first = versions.peek().map(|(id, _)| self.digester.digest(id));
        match self.core.event(at, || first) {
            Ok(at) => {
                self.core.shards.advance_time(at.time);
                self.advance_all(versions, at, verdicts);
            }
            Err(refusal) => {
                verdicts.extend(versions.map(|_| VersionVerdict::Refused(refusal)));
                let _ = self.core.refuse(refusal, verdicts.len() as u64);
            }
        }
    }

    fn advance_all<K: AsRef<[u8]>>(
        &self,
        mut versions: impl Iterator<Item = (K, u64)>,
        at: Reading,
        verdicts: &mut Vec<VersionVerdict>,
    ) {
        let shards = &*self.core.shards;
        let mut chunk = [(Digest::from(0_u128), 0); CHUNK];
        loop {
            let mut len = 0;
            for (place, (id, version)) in chunk.iter_mut().zip(&mut versions) {
                *place = (self.digester.digest(id), version);
                shards.prefetch(place.0);
                len += 1;
            }
            verdicts.extend(chunk[..len].iter().map(|&(id, version)| shards.advance(id, version, at)));
            if len < CHUNK {
                return;
            }
        }
    }

    /// Returns the highest version of an id that is known. Changes nothing, not even the time.
    ///
    /// ```
    /// let latest = hapax::Latest::builder().build()?;
    /// let _ = latest.check("user-17", 5);
    /// assert_eq!((latest.known("user-17"), latest.known("user-18")), (Some(5), None));
    /// # Ok::<(), hapax::Error>(())
    /// ```
    pub fn known(&self, id: impl AsRef<[u8]>) -> Option<u64> {
        self.core.shards.known(self.digester.digest(id), self.core.now_at_rest())
    }

    /// Forgets an id: its next version passes, whatever that is. Returns the one that was known.
    ///
    /// ```
    /// let latest = hapax::Latest::builder().build()?;
    /// let _ = latest.check("user-17", 5);
    /// assert_eq!(latest.forget("user-17"), Some(5)); // its work has failed, say
    /// assert!(latest.check("user-17", 5).is_newer());
    /// # Ok::<(), hapax::Error>(())
    /// ```
    pub fn forget(&self, id: impl AsRef<[u8]>) -> Option<u64> {
        self.core.shards.forget(self.digester.digest(id), self.core.now_at_rest())
    }

    /// Forgets all ids, of all scopes, that were accepted before the call. What is accepted
    /// meanwhile may be forgotten, too.
    pub fn clear(&self) {
        self.core.shards.clear();
    }

    /// Returns what was counted, and what is known, of all scopes. Takes each shard's lock once; in
    /// time it is as much as there is that has expired and was not removed yet.
    pub fn stats(&self) -> LatestStats {
        let (counts, live, oldest) = self.core.shards.counts(self.core.now_at_rest());
        LatestStats {
            newer: counts.newer,
            duplicates: counts.duplicates,
            stale: counts.stale,
            // Relaxed: a counter.
            refused: self.core.refused.load(Ordering::Relaxed),
            forgotten_early: counts.forgotten_early,
            live,
            room: self.core.shards.room(),
            oldest: std::time::Duration::from_nanos(oldest),
            bytes: size_of::<Core>() + self.core.shards.bytes() + self.core.stream_time.bytes(),
        }
    }
}

impl Core {
    /// Returns the time for a call that does not give one.
    #[inline(always)]
    fn now(&self) -> Reading {
        if !self.stream_time.is_by_clock() && !self.stream_time.note_clock() {
            return self.shards.latest().into();
        }
        let reading = self.clock.now();
        // A clock that was read before the first event and then stood still: nothing is to come
        // after it.
        if self.stream_time.is_by_clock() { reading } else { self.shards.latest().into() }
    }

    /// Returns the time for a call that only reads, or forgets.
    fn now_at_rest(&self) -> Timestamp {
        if self.stream_time.is_by_events() { self.shards.latest() } else { self.clock.now().time }
    }

    /// Returns the time of an event, or why it is refused.
    #[inline]
    fn event(&self, at: Timestamp, id: impl FnOnce() -> Option<Digest>) -> Result<Reading, crate::Refusal> {
        let at = self.stream_time.admit(at).map_or_else(|| self.stream_time.decide(at, id, self), Ok);
        at.map(Reading::from)
    }

    #[cold]
    fn refuse(&self, refusal: crate::Refusal, times: u64) -> VersionVerdict {
        // Relaxed: a counter.
        self.refused.fetch_add(times, Ordering::Relaxed);
        VersionVerdict::Refused(refusal)
    }
}

impl Around for Core {
    fn wall(&self) -> u64 {
        self.clock.wall().as_nanos()
    }

    fn clock(&self) -> u64 {
        self.clock.now().time.as_nanos()
    }

    fn latest(&self) -> Option<u64> {
        Some(self.shards.latest().as_nanos()).filter(|latest| *latest > 0)
    }

    /// Returns 1: time is exact here.
    fn tick(&self) -> u64 {
        1
    }

    /// Does nothing: no file is to know of it.
    fn moved(&self, _: i64) {}
}

impl std::fmt::Debug for Latest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the digester: its seed is a secret.
        f.debug_struct("Latest").field("room", &self.core.shards.room()).finish_non_exhaustive()
    }
}

const _: fn() = || {
    fn shareable<T: Send + Sync>() {}
    shareable::<Latest>();
};
