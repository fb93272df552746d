//! Vectors without their duplicates.

use crate::digest::Digest;
use crate::{Dedup, Id};

/// The most items that are checked together: enough for their memory accesses to overlap, and for
/// a journal to write them as one.
const BATCH: usize = 1_024;

impl Dedup {
    /// Keeps the items whose id is fresh, in their order, and removes the others: several times as
    /// fast as [`check`](Dedup::check) for one item after another.
    ///
    /// ```
    /// use hapax::Dedup;
    ///
    /// struct Order {
    ///     id: String,
    /// }
    ///
    /// fn main() -> Result<(), hapax::Error> {
    ///     let dedup = Dedup::builder().build()?;
    ///
    ///     let mut orders: Vec<Order> = ["17", "18", "17"].map(|id| Order { id: id.into() }).into();
    ///     dedup.retain_fresh(&mut orders, |order| &order.id);
    ///     assert_eq!(orders.len(), 2);
    ///
    ///     dedup.retain_fresh(&mut orders, |order| &order.id);
    ///     assert_eq!(orders.len(), 0); // all of them have been seen by now
    ///     Ok(())
    /// }
    /// ```
    ///
    /// For ids that are not a part of their item, such as integers and keys of several parts, see
    /// [`retain_fresh_by`](Dedup::retain_fresh_by).
    ///
    /// Items whose ids are [claimed](Dedup::claim) are removed, too. A message that is in progress
    /// must come again: where there are claims, use [`check_batch`](Dedup::check_batch), and look
    /// at each verdict.
    ///
    /// # Panics
    ///
    /// If `id_of` does. No item is removed then, though they may be in another order. The ids of
    /// some items before the one in question have been marked as seen, and are duplicates if they
    /// are checked again; that item's id has not, nor has that of any item after it.
    ///
    /// # Cost
    ///
    /// That of [`check_batch`](Dedup::check_batch) for 1,024 items at a time, and at most 17 KiB of
    /// memory during the call, however many items there are.
    pub fn retain_fresh<T, I, F>(&self, items: &mut Vec<T>, mut id_of: F)
    where
        I: Id + ?Sized,
        F: FnMut(&T) -> &I,
    {
        self.retain(items, |item| id_of(item).digest_by(&self.digester));
    }

    /// Keeps the items whose id is fresh; see [`retain_fresh`](Dedup::retain_fresh). `id_of` makes
    /// the id on the spot, or [prepares](Dedup::prepare) it there.
    ///
    /// ```
    /// use hapax::{Dedup, Int, Key};
    ///
    /// fn main() -> Result<(), hapax::Error> {
    ///     let dedup = Dedup::builder().build()?;
    ///
    ///     let mut numbers = vec![17_u64, 18, 17];
    ///     dedup.retain_fresh_by(&mut numbers, |number| Int::from(*number));
    ///     assert_eq!(numbers, [17, 18]);
    ///
    ///     let mut key = Key::new(); // used again and again
    ///     let mut events = vec![("orders", 17), ("invoices", 17), ("orders", 17)];
    ///     dedup.retain_fresh_by(&mut events, |(topic, offset)| {
    ///         dedup.prepare(key.clear().text(topic).int(*offset))
    ///     });
    ///     assert_eq!(events, [("orders", 17), ("invoices", 17)]);
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Panics
    ///
    /// As [`retain_fresh`](Dedup::retain_fresh) does.
    pub fn retain_fresh_by<T, I: Id>(&self, items: &mut Vec<T>, mut id_of: impl FnMut(&T) -> I) {
        self.retain(items, |item| id_of(item).digest_by(&self.digester));
    }

    fn retain<T>(&self, items: &mut Vec<T>, mut id_of: impl FnMut(&T) -> Digest) {
        let batch = items.len().min(BATCH);
        let (mut ids, mut verdicts) = (Vec::with_capacity(batch), Vec::with_capacity(batch));
        // The fresh ones come first, then those that are not, then those that are not yet checked.
        let (mut fresh, mut checked) = (0, 0);
        while checked < items.len() {
            // All ids of a batch before its first check: if there is one that cannot be told, then
            // none of them is marked.
            ids.clear();
            ids.extend(items[checked..].iter().take(BATCH).map(&mut id_of));
            self.engine.check_batch(ids.iter().copied(), self.engine.now(), &mut verdicts);
            for verdict in &verdicts {
                if verdict.is_fresh() {
                    items.swap(fresh, checked);
                    fresh += 1;
                }
                checked += 1;
            }
        }
        items.truncate(fresh);
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::{Int, ManualClock};
    use proptest::prelude::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn engine() -> Dedup {
        Dedup::builder().capacity(10_000).seed(7).clock(ManualClock::new()).build().unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_keeps_what_single_checks_would(ids in proptest::collection::vec(0_u16..2_000, 0..4_000), before: [u16; 8]) {
            let (one_by_one, batched) = (engine(), engine());
            for id in before {
                prop_assert_eq!(one_by_one.check(Int::from(id)), batched.check(Int::from(id)));
            }
            let expected: Vec<_> = ids.iter().copied().filter(|id| one_by_one.check(Int::from(*id)).is_fresh()).collect();
            let mut kept = ids;
            batched.retain_fresh_by(&mut kept, |id| Int::from(*id));
            prop_assert_eq!(kept, expected);
            prop_assert_eq!(batched.stats().fresh, one_by_one.stats().fresh);
        }
    }

    #[test]
    fn batches_join_without_a_seam() {
        for len in [0, 1, BATCH - 1, BATCH, BATCH + 1, 3 * BATCH] {
            let dedup = engine();
            // Each item twice in a row, so that a pair lies across each seam.
            let mut items: Vec<_> = (0..len).map(|i| i.div_ceil(2).to_string()).collect();
            let (room, expected) = (items.capacity(), (0..len / 2 + 1).map(|i| i.to_string()));
            dedup.retain_fresh(&mut items, |item| item);
            assert_eq!(items, expected.take(len).collect::<Vec<_>>());
            assert_eq!(items.capacity(), room);
        }
    }

    #[test]
    fn what_is_claimed_goes_too() {
        let dedup = engine();
        let claimed = dedup.claim("b");
        let mut items = vec!["a", "b", "c"];
        dedup.retain_fresh(&mut items, |item| *item);
        assert_eq!(items, ["a", "c"]);
        drop(claimed);
        dedup.retain_fresh(&mut items, |item| *item);
        assert!(items.is_empty() && dedup.check("b").is_fresh());
    }

    #[test]
    fn a_panic_removes_nothing_and_marks_nothing_from_its_batch_on() {
        let dedup = engine();
        assert!(dedup.check("3").is_fresh());
        let all: Vec<_> = (0..2 * BATCH + 9).map(|i| i.to_string()).collect();
        let (mut items, bad) = (all.clone(), (BATCH + 5).to_string());
        let id_of = |item: &String| if *item == bad { panic!("no id") } else { dedup.prepare(item) };
        let outcome = catch_unwind(AssertUnwindSafe(|| dedup.retain_fresh_by(&mut items, id_of)));
        assert!(outcome.is_err());
        for (i, item) in all.iter().enumerate() {
            assert!(items.contains(item), "{item} is lost");
            assert_eq!(dedup.contains(item).is_some(), i < BATCH, "{item}");
        }
        assert_eq!(items.len(), all.len());
    }
}
