//! Turns stores into strategies: errors that end the run, and a count of the ids that they hold.

use crate::strategy::{Failure, Id, Needs, Plan, Sort, Strategy};
use hapax::Timestamp;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};

/// A place that keeps ids for longer than a run.
pub trait Keep: Send + Sync + Sized {
    /// See [`Strategy::NAME`].
    const NAME: &'static str;

    /// See [`Strategy::SORT`].
    const SORT: Sort;

    /// See [`Strategy::NEEDS`].
    const NEEDS: Needs;

    /// Opens it in an empty place.
    ///
    /// # Errors
    ///
    /// The reason why it cannot work.
    fn open(plan: &Plan) -> Result<Self, Failure>;

    /// Keeps the id and returns true, if it is absent. One atomic step.
    ///
    /// # Errors
    ///
    /// It cannot be asked, or cannot keep anything.
    fn add(&self, id: &[u8]) -> Result<bool, Failure>;

    /// Adds ids in order, in the best way that its interface has. One answer for each is appended.
    ///
    /// # Errors
    ///
    /// It cannot be asked, or cannot keep anything.
    fn add_batch<B: AsRef<[u8]>>(&self, ids: impl Iterator<Item = B>, fresh: &mut Vec<bool>) -> Result<(), Failure> {
        add_each(self, ids, fresh)
    }
}

/// Adds ids in order, one by one.
pub(super) fn add_each<K: Keep, B: AsRef<[u8]>>(
    keep: &K,
    ids: impl Iterator<Item = B>,
    fresh: &mut Vec<bool>,
) -> Result<(), Failure> {
    for id in ids {
        fresh.push(keep.add(id.as_ref())?);
    }
    Ok(())
}

/// A store as a strategy.
pub struct Lasting<K> {
    keep: K,
    /// The number of ids that it has kept.
    kept: AtomicU64,
}

impl<I: Id + ?Sized, K: Keep> Strategy<I> for Lasting<K> {
    const NAME: &'static str = K::NAME;
    const SORT: Sort = K::SORT;
    const NEEDS: Needs = K::NEEDS;
    const EXPIRES: bool = false;

    fn new(plan: &Plan) -> Result<Self, Failure> {
        Ok(Lasting { keep: K::open(plan)?, kept: AtomicU64::new(0) })
    }

    fn check(&self, id: &I, _now: Timestamp) -> bool {
        let is_fresh = self.keep.add(id.bytes().as_ref()).unwrap_or_else(|error| fail(K::NAME, &error));
        // Relaxed: a count that is read when all threads have ended.
        self.kept.fetch_add(u64::from(is_fresh), Ordering::Relaxed);
        is_fresh
    }

    fn check_batch<'a>(&self, ids: impl Iterator<Item = &'a I>, _now: Timestamp, fresh: &mut Vec<bool>) {
        fresh.clear();
        let added = self.keep.add_batch(ids.map(Id::bytes), fresh);
        added.unwrap_or_else(|error| fail(K::NAME, &error));
        let kept = fresh.iter().filter(|is_fresh| **is_fresh).count();
        self.kept.fetch_add(kept as u64, Ordering::Relaxed);
    }

    fn held(&self) -> Option<u64> {
        Some(self.kept.load(Ordering::Relaxed))
    }
}

/// Panics with the error and its causes, since a check has no other way to say that it has no
/// answer. The code that runs the strategy reports the message.
fn fail(name: &str, error: &Failure) -> ! {
    panic!("{name}: {}", explained(error.as_ref()))
}

/// Returns an error with its causes, unless its own text includes them.
fn explained(error: &(dyn Error + 'static)) -> String {
    let mut texts: Vec<String> =
        std::iter::successors(Some(error), |&error| error.source()).map(ToString::to_string).collect();
    texts.dedup_by(|cause, text| text.contains(&**cause));
    texts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_with_their_causes_once() {
        let cause = std::io::Error::other("no route");
        let error = std::io::Error::other(Failure::from(cause));
        assert_eq!(explained(&error), "no route");
    }
}
