//! Iterators without their duplicates.

use crate::{Dedup, Digest, Id, Verdict};
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
    /// [`dedup_by`](DedupIterator::dedup_by).
    ///
    /// # Guarantees
    ///
    /// - An id is checked, and so marked as seen, when its item's turn has come, never earlier: a
    ///   loop that ends early has marked the items that it got, and the duplicates before them.
    ///   (Unless it is told to [check ahead](DedupById::check_ahead).)
    /// - Up to 16 items are [read ahead](DedupById::read_ahead), so that the memory for their
    ///   checks is on its way; but only items that the source has promised by the lower bound of
    ///   its [`size_hint`](Iterator::size_hint), as vectors, slices and ranges do. A source that
    ///   waits for its items, such as a channel or the lines of a file, promises none, and is asked
    ///   for one item at a time.
    /// - It ends when the source has ended, which is then not asked again; from there on it returns
    ///   `None`. The lower bound of its size is the number of items that are known to be fresh, the
    ///   upper one the number of items that may still come.
    ///
    /// Items whose ids are [claimed](Dedup::claim) are left out, too. A message that is in progress
    /// must come again: where there are claims, use [`check`](Dedup::check), and look at the
    /// verdict.
    ///
    /// # Cost
    ///
    /// That of [`check`](Dedup::check) for each item; where items are read ahead and the table is
    /// in main memory, less than half of it (of a million ids, 88 ns for 200). Where they are
    /// [checked](DedupById::check_ahead) ahead, a quarter, and a sixth by
    /// [`retain_fresh`](Dedup::retain_fresh), where all of them are there at once.
    fn dedup_by_id<'d, I, F>(
        self,
        dedup: &'d Dedup,
        mut id_of: F,
    ) -> DedupById<'d, Self, impl FnMut(&Self::Item) -> Digest>
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
    fn dedup_by<'d, I, F>(
        self,
        dedup: &'d Dedup,
        mut id_of: F,
    ) -> DedupById<'d, Self, impl FnMut(&Self::Item) -> Digest>
    where
        I: Id,
        F: FnMut(&Self::Item) -> I,
    {
        DedupById::new(self, dedup, move |item| id_of(item).digest_by(&dedup.digester))
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
    ahead: VecDeque<(It::Item, Digest)>,
    max_ahead: usize,
    /// True if what is read ahead is checked together, before its turn.
    checks_ahead: bool,
    verdicts: Vec<Verdict>,
    /// Items that were checked before their turn, and are fresh.
    fresh: VecDeque<It::Item>,
}

impl<'d, It: Iterator, F: FnMut(&It::Item) -> Digest> DedupById<'d, It, F> {
    fn new(items: It, dedup: &'d Dedup, id_of: F) -> Self {
        DedupById {
            items: items.fuse(),
            dedup,
            id_of,
            ahead: VecDeque::new(),
            max_ahead: READ_AHEAD,
            checks_ahead: false,
            verdicts: Vec::new(),
            fresh: VecDeque::new(),
        }
    }
}

impl<It: Iterator, F> DedupById<'_, It, F> {
    /// Sets the number of items that are read ahead, at most. They are not checked before their
    /// turn; but who takes items from the source afterwards does not get them. Zero reads no item
    /// before the one before it is decided. Default: 16; more is hardly faster. Takes the place of
    /// [`check_ahead`](DedupById::check_ahead).
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
        DedupById { max_ahead: items, checks_ahead: false, ..self }
    }

    /// Reads up to this many items ahead, and checks them as one batch with the item whose turn it
    /// is: for loops that go on to the end. Zero checks each item in its turn, and reads none
    /// ahead. Takes the place of [`read_ahead`](DedupById::read_ahead).
    ///
    /// Ids are then marked as seen before their turn. A loop that ends early, or panics, loses
    /// items: up to this many are marked that nobody got, and their next delivery is a duplicate. A
    /// loop that forgets an id whose work has failed comes too late for another item with that id
    /// in the same batch, which has been left out by then.
    ///
    /// # Cost
    ///
    /// That of [`check_batch`](Dedup::check_batch), and of moving the items: six tenths of what
    /// reading ahead alone costs, with 255 items; more are hardly faster. Only items that the
    /// source has promised are checked ahead; without a promise it is one at a time.
    ///
    /// # Examples
    ///
    /// ```
    /// use hapax::{Dedup, DedupIterator};
    ///
    /// fn main() -> Result<(), hapax::Error> {
    ///     let dedup = Dedup::builder().build()?;
    ///     let ids = ["a", "a", "b", "c"];
    ///     let fresh = ids.into_iter().dedup_by_id(&dedup, |id| *id).check_ahead(255);
    ///     assert!(fresh.eq(["a", "b", "c"]));
    ///     Ok(())
    /// }
    /// ```
    pub fn check_ahead(self, items: usize) -> Self {
        DedupById { max_ahead: items, checks_ahead: items > 0, ..self }
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
        while self.ahead.len() <= self.max_ahead && self.items.size_hint().0 > 0 {
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
        // (A batch asks for its memory itself.)
        if !self.checks_ahead {
            self.dedup.engine.prefetch(id);
        }
        self.ahead.push_back((item, id));
    }

    /// Checks all that is read, and keeps what is fresh.
    fn check_all(&mut self) {
        let engine = &self.dedup.engine;
        engine.check_batch(self.ahead.iter().map(|(_, id)| *id), engine.now(), &mut self.verdicts);
        let checked = self.ahead.drain(..).zip(&self.verdicts);
        self.fresh.extend(checked.filter(|(_, verdict)| verdict.is_fresh()).map(|((item, _), _)| item));
    }
}

impl<It: Iterator, F: FnMut(&It::Item) -> Digest> Iterator for DedupById<'_, It, F> {
    type Item = It::Item;

    fn next(&mut self) -> Option<It::Item> {
        loop {
            if let Some(item) = self.fresh.pop_front() {
                return Some(item);
            }
            if !self.read() {
                return None;
            }
            if self.checks_ahead {
                self.check_all();
                continue;
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
        let here = self.ahead.len() + self.fresh.len();
        (self.fresh.len(), more.and_then(|more| more.checked_add(here)))
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
