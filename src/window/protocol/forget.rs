//! Forgetting an id, or all of them, while others insert and relocate.
//!
//! The difficulty is a copy that is being made: a relocation may copy an entry to its alternate
//! bucket after both buckets were cleaned, and so may a check that refreshes what it has found
//! away. Both reserve a slot for the copy first, then look whether the original still is there, and
//! fill the slot then (`copy` in [`bucket`](super::bucket)). So a caller that has removed the
//! original, and then what is reserved where the copy would be, knows: whoever has reserved a slot
//! before that cannot fill it; who does so afterwards finds the original gone. A copy that got in
//! between is removed with what was reserved.
//!
//! Nothing of this takes a place in a ring, so an id that is forgotten costs no other id its own.

use super::bucket_memory::{BucketMemory, Place};
use super::patience::insertions;
use crate::mutation::{Rule, obeys};
use crate::sync::{Ordering, explored, fence};
use crate::window::bits::slot::{Slot, Tag};
use crate::window::bits::tick::Moment;

/// Forgets an id. Returns true if it was remembered.
///
/// A check that begins when this has returned finds the id fresh, unless another check of it came
/// in between.
pub(crate) fn forget<M: BucketMemory>(memory: &M, id: Place, moment: impl Fn() -> Moment, refresh: bool) -> bool {
    let alternate = id.tag.alternate(id.bucket, memory.buckets());
    memory.ready(id.bucket, &moment());
    memory.ready(alternate, &moment());
    let mut remembered = false;
    loop {
        let before = refresh.then(|| insertions(memory, id.bucket, &moment()));
        remembered |= remove(memory, id.bucket, id.tag, true);
        let was_away = remove(memory, alternate, id.tag, false);
        remembered |= was_away;
        if !(was_away || refresh) {
            return remembered;
        }
        // The id may have been accepted again since we looked at its home, and the entry that we
        // found away may be the copy of that one, which is about to be overwritten: then that must
        // go as well, or the id would disappear when we are gone. With refresh, a check that found
        // the id away may have copied it to its home, or be about to.
        let was_home_again = remove(memory, id.bucket, id.tag, true);
        // (And that may have moved away behind us, if there was time for as many insertions.)
        let went_round = before.is_some_and(|before| {
            let all = (M::VERSION_MASK + 1) * M::SLOTS as u64;
            (insertions(memory, id.bucket, &moment()) + all - before) % all >= M::SLOTS as u64
        });
        if !was_home_again && !went_round {
            return remembered;
        }
    }
}

/// Forgets everything that was accepted before the call. Ids that are accepted meanwhile may be
/// forgotten, too.
///
/// With refresh, only while no entry is refreshed by a new one (see
/// `SharedState::while_clearing`): whoever has reserved a slot for that looks whether this is
/// under way before it is filled.
pub(crate) fn forget_all<M: BucketMemory>(memory: &M, moment: impl Fn() -> Moment, refresh: bool) {
    for bucket in 0..memory.buckets() {
        memory.ready(bucket, &moment());
        remove_where(memory, bucket, |entry| !entry.is_vacant() || entry.is_reserved_for_any());
    }
    // Entries that relocations have carried behind our back are away, or about to be. Such an entry
    // may as well be the copy of an id that was accepted meanwhile: then that must go, too, or the
    // id would disappear when it is overwritten.
    for bucket in 0..memory.buckets() {
        remove_where(memory, bucket, |entry| entry.is_reserved_for_any() && obeys(Rule::CancelReserved));
        for slot in 0..M::SLOTS {
            let entry = memory.load(bucket, slot);
            if let Some(tag) = entry.tag().filter(|_| entry.is_away()) {
                let home = tag.alternate(bucket, memory.buckets());
                forget(memory, Place { bucket: home, tag }, &moment, refresh);
            }
        }
    }
}

/// Removes an entry from a bucket, with what is reserved there for its id. Returns true if it was
/// there.
fn remove<M: BucketMemory>(memory: &M, bucket: usize, tag: Tag, is_home: bool) -> bool {
    let key = if is_home { tag.at_home() } else { tag.away() };
    let remove = || {
        let mut found = false;
        remove_where(memory, bucket, |entry| {
            let is_it = entry.matches(key);
            found |= is_it;
            is_it || (entry.is_reserved(tag, is_home) && obeys(Rule::CancelReserved))
        });
        found
    };
    explored::sum_up(remove, |found| u64::from(*found))
}

/// Removes from a bucket what is to go.
fn remove_where<M: BucketMemory>(memory: &M, bucket: usize, mut is_to_go: impl FnMut(Slot) -> bool) {
    // Partner of the sequentially consistent accesses of `copy`: if we come too early to see
    // that a slot is reserved, then whoever reserves it sees what we have removed before.
    fence(Ordering::SeqCst);
    for slot in 0..M::SLOTS {
        loop {
            let old = memory.load(bucket, slot);
            if !is_to_go(old) || memory.replace(bucket, slot, old, old.tombstone(), None) {
                break;
            }
        }
    }
}
