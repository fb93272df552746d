//! Forgetting an id, or all of them, while others insert and relocate.
//!
//! The difficulty is a relocation under way: it may copy an entry to its alternate bucket after
//! both buckets were cleaned. A relocation reads the alternate bucket, then looks whether the
//! entry's own slot still is as it was, then inserts. So a caller that has removed the entry from
//! its home and then *inserts a vacancy* into the alternate bucket knows: a relocation that viewed
//! that bucket before fails; one that views it afterwards finds the entry's slot changed. An entry
//! that got in between is removed after that.

use super::bucket::push_vacancy;
use super::bucket_memory::{BucketMemory, Overtaken, Place};
use super::slot::{Key, Slot};
use super::tick::Moment;
use crate::rules::{Rule, obeys};

/// Forgets an id. Returns true if it was remembered.
///
/// A check that begins when this has returned finds the id fresh, unless another check of it came
/// in between.
pub(crate) fn forget<M: BucketMemory>(memory: &M, id: Place, moment: impl Fn() -> Moment, refresh: bool) -> bool {
    let alternate = id.tag.alternate(id.bucket, memory.buckets());
    memory.ready(id.bucket, &moment());
    memory.ready(alternate, &moment());
    let (mut remembered, mut home_is_outdated) = (false, false);
    loop {
        let at_home = remove(memory, id.bucket, id.tag.at_home());
        let mut away = remove(memory, alternate, id.tag.away()).is_some();
        remembered |= at_home.is_some() | away;
        let relocatable = match at_home {
            // Removed from a slot that is neither the next to be overwritten nor overwritten by
            // now: no caller was relocating it.
            Some((slot, version)) => {
                let view = memory.view(id.bucket, Key::NONE, &moment());
                let untouched = memory.load(id.bucket, slot).version(M::VERSION_MASK) == version;
                !(untouched && view.valid && view.ring.head != slot)
            }
            None => !away,
        };
        if relocatable && obeys(Rule::ForgetVacancy) {
            insert_vacancy(memory, alternate, &moment);
            away |= remove(memory, alternate, id.tag.away()).is_some();
        }
        // The id may have been accepted again since we looked at its home, and the entry that we
        // found away may be the copy of that one, which is about to be overwritten: then that must
        // go as well, or the id would disappear when we are gone.
        if away && remove(memory, id.bucket, id.tag.at_home()).is_some() {
            continue;
        }
        // With refresh, a check that found the id away may be about to insert it at home, on a view
        // from before. Even if the id is not found anywhere, there may be such a check: it may have
        // displaced the entry that it found, or our vacancy may have.
        let refreshable = away || (relocatable && !home_is_outdated);
        if !(refresh && refreshable && obeys(Rule::ForgetHomeVacancy)) {
            return remembered;
        }
        insert_vacancy(memory, id.bucket, &moment);
        home_is_outdated = true;
    }
}

/// Forgets everything that was accepted before the call. Ids that are accepted meanwhile may be
/// forgotten, too.
///
/// With refresh, only while no entry is refreshed by a new one
/// ([`SharedState::while_clearing`](super::shared_state::SharedState::while_clearing)). A caller
/// that has seen before that an id is away, and is about to insert it at home, has looked at its
/// home before; so a vacancy there makes the insertion fail, or finds it done.
pub(crate) fn forget_all<M: BucketMemory>(memory: &M, moment: impl Fn() -> Moment, refresh: bool) {
    for bucket in 0..memory.buckets() {
        memory.ready(bucket, &moment());
        remove_all(memory, bucket);
        if refresh {
            insert_vacancy(memory, bucket, &moment);
            remove_all(memory, bucket);
        }
    }
    // Entries that relocations have carried behind our back are away. Such an entry may as well be
    // the copy of an id that was accepted meanwhile: then that must go, too, or the id would
    // disappear when it is overwritten.
    for bucket in 0..memory.buckets() {
        insert_vacancy(memory, bucket, &moment);
        for slot in 0..M::SLOTS {
            let entry = memory.load(bucket, slot);
            if let Some(tag) = entry.tag().filter(|_| entry.is_away()) {
                let home = tag.alternate(bucket, memory.buckets());
                forget(memory, Place { bucket: home, tag }, &moment, refresh);
            }
        }
    }
}

fn remove_all<M: BucketMemory>(memory: &M, bucket: usize) {
    for slot in 0..M::SLOTS {
        replace_while(memory, bucket, slot, |entry| (!entry.is_vacant()).then(|| entry.tombstone()));
    }
}

fn insert_vacancy<M: BucketMemory>(memory: &M, bucket: usize, moment: &impl Fn() -> Moment) {
    let insert = || while push_vacancy(memory, bucket, &moment()) == Err(Overtaken) {};
    #[cfg(explore)]
    return crate::sync::explored::sum_up(insert, |_| 0);
    #[cfg(not(explore))]
    insert()
}

/// Removes an entry from a bucket. Returns where it was found: slot and version.
fn remove<M: BucketMemory>(memory: &M, bucket: usize, key: Key) -> Option<(usize, u64)> {
    let remove = || {
        let mut found = None;
        for slot in 0..M::SLOTS {
            let removed = replace_while(memory, bucket, slot, |entry| entry.matches(key).then(|| entry.tombstone()));
            if let Some(entry) = removed {
                found = Some((slot, entry.version(M::VERSION_MASK)));
            }
        }
        found
    };
    #[cfg(explore)]
    return crate::sync::explored::sum_up(remove, |found| {
        found.map_or(0, |(slot, version)| 1 + slot as u64 + (version << 8))
    });
    #[cfg(not(explore))]
    remove()
}

/// Replaces a slot's content for as long as there is a replacement. Returns the content that was
/// replaced.
fn replace_while<M: BucketMemory>(
    memory: &M,
    bucket: usize,
    slot: usize,
    replacement: impl Fn(Slot) -> Option<Slot>,
) -> Option<Slot> {
    loop {
        let old = memory.load(bucket, slot);
        let new = replacement(old)?;
        if memory.replace(bucket, slot, old, new, None) {
            return Some(old);
        }
    }
}
