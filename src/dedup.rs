//! The synchronous engine as its users see it: handles, scopes, time; [`claims`] with what their
//! holders have ([`claim`], [`attempt`]); when an id was first seen ([`first_seen`]); the
//! [`journal`], and what is put into it as one ([`append`], [`checkpoint`]).

mod append;
mod attempt;
mod checkpoint;
mod claim;
mod claims;
mod first_seen;
mod journal;

pub use append::Appending;
pub use attempt::{Attempt, ClaimOptions};
pub use claim::{Claim, LostLease, Once, OnceError, Token};
pub use journal::JournalHandle;

use crate::digest::{Digest, Digester};
use crate::engine::Engine;
use crate::error::InvalidOption;
use crate::mutation::{Place, Rule, meanwhile, obeys};
use crate::stats::Stats;
use crate::stream_time::NoReset;
use crate::{Error, Id, Tier, Timestamp, Verdict};
use std::sync::Arc;
use std::time::Duration;

/// An engine, which tells whether an id was seen before.
///
/// ```
/// use hapax::Dedup;
/// use std::time::Duration;
///
/// let dedup = Dedup::builder().window(Duration::from_secs(600)).capacity(100_000).build()?;
/// for id in ["a", "b", "a"] {
///     if dedup.check(id).is_fresh() {
///         println!("{id} is new");
///     }
/// }
/// # Ok::<(), hapax::Error>(())
/// ```
///
/// An engine is shared by reference or by clone: a clone is another handle to the same engine. All
/// calls take `&self`, from any thread.
///
/// # Guarantees
///
/// - Of any number of threads that check one id within the window, exactly one is told that it is
///   fresh; more than one, never none, if the id is [forgotten](Dedup::forget) meanwhile, or if a
///   call takes longer than the window while that grows.
/// - An id accepted at t is a duplicate at every t' with t' - t < W, and never (by the window) once
///   t' - t >= W + 2 ticks. Both are times of the engine. If callers give times, the engine's time
///   is *stream time*, the latest given so far; an event that comes late counts as of that, not as
///   of its own time. A duplicate does not extend its id's stay, unless
///   [`refresh_on_duplicate`](crate::Builder::refresh_on_duplicate) says so.
/// - The ways in which it can be wrong, and how often, are counted in [`stats`](Dedup::stats): ids
///   that had to go early, false duplicates.
///
/// # Cost
///
/// A check takes no lock, allocates nothing and does not wait, unless there are
/// [claims](Dedup::claim) or a journal. Memory is that of the
/// [capacity](crate::Builder::capacity), and of a [`History`](crate::History) if there is one.
#[derive(Clone)]
pub struct Dedup {
    pub(crate) engine: Arc<Engine>,
    pub(crate) digester: Digester,
}

/// An id whose digest is known, and whose memory may be on its way.
///
/// Made by [`Dedup::prepare`], and valid for each handle that has the same key and scope: clones,
/// and handles from [`with_scope`](Dedup::with_scope) with the same name. Another handle panics
/// when it gets one, since the id would be another one there.
#[derive(Clone, Copy, Debug)]
#[must_use = "preparing an id does not check it"]
pub struct Prepared {
    pub(crate) digest: Digest,
    /// The tag of the digester.
    by: u32,
}

impl Id for Prepared {
    #[inline(always)]
    fn digest_by(&self, digester: &Digester) -> Digest {
        if self.by != digester.tag {
            prepared_elsewhere();
        }
        self.digest
    }
}

#[cold]
#[inline(never)]
fn prepared_elsewhere() -> ! {
    panic!("an id was prepared by a handle with another key or scope than the one that it was given to")
}

/// The result of [`Dedup::forget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// Nothing remembers the id: its next check is fresh.
    Entirely,
    /// The history, which cannot forget single ids, may remember the id, and its next check may be
    /// a guess.
    ExceptByHistory,
    /// Nothing was forgotten, since the id is [claimed](Dedup::claim): it is up to the claim's
    /// holder to release it. (Or, while claims come and go, since a check is about to accept it.)
    InProgress,
}

impl Dedup {
    pub(crate) fn new(engine: Arc<Engine>, digester: Digester) -> Self {
        Dedup { engine, digester }
    }

    /// Returns a handle to the same engine for another scope: the same id there is another id.
    ///
    /// ```
    /// let dedup = hapax::Dedup::builder().build()?;
    /// let (orders, invoices) = (dedup.with_scope("orders"), dedup.with_scope("invoices"));
    /// assert!(orders.check("17").is_fresh());
    /// assert!(invoices.check("17").is_fresh());
    /// assert!(orders.check("17").is_duplicate());
    /// # Ok::<(), hapax::Error>(())
    /// ```
    pub fn with_scope(&self, scope: &str) -> Self {
        Dedup { engine: Arc::clone(&self.engine), digester: self.engine.unscoped.scoped(scope) }
    }

    /// Checks an id now: it is fresh, a duplicate, or [claimed](Dedup::claim). A fresh one is
    /// remembered from now on.
    ///
    /// Now is the time of the clock; or, if time comes with the events
    /// ([`check_at`](Dedup::check_at)), the latest of these.
    #[inline]
    pub fn check(&self, id: impl Id) -> Verdict {
        self.engine.check(id.digest_by(&self.digester), self.engine.now())
    }

    /// Checks an id at a time that the caller gives: that of the event, say.
    ///
    /// The window is then measured in stream time, the largest time given so far. From the first
    /// such call on the engine goes by that, also for calls without a time, and its clock is not
    /// read for the window any more. An id that was accepted by the clock before stays a duplicate
    /// for another window: if the first event is earlier than what the clock said, its time is
    /// taken for the present.
    ///
    /// The same calls in the same order get the same answers in every run, however late events
    /// come, if the seed is fixed, and nothing has to go early: with a
    /// [`growth_thread`](crate::Builder::growth_thread) or at the byte budget, which ids go depends
    /// on chance.
    ///
    /// ```
    /// use hapax::{Dedup, Timestamp};
    /// use std::time::Duration;
    ///
    /// let dedup = Dedup::builder().window(Duration::from_secs(60)).build()?;
    /// assert!(dedup.check_at("a", Timestamp::from_secs(1_000)).is_fresh());
    /// assert!(dedup.check_at("a", Timestamp::from_secs(1_059)).is_duplicate());
    /// assert!(dedup.check_at("b", Timestamp::from_secs(1_062)).is_fresh());
    /// assert!(dedup.check_at("a", Timestamp::from_secs(1_000)).is_fresh()); // late: it is 1062 by now
    /// # Ok::<(), hapax::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A time that cannot be right would end the window for all ids, so its event is not accepted:
    /// the verdict is [`Outcome::Refused`](crate::Outcome::Refused), and nothing changes. Unless
    /// [`Builder::event_time`](crate::Builder::event_time) says otherwise, such a time is one ahead
    /// of the wall clock by more than the window (at least by more than a minute).
    #[inline]
    pub fn check_at(&self, id: impl Id, at: Timestamp) -> Verdict {
        self.engine.check_event(id.digest_by(&self.digester), at)
    }

    /// Checks many ids, in order, with one reading of the clock: several times as fast as one by
    /// one, since their memory is fetched at the same time. `verdicts` is cleared, and then holds
    /// one verdict for each id.
    ///
    /// ```
    /// let dedup = hapax::Dedup::builder().build()?;
    /// let mut verdicts = Vec::new(); // reuse it: then nothing is allocated
    /// dedup.check_batch(["a", "a", "b"], &mut verdicts);
    /// let fresh: Vec<bool> = verdicts.iter().map(|v| v.is_fresh()).collect();
    /// assert_eq!(fresh, [true, false, true]);
    /// # Ok::<(), hapax::Error>(())
    /// ```
    pub fn check_batch<I>(&self, ids: I, verdicts: &mut Vec<Verdict>)
    where
        I: IntoIterator<Item: Id>,
    {
        let digests = ids.into_iter().map(|id| id.digest_by(&self.digester));
        self.engine.check_batch(digests, self.engine.now(), verdicts);
    }

    /// Checks many ids at a time that the caller gives; see [`check_at`](Dedup::check_at). An empty
    /// batch tells the engine what time it is, like a watermark. A batch is refused as a whole or
    /// not at all; a watermark that is refused changes nothing.
    pub fn check_batch_at<I>(&self, ids: I, at: Timestamp, verdicts: &mut Vec<Verdict>)
    where
        I: IntoIterator<Item: Id>,
    {
        let digests = ids.into_iter().map(|id| id.digest_by(&self.digester));
        self.engine.check_events(digests, at, verdicts);
    }

    /// Digests an id and asks for the memory that its check will need, without waiting for it.
    ///
    /// For a consumer that gets ids one by one: prepare on receipt, check after decoding, and the
    /// memory has arrived. Or for another thread to check, which is then spared a part of the work.
    /// Where more messages are there already, prepare three or four ahead of the check: of a
    /// million live ids, one ahead takes two thirds of the time of a check alone, and these two
    /// fifths.
    ///
    /// ```
    /// let dedup = hapax::Dedup::builder().build()?;
    /// let id = dedup.prepare("a");
    /// // … decode the message …
    /// assert!(dedup.check(id).is_fresh());
    /// # Ok::<(), hapax::Error>(())
    /// ```
    #[inline]
    pub fn prepare(&self, id: impl Id) -> Prepared {
        let digest = id.digest_by(&self.digester);
        self.engine.prefetch(digest);
        self.prepared(digest)
    }

    #[inline(always)]
    pub(crate) fn prepared(&self, digest: Digest) -> Prepared {
        Prepared { digest, by: self.digester.tag }
    }

    /// Returns the tier that remembers an id, if one does; the history's answer is a guess. Changes
    /// nothing, not even the time, and is not counted. A long memory may read its disk for it, once
    /// it has sealed what is late; if it can't be read, there is no tier, and `in_doubt` counts it.
    pub fn contains(&self, id: impl Id) -> Option<Tier> {
        let digest = id.digest_by(&self.digester);
        let now = self.engine.now_at_rest();
        if !obeys(Rule::ReadingMovesNothing) {
            self.engine.window.advance(now);
        }
        if self.engine.window.contains(digest, now.time) {
            return Some(Tier::Window);
        }
        if let Some(history) = &self.engine.history {
            return history.contains(digest).then_some(Tier::History);
        }
        self.engine.is_known_beyond(digest, now).then_some(Tier::Segments)
    }

    /// Forgets an id, so that it can be accepted again.
    ///
    /// A check that begins when this has returned finds the id fresh, unless another check accepted
    /// it in between (or had accepted it and not returned: it may do so once more), or the history
    /// remembers it. This holds at any time, and after a restart.
    ///
    /// It costs no other id its place. Its own counts for memory as if the id had stayed.
    ///
    /// A check that is under way while its id is forgotten, and then claimed, finds the id in
    /// progress, though another check may have been told Duplicate because of it: its caller tries
    /// again, so nothing is lost.
    ///
    /// With a long memory, of two checks at once one may be fresh beside the other if the id is
    /// forgotten while it is under way: it is handled once more, and not lost.
    pub fn forget(&self, id: impl Id) -> Forgotten {
        let digest = id.digest_by(&self.digester);
        if !self.engine.forget(digest) {
            return Forgotten::InProgress;
        }
        match &self.engine.history {
            Some(history) if history.contains(digest) => Forgotten::ExceptByHistory,
            _ => Forgotten::Entirely,
        }
    }

    /// Forgets all ids, of all scopes, that were accepted before the call. Ids that are accepted
    /// meanwhile may be forgotten, too. Claimed ids stay claimed.
    ///
    /// Writes to all of the memory: about a second for 10 million ids. Other calls go on meanwhile.
    pub fn clear(&self) {
        // First: an id that is accepted from here on may survive in memory, and comes after this in
        // the journal. (An id that was accepted before is cleared below: a thread inserts before it
        // appends to the journal.)
        let clear = || {
            meanwhile(Place::ToBeCleared);
            // Before the window: a check that still finds an id there has told the window before
            // that, and is cleared with it.
            let is_first = obeys(Rule::SegmentsForgottenFirst);
            if is_first {
                self.engine.clear_beyond();
            }
            self.engine.clear_tiers();
            meanwhile(Place::Clearing);
            self.engine.claims.clear();
            if !is_first {
                self.engine.clear_beyond();
            }
        };
        match &self.engine.journal {
            Some(journal) => journal.clear(self.engine.window.latest(), clear),
            None => clear(),
        }
    }

    /// Sets the present of the events' time to `to`, whatever it was: for an operator who has found
    /// that it is wrong.
    ///
    /// Events from before `to` are late from then on. An id that was accepted lately stays a
    /// duplicate: the window counts on from `to`, so it is forgotten within a window from there.
    /// Counted in [`Stats::stream_time_resets`]. An engine that went by its clock goes by its
    /// events' time afterwards.
    ///
    /// ```
    /// use hapax::{Dedup, EventTime, Timestamp};
    ///
    /// let dedup = Dedup::builder().event_time(EventTime::unrelated()).build()?;
    /// dedup.check_at("a", Timestamp::from_secs(1_000));
    /// dedup.check_at("wrong", Timestamp::from_secs(1_000_000_000)); // time stands still until then
    /// dedup.reset_stream_time(Timestamp::from_secs(1_001))?;
    /// assert!(dedup.check_at("b", Timestamp::from_secs(1_002)).is_fresh());
    /// assert!(dedup.check_at("b", Timestamp::from_secs(1_700)).is_fresh()); // ten minutes later, as it should be
    /// # Ok::<(), hapax::Error>(())
    /// ```
    ///
    /// Calls that are under way may still be judged by the old time.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`], with nothing changed, if an event at `to` would be refused as
    /// [ahead](crate::Refusal::Ahead); or if resets have used up the window's own time (146 years
    /// except for a month), after which a new engine is needed.
    pub fn reset_stream_time(&self, to: Timestamp) -> Result<(), Error> {
        let refused = |expected: &str| Err(InvalidOption::new("reset_stream_time", to, expected).into());
        match self.engine.stream_time.reset(to, &*self.engine) {
            Ok(_) => Ok(()),
            Err(NoReset::Ahead) => refused("a time that an event may have, by `event_time`"),
            Err(NoReset::Over) => refused("a new engine: the window's own time has come to its end"),
        }
    }

    /// Returns the granularity of time: how much longer than the window the engine may remember an
    /// id, at most twice. A tick is at most a hundredth of the window.
    pub fn tick(&self) -> Duration {
        self.engine.window.tick()
    }

    /// Returns the number of ids that had to go before their time, of all scopes; see
    /// [`WindowStats::evicted_live`](crate::WindowStats::evicted_live). Cheap, unlike
    /// [`stats`](Dedup::stats).
    pub fn evicted_live(&self) -> u64 {
        self.engine.window.evicted_live()
    }

    /// Returns what the engine has counted and what it holds, of all scopes. Reads the window's
    /// whole memory: 10 to 20 ms for 10 million ids.
    ///
    /// Also gives back memory that is not needed any more, as a check does: while nobody checks,
    /// after a peak, calls that are a fraction of a window apart bring the engine back to its
    /// smallest size within two windows. (Not where events bring their own times: there, without
    /// events, no time passes.)
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }
}

const _: fn() = || {
    fn shareable<T: Send + Sync>() {}
    shareable::<Dedup>();
};

impl std::fmt::Debug for Dedup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the digester: its seed is a secret.
        f.debug_struct("Dedup")
            .field("window", &self.engine.window)
            .field("history", &self.engine.history)
            .finish_non_exhaustive()
    }
}
