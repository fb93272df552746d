//! The protocol of a bucket: look, decide, compare-and-swap. The proof is in ARCHITECTURE.md, "The
//! window's protocol".
//!
//! It is written over [`BucketMemory`], so that models explore the code that runs in production.
//!
//! | slot | becomes | by | if |
//! |------|---------|----|----|
//! | head of the ring | an entry, version + 1 | [`push`] | the slot is what the view showed |
//! | any | the same, later tick | [`check`] with refresh | it holds the id, live |
//! | any | vacant, same version | forget | it holds the id |
//! | any | empty, same version | sweep | it is long expired |
//! | any but 0 | the same, version of slot 0 | [`repair`] | two looks show one and the same broken ring |

use super::bucket_memory::{BucketMemory, Lost, Overtaken, Place};
use super::slot::{Key, SLOTS, Slot, Tag};
use super::tick::{Moment, Tick};
use super::view::{Ring, View};
use crate::Outcome;
use crate::rules::{Rule, obeys};
use crate::sync::spin_loop;

/// The decision on an id that is not in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elsewhere {
    /// The id is fresh: insert it.
    Unknown,
    /// The id is a duplicate, and to be remembered here from now on: insert it.
    Known,
    /// The id has been decided: insert nothing.
    Settled(Outcome),
}

/// The result of an attempt to insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pushed {
    Done,
    /// The bucket has changed since the view.
    Stale,
    Overtaken,
}

/// Checks whether the id was seen within the window; if not, it has been from now on.
///
/// Of any number of callers with one id exactly one is told `Fresh`: an insertion is decided on a
/// view that shows every entry of the bucket, and succeeds only if nothing was inserted since.
///
/// If the id is not here, `elsewhere` is asked: after the look that the insertion is decided on, so
/// that a caller that forgets the id there and then inserts anything here makes the insertion fail.
#[inline(always)]
pub(crate) fn check<M: BucketMemory>(
    memory: &M,
    id: Place,
    moment: &Moment,
    refresh: bool,
    elsewhere: impl Fn() -> Result<Elsewhere, Overtaken>,
) -> Result<Outcome, Overtaken> {
    let mut patience = Patience::new();
    memory.ready(id.bucket, moment);
    loop {
        let away_before = !obeys(Rule::HomeFirst) && is_away(memory, id, moment);
        let view = memory.view(id.bucket, id.tag.at_home(), moment);
        if view.hit {
            if !refresh || refresh_at_home(memory, id, moment) {
                return Ok(Outcome::Duplicate);
            }
            continue;
        }
        let mut outcome = Outcome::Fresh;
        // The home bucket first, then the alternate, never the other way round: an entry is written
        // there before it is overwritten here, so a caller that misses it here finds it there.
        if view.spilled {
            let found = if obeys(Rule::HomeFirst) { is_away(memory, id, moment) } else { away_before };
            if found {
                if !refresh || is_current_away(memory, id, moment) {
                    return Ok(Outcome::Duplicate);
                }
                // The id is known, and to be remembered from now on: a new entry at home does that.
                // But not while everything is being forgotten: the entry would be left behind. And
                // not if the id has just been forgotten in this way.
                if memory.is_clearing() && obeys(Rule::RestWhileCleared) {
                    return Ok(Outcome::Duplicate);
                }
                if !is_away(memory, id, moment) && obeys(Rule::RestWhileCleared) {
                    continue;
                }
                outcome = Outcome::Duplicate;
            }
        }
        if !view.valid && obeys(Rule::ValidView) {
            patience.invalid_view(memory, id.bucket);
            continue;
        }
        if outcome == Outcome::Fresh {
            match elsewhere()? {
                Elsewhere::Unknown => (),
                Elsewhere::Known => outcome = Outcome::Duplicate,
                Elsewhere::Settled(outcome) => return Ok(outcome),
            }
        }
        match push(memory, id.bucket, view.ring, Slot::accepted(id.tag, moment), moment, &Chain::none()) {
            Pushed::Done => return Ok(outcome),
            Pushed::Stale => continue,
            Pushed::Overtaken => return Err(Overtaken),
        }
    }
}

/// Checks an id in the only table that there is.
#[inline(always)]
pub(crate) fn check_here<M: BucketMemory>(
    memory: &M,
    id: Place,
    tick: Tick,
    refresh: bool,
) -> Result<Outcome, Overtaken> {
    check(memory, id, &memory.moment(tick), refresh, || Ok(Elsewhere::Unknown))
}

/// Returns true if the id was seen within the window. A "no" counts only for a caller that is not
/// overtaken afterwards.
#[inline(always)]
pub(crate) fn contains<M: BucketMemory>(memory: &M, id: Place, moment: &Moment) -> bool {
    memory.ready(id.bucket, moment);
    loop {
        let view = memory.view(id.bucket, id.tag.at_home(), moment);
        if view.hit || !view.spilled {
            return view.hit;
        }
        if is_away(memory, id, moment) {
            return true;
        }
        // With refresh, an entry that was away may have come home since, and the old copy may be
        // gone.
        let now = memory.view(id.bucket, id.tag.at_home(), moment);
        if now.ring == view.ring && !now.hit {
            return false;
        }
    }
}

/// Returns the tick with which an id's entry is stamped, if it was seen within the window. As with
/// [`contains`], a "no" counts only for a caller that is not overtaken afterwards.
pub(crate) fn stamp_of<M: BucketMemory>(memory: &M, id: Place, moment: &Moment) -> Option<u64> {
    let alternate = id.tag.alternate(id.bucket, memory.buckets());
    memory.ready(id.bucket, moment);
    memory.ready(alternate, moment);
    let find = |bucket, key| {
        let mut entries = (0..M::SLOTS).map(|slot| memory.load(bucket, slot));
        entries.find(|entry| entry.matches(key) && moment.is_live(entry.0)).map(|entry| moment.stamp_of(entry.0))
    };
    loop {
        // The home bucket first, as in a check.
        let found = find(id.bucket, id.tag.at_home()).or_else(|| find(alternate, id.tag.away()));
        // If it is there all the same, it has moved meanwhile.
        if found.is_some() || !contains(memory, id, moment) {
            return found;
        }
    }
}

/// Returns true if the id is in its alternate bucket.
fn is_away<M: BucketMemory>(memory: &M, id: Place, moment: &Moment) -> bool {
    let alternate = id.tag.alternate(id.bucket, memory.buckets());
    memory.ready(alternate, moment);
    memory.view(alternate, id.tag.away(), moment).hit
}

/// Returns true if the id is in its alternate bucket with a tick that is not before now.
fn is_current_away<M: BucketMemory>(memory: &M, id: Place, moment: &Moment) -> bool {
    let alternate = id.tag.alternate(id.bucket, memory.buckets());
    let is_current = |entry: Slot| entry.matches(id.tag.away()) && !is_older(entry, moment);
    (0..M::SLOTS).any(|slot| is_current(memory.load(alternate, slot)))
}

/// Moves the tick of an id's entry at home to now; returns false if the entry is not there any
/// more.
fn refresh_at_home<M: BucketMemory>(memory: &M, id: Place, moment: &Moment) -> bool {
    for slot in 0..M::SLOTS {
        let entry = memory.load(id.bucket, slot);
        if entry.matches(id.tag.at_home()) && moment.is_live(entry.0) {
            // Only ever to a later tick: a caller whose clock is behind must not shorten a stay
            // that another has lengthened.
            let is_current = !is_older(entry, moment) && obeys(Rule::RefreshLater);
            return is_current || memory.replace(id.bucket, slot, entry, entry.refreshed(moment), None);
        }
    }
    false
}

/// Returns true if the entry's tick is before now.
fn is_older(entry: Slot, moment: &Moment) -> bool {
    moment.age(entry.0) > moment.age(moment.stamp_bits())
}

/// Inserts an entry at the head of a bucket's ring, if the bucket still is as the view showed it.
/// If an entry that must be kept stood there, that moves to its alternate bucket first.
fn push<M: BucketMemory>(memory: &M, bucket: usize, ring: Ring, entry: Slot, moment: &Moment, chain: &Chain) -> Pushed {
    let ring = if obeys(Rule::Ring) { ring } else { first_free(memory, bucket, ring, moment) };
    let victim = memory.load(bucket, ring.head);
    if ring.version.wrapping_sub(victim.version(M::VERSION_MASK)) & M::VERSION_MASK != 1 && obeys(Rule::VictimVersion) {
        return Pushed::Stale;
    }
    let mut spilled = victim.carries(moment) && obeys(Rule::InheritFlag);
    let mut moved_late = None;
    let mut lost = None;
    if victim.keep(moment) {
        memory.displaced(bucket);
        // An entry moves once. (`tag` is there: an entry that is kept is not vacant.)
        let home_tag = victim.tag().filter(|_| !victim.is_away());
        match home_tag.and_then(|tag| Some((tag, chain.extend(memory, bucket, tag)?))) {
            Some((tag, longer)) if obeys(Rule::Relocate) => {
                match obeys(Rule::RelocateFirst) {
                    true => {
                        relocate(memory, &Displaced { entry: victim, tag, bucket, slot: ring.head }, moment, &longer)
                    }
                    false => moved_late = Some((tag, longer)),
                }
                spilled |= obeys(Rule::Flag);
            }
            Some(_) => (),
            None if !moment.is_live(victim.0) && !obeys(Rule::CountKept) => (),
            None => lost = Some(Lost::now(victim, moment)),
        }
    }
    if memory.overtaken(moment) && obeys(Rule::Overtaken) {
        return Pushed::Overtaken;
    }
    let entry = entry.inserted(spilled, ring.version);
    if !memory.replace(bucket, ring.head, victim, entry, lost) {
        return Pushed::Stale;
    }
    if let Some((tag, longer)) = moved_late {
        relocate(memory, &Displaced { entry: victim, tag, bucket, slot: ring.head }, moment, &longer);
    }
    Pushed::Done
}

/// Inserts as a protocol without a ring would: into the first slot that holds nothing live, if
/// there is one.
#[cold]
fn first_free<M: BucketMemory>(memory: &M, bucket: usize, ring: Ring, moment: &Moment) -> Ring {
    let mut slots = (0..M::SLOTS).map(|slot| (slot, memory.load(bucket, slot)));
    let free = slots.find(|(_, entry)| !entry.keep(moment));
    free.map_or(ring, |(head, entry)| Ring { head, version: (entry.version(M::VERSION_MASK) + 1) & M::VERSION_MASK })
}

/// An entry that must leave its home, and where it stands.
struct Displaced {
    entry: Slot,
    tag: Tag,
    bucket: usize,
    slot: usize,
}

/// Copies an entry to its alternate bucket, before it is overwritten where it is. Returns when it
/// is there, or when its own slot has changed, so that the caller that wanted to overwrite it must
/// fail anyway.
fn relocate<M: BucketMemory>(memory: &M, displaced: &Displaced, moment: &Moment, chain: &Chain) {
    let &Displaced { entry, tag, bucket: from, slot } = displaced;
    debug_assert!(!entry.is_away(), "an entry moves once");
    let to = chain.end();
    let moved = entry.moved_away();
    let not_older = moment.not_older_than(entry.0);
    let mut patience = Patience::new();
    memory.ready(to, moment);
    loop {
        let view = memory.view(to, tag.away(), &not_older);
        if view.hit {
            return;
        }
        if !view.valid {
            patience.invalid_view(memory, to);
            continue;
        }
        // After the view: if the entry is forgotten meanwhile, this finds its slot changed, or
        // forgetting finds the view outdated (see forget.rs).
        let is_there = memory.load(from, slot) == entry;
        if !is_there && obeys(Rule::SourceAgain) && obeys(Rule::RelocateFirst) {
            return;
        }
        match push(memory, to, view.ring, moved, moment, chain) {
            Pushed::Done | Pushed::Overtaken => return,
            Pushed::Stale => continue,
        }
    }
}

/// Inserts a vacancy: a caller that decided on an earlier view of this bucket will find it
/// outdated.
pub(crate) fn push_vacancy<M: BucketMemory>(memory: &M, bucket: usize, moment: &Moment) -> Result<(), Overtaken> {
    let mut patience = Patience::new();
    memory.ready(bucket, moment);
    loop {
        let view = memory.view(bucket, Key::NONE, moment);
        if !view.valid {
            patience.invalid_view(memory, bucket);
            continue;
        }
        match push(memory, bucket, view.ring, Slot::vacant(moment), moment, &Chain::none()) {
            Pushed::Done => return Ok(()),
            Pushed::Stale => continue,
            Pushed::Overtaken => return Err(Overtaken),
        }
    }
}

/// A chain of displacements: the buckets that it has come through, each an entry's home, and where
/// it goes next.
struct Chain {
    buckets: [usize; Self::BUCKETS_MAX],
    len: usize,
}

impl Chain {
    /// The longest chain. At the rated load three in a hundred insertions displace an entry that
    /// must be kept. Six in a row: 1e-9.
    const BUCKETS_MAX: usize = 6;

    fn none() -> Self {
        Chain { buckets: [0; Self::BUCKETS_MAX], len: 0 }
    }

    /// Returns the chain that goes on to the alternate bucket of an entry of `bucket`, unless it is
    /// long enough or has been there.
    fn extend<M: BucketMemory>(&self, memory: &M, bucket: usize, tag: Tag) -> Option<Self> {
        let next = tag.alternate(bucket, memory.buckets());
        let mut buckets = self.buckets;
        let mut len = self.len;
        if len == 0 {
            buckets[0] = bucket;
            len = 1;
        }
        if len == Self::BUCKETS_MAX || buckets[..len].contains(&next) {
            return None;
        }
        buckets[len] = next;
        Some(Chain { buckets, len: len + 1 })
    }

    fn end(&self) -> usize {
        self.buckets[self.len - 1]
    }
}

/// The bound of looks at a bucket whose ring is broken.
struct Patience(u32);

impl Patience {
    /// The most invalid views in a row. A view is invalid while others insert, so rarely twice in a
    /// row.
    const LOOKS_MAX: u32 = if cfg!(modelled) { 2 } else { 64 };

    fn new() -> Self {
        Patience(0)
    }

    fn invalid_view<M: BucketMemory>(&mut self, memory: &M, bucket: usize) {
        self.0 += 1;
        if self.0.is_multiple_of(Self::LOOKS_MAX) && obeys(Rule::Repair) {
            repair(memory, bucket);
        } else {
            spin_loop();
        }
    }
}

/// Mends a bucket whose versions a stalled caller has broken after the version wrapped: no view of
/// it will ever be valid, so no caller inserts, and the bucket stays as it is. Every slot gets the
/// version of slot 0, which no repair changes, so that repairs at the same time agree.
#[cold]
fn repair<M: BucketMemory>(memory: &M, bucket: usize) {
    let mut first = [Slot::default(); SLOTS];
    let slots = &mut first[..M::SLOTS];
    for (i, slot) in slots.iter_mut().enumerate() {
        *slot = memory.load(bucket, i);
    }
    // Two looks that show the same are one look at one moment: a slot that was written in between
    // has another version.
    let changed = (0..M::SLOTS).any(|i| memory.load(bucket, i) != slots[i]);
    if changed || View::is_ring(slots, M::VERSION_MASK) {
        return;
    }
    let version = slots[0].version(M::VERSION_MASK);
    for (i, slot) in slots.iter().enumerate().skip(1) {
        if slot.version(M::VERSION_MASK) != version {
            memory.replace(bucket, i, *slot, slot.with_version(version), None);
        }
    }
    memory.repaired();
}
