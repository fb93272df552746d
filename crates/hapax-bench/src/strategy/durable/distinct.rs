//! A batch of ids as one question.

#[cfg(feature = "postgres")]
use crate::strategy::Failure;
#[cfg(feature = "postgres")]
use std::borrow::Borrow;

/// The distinct ids of a batch, in their order: the ids that have to be asked for, and the places
/// that each answer is for.
pub(super) struct Distinct<B> {
    /// The ids, sorted, so that concurrent batches take locks in the same order.
    pub ids: Vec<B>,
    /// The place in the batch where each of them was first.
    pub places: Vec<usize>,
    /// The number of ids in the batch.
    pub asked: usize,
}

impl<B: AsRef<[u8]>> Distinct<B> {
    pub fn of(ids: impl Iterator<Item = B>) -> Self {
        let mut numbered: Vec<(usize, B)> = ids.enumerate().collect();
        let asked = numbered.len();
        numbered.sort_by(|(_, a), (_, b)| a.as_ref().cmp(b.as_ref()));
        // Sorting kept the order of equal ids, so the first of them is the first in the batch.
        numbered.dedup_by(|(_, later), (_, first)| (*later).as_ref() == (*first).as_ref());
        let (places, ids) = numbered.into_iter().unzip();
        Distinct { ids, places, asked }
    }

    /// Appends the batch's answers, given which of the ids were new.
    #[cfg(feature = "postgres")]
    pub fn answer<N: Borrow<[u8]>>(&self, new: impl Iterator<Item = N>, fresh: &mut Vec<bool>) -> Result<(), Failure> {
        let numbers = new.map(|id| {
            let found = self.ids.binary_search_by(|asked| asked.as_ref().cmp(id.borrow()));
            found.map_err(|_| format!("expected an id of the batch, got {:?}", id.borrow()))
        });
        self.mark(numbers.collect::<Result<Vec<_>, _>>()?.into_iter(), fresh);
        Ok(())
    }

    /// Appends the batch's answers, given the numbers of the ids that were new, in their order
    /// here.
    pub fn mark(&self, new: impl Iterator<Item = usize>, fresh: &mut Vec<bool>) {
        let start = fresh.len();
        fresh.resize(start + self.asked, false);
        new.for_each(|number| fresh[start + self.places[number]] = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equal_ids_is_the_one_that_is_new() {
        let distinct = Distinct::of(["c", "a", "c"].iter().map(|id| id.as_bytes()));
        let mut fresh = vec![true];
        distinct.mark([1].into_iter(), &mut fresh);
        assert_eq!(fresh, [true, true, false, false]);
    }

    #[test]
    #[cfg(feature = "postgres")]
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
}
