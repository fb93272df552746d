//! The inside of the synchronous engine: how the tiers decide together, and what the journal is
//! told.
//!
//! [`single`] checks one id, [`batches`] many at once. [`long_memory`] asks a long memory for what
//! the window does not have. [`claims`] is what claims mean to window, history and journal,
//! [`claim_batches`] the same for many ids. [`first_seen`] tells when the window has accepted an
//! id. [`time`] is the engine's time, by its clock or by its events; [`replay`] what an engine
//! learns from the journal of the one before it.

mod batches;
mod claim_batches;
mod claims;
mod first_seen;
mod long_memory;
mod replay;
mod single;
mod time;

pub(crate) use self::claim_batches::{BLOCK, Buffers};
pub(crate) use self::claims::At;
pub use self::claims::Tried;
pub(crate) use self::replay::Gathered;

use crate::claims::Claims;
use crate::clock::{EngineClock, Reading};
use crate::digest::{Digest, Digester};
use crate::history::{HistoryTier, Unconfirmed};
use crate::journal::Journal;
use crate::long_memory::LongTier;
use crate::mutation::{Place, Rule, meanwhile, obeys};
use crate::stats::{Counters, Stats};
use crate::stream_time::StreamTime;
use crate::window::{Asked, Compiled, Window};
use crate::{Outcome, Refusal, Tier, Timestamp, Verdict};
use std::time::Duration;

/// The state that all handles share.
pub(crate) struct Engine {
    pub(crate) window: Window,
    pub(crate) history: Option<HistoryTier>,
    pub(crate) unconfirmed: Unconfirmed,
    pub(crate) refresh_on_duplicate: bool,
    pub(crate) claims: Claims,
    /// The lease of claims that do not set their own.
    pub(crate) lease: Duration,
    pub(crate) clock: EngineClock,
    /// The stream time, if callers give times.
    pub(crate) stream_time: StreamTime,
    pub(crate) counters: Counters,
    /// The long memory, boxed since most engines have none. It ends before its journal.
    pub(crate) long: Option<Box<LongTier>>,
    /// The journal, boxed since most engines have none.
    pub(crate) journal: Option<Box<Journal>>,
    pub(crate) unscoped: Digester,
    /// The check of one id, for what the engine has.
    pub(crate) check_one: Compiled<Engine, Verdict>,
}

/// A journal that is to learn of checks.
#[derive(Clone, Copy)]
struct Noting<'e> {
    journal: &'e Journal,
    /// The count of what was forgotten before the checks.
    forgotten: u64,
}

impl<'e> Noting<'e> {
    /// Begins checks.
    #[inline(always)]
    fn begin(journal: &'e Journal) -> Self {
        Noting { journal, forgotten: journal.forgotten_so_far() }
    }
}

/// The verdict on an id that the history does not have: certainly not seen within its horizon.
const FRESH_BY_WINDOW: Verdict = Verdict::exact(Outcome::Fresh, Tier::Window);
const FRESH_BY_SEGMENTS: Verdict = Verdict::exact(Outcome::Fresh, Tier::Segments);
const FRESH_BY_HISTORY: Verdict = Verdict::exact(Outcome::Fresh, Tier::History);
pub(crate) const DUPLICATE: Verdict = Verdict::exact(Outcome::Duplicate, Tier::Window);
const IN_PROGRESS: Verdict = Verdict::exact(Outcome::InProgress, Tier::Claims);

impl Engine {
    /// The memory of an engine beside its tiers, claims and journal, if it goes by a clock.
    pub(crate) const BYTES_BESIDE_TIERS: usize = size_of::<Self>() + Counters::BYTES;

    /// Asks for the memory that the check of an id will need, without waiting for it.
    #[inline]
    pub(crate) fn prefetch(&self, digest: Digest) {
        self.window.prefetch(digest);
        if let Some(history) = &self.history {
            history.prefetch(digest);
        }
    }

    /// Returns the answer of the tiers in memory.
    #[inline(always)]
    fn ask_tiers(&self, digest: Digest, at: Reading) -> Verdict {
        match &self.history {
            None => verdict(self.decide(digest, at), FRESH_BY_WINDOW),
            Some(history) => self.check_with(history, digest, at),
        }
    }

    /// Checks one id, and tells the journal.
    #[inline(never)]
    fn check_noting(&self, journal: &Journal, asked: &Asked) -> Verdict {
        let (digest, at) = (asked.id, asked.at());
        let noting = Noting::begin(journal);
        let early = obeys(Rule::StateBefore).then(|| self.asking(&[digest]));
        let verdict = self.ask_tiers(digest, at);
        let asking = early.unwrap_or_else(|| self.asking(&[digest]));
        let verdict = self.counters.add_one(self.beyond(asking, digest, at, verdict));
        if journal.notes_checks() && self.extends(verdict) {
            self.note(noting, at, [(digest, verdict)].into_iter());
        }
        verdict
    }

    /// Tells the journal which ids checks have accepted, or extended the stay of.
    #[inline]
    fn note(&self, noting: Noting<'_>, at: Reading, checked: impl Iterator<Item = (Digest, Verdict)>) {
        let Noting { journal, forgotten } = noting;
        meanwhile(Place::Checked);
        let extended = checked.filter(|(_, verdict)| self.extends(*verdict));
        let ids = extended.map(|(digest, verdict)| (digest, verdict.is_duplicate()));
        journal.checked(self.stamp(at), forgotten, ids, |id| self.window.contains(id, at.time));
    }

    /// Checks one id at the time of its event, if that time can be right.
    #[inline]
    pub(crate) fn check_event(&self, digest: Digest, at: Timestamp) -> Verdict {
        match self.stream_time.admit(at) {
            Some(at) => self.check_admitted(digest, at),
            None => self.check_doubtful(digest, at),
        }
    }

    #[inline(always)]
    fn check_admitted(&self, digest: Digest, at: Timestamp) -> Verdict {
        self.note_event(at);
        self.check(digest, at.into())
    }

    /// Checks one id whose event's time has to be looked at.
    #[inline(never)]
    fn check_doubtful(&self, digest: Digest, at: Timestamp) -> Verdict {
        match self.stream_time.decide(at, || Some(digest), self) {
            Ok(at) => self.check_admitted(digest, at),
            Err(refusal) => self.counters.add_one(Verdict::refused(refusal)),
        }
    }

    /// Returns true if a check with this verdict has extended the time for which its id is
    /// remembered.
    #[inline(always)]
    pub(crate) fn extends(&self, verdict: Verdict) -> bool {
        verdict.is_fresh() || (verdict.is_duplicate() && self.refresh_on_duplicate)
    }

    /// Returns the answer of window and claims.
    #[inline(always)]
    fn decide(&self, digest: Digest, at: Reading) -> Outcome {
        if self.is_claimed(digest) {
            // The caller has told the time, whatever the answer.
            self.window.advance(at);
            return Outcome::InProgress;
        }
        let outcome = self.window.check_at(digest, at);
        self.respect_claims(digest, outcome, at)
    }

    fn check_with(&self, history: &HistoryTier, digest: Digest, at: Reading) -> Verdict {
        // The memory of both tiers is asked for at the same time.
        self.window.prefetch(digest);
        let (look, seen) = history.look(&digest);
        if seen {
            return self.check_known(history, digest, at);
        }
        let outcome = self.decide(digest, at);
        if outcome == Outcome::Fresh {
            history.insert_looked(&look, history.tick(self.window.no_earlier(at.time)));
        }
        verdict(outcome, FRESH_BY_HISTORY)
    }

    /// Checks an id that the history may have seen: a recent duplicate, which the window knows; or
    /// one from beyond the window, or a coincidence, which nothing here can tell apart.
    pub(crate) fn check_known(&self, history: &HistoryTier, digest: Digest, at: Reading) -> Verdict {
        // A duplicate must leave no trace in the window, or it would extend its id's stay.
        if self.unconfirmed == Unconfirmed::Duplicate && !self.refresh_on_duplicate {
            self.window.advance(at);
            return if self.window.contains(digest, at.time) {
                verdict(self.respect_claims(digest, Outcome::Duplicate, at), self.unconfirmed())
            } else {
                self.unconfirmed()
            };
        }
        match self.decide(digest, at) {
            Outcome::Duplicate => DUPLICATE,
            Outcome::InProgress => IN_PROGRESS,
            Outcome::Refused(refusal) => Verdict::refused(refusal),
            Outcome::Fresh => {
                history.insert(digest, self.window.no_earlier(at.time));
                self.unconfirmed()
            }
        }
    }

    /// Returns the verdict for the history's "maybe".
    pub(crate) fn unconfirmed(&self) -> Verdict {
        Verdict::guess(match self.unconfirmed {
            Unconfirmed::Duplicate => Outcome::Duplicate,
            Unconfirmed::Fresh => Outcome::Fresh,
        })
    }

    /// Checks an id for which the history's "maybe" has turned out to be wrong.
    pub(crate) fn check_ignoring_history(&self, digest: Digest, at: Reading) -> Verdict {
        let outcome = self.decide(digest, at);
        if let Some(history) = &self.history
            && outcome == Outcome::Fresh
        {
            history.insert(digest, self.window.no_earlier(at.time));
        }
        let verdict = verdict(outcome, FRESH_BY_WINDOW);
        self.counters.add_one(verdict)
    }

    /// Forgets everything in the tiers. Sets no time.
    pub(crate) fn clear_tiers(&self) {
        if let Some(history) = &self.history {
            history.clear();
        }
        self.window.clear_at_rest();
    }

    pub(crate) fn stats(&self) -> Stats {
        let at = self.now_at_rest();
        // Time goes on while there are no checks, so that memory is given back that is not needed.
        // (Stream time comes from the events alone, also if none has come yet.)
        if self.stream_time.is_by_clock() {
            self.window.advance(at);
        }
        let window = self.window.stats(at.time);
        let history = self.history.as_ref().map(HistoryTier::stats);
        let history_bytes = history.as_ref().map_or(0, |history| history.bytes);
        let counts = self.counters.sum();
        Stats {
            fresh: counts.fresh(),
            fresh_unconfirmed: counts.fresh_unconfirmed(),
            duplicates_by_window: counts.duplicates_by_window(),
            duplicates_by_history: counts.duplicates_by_history(),
            duplicates_by_segments: counts.duplicates_by_segments(),
            bytes: Self::BYTES_BESIDE_TIERS
                + self.stream_time.bytes()
                + self.claims.bytes()
                + window.bytes
                + history_bytes,
            in_progress: counts.in_progress(),
            refused_ahead: counts.refused(Refusal::Ahead),
            refused_late: counts.refused(Refusal::Late),
            stream_time_resets: self.stream_time.resets(),
            claims: self.claims.stats(self.clock.now().time, self.window.latest().max(at.time)),
            journal: self.journal.as_ref().map(|journal| journal.stats()),
            long_memory: self.long.as_ref().map(|long| long.stats(at.time)),
            window,
            history_false_positive_rate: history.map(|history| history.false_positive_rate),
            history_bytes,
            at: self.stream_time.external(at.time),
        }
    }
}

/// Returns the window's answer as a verdict; `fresh` is the verdict on a fresh id, which names the
/// tier that decided.
#[inline(always)]
fn verdict(outcome: Outcome, fresh: Verdict) -> Verdict {
    match outcome {
        Outcome::Fresh => fresh,
        Outcome::Duplicate => DUPLICATE,
        Outcome::InProgress => IN_PROGRESS,
        Outcome::Refused(refusal) => Verdict::refused(refusal),
    }
}
