//! How an engine is configured.

mod build;
mod on_disk;

#[cfg(doc)]
use crate::Dedup;
use crate::clock::Clock;
use crate::digest::{DigestKey, DigestKind, WantedKey};
#[cfg(any(fuzzing, test))]
use crate::journal::Surroundings;
use crate::{EventTime, JournalOptions};
use std::path::PathBuf;
use std::time::Duration;

/// What to answer when the history says "maybe", and nothing can confirm it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unconfirmed {
    /// Duplicate: a new id is dropped with the history's false-positive rate.
    #[default]
    Duplicate,
    /// Fresh: a duplicate from beyond the window is handled again, and can be told from a certainly new id by its verdict.
    Fresh,
}

/// Configures a [`Dedup`].
///
/// ```
/// use hapax::{Dedup, Unconfirmed};
/// use std::time::Duration;
///
/// let dedup = Dedup::builder()
///     .window(Duration::from_secs(600))
///     .capacity(100_000)
///     .history(Duration::from_secs(24 * 3600), 1e-4, 5_000_000)
///     .unconfirmed(Unconfirmed::Fresh)
///     .scope("orders")
///     .build()?;
/// # Ok::<(), hapax::Error>(())
/// ```
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder {
    window: Duration,
    capacity: usize,
    max_memory_bytes: Option<usize>,
    growth_thread: bool,
    history: Option<(Duration, f64, usize)>,
    unconfirmed: Option<Unconfirmed>,
    refresh_on_duplicate: bool,
    lease: Duration,
    clock: Option<Box<dyn Clock>>,
    event_time: Option<EventTime>,
    key: WantedKey,
    scope: Option<String>,
    journal: Option<(PathBuf, JournalOptions)>,
    #[cfg(any(fuzzing, test))]
    surroundings: Option<Surroundings>,
    restore: Option<PathBuf>,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Builder {
            window: Duration::from_secs(600),
            capacity: 1_000_000,
            max_memory_bytes: None,
            growth_thread: true,
            history: None,
            unconfirmed: None,
            refresh_on_duplicate: false,
            lease: Duration::from_secs(30),
            clock: None,
            event_time: None,
            key: WantedKey::default(),
            scope: None,
            journal: None,
            #[cfg(any(fuzzing, test))]
            surroundings: None,
            restore: None,
        }
    }

    /// How long an id is remembered exactly, from when it was accepted: 100 ns to 100 years. Default: 10 minutes.
    pub fn window(self, window: Duration) -> Self {
        Builder { window, ..self }
    }

    /// How many live ids the window has room for to begin with, at 18.4 bytes each. Default: a million.
    ///
    /// With more it grows, with fewer again it shrinks, to no less than this; see [`max_memory_bytes`](Builder::max_memory_bytes).
    pub fn capacity(self, ids: usize) -> Self {
        Builder { capacity: ids, ..self }
    }

    /// How much memory the window may take when it grows; at least what the capacity takes. Default: 1 GiB, or what the
    /// capacity takes if that is more.
    ///
    /// It grows in steps of two to three times, each a table of its own; older ones are given back
    /// when all in them has expired. So in the long run three fifths of this hold ids: 35 million
    /// in 1 GiB. With more, the oldest go first, are counted ([`WindowStats::evicted_live`]), and
    /// [`WindowStats::effective_window`] tells how old the youngest of them was. What the capacity
    /// takes means that the window never grows. (A [`history`](Builder::history) comes on top, and
    /// does not grow.)
    ///
    /// [`WindowStats::evicted_live`]: crate::WindowStats::evicted_live
    /// [`WindowStats::effective_window`]: crate::WindowStats::effective_window
    pub fn max_memory_bytes(self, bytes: usize) -> Self {
        Builder { max_memory_bytes: Some(bytes), ..self }
    }

    /// Has a thread get memory ready when the window grows, and give it back, so that no check
    /// waits for that. It lives only as long as that takes. Without it, the caller that finds three
    /// quarters of the capacity taken does it at once, which takes up to a second for a GiB; then
    /// answers are repeatable to the last evicted id, if one thread checks. Default: a thread.
    ///
    /// In a rush, when three quarters of the capacity come within a third of the window and the
    /// thread is not ready yet, callers do not go on to overfill the table: one check in some
    /// thousands makes 2 MiB of the next one ready, which takes 0.2 to 3 ms, or, if others have
    /// begun the last part, waits for them, at most 10 ms. (A table of up to 2 MiB, 100,000 ids, is
    /// made ready by the check that needs it.) So nothing is forgotten early as long as the budget
    /// has room.
    ///
    /// Memory goes back when a call notices that it is not needed: a check, a claim, or
    /// [`stats`](crate::Dedup::stats). An engine that nobody calls keeps what it has.
    pub fn growth_thread(self, growth_thread: bool) -> Self {
        Builder { growth_thread, ..self }
    }

    /// Remembers ids beyond the window, in a Bloom filter: up to `ids` within any `horizon`, which is no shorter than the
    /// window, wrongly with `false_positive_rate`. Default: no history.
    pub fn history(self, horizon: Duration, false_positive_rate: f64, ids: usize) -> Self {
        Builder { history: Some((horizon, false_positive_rate, ids)), ..self }
    }

    /// What to answer when only the history knows an id. Only with a [`history`](Builder::history). Default:
    /// [`Unconfirmed::Duplicate`].
    pub fn unconfirmed(self, unconfirmed: Unconfirmed) -> Self {
        Builder { unconfirmed: Some(unconfirmed), ..self }
    }

    /// Whether a duplicate extends its id's stay, so that the window slides. Default: it does not.
    pub fn refresh_on_duplicate(self, refresh_on_duplicate: bool) -> Self {
        Builder { refresh_on_duplicate, ..self }
    }

    /// For how long a [claim](Dedup::claim) is its holder's, unless it is said otherwise: longer than the work usually takes, and short enough to
    /// wait for if its holder is stuck. Up to 100 years. Default: 30 seconds.
    pub fn lease(self, lease: Duration) -> Self {
        Builder { lease, ..self }
    }

    /// Where to read the time. Default: [`MonotonicClock::since_epoch`](crate::MonotonicClock::since_epoch).
    pub fn clock(self, clock: impl Clock) -> Self {
        Builder { clock: Some(Box::new(clock)), ..self }
    }

    /// Says that times come with the events ([`check_at`](Dedup::check_at)), and which of them are
    /// refused. Default: the first call decides, and if it has a time, those too far ahead of the
    /// wall clock are refused, as [`EventTime::wall`] has it.
    ///
    /// With this, the engine never goes by its clock: what is called without a time counts as of
    /// the latest event. Until there is one, time stands still.
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

    /// The secret key of the [digests](crate::Digester). Default: that of the
    /// [journal](Builder::journal) or the [snapshot](Builder::restore); without one, 16 bytes from
    /// the operating system.
    ///
    /// Whoever knows it can construct ids that are taken for one another.
    pub fn key(self, key: [u8; 16]) -> Self {
        self.with_bits(u128::from_le_bytes(key))
    }

    /// A key of only 64 bits, for runs that are to be repeatable: tests, simulations, benchmarks.
    pub fn seed(self, seed: u64) -> Self {
        self.with_bits(seed.into())
    }

    /// Sets all that there is to a key.
    #[doc(hidden)]
    pub fn digest_key(self, key: DigestKey) -> Self {
        Builder { key: WantedKey { kind: key.kind, bits: Some(key.bits) }, ..self }
    }

    fn with_bits(self, bits: u128) -> Self {
        Builder { key: WantedKey { bits: Some(bits), ..self.key }, ..self }
    }

    /// Trusts whoever chooses the ids: digests are XXH3-128 with a random seed, which is up to four
    /// times as fast for ids of more than 80 bytes, and no faster for others.
    ///
    /// ```
    /// // Hashes of blobs that this program has computed itself.
    /// let dedup = hapax::Dedup::builder().trusted_ids().build()?;
    /// assert!(dedup.check([7; 320]).is_fresh());
    /// # Ok::<(), hapax::Error>(())
    /// ```
    ///
    /// Only for ids that this program, or one that you trust, has made, and that nobody else has a
    /// say in. Somebody who chooses ids of more than 240 bytes can choose pairs of which one in
    /// fifty is taken for one id, whatever the seed is, and learns the seed from thousands of
    /// answers; then ids of any length can be chosen that make a message of somebody else a
    /// duplicate. Without this option nothing of the kind is known, nor to be expected: see
    /// [`Digester`](crate::Digester).
    ///
    /// A journal or a snapshot of the other kind is refused: its digests are others.
    pub fn trusted_ids(self) -> Self {
        Builder { key: WantedKey { kind: DigestKind::Trusted, ..self.key }, ..self }
    }

    /// The namespace of the ids (a consumer, a tenant): one id in two scopes is two ids. Default: none. See
    /// [`Dedup::with_scope`] for several scopes in one engine.
    pub fn scope(self, scope: impl Into<String>) -> Self {
        Builder { scope: Some(scope.into()), ..self }
    }

    /// Keeps what is accepted in a directory, which is made if there is none, so that it is remembered after a crash; see
    /// [`flush`](Dedup::flush). One engine at a time.
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
    /// - What was accepted before a [`flush`](Dedup::flush) that returned `Ok` is remembered by the next engine, for as long as this one
    ///   would have. Dropping the last handle flushes, too.
    /// - What was accepted without a flush is durable within [`commit_interval`](JournalOptions::commit_interval) and a sync, or not at all.
    /// - What is only claimed leaves no trace.
    /// - It belongs to this process: a child of a fork has no journal, and gives up nothing of it
    ///   ([`JournalError::Forked`](crate::JournalError::Forked)).
    /// - Nothing is read or changed that others may have put there. Links are not followed, and
    ///   pipes not waited for; files and directory belong to this process's user, or root, and
    ///   nobody else may write to them, unless [`file_mode`](JournalOptions::file_mode) lets the
    ///   group (in volumes of a container, say) or everybody
    ///   ([`JournalError::Untrusted`](crate::JournalError::Untrusted)). What is above the directory
    ///   is not looked at.
    /// - If its lock is deleted or replaced, the next flush says so, since another process may have
    ///   come ([`JournalError::Gone`](crate::JournalError::Gone)).
    ///
    /// Time goes on from what the journal knows: with the default clock by what has passed since,
    /// even if the system's clock was set meanwhile (then
    /// [`Recovery::clock_step`](crate::Recovery::clock_step) says so); where it comes with
    /// [events](Dedup::check_at), from the latest of them. A [`clock`](Builder::clock) of your own
    /// must have the same origin in the next process.
    ///
    /// # Cost
    ///
    /// 16 bytes an id on the disk, for as long as the window or the history remembers it. What is remembered is read at the next
    /// [`build`](Builder::build), twice; that takes what the files' length justifies, whoever wrote
    /// them.
    ///
    /// Idea: group commit, as in DeWitt and others, SIGMOD 1984; logs in segments that are deleted as a whole, as in Kafka.
    pub fn journal(self, path: impl Into<PathBuf>, options: JournalOptions) -> Self {
        Builder { journal: Some((path.into(), options)), ..self }
    }

    /// Begins with what a [`snapshot`](Dedup::snapshot) has, of an engine with the same window, capacity, memory and history, and a clock of the same
    /// origin. What has expired since is not remembered. With a [`journal`](Builder::journal), too, what that has comes on top.
    ///
    /// It must be a file, no link, of this process's user, or root, to which nobody else may write
    /// ([`JournalError::Untrusted`](crate::JournalError::Untrusted)).
    pub fn restore(self, path: impl Into<PathBuf>) -> Self {
        Builder { restore: Some(path.into()), ..self }
    }

    /// Sets where the journal is kept, and by whose clocks, in a simulation.
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
            .field("unconfirmed", &self.unconfirmed)
            .field("refresh_on_duplicate", &self.refresh_on_duplicate)
            .field("lease", &self.lease)
            .field("event_time", &self.event_time)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}
