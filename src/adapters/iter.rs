//! Iterators without their duplicates.

use crate::digest::Digest;
use crate::{Dedup, Id};
use std::collections::VecDeque;
use std::fmt;
use std::iter::{Fuse, FusedIterator};

/// The number of items that are read ahead: more than the cache misses that a core can have under
/// way while one item is handled.
const READ_AHEAD: usize = 16;

/// Deduplication for any [`Iterator`].
pub trait DedupIterator: Iterator + Sized {
    /// Leaves out items whose id is not fresh.
    ///
    /// ```
    /// use hapax::{Dedup, DedupIterator};
    ///
    /// struct Order {
    ///     id: String,
    ///     total: u64,
    /// }
    ///
    /// fn main() -> Result<(), hapax::Error> {
    ///     let dedup = Dedup::builder().build()?;
    ///     let orders = [("17", 5), ("18", 7), ("17", 5)].map(|(id, total)| Order { id: id.into(), total });
    ///
    ///     let total: u64 = orders.iter().dedup_by_id(&dedup, |order| &order.id).map(|order| order.total).sum();
    ///     assert_eq!(total, 12);
    ///     Ok(())
    /// }
    /// ```
    ///
    /// For ids that are not a part of their item, such as integers and keys of several parts, see
    /// [`dedup_by`](DedupIterator::dedup_by).
    ///
    /// # Guarantees
    ///
    /// - An id is checked, and so marked as seen, when its item's turn has come, never earlier: a
    ///   loop that ends early has marked the items that it got, and the duplicates before them.
    /// - Up to 16 items are read ahead, so that the memory for their checks is on its way: who
    ///   takes items from the source afterwards does not get them. Only items that the source has
    ///   promised by the lower bound of its [`size_hint`](Iterator::size_hint), as vectors, slices
    ///   and ranges do. A source that waits for its items, such as a channel or the lines of a
    ///   file, promises none, and is asked for one item at a time.
    /// - It ends when the source has ended, which is then not asked again; from there on it returns
    ///   `None`. The upper bound of its size is the number of items that may still come.
    ///
    /// Items whose ids are [claimed](Dedup::claim) are left out, too. A message that is in progress
    /// must come again: where there are claims, use [`check`](Dedup::check), and look at the
    /// verdict.
    ///
    /// # Cost
    ///
    /// That of [`check`](Dedup::check) for each item; where items are read ahead and the table is
    /// in main memory, less than half of it (of a million ids, 88 ns for 200). A sixth of it by
    /// [`retain_fresh`](Dedup::retain_fresh), where all of them are there at once.
    fn dedup_by_id<I, F>(self, dedup: &Dedup, mut id_of: F) -> impl FusedIterator<Item = Self::Item> + fmt::Debug
    where
        I: Id + ?Sized,
        F: FnMut(&Self::Item) -> &I,
    {
        DedupById::new(self, dedup, move |item| id_of(item).digest_by(&dedup.digester))
    }

    /// Leaves out items whose id is not fresh; see [`dedup_by_id`](DedupIterator::dedup_by_id).
    /// `id_of` makes the id on the spot.
    ///
    /// ```
    /// use hapax::{Dedup, DedupIterator, Int};
    ///
    /// fn main() -> Result<(), hapax::Error> {
    ///     let dedup = Dedup::builder().build()?;
    ///     let offsets = [17_u64, 18, 17].into_iter();
    ///     let fresh = offsets.dedup_by(&dedup, |offset| Int::from(*offset));
    ///     assert!(fresh.eq([17, 18]));
    ///     Ok(())
    /// }
    /// ```
    fn dedup_by<I, F>(self, dedup: &Dedup, mut id_of: F) -> impl FusedIterator<Item = Self::Item> + fmt::Debug
    where
        I: Id,
        F: FnMut(&Self::Item) -> I,
    {
        DedupById::new(self, dedup, move |item| id_of(item).digest_by(&dedup.digester))
    }
}

impl<It: Iterator> DedupIterator for It {}

/// An iterator without its duplicates: [`DedupIterator::dedup_by_id`].
struct DedupById<'d, It: Iterator, F> {
    items: Fuse<It>,
    dedup: &'d Dedup,
    id_of: F,
    /// Items that are read, and not yet checked.
    ahead: VecDeque<(It::Item, Digest)>,
}

impl<'d, It: Iterator, F: FnMut(&It::Item) -> Digest> DedupById<'d, It, F> {
    fn new(items: It, dedup: &'d Dedup, id_of: F) -> Self {
        DedupById { items: items.fuse(), dedup, id_of, ahead: VecDeque::new() }
    }
}

impl<It: Iterator, F: FnMut(&It::Item) -> Digest> DedupById<'_, It, F> {
    /// Reads the item whose turn it is, and after it those that are promised. Returns false at the
    /// end.
    fn read(&mut self) -> bool {
        if self.ahead.is_empty() {
            let Some(first) = self.items.next() else { return false };
            self.push(first);
        }
        while self.ahead.len() <= READ_AHEAD && self.items.size_hint().0 > 0 {
            match self.items.next() {
                Some(item) => self.push(item),
                None => break, // It has promised too much.
            }
        }
        true
    }

    #[inline]
    fn push(&mut self, item: It::Item) {
        let id = (self.id_of)(&item);
        self.dedup.engine.prefetch(id);
        self.ahead.push_back((item, id));
    }
}

impl<It: Iterator, F: FnMut(&It::Item) -> Digest> Iterator for DedupById<'_, It, F> {
    type Item = It::Item;

    fn next(&mut self) -> Option<It::Item> {
        loop {
            if !self.read() {
                return None;
            }
            let (item, id) = self.ahead.pop_front()?;
            let engine = &self.dedup.engine;
            if engine.check(id, engine.now()).is_fresh() {
                return Some(item);
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let more = self.items.size_hint().1;
        (0, more.and_then(|more| more.checked_add(self.ahead.len())))
    }
}

impl<It: Iterator, F: FnMut(&It::Item) -> Digest> FusedIterator for DedupById<'_, It, F> {}

impl<It: Iterator, F> fmt::Debug for DedupById<'_, It, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DedupById").field("dedup", self.dedup).field("ahead", &self.ahead.len()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(modelled)))]
mod tests;
