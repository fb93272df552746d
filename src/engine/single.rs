//! The check of one id: in one function from the digest to the counter, where nothing rare comes
//! between, and in all other cases. Whatever is rare is the last that the short way calls, so the
//! processor's registers suffice for it.
//!
//! Of the 189 instructions of `window, one by one` in docs/instructions.txt, 36 are the caller's,
//! 20 of them the digest's. 114 are the short way's: 37 for the look, 20 for time, roster and
//! claims, 20 for the insertion, 15 for the place, 10 to save registers, 9 for the counter, 3 for
//! the shard's readiness. 37 are the long way's, which one id in seventeen takes, and 2 the
//! survey's. From a bucket's load to the prefetch of the next one's there are 138, and 33 loads
//! after the compare-and-swap, 17 of which the next address needs.

use super::{DUPLICATE, Engine, FRESH_BY_HISTORY, FRESH_BY_WINDOW, verdict};
use crate::clock::Reading;
use crate::digest::Digest;
use crate::history::HistoryTier;
use crate::journal::Journal;
use crate::window::{Asked, Checks, Compiled, Kernel, Looks, Roster, Short};
use crate::{Outcome, Verdict};

impl Engine {
    /// Checks one id.
    #[inline(always)]
    pub(crate) fn check(&self, digest: Digest, at: Reading) -> Verdict {
        self.check_one.check(self, &Asked::new(digest, at))
    }

    /// Returns the check of one id for an engine that has these.
    pub(crate) fn compiled_check(kernel: Kernel, has_history: bool, has_journal: bool) -> Compiled<Self, Verdict> {
        match (has_journal, has_history) {
            (true, _) => kernel.compiled::<Noted, _>(),
            (false, true) => kernel.compiled::<Remembered<false>, _>(),
            (false, false) => kernel.compiled::<Plain<false>, _>(),
        }
    }

    /// Goes on with a journal.
    pub(crate) fn set_journal(&mut self, journal: Journal) {
        debug_assert!(self.journal.is_none(), "what is read is not written again");
        self.journal = Some(Box::new(journal));
        self.check_one = Self::compiled_check(self.window.kernel(), self.history.is_some(), true);
    }

    /// Checks one id in a window that has grown.
    #[inline(never)]
    fn check_grown(&self, asked: &Asked) -> Verdict {
        if self.history.is_some() {
            self.window.kernel().check::<Remembered<true>, _>(self, *asked)
        } else {
            self.window.kernel().check::<Plain<true>, _>(self, *asked)
        }
    }

    /// Checks one id, in all cases but that of a journal.
    #[inline(never)]
    fn check_at_length(&self, asked: &Asked) -> Verdict {
        self.counters.add_one(self.ask_tiers(asked.id, asked.at()))
    }

    /// Ends the check of an id that the history may have.
    #[inline(never)]
    fn end_known_check(&self, history: &HistoryTier, asked: &Asked) -> Verdict {
        self.counters.add_one(self.check_known(history, asked.id, asked.at()))
    }

    /// Ends the check of an id that was inserted while the first claim was made.
    #[cold]
    #[inline(never)]
    fn end_inserted(&self, asked: &Asked) -> Verdict {
        self.end_decided(asked.id, Outcome::Fresh, asked.at())
    }

    /// Ends the check of an id that was inserted while a table was started.
    #[cold]
    #[inline(never)]
    fn end_late(&self, asked: &Asked, roster: Roster, packed: u64) -> Verdict {
        let (outcome, at) = self.window.check_late(asked.id, roster, packed);
        self.end_decided(asked.id, outcome, at)
    }

    /// Ends the check of an id that the window has decided on.
    fn end_decided(&self, id: Digest, outcome: Outcome, at: Reading) -> Verdict {
        let outcome = self.respect_claims(id, outcome, at);
        let Some(history) = &self.history else {
            return self.counters.add_one(verdict(outcome, FRESH_BY_WINDOW));
        };
        if outcome == Outcome::Fresh {
            history.insert(id, self.window.no_earlier(at.time));
        }
        self.counters.add_one(verdict(outcome, FRESH_BY_HISTORY))
    }
}

/// The check of an engine with a journal.
struct Noted;

/// The check of an engine without history and journal.
struct Plain<const GROWN: bool>;

/// The check of an engine with a history, and without journal.
struct Remembered<const GROWN: bool>;

/// The check of an id that a short look has not decided on, and that the history, if there is one,
/// does not have.
struct Undecided;

impl Checks<Undecided> for Engine {
    type Answer = Verdict;

    #[inline(always)]
    fn check_by(&self, looks: impl Looks, asked: &Asked) -> Verdict {
        self.end_decided(asked.id, self.window.check_at_length(looks, asked), asked.at())
    }
}

impl Checks<Noted> for Engine {
    type Answer = Verdict;

    #[inline(always)]
    fn check_by(&self, _: impl Looks, asked: &Asked) -> Verdict {
        match &self.journal {
            Some(journal) => self.check_noting(journal, asked),
            None => self.check_at_length(asked),
        }
    }
}

impl<const GROWN: bool> Checks<Remembered<GROWN>> for Engine {
    type Answer = Verdict;

    #[inline(always)]
    fn check_by(&self, looks: impl Looks, asked: &Asked) -> Verdict {
        let Some(history) = self.history.as_ref().filter(|_| !self.claims.are_used()) else {
            return self.check_at_length(asked);
        };
        // The memory of both tiers is asked for at the same time.
        if GROWN {
            self.window.prefetch(asked.id);
        } else if self.window.is_first_alone() {
            self.window.prefetch_first(asked.id);
        } else {
            return self.check_grown(asked);
        }
        let (look, seen) = history.look_by(looks.avx2(), &asked.id);
        // What the history may have seen is not inserted here: most of it is in the window.
        match self.window.check_shortly::<GROWN>(looks, asked, !seen) {
            Short::Fresh if !self.claims.are_used() => {
                history.insert_looked(&look, history.tick(self.window.no_earlier(asked.time)));
                self.counters.add_one(FRESH_BY_HISTORY)
            }
            Short::Duplicate if self.is_look_enough() => self.counters.add_one(DUPLICATE),
            _ if seen => self.end_known_check(history, asked),
            Short::Fresh => self.end_inserted(asked),
            Short::Late(roster, packed) => self.end_late(asked, roster, packed),
            Short::Duplicate | Short::Undecided | Short::Elsewhere => looks.check::<Undecided, _>(self, asked),
        }
    }
}

impl<const GROWN: bool> Checks<Plain<GROWN>> for Engine {
    type Answer = Verdict;

    #[inline(always)]
    fn check_by(&self, looks: impl Looks, asked: &Asked) -> Verdict {
        debug_assert!(self.journal.is_none() && self.long.is_none() && self.history.is_none());
        if self.claims.are_used() {
            return self.check_at_length(asked);
        }
        let verdict = match self.window.check_shortly::<GROWN>(looks, asked, true) {
            Short::Fresh if !self.claims.are_used() => FRESH_BY_WINDOW,
            Short::Duplicate if self.is_look_enough() => DUPLICATE,
            Short::Fresh => return self.end_inserted(asked),
            Short::Late(roster, packed) => return self.end_late(asked, roster, packed),
            Short::Elsewhere if !GROWN => return self.check_grown(asked),
            Short::Duplicate | Short::Undecided | Short::Elsewhere => return looks.check::<Undecided, _>(self, asked),
        };
        self.counters.add_one(verdict)
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::{Dedup, History, Unconfirmed};
    use std::time::Duration;

    /// Returns the verdicts on an id that comes twice, and twice again a window later.
    fn verdicts(unconfirmed: Unconfirmed) -> ([Verdict; 4], Verdict) {
        const WINDOW: Duration = Duration::from_secs(100);
        let history = History { horizon: WINDOW * 10, ids: 1_000, false_positive_rate: 1e-3, unconfirmed };
        let clock = ManualClock::new();
        let builder = Dedup::builder().window(WINDOW).capacity(1_000).history(history).seed(5);
        let dedup = builder.clock(clock.clone()).build().unwrap();
        let verdicts = [0, 1, 200, 1].map(|seconds| {
            clock.advance(Duration::from_secs(seconds));
            dedup.check("id")
        });
        let stats = dedup.stats();
        assert_eq!(stats.fresh + stats.duplicates_by_window + stats.duplicates_by_history, 4, "each is counted once");
        (verdicts, dedup.engine.unconfirmed())
    }

    #[test]
    fn what_only_the_history_has_seen_leaves_no_trace_in_the_window_unless_it_counts_as_fresh() {
        let (as_duplicates, guess) = verdicts(Unconfirmed::Duplicate);
        assert_eq!(as_duplicates, [FRESH_BY_HISTORY, DUPLICATE, guess, guess]);
        let (as_fresh, guess) = verdicts(Unconfirmed::Fresh);
        assert_eq!(as_fresh, [FRESH_BY_HISTORY, DUPLICATE, guess, DUPLICATE]);
    }
}
