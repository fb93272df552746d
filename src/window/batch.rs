//! The common case, written so that the processor can overlap the work for one id with the memory
//! access for the next.
//!
//! Ids whose bucket needs more than a look and a compare-and-swap (its entries have spilled, an
//! entry must be moved, its shard must be swept, other threads interfered) go the long way,
//! [`check_thoroughly`](BucketMemory::check_thoroughly).

use super::bucket;
use super::bucket_memory::{BucketMemory, Overtaken, Place};
use super::roster::Roster;
use super::slot::{Slot, Tag};
use super::tables::place;
use super::tick::{Moment, Tick};
use crate::Outcome;
use crate::digest::Digest;
use crate::id_set::{CHUNK, IdSet};
use crate::memory::LINE_BYTES;
use crate::rules::{Rule, obeys};

/// A chunk of up to [`CHUNK`] ids on their way.
pub(crate) struct Chunk {
    /// The places of the ids in the newest table of this roster: the chunk is staged for it.
    ids: [Place; CHUNK],
    roster: Roster,
    /// The half of each digest from which its bucket follows, for tables of other sizes. The other
    /// half is not stored: the tag, all that the window needs of it, is in `ids`, and each word
    /// that is written for an id can be measured.
    halves: [u64; CHUNK],
    insertions: [Insertion; CHUNK],
    len: usize,
}

/// Returns true if the table exceeds what the TLB can map (2,048 huge pages, often fewer). Then a
/// prefetch has to wait for its address to be translated, and the instructions after it wait, too;
/// several prefetches wait together only if they come one right after another. (Measured: 67 ns per
/// id became 43 at 3 GB, 127 became 88 at 9 GB.)
#[inline(always)]
fn asks_together<M: BucketMemory>(memory: &M) -> bool {
    memory.buckets() >= (2 << 30) / LINE_BYTES
}

/// The result for a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decided {
    pub(crate) fresh: IdSet,
    /// The ids to be checked again, with a later moment.
    pub(crate) overtaken: IdSet,
}

/// The place of a decided insertion: the head of a bucket's ring, as it was seen.
#[derive(Clone, Copy, Default)]
struct Insertion {
    slot: usize,
    old: Slot,
}

impl Insertion {
    /// Inserts an id, if the slot still is as it was seen.
    #[inline(always)]
    fn commit<M: BucketMemory>(self, memory: &M, id: Place, moment: &Moment) -> bool {
        let version = (self.old.version(M::VERSION_MASK) + 1) & M::VERSION_MASK;
        let new = Slot::accepted(id.tag, moment).inserted(false, version);
        memory.replace(id.bucket, self.slot, self.old, new, None)
    }
}

impl Chunk {
    pub(crate) fn new() -> Self {
        Chunk {
            ids: [Place::default(); CHUNK],
            roster: Roster::first(0),
            halves: [0; CHUNK],
            insertions: [Insertion::default(); CHUNK],
            len: 0,
        }
    }

    /// Adds an id to a chunk that is not full, and asks for its bucket, unless that is left to
    /// [`ask`](Chunk::ask). `memory` is that of the newest table of its roster.
    #[inline(always)]
    pub(crate) fn stage<M: BucketMemory>(&mut self, memory: &M, digest: Digest) {
        let id = place(memory, digest);
        self.ids[self.len] = id;
        self.halves[self.len] = digest.place;
        self.len += 1;
        if !asks_together(memory) {
            memory.prefetch(id.bucket);
        }
    }

    /// Asks for the buckets of a complete chunk, if its table is so large that they are better
    /// asked for at once.
    #[inline(always)]
    pub(crate) fn ask<M: BucketMemory>(&self, memory: &M) {
        if asks_together(memory) {
            self.ids[..self.len].iter().for_each(|id| memory.prefetch(id.bucket));
        }
    }

    /// Returns the roster for whose newest table the ids are staged.
    #[inline(always)]
    pub(crate) fn roster(&self) -> Roster {
        self.roster
    }

    /// Stages the same ids for another table.
    pub(crate) fn move_to<M: BucketMemory>(&mut self, roster: Roster, memory: &M) {
        self.roster = roster;
        for i in 0..self.len {
            self.ids[i] = place(memory, self.digest(i));
            memory.prefetch(self.ids[i].bucket);
        }
    }

    /// Returns the part of an id's digest that the window needs.
    #[inline(always)]
    pub(crate) fn digest(&self, i: usize) -> Digest {
        Digest { place: self.halves[i], mark: self.ids[i].tag.as_mark() }
    }

    /// Asks for the buckets of the ids in `todo`, in a table for which they are not staged.
    #[inline(always)]
    pub(crate) fn ask_in<M: BucketMemory>(&self, memory: &M, todo: IdSet) {
        todo.iter().for_each(|i| memory.prefetch(place(memory, self.digest(i)).bucket));
    }

    /// Returns the set of ids in `todo` that are in a table. `meanwhile` is called once for each.
    #[inline(always)]
    pub(crate) fn seen_in<M: BucketMemory>(
        &self,
        memory: &M,
        todo: IdSet,
        tick: Tick,
        mut meanwhile: impl FnMut(),
    ) -> IdSet {
        let moment = &memory.moment(tick);
        let place = |i: usize| place(memory, self.digest(i));
        let (mut seen, mut undecided) = (IdSet::EMPTY, IdSet::EMPTY);
        for i in todo.iter() {
            meanwhile();
            let id = place(i);
            let ready = memory.is_ready(id.bucket, moment);
            let view = memory.view(id.bucket, id.tag.at_home(), moment);
            seen.insert_if(i, ready & view.hit);
            undecided.insert_if(i, !ready | (view.spilled & !view.hit));
        }
        undecided.iter().for_each(|i| memory.prefetch(place(i).tag.alternate(place(i).bucket, memory.buckets())));
        seen.union(undecided.filter(|i| bucket::contains(memory, place(i), moment)))
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the set of all of its ids.
    #[inline(always)]
    pub(crate) fn all(&self) -> IdSet {
        IdSet::first(self.len)
    }

    /// Empties the chunk; ids will be staged for the newest table of a roster.
    #[inline(always)]
    pub(crate) fn clear(&mut self, roster: Roster) {
        self.roster = roster;
        self.len = 0;
    }

    /// Checks those ids of the chunk that are in `todo`, in their order.
    ///
    /// First a look at every bucket, then all insertions, then one by one the ids that could not be
    /// decided so. Looking changes nothing, so two equal ids are both found absent; then the second
    /// insertion fails, because the first has changed the slot.
    ///
    /// `meanwhile` is called with every look, to ask for a bucket of the next chunk. So requests to
    /// the memory are spread over the work, and do not wait for each other.
    #[inline(always)]
    pub(crate) fn check<M: BucketMemory>(
        &mut self,
        memory: &M,
        todo: IdSet,
        tick: Tick,
        refresh: bool,
        mut meanwhile: impl FnMut(),
    ) -> Decided {
        let moment = &memory.moment(tick);
        let ids = &self.ids[..self.len];
        let (mut insert, mut undecided) = (IdSet::EMPTY, IdSet::EMPTY);
        for (i, (&id, insertion)) in ids.iter().zip(&mut self.insertions).enumerate() {
            meanwhile();
            let look = look(memory, id, moment, refresh);
            *insertion = look.insertion;
            insert.insert_if(i, look.insert);
            undecided.insert_if(i, !look.insert & !look.duplicate);
        }
        let (insert, mut undecided) = (insert.intersection(todo), undecided.intersection(todo));
        if memory.overtaken(moment) && obeys(Rule::Overtaken) {
            return Decided { fresh: IdSet::EMPTY, overtaken: insert.union(undecided) };
        }

        let mut delayed = TagSet::default();
        for i in undecided.iter() {
            prefetch_alternates(memory, ids[i], self.insertions[i].old);
            delayed.insert(ids[i].tag);
        }
        let mut fresh = IdSet::EMPTY;
        for i in insert.iter() {
            // An id equal to an earlier one that is delayed must wait, too, or they would swap
            // their answers.
            let id = ids[i];
            if !delayed.may_contain(id.tag) && self.insertions[i].commit(memory, id, moment) {
                fresh.insert(i);
            } else {
                undecided.insert(i);
                delayed.insert(id.tag);
            }
        }
        settle(memory, ids, undecided, tick, refresh, fresh)
    }
}

/// The decision of a look at an id's home bucket; neither flag is set if a look does not suffice.
struct Look {
    duplicate: bool,
    insert: bool,
    insertion: Insertion,
}

/// Looks at an id's home bucket and changes nothing. It has no branches: they would be
/// mispredicted, on data that may not even have arrived.
#[inline(always)]
fn look<M: BucketMemory>(memory: &M, id: Place, moment: &Moment, refresh: bool) -> Look {
    // Read before the slots: once swept, they stay unambiguous.
    let ready = memory.is_ready(id.bucket, moment);
    let view = memory.view(id.bucket, id.tag.at_home(), moment);
    let old = memory.load(id.bucket, view.ring.head);
    let unchanged = view.ring.version.wrapping_sub(old.version(M::VERSION_MASK)) & M::VERSION_MASK == 1;
    Look {
        duplicate: ready & view.hit & !refresh,
        insert: ready & view.valid & unchanged & obeys(Rule::Ring) & !(view.hit | view.spilled | old.keep(moment)),
        insertion: Insertion { slot: view.ring.head, old },
    }
}

/// Checks one id.
#[inline(always)]
pub(crate) fn check_one<M: BucketMemory>(
    memory: &M,
    id: Place,
    tick: Tick,
    refresh: bool,
) -> Result<Outcome, Overtaken> {
    let moment = &memory.moment(tick);
    let look = look(memory, id, moment, refresh);
    if look.duplicate {
        return Ok(Outcome::Duplicate);
    }
    let overtaken = memory.overtaken(moment) && obeys(Rule::Overtaken);
    if look.insert && !overtaken && look.insertion.commit(memory, id, moment) {
        return Ok(Outcome::Fresh);
    }
    memory.check_thoroughly(id, tick, refresh)
}

/// Takes undecided ids the long way, in order.
#[inline(always)]
fn settle<M: BucketMemory>(
    memory: &M,
    ids: &[Place],
    undecided: IdSet,
    tick: Tick,
    refresh: bool,
    mut fresh: IdSet,
) -> Decided {
    for i in undecided.iter() {
        match memory.check_thoroughly(ids[i], tick, refresh) {
            Ok(outcome) => fresh.insert_if(i, outcome == Outcome::Fresh),
            Err(Overtaken) => {
                return Decided { fresh, overtaken: undecided.starting_at(i) };
            }
        }
    }
    Decided { fresh, overtaken: IdSet::EMPTY }
}

/// A set of tags, roughly: it may contain others, with a probability of one in a hundred at most.
#[derive(Default)]
pub(crate) struct TagSet([u64; 8]);

impl TagSet {
    #[inline(always)]
    pub(crate) fn insert(&mut self, tag: Tag) {
        let (word, bit) = Self::position(tag);
        self.0[word] |= bit;
    }

    #[inline(always)]
    pub(crate) fn may_contain(&self, tag: Tag) -> bool {
        let (word, bit) = Self::position(tag);
        self.0[word] & bit != 0
    }

    fn position(tag: Tag) -> (usize, u64) {
        let hash = tag.top_bits(9);
        (hash >> 6, 1 << (hash & 63))
    }
}

/// Asks for the buckets that the long way will need.
#[inline(always)]
fn prefetch_alternates<M: BucketMemory>(memory: &M, id: Place, victim: Slot) {
    memory.prefetch(id.tag.alternate(id.bucket, memory.buckets()));
    if let Some(tag) = victim.tag() {
        memory.prefetch(tag.alternate(id.bucket, memory.buckets()));
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_tags_contains_its_members_and_few_others() {
        let tag = |i: u64| Tag::of(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut set = TagSet::default();
        (0..5).for_each(|i| set.insert(tag(i)));
        assert!((0..5).all(|i| set.may_contain(tag(i))));
        // Five of 512 bits are set.
        let others = (5..100_005).filter(|i| set.may_contain(tag(*i))).count();
        assert!((900..1_060).contains(&others), "{others} of 100,000");
    }
}
