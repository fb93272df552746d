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
//! ARCHITECTURE.md, "Claims".

use super::map::{Begun, Ended, Known, Map, Request};
use super::marks::Marks;
use super::stats::ClaimStats;
use crate::digest::Digest;
use crate::process::{Held, Rank, Rest, at_rest_in_forks};
use crate::rules::{Rule, obeys};
use crate::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, complete_seq_cst, fence};
use crate::{Outcome, Timestamp};
use std::ops::Deref;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The number of shards, a power of two.
#[cfg(not(modelled))]
pub(super) const SHARDS: usize = 32;
#[cfg(modelled)]
pub(super) const SHARDS: usize = 1;

/// The figures that a plan computes with.
#[cfg(feature = "plan")]
pub(crate) mod planned {
    use super::super::map::{MAX_IDS, bytes_for};
    use super::{SHARDS, Shard};

    /// The most ids in flight, if they are spread evenly.
    pub(crate) const IN_FLIGHT_MAX: usize = MAX_IDS * SHARDS;

    /// Returns the memory that claims take with this many ids in flight.
    pub(crate) fn bytes(in_flight: usize) -> usize {
        size_of::<[Shard; SHARDS]>() + SHARDS * bytes_for(in_flight.div_ceil(SHARDS).min(MAX_IDS))
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

/// A shard, in two cache lines, since some processors fetch lines in pairs.
#[repr(align(128))]
pub(super) struct Shard {
    /// The number of entries that the map has; or more, while an attempt is under way. Above them,
    /// times [`FINGERPRINT`]: the number of fingerprints. Written under the lock.
    announced: AtomicU64,
    map: Mutex<Map>,
    /// Notified when an entry has gone that a thread waits for.
    gone: Condvar,
}

/// One fingerprint in the shard's word; the lower half counts entries of the map.
const FINGERPRINT: u64 = 1 << 32;

impl Claims {
    pub(crate) fn new() -> Self {
        // So that tokens also grow from one process to the next: there are fewer claims than
        // nanoseconds.
        let first = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let shard = |_| Shard { announced: AtomicU64::new(0), map: Mutex::new(Map::new(first)), gone: Condvar::new() };
        let shards = Arc::new(Shards(std::array::from_fn(shard)));
        at_rest_in_forks(&shards);
        Claims { shards, used: Used(AtomicU64::new(0)) }
    }

    /// Returns true if there was ever a claim. If not, a check that has asked the window has
    /// nothing to respect.
    #[inline(always)]
    pub(crate) fn are_used(&self) -> bool {
        complete_seq_cst();
        // Sequentially consistent, like the load of `announced`; the first claim sets this flag
        // before it announces.
        self.used.0.load(Ordering::SeqCst) != 0
    }

    pub(super) fn note_use(&self) {
        if self.used.0.load(Ordering::Relaxed) == 0 {
            self.used.0.store(1, Ordering::SeqCst);
            complete_seq_cst();
        }
    }

    pub(super) fn shard_of(id: Digest) -> usize {
        // Neither the bits that a hash map takes from both ends, nor the uppermost ones, so that a
        // batch that is sorted by shard is not sorted by the window's lines.
        (id.place >> 32) as usize & (SHARDS - 1)
    }

    pub(super) fn shard(&self, id: Digest) -> &Shard {
        &self.shards[Self::shard_of(id)]
    }

    /// Tries to claim an id.
    pub(crate) fn claim(&self, request: &Request, marks: &impl Marks) -> Begun {
        self.note_use();
        let shard = self.shard(request.id);
        let mut map = shard.lock();
        let begun = map.attempt(
            request,
            || marks.now(),
            || {
                if obeys(Rule::AnnounceFirst) {
                    shard.announce(1);
                    Shard::after_announcing();
                }
                let is_done = marks.contains(request.id) && obeys(Rule::ClaimLooks);
                if !obeys(Rule::AnnounceFirst) {
                    shard.announce(1);
                }
                is_done
            },
        );
        map.settle(request, begun, marks);
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
        shard.may_hold_claims() && shard.lock().is_in_progress(id, now())
    }

    /// Returns the answer of a check that has asked the window, which has inserted the id or knew
    /// it already.
    #[inline(never)]
    pub(crate) fn confirm(
        &self,
        id: Digest,
        answer: Outcome,
        marks: &impl Marks,
        now: impl Fn() -> Timestamp,
    ) -> Outcome {
        let shard = self.shard(id);
        let inserted = answer == Outcome::Fresh;
        if !shard.concerns(inserted, marks)
            || !obeys(if inserted { Rule::ConfirmFresh } else { Rule::ConfirmDuplicate })
        {
            return answer;
        }
        let mut map = shard.lock();
        let answer = match map.known(id, now(), || marks.now()) {
            Known::Nothing => answer,
            Known::Done => {
                if inserted && map.kept.takes_back(id, marks.until()) {
                    marks.forget(id);
                }
                Outcome::Duplicate
            }
            Known::InProgress => {
                if inserted && obeys(Rule::TakeBack) {
                    marks.forget(id);
                    if obeys(Rule::KeepTakenBack) {
                        map.kept.keep_free(id, marks.until());
                    }
                }
                Outcome::InProgress
            }
            // The id is for the checks that have inserted it: the first of them gets it. If it is
            // gone from the window, no check is known to have it.
            Known::Free => match marks.insert(id) || inserted {
                true => {
                    map.kept.keep_done(id, marks.until(), false);
                    Outcome::Fresh
                }
                false => Outcome::Duplicate,
            },
        };
        match answer {
            Outcome::Fresh => map.was_forgotten(id, marks),
            Outcome::Duplicate if marks.slides() => map.slide(id, marks, false),
            _ => {}
        }
        shard.publish(&map);
        answer
    }

    /// Returns the set of ids, by number, whose shard may hold claims.
    #[inline(always)]
    pub(super) fn may_be_claimed(&self, ids: impl Iterator<Item = (usize, Digest)>) -> u64 {
        ids.fold(0, |set, (i, id)| set | u64::from(self.shard(id).may_hold_claims()) << i)
    }

    /// Returns the set of ids, by number, whose checks are to be confirmed; `inserted` is the set
    /// of those that were inserted.
    #[inline(always)]
    pub(super) fn to_be_confirmed(
        &self,
        ids: impl Iterator<Item = (usize, Digest)>,
        inserted: u64,
        marks: &impl Marks,
    ) -> u64 {
        ids.fold(0, |set, (i, id)| set | u64::from(self.shard(id).concerns(inserted >> i & 1 != 0, marks)) << i)
    }

    /// Returns the result of an attempt that cannot get the id: whether it is claimed, or rests,
    /// and for how much longer.
    pub(crate) fn look(&self, request: &Request, marks: &impl Marks) -> Option<Begun> {
        let shard = self.shard(request.id);
        let mut map = shard.lock();
        let known = map.look(request, || marks.now());
        map.count(known.unwrap_or(Begun::Done));
        known
    }

    /// Completes a claim: its id is done.
    pub(crate) fn complete(&self, id: Digest, token: u64, marks: &impl Marks) -> Ended {
        let shard = self.shard(id);
        let mut map = shard.lock();
        let Some(with_fingerprint) = map.end(id, token) else {
            return Ended::Lost;
        };
        // Read before the insertion, so that a fingerprint is not kept for longer than its id.
        let until = marks.until();
        let is_news = marks.insert(id);
        map.done(id, with_fingerprint, (is_news, until), marks);
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

    /// Waits until an id is not in flight any more, but no longer than `longest`.
    pub(crate) fn wait(&self, id: Digest, now: Timestamp, longest: Duration) {
        let shard = self.shard(id);
        let mut map = shard.lock();
        if map.is_in_progress(id, now) {
            map.waiting += 1;
            // No loop: after a spurious wake-up the caller only looks again.
            let (mut map, _) = shard.gone.wait_timeout(map, longest).unwrap_or_else(PoisonError::into_inner);
            map.waiting -= 1;
        }
    }

    /// Forgets an id that nobody claims; returns `false` if it is claimed, or if a check is about
    /// to accept it.
    pub(crate) fn forget(&self, id: Digest, marks: &impl Marks, now: Timestamp) -> bool {
        let shard = self.shard(id);
        let mut map = shard.lock();
        let known = map.known(id, now, || marks.now());
        // If the id is free and in the window, a check that is on its way here has inserted it.
        // Because of that insertion, others may have been told that the id is done; so that check
        // must not come after us and be accepted.
        if known == Known::InProgress || (known == Known::Free && marks.contains(id) && obeys(Rule::ForgetLater)) {
            return false;
        }
        marks.forgets(id);
        map.kept.free(id);
        map.fingerprints.remove(id, || marks.now());
        marks.forget(id);
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

impl Shard {
    /// Returns true if an id of the shard may be claimed.
    #[inline(always)]
    fn may_hold_claims(&self) -> bool {
        self.announced() as u32 != 0
    }

    /// Returns true if a check that has asked the window has to look at the shard: an id of it may
    /// be claimed, or have a fingerprint that is to be extended, since the window slides, or to be
    /// removed, since the id was forgotten before its time and is accepted again.
    #[inline(always)]
    fn concerns(&self, inserted: bool, marks: &impl Marks) -> bool {
        let announced = self.announced();
        announced as u32 != 0 || (announced != 0 && (marks.slides() || (inserted && marks.forgets_early())))
    }

    #[inline(always)]
    fn announced(&self) -> u64 {
        // Sequentially consistent: partner of the fence in `after_announcing`. This load sees a
        // claim that has looked too early to see our insertion. It also sees a claim for which
        // another check is about to take back the insertion that we found.
        self.announced.load(Ordering::SeqCst)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Map> {
        // Nothing of ours panics under the lock; if a clock or an allocation does, the map is still
        // consistent.
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Announces attempts that are about to look at the window, after
    /// [`after_announcing`](Self::after_announcing). Under the lock.
    #[inline(always)]
    pub(super) fn announce(&self, attempts: u64) {
        let announced = self.announced.load(Ordering::Relaxed);
        self.announced.store(announced + attempts, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn after_announcing() {
        if obeys(Rule::AnnounceInOrder) {
            // Partner: a check's sequentially consistent insertion and its load of `announced`
            // after it. If the insertion comes before this fence, we see it; if it comes after, the
            // check sees the announcement.
            fence(Ordering::SeqCst);
        }
    }

    /// Publishes the number of entries and fingerprints that there are now. Under the lock.
    #[inline(always)]
    pub(super) fn publish(&self, map: &Map) {
        let announced = map.len() as u64 + map.fingerprints.len() as u64 * FINGERPRINT;
        if self.announced.load(Ordering::Relaxed) != announced {
            // Release: partner of the load in `confirm`. A thread that sees that an entry is gone
            // also sees what became of its id.
            self.announced.store(announced, Ordering::Release);
        }
    }

    /// Unlocks the shard after an entry has gone, and wakes waiting threads.
    #[inline(always)]
    pub(super) fn unlock(&self, map: MutexGuard<'_, Map>) {
        self.publish(&map);
        let waiting = map.waiting;
        // Before the wake-up, so that woken threads find the lock free.
        drop(map);
        if waiting > 0 {
            self.gone.notify_all();
        }
    }
}
