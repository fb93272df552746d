//! What all stores need to become strategies: errors that end the run, and a count of what they hold.

use crate::Timestamp;
use crate::measure::Sort;
use crate::strategy::{Failure, Id, Needs, Place, Plan, Strategy};
use std::borrow::Borrow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// A place that keeps ids for longer than a run.
pub trait Keep: Send + Sync + Sized {
    /// See [`Strategy::NAME`].
    const NAME: &'static str;

    /// See [`Strategy::SORT`].
    const SORT: Sort;

    /// See [`Strategy::NEEDS`].
    const NEEDS: Needs;

    /// See [`Strategy::BATCHES`].
    const BATCHES: bool = true;

    /// Opens it in an empty place.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from working.
    fn open(plan: &Plan) -> Result<Self, Failure>;

    /// If the id is absent, keeps it and answers true. One atomic step.
    ///
    /// # Errors
    ///
    /// It cannot be asked, or cannot keep anything.
    fn add(&self, id: &[u8]) -> Result<bool, Failure>;

    /// Adds ids in order, in the best way that its interface has: one answer for each is appended.
    ///
    /// # Errors
    ///
    /// It cannot be asked, or cannot keep anything.
    fn add_batch<B: AsRef<[u8]>>(&self, ids: impl Iterator<Item = B>, fresh: &mut Vec<bool>) -> Result<(), Failure> {
        for id in ids {
            fresh.push(self.add(id.as_ref())?);
        }
        Ok(())
    }
}

/// A store as a strategy.
pub struct Lasting<K> {
    keep: K,
    /// Ids that it has kept.
    kept: AtomicU64,
}

impl<I: Id + ?Sized, K: Keep> Strategy<I> for Lasting<K> {
    const NAME: &'static str = K::NAME;
    const SORT: Sort = K::SORT;
    const NEEDS: Needs = K::NEEDS;
    const BATCHES: bool = K::BATCHES;
    const OWN_CLOCK: bool = true;

    fn new(plan: &Plan) -> Result<Self, Failure> {
        Ok(Lasting { keep: K::open(plan)?, kept: AtomicU64::new(0) })
    }

    fn check(&self, id: &I, _now: Timestamp) -> bool {
        let is_fresh = self.keep.add(id.bytes().as_ref()).unwrap_or_else(|error| fail(K::NAME, &error));
        // Relaxed: a count, read when all threads have ended.
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

/// A check has no other way to say that it has no answer. Whoever runs it reports the message.
fn fail(name: &str, error: &Failure) -> ! {
    panic!("{name}: {}", explained(error.as_ref()))
}

/// An error with its causes, unless it tells them itself.
fn explained(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// Ids in their order, of each the first only: what a batch has to ask, and which of its ids that answers.
pub(super) struct Distinct<B> {
    /// Sorted, so that batches that meet take locks in the same order.
    pub ids: Vec<B>,
    /// Where in the batch each of them was first.
    pub places: Vec<usize>,
    /// How many ids the batch had.
    pub asked: usize,
}

impl<B: AsRef<[u8]>> Distinct<B> {
    pub fn of(ids: impl Iterator<Item = B>) -> Self {
        let mut numbered: Vec<(usize, B)> = ids.enumerate().collect();
        let asked = numbered.len();
        numbered.sort_by(|(_, a), (_, b)| a.as_ref().cmp(b.as_ref()));
        // Sorting kept the order of equal ones, so the first is the first.
        numbered.dedup_by(|(_, later), (_, first)| (*later).as_ref() == (*first).as_ref());
        let (places, ids) = numbered.into_iter().unzip();
        Distinct { ids, places, asked }
    }

    /// Appends the batch's answers, given which of the ids were new.
    pub fn answer<N: Borrow<[u8]>>(&self, new: impl Iterator<Item = N>, fresh: &mut Vec<bool>) -> Result<(), Failure> {
        let start = fresh.len();
        fresh.resize(start + self.asked, false);
        for id in new {
            let found = self.ids.binary_search_by(|asked| asked.as_ref().cmp(id.borrow()));
            let found = found.map_err(|_| format!("expected an id of the batch, got {:?}", id.borrow()))?;
            fresh[start + self.places[found]] = true;
        }
        Ok(())
    }
}

/// The directory of a plan.
pub(super) fn directory(plan: &Plan) -> Result<&Path, Failure> {
    match &plan.place {
        Place::Directory(path) => Ok(path),
        other => Err(format!("expected a directory as its place, got {other:?}").into()),
    }
}

/// The server of a plan.
pub(super) fn server(plan: &Plan) -> Result<&str, Failure> {
    match &plan.place {
        Place::Server(address) => Ok(address),
        other => Err(format!("expected a server as its place, got {other:?}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_asks_for_each_id_once_and_tells_the_first_of_it() {
        let batch = ["c", "a", "c", "b", "a"];
        let distinct = Distinct::of(batch.iter().map(|id| id.as_bytes()));
        assert_eq!(distinct.ids, [b"a", b"b", b"c"]);
        let mut fresh = vec![true];
        distinct.answer([&b"c"[..], b"a"].into_iter(), &mut fresh).unwrap();
        assert_eq!(fresh, [true, true, true, false, false, false]);
        let error = distinct.answer([&b"x"[..]].into_iter(), &mut fresh).unwrap_err().to_string();
        assert!(error.contains("expected an id of the batch"), "{error}");
    }

    #[test]
    fn errors_are_told_with_their_causes_once() {
        let cause = std::io::Error::other("no route");
        let error = std::io::Error::other(Failure::from(cause));
        assert_eq!(explained(&error), "no route");
    }
}
