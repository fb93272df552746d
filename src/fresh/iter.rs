//! Iterators without their duplicates.

use crate::{Dedup, Prepared};
use std::collections::VecDeque;
use std::fmt;
use std::iter::{Fuse, FusedIterator};

/// The number of items that are read ahead by default: more than the cache misses that a core can
/// have under way while one item is handled.
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
    /// [`dedup_by_prepared`](DedupIterator::dedup_by_prepared).
    ///
    /// # Guarantees
    ///
    /// - An id is checked, and so marked as seen, when its item's turn has come, never earlier: a
    ///   loop that ends early has marked the items that it got, and the duplicates before them.
    /// - Up to 16 items are [read ahead](DedupById::read_ahead), so that the memory for their
    ///   checks is on its way; but only items that the source has promised by the lower bound of
    ///   its [`size_hint`](Iterator::size_hint), as vectors, slices and ranges do. A source that
    ///   waits for its items, such as a channel or the lines of a file, promises none, and is asked
    ///   for one item at a time.
    /// - It ends when the source has ended, which is then not asked again; from there on it returns
    ///   `None`. The lower bound of its size is zero, the upper one the number of items that may
    ///   still come.
    ///
    /// Items whose ids are [claimed](Dedup::claim) are left out, too. A message that is in progress
    /// must come again: where there are claims, use [`check`](Dedup::check), and look at the
    /// verdict.
    ///
    /// # Cost
    ///
    /// That of [`check`](Dedup::check) for each item, less about a quarter where items are read
    /// ahead and the table is in main memory. Where all items are there at once,
    /// [`retain_fresh`](Dedup::retain_fresh) is several times as fast.
    fn dedup_by_id<'d, I, F>(
        self,
        dedup: &'d Dedup,
        mut id_of: F,
    ) -> DedupById<'d, Self, impl FnMut(&Self::Item) -> Prepared>
    where
        I: AsRef<[u8]> + ?Sized,
        F: FnMut(&Self::Item) -> &I,
    {
        self.dedup_by_prepared(dedup, move |item| dedup.digest(id_of(item)))
    }

    /// Leaves out items whose id is not fresh; see [`dedup_by_id`](DedupIterator::dedup_by_id).
    /// `id_of` [digests](Dedup::digest) the id itself, with the same handle, so it can be made on
    /// the spot.
    ///
    /// ```
    /// use hapax::{Dedup, DedupIterator, Int};
    ///
    /// fn main() -> Result<(), hapax::Error> {
    ///     let dedup = Dedup::builder().build()?;
    ///     let offsets = [17_u64, 18, 17].into_iter();
    ///     let fresh = offsets.dedup_by_prepared(&dedup, |offset| dedup.digest(Int::from(*offset)));
    ///     assert!(fresh.eq([17, 18]));
    ///     Ok(())
    /// }
    /// ```
    fn dedup_by_prepared<F>(self, dedup: &Dedup, id_of: F) -> DedupById<'_, Self, F>
    where
        F: FnMut(&Self::Item) -> Prepared,
    {
        DedupById { items: self.fuse(), dedup, id_of, ahead: VecDeque::new(), max_ahead: READ_AHEAD }
    }
}

impl<It: Iterator> DedupIterator for It {}

/// An iterator without its duplicates: [`DedupIterator::dedup_by_id`].
#[must_use = "iterators are lazy and do nothing unless consumed"]
pub struct DedupById<'d, It: Iterator, F> {
    items: Fuse<It>,
    dedup: &'d Dedup,
    id_of: F,
    /// Items that are read, and not yet checked.
    ahead: VecDeque<(It::Item, Prepared)>,
    max_ahead: usize,
}

impl<It: Iterator, F> DedupById<'_, It, F> {
    /// Sets the number of items that are read ahead, at most. They are not checked before their
    /// turn; but who takes items from the source afterwards does not get them. Zero reads no item
    /// before the one before it is decided. Default: 16; more is hardly faster.
    ///
    /// ```
    /// use hapax::{Dedup, DedupIterator};
    ///
    /// fn main() -> Result<(), hapax::Error> {
    ///     let dedup = Dedup::builder().build()?;
    ///     let mut ids = ["a", "a", "b", "c"].into_iter();
    ///     let first_two = ids.by_ref().dedup_by_id(&dedup, |id| *id).read_ahead(0).take(2);
    ///     assert!(first_two.eq(["a", "b"]));
    ///     assert_eq!(ids.next(), Some("c"));
    ///     Ok(())
    /// }
    /// ```
    pub fn read_ahead(self, items: usize) -> Self {
        DedupById { max_ahead: items, ..self }
    }
}

impl<It: Iterator, F: FnMut(&It::Item) -> Prepared> DedupById<'_, It, F> {
    /// Returns the item whose turn it is, after it has read those that are promised.
    fn turn(&mut self) -> Option<(It::Item, Prepared)> {
        if self.ahead.is_empty() {
            let first = self.items.next()?;
            self.read(first);
        }
        while self.ahead.len() <= self.max_ahead && self.items.size_hint().0 > 0 {
            match self.items.next() {
                Some(item) => self.read(item),
                None => break, // It has promised too much.
            }
        }
        self.ahead.pop_front()
    }

    #[inline]
    fn read(&mut self, item: It::Item) {
        let id = (self.id_of)(&item);
        self.dedup.engine.prefetch(id.0);
        self.ahead.push_back((item, id));
    }
}

impl<It: Iterator, F: FnMut(&It::Item) -> Prepared> Iterator for DedupById<'_, It, F> {
    type Item = It::Item;

    fn next(&mut self) -> Option<It::Item> {
        loop {
            let (item, id) = self.turn()?;
            if self.dedup.check_prepared(id).is_fresh() {
                return Some(item);
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let more = self.items.size_hint().1;
        (0, more.and_then(|more| more.checked_add(self.ahead.len())))
    }
}

impl<It: Iterator, F: FnMut(&It::Item) -> Prepared> FusedIterator for DedupById<'_, It, F> {}

impl<It: Iterator, F> fmt::Debug for DedupById<'_, It, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DedupById").field("dedup", self.dedup).field("ahead", &self.ahead.len()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(modelled)))]
mod tests;
