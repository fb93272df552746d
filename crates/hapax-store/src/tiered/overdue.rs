//! Ids that the store reports as in progress, again and again, with no time left: it and its reader
//! disagree about what has expired. A caller that waits for such an id would wait for ever.

use crate::sync::{Mutex, Ordering, StdAtomicBool, lock};
use hapax::seam::Digest;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// The shortest time that counts: stores count in milliseconds or finer.
const NONE: Duration = Duration::from_millis(1);
/// The smallest number of such answers after which the store is no longer believed.
const TRIES: u32 = 16;
/// The shortest time for which such answers last before the store is no longer believed: the unit
/// in which a store may count has passed by then.
const LASTS: Duration = Duration::from_secs(1);

/// The overdue ids of an engine.
#[derive(Debug, Default)]
pub(crate) struct OverdueIds {
    ids: Mutex<Overdue>,
    /// False if there are none, so that nobody locks then.
    has_some: StdAtomicBool,
}

impl OverdueIds {
    /// Notes the store's answer for an id: in progress for this long, or not in progress. Returns
    /// what is wrong if that can no longer be believed.
    pub(crate) fn check(&self, id: Digest, lease_left: Option<Duration>) -> Result<(), String> {
        // Relaxed: a thread that misses it leaves an id in it that is asked about again.
        if lease_left.is_none_or(|left| left >= NONE) && !self.has_some.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut ids = lock(&self.ids);
        let is_over = ids.says(id, lease_left, Instant::now());
        // Relaxed: as above.
        self.has_some.store(!ids.is_empty(), Ordering::Relaxed);
        if is_over { Err(ids.what()) } else { Ok(()) }
    }
}

/// Ids that had no time left in progress when they were last asked about, and the time since when.
#[derive(Debug, Default)]
struct Overdue {
    ids: HashMap<Digest, (Instant, u32)>,
}

impl Overdue {
    const MAX: usize = 4_096;

    fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Notes the store's answer for an id: in progress for this long, or not in progress. Returns
    /// true if that can no longer be believed.
    fn says(&mut self, id: Digest, lease_left: Option<Duration>, now: Instant) -> bool {
        if lease_left.is_none_or(|left| left >= NONE) {
            self.ids.remove(&id);
            return false;
        }
        if self.ids.len() >= Self::MAX {
            // Any fault will be noticed later.
            self.ids.clear();
        }
        let (since, tries) = self.ids.entry(id).or_insert((now, 0));
        *tries += 1;
        let is_over = *tries >= TRIES && now.duration_since(*since) >= LASTS;
        if is_over {
            self.ids.remove(&id);
        }
        is_over
    }

    fn what(&self) -> String {
        format!(
            "expected an id that is in progress for no more time to be free, got the same answer {TRIES} times and \
             for {LASTS:?}: the store and what reads it disagree about its time. Compare the clocks of its servers"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(i: u64) -> Digest {
        Digest::from(u128::from(i) << 64)
    }

    #[test]
    fn what_never_ends_is_noticed_after_so_many_tries_and_so_long() {
        let (mut overdue, start) = (Overdue::default(), Instant::now());
        let none = Some(Duration::ZERO);
        // A caller that asks without a pause sees the same answer any number of times, for a
        // moment.
        assert!((0..10_000).all(|_| !overdue.says(id(1), none, start)));
        assert!(overdue.says(id(1), none, start + LASTS));
        assert!(overdue.is_empty(), "it begins anew");
        // A patient caller.
        let every = Duration::from_millis(250);
        let tries = (0..).find(|&i| overdue.says(id(2), none, start + every * i)).unwrap();
        assert_eq!(tries, TRIES - 1);
    }

    #[test]
    fn who_renews_or_ends_is_no_disagreement() {
        let (mut overdue, start) = (Overdue::default(), Instant::now());
        for i in 0..1_000 {
            let left = if i % 10 == 0 { Some(Duration::from_secs(1)) } else { Some(Duration::ZERO) };
            assert!(!overdue.says(id(1), left, start + LASTS * i));
            let left = if i % 10 == 0 { None } else { Some(Duration::ZERO) };
            assert!(!overdue.says(id(2), left, start + LASTS * i));
        }
    }

    #[test]
    fn they_are_bounded() {
        let (mut overdue, start) = (Overdue::default(), Instant::now());
        for i in 0..100_000 {
            overdue.says(id(i), Some(Duration::ZERO), start);
            assert!(overdue.ids.len() <= Overdue::MAX);
        }
    }
}
