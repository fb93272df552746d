//! The strategies of this crate: its window, its window with a history behind it, and its history
//! alone.

use super::{Allowance, FALSE_POSITIVE_RATE, Failure, Id, Plan, Sort, Strategy};
use hapax::seam::HistoryTier;
use hapax::{Dedup, Digest, Digester, History, Outcome, Timestamp, Unconfirmed, Verdict};
use std::cell::RefCell;

// The buffer that a caller of batches keeps from one to the next; the trait has no place for it.
thread_local! {
    static VERDICTS: RefCell<Vec<Verdict>> = const { RefCell::new(Vec::new()) };
    static DIGESTS: RefCell<Vec<Digest>> = const { RefCell::new(Vec::new()) };
    static OUTCOMES: RefCell<Vec<Outcome>> = const { RefCell::new(Vec::new()) };
}

/// The engine, with a history of two windows or without one.
pub struct Hapax<const WITH_HISTORY: bool>(pub(super) Dedup);

impl<I: Id + ?Sized, const WITH_HISTORY: bool> Strategy<I> for Hapax<WITH_HISTORY> {
    const NAME: &'static str = if WITH_HISTORY { "hapax window+history" } else { "hapax window" };
    const SORT: Sort = Sort::Window;
    const REMEMBERS_LONGER: bool = WITH_HISTORY;

    fn new(plan: &Plan) -> Result<Self, Failure> {
        let mut builder = Dedup::builder().window(plan.window).capacity(plan.live);
        if WITH_HISTORY {
            builder = builder.history(History {
                horizon: plan.window * 2,
                ids: plan.live * 2,
                false_positive_rate: FALSE_POSITIVE_RATE,
                unconfirmed: Unconfirmed::Duplicate,
            });
        }
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

    fn allowance(_plan: &Plan) -> Allowance {
        // Invented: two equal tags in a line. Missed: ids lost before their time, few at rated
        // capacity.
        Allowance { missed: 3e-6, invented: if WITH_HISTORY { FALSE_POSITIVE_RATE } else { 1e-13 } }
    }
}

/// The history alone, for as many ids as are live.
pub struct HapaxHistory {
    digester: Digester,
    history: HistoryTier,
}

impl<I: Id + ?Sized> Strategy<I> for HapaxHistory {
    const NAME: &'static str = "hapax history";
    const SORT: Sort = Sort::Filter;
    const EXPIRES: bool = false;

    fn new(plan: &Plan) -> Result<Self, Failure> {
        let history = HistoryTier::new(plan.window, FALSE_POSITIVE_RATE, plan.live)?;
        Ok(HapaxHistory { digester: Digester::random()?, history })
    }

    #[inline(always)]
    fn check(&self, id: &I, now: Timestamp) -> bool {
        self.history.check(self.digester.digest(id.bytes()), now) == Outcome::Fresh
    }

    #[inline(always)]
    fn check_batch<'a>(&self, ids: impl Iterator<Item = &'a I>, now: Timestamp, fresh: &mut Vec<bool>) {
        DIGESTS.with_borrow_mut(|digests| {
            digests.clear();
            digests.extend(ids.map(|id| self.digester.digest(id.bytes())));
            OUTCOMES.with_borrow_mut(|outcomes| {
                self.history.check_batch(digests, now, outcomes);
                fresh.clear();
                fresh.extend(outcomes.iter().map(|&outcome| outcome == Outcome::Fresh));
            });
        });
    }

    fn allowance(_plan: &Plan) -> Allowance {
        Allowance { invented: FALSE_POSITIVE_RATE, ..Allowance::NONE }
    }
}
