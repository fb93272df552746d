//! The protocol of a bucket: look, decide, compare-and-swap. The proof is in
//! docs/design/window.md, "The ring".
//!
//! It is written over [`BucketMemory`], so that models explore the code that runs in production.
//!
//! | slot | becomes | by | if |
//! |------|---------|----|----|
//! | head of the ring | an entry, version + 1 | [`push`] | the slot is what the view showed |
//! | any | the same, later tick | [`check`] with refresh | it holds the id, live |
//! | any | forgotten, same version | forget | it holds the id, or is reserved |
//! | one that is reserved | the entry, same version | [`fill`] | the original still is there |
//! | any | empty, same version | sweep | it is long expired |
//! | any but 0 | the same, version of slot 0 | `patience` | two looks show one broken ring |

use super::bucket_memory::{BucketMemory, Lost, Overtaken, Place};
use super::chain::Chain;
use super::patience::Patience;
use crate::Outcome;
use crate::mutation::{Rule, obeys};
use crate::sync::complete_seq_cst;
use crate::window::bits::slot::{Slot, Tag};
use crate::window::bits::tick::{Moment, Tick};
use crate::window::look::view::Ring;

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
    /// This slot has this content now.
    Done(usize, Slot),
    /// The bucket has changed since the view.
    Stale,
    Overtaken,
}

/// Checks whether the id was seen within the window; if not, it has been from now on.
///
/// Of any number of callers with one id exactly one is told `Fresh`: an insertion is decided on a
/// view that shows every entry of the bucket, and succeeds only if nothing was inserted since.
///
/// If the id is not here, `elsewhere` is asked: after the look that the insertion is decided on.
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
                // But not while everything is being forgotten: the entry would be left behind.
                if memory.is_clearing() {
                    return Ok(Outcome::Duplicate);
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
        let entry = Slot::accepted(id.tag, moment);
        // What another caller is about to copy here would be no insertion, so that ours would not
        // notice it: such a slot is filled, or not reserved any more, before we decide.
        let reserved = if refresh && view.spilled { reserved_at_home(memory, id, moment) } else { None };
        if reserved.is_some_and(|(_, entry)| entry.matches(id.tag.at_home())) {
            continue;
        }
        if outcome == Outcome::Fresh {
            if let Some((slot, reserved)) = reserved {
                // (By a time that has passed the id may seem to have expired, or not yet.)
                if memory.overtaken(moment) {
                    return Err(Overtaken);
                }
                if !memory.replace(id.bucket, slot, reserved, reserved.tombstone(), None) {
                    continue;
                }
            }
            match push(memory, id.bucket, view.ring, entry, moment, &Chain::none()) {
                Pushed::Done(..) => return Ok(outcome),
                Pushed::Stale => continue,
                Pushed::Overtaken => return Err(Overtaken),
            }
        }
        // Somebody may forget it meanwhile, where we have found it.
        let is_known = || {
            let is_known = is_away(memory, id, moment) || elsewhere()? == Elsewhere::Known;
            Ok(is_known && !memory.is_clearing())
        };
        let copied = match reserved {
            Some((slot, reserved)) => fill(memory, id.bucket, slot, reserved, entry, is_known),
            None => copy(memory, id.bucket, view.ring, entry, moment, &Chain::none(), is_known),
        };
        match copied? {
            Copied::Done => return Ok(outcome),
            Copied::Displaced => {
                memory.lost(id.bucket, entry, Lost::now(entry, moment));
                return Ok(outcome);
            }
            Copied::Stale | Copied::Gone => continue,
            // (Whoever has cancelled may have done so since the id has expired by a later time.)
            Copied::Cancelled | Copied::Overtaken => return Err(Overtaken),
        }
    }
}

/// Returns the slot at home that is reserved for an id that is known elsewhere, or was filled.
fn reserved_at_home<M: BucketMemory>(memory: &M, id: Place, moment: &Moment) -> Option<(usize, Slot)> {
    let mut entries = (0..M::SLOTS).map(|slot| (slot, memory.load(id.bucket, slot)));
    entries.find(|(_, entry)| {
        entry.is_reserved(id.tag, true) || (entry.matches(id.tag.at_home()) && moment.is_live(entry.0))
    })
}

/// The result of an attempt to copy an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copied {
    Done,
    /// The bucket has changed since the view.
    Stale,
    /// Somebody has forgotten the id, or accepts it.
    Cancelled,
    Overtaken,
    /// The original is gone.
    Gone,
    /// As many insertions as the bucket has slots have displaced the copy already.
    Displaced,
}

/// Inserts a copy of an entry that is somewhere else, unless that is gone.
///
/// The slot is reserved first; then `is_there` looks whether the entry still is where it was found;
/// then the slot is filled. Who forgets an id removes it there, and then what is reserved for it
/// here: so either this finds the entry gone, or the slot is not reserved any more.
#[inline(never)]
fn copy<M: BucketMemory>(
    memory: &M,
    bucket: usize,
    ring: Ring,
    entry: Slot,
    moment: &Moment,
    chain: &Chain,
    is_there: impl FnOnce() -> Result<bool, Overtaken>,
) -> Result<Copied, Overtaken> {
    if !obeys(Rule::ReserveFirst) {
        let is_there = is_there()?;
        return Ok(match push(memory, bucket, ring, entry, moment, chain) {
            _ if !is_there => Copied::Gone,
            Pushed::Done(..) => Copied::Done,
            Pushed::Stale => Copied::Stale,
            Pushed::Overtaken => Copied::Overtaken,
        });
    }
    match push(memory, bucket, ring, entry.reserved(), moment, chain) {
        Pushed::Done(slot, reserved) => fill(memory, bucket, slot, reserved, entry, is_there),
        Pushed::Stale => Ok(Copied::Stale),
        Pushed::Overtaken => Ok(Copied::Overtaken),
    }
}

/// Fills a slot that is reserved for an entry, by whomever.
fn fill<M: BucketMemory>(
    memory: &M,
    bucket: usize,
    slot: usize,
    reserved: Slot,
    entry: Slot,
    is_there: impl FnOnce() -> Result<bool, Overtaken>,
) -> Result<Copied, Overtaken> {
    // Sequentially consistent, like the looks that follow: partner of the fence in `forget`.
    complete_seq_cst();
    if !is_there()? {
        return Ok(Copied::Gone);
    }
    if memory.replace(bucket, slot, reserved, reserved.filled(entry), None) {
        return Ok(Copied::Done);
    }
    let version = |slot: Slot| slot.version(M::VERSION_MASK);
    let is_displaced = version(memory.load(bucket, slot)) != version(reserved);
    Ok(if is_displaced { Copied::Displaced } else { Copied::Cancelled })
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

/// Returns the tick with which an id's newest entry is stamped, if it was seen within the window.
/// As with [`contains`], a "no" counts only for a caller that is not overtaken afterwards.
pub(crate) fn stamp_of<M: BucketMemory>(memory: &M, id: Place, moment: &Moment) -> Option<u64> {
    let alternate = id.tag.alternate(id.bucket, memory.buckets());
    memory.ready(id.bucket, moment);
    memory.ready(alternate, moment);
    let find = |bucket, key| {
        let entries = (0..M::SLOTS).map(|slot| memory.load(bucket, slot));
        entries
            .filter(|entry| entry.matches(key) && moment.is_live(entry.0))
            .map(|entry| moment.stamp_of(entry.0))
            .max()
    };
    loop {
        // The home bucket first, as in a check. With refresh, an id whose entry is away gets a
        // newer one at home, which may move away, too: all are looked at.
        let at_home = find(id.bucket, id.tag.at_home());
        let found = at_home.max(find(alternate, id.tag.away()));
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
                let displaced = Displaced { entry: victim, tag, bucket, slot: ring.head };
                match obeys(Rule::RelocateFirst) {
                    true if relocate(memory, &displaced, moment, &longer) => (),
                    true => lost = Some(Lost::now(victim, moment)),
                    false => moved_late = Some((tag, longer)),
                }
                spilled |= obeys(Rule::Flag);
            }
            Some(_) => (),
            None if !moment.is_live(victim.0) && !obeys(Rule::CountKept) => (),
            None => lost = Some(Lost::now(victim, moment)),
        }
    }
    if memory.overtaken(moment) {
        return Pushed::Overtaken;
    }
    let entry = entry.inserted(spilled, ring.version);
    if !memory.replace(bucket, ring.head, victim, entry, lost) {
        return Pushed::Stale;
    }
    if let Some((tag, longer)) = moved_late {
        relocate(memory, &Displaced { entry: victim, tag, bucket, slot: ring.head }, moment, &longer);
    }
    Pushed::Done(ring.head, entry)
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
/// fail anyway: true, unless the copy was displaced at once, and is lost.
fn relocate<M: BucketMemory>(memory: &M, displaced: &Displaced, moment: &Moment, chain: &Chain) -> bool {
    let &Displaced { entry, tag, bucket: from, slot } = displaced;
    debug_assert!(!entry.is_away(), "an entry moves once");
    let to = chain.end();
    let moved = entry.moved_away();
    let not_older = moment.not_older_than(entry.0);
    let is_there = || {
        let looks = obeys(Rule::SourceAgain) && obeys(Rule::RelocateFirst);
        !looks || memory.load_in_order(from, slot) == entry
    };
    let mut patience = Patience::new();
    memory.ready(to, moment);
    loop {
        let view = memory.view(to, tag.away(), &not_older);
        if view.hit {
            return true;
        }
        if !view.valid {
            patience.invalid_view(memory, to);
            continue;
        }
        // Another caller may be about to do the same.
        let newest = (view.ring.head + M::SLOTS - 1) % M::SLOTS;
        let reserved = memory.load(to, newest);
        let copied = if reserved.is_reserved(tag, false) {
            fill(memory, to, newest, reserved, moved, || Ok(is_there()))
        } else {
            copy(memory, to, view.ring, moved, moment, chain, || Ok(is_there()))
        };
        match copied {
            Ok(Copied::Displaced) => return false,
            Ok(Copied::Stale | Copied::Cancelled) if is_there() => continue,
            Ok(_) | Err(Overtaken) => return true,
        }
    }
}
