//! The tables of a window: ids go into the newest one, the older ones are only looked at until they
//! have expired as a whole.
//!
//! | step | by |
//! |------|----|
//! | look at the newest table's bucket, then at the older tables, then insert into the newest | [`Tables::check`] |
//! | … and look whether that still is the newest; if not, go on with the tables that are newer | [`Tables::check`] |
//! | start a table | [`Tables::start`] |
//! | retire the oldest one, when nothing in it can be live | [`Tables::retire`] |
//!
//! The reason why a look at the newest table is enough: docs/design/window.md, "Growth".

use super::roster::{INDICES, Roster};
use super::shared_state::SharedState;
use super::table::{Table, TableMemory};
use crate::digest::Digest;
use crate::mutation::{self, Rule, meanwhile, obeys};
use crate::sync::{AtomicU64, Ordering, complete_seq_cst, fence};
use crate::window::bits::slot::{SLOTS, Tag, VERSION_BITS, scale};
use crate::window::bits::tick::{GRACE, Moment, SWEEP_KEEPS, Tick, stamp_bits};
use crate::window::protocol::bucket::{self, Elsewhere};
use crate::window::protocol::bucket_memory::{BucketMemory, Overtaken, Place};
use crate::window::protocol::forget;
use crate::{Error, Outcome};
use std::sync::OnceLock;

/// The tables, and which of them are in use.
pub(crate) struct Tables<const SLOTS: usize = { self::SLOTS }, const VERSION_BITS: u32 = { self::VERSION_BITS }> {
    roster: AtomicU64,
    /// The table at index 0: for most windows the only one they ever have. Its address does not
    /// depend on the roster, so the processor asks for its buckets without waiting for that.
    first: Table<SLOTS, VERSION_BITS>,
    by_index: [IndexedTable<SLOTS, VERSION_BITS>; INDICES],
    pub(crate) shared: SharedState,
}

/// The table at a table index, if there is one. Once a table is there, it stays: a caller may look
/// at a table that was retired long ago.
struct IndexedTable<const SLOTS: usize, const VERSION_BITS: u32> {
    /// The table; nothing at index 0.
    table: OnceLock<Table<SLOTS, VERSION_BITS>>,
    /// The number of times that it was used before.
    life: AtomicU64,
    /// The tick when it was started.
    started: AtomicU64,
    /// The tick after which no entry was stamped that counts; `u64::MAX` if it is still open.
    closed: AtomicU64,
}

/// An entry that a caller has inserted into the newest table of a roster, which then was not the
/// newest any more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnInsertion {
    pub(crate) roster: Roster,
    /// The tick of the insertion.
    pub(crate) tick: Tick,
}

/// The times of a table, for the callers that manage the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) started: u64,
    /// The tick when it was closed; `None` for the newest.
    pub(crate) closed: Option<u64>,
}

impl<const SLOTS: usize, const VERSION_BITS: u32> IndexedTable<SLOTS, VERSION_BITS> {
    fn new() -> Self {
        let zero = || AtomicU64::new(0);
        IndexedTable { table: OnceLock::new(), life: zero(), started: zero(), closed: AtomicU64::new(u64::MAX) }
    }
}

impl<const SLOTS: usize, const VERSION_BITS: u32> Tables<SLOTS, VERSION_BITS> {
    /// Creates tables with a first one, at the first index.
    pub(crate) fn new(first: Table<SLOTS, VERSION_BITS>, window_ticks: u64) -> Self {
        Tables {
            roster: AtomicU64::new(Roster::first(0).0),
            first,
            by_index: std::array::from_fn(|_| IndexedTable::new()),
            shared: SharedState::new(window_ticks),
        }
    }

    /// Returns the tables in use. A caller agrees on the tick first: then its entries are not
    /// younger than the tables' ends.
    #[inline(always)]
    pub(crate) fn roster(&self) -> Roster {
        // Acquire: partner of the release in `start`. Sequentially consistent: partner of the one
        // there, see `is_current`.
        Roster(self.roster.load(Ordering::SeqCst))
    }

    /// Returns true if the tables in use are still the same, for a caller that has inserted an
    /// entry.
    #[inline(always)]
    pub(crate) fn is_current(&self, roster: Roster) -> bool {
        if obeys(Rule::NewestInOrder) {
            complete_seq_cst();
        }
        // Sequentially consistent, after an insertion that is, too: if another caller has looked
        // for our entry too early to see it, and saw that a table was started, then so do we. Its
        // side is the fence in `order_looks`.
        self.roster() == roster || !obeys(Rule::NewestAgain)
    }

    /// Returns the table at an index that some roster has named.
    #[inline(always)]
    pub(crate) fn table(&self, index: usize) -> &Table<SLOTS, VERSION_BITS> {
        match index {
            0 => &self.first,
            _ => self.by_index[index].table.get().expect("a roster names only indices with a table"),
        }
    }

    /// Returns the table at index 0.
    #[inline(always)]
    pub(crate) fn first(&self) -> TableMemory<'_, SLOTS, VERSION_BITS> {
        self.first.memory(&self.shared)
    }

    #[inline(always)]
    pub(crate) fn memory(&self, index: usize) -> TableMemory<'_, SLOTS, VERSION_BITS> {
        self.table(index).memory(&self.shared)
    }

    /// Checks an id in all tables. `own`: the caller has inserted it into the newest of these
    /// already, and then found another.
    pub(crate) fn check(
        &self,
        id: Digest,
        refresh: bool,
        tick: impl Fn() -> Tick,
        mut own: Option<OwnInsertion>,
    ) -> Outcome {
        loop {
            let tick = tick();
            let moment = &self.shared.moment(tick);
            let roster = self.roster();
            let newer = own.map_or(roster.len(), |own| roster.started_since(own.roster));
            // With refresh, others may copy our entry, if we have stalled for longer than they
            // spare it: we could not tell whose it is. Handling the id twice is better than never.
            let has_stalled = refresh && own.is_some_and(|own| tick.now > own.tick.now + GRACE);
            if newer == 0 || has_stalled {
                return Outcome::Fresh;
            }
            roster.indices().take(newer).for_each(|index| self.prefetch(index, id));
            let newest = self.memory(roster.newest());
            let elsewhere = || self.look_in_older(roster, newer, id, moment, refresh);
            match bucket::check(&newest, place(&newest, id), moment, refresh, elsewhere) {
                Err(Overtaken) => continue,
                Ok(Outcome::Duplicate) if own.is_some() && obeys(Rule::OwnStillThere) => {
                    match own.and_then(|own| self.is_duplicate_of_another(id, own, roster)) {
                        _ if refresh && self.shared.overtaken(moment) => continue,
                        Some(true) => return Outcome::Duplicate,
                        Some(false) => return Outcome::Fresh,
                        None => continue,
                    }
                }
                Ok(Outcome::Fresh) if self.is_current(roster) => return Outcome::Fresh,
                Ok(Outcome::Fresh) => own = obeys(Rule::OwnEntry).then_some(OwnInsertion { roster, tick }),
                Ok(known) => return known,
            }
        }
    }

    /// Returns true if an id that was found in a table that is newer than that of the caller's own
    /// insertion was accepted by another caller before: then the caller's own came too late. `None`
    /// if it is gone by now.
    ///
    /// It does not count if the caller's own may have been an answer to others by then, so that
    /// nobody would handle what they were told is a duplicate. Where we cannot tell, handling the
    /// id twice is better than never.
    #[cold]
    fn is_duplicate_of_another(&self, id: Digest, own: OwnInsertion, roster: Roster) -> Option<bool> {
        let agreed = self.shared.agreed();
        let moment = &self.shared.moment(agreed);
        let newer = roster.started_since(own.roster);
        let stamp_in = |index| {
            let memory = self.memory(index);
            bucket::stamp_of(&memory, place(&memory, id), moment)
        };
        let stamp = roster.indices().take(newer).find_map(stamp_in)?;
        // Somebody who looked for ours when it had expired has accepted the id for the next window.
        let expired = own.tick.stamp + self.shared.window_ticks;
        if stamp >= expired || agreed.now >= own.tick.stamp + SWEEP_KEEPS {
            return Some(false);
        }
        // Somebody has forgotten ours.
        let memory = self.memory(own.roster.newest());
        let since = moment.not_older_than(stamp_bits(own.tick.stamp));
        Some(bucket::contains(&memory, place(&memory, id), &since))
    }

    /// Looks for an id in the newest `among` tables except the newest one.
    fn look_in_older(
        &self,
        roster: Roster,
        among: usize,
        id: Digest,
        moment: &Moment,
        refresh: bool,
    ) -> Result<Elsewhere, Overtaken> {
        if among == 1 || !obeys(Rule::LookOlder) {
            return Ok(Elsewhere::Unknown);
        }
        self.order_looks();
        for index in roster.indices().take(among).skip(1) {
            let memory = self.memory(index);
            let id = place(&memory, id);
            if !refresh && bucket::contains(&memory, id, moment) {
                return Ok(Elsewhere::Settled(Outcome::Duplicate));
            }
            if refresh && bucket::contains(&memory, id, moment) {
                if self.shared.is_clearing() {
                    return Ok(Elsewhere::Settled(Outcome::Duplicate));
                }
                if !self.refreshes_in_place(index, moment) {
                    return Ok(Elsewhere::Known);
                }
                let leave = || Ok(Elsewhere::Settled(Outcome::Fresh));
                if bucket::check(&memory, id, moment, refresh, leave)? == Outcome::Duplicate {
                    return Ok(Elsewhere::Settled(Outcome::Duplicate));
                }
            }
        }
        Ok(Elsewhere::Unknown)
    }

    /// Returns true if an entry of a table may be one whose caller has yet to look whether the
    /// table still is the newest. A copy of it in a newer table would be taken for another
    /// caller's; so for a grace it is refreshed where it is.
    fn refreshes_in_place(&self, index: usize, moment: &Moment) -> bool {
        let closed = self.by_index[index].closed.load(Ordering::Relaxed);
        moment.tick.now <= closed.saturating_add(GRACE) && obeys(Rule::SpareYoung)
    }

    /// Asks for an id's bucket in a table.
    #[inline(always)]
    pub(crate) fn prefetch(&self, index: usize, id: Digest) {
        let memory = self.memory(index);
        memory.prefetch(place(&memory, id).bucket);
    }

    /// Orders memory before looks at older tables.
    #[inline(always)]
    pub(crate) fn order_looks(&self) {
        // Partner of the sequentially consistent insertion and of the look at the roster after it
        // (`is_current`): a caller that inserts into an older table too late for us to see it sees
        // that there is a newer one, since we have seen that before.
        if obeys(Rule::NewestInOrder) {
            fence(Ordering::SeqCst);
        }
    }

    /// Returns true if an id was seen within the window, at a tick or later. Sets no time: a bucket
    /// is looked at, and swept, as of the latest tick that others have agreed on, and entries that
    /// have expired by the caller's tick do not count.
    #[inline]
    pub(crate) fn contains_by(
        &self,
        id: Digest,
        tick: impl Fn() -> Tick,
        contains: impl Fn(TableMemory<'_, SLOTS, VERSION_BITS>, Place, &Moment) -> bool,
    ) -> bool {
        loop {
            let now = tick().now;
            let agreed = self.shared.agreed();
            let moment = &self.shared.moment(agreed).seen_from(now.saturating_sub(agreed.now));
            let is_in = |index| {
                let memory = self.memory(index);
                contains(memory, place(&memory, id), moment)
            };
            let found = self.roster().indices().any(is_in);
            if found || !self.shared.overtaken(moment) {
                return found;
            }
        }
    }

    /// Returns the tick with which an id was stamped that was seen within the window, at a tick or
    /// later. Sets no time, as [`contains_by`](Self::contains_by).
    pub(crate) fn stamp_of(&self, id: Digest, now: Tick) -> Option<u64> {
        loop {
            let agreed = self.shared.agreed();
            let moment = &self.shared.moment(agreed).seen_from(now.now.saturating_sub(agreed.now));
            meanwhile(mutation::Place::AboutToStamp);
            let stamp_in = |index| {
                let memory = self.memory(index);
                bucket::stamp_of(&memory, place(&memory, id), moment)
            };
            // With refresh, several tables may have it.
            let found = self.roster().indices().filter_map(stamp_in).max();
            // Also if it was found: once the bits of a tick have wrapped around, the entry is not
            // as old as it seems.
            if !self.shared.overtaken(moment) {
                return found;
            }
        }
    }

    /// Returns true if an id was seen within the window; looks at buckets in the portable way.
    #[cfg(modelled)]
    pub(crate) fn contains(&self, id: Digest, tick: impl Fn() -> Tick) -> bool {
        self.contains_by(id, tick, |memory, id, moment| bucket::contains(&memory, id, moment))
    }

    /// Forgets an id; returns true if it was remembered. A check that begins when this has returned
    /// finds it fresh.
    pub(crate) fn forget(&self, id: Digest, refresh: bool, tick: impl Fn() -> Tick) -> bool {
        let moment = || self.shared.moment(tick());
        let mut remembered = false;
        self.in_all_tables(refresh, |index, is_last| {
            let memory = self.memory(index);
            remembered |= forget::forget(&memory, place(&memory, id), moment, refresh && is_last);
        });
        remembered
    }

    /// Forgets all ids that were accepted before the call.
    pub(crate) fn forget_all(&self, refresh: bool, tick: impl Fn() -> Tick) {
        let moment = || self.shared.moment(tick());
        let clear = || self.in_all_tables(refresh, |index, _| forget::forget_all(&self.memory(index), moment, refresh));
        self.shared.while_clearing(clear);
    }

    /// Forgets in one table after another, in the order in which no caller brings an entry back.
    ///
    /// - From the newest to the oldest: a caller that inserts into an older table too late looks at
    ///   the newer ones after that; if it left its entry behind us, it finds them clean, inserts,
    ///   and that counts as accepted after the forgetting.
    /// - With refresh, the newest once more: a caller that found the id in an older table is about
    ///   to insert it there.
    /// - All over again if a table was started meanwhile, for the same reason.
    ///
    /// `forget_in` is told whether it is the last visit to a table: before that, others may bring
    /// the id again and again from an older one.
    fn in_all_tables(&self, refresh: bool, mut forget_in: impl FnMut(usize, bool)) {
        loop {
            let roster = self.roster();
            let comes_again = refresh && !roster.is_single() && obeys(Rule::ForgetNewestFirst);
            let mut visit = |index, is_last| {
                forget_in(index, is_last);
                // Partner of itself in a caller's second look: see above.
                fence(Ordering::SeqCst);
            };
            let mut first_visit = |index| visit(index, !comes_again || index != roster.newest());
            if obeys(Rule::ForgetNewestFirst) {
                roster.indices().for_each(&mut first_visit);
            } else {
                roster.indices().rev().for_each(&mut first_visit);
            }
            if comes_again {
                visit(roster.newest(), true);
            }
            if self.roster() == roster || !obeys(Rule::ForgetAgain) {
                return;
            }
        }
    }

    /// Puts a table at an index that is not in use, all of it ready.
    #[cfg(any(test, fuzzing, explore))]
    pub(crate) fn prepare(&self, index: usize, buckets: usize) -> Result<(), Error> {
        let life = self.reserve(index, buckets)?;
        let table = self.table(index);
        (0..table.parts()).try_for_each(|part| table.prepare(part, life))
    }

    /// Puts a table at an index that is not in use: a new one, or the one that is there already.
    /// Returns which of its lives begins, if not the first: all of its parts must be
    /// [prepared](Table::prepare) for it, by any caller.
    ///
    /// Only the caller that manages the tables may call this and the functions that follow, and
    /// only one at a time.
    pub(crate) fn reserve(&self, index: usize, buckets: usize) -> Result<Option<u64>, Error> {
        let IndexedTable { table, life, .. } = &self.by_index[index];
        if index != 0 && table.get().is_none() {
            let _ = table.set(Table::reserve(buckets)?);
            return Ok(None);
        }
        // Relaxed: one caller at a time.
        let next = life.load(Ordering::Relaxed) + 1;
        self.table(index).revive(next)?;
        life.store(next, Ordering::Relaxed);
        Ok(Some(next))
    }

    /// Makes a table that was prepared the newest; returns false if there are too many.
    pub(crate) fn start(&self, index: usize) -> bool {
        let roster = self.roster();
        let Some(next) = roster.started(index) else {
            return false;
        };
        self.by_index[index].started.store(self.shared.latest(), Ordering::Relaxed);
        self.by_index[index].closed.store(u64::MAX, Ordering::Relaxed);
        meanwhile(mutation::Place::Starting);
        // Release: partner of `roster`: a caller that sees the table in the roster sees its
        // buckets. Sequentially consistent: see `is_current`.
        self.roster.store(next.0, Ordering::SeqCst);
        // A caller that agrees on a later tick sees the new roster. (And stamps are rounded up by
        // two at most.)
        let closed = self.shared.close();
        self.by_index[roster.newest()].closed.store(closed.now.saturating_add(2), Ordering::Relaxed);
        true
    }

    /// Retires the oldest table if it is not the only one and nothing in it is live for any caller,
    /// or if `early`. Returns its index.
    ///
    /// A caller that still looks at it then, with an older roster, is overtaken.
    pub(crate) fn retire(&self, now: u64, early: bool) -> Option<usize> {
        let roster = self.roster();
        let oldest = roster.oldest();
        let next = roster.without_oldest()?;
        if now < self.expires(oldest) && !early {
            return None;
        }
        self.roster.store(next.0, Ordering::SeqCst);
        Some(oldest)
    }

    /// Returns true if the oldest table can be retired.
    pub(crate) fn has_expired(&self, now: u64) -> bool {
        let roster = self.roster();
        !roster.is_single() && now >= self.expires(roster.oldest())
    }

    /// Returns the tick from which on nothing in a table that is not the newest is live for any
    /// caller.
    pub(crate) fn expires(&self, index: usize) -> u64 {
        // For callers that look with an older roster, and for entries that were refreshed after the
        // end (see `refreshes_in_place`).
        let grace = if obeys(Rule::RetireLate) { 2 * GRACE + GRACE + 2 } else { 0 };
        let closed = self.by_index[index].closed.load(Ordering::Relaxed);
        closed.saturating_add(self.shared.window_ticks + grace)
    }

    pub(crate) fn times(&self, index: usize) -> Times {
        let IndexedTable { started, closed, .. } = &self.by_index[index];
        let is_newest = self.roster().newest() == index;
        Times { started: started.load(Ordering::Relaxed), closed: (!is_newest).then(|| closed.load(Ordering::Relaxed)) }
    }
}

/// Returns the place of an id in a table.
#[inline(always)]
pub(crate) fn place<M: BucketMemory>(memory: &M, id: Digest) -> Place {
    Place { bucket: scale(id.place, memory.buckets()), tag: Tag::of(id.mark) }
}
