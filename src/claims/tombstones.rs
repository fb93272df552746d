//! Tombstones: what stays of an id after its claim, for checks that are still under way and have
//! inserted, or seen, the id too early. In one shard, under its lock.

use super::name::{ByName, Name};
use crate::Timestamp;
use crate::digest::Digest;

/// With fewer ids, expired ones may stay.
const FEW_IDS: usize = 64;

/// The map's knowledge of an id that a check has asked the window about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Nothing,
    InProgress,
    Done,
    /// Nobody has the id, but the window may have forgotten what the check has inserted, or seen.
    Free,
}

/// Ids that completed, or whose insertion was taken back, within the last window, by the window's
/// time.
#[derive(Debug, Default)]
pub(super) struct Tombstones {
    ids: ByName<Entry>,
    /// The number of ids from which on expired ones are looked for.
    clean_at: usize,
    /// The time when all of them have expired.
    over: Timestamp,
}

#[derive(Debug)]
struct Entry {
    /// The time until which the id is done, which is no longer than the window would remember it;
    /// after that it is free.
    done_until: Timestamp,
    until: Timestamp,
    /// True if the window has the id from a check that is still under way.
    is_inserted: bool,
}

impl Tombstones {
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = Name> {
        self.ids.keys().copied()
    }

    pub(super) fn contains(&self, id: Digest) -> bool {
        self.ids.contains_key(&Name::of(id))
    }

    /// Returns what is known of an id.
    pub(super) fn known(&mut self, id: Digest, now: impl FnOnce() -> Timestamp) -> Known {
        if self.ids.is_empty() {
            return Known::Nothing;
        }
        let now = now();
        self.clean(now);
        match self.ids.get(&Name::of(id)) {
            Some(entry) if now < entry.done_until => Known::Done,
            Some(entry) if now < entry.until => Known::Free,
            _ => Known::Nothing,
        }
    }

    /// Returns true if an id is done.
    #[inline(always)]
    pub(super) fn is_done(&self, id: Digest, now: impl FnOnce() -> Timestamp) -> bool {
        !self.ids.is_empty() && self.is_done_at(id, now())
    }

    #[inline(never)]
    fn is_done_at(&self, id: Digest, now: Timestamp) -> bool {
        self.ids.get(&Name::of(id)).is_some_and(|entry| now < entry.done_until)
    }

    /// Keeps an id as free: the check that has inserted it will have it, or a caller that has
    /// claimed it meanwhile has it.
    pub(super) fn keep_free(&mut self, id: Digest, until: Timestamp) {
        self.keep(id, Entry { done_until: Timestamp::default(), until, is_inserted: false });
    }

    /// Keeps an id as done: a check that has inserted it did not come first. `is_inserted` says
    /// that there is such a check.
    pub(super) fn keep_done(&mut self, id: Digest, until: Timestamp, is_inserted: bool) {
        self.keep(id, Entry { done_until: until, until, is_inserted });
    }

    /// Notes that a check has inserted an id that is done. Returns true if the insertion was new to
    /// the window: then it has to be taken back, or the window would remember the id for too long.
    pub(super) fn takes_back(&mut self, id: Digest, until: Timestamp) -> bool {
        let Some(entry) = self.ids.get_mut(&Name::of(id)) else {
            return false;
        };
        if std::mem::take(&mut entry.is_inserted) {
            return false;
        }
        entry.until = until;
        self.over = self.over.max(until);
        true
    }

    fn keep(&mut self, id: Digest, entry: Entry) {
        self.over = self.over.max(entry.until);
        self.ids.insert(Name::of(id), entry);
    }

    /// Notes that an id that is done was asked for again, and the window slides.
    pub(super) fn refresh(&mut self, id: Digest, until: Timestamp) {
        if let Some(entry) = self.ids.get_mut(&Name::of(id)) {
            entry.done_until = until;
            entry.until = entry.until.max(until);
            self.over = self.over.max(until);
        }
    }

    /// Notes that an id is forgotten.
    pub(super) fn free(&mut self, id: Digest) {
        if let Some(entry) = self.ids.get_mut(&Name::of(id)) {
            entry.done_until = Timestamp::default();
        }
    }

    /// Notes that all ids are forgotten.
    pub(super) fn free_all(&mut self) {
        self.ids.values_mut().for_each(|entry| entry.done_until = Timestamp::default());
    }

    /// Drops expired ids: everything at once if all have expired; if there are many, each of those
    /// that have.
    pub(super) fn clean(&mut self, now: Timestamp) {
        if self.over <= now {
            self.ids.clear();
        } else if self.ids.len() >= self.clean_at.max(FEW_IDS) {
            self.ids.retain(|_, entry| now < entry.until);
            self.clean_at = 2 * self.ids.len();
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.ids.capacity() * size_of::<(Name, Entry)>()
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    fn id(n: u64) -> Digest {
        Digest { place: n, mark: !n }
    }

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    #[test]
    fn an_id_is_done_and_then_free_and_then_unknown_to_the_nanosecond() {
        let mut ids = Tombstones::default();
        assert_eq!((ids.known(id(1), || at(0)), ids.is_done(id(1), || at(0))), (Known::Nothing, false));
        assert_eq!((ids.takes_back(id(1), at(20)), ids.bytes()), (false, 0));
        // Another one stays, so that not all have expired at once.
        ids.keep_free(id(2), at(30));
        ids.keep_done(id(1), at(10), false);
        assert!(ids.takes_back(id(1), at(20)), "a check has inserted it that came late");
        let known = [0, 9, 10, 19, 20].map(|nanos| ids.known(id(1), || at(nanos)));
        assert_eq!(known, [Known::Done, Known::Done, Known::Free, Known::Free, Known::Nothing]);
        assert_eq!([9, 10].map(|nanos| ids.is_done(id(1), || at(nanos))), [true, false]);
        assert_eq!([0, 29, 30].map(|nanos| ids.known(id(2), || at(nanos))), [Known::Free, Known::Free, Known::Nothing]);
        assert_eq!((ids.len(), ids.contains(id(2))), (0, false), "all have expired");
    }

    #[test]
    fn of_an_id_that_a_check_has_inserted_the_next_insertion_is_taken_back() {
        let mut ids = Tombstones::default();
        ids.keep_done(id(1), at(10), true);
        assert_eq!([0; 3].map(|_| ids.takes_back(id(1), at(20))), [false, true, true]);
    }

    #[test]
    fn what_is_asked_for_again_stays_done_and_what_is_forgotten_is_free() {
        let mut ids = Tombstones::default();
        for n in [1, 2, 3] {
            ids.keep_done(id(n), at(10), false);
        }
        ids.refresh(id(1), at(20));
        ids.refresh(id(4), at(20));
        assert_eq!([10, 19].map(|nanos| ids.known(id(1), || at(nanos))), [Known::Done; 2]);
        ids.free(id(2));
        assert_eq!([1, 2, 3].map(|n| ids.known(id(n), || at(9))), [Known::Done, Known::Free, Known::Done]);
        ids.free_all();
        assert_eq!([1, 2, 3].map(|n| ids.known(id(n), || at(9))), [Known::Free; 3]);
        assert!(!ids.contains(id(4)));
    }

    #[test]
    fn if_there_are_many_those_that_have_expired_go_when_there_are_twice_as_many() {
        let mut ids = Tombstones::default();
        let keep = |ids: &mut Tombstones, numbers: std::ops::RangeInclusive<u64>| {
            numbers.for_each(|n| ids.keep_free(id(n), at(n)));
        };
        keep(&mut ids, 1..=200);
        assert!(ids.bytes() >= 200 * size_of::<(Name, Entry)>());
        ids.clean(at(100));
        assert_eq!((ids.len(), ids.contains(id(100)), ids.contains(id(101))), (100, false, true));
        keep(&mut ids, 1..=99);
        ids.clean(at(100));
        assert_eq!(ids.len(), 199);
        keep(&mut ids, 100..=100);
        ids.clean(at(100));
        assert_eq!(ids.len(), 100);
        ids.clean(at(199));
        assert_eq!(ids.len(), 100);
        ids.clean(at(200));
        assert_eq!(ids.len(), 0);
    }
}
