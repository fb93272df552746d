//! The check of an id while there is one table. The first one, which most windows never outgrow,
//! has a short way.

use super::roster::Roster;
use super::table::TableMemory;
use super::tables::{OwnInsertion, Tables, place};
use crate::Outcome;
use crate::digest::Digest;
use crate::window::bits::tick::Tick;
use crate::window::checks::batch;
use crate::window::protocol::bucket;
use crate::window::protocol::bucket_memory::{BucketMemory, Overtaken, Place};

/// The answer of the short way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Short {
    Fresh,
    /// The id is there. (Nothing was done to extend its stay.)
    Duplicate,
    /// The first table is not the only one. Nothing has changed.
    Elsewhere,
    /// Nothing has changed but the time.
    Undecided,
    /// The id was inserted, at this packed tick, into the table of this roster, which was not the
    /// newest any more.
    Late(Roster, u64),
}

impl<const SLOTS: usize, const VERSION_BITS: u32> Tables<SLOTS, VERSION_BITS> {
    /// Checks an id at a tick that callers have agreed on, if the first table is the only one and a
    /// short look at it decides. `memory` is the first table. Without `insert`, the id is only
    /// looked for.
    #[inline(always)]
    pub(crate) fn check_shortly<M: BucketMemory>(&self, memory: &M, id: Place, tick: Tick, insert: bool) -> Short {
        let roster = self.roster();
        if !roster.is_first_alone() {
            return Short::Elsewhere;
        }
        self.check_in(roster, memory, id, tick, insert)
    }

    /// Checks an id in the same way, if there is one table, whichever.
    #[inline(always)]
    pub(crate) fn check_newest_shortly<'a, M: BucketMemory>(
        &'a self,
        looks: impl FnOnce(TableMemory<'a, SLOTS, VERSION_BITS>) -> M,
        id: Digest,
        tick: Tick,
        insert: bool,
    ) -> Short {
        let roster = self.roster();
        if !roster.is_single() {
            return Short::Undecided;
        }
        let newest = self.memory(roster.newest());
        self.check_in(roster, &looks(newest), place(&newest, id), tick, insert)
    }

    #[inline(always)]
    fn check_in<M: BucketMemory>(&self, roster: Roster, memory: &M, id: Place, tick: Tick, insert: bool) -> Short {
        match batch::check_shortly(memory, id, tick, insert) {
            Some(Outcome::Fresh) if self.is_current(roster) => Short::Fresh,
            Some(Outcome::Fresh) => Short::Late(roster, tick.pack()),
            Some(_) if self.is_current(roster) => Short::Duplicate,
            _ => Short::Undecided,
        }
    }

    /// Checks an id that the short way has not decided on.
    #[inline(always)]
    pub(crate) fn check_at_length<'a, M: BucketMemory>(
        &'a self,
        looks: impl FnOnce(TableMemory<'a, SLOTS, VERSION_BITS>) -> M,
        id: Digest,
        refresh: bool,
        tick: impl Fn() -> Tick,
    ) -> Outcome {
        let now = tick();
        let roster = self.roster();
        let mut own = None;
        if roster.is_single() {
            let newest = self.memory(roster.newest());
            match bucket::check_here(&looks(newest), place(&newest, id), now, refresh) {
                Ok(outcome) if self.is_current(roster) => return outcome,
                Ok(Outcome::Fresh) => own = Some(OwnInsertion { roster, tick: now }),
                Ok(_) | Err(Overtaken) => {}
            }
        }
        self.check(id, refresh, tick, own)
    }

    /// Checks an id as a window does, looking at buckets in the portable way.
    #[cfg(modelled)]
    pub(crate) fn check_as_window(&self, id: Digest, refresh: bool, tick: impl Fn() -> Tick) -> Outcome {
        let first = self.first();
        let short = match self.check_shortly(&first, place(&first, id), tick(), true) {
            Short::Elsewhere => self.check_newest_shortly(|newest| newest, id, tick(), true),
            short => short,
        };
        match short {
            Short::Fresh => Outcome::Fresh,
            Short::Duplicate if !refresh => Outcome::Duplicate,
            Short::Late(roster, packed) => {
                self.check(id, refresh, tick, Some(OwnInsertion { roster, tick: Tick::unpack(packed) }))
            }
            Short::Duplicate | Short::Undecided | Short::Elsewhere => {
                self.check_at_length(|newest| newest, id, refresh, tick)
            }
        }
    }

    /// Returns true if a short look finds an id, which it may not insert.
    #[cfg(explore)]
    pub(crate) fn is_here_shortly(&self, id: Digest, tick: Tick) -> bool {
        let first = self.first();
        self.check_shortly(&first, place(&first, id), tick, false) == Short::Duplicate
    }
}
