//! The window of this crate: alone, with a history behind it, and with a journal.

use super::{Allowance, FALSE_POSITIVE_RATE, Failure, Id, Needs, Plan, Sort, Strategy};
use hapax::{Dedup, History, JournalOptions, Timestamp, Unconfirmed, Verdict};
use std::cell::RefCell;

// The buffer that a caller of batches keeps from one to the next; the trait has no place for it.
thread_local! {
    static VERDICTS: RefCell<Vec<Verdict>> = const { RefCell::new(Vec::new()) };
}

/// The engine, with what is beside its window.
///
/// The history is one of two windows. The journal is on disk, synced in groups: no check waits for
/// it, since a group is written and synced after 5 ms, or with a MiB, in a thread of the journal's
/// own. So its user acknowledges in groups, too, when the journal says that they are durable
/// (`JournalHandle::flush_async`); a crash loses only ids that were not acknowledged. If ids come
/// faster than the disk takes them, checks wait.
pub struct Hapax<const BESIDE: u8>(Dedup);

pub const NOTHING: u8 = 0;
pub const HISTORY: u8 = 1;
pub const JOURNAL: u8 = 2;

impl<I: Id + ?Sized, const BESIDE: u8> Strategy<I> for Hapax<BESIDE> {
    const NAME: &'static str = match BESIDE {
        HISTORY => "hapax window+history",
        JOURNAL => "hapax window+journal",
        _ => "hapax window",
    };
    const SORT: Sort = if BESIDE == JOURNAL { Sort::Durable } else { Sort::Window };
    const NEEDS: Needs = if BESIDE == JOURNAL { Needs::Directory } else { Needs::Nothing };
    const EXPIRES: bool = BESIDE != HISTORY;
    const READS_AHEAD: bool = true;

    fn new(plan: &Plan) -> Result<Self, Failure> {
        let builder = Dedup::builder().window(plan.window).capacity(plan.live);
        let builder = match BESIDE {
            HISTORY => builder.history(History {
                horizon: plan.window * 2,
                ids: plan.live * 2,
                false_positive_rate: FALSE_POSITIVE_RATE,
                unconfirmed: Unconfirmed::Duplicate,
            }),
            JOURNAL => builder.journal(plan.directory()?, JournalOptions::new()),
            _ => builder,
        };
        Ok(Hapax(builder.build()?))
    }

    #[inline(always)]
    fn check(&self, id: &I, now: Timestamp) -> bool {
        self.0.check_at(id.bytes(), now).is_fresh()
    }

    #[inline(always)]
    fn check_batch<'a>(&self, ids: impl Iterator<Item = &'a I>, now: Timestamp, fresh: &mut Vec<bool>) {
        VERDICTS.with_borrow_mut(|verdicts| {
            self.0.check_batch_at(ids.map(Id::bytes), now, verdicts);
            fresh.clear();
            fresh.extend(verdicts.iter().map(|verdict| verdict.is_fresh()));
        });
    }

    #[inline(always)]
    fn check_ahead<'a>(&self, ids: impl Iterator<Item = &'a I>, now: Timestamp, mut answered: impl FnMut(bool)) {
        let mut ids = ids.map(|id| self.0.prepare(id.bytes()));
        let mut next = ids.next();
        while let Some(id) = next {
            next = ids.next();
            answered(self.0.check_at(id, now).is_fresh());
        }
    }

    /// # Panics
    ///
    /// If a journal cannot be written any more: the rest would be measured without it.
    fn advance(&self, _now: Timestamp) {
        if BESIDE == JOURNAL
            && let Err(error) = self.0.journal().and_then(|journal| journal.durable())
        {
            panic!("{}: {error}", <Self as Strategy<I>>::NAME);
        }
    }

    fn allowance(_plan: &Plan) -> Allowance {
        // Invented: two equal tags in a line. Missed: ids lost before their time, few at rated
        // capacity.
        Allowance { missed: 3e-6, invented: if BESIDE == HISTORY { FALSE_POSITIVE_RATE } else { 1e-13 } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::Place;
    use std::borrow::Borrow;
    use std::time::Duration;

    fn open<I: Id + ?Sized>(place: Place) -> Result<Hapax<JOURNAL>, Failure> {
        let window = Duration::from_secs(100);
        <Hapax<JOURNAL> as Strategy<I>>::new(&Plan { window, live: 4_000, threads: 1, place })
    }

    fn remembers<I: Id + ?Sized>() {
        let directory = tempfile::tempdir().unwrap();
        let open = || open::<I>(Place::Directory(directory.path().to_owned())).unwrap();
        // Half of its capacity: of that many none is lost.
        let ids: Vec<I::Owned> = (0..2_000).map(I::numbered).collect();
        let fresh_at = |journaled: &Hapax<JOURNAL>, second| {
            let mut fresh = Vec::new();
            let ids = ids.iter().map(Borrow::borrow);
            Strategy::<I>::check_batch(journaled, ids, Timestamp::from_secs(second), &mut fresh);
            Strategy::<I>::advance(journaled, Timestamp::from_secs(second));
            fresh.iter().filter(|fresh| **fresh).count()
        };
        let first = open();
        assert_eq!(fresh_at(&first, 1), 2_000);
        assert_eq!(fresh_at(&first, 100), 0);
        drop(first);
        let second = open();
        assert!(!Strategy::<I>::check(&second, ids[0].borrow(), Timestamp::from_secs(100)));
        assert_eq!(fresh_at(&second, 100), 0, "the journal has them");
        assert_eq!(fresh_at(&second, 103), 2_000, "they have expired");
    }

    #[test]
    fn what_it_has_accepted_is_known_to_the_next_one() {
        remembers::<u64>();
        remembers::<[u8]>();
    }

    #[test]
    fn without_a_directory_it_cannot_be_built() {
        assert!(open::<u64>(Place::Memory).err().unwrap().to_string().contains("directory"));
    }
}
