//! Ids that were forgotten, as long as no segment says so.

use crate::digest::Digest;
use crate::sync::{DiskAtomicU64, DiskMutex, Ordering, unpoisoned};
use std::collections::HashMap;

/// The state of an id, as far as it was forgotten since the last sealing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It was not.
    Remembered,
    /// It is being forgotten: what the window has of it may be gone, or not yet.
    Leaving,
    /// It was: the window had nothing of it then.
    Gone,
}

#[derive(Default)]
struct Times {
    /// The number of callers that are forgetting it.
    leaving: u32,
    /// The number of records in the journal, or on their way there, that no segment has.
    unsealed: u32,
}

/// The ids that were forgotten since the last sealing.
#[derive(Default)]
pub(super) struct Forgotten {
    times: DiskMutex<HashMap<Digest, Times>>,
    /// The number of ids in it.
    ids: DiskAtomicU64,
}

impl Forgotten {
    /// Notes that an id is about to be forgotten: before the journal has it, so that no sealing
    /// takes back what is not noted yet.
    pub(super) fn begin(&self, id: Digest) {
        self.change(|times| {
            let Times { leaving, unsealed } = times.entry(id).or_default();
            (*leaving, *unsealed) = (*leaving + 1, *unsealed + 1);
        });
    }

    /// Notes that it was.
    pub(super) fn end(&self, id: Digest) {
        self.change(|times| {
            if let Some(Times { leaving, unsealed }) = times.get_mut(&id) {
                *leaving -= 1;
                if (*leaving, *unsealed) == (0, 0) {
                    times.remove(&id);
                }
            }
        });
    }

    /// Takes back one record of each of these ids: from now on a segment has it.
    pub(super) fn sealed(&self, ids: &[Digest]) {
        self.change(|times| {
            for id in ids {
                if let Some(Times { leaving, unsealed }) = times.get_mut(id) {
                    *unsealed = unsealed.saturating_sub(1);
                    if (*leaving, *unsealed) == (0, 0) {
                        times.remove(id);
                    }
                }
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut HashMap<Digest, Times>)) {
        let mut times = unpoisoned(self.times.lock());
        change(&mut times);
        // Release: partner of the acquire in `of`.
        self.ids.store(times.len() as u64, Ordering::Release);
    }

    /// Returns the state of each of these ids; nothing if all are remembered.
    pub(super) fn of(&self, ids: &[Digest]) -> Vec<State> {
        // Acquire: partner of the release above. (Whoever has forgotten an id has returned.)
        if self.ids.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let times = unpoisoned(self.times.lock());
        let state = |id| match times.get(id) {
            None => State::Remembered,
            Some(Times { leaving: 0, .. }) => State::Gone,
            Some(_) => State::Leaving,
        };
        ids.iter().map(state).collect()
    }

    pub(super) fn len(&self) -> u64 {
        // Relaxed: a count.
        self.ids.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(any(modelled, alone))))]
mod tests {
    use super::*;
    use State::{Gone, Leaving, Remembered};

    #[test]
    fn an_id_is_gone_until_as_many_segments_say_so_as_it_was_forgotten() {
        let (forgotten, [a, b]) = (Forgotten::default(), [1, 2].map(|n| Digest { place: n, mark: n }));
        assert_eq!(forgotten.of(&[a]), []);
        for id in [a, b, a] {
            forgotten.begin(id);
            assert_eq!(forgotten.of(&[id]), [Leaving]);
            forgotten.end(id);
        }
        forgotten.sealed(&[a]);
        assert_eq!(forgotten.of(&[a, b]), [Gone, Gone]);
        forgotten.sealed(&[b]);
        assert_eq!(forgotten.of(&[a, b]), [Gone, Remembered]);
        forgotten.sealed(&[a, b, b]);
        assert_eq!((forgotten.of(&[a, b]), forgotten.len()), (Vec::new(), 0));
    }

    #[test]
    fn what_is_sealed_while_it_is_being_forgotten_is_gone_in_the_end() {
        let (forgotten, a) = (Forgotten::default(), Digest { place: 1, mark: 1 });
        forgotten.begin(a);
        forgotten.sealed(&[a]);
        assert_eq!(forgotten.of(&[a]), [Leaving]);
        forgotten.end(a);
        assert_eq!(forgotten.of(&[a]), []);
    }
}
