//! The strategies of this crate: its window, its window with a history behind it, and its history
//! alone.

use super::{Allowance, FALSE_POSITIVE_RATE, Failure, Id, Plan, Sort, Strategy};
use hapax::tier::rate_in;
use hapax::{Dedup, Digest, Digester, History, Outcome, Timestamp, Verdict};
use std::cell::RefCell;

// The buffer that a caller of batches keeps from one to the next; the trait has no place for it.
thread_local! {
    static VERDICTS: RefCell<Vec<Verdict>> = const { RefCell::new(Vec::new()) };
    static DIGESTS: RefCell<Vec<Digest>> = const { RefCell::new(Vec::new()) };
    static OUTCOMES: RefCell<Vec<Outcome>> = const { RefCell::new(Vec::new()) };
}

/// The engine, with a history of two windows or without one.
///
/// *In a budget*: a window with room for fewer ids than are live forgets the oldest early, and
/// counts them. With a history, both get the shares of the budget that they would have without one:
/// the history still knows the ids that the window forgets.
pub struct Hapax<const WITH_HISTORY: bool>(pub(super) Dedup);

/// The bytes for an id in a window at its rated capacity, and in a history of two windows.
const WINDOW_BYTES_AN_ID: f64 = 18.5;
const HISTORY_BYTES_AN_ID: f64 = 10.0;

/// The division of a budget.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shares {
    window_bytes: Option<u64>,
    /// Live ids that the window has room for.
    capacity: usize,
    false_positive_rate: f64,
}

impl Shares {
    fn of(plan: &Plan, with_history: bool) -> Self {
        let Some(bytes) = plan.budget_bytes else {
            return Shares { window_bytes: None, capacity: plan.live, false_positive_rate: FALSE_POSITIVE_RATE };
        };
        let share = WINDOW_BYTES_AN_ID / (WINDOW_BYTES_AN_ID + HISTORY_BYTES_AN_ID);
        let window_bytes = match with_history {
            true => (share * bytes as f64).min(WINDOW_BYTES_AN_ID * plan.live as f64) as u64,
            false => bytes,
        };
        let room = (window_bytes as f64 / WINDOW_BYTES_AN_ID) as usize;
        Shares {
            window_bytes: Some(window_bytes),
            capacity: plan.live.min(room).max(1),
            false_positive_rate: rate_in(bytes - window_bytes, 2 * plan.live),
        }
    }
}

/// Refuses a filter that has no useful rate in this budget.
fn possible(rate: f64, plan: &Plan) -> Result<f64, Failure> {
    let bytes = plan.budget_bytes.unwrap_or(0);
    match rate < RATE_MAX {
        true => Ok(rate),
        false => {
            Err(format!("a budget of {bytes} bytes is not enough for a filter, with {} live ids", plan.live).into())
        }
    }
}

/// The rate above which a filter is of no use.
const RATE_MAX: f64 = 0.9;

impl<I: Id + ?Sized, const WITH_HISTORY: bool> Strategy<I> for Hapax<WITH_HISTORY> {
    const NAME: &'static str = if WITH_HISTORY { "hapax window+history" } else { "hapax window" };
    const SORT: Sort = Sort::Window;
    const TAKES_BUDGET: bool = true;
    const BATCHES: bool = true;
    const REMEMBERS_LONGER: bool = WITH_HISTORY;

    fn new(plan: &Plan) -> Result<Self, Failure> {
        let shares = Shares::of(plan, WITH_HISTORY);
        let mut builder = Dedup::builder().window(plan.window).capacity(shares.capacity);
        if let Some(bytes) = shares.window_bytes {
            builder = builder.max_memory_bytes(usize::try_from(bytes)?);
        }
        if WITH_HISTORY {
            let rate = possible(shares.false_positive_rate, plan)?;
            builder = builder.history(plan.window * 2, rate, plan.live * 2);
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

    fn allowance(plan: &Plan) -> Allowance {
        let shares = Shares::of(plan, WITH_HISTORY);
        // Invented: two equal tags in a line. Missed: ids lost before their time, few at rated
        // capacity and any number beyond it.
        let invented = if WITH_HISTORY { shares.false_positive_rate } else { 1e-13 };
        let missed = if shares.capacity < plan.live && !WITH_HISTORY { 1.0 } else { 3e-6 };
        Allowance { missed, invented }
    }

    fn evicted_live(&self) -> Option<u64> {
        Some(self.0.evicted_live())
    }
}

/// Returns the rate of a history that has the budget to itself.
fn history_rate(plan: &Plan) -> f64 {
    plan.budget_bytes.map_or(FALSE_POSITIVE_RATE, |bytes| rate_in(bytes, plan.live))
}

/// The history alone, for as many ids as are live.
pub struct HapaxHistory {
    digester: Digester,
    history: History,
}

impl<I: Id + ?Sized> Strategy<I> for HapaxHistory {
    const NAME: &'static str = "hapax history";
    const SORT: Sort = Sort::Filter;
    const TAKES_BUDGET: bool = true;
    const BATCHES: bool = true;
    const EXPIRES: bool = false;

    fn new(plan: &Plan) -> Result<Self, Failure> {
        let history = History::new(plan.window, possible(history_rate(plan), plan)?, plan.live)?;
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

    fn allowance(plan: &Plan) -> Allowance {
        Allowance { invented: history_rate(plan), ..Allowance::NONE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::Place;
    use std::time::Duration;

    const LIVE: usize = 100_000;

    fn plan(bytes_an_id: u64) -> Plan {
        let budget_bytes = Some(bytes_an_id * LIVE as u64);
        Plan { window: Duration::from_secs(100), live: LIVE, threads: 1, budget_bytes, place: Place::Memory }
    }

    /// Checks two windows of new ids. Returns how many of those of the last half window are known,
    /// and of those before it.
    fn known<const WITH_HISTORY: bool>(engine: &Hapax<WITH_HISTORY>) -> [usize; 2] {
        let id = |tick: u64, n: u64| tick * LIVE as u64 / 100 + n;
        let checks = |ticks: std::ops::Range<u64>, at: Option<u64>| {
            let all = ticks.flat_map(|tick| (0..LIVE as u64 / 100).map(move |n| (tick, n)));
            all.filter(|&(tick, n)| {
                !Strategy::<u64>::check(engine, &id(tick, n), Timestamp::from_secs(at.unwrap_or(tick)))
            })
            .count()
        };
        checks(0..200, None);
        // The latest ids come first: an id that is not known is accepted, and takes another one's
        // place.
        [checks(150..200, Some(199)), checks(101..150, Some(199))]
    }

    #[test]
    fn a_window_stays_in_its_budget_and_counts_what_it_forgets() {
        for (bytes_an_id, is_enough) in [(19, true), (10, false), (5, false)] {
            let engine = <Hapax<false> as Strategy<u64>>::new(&plan(bytes_an_id)).unwrap();
            let [recent, older] = known(&engine);
            let budget = plan(bytes_an_id).budget_bytes.unwrap();
            assert!(engine.0.stats().window.bytes as u64 <= budget, "{bytes_an_id}");
            let evicted = engine.0.evicted_live();
            let missed = LIVE * 99 / 100 - recent - older;
            match is_enough {
                true => assert!(missed < 10 && evicted < 10, "{missed} missed, {evicted} evicted"),
                // Beyond its rated capacity a window has slots left, so it misses fewer ids than
                // the excess; the oldest are missed first.
                false => {
                    assert!(missed > LIVE / 50 && evicted > LIVE as u64 / 10, "{missed} missed, {evicted} evicted");
                    assert!(recent > older, "{recent} and {older} known");
                }
            }
        }
    }

    #[test]
    fn what_the_window_forgets_the_history_knows() {
        for bytes_an_id in [30, 20, 10] {
            let plan = plan(bytes_an_id);
            let engine = <Hapax<true> as Strategy<u64>>::new(&plan).unwrap();
            assert_eq!(known(&engine), [LIVE / 2, LIVE * 49 / 100]);
            let stats = engine.0.stats();
            assert!(stats.bytes as u64 <= plan.budget_bytes.unwrap() + 100_000, "{} bytes", stats.bytes);
            let evicted = stats.window.evicted_live;
            assert!(if bytes_an_id == 10 { evicted > LIVE as u64 / 10 } else { evicted < 1_000 }, "{evicted} evicted");
        }
    }

    #[test]
    fn budgets_are_divided_as_they_are_taken() {
        let shares = |bytes_an_id| Shares::of(&plan(bytes_an_id), true);
        assert!(shares(28).capacity < LIVE && shares(29).capacity == LIVE);
        let rate = shares(29).false_positive_rate;
        assert!((0.5e-3..2e-3).contains(&rate), "{rate}: about that without a budget");
        assert!(shares(50).false_positive_rate < rate && shares(10).false_positive_rate > rate);
        assert_eq!(shares(50).capacity, LIVE);
        assert_eq!(Shares::of(&Plan { budget_bytes: None, ..plan(1) }, true).window_bytes, None);
    }
}
