//! The configuration of an engine.

mod build;
mod long_memory;
mod on_disk;

use crate::clock::Clock;
use crate::digest::{DigestKey, DigestKind, WantedKey};
#[cfg(any(fuzzing, test))]
use crate::journal::Surroundings;
use crate::{Dedup, EventTime, History, JournalOptions};
use std::path::PathBuf;
use std::time::Duration;

/// Configures a [`Dedup`].
///
/// ```
/// use hapax::{Dedup, History, Unconfirmed};
/// use std::time::Duration;
///
/// let history = History {
///     horizon: Duration::from_secs(24 * 3600),
///     ids: 5_000_000,
///     false_positive_rate: 1e-4,
///     unconfirmed: Unconfirmed::Fresh,
/// };
/// let dedup = Dedup::builder()
///     .window(Duration::from_secs(600))
///     .capacity(100_000)
///     .history(history)
///     .scope("orders")
///     .build()?;
/// # Ok::<(), hapax::Error>(())
/// ```
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder {
    window: Option<Duration>,
    capacity: Option<usize>,
    max_memory_bytes: Option<usize>,
    growth_thread: bool,
    history: Option<History>,
    refresh_on_duplicate: bool,
    lease: Duration,
    clock: Option<Box<dyn Clock>>,
    event_time: Option<EventTime>,
    key: WantedKey,
    scope: Option<String>,
    journal: Option<(PathBuf, JournalOptions)>,
    long_memory: Option<(PathBuf, crate::LongMemory)>,
    segment_source: Option<std::sync::Arc<dyn crate::segments::SegmentSource>>,
    #[cfg(any(fuzzing, test))]
    surroundings: Option<Surroundings>,
}

impl Dedup {
    /// Starts configuring an engine.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

impl Builder {
    fn new() -> Self {
        Builder {
            window: None,
            capacity: None,
            max_memory_bytes: None,
            growth_thread: true,
            history: None,
            refresh_on_duplicate: false,
            lease: Duration::from_secs(30),
            clock: None,
            event_time: None,
            key: WantedKey::default(),
            scope: None,
            journal: None,
            long_memory: None,
            segment_source: None,
            #[cfg(any(fuzzing, test))]
            surroundings: None,
        }
    }

    /// Sets how long an id is remembered exactly, from when it was accepted: 100 ns to 100 years.
    /// Default: 10 minutes, or less where a [`history`](Builder::history) or a
    /// [`long_memory`](Builder::long_memory) remembers for less.
    pub fn window(self, window: Duration) -> Self {
        Builder { window: Some(window), ..self }
    }

    /// Sets how many live ids the window has room for to begin with, at 21.2 bytes each. Default: a
    /// million, or as many as [`max_memory_bytes`](Builder::max_memory_bytes) has room for.
    ///
    /// A fifth more fit, too. Of as many as the capacity, 2 in ten million are forgotten early, of
    /// a quarter more 80; nearly none of those that come at once. With still more ids the window
    /// grows, with fewer again it shrinks, to no less than this.
    pub fn capacity(self, ids: usize) -> Self {
        Builder { capacity: Some(ids), ..self }
    }

    /// Sets how much memory the window may take when it grows; at least what the capacity takes,
    /// and 64 KiB. Default: 1 GiB, or what the capacity takes if that is more.
    ///
    /// The window grows in steps of up to three times, each a table of its own; older tables are
    /// given back when all their ids have expired. Until then, for one window, it takes up to four
    /// times 21.2 bytes a live id. (Steps from a small table can be larger.) In the long run three
    /// fifths of this memory hold ids: 30 million in 1 GiB. With more, the oldest go first, are
    /// counted ([`WindowStats::evicted_live`]), and [`WindowStats::effective_window`] tells how old
    /// the youngest of them was. If the limit is what the capacity takes, the window never grows.
    /// (A [`history`](Builder::history) comes on top, and does not grow.)
    ///
    /// [`WindowStats::evicted_live`]: crate::WindowStats::evicted_live
    /// [`WindowStats::effective_window`]: crate::WindowStats::effective_window
    pub fn max_memory_bytes(self, bytes: usize) -> Self {
        Builder { max_memory_bytes: Some(bytes), ..self }
    }

    /// Sets whether a thread gets memory ready when the window grows, and gives it back, so that no
    /// check waits for that. The thread lives only as long as that takes. Without it, the caller
    /// that finds six sevenths of the capacity taken does it at once, which takes up to a second
    /// for a GiB; then answers are repeatable to the last evicted id, if one thread checks.
    /// Default: a thread. (What the window begins with is ready when it is built: for 32 MiB and
    /// more, up to four threads ask for it, whatever is set here, and end.)
    ///
    /// In a rush, when a third of the window brings a quarter more than the capacity (or nine
    /// tenths of what a later table is rated for) and the thread is not ready yet, callers do not
    /// go on to overfill the table: one check in some thousands makes 2 MiB of the next one ready,
    /// which takes 0.2 to 3 ms, or, if others have begun the last part, waits for them, at most 10
    /// ms. (A table of up to 2 MiB, 100,000 ids, is made ready by the check that needs it.) So as
    /// long as the budget has room, hardly anything is forgotten early: of ids that fill a window
    /// and outgrow its capacity, 2 in 10^7 were, without a thread 5 in 10^9; where every second id
    /// is [forgotten](crate::Dedup::forget) and comes again, 10 in a million. Each is counted.
    ///
    /// Memory is given back when a call notices that it is not needed: a check, a claim, or
    /// [`stats`](crate::Dedup::stats). An engine that is never called keeps what it has.
    pub fn growth_thread(self, growth_thread: bool) -> Self {
        Builder { growth_thread, ..self }
    }

    /// Remembers ids beyond the window, in a Bloom filter, which may be mistaken: the options say
    /// for how long, how many, at which rate, and what is answered then. Default: no history.
    ///
    /// An id that it does not know is new for certain, unless another caller accepts it between the
    /// looks at history and window, and the window loses it by then: a call that takes longer than
    /// the window, or an eviction, which is counted. It is handled once more then, not lost.
    pub fn history(self, history: History) -> Self {
        Builder { history: Some(history), ..self }
    }

    /// Sets whether a duplicate extends its id's stay, so that the window slides. Default: it does
    /// not.
    pub fn refresh_on_duplicate(self, refresh_on_duplicate: bool) -> Self {
        Builder { refresh_on_duplicate, ..self }
    }

    /// Sets how long a [claim](Dedup::claim) belongs to its holder, unless the claim says
    /// otherwise: longer than the work usually takes, and short enough to wait for if its holder is
    /// stuck. Up to 100 years. Default: 30 seconds.
    pub fn lease(self, lease: Duration) -> Self {
        Builder { lease, ..self }
    }

    /// Sets the clock from which the engine reads the time. Default: the machine's monotonic one,
    /// which begins at the time since the Unix epoch. On Linux it is a coarse one where that is
    /// precise enough for the window.
    pub fn clock(self, clock: impl Clock) -> Self {
        Builder { clock: Some(Box::new(clock)), ..self }
    }

    /// Declares that times come with the events ([`check_at`](Dedup::check_at)), and sets which of
    /// them are refused. Default: the first call decides, and if it has a time, those too far ahead
    /// of the wall clock are refused, as in [`EventTime::wall`].
    ///
    /// With this, the engine never goes by its clock: a call without a time counts as of the latest
    /// event. Until there is one, time stands still.
    ///
    /// ```
    /// use hapax::{Dedup, EventTime};
    /// use std::time::Duration;
    ///
    /// let minute = Duration::from_secs(60);
    /// let times = EventTime::wall().max_skew(minute).allowed_lateness(10 * minute);
    /// let dedup = Dedup::builder().window(60 * minute).event_time(times).build()?;
    /// # Ok::<(), hapax::Error>(())
    /// ```
    pub fn event_time(self, event_time: EventTime) -> Self {
        Builder { event_time: Some(event_time), ..self }
    }

    /// Sets the secret key of the digests, by which the engine knows ids. Default: that of the
    /// [journal](Builder::journal); without one, 16 bytes from the operating system.
    ///
    /// # Guarantees
    ///
    /// Nobody without the key can choose ids that collide, whatever their lengths, not even from
    /// the answers to earlier ids, nor if all digests were known: it is a universal hash, closed by
    /// AES-128. Up to 2^40 ids cannot be told from random numbers with an advantage above 2^-32,
    /// beside that of the best attack on AES-128 itself. (`src/digest/keyed.rs` has the argument.)
    /// No two ids of up to 15 bytes collide in all 128 bits, nor do two of 16. Ids of more than 48
    /// GiB are not covered. Anyone who knows the key can construct ids that collide.
    ///
    /// Without a processor's instructions for AES it is computed by tables, with the same result;
    /// then the time it takes may tell another program on the same processor something about the
    /// key.
    ///
    /// # Cost
    ///
    /// A digest takes about 2 ns for ids of up to 16 bytes, 5 ns for 36, 4 to 5 GB/s for those of
    /// 80 bytes and more, one after another; a single one, 12 ns. By tables it takes some thirty
    /// times as much.
    pub fn key(self, key: [u8; 16]) -> Self {
        self.with_bits(u128::from_le_bytes(key))
    }

    /// Sets a key of only 64 bits, for runs that are to be repeatable: tests, simulations,
    /// benchmarks.
    pub fn seed(self, seed: u64) -> Self {
        self.with_bits(seed.into())
    }

    /// Sets the whole key, its kind included.
    #[doc(hidden)]
    pub fn digest_key(self, key: DigestKey) -> Self {
        Builder { key: WantedKey { kind: key.kind, bits: Some(key.bits) }, ..self }
    }

    fn with_bits(self, bits: u128) -> Self {
        Builder { key: WantedKey { bits: Some(bits), ..self.key }, ..self }
    }

    /// Trusts the sources of the ids: digests are XXH3-128 with a random seed, which is up to four
    /// times as fast for ids of more than 80 bytes, and no faster for others.
    ///
    /// ```
    /// // Hashes of blobs that this program has computed itself.
    /// let dedup = hapax::Dedup::builder().trusted_ids().build()?;
    /// assert!(dedup.check([7; 320]).is_fresh());
    /// # Ok::<(), hapax::Error>(())
    /// ```
    ///
    /// Only for ids that this program, or one that you trust, has made, and that nobody else can
    /// influence. Somebody who chooses ids of more than 240 bytes can choose pairs of which one in
    /// fifty is taken for one id, whatever the seed is, and learns the seed from thousands of
    /// answers; then ids of any length can be chosen that make a message of somebody else a
    /// duplicate. Without this option no such attack is known, nor to be expected: see
    /// [`key`](Builder::key).
    ///
    /// A journal of the other kind is refused, since its digests are different.
    pub fn trusted_ids(self) -> Self {
        Builder { key: WantedKey { kind: DigestKind::Trusted, ..self.key }, ..self }
    }

    /// Sets the namespace of the ids (a consumer, a tenant): one id in two scopes is two ids.
    /// Default: none. See [`Dedup::with_scope`] for several scopes in one engine.
    pub fn scope(self, scope: impl Into<String>) -> Self {
        Builder { scope: Some(scope.into()), ..self }
    }

    /// Stores accepted ids in a directory, which is created if there is none, so that they are
    /// remembered after a crash; see [`flush`](crate::JournalHandle::flush). One engine at a time.
    ///
    /// ```
    /// # let directory = std::env::temp_dir().join(format!("hapax-doc-journal-{}", std::process::id()));
    /// use hapax::{Dedup, JournalOptions};
    ///
    /// let open = || Dedup::builder().journal(&directory, JournalOptions::new()).build();
    /// assert!(open()?.check("a").is_fresh());
    /// assert!(open()?.check("a").is_duplicate());
    /// # std::fs::remove_dir_all(directory)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Guarantees
    ///
    /// - An id that was accepted before a [`flush`](crate::JournalHandle::flush) that returned `Ok`
    ///   is remembered by the next engine, for as long as this one would have remembered it.
    ///   Dropping the last handle flushes, too.
    /// - An id that was accepted without a flush is durable within
    ///   [`commit_interval`](JournalOptions::commit_interval) and a sync, or not at all.
    /// - An id that is only claimed leaves no trace.
    /// - The journal belongs to this process: a child of a fork has no journal, and gives up
    ///   nothing of it ([`JournalError::Forked`](crate::JournalError::Forked)).
    /// - Nothing is read or changed that others may have put there. Links are not followed, and
    ///   pipes not waited for; files and directory belong to this process's user, or root, and
    ///   nobody else may write to them, unless [`file_mode`](JournalOptions::file_mode) lets the
    ///   group (in volumes of a container, say) or everybody
    ///   ([`JournalError::Untrusted`](crate::JournalError::Untrusted)). The directories above it
    ///   are not looked at.
    /// - If its lock is deleted or replaced, the next flush says so, since another process may have
    ///   come ([`JournalError::Gone`](crate::JournalError::Gone)).
    ///
    /// Time goes on from what the journal knows: with the default clock by what has passed since,
    /// even if the system's clock was set meanwhile (then [`Recovery`](crate::Recovery) says so);
    /// where time comes with [events](Dedup::check_at), from the latest of them. A
    /// [`clock`](Builder::clock) of your own must have the same origin in the next process.
    ///
    /// # Cost
    ///
    /// The journal takes 16 bytes of disk for an id, for as long as the window or the history
    /// remembers it. At the next [`build`](Builder::build) everything that is still remembered is
    /// read, twice; this costs no more than the files' length justifies, whoever wrote them.
    ///
    /// Idea: group commit, as in DeWitt and others, SIGMOD 1984; logs in segments that are deleted
    /// as a whole, as in Kafka.
    pub fn journal(self, path: impl Into<PathBuf>, options: JournalOptions) -> Self {
        Builder { journal: Some((path.into(), options)), ..self }
    }

    /// Sets the disk and the clocks of the journal, in a simulation.
    #[cfg(any(fuzzing, test))]
    pub(crate) fn surroundings(self, surroundings: Surroundings) -> Self {
        Builder { surroundings: Some(surroundings), ..self }
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the key: it is a secret.
        f.debug_struct("Builder")
            .field("window", &self.window)
            .field("capacity", &self.capacity)
            .field("max_memory_bytes", &self.max_memory_bytes)
            .field("growth_thread", &self.growth_thread)
            .field("history", &self.history)
            .field("refresh_on_duplicate", &self.refresh_on_duplicate)
            .field("lease", &self.lease)
            .field("event_time", &self.event_time)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}
