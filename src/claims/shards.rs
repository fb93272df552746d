//! The protocol between claims, which take a lock in their shard, and checks, which take none.
//!
//! The window is where an id becomes done: the first caller that inserts it there has it, by a
//! check or by completing a claim. Meanwhile a claim keeps others away. A check knows nothing of
//! claims until it has inserted. The protocol is right all the same, because:
//!
//! - A claim announces itself, then looks at the window. A check inserts, then looks for
//!   announcements. So of a claim and a check of one id at least one sees the other (Dekker).
//! - A claim that sees the id in the window is not granted.
//! - A check that has inserted and finds the id claimed takes its insertion back. Until then others
//!   find the id in the window: so a check that finds it there, too, looks whether it is claimed.
//! - Taking back may also remove what another check inserts meanwhile, and that check cannot tell
//!   whether the entry that it finds later is its own insertion or another's. So the id is kept in
//!   the map, done or free, for a while even if its claim has ended: a caller that comes meanwhile
//!   takes the lock, and under the lock one of them gets it.
//! - A claim that completes and finds the id in the window, though it was not there when the claim
//!   began, knows that a check which has inserted it is still under way. It keeps the id, as done,
//!   and the check learns that it did not come first.
//!
//! The protocol assumes that no check stalls for a whole window between its insertion and its look:
//! docs/design/claims.md.

use super::done::DoneIds;
use super::effects::Insertion;
use super::map::{Begun, Ended, Map, Request};
use super::shard::Shard;
use super::stats::ClaimStats;
use super::tombstones::Known;
use crate::clock::nanos_of;
use crate::digest::Digest;
use crate::id_set::IdSet;
use crate::mutation::{Rule, obeys};
use crate::process::{Held, Rank, Rest, at_rest_in_forks};
use crate::sync::{AtomicU64, MutexGuard, Ordering, complete_seq_cst};
use crate::{Outcome, Timestamp};
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The number of shards, a power of two.
pub(super) const SHARDS: usize = if cfg!(modelled) { 1 } else { 32 };

/// The figures that a plan computes with.
pub mod planned {
    use super::super::map::{MAX_IDS, bytes_for};
    use super::{SHARDS, Shard};

    /// The most ids in flight, if they are spread evenly.
    pub const IN_FLIGHT_MAX: usize = MAX_IDS * SHARDS;

    /// The memory that claims take before there are any.
    pub const BYTES_OF_NONE: usize = size_of::<[Shard; SHARDS]>();

    /// Returns the memory that this many ids in flight add.
    pub fn bytes(in_flight: usize) -> usize {
        SHARDS * bytes_for(in_flight.div_ceil(SHARDS).min(MAX_IDS))
    }
}

/// Ids in flight, and fingerprints of those that are done.
pub(crate) struct Claims {
    pub(super) shards: Arc<Shards>,
    /// True from the first claim on.
    used: Used,
}

/// All shards. They are at rest while the process forks: a child has claims of its own.
pub(super) struct Shards([Shard; SHARDS]);

impl Deref for Shards {
    type Target = [Shard; SHARDS];

    #[inline(always)]
    fn deref(&self) -> &[Shard; SHARDS] {
        &self.0
    }
}

impl Rest for Shards {
    fn rank(&self) -> Rank {
        Rank::Claims
    }

    fn hold<'s>(&'s self, held: &mut Vec<Box<dyn Held + 's>>) {
        // In the order in which batches lock them.
        held.extend(self.iter().map(|shard| Box::new(shard.lock()) as Box<dyn Held>));
    }
}

impl Held for MutexGuard<'_, Map> {
    fn in_child(&mut self) {
        self.waiting = 0;
    }
}

/// A flag alone in its cache lines: every check reads it, and no thread writes to it after the
/// first claim.
#[repr(align(128))]
struct Used(AtomicU64);

/// Returns true if a check that has asked the window has to look for a fingerprint of its id: to
/// extend it, since the window slides, or to remove it, since the id was forgotten before its time
/// and is accepted again.
#[inline(always)]
fn concerns_fingerprints(inserted: bool, done: &impl DoneIds) -> bool {
    done.slides() || (inserted && done.forgets_early())
}

impl Claims {
    pub(crate) fn new() -> Self {
        // So that tokens also grow from one process to the next: there are fewer claims than
        // nanoseconds.
        let first = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, nanos_of);
        let shards = Arc::new(Shards(std::array::from_fn(|_| Shard::new(first))));
        at_rest_in_forks(&shards);
        Claims { shards, used: Used(AtomicU64::new(0)) }
    }

    /// Returns true if there was ever a claim. If not, a check that has asked the window has
    /// nothing to respect.
    #[inline(always)]
    pub(crate) fn are_used(&self) -> bool {
        complete_seq_cst();
        // Sequentially consistent, like the load of an id's bit; the first claim sets this flag
        // before it announces.
        self.used.0.load(Ordering::SeqCst) != 0
    }

    pub(crate) fn note_use(&self) {
        if self.used.0.load(Ordering::Relaxed) == 0 {
            self.used.0.store(1, Ordering::SeqCst);
            complete_seq_cst();
        }
    }

    pub(super) fn shard_of(id: Digest) -> usize {
        // Neither the bits that a hash map takes from both ends, nor the uppermost ones, so that a
        // batch that is sorted by shard is not sorted by the window's buckets.
        (id.place >> 32) as usize & (SHARDS - 1)
    }

    pub(super) fn shard(&self, id: Digest) -> &Shard {
        &self.shards[Self::shard_of(id)]
    }

    /// Tries to claim an id, given a way to tell whether it is done.
    pub(crate) fn claim(&self, request: &Request, done: &impl DoneIds, is_done: impl Fn() -> bool) -> Begun {
        self.note_use();
        let shard = self.shard(request.id);
        let mut map = shard.lock();
        let begun = map.attempt(
            request,
            || done.now(),
            || {
                if !obeys(Rule::AnnounceFirst) {
                    let is_done = is_done();
                    shard.announce(request.id);
                    return is_done;
                }
                shard.announce(request.id);
                Shard::after_announcing();
                is_done() && obeys(Rule::ClaimLooks)
            },
        );
        map.settle(request, begun, done);
        map.count(begun);
        shard.publish(&map);
        begun
    }

    /// Returns true if another caller has the id, for a check that has not asked the window yet.
    /// Such a check need not ask: without this look, every check of a claimed id would have to take
    /// its insertion back. A claim that comes just after this look is found by `confirm`.
    #[inline(always)]
    pub(crate) fn has(&self, id: Digest, now: impl Fn() -> Timestamp) -> bool {
        let shard = self.shard(id);
        shard.may_have(id) && shard.lock().is_in_progress(id, now())
    }

    /// Returns the answer of a check that has asked the window, which has inserted the id or knew
    /// it already.
    #[inline(never)]
    pub(crate) fn confirm(
        &self,
        id: Digest,
        answer: Outcome,
        done: &impl DoneIds,
        now: impl Fn() -> Timestamp,
    ) -> Outcome {
        let shard = self.shard(id);
        let inserted = answer == Outcome::Fresh;
        let looks = obeys(if inserted { Rule::ConfirmFresh } else { Rule::ConfirmDuplicate });
        let concerns = || shard.may_have(id) || (concerns_fingerprints(inserted, done) && shard.has_fingerprints());
        if !looks || !concerns() {
            return answer;
        }
        let mut map = shard.lock();
        let answer = match map.known(id, now(), || done.now()) {
            Known::Nothing => answer,
            Known::Done => {
                if inserted && map.tombstones.takes_back(id, done.until()) {
                    done.forget(id);
                }
                Outcome::Duplicate
            }
            Known::InProgress => {
                if inserted && obeys(Rule::TakeBack) {
                    done.forget(id);
                    if obeys(Rule::KeepTakenBack) {
                        map.tombstones.keep_free(id, done.until());
                    }
                }
                Outcome::InProgress
            }
            // The id is for the checks that have inserted it: the first of them gets it. If it is
            // gone from the window, no check is known to have it.
            Known::Free => {
                if done.insert(id) || inserted {
                    map.tombstones.keep_done(id, done.until(), false);
                    Outcome::Fresh
                } else {
                    Outcome::Duplicate
                }
            }
        };
        match answer {
            Outcome::Fresh => map.was_forgotten(id, done),
            Outcome::Duplicate if done.slides() => map.slide(id, done, false),
            _ => {}
        }
        shard.publish(&map);
        answer
    }

    /// Returns the set of a chunk's ids that may be claimed, or whose claim has just ended.
    #[inline(always)]
    pub(crate) fn may_be_claimed(&self, ids: &[Digest]) -> IdSet {
        let mut set = IdSet::EMPTY;
        ids.iter().enumerate().for_each(|(i, id)| set.insert_if(i, self.shard(*id).may_have(*id)));
        set
    }

    /// Returns the set of a chunk's ids whose checks are to be confirmed, of those that the window
    /// was `asked` about; `inserted` is the set of those that were inserted.
    #[inline(always)]
    pub(crate) fn to_be_confirmed(&self, ids: &[Digest], asked: IdSet, inserted: IdSet, done: &impl DoneIds) -> IdSet {
        let may_be_claimed = self.may_be_claimed(ids).intersection(asked);
        if !concerns_fingerprints(!inserted.is_empty(), done) {
            return may_be_claimed;
        }
        let concerned = if done.slides() { asked } else { inserted };
        may_be_claimed.union(concerned.filter(|i| self.shard(ids[i]).has_fingerprints()))
    }

    /// Returns the result of an attempt that cannot get the id: whether it is claimed, or rests,
    /// and for how much longer.
    pub(crate) fn look(&self, request: &Request, done: &impl DoneIds) -> Option<Begun> {
        let shard = self.shard(request.id);
        let mut map = shard.lock();
        let known = map.look(request, || done.now());
        map.count(known.unwrap_or(Begun::Done));
        known
    }

    /// Completes a claim: its id is done.
    pub(crate) fn complete(&self, id: Digest, token: u64, done: &impl DoneIds) -> Ended {
        let shard = self.shard(id);
        let mut map = shard.lock();
        let Some(with_fingerprint) = map.complete(id, token) else {
            return Ended::Lost;
        };
        // Read before the insertion, so that a fingerprint is not kept for longer than its id.
        let until = done.until();
        if !obeys(Rule::DoneFirst) {
            shard.publish(&map);
        }
        let is_news = done.insert(id);
        map.done(id, with_fingerprint, Insertion { is_news, until }, done);
        shard.unlock(map);
        Ended::Held
    }

    /// Releases a claim, as if it had never been.
    pub(crate) fn release(&self, id: Digest, token: u64) -> Ended {
        let shard = self.shard(id);
        let mut map = shard.lock();
        if map.end(id, token).is_none() {
            return Ended::Lost;
        }
        map.stats.released += 1;
        shard.unlock(map);
        Ended::Held
    }

    /// Extends a claim, or with `fails` the rest after it, to `until`.
    pub(crate) fn extend(&self, id: Digest, token: u64, until: Timestamp, fails: bool) -> Ended {
        let mut map = self.shard(id).lock();
        let ended = map.extend(id, token, until, fails);
        map.stats.failed += u64::from(fails && ended == Ended::Held);
        ended
    }

    /// Waits for whoever is forgetting an id.
    pub(crate) fn settle(&self, id: Digest) {
        drop(self.shard(id).lock());
    }

    /// Waits until an id is not in flight any more, but no longer than `longest`.
    pub(crate) fn wait(&self, id: Digest, now: Timestamp, longest: Duration) {
        self.shard(id).wait(id, now, longest);
    }

    /// Forgets an id that nobody claims; returns `false` if it is claimed, or if a check is about
    /// to accept it.
    pub(crate) fn forget(&self, id: Digest, done: &impl DoneIds, now: Timestamp) -> bool {
        let shard = self.shard(id);
        let mut map = shard.lock();
        let known = map.known(id, now, || done.now());
        // If the id is free and in the window, a check that is on its way here has inserted it.
        // Because of that insertion, others may have been told that the id is done; so that check
        // must not come after us and be accepted.
        if known == Known::InProgress || (known == Known::Free && done.contains(id) && obeys(Rule::ForgetLater)) {
            return false;
        }
        map.tombstones.free(id);
        map.fingerprints.remove(id, || done.now());
        done.forget_for_good(id);
        shard.publish(&map);
        true
    }

    /// Forgets the ids that rest, or are done. Claimed ids stay claimed.
    pub(crate) fn clear(&self) {
        for shard in self.shards.iter() {
            let mut map = shard.lock();
            map.clear();
            shard.unlock(map);
        }
    }

    /// Returns the present counts, by the clock of leases and by the window's time.
    pub(crate) fn stats(&self, now: Timestamp, windows: Timestamp) -> ClaimStats {
        let mut sum = ClaimStats::default();
        for shard in self.shards.iter() {
            let map = shard.lock();
            let fingerprints = map.fingerprints.live(windows);
            let fingerprints_dropped = map.fingerprints.dropped();
            sum.add(&ClaimStats { live: map.live(now), fingerprints, fingerprints_dropped, ..map.stats });
        }
        sum
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of::<[Shard; SHARDS]>() + self.shards.iter().map(|shard| shard.lock().bytes()).sum::<usize>()
    }
}
