//! Checks of one digest: the short way, and the others.

use super::looks::{Asked, Checks, Looks};
use crate::Outcome;
use crate::clock::Reading;
use crate::digest::Digest;
use crate::memory::prefetch;
use crate::window::Window;
use crate::window::bits::tick::Tick;
use crate::window::table_set::alone::Short;
use crate::window::table_set::roster::Roster;
use crate::window::table_set::tables::{OwnInsertion, place};

impl Window {
    #[inline]
    pub(crate) fn check_at(&self, digest: Digest, at: Reading) -> Outcome {
        self.kernel.check::<Either<false>, _>(self, Asked::new(digest, at))
    }

    #[inline(never)]
    fn check_grown(&self, asked: &Asked) -> Outcome {
        self.kernel.check::<Either<true>, _>(self, *asked)
    }

    /// Asks for a digest's bucket in the first table.
    #[inline(always)]
    pub(crate) fn prefetch_first(&self, digest: Digest) {
        let first = self.tables().first();
        prefetch(first.bucket(place(&first, digest).bucket));
    }

    /// Returns true if the first table is the only one, or was a moment ago.
    #[inline(always)]
    pub(crate) fn is_first_alone(&self) -> bool {
        self.tables().roster().is_first_alone()
    }

    /// Checks a digest, if a short look decides: at the first table, if that is the only one; or,
    /// if the window has `GROWN`, at the only one. Without `insert`, it is only looked for.
    #[inline(always)]
    pub(crate) fn check_shortly<const GROWN: bool>(&self, looks: impl Looks, asked: &Asked, insert: bool) -> Short {
        let tables = self.to_write();
        // Most windows never have another table. The address of the first depends on nothing that
        // must be read first, and a prefetch, unlike a load, does not wait for the locked
        // instruction of the check before.
        let first = tables.first();
        let id = place(&first, asked.id);
        if !GROWN {
            prefetch(first.bucket(id.bucket));
        }
        if asked.end_nanos > tables.shared.settled_nanos() {
            return Short::Undecided;
        }
        let tick = tables.shared.agreed();
        if GROWN {
            tables.check_newest_shortly(|newest| looks.memory(newest), asked.id, tick, insert)
        } else {
            tables.check_shortly(&looks.memory(first), id, tick, insert)
        }
    }

    /// Checks a digest in the tables that are newer than the one into which a short check has
    /// inserted it. Returns the reading of that check, too.
    #[cold]
    pub(crate) fn check_late(&self, digest: Digest, roster: Roster, packed: u64) -> (Outcome, Reading) {
        let tick = Tick::unpack(packed);
        let at = self.ticks.reading_of(tick);
        (self.check_across(digest, at, Some(OwnInsertion { roster, tick })), at)
    }

    /// Checks a digest that a short look did not decide on.
    #[inline(always)]
    pub(crate) fn check_at_length(&self, looks: impl Looks, asked: &Asked) -> Outcome {
        let (refresh, at) = (self.refresh_on_duplicate, asked.at());
        let tick = || self.tick_at(at);
        self.tables().check_at_length(|newest| looks.memory(newest), asked.id, refresh, tick)
    }

    /// Checks a digest in all tables, or in those that are newer than the one into which this check
    /// has inserted it.
    #[cold]
    pub(super) fn check_across(&self, digest: Digest, at: Reading, own: Option<OwnInsertion>) -> Outcome {
        self.tables().check(digest, self.refresh_on_duplicate, || self.tick_at(at), own)
    }
}

/// The check of a digest that a short look did not decide on.
struct Undecided;

impl Checks<Undecided> for Window {
    type Answer = Outcome;

    #[inline(always)]
    fn check_by(&self, looks: impl Looks, asked: &Asked) -> Outcome {
        self.check_at_length(looks, asked)
    }
}

/// The check of a window that may have grown.
pub(crate) struct Either<const GROWN: bool>;

impl<const GROWN: bool> Checks<Either<GROWN>> for Window {
    type Answer = Outcome;

    #[inline(always)]
    fn check_by(&self, looks: impl Looks, asked: &Asked) -> Outcome {
        match self.check_shortly::<GROWN>(looks, asked, true) {
            Short::Fresh => Outcome::Fresh,
            Short::Duplicate if !self.refresh_on_duplicate => Outcome::Duplicate,
            Short::Elsewhere if !GROWN => self.check_grown(asked),
            Short::Late(roster, tick) => self.check_late(asked.id, roster, tick).0,
            Short::Duplicate | Short::Undecided | Short::Elsewhere => looks.check::<Undecided, _>(self, asked),
        }
    }
}
