//! Tier 1: ids that were seen within the window, exactly.
//!
//! From below: [`bits`] are the entries and their time, [`look`] the looks at a bucket (`view` is
//! the result of one), [`protocol`] the protocol of a bucket (`bucket`, written over
//! `bucket_memory`, with
//! `chain` and `patience`); [`table_set`] is the memory that it runs on (`table`), and the protocol
//! of several tables (`tables`); [`growth`] starts and retires them. In [`checks`], `batch` is the
//! bucket's protocol in the common case, made fast, `kernel` compiles it, and each check as a whole
//! (`looks`), for the vectors that the processor has; `chunks` sends many digests through that.

mod bits;
mod checks;
#[cfg(all(test, explore))]
mod explore;
mod fuzzing;
mod growth;
mod look;
#[cfg(all(test, loom))]
mod models;
mod protocol;
mod stats;
mod table_set;
#[cfg(all(test, not(modelled)))]
mod tests;

pub use bits::division::Ticks;
pub(crate) use checks::batch::{Chunk, FEW};
pub(crate) use checks::chunks::Checked;
pub use stats::{TableStats, WindowStats};

/// The figures that a plan computes with.
pub mod planned {
    pub use super::bits::slot::{SLOTS, false_match_rate};
    pub use super::bits::tick::GRACE;
    pub use super::growth::sizes::{SIZES_MAX, Sizes, buckets_for, capacity_of};
    pub use super::growth::survey::LOSSLESS_SHARE;
    use crate::window::growth::Growth;
    use crate::window::table_set::table::Table;

    /// The memory of a window beside its tables.
    pub const BYTES_BESIDE_TABLES: usize = size_of::<Growth>();

    /// Returns the memory of a table of this many buckets.
    pub fn table_bytes(buckets: usize) -> usize {
        Table::<SLOTS>::bytes_of(buckets)
    }
}

pub(crate) use self::bits::slot::{Tag, scale};
use self::bits::tick::Tick;
pub(crate) use self::checks::kernel::{Compiled, Kernel};
pub(crate) use self::checks::looks::{Asked, ByVectors, Checks, Looks};
use self::growth::Growth;
use self::growth::sizes::{buckets_for, buckets_unasked};
pub(crate) use self::look::Avx2;
pub(crate) use self::table_set::alone::Short;
pub(crate) use self::table_set::roster::Roster;
use self::table_set::table::Table;
pub(crate) use self::table_set::table::TableMemory;
use self::table_set::tables::Tables;
use crate::clock::{Reading, Stamp};
use crate::digest::Digest;
use crate::error::{InvalidOption, check};
use crate::memory::LINE_BYTES;
use crate::mutation::{self, Rule, meanwhile, obeys};
use crate::{Error, Outcome, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// The window alone. It answers whether a digest has been seen within the last W.
///
/// ```
/// use hapax::seam::Window;
/// use hapax::seam::Digester;
/// use hapax::{Outcome, Timestamp};
/// use std::time::Duration;
///
/// let digester = Digester::random()?;
/// let window = Window::new(Duration::from_secs(60), 1_000_000)?;
/// let id = digester.digest("order-17");
/// assert_eq!(window.check(id, Timestamp::from_secs(0)), Outcome::Fresh);
/// assert_eq!(window.check(id, Timestamp::from_secs(59)), Outcome::Duplicate);
/// assert_eq!(window.check(id, Timestamp::from_secs(62)), Outcome::Fresh);
/// # Ok::<(), hapax::Error>(())
/// ```
///
/// [`Dedup`](crate::Dedup) is this with a digester, a clock and, if wanted, a
/// [`HistoryTier`](crate::history::HistoryTier) behind it.
///
/// # Guarantees
///
/// - Of any number of threads that check one digest, exactly one is told `Fresh`.
/// - A digest accepted at t is a duplicate whenever t' - t < W, and never once t' - t >= W + 2
///   [ticks](WindowStats::tick). Time does not run backwards: an earlier time than one already
///   given counts as the latest given.
/// - The exception is a digest that had to go before its time, which is counted
///   ([`WindowStats::evicted_live`]): two digests in ten million at the rated capacity, 8 in a
///   million at a quarter more, where it grows; more when it may not grow any more.
/// - Two different digests collide with a probability of 5e-14 per check.
///
/// # Growth
///
/// The window starts with room for `capacity`, and a quarter more. When its table is full it starts
/// a larger one, and looks at the old one until everything in it has expired. When much less has
/// come for three quarters of a window, it starts a smaller one, so that memory goes back to the
/// system within two windows, if there are calls that give it the time.
/// [`with_max_memory_bytes`](Window::with_max_memory_bytes) sets where growth ends. A thread that
/// lives as long as it takes gets the memory ready; in a rush, callers
/// [help](crate::Builder::growth_thread).
///
/// # Cost
///
/// It takes 21.2 bytes of memory for each digest of the capacity, at least 64 KiB. A check reads
/// one cache line and writes one word with a compare-and-swap; one in ten reads a second bucket,
/// and after growing, for one window, each reads a bucket of each older table. No locks, no
/// allocation.
///
/// Idea: set-associative buckets of a cache line each, as in MemC3 (Fan, Andersen, Kaminsky, NSDI
/// 2013), with an alternate bucket as in cuckoo hashing; the ring in each bucket and the protocol
/// are this crate's own. Tables that expire as a whole: generations, as in log-structured stores.
pub struct Window {
    growth: Arc<Growth>,
    ticks: Ticks,
    duration: Duration,
    refresh_on_duplicate: bool,
    kernel: Kernel,
}

/// The default limit of a window's memory.
pub(crate) const MAX_MEMORY_BYTES: usize = 1 << 30;

impl Window {
    /// Returns a window of this length that starts with room for `capacity` live digests, and may
    /// grow to 1 GiB.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] for a window outside 100 ns to 100 years or a capacity of 0;
    /// [`Error::OutOfMemory`] if the memory is not available.
    pub fn new(window: Duration, capacity: usize) -> Result<Self, Error> {
        Self::with_growth(window, Some(capacity), None, true)
    }

    /// Returns such a window that may grow to this many bytes; if that is what the capacity takes,
    /// it never grows.
    ///
    /// # Errors
    ///
    /// As for [`new`](Window::new), and [`Error::InvalidOption`] if the capacity takes more.
    pub fn with_max_memory_bytes(window: Duration, capacity: usize, max_memory_bytes: usize) -> Result<Self, Error> {
        Self::with_growth(window, Some(capacity), Some(max_memory_bytes), true)
    }

    /// Returns a window that starts with room for `capacity` digests (by default a million, or as
    /// many as it may grow to), and may grow up to a number of bytes (by default 1 GiB, or what
    /// `capacity` takes if that is more), with a thread to get memory ready, or by the caller that
    /// finds that it must.
    pub(crate) fn with_growth(
        window: Duration,
        capacity: Option<usize>,
        max_memory_bytes: Option<usize>,
        in_thread: bool,
    ) -> Result<Self, Error> {
        let ticks = Ticks::of_window(window)?;
        let buckets = match capacity {
            Some(capacity) => (capacity > 0).then(|| buckets_for(capacity)).flatten().ok_or_else(|| {
                InvalidOption::new("capacity", capacity, "the number of ids within a window, from 1 to 10^16")
            })?,
            None => buckets_unasked(max_memory_bytes),
        };
        let first_bytes = buckets.saturating_mul(LINE_BYTES);
        if let Some(max) = max_memory_bytes {
            let what = capacity.map_or("the smallest table".into(), |ids| format!("the capacity of {ids}"));
            let expected = format!("at least the {first_bytes} bytes that {what} takes");
            check(max >= first_bytes, "max_memory_bytes", max, expected)?;
        }
        let budget_bytes = max_memory_bytes.unwrap_or(MAX_MEMORY_BYTES.max(first_bytes));
        let growth = Growth::new(Table::new(buckets)?, ticks.window, budget_bytes, in_thread);
        Ok(Window { growth, ticks, duration: window, refresh_on_duplicate: false, kernel: Kernel::best() })
    }

    /// Sets whether a duplicate extends its digest's stay, so that the window slides: off unless it
    /// is set here.
    #[must_use]
    pub fn refresh_on_duplicate(self, refresh_on_duplicate: bool) -> Self {
        Window { refresh_on_duplicate, ..self }
    }

    /// Sets whether duplicates extend their digests' stay from now on. Only before any other thread
    /// knows the window.
    pub(crate) fn set_refresh_on_duplicate(&mut self, refresh_on_duplicate: bool) {
        self.refresh_on_duplicate = refresh_on_duplicate;
    }

    /// Checks whether the digest was seen within the window; if not, it has been from now on.
    #[inline]
    pub fn check(&self, digest: Digest, at: Timestamp) -> Outcome {
        self.check_at(digest, at.into())
    }

    /// Advances the time: it is no earlier than this.
    #[inline(always)]
    pub(crate) fn advance(&self, at: Reading) {
        self.to_read();
        self.tick_at(at);
    }

    /// Returns the stamp of an id that is accepted at this reading, now: all readings within a tick
    /// stamp alike.
    #[inline(always)]
    pub(crate) fn stamp(&self, at: Reading) -> Stamp {
        let mine = self.ticks.at(at);
        let tick = self.to_read().shared.agree(mine);
        // The exact time, if it has that tick: another window over the same journal has other
        // ticks.
        let is_exact = tick.now == mine.now && obeys(Rule::ExactTimes);
        let reading = if is_exact { at } else { self.ticks.reading_of(tick) };
        Stamp { reading, tick: tick.pack() }
    }

    /// Returns the stamp of the latest time that any call has given.
    pub(crate) fn stamp_at_rest(&self) -> Stamp {
        let tick = self.to_read().shared.agreed();
        Stamp { reading: self.ticks.reading_of(tick), tick: tick.pack() }
    }

    /// Returns the stamp that this reading would have had, had it been the latest.
    pub(crate) fn stamp_at(&self, at: Reading) -> Stamp {
        Stamp { reading: at, tick: self.ticks.at(at).pack() }
    }

    /// Converts a reading of another window, which may lag by more than a tick of this one, into
    /// one that this window forgets no earlier.
    pub(crate) fn within_a_tick(&self, at: Reading) -> Reading {
        let beyond = at.lag_nanos.saturating_sub(self.ticks.nanos);
        Reading { time: at.time + Duration::from_nanos(beyond), lag_nanos: at.lag_nanos - beyond }
    }

    /// Asks for the memory that a check of this digest will need, without waiting for it.
    #[inline(always)]
    pub fn prefetch(&self, digest: Digest) {
        self.tables().prefetch(self.tables().roster().newest(), digest);
    }

    /// Returns true if the digest was seen within the window. Changes nothing, not even the time
    /// for others.
    pub fn contains(&self, digest: Digest, at: Timestamp) -> bool {
        let tick = self.ticks.at(at.into());
        self.to_read().contains_by(digest, || tick, |table, id, moment| self.kernel.contains(table, id, moment))
    }

    /// Returns the earliest and the latest time of the call that accepted a digest, or with refresh
    /// extended its stay, if it was seen within the window. Readings of callers may lag by up to
    /// `lag_nanos`. Changes nothing.
    pub(crate) fn first_seen(&self, digest: Digest, at: Timestamp, lag_nanos: u64) -> Option<(Timestamp, Timestamp)> {
        let stamp = self.tables().stamp_of(digest, self.ticks.at(at.into()))?;
        // Stamps are rounded up: see `Ticks::at`.
        let earliest = self.ticks.start_of(stamp.saturating_sub(1)) - Duration::from_nanos(lag_nanos);
        Some((earliest, self.ticks.start_of(stamp)))
    }

    /// Forgets a digest without setting the time.
    pub(crate) fn forget_at_rest(&self, digest: Digest) -> bool {
        self.to_write().forget(digest, self.refresh_on_duplicate, || self.tables().shared.agreed())
    }

    /// Forgets every digest without setting the time.
    pub(crate) fn clear_at_rest(&self) {
        self.to_write().forget_all(self.refresh_on_duplicate, || self.tables().shared.agreed());
    }

    /// Forgets a digest; returns true if it was remembered. A check that begins after this has
    /// returned finds it fresh.
    pub fn forget(&self, digest: Digest, at: Timestamp) -> bool {
        self.to_write().forget(digest, self.refresh_on_duplicate, || self.tick_at(at.into()))
    }

    /// Forgets every digest that was accepted before the call. Digests that are accepted meanwhile
    /// may be forgotten, too.
    ///
    /// Writes to all tables: about a second for 10 million digests. Other calls go on meanwhile.
    pub fn clear(&self, at: Timestamp) {
        self.to_write().forget_all(self.refresh_on_duplicate, || self.tick_at(at.into()));
    }

    /// Sets whether a thread makes memory ready; see
    /// [`Builder::growth_thread`](crate::Builder::growth_thread).
    pub(crate) fn grow_in_thread(&self, in_thread: bool) {
        self.growth.grow_in_thread(in_thread);
    }

    /// Returns the bytes that all tables take, as in [`WindowStats::bytes`].
    pub(crate) fn bytes(&self) -> usize {
        self.growth.bytes()
    }

    /// Returns the length of the window.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// Returns the granularity of time: how much longer than W a digest may be remembered, at most
    /// twice. A tick is at most W / 100.
    pub fn tick(&self) -> Duration {
        self.ticks.tick()
    }

    /// Returns the number of digests that had to go before their time; see
    /// [`WindowStats::evicted_live`].
    pub fn evicted_live(&self) -> u64 {
        self.tables().shared.counters.evicted_live()
    }

    /// Returns the latest time that was given to a call, rounded up to the end of its tick.
    pub(crate) fn latest(&self) -> Timestamp {
        self.ticks.end_of(self.to_read().shared.latest())
    }

    /// Returns the first and the last moment of the latest tick that was given to a call.
    pub(crate) fn latest_span(&self) -> (Timestamp, Timestamp) {
        let latest = self.to_read().shared.latest();
        (self.ticks.start_of(latest), self.ticks.end_of(latest))
    }

    /// Returns the latest tick that was given to a call: while it stays the same, nothing expires.
    pub(crate) fn latest_tick(&self) -> u64 {
        self.to_read().shared.latest()
    }

    /// Returns the first moment of the latest tick that was given to a call, if there was a call.
    pub(crate) fn latest_start(&self) -> Option<Timestamp> {
        let latest = self.to_read().shared.agreed();
        (latest.stamp > 0).then(|| self.ticks.start_of(latest.now))
    }

    /// Returns the time for a call whose own time is earlier than the latest: the latest given,
    /// rounded down to its tick.
    #[inline(always)]
    pub(crate) fn no_earlier(&self, at: Timestamp) -> Timestamp {
        at.max(self.ticks.start_of(self.to_read().shared.latest()))
    }

    /// Returns the time when the window will have forgotten an id that it is told of now, at this
    /// reading.
    pub(crate) fn forgets_at(&self, at: Reading) -> Timestamp {
        self.ticks.expiry_of(self.tables().shared.agree_at_rest(self.ticks.at(at)))
    }

    #[inline(always)]
    pub(crate) fn kernel(&self) -> Kernel {
        self.kernel
    }

    #[inline(always)]
    fn tables(&self) -> &Tables {
        &self.growth.tables
    }

    /// Returns the tables to a caller that is about to ask them, and sets no more than the time.
    #[inline(always)]
    fn to_read(&self) -> &Tables {
        meanwhile(mutation::Place::WindowRead);
        self.tables()
    }

    /// Returns the tables to a caller that is about to tell them something.
    #[inline(always)]
    pub(crate) fn to_write(&self) -> &Tables {
        meanwhile(mutation::Place::Window);
        self.tables()
    }

    /// Returns the time for a caller: no earlier than for any other.
    #[inline(always)]
    fn tick_at(&self, at: Reading) -> Tick {
        let shared = &self.tables().shared;
        // Most calls come within the latest tick, and need not divide.
        if at.end_nanos() <= shared.settled_nanos() { shared.agreed() } else { self.tick_beyond(at) }
    }

    /// Returns the same, for a caller that may be ahead of all others.
    #[inline(never)]
    fn tick_beyond(&self, at: Reading) -> Tick {
        let shared = &self.tables().shared;
        let tick = shared.agree(self.ticks.at(at));
        shared.settle(self.ticks.settled_by(tick));
        tick
    }
}

impl std::fmt::Debug for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Window")
            .field("duration", &self.duration)
            .field("tables", &self.tables().roster().len())
            .field("kernel", &self.kernel)
            .finish_non_exhaustive()
    }
}
