//! The synchronous engine within: how the tiers decide together.

use crate::claims::{Claims, Respected};
use crate::clock::{Clock, MonotonicClock, Reading, Stamp};
#[cfg(feature = "journal")]
use crate::clock::{Machine, TimeBase};
use crate::config::Unconfirmed;
use crate::digest::{Digest, Digester};
use crate::history::Look;
use crate::journal::Journal;
use crate::stats::{Counters, Counts, Stats};
use crate::sync::{Ordering, StdAtomicBool, StdAtomicU64};
use crate::window::{CHUNK, Chunk, TableMemory, bits};
use crate::{History, Outcome, Tier, Timestamp, Verdict, Window};
use std::sync::Arc;
use std::time::Duration;

/// What handles share.
pub(crate) struct Engine {
    pub(crate) window: Window,
    pub(crate) history: Option<History>,
    pub(crate) unconfirmed: Unconfirmed,
    pub(crate) refresh_on_duplicate: bool,
    pub(crate) claims: Claims,
    /// Of claims that do not say otherwise.
    pub(crate) lease: Duration,
    pub(crate) clock: EngineClock,
    /// Whether time is what `check_at` is given, from the first such call on.
    pub(crate) keeps_stream_time: StdAtomicBool,
    /// The latest time of an event, in nanoseconds, if there is a journal to tell.
    pub(crate) latest_event: StdAtomicU64,
    pub(crate) counters: Counters,
    pub(crate) journal: Option<Journal>,
    pub(crate) unscoped: Digester,
}

/// Where the time is read. Clones read the same.
#[derive(Clone)]
pub(crate) struct EngineClock {
    source: Source,
    lag_nanos: u64,
}

/// The default clock is known to the compiler.
#[derive(Clone)]
enum Source {
    Monotonic(MonotonicClock),
    Custom(Arc<dyn Clock>),
}

impl EngineClock {
    /// The given clock, or the default one, for a window of this tick.
    pub(crate) fn new(clock: Option<Box<dyn Clock>>, tick: Duration) -> Self {
        let (lag, source) = match clock {
            Some(clock) => (clock.lag(), Source::Custom(clock.into())),
            None => {
                // So that what outlives the process can be understood by the next one.
                let clock = MonotonicClock::since_epoch(tick);
                (clock.lag(), Source::Monotonic(clock))
            }
        };
        EngineClock { source, lag_nanos: lag.min(tick).as_nanos() as u64 }
    }

    #[inline(always)]
    pub(crate) fn now(&self) -> Reading {
        let time = match &self.source {
            Source::Monotonic(clock) => clock.now(),
            Source::Custom(clock) => clock.now(),
        };
        Reading { time, lag_nanos: self.lag_nanos }
    }

    /// The machine it runs on, with what it shows.
    #[cfg(feature = "journal")]
    pub(crate) fn machine(&self) -> Machine {
        let clock = self.clone();
        Machine::this(move || clock.now().time)
    }

    /// For how long a thread may wait by the system's clock without looking at this one: at most so long, if nobody knows how it runs.
    pub(crate) fn glance(&self, unknown: Duration) -> Duration {
        match &self.source {
            Source::Monotonic(_) => Duration::MAX,
            Source::Custom(_) => unknown,
        }
    }
}

/// Not in the history means: certainly not seen within its horizon.
const FRESH_BY_WINDOW: Verdict = Verdict::exact(Outcome::Fresh, Tier::Window);
const FRESH_BY_HISTORY: Verdict = Verdict::exact(Outcome::Fresh, Tier::History);
pub(crate) const DUPLICATE: Verdict = Verdict::exact(Outcome::Duplicate, Tier::Window);
const IN_PROGRESS: Verdict = Verdict::exact(Outcome::InProgress, Tier::Claims);

impl Engine {
    /// Checks one id.
    #[inline]
    pub(crate) fn check(&self, digest: Digest, at: Reading) -> Verdict {
        self.note_event(at.time);
        let verdict = match &self.history {
            None => verdict(self.decide(digest, at), FRESH_BY_WINDOW),
            Some(history) => self.check_with(history, digest, at),
        };
        self.counters.add_one(verdict);
        if let Some(journal) = &self.journal
            && journal.notes_checks()
            && self.extends(verdict)
        {
            journal.accepted(self.stamp(at), [digest]);
        }
        verdict
    }

    /// Whether a check with this verdict has extended the time for which its id is remembered.
    #[inline(always)]
    pub(crate) fn extends(&self, verdict: Verdict) -> bool {
        verdict.is_fresh() || (verdict.is_duplicate() && self.refresh_on_duplicate)
    }

    /// What window and claims say.
    #[inline(always)]
    fn decide(&self, digest: Digest, at: Reading) -> Outcome {
        if self.is_claimed(digest) {
            return Outcome::InProgress;
        }
        let outcome = self.window.check_at(digest, at);
        self.respect_claims(digest, outcome, at)
    }

    fn check_with(&self, history: &History, digest: Digest, at: Reading) -> Verdict {
        // Both tiers' memory at the same time.
        self.window.prefetch(digest);
        let look = history.look(digest);
        if look.seen {
            return self.check_known(history, digest, at);
        }
        let outcome = self.decide(digest, at);
        if outcome == Outcome::Fresh {
            history.insert_looked(&look, history.tick(self.window.no_earlier(at.time)));
        }
        verdict(outcome, FRESH_BY_HISTORY)
    }

    /// Checks an id that the history may have seen: a recent duplicate, which the window knows; or one from beyond the window, or a
    /// coincidence, which nobody here can tell apart.
    pub(crate) fn check_known(&self, history: &History, digest: Digest, at: Reading) -> Verdict {
        // A duplicate must leave no trace in the window, or it would extend its id's stay.
        if self.unconfirmed == Unconfirmed::Duplicate && !self.refresh_on_duplicate {
            return match self.window.contains(digest, at.time) {
                true => verdict(self.respect_claims(digest, Outcome::Duplicate, at), self.unconfirmed()),
                false => self.unconfirmed(),
            };
        }
        match self.decide(digest, at) {
            Outcome::Duplicate => DUPLICATE,
            Outcome::InProgress => IN_PROGRESS,
            Outcome::Fresh => {
                history.insert(digest, self.window.no_earlier(at.time));
                self.unconfirmed()
            }
        }
    }

    /// What the history's "maybe" becomes.
    pub(crate) fn unconfirmed(&self) -> Verdict {
        Verdict::guess(match self.unconfirmed {
            Unconfirmed::Duplicate => Outcome::Duplicate,
            Unconfirmed::Fresh => Outcome::Fresh,
        })
    }

    /// Checks ids in order, a chunk at a time.
    #[inline]
    pub(crate) fn check_batch(&self, digests: impl Iterator<Item = Digest>, at: Reading, verdicts: &mut Vec<Verdict>) {
        verdicts.clear();
        verdicts.reserve(digests.size_hint().0);
        // Even if there is nothing to check, the caller has said what time it is.
        self.note_event(at.time);
        self.window.advance(at);
        let mut counts = Counts::default();
        match &self.history {
            _ if self.journal.as_ref().is_some_and(Journal::notes_checks) => {
                self.check_batch_noting(digests, at, verdicts, &mut counts)
            }
            None => self.check_batch_without(digests, at, verdicts, &mut counts),
            Some(history) => self.check_batch_with(history, digests, at, verdicts, &mut counts),
        }
        self.counters.add(counts);
    }

    /// The same without a history.
    #[inline(always)]
    fn check_batch_without(
        &self,
        digests: impl Iterator<Item = Digest>,
        at: Reading,
        verdicts: &mut Vec<Verdict>,
        counts: &mut Counts,
    ) {
        self.window.check_chunks(
            digests,
            at,
            |chunk| self.claimed_of(chunk),
            |chunk, claimed, fresh| {
                let Respected { fresh, in_progress } = self.respect_claims_of(chunk, (claimed, !claimed), fresh, at);
                extend(verdicts, chunk.len(), fresh, FRESH_BY_WINDOW);
                counts.add(FRESH_BY_WINDOW, fresh.count_ones().into());
                counts.add(DUPLICATE, chunk.len() as u64 - u64::from((fresh | in_progress).count_ones()));
                mark_in_progress(verdicts, chunk.len(), in_progress, counts);
            },
        );
    }

    /// The same with a history. While one chunk is decided, the memory that the next one will need is asked for: first the window's lines,
    /// then the history's blocks.
    #[inline]
    fn check_batch_with(
        &self,
        history: &History,
        digests: impl Iterator<Item = Digest>,
        at: Reading,
        verdicts: &mut Vec<Verdict>,
        counts: &mut Counts,
    ) {
        let mut digests = digests.fuse();
        let (mut staged, mut next) = (&mut Staged::new(), &mut Staged::new());
        let newest = self.window.newest(&mut staged.chunk);
        for digest in digests.by_ref().take(CHUNK) {
            staged.add(&newest, digest);
            history.prefetch(digest);
        }
        staged.chunk.ask(&newest);
        while staged.chunk.len() > 0 {
            let newest = self.window.newest(&mut next.chunk);
            let mut known = 0;
            for i in 0..staged.chunk.len() {
                if let Some(digest) = digests.next() {
                    next.add(&newest, digest);
                }
                staged.looks[i] = history.look(staged.digests[i]);
                known |= u64::from(staged.looks[i].seen) << i;
            }
            next.chunk.ask(&newest);
            let mut ahead = next.digests().iter();
            let meanwhile = || {
                if let Some(&digest) = ahead.next() {
                    history.prefetch(digest);
                }
            };
            self.check_staged(history, staged, known, at, (verdicts, counts), meanwhile);
            std::mem::swap(&mut staged, &mut next);
        }
    }

    /// Decides a chunk that the history has looked at, and knows the ids of `known` from. `meanwhile` is called once for each id.
    #[inline(always)]
    fn check_staged(
        &self,
        history: &History,
        Staged { chunk, digests, looks }: &mut Staged,
        known: u64,
        at: Reading,
        (verdicts, counts): (&mut Vec<Verdict>, &mut Counts),
        mut meanwhile: impl FnMut(),
    ) {
        let claimed = self.claimed_of(chunk) & !known;
        let fresh = self.window.check_chunk(chunk, !(known | claimed), at, || ());
        let Respected { fresh, in_progress } = self.respect_claims_of(chunk, (claimed, !(known | claimed)), fresh, at);
        let now = history.tick(self.window.no_earlier(at.time));
        for (i, look) in looks[..chunk.len()].iter().enumerate() {
            meanwhile();
            if fresh >> i & 1 != 0 {
                history.insert_looked(look, now);
            }
        }

        let start = verdicts.len();
        extend(verdicts, chunk.len(), fresh, FRESH_BY_HISTORY);
        counts.add(FRESH_BY_HISTORY, fresh.count_ones().into());
        counts.add(DUPLICATE, chunk.len() as u64 - u64::from((known | fresh | in_progress).count_ones()));
        mark_in_progress(verdicts, chunk.len(), in_progress, counts);
        // Equal ids are known or not known together, so these do not overtake others.
        for i in bits(known) {
            let verdict = self.check_known(history, digests[i], at);
            verdicts[start + i] = verdict;
            counts.add(verdict, 1);
        }
    }

    /// The same, and the journal learns of it: a part at a time, so that the digests that are asked for again are still in the cache.
    #[inline(never)]
    fn check_batch_noting(
        &self,
        digests: impl Iterator<Item = Digest>,
        at: Reading,
        verdicts: &mut Vec<Verdict>,
        counts: &mut Counts,
    ) {
        const PART: usize = 16 * CHUNK;
        let mut digests = digests.fuse();
        let mut part = Vec::with_capacity(digests.size_hint().0.min(PART));
        loop {
            part.clear();
            part.extend(digests.by_ref().take(PART));
            if part.is_empty() {
                return;
            }
            let start = verdicts.len();
            match &self.history {
                None => self.check_batch_without(part.iter().copied(), at, verdicts, counts),
                Some(history) => self.check_batch_with(history, part.iter().copied(), at, verdicts, counts),
            }
            let extended = part.iter().zip(&verdicts[start..]).filter(|(_, verdict)| self.extends(**verdict));
            if let Some(journal) = &self.journal {
                journal.accepted(self.stamp(at), extended.map(|(digest, _)| *digest));
            }
        }
    }

    /// Checks an id of which the history's "maybe" has turned out to be none.
    #[cfg(feature = "store")]
    pub(crate) fn check_ignoring_history(&self, digest: Digest, at: Reading) -> Verdict {
        let outcome = self.decide(digest, at);
        if let Some(history) = &self.history
            && outcome == Outcome::Fresh
        {
            history.insert(digest, self.window.no_earlier(at.time));
        }
        let verdict = verdict(outcome, FRESH_BY_WINDOW);
        self.counters.add_one(verdict);
        verdict
    }

    /// What was accepted at a time that has passed, or elsewhere.
    #[cfg(any(feature = "journal", feature = "store"))]
    pub(crate) fn restore(&self, digests: &[Digest], at: Reading) {
        self.window.check_chunks(digests.iter().copied(), at, |_| 0, |_, _, _| ());
        if let Some(history) = &self.history {
            let now = history.tick(self.window.no_earlier(at.time));
            for part in digests.chunks(CHUNK) {
                part.iter().for_each(|digest| history.prefetch(*digest));
                part.iter().for_each(|digest| history.insert_looked(&history.look(*digest), now));
            }
        }
    }

    /// The machine that what outlives the engine is written on.
    #[cfg(feature = "journal")]
    pub(crate) fn machine(&self) -> Machine {
        self.clock.machine()
    }

    /// How it counts time.
    #[cfg(feature = "journal")]
    pub(crate) fn time_base(&self) -> TimeBase {
        self.journal.as_ref().map_or_else(TimeBase::default, Journal::time_base)
    }

    /// Forgets everything in the tiers.
    pub(crate) fn clear_tiers(&self, at: Timestamp) {
        if let Some(history) = &self.history {
            history.clear();
        }
        self.window.clear(at);
    }

    pub(crate) fn stats(&self) -> Stats {
        let at = self.now();
        let window = self.window.stats(at.time);
        let history = self.history.as_ref().map(History::stats);
        let counts = self.counters.sum();
        Stats {
            fresh: counts.fresh(),
            fresh_unconfirmed: counts.fresh_unconfirmed(),
            duplicates_by_window: counts.duplicates_by_window(),
            duplicates_by_history: counts.duplicates_by_history(),
            bytes: size_of_val(self)
                + Counters::BYTES
                + self.claims.bytes()
                + window.bytes
                + history.as_ref().map_or(0, |h| h.bytes),
            in_progress: counts.in_progress(),
            claims: self.claims.stats(self.clock.now().time),
            #[cfg(feature = "journal")]
            journal: self.journal.as_ref().map(Journal::stats),
            window,
            history,
            at: at.time,
        }
    }

    /// The time, when a caller does not give it.
    #[inline(always)]
    pub(crate) fn now(&self) -> Reading {
        // Relaxed: of two simultaneous calls, either may be the first.
        if self.keeps_stream_time.load(Ordering::Relaxed) { self.window.latest().into() } else { self.clock.now() }
    }

    /// When it is that something was accepted, as the journal has it.
    #[inline]
    pub(crate) fn stamp(&self, at: Reading) -> Stamp {
        // Relaxed: as above. Clocks run forward; events come late, and then count as the latest of all.
        match self.keeps_stream_time.load(Ordering::Relaxed) {
            true => self.window.stamp(Timestamp::from_nanos(self.latest_event.load(Ordering::Relaxed)).into()),
            false => self.window.stamp(at),
        }
    }

    /// An event has this time. The window knows the latest by its ticks only, and a later window over the same journal has others.
    #[inline(always)]
    pub(crate) fn note_event(&self, at: Timestamp) {
        // Relaxed: a maximum, which orders nothing but itself.
        if self.journal.is_some()
            && self.keeps_stream_time.load(Ordering::Relaxed)
            && self.latest_event.load(Ordering::Relaxed) < at.as_nanos()
        {
            self.latest_event.fetch_max(at.as_nanos(), Ordering::Relaxed);
        }
    }

    /// From now on time is what callers give.
    #[inline(always)]
    pub(crate) fn keep_stream_time(&self) {
        if !self.keeps_stream_time.load(Ordering::Relaxed) {
            self.keeps_stream_time.store(true, Ordering::Relaxed);
        }
    }
}

/// A chunk on its way through both tiers.
struct Staged {
    chunk: Chunk,
    digests: [Digest; CHUNK],
    /// What the history has shown.
    looks: [Look; CHUNK],
}

impl Staged {
    fn new() -> Self {
        Staged { chunk: Chunk::new(), digests: [Digest::from(0); CHUNK], looks: [Look::default(); CHUNK] }
    }

    /// Adds a digest to a chunk that is not full, and asks for its line of the window.
    #[inline(always)]
    fn add(&mut self, newest: &TableMemory<'_>, digest: Digest) {
        self.digests[self.chunk.len()] = digest;
        self.chunk.stage(newest, digest);
    }

    #[inline(always)]
    fn digests(&self) -> &[Digest] {
        &self.digests[..self.chunk.len()]
    }
}

/// The window's answer as a verdict; `fresh` says who else was asked.
#[inline(always)]
fn verdict(outcome: Outcome, fresh: Verdict) -> Verdict {
    match outcome {
        Outcome::Fresh => fresh,
        Outcome::Duplicate => DUPLICATE,
        Outcome::InProgress => IN_PROGRESS,
    }
}

/// Appends `len` verdicts: `fresh` for those in the set, duplicates by the window for the others.
#[inline(always)]
fn extend(verdicts: &mut Vec<Verdict>, len: usize, set: u64, fresh: Verdict) {
    verdicts.extend((0..len).map(|i| if set >> i & 1 != 0 { fresh } else { DUPLICATE }));
}

/// Says of the last `len` verdicts which ids of them are claimed.
#[inline(always)]
fn mark_in_progress(verdicts: &mut [Verdict], len: usize, set: u64, counts: &mut Counts) {
    let start = verdicts.len() - len;
    bits(set).for_each(|i| verdicts[start + i] = IN_PROGRESS);
    counts.add(IN_PROGRESS, set.count_ones().into());
}
