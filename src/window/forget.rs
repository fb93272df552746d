//! Forgetting an id, or all of them, while others insert and relocate.
//!
//! The difficulty is a relocation under way: it may copy an entry to its alternate line after both
//! lines were cleaned. A relocation reads the alternate line, then looks whether the entry's own
//! slot still is as it was, then inserts. So a caller that has removed the entry from its home and
//! then *inserts a vacancy* into the alternate line knows: a relocation that viewed that line
//! before fails; one that views it afterwards finds the entry's slot changed. An entry that got in
//! between is removed after that.

use super::line::{LineMemory, Overtaken, Place, push_vacancy};
use super::slot::{Key, Slot};
use super::tick::Moment;
use crate::rules::{Rule, obeys};

/// Forgets an id. Returns true if it was remembered.
///
/// A check that begins when this has returned finds the id fresh, unless another check of it came
/// in between.
pub(crate) fn forget<M: LineMemory>(memory: &M, id: Place, moment: impl Fn() -> Moment, refresh: bool) -> bool {
    let alternate = id.tag.alternate(id.line, memory.lines());
    memory.ready(id.line, &moment());
    memory.ready(alternate, &moment());
    let (mut remembered, mut home_is_outdated) = (false, false);
    loop {
        let at_home = remove(memory, id.line, id.tag.at_home());
        let mut away = remove(memory, alternate, id.tag.away()).is_some();
        remembered |= at_home.is_some() | away;
        let relocatable = match at_home {
            // Removed from a slot that is neither the next to be overwritten nor overwritten by
            // now: no caller was relocating it.
            Some((slot, lap)) => {
                let view = memory.view(id.line, Key::NONE, &moment());
                let untouched = memory.load(id.line, slot).lap(M::LAP_MASK) == lap;
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
        if away && remove(memory, id.line, id.tag.at_home()).is_some() {
            continue;
        }
        // With refresh, a check that found the id away may be about to insert it at home, on a view
        // from before. Even if the id is not found anywhere, there may be such a check: it may have
        // displaced the entry that it found, or our vacancy may have.
        let refreshable = away || (relocatable && !home_is_outdated);
        if !(refresh && refreshable && obeys(Rule::ForgetHomeVacancy)) {
            return remembered;
        }
        insert_vacancy(memory, id.line, &moment);
        home_is_outdated = true;
    }
}

/// Forgets everything that was accepted before the call. Ids that are accepted meanwhile may be
/// forgotten, too.
///
/// With refresh, only while no entry is refreshed by a new one
/// ([`Common::while_clearing`](super::common::Common::while_clearing)). A caller that has seen
/// before that an id is away, and is about to insert it at home, has looked at its home before; so
/// a vacancy there makes the insertion fail, or finds it done.
pub(crate) fn forget_all<M: LineMemory>(memory: &M, moment: impl Fn() -> Moment, refresh: bool) {
    for line in 0..memory.lines() {
        memory.ready(line, &moment());
        remove_all(memory, line);
        if refresh {
            insert_vacancy(memory, line, &moment);
            remove_all(memory, line);
        }
    }
    // Entries that relocations have carried behind our back are away. Such an entry may as well be
    // the copy of an id that was accepted meanwhile: then that must go, too, or the id would
    // disappear when it is overwritten.
    for line in 0..memory.lines() {
        insert_vacancy(memory, line, &moment);
        for slot in 0..M::SLOTS {
            let entry = memory.load(line, slot);
            if let Some(tag) = entry.tag().filter(|_| entry.is_away()) {
                let home = tag.alternate(line, memory.lines());
                forget(memory, Place { line: home, tag }, &moment, refresh);
            }
        }
    }
}

fn remove_all<M: LineMemory>(memory: &M, line: usize) {
    for slot in 0..M::SLOTS {
        replace_while(memory, line, slot, |entry| (!entry.is_vacant()).then(|| entry.tombstone()));
    }
}

fn insert_vacancy<M: LineMemory>(memory: &M, line: usize, moment: &impl Fn() -> Moment) {
    let insert = || while push_vacancy(memory, line, &moment()) == Err(Overtaken) {};
    #[cfg(explore)]
    return crate::explore::sum_up(insert, |_| 0);
    #[cfg(not(explore))]
    insert()
}

/// Removes an entry from a line. Returns where it was found: slot and lap.
fn remove<M: LineMemory>(memory: &M, line: usize, key: Key) -> Option<(usize, u64)> {
    let remove = || {
        let mut found = None;
        for slot in 0..M::SLOTS {
            let removed = replace_while(memory, line, slot, |entry| entry.matches(key).then(|| entry.tombstone()));
            if let Some(entry) = removed {
                found = Some((slot, entry.lap(M::LAP_MASK)));
            }
        }
        found
    };
    #[cfg(explore)]
    return crate::explore::sum_up(remove, |found| found.map_or(0, |(slot, lap)| 1 + slot as u64 + (lap << 8)));
    #[cfg(not(explore))]
    remove()
}

/// Replaces a slot's content for as long as there is a replacement. Returns the content that was
/// replaced.
fn replace_while<M: LineMemory>(
    memory: &M,
    line: usize,
    slot: usize,
    replacement: impl Fn(Slot) -> Option<Slot>,
) -> Option<Slot> {
    loop {
        let old = memory.load(line, slot);
        let new = replacement(old)?;
        if memory.replace(line, slot, old, new, None) {
            return Some(old);
        }
    }
}
