//! The check of one id: in one function from the digest to the counter, where nothing rare comes
//! between, and in all other cases. Whatever is rare is the last that the short way calls, so the
//! processor's registers suffice for it.

use super::{DUPLICATE, Engine, FRESH_BY_HISTORY, FRESH_BY_WINDOW, verdict};
use crate::clock::Reading;
use crate::digest::Digest;
use crate::history::HistoryTier;
use crate::window::{Asked, Checks, Looks, Roster, Short};
use crate::{Outcome, Verdict};

impl Engine {
    /// Checks one id.
    #[inline(always)]
    pub(crate) fn check(&self, digest: Digest, at: Reading) -> Verdict {
        match &self.journal {
            Some(journal) => self.check_noting(journal, digest, at),
            None if self.history.is_some() => {
                self.window.kernel().check::<Remembered<false>, _>(self, Asked { id: digest, at })
            }
            None => self.window.kernel().check::<Plain<false>, _>(self, Asked { id: digest, at }),
        }
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
        if self.history.is_some() || self.claims.are_used() {
            return self.counters.add_one(self.ask_tiers(asked.id, asked.at));
        }
        // (Otherwise a short look has not decided.)
        self.end_check(self.window.check_at_length(asked), asked)
    }

    /// Ends the check of an id that the window has answered, if there are claims by now.
    #[inline(never)]
    fn end_check(&self, outcome: Outcome, &Asked { id: digest, at }: &Asked) -> Verdict {
        let verdict = verdict(self.respect_claims(digest, outcome, at), FRESH_BY_WINDOW);
        self.counters.add_one(verdict)
    }

    /// Ends the check of an id that was inserted into a table that was not the newest any more.
    #[cold]
    #[inline(never)]
    fn end_late_check(&self, digest: Digest, roster: Roster, tick: u64) -> Verdict {
        let (outcome, at) = self.window.check_late(digest, roster, tick);
        self.end_check(outcome, &Asked { id: digest, at })
    }

    /// Ends the check of an id that the history may have.
    #[inline(never)]
    fn end_known_check(&self, history: &HistoryTier, &Asked { id, at }: &Asked) -> Verdict {
        self.counters.add_one(self.check_known(history, id, at))
    }

    /// Ends the check of an id that the history does not have, in all cases.
    #[inline(never)]
    fn end_remembered_check(&self, short: Short, asked: &Asked) -> Verdict {
        let (outcome, at) = match short {
            Short::Late(roster, tick) => self.window.check_late(asked.id, roster, tick),
            Short::Fresh => (Outcome::Fresh, asked.at),
            Short::Duplicate | Short::Undecided | Short::Elsewhere => (self.window.check_at_length(asked), asked.at),
        };
        let outcome = self.respect_claims(asked.id, outcome, at);
        if let (Outcome::Fresh, Some(history)) = (outcome, &self.history) {
            history.insert(asked.id, self.window.no_earlier(at.time));
        }
        self.counters.add_one(verdict(outcome, FRESH_BY_HISTORY))
    }
}

/// The check of an engine without history and journal.
struct Plain<const GROWN: bool>;

/// The check of an engine with a history, and without journal.
struct Remembered<const GROWN: bool>;

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
        let look = history.look(asked.id);
        // What the history may have seen is not inserted here: most of it is in the window.
        match self.window.check_shortly::<GROWN>(looks, asked, !look.seen) {
            Short::Fresh if !self.claims.are_used() => {
                history.insert_looked(&look, history.tick(self.window.no_earlier(asked.at.time)));
                self.counters.add_one(FRESH_BY_HISTORY)
            }
            Short::Duplicate if self.is_look_enough() => self.counters.add_one(DUPLICATE),
            _ if look.seen => self.end_known_check(history, asked),
            short => self.end_remembered_check(short, asked),
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
            Short::Fresh if self.claims.are_used() => return self.end_check(Outcome::Fresh, asked),
            Short::Fresh => FRESH_BY_WINDOW,
            Short::Duplicate if self.refresh_on_duplicate => return self.check_at_length(asked),
            Short::Duplicate if self.claims.are_used() => return self.end_check(Outcome::Duplicate, asked),
            Short::Duplicate => DUPLICATE,
            Short::Elsewhere if !GROWN => return self.check_grown(asked),
            Short::Undecided | Short::Elsewhere => return self.check_at_length(asked),
            Short::Late(roster, tick) => return self.end_late_check(asked.id, roster, tick),
        };
        self.counters.add_one(verdict)
    }
}
