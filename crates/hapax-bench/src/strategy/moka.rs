//! `moka`: a cache that expires entries by itself, on its own clock.

use super::expiring::Hasher;
use super::{Allowance, Failure, Id, Plan, Sort, Strategy};
use hapax::Timestamp;
use moka::ops::compute::{CompResult, Op};
use moka::sync::Cache;
use std::borrow::Borrow;
use std::time::{Duration, Instant};

/// The only strategy that cannot be given the time of the stream.
///
/// Its time to live is the real time that a window's checks take, as far as a short calibration can
/// tell, so only about the right number of ids is live: [`held`](Strategy::held) counts them. When
/// the machine stalls for most of that time, redeliveries are missed.
pub struct Moka<K>(Cache<K, (), Hasher>);

impl<K: std::hash::Hash + Eq + Send + Sync + 'static> Moka<K> {
    fn with_time_to_live(time: Duration, ids: usize) -> Self {
        let cache = Cache::builder().initial_capacity(ids).time_to_live(time);
        Moka(cache.build_with_hasher(Hasher::default()))
    }
}

impl<I: Id + ?Sized> Strategy<I> for Moka<I::Owned> {
    const NAME: &'static str = "moka";
    const SORT: Sort = Sort::Window;
    const EXPIRES: bool = false;

    fn new(plan: &Plan) -> Result<Self, Failure> {
        Ok(Self::with_time_to_live(window_time::<I>(plan), plan.live))
    }

    #[inline(always)]
    fn check(&self, id: &I, _now: Timestamp) -> bool {
        accept(&self.0, id)
    }

    fn allowance(_plan: &Plan) -> Allowance {
        Allowance { missed: 1.0, ..Allowance::NONE }
    }

    fn held(&self) -> Option<u64> {
        self.0.run_pending_tasks(); // without which it may be far behind
        Some(self.0.entry_count())
    }
}

/// Accepts an id that is absent, in one atomic step. Returns true if it was.
///
/// `or_insert` would be shorter, but it looks up first and inserts then, so two threads are both
/// told that an id is fresh: of 300,000 ids that four threads checked, this was so for up to 387.
#[inline(always)]
fn accept<I: Id + ?Sized>(cache: &Cache<I::Owned, (), Hasher>, id: &I) -> bool {
    let seen = cache.entry_by_ref(id).and_compute_with(|known| match known {
        Some(_) => Op::Nop,
        None => Op::Put(()),
    });
    matches!(seen, CompResult::Inserted(_))
}

/// Returns the real time in which as many ids are accepted as are live.
///
/// Measured over a smaller cache in its steady state: filled once, then filled again while the
/// first ids expire.
fn window_time<I: Id + ?Sized>(plan: &Plan) -> Duration {
    const SMALLER: u32 = 8;
    let ids = (plan.live as u64 / u64::from(SMALLER)).max(1);
    let fill = |cache: &Moka<I::Owned>, start: u64| {
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..plan.threads as u64 {
                let own = (start..start + ids).skip(thread as usize).step_by(plan.threads);
                scope.spawn(move || own.for_each(|n| _ = accept::<I>(&cache.0, I::numbered(n).borrow())));
            }
        });
        begun.elapsed()
    };
    let unlimited = Moka::with_time_to_live(Duration::from_secs(3600), ids as usize);
    let guess = fill(&unlimited, 0);
    drop(unlimited);
    let limited = Moka::with_time_to_live(guess, ids as usize);
    fill(&limited, 0);
    fill(&limited, ids) * SMALLER
}
