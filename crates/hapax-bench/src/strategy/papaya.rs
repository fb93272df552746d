//! `papaya`: a lock-free table of pointers to entries.

use super::expiring::{Hasher, Map, Moment, names};
use super::{Failure, Id, Plan};
use papaya::{Compute, Guard, HashMap, Operation, ResizeMode};

pub(super) type Accepted<K> = HashMap<K, u32, Hasher>;

impl<I: Id + ?Sized> Map<I> for Accepted<I::Key> {
    const NAMES: [&'static str; 2] = names!("papaya");

    fn new(ids: usize, _plan: &Plan) -> Result<Self, Failure> {
        // Removed entries keep their places until the table is copied, which therefore happens
        // often. The copy is made all at once, as its documentation advises where throughput
        // counts.
        let builder = HashMap::builder().capacity(ids).hasher(Hasher::default());
        Ok(builder.resize_mode(ResizeMode::Blocking).build())
    }

    #[inline(always)]
    fn accept(&self, id: &I, now: Moment) -> bool {
        accept(self, id.key(), now, &self.guard())
    }

    /// Enters the reclamation scheme once.
    #[inline(always)]
    fn accept_batch<'a>(&self, ids: impl Iterator<Item = &'a I>, now: Moment, fresh: &mut Vec<bool>) {
        let guard = self.guard();
        fresh.extend(ids.map(|id| accept(self, id.key(), now, &guard)));
    }

    fn purge(&self, now: Moment) {
        self.pin().retain(|_, accepted| now.is_live(*accepted));
    }
}

#[inline(always)]
fn accept<K: std::hash::Hash + Eq>(map: &Accepted<K>, id: K, now: Moment, guard: &impl Guard) -> bool {
    let decide = |entry: Option<(&K, &u32)>| match entry {
        Some((_, &accepted)) if now.is_live(accepted) => Operation::Abort(()),
        _ => Operation::Insert(now.stamp()),
    };
    !matches!(map.compute(id, decide, guard), Compute::Aborted(()))
}
