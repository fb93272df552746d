//! The common case, written so that the processor can overlap the work for one id with the memory
//! access for the next.
//!
//! Ids whose bucket needs more than a look and a compare-and-swap (its entries have spilled, an
//! entry must be moved, its shard must be swept, other threads interfered) go the long way,
//! [`check_thoroughly`](BucketMemory::check_thoroughly).

use crate::Outcome;
use crate::digest::Digest;
use crate::id_set::{CHUNK, IdSet};
use crate::memory::LINE_BYTES;
use crate::mutation::{Rule, obeys};
use crate::window::bits::slot::{Slot, Tag, scale};
use crate::window::bits::tick::{Moment, Tick};
use crate::window::look::view::{Glance, Sight};
use crate::window::protocol::bucket;
use crate::window::protocol::bucket_memory::{BucketMemory, Overtaken, Place};
use crate::window::table_set::roster::Roster;
use crate::window::table_set::tables::place;

/// A chunk of up to [`CHUNK`] ids on their way.
pub(crate) struct Chunk {
    digests: [Digest; CHUNK],
    /// The buckets of the ids in the newest table of this roster: the chunk is staged for it.
    buckets: [usize; CHUNK],
    roster: Roster,
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

/// The number of ids of one chunk that are staged at a time, while as many of the chunk before are
/// looked at.
pub(crate) const FEW: usize = 8;

const _: () = assert!(CHUNK.is_multiple_of(FEW));

/// The result for a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decided {
    pub(crate) fresh: IdSet,
    /// The ids of the chunk, also those that were not to be checked, that a look has shown to be in
    /// the window. Others may be, too.
    pub(crate) seen: IdSet,
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
        memory.replace(id.bucket, self.slot % M::SLOTS, self.old, new, None)
    }
}

impl Chunk {
    pub(crate) fn new() -> Self {
        Chunk {
            digests: [Digest::from(0); CHUNK],
            // (No bucket, rather than the first.)
            buckets: [usize::MAX; CHUNK],
            roster: Roster::first(0),
            insertions: [Insertion::default(); CHUNK],
            len: 0,
        }
    }

    /// Adds ids to a chunk that has room for them, and asks for their buckets, unless that is left
    /// to [`ask`](Chunk::ask). `memory` is that of the newest table of its roster.
    #[inline(always)]
    pub(crate) fn stage<M: BucketMemory>(&mut self, memory: &M, digests: impl Iterator<Item = Digest>) {
        let start = self.len;
        // (An accumulator, so that the number is in a register.)
        let end = digests.fold(start, |i, digest| {
            debug_assert!(i < CHUNK);
            self.digests[i % CHUNK] = digest;
            i + 1
        });
        self.len = end.min(CHUNK);
        let staged = self.digests[start..self.len].iter().zip(&mut self.buckets[start..]);
        let (buckets, prefetch) = (memory.buckets(), memory.prefetcher());
        if asks_together(memory) {
            staged.for_each(|(digest, bucket)| *bucket = scale(digest.place, buckets));
        } else {
            staged.for_each(|(digest, bucket)| {
                *bucket = scale(digest.place, buckets);
                prefetch(*bucket);
            });
        }
    }

    /// Asks for the buckets of a complete chunk, if its table is so large that they are better
    /// asked for at once.
    #[inline(always)]
    pub(crate) fn ask<M: BucketMemory>(&self, memory: &M) {
        if asks_together(memory) {
            self.buckets[..self.len].iter().for_each(|bucket| memory.prefetch(*bucket));
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
            self.buckets[i] = scale(self.digests[i].place, memory.buckets());
            memory.prefetch(self.buckets[i]);
        }
    }

    /// Returns the digest of an id.
    #[inline(always)]
    pub(crate) fn digest(&self, i: usize) -> Digest {
        self.digests[i]
    }

    /// Returns the digests of all ids.
    #[inline(always)]
    pub(crate) fn digests(&self) -> &[Digest] {
        &self.digests[..self.len]
    }

    /// Returns the place of an id in the table for which it is staged.
    #[inline(always)]
    fn place(&self, i: usize) -> Place {
        Place { bucket: self.buckets[i], tag: Tag::of(self.digests[i].mark) }
    }

    /// Asks for the buckets of the ids in `todo`, in a table for which they are not staged.
    #[inline(always)]
    pub(crate) fn ask_in<M: BucketMemory>(&self, memory: &M, todo: IdSet) {
        todo.iter().for_each(|i| self.ask_one_in(memory, i));
    }

    /// Asks for one id's bucket in such a table.
    #[inline(always)]
    fn ask_one_in<M: BucketMemory>(&self, memory: &M, i: usize) {
        memory.prefetch(place(memory, self.digest(i)).bucket);
    }

    /// Returns the set of ids in `todo` that are in a table, and asks for their buckets in the
    /// table that is looked at next.
    #[inline(always)]
    pub(crate) fn seen_in<M: BucketMemory>(&self, memory: &M, todo: IdSet, tick: Tick, next: Option<&M>) -> IdSet {
        let moment = &memory.moment(tick);
        let place = |i: usize| place(memory, self.digest(i));
        let (mut seen, mut undecided) = (IdSet::EMPTY, IdSet::EMPTY);
        // Read before the slots: once swept, they stay unambiguous.
        let are_ready = memory.are_ready(todo.iter().map(|i| place(i).bucket), moment);
        for i in todo.iter() {
            if let Some(next) = next {
                self.ask_one_in(next, i);
            }
            let id = place(i);
            let (view, _) = memory.view_with_head(id.bucket, id.tag.at_home(), moment);
            seen.insert_if(i, view.hit);
            undecided.insert_if(i, view.spilled & !view.hit);
        }
        if !are_ready {
            // As in a check: some shard must be swept first.
            (seen, undecided) = (IdSet::EMPTY, todo);
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
    /// `meanwhile` is called with every [`FEW`] looks, to ask for as many buckets of the next
    /// chunk. So requests to the memory are spread over the work, and do not wait for each other.
    /// (Whatever it is, this is compiled once, and in no user's crate.)
    #[inline(always)]
    pub(crate) fn check<M: BucketMemory>(
        &mut self,
        memory: &M,
        todo: IdSet,
        tick: Tick,
        refresh: bool,
        meanwhile: &mut dyn FnMut(),
    ) -> Decided {
        let moment = &memory.moment(tick);
        let (mut hits, mut blocked) = (IdSet::EMPTY, IdSet::EMPTY);
        // Read before the slots: once swept, they stay unambiguous.
        let are_ready = memory.are_ready(self.buckets[..self.len].iter().copied(), moment);
        let ids = self.digests[..self.len].chunks(FEW).zip(self.buckets.chunks(FEW));
        for (few, ((digests, buckets), insertions)) in ids.zip(self.insertions.chunks_mut(FEW)).enumerate() {
            meanwhile();
            for (i, ((digest, bucket), insertion)) in digests.iter().zip(buckets).zip(insertions).enumerate() {
                let id = Place { bucket: *bucket, tag: Tag::of(digest.mark) };
                let look = look(memory, id, moment);
                *insertion = look.insertion;
                hits.insert_if(few * FEW + i, look.hit);
                blocked.insert_if(few * FEW + i, look.blocked);
            }
        }
        if !are_ready {
            // Some shard must be swept first; rarely, so that it does not matter which.
            (hits, blocked) = (IdSet::EMPTY, self.all());
        }
        let insert = todo.difference(hits.union(blocked));
        let mut undecided = todo.intersection(if refresh { hits.union(blocked) } else { blocked.difference(hits) });
        if memory.overtaken(moment) {
            return Decided { fresh: IdSet::EMPTY, seen: hits, overtaken: insert.union(undecided) };
        }

        undecided.iter().for_each(|i| prefetch_alternates(memory, self.place(i), self.insertions[i].old));
        let mut fresh = insert;
        for i in insert.iter() {
            if !self.insertions[i].commit(memory, self.place(i), moment) {
                overtake(i, &mut fresh, &mut undecided);
            }
        }
        self.settle(memory, undecided, tick, refresh, Decided { fresh, seen: hits, overtaken: IdSet::EMPTY })
    }

    /// Takes undecided ids the long way, in order.
    #[inline(always)]
    fn settle<M: BucketMemory>(
        &self,
        memory: &M,
        undecided: IdSet,
        tick: Tick,
        refresh: bool,
        mut decided: Decided,
    ) -> Decided {
        let fresh = &mut decided.fresh;
        for i in undecided.iter() {
            match memory.check_thoroughly(self.place(i), tick, refresh) {
                Ok(Outcome::Fresh) => fresh.insert(i),
                Ok(_) => *fresh = self.first_of_equals(i, *fresh),
                Err(Overtaken) => {
                    let rest = undecided.starting_at(i);
                    rest.iter().for_each(|i| *fresh = self.first_of_equals(i, *fresh));
                    decided.overtaken = rest.difference(*fresh);
                    break;
                }
            }
        }
        decided
    }

    /// Returns the set of fresh ids in which an id that is no fresh one, or not yet decided, takes
    /// the place of an equal one that comes later in the chunk. (Others may have changed the bucket
    /// between the looks for the two, so that the later one was inserted at once.)
    #[inline(never)]
    fn first_of_equals(&self, i: usize, mut fresh: IdSet) -> IdSet {
        let digest = self.digests[i];
        let is_equal = |other: usize| self.digests[other] == digest;
        if let Some(later) = fresh.starting_at(i).iter().find(|&other| is_equal(other)) {
            fresh = fresh.without(later);
            fresh.insert(i);
        }
        fresh
    }
}

/// Moves an id whose slot has changed from those that are inserted to those that are undecided.
#[cold]
fn overtake(i: usize, fresh: &mut IdSet, undecided: &mut IdSet) {
    *fresh = fresh.without(i);
    undecided.insert(i);
}

/// The result of a look at an id's home bucket.
struct Look {
    /// True if the id is there.
    hit: bool,
    /// True if the id, if it is not there, cannot be inserted without more ado.
    blocked: bool,
    insertion: Insertion,
}

/// Looks at an id's home bucket, in a shard that need not be swept, and changes nothing. It has no
/// branches: they would be mispredicted, on data that may not even have arrived.
#[inline(always)]
fn look<M: BucketMemory>(memory: &M, id: Place, moment: &Moment) -> Look {
    let Sight { hit, clear, head, old } = memory.sight(id.bucket, id.tag.at_home(), moment);
    Look { hit, blocked: !clear | old.keep(moment) | !obeys(Rule::Ring), insertion: Insertion { slot: head, old } }
}

/// Checks one id, if a look and, where it may be inserted, a compare-and-swap decide: fresh, or
/// there. If not, nothing has changed. It calls nothing, so that the processor's registers suffice.
#[inline(always)]
pub(crate) fn check_shortly<M: BucketMemory>(memory: &M, id: Place, tick: Tick, insert: bool) -> Option<Outcome> {
    let moment = &memory.moment(tick);
    // Read before the slots: once swept, they stay unambiguous.
    if !memory.is_ready(id.bucket, moment) {
        return None;
    }
    match memory.glance(id.bucket, id.tag.at_home(), moment) {
        Glance::Absent(slot, old) if insert && !old.keep(moment) && !memory.overtaken(moment) && obeys(Rule::Ring) => {
            Insertion { slot, old }.commit(memory, id, moment).then_some(Outcome::Fresh)
        }
        Glance::Hit => Some(Outcome::Duplicate),
        _ => None,
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
