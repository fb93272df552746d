//! `crossbeam_skiplist::SkipMap`: ids in a skip list, and in a second one in the order of time, so
//! that expiry takes what is first and reads nothing else.

use super::{Failure, Id, Plan, Sort, Strategy};
use crossbeam_skiplist::SkipMap;
use hapax::Timestamp;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The expired ids that a check removes which accepts one: more than come.
const REMOVED: usize = 2;

/// An acceptance of an id: its time in nanoseconds, and a number that no other has.
type Acceptance = (u64, u64);

/// Two skip lists. No purge holds anything up, and no lock is taken; each check searches a list
/// whose nodes are where they were allocated.
pub struct SkipLists<K> {
    accepted: SkipMap<K, Acceptance>,
    by_time: SkipMap<Acceptance, K>,
    /// In nanoseconds.
    window: u64,
}

/// Returns a number that is returned once in a process. Threads share nothing for it.
fn number() -> u64 {
    static THREADS: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        // Relaxed: all that counts is that each thread has another one.
        static NEXT: Cell<u64> = Cell::new(THREADS.fetch_add(1, Ordering::Relaxed) << 44);
    }
    NEXT.with(|next| next.replace(next.get() + 1))
}

impl<K: Ord + Clone + Send + 'static> SkipLists<K> {
    fn has_expired(&self, accepted: Acceptance, now: u64) -> bool {
        now.saturating_sub(accepted.0) >= self.window
    }

    /// Removes ids that have expired, the oldest first. Returns true if there was one.
    fn remove_expired(&self, now: u64) -> bool {
        let Some(oldest) = self.by_time.front().filter(|oldest| self.has_expired(*oldest.key(), now)) else {
            return false;
        };
        // Whoever removes it here removes it there, unless it was accepted again meanwhile.
        if oldest.remove()
            && let Some(entry) = self.accepted.get(oldest.value())
            && entry.value() == oldest.key()
        {
            entry.remove();
        }
        true
    }
}

impl<I: Id + ?Sized> Strategy<I> for SkipLists<I::Key> {
    const NAME: &'static str = "crossbeam-skiplist";
    const SORT: Sort = Sort::Window;

    fn new(plan: &Plan) -> Result<Self, Failure> {
        let window = u64::try_from(plan.window.as_nanos())?;
        Ok(SkipLists { accepted: SkipMap::new(), by_time: SkipMap::new(), window })
    }

    fn check(&self, id: &I, now: Timestamp) -> bool {
        let mine = (now.as_nanos(), number());
        let entry = self.accepted.compare_insert(id.key(), mine, |there| self.has_expired(*there, mine.0));
        let is_fresh = *entry.value() == mine;
        if is_fresh {
            self.by_time.insert(mine, entry.key().clone());
            (0..REMOVED).all(|_| self.remove_expired(mine.0));
        }
        is_fresh
    }

    /// Removes what is left where few ids are accepted.
    fn advance(&self, now: Timestamp) {
        while self.remove_expired(now.as_nanos()) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::Place;
    use std::time::Duration;

    #[test]
    fn both_lists_have_the_ids_of_a_window_and_no_others() {
        let window = Duration::from_secs(100);
        let plan = Plan { window, live: 1_000, threads: 1, place: Place::Memory };
        let lists: SkipLists<u64> = Strategy::<u64>::new(&plan).unwrap();
        for second in 0..1_000 {
            assert!(Strategy::<u64>::check(&lists, &(second % 300), Timestamp::from_secs(second)));
            assert!(!Strategy::<u64>::check(&lists, &(second % 300), Timestamp::from_secs(second)));
            let live = (second as usize + 1).min(100);
            assert_eq!((lists.accepted.len(), lists.by_time.len()), (live, live), "after {second} s");
        }
        Strategy::<u64>::advance(&lists, Timestamp::from_secs(2_000));
        assert!(lists.accepted.is_empty() && lists.by_time.is_empty());
    }
}
