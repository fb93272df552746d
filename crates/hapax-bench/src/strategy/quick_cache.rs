//! `quick_cache`: a cache that evicts by S3-FIFO, in shards with a lock each.

use super::expiring::{Map, Moment, SHARDS_PER_THREAD, names};
use super::{Allowance, Failure, Id, Plan};
use quick_cache::sync::{Cache, DefaultLifecycle, EntryAction, EntryResult};
use quick_cache::{OptionsBuilder, Weighter};
use std::borrow::Borrow;
use std::marker::PhantomData;

/// The maps' own hash, finished: a shard is chosen by bits in the middle, and of one process in
/// 900 the unfinished hash put most multiples of 2^24 in one shard, which then evicted live ids.
/// (20,000 seeds, 875 ids, 16 shards: up to 512 ids in one; finished, 89.)
type Hasher = foldhash::quality::RandomState;

pub(super) type Accepted<I> = Cache<<I as ToOwned>::Owned, u32, Weigher<I>, Hasher>;

/// The bytes of an entry besides its key, with its place in the table: found by filling a cache.
const ENTRY_BYTES: usize = 40;

/// The share of a budget that is kept for entries that were asked for again. The default, 97 %, is
/// filled with the ids that come first, which then push out those that come later. But a window is
/// about the latest ids, and the documentation advises to lower the share "if your workload
/// exhibits heavy bias towards recency". Of 50,000 live ids in a budget for 87 % of them it missed
/// 89 % with the default, 51 % with half, and 14 % with this.
const HOT: f64 = 0.02;

/// The least bytes that they get in each shard, since an entry that does not fit there is not
/// stored at all.
const HOT_BYTES_MIN: f64 = 512.0;

/// The weight of entries: their bytes in a budget, else one each.
pub(super) struct Weigher<I: ?Sized> {
    by_bytes: bool,
    id: PhantomData<fn(&I)>,
}

impl<I: ?Sized> Clone for Weigher<I> {
    fn clone(&self) -> Self {
        Weigher { by_bytes: self.by_bytes, id: PhantomData }
    }
}

impl<I: Id + ?Sized> Weighter<I::Owned, u32> for Weigher<I> {
    #[inline(always)]
    fn weight(&self, id: &I::Owned, _accepted: &u32) -> u64 {
        match self.by_bytes {
            false => 1,
            true => (ENTRY_BYTES + size_of::<I::Owned>() + id.borrow().heap_bytes()) as u64,
        }
    }
}

/// A map that evicts only in a budget: entries beyond the budget. Without one, its capacity is four
/// times the number that is purged to, in whatever shard an id falls, since an evicted id is a lost
/// id.
impl<I: Id + ?Sized> Map<I> for Accepted<I> {
    const NAMES: [&'static str; 2] = names!("quick_cache");
    const TAKES_BUDGET: bool = true;

    fn new(ids: usize, plan: &Plan) -> Result<Self, Failure> {
        let entry_bytes = (ENTRY_BYTES + size_of::<I::Owned>()) as u64;
        let (ids, weight) = match plan.budget_bytes {
            None => (ids, 4 * ids as u64),
            Some(bytes) if bytes < entry_bytes => {
                return Err(format!("a budget of {bytes} bytes; an entry takes {entry_bytes}").into());
            }
            Some(bytes) => (ids.min(usize::try_from(bytes / entry_bytes)?), bytes),
        };
        let shards = plan.threads * SHARDS_PER_THREAD;
        let mut options = OptionsBuilder::new();
        options.shards(shards).estimated_items_capacity(ids).weight_capacity(weight).ghost_allocation(0.0);
        if let Some(bytes) = plan.budget_bytes {
            let least = HOT_BYTES_MIN * shards.next_power_of_two() as f64 / bytes as f64;
            options.hot_allocation(least.clamp(HOT, 0.97));
        }
        let weigher = Weigher { by_bytes: plan.budget_bytes.is_some(), id: PhantomData };
        let cache = Cache::with_options(options.build()?, weigher, Hasher::default(), DefaultLifecycle::default());
        cache.reserve(ids);
        Ok(cache)
    }

    #[inline(always)]
    fn accept(&self, id: &I, now: Moment) -> bool {
        match self.entry(id, None, |_, accepted| EntryAction::Retain(now.renew(accepted))) {
            EntryResult::Retained(fresh) => fresh,
            EntryResult::Vacant(place) => {
                // It fails only if the place was removed meanwhile, which only purges do.
                let _ = place.insert(now.stamp());
                true
            }
            _ => unreachable!("no timeout was given, and no entry is removed or replaced"),
        }
    }

    fn purge(&self, now: Moment) {
        self.retain(|_, accepted| now.is_live(*accepted));
    }

    /// Returns no promise in a budget.
    fn allowance(plan: &Plan) -> Allowance {
        Allowance { missed: if plan.budget_bytes.is_some() { 1.0 } else { 0.0 }, ..Allowance::NONE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::{Place, Plan};
    use std::time::Duration;

    #[test]
    fn it_holds_what_its_budget_has_room_for() {
        fn held<I: Id + ?Sized>(budget_bytes: u64) -> usize {
            let window = Duration::from_secs(100);
            let plan =
                Plan { window, live: 20_000, threads: 1, budget_bytes: Some(budget_bytes), place: Place::Memory };
            let cache = <Accepted<I> as Map<I>>::new(40_000, &plan).unwrap();
            let now = Moment::at_start(window);
            assert!((0..20_000).all(|number| Map::<I>::accept(&cache, I::numbered(number).borrow(), now)));
            assert!(cache.weight() <= budget_bytes + 64 * 200, "{} of {budget_bytes}", cache.weight());
            cache.len()
        }
        let integers = held::<u64>(480_000);
        assert!((8_500..=10_300).contains(&integers), "{integers} of 48 bytes each");
        let texts = held::<[u8]>(500_000);
        assert!((4_400..=5_200).contains(&texts), "{texts} of 100 bytes each");
        assert_eq!(held::<[u8; 16]>(4_000_000), 20_000);
    }

    #[test]
    fn in_a_budget_it_knows_the_latest_however_long_they_are() {
        fn known<I: Id + ?Sized>(live: u64, budget_bytes: u64) -> usize {
            let window = Duration::from_secs(100);
            let live_ids = live as usize;
            let plan =
                Plan { window, live: live_ids, threads: 1, budget_bytes: Some(budget_bytes), place: Place::Memory };
            let cache = <Accepted<I> as Map<I>>::new(live_ids, &plan).unwrap();
            let now = Moment::at_start(window);
            assert!((0..live).all(|number| Map::<I>::accept(&cache, I::numbered(number).borrow(), now)));
            // The ids that it has room for, less a tenth.
            (live - 2 * live / 5..live)
                .rev()
                .filter(|&n| !Map::<I>::accept(&cache, I::numbered(n).borrow(), now))
                .count()
        }
        for live in [20_000, 80_000] {
            let integers = known::<u64>(live, live * 48 / 2);
            assert!(integers as u64 >= live * 38 / 100, "{integers} of {live}");
            let texts = known::<[u8]>(live, live * 100 / 2);
            assert!(texts as u64 >= live * 38 / 100, "{texts} of {live}");
        }
    }
}
