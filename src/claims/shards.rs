//! The protocol: claims under a lock in each shard, and checks, which take no lock, beside them.
//!
//! The window is where an id becomes done: whoever inserts it there first has it, by a check or by completing a claim. A claim keeps
//! others off meanwhile. What makes that right although a check knows nothing of claims until it has inserted:
//!
//! - A claim announces itself, then looks at the window. A check inserts, then looks for announcements. So of a claim and a check of one id
//!   at least one sees the other (Dekker).
//! - A claim that sees the id in the window is no claim.
//! - A check that has inserted and finds the id claimed takes its insertion back. Until then others find the id in the window: so a check that
//!   finds it there, too, looks whether it is claimed.
//! - Taking back may also take what another check inserts meanwhile, and that check cannot tell whether what it finds later is its own insertion
//!   or another's. So the id is kept in the map, done or free, for a while even if its claim has ended: whoever comes meanwhile
//!   takes the lock, and under the lock one of them gets it.
//! - A claim that completes and finds the id in the window, though it was not there when the claim began, knows that a check is on its way which
//!   has inserted it. It keeps the id, as done, and the check learns that it did not come first.
//!
//! What it takes that no check stalls for a whole window between its insertion and its look: ARCHITECTURE.md, "Claims".

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

/// A power of two.
#[cfg(not(modelled))]
pub(super) const SHARDS: usize = 32;
#[cfg(modelled)]
pub(super) const SHARDS: usize = 1;

/// What a plan computes with.
#[cfg(feature = "plan")]
pub(crate) mod planned {
    use super::super::map::{MAX_IDS, bytes_for};
    use super::{SHARDS, Shard};

    /// The most ids in flight, if they are spread evenly.
    pub(crate) const IN_FLIGHT_MAX: usize = MAX_IDS * SHARDS;

    /// What claims take with so many ids in flight.
    pub(crate) fn bytes(in_flight: usize) -> usize {
        size_of::<[Shard; SHARDS]>() + SHARDS * bytes_for(in_flight.div_ceil(SHARDS).min(MAX_IDS))
    }
}

/// Ids in flight, and fingerprints of those that are done.
pub(crate) struct Claims {
    pub(super) shards: Arc<Shards>,
    /// Whether there was ever a claim.
    used: Used,
}

/// All of them, which are at rest while the process forks: a child has claims of its own.
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

/// Alone in its cache lines: every check reads it, and nobody writes to it after the first claim.
#[repr(align(128))]
struct Used(AtomicU64);

/// Two cache lines, since some processors fetch lines in pairs.
#[repr(align(128))]
pub(super) struct Shard {
    /// The number of entries that the map has; or more, while an attempt is under way. Above them,
    /// times [`FINGERPRINT`]: the number of fingerprints. Written under the lock.
    announced: AtomicU64,
    map: Mutex<Map>,
    /// An entry has gone that somebody waits for.
    gone: Condvar,
}

/// A fingerprint in the word of its shard; the lower half are entries of the map.
const FINGERPRINT: u64 = 1 << 32;

impl Claims {
    pub(crate) fn new() -> Self {
        // So that tokens grow from one process to the next, too: there are fewer claims than nanoseconds.
        let first = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let shard = |_| Shard { announced: AtomicU64::new(0), map: Mutex::new(Map::new(first)), gone: Condvar::new() };
        let shards = Arc::new(Shards(std::array::from_fn(shard)));
        at_rest_in_forks(&shards);
        Claims { shards, used: Used(AtomicU64::new(0)) }
    }

    /// Whether there was ever a claim. If not, whoever has asked the window has nothing to respect.
    #[inline(always)]
    pub(crate) fn are_used(&self) -> bool {
        complete_seq_cst();
        // Sequentially consistent: as that of `announced`; the first claim sets it before.
        self.used.0.load(Ordering::SeqCst) != 0
    }

    pub(super) fn note_use(&self) {
        if self.used.0.load(Ordering::Relaxed) == 0 {
            self.used.0.store(1, Ordering::SeqCst);
            complete_seq_cst();
        }
    }

    pub(super) fn shard_of(id: Digest) -> usize {
        // Neither the bits that a hash map takes from both ends, nor the uppermost, so that a batch does not sort its lines of the window.
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

    /// Whether somebody has the id, for a check that has not asked the window yet. It need not ask: but for this, every check of an id that is
    /// claimed would have to take its insertion back. Who is claimed just after this look, `confirm` finds.
    #[inline(always)]
    pub(crate) fn has(&self, id: Digest, now: impl Fn() -> Timestamp) -> bool {
        let shard = self.shard(id);
        shard.may_hold_claims() && shard.lock().is_in_progress(id, now())
    }

    /// What a check is to answer that has asked the window, which has inserted the id or knew it already.
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
            // It is for those who have inserted it: the first of them has it. If it is gone, nobody knows of one.
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

    /// Of many ids, by number: those whose shard may hold claims.
    #[inline(always)]
    pub(super) fn may_be_claimed(&self, ids: impl Iterator<Item = (usize, Digest)>) -> u64 {
        ids.fold(0, |set, (i, id)| set | u64::from(self.shard(id).may_hold_claims()) << i)
    }

    /// Of many ids, by number: those whose checks are to be confirmed, if some of them were
    /// inserted.
    #[inline(always)]
    pub(super) fn to_be_confirmed(
        &self,
        ids: impl Iterator<Item = (usize, Digest)>,
        inserted: u64,
        marks: &impl Marks,
    ) -> u64 {
        ids.fold(0, |set, (i, id)| set | u64::from(self.shard(id).concerns(inserted >> i & 1 != 0, marks)) << i)
    }

    /// Whether an id is claimed, or rests, and for how much longer; for an attempt that cannot get it.
    pub(crate) fn look(&self, request: &Request, marks: &impl Marks) -> Option<Begun> {
        let shard = self.shard(request.id);
        let mut map = shard.lock();
        let known = map.look(request, || marks.now());
        map.count(known.unwrap_or(Begun::Done));
        known
    }

    /// Ends a claim: its id is done.
    pub(crate) fn complete(&self, id: Digest, token: u64, marks: &impl Marks) -> Ended {
        let shard = self.shard(id);
        let mut map = shard.lock();
        let Some(with_fingerprint) = map.end(id, token) else {
            return Ended::Lost;
        };
        // Before, so that a fingerprint is not kept for longer than its id.
        let until = marks.until();
        let is_news = marks.insert(id);
        map.done(id, with_fingerprint, (is_news, until), marks);
        shard.unlock(map);
        Ended::Held
    }

    /// Ends a claim as if it had never been.
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

    /// Lets a claim, or with `fails` the rest after it, last until then.
    pub(crate) fn extend(&self, id: Digest, token: u64, until: Timestamp, fails: bool) -> Ended {
        let mut map = self.shard(id).lock();
        let ended = map.extend(id, token, until, fails);
        map.stats.failed += u64::from(fails && ended == Ended::Held);
        ended
    }

    /// Waits until an id is not in flight any more, or for so long.
    pub(crate) fn wait(&self, id: Digest, now: Timestamp, longest: Duration) {
        let shard = self.shard(id);
        let mut map = shard.lock();
        if map.is_in_progress(id, now) {
            map.waiting += 1;
            let (mut map, _) = shard.gone.wait_timeout(map, longest).unwrap_or_else(PoisonError::into_inner);
            map.waiting -= 1;
        }
    }

    /// Forgets an id that nobody claims; `false` if somebody does, or if a check is about to accept it.
    pub(crate) fn forget(&self, id: Digest, marks: &impl Marks, now: Timestamp) -> bool {
        let shard = self.shard(id);
        let mut map = shard.lock();
        let known = map.known(id, now, || marks.now());
        // If it is free and in the window, a check has inserted it that is on its way here. Others may have been told because of that that it is
        // done; so it must not come after us, and be accepted.
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

    /// Forgets which ids rest, or are done. What is claimed stays so.
    pub(crate) fn clear(&self) {
        for shard in self.shards.iter() {
            let mut map = shard.lock();
            map.clear();
            shard.unlock(map);
        }
    }

    /// Returns what there is now, by the clock of leases and by the window's time.
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
    /// Whether an id of it may be claimed.
    #[inline(always)]
    fn may_hold_claims(&self) -> bool {
        self.announced() as u32 != 0
    }

    /// Returns true if a check that has asked the window has to look at it: an id of it may be
    /// claimed, or have a fingerprint that is to be extended, since the window slides, or to be
    /// removed, since the id was forgotten before its time and is accepted again.
    #[inline(always)]
    fn concerns(&self, inserted: bool, marks: &impl Marks) -> bool {
        let announced = self.announced();
        announced as u32 != 0 || (announced != 0 && (marks.slides() || (inserted && marks.forgets_early())))
    }

    #[inline(always)]
    fn announced(&self) -> u64 {
        // Sequentially consistent: partner of the fence in `after_announcing`. A claim that has looked too early to see our insertion is seen
        // here; so is one that some check is about to take an insertion back for which we have found.
        self.announced.load(Ordering::SeqCst)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Map> {
        // Nothing of ours panics under the lock; if a clock or an allocation does, the map is still one.
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Attempts are about to look at the window, after [`after_announcing`](Self::after_announcing). Under the lock.
    #[inline(always)]
    pub(super) fn announce(&self, attempts: u64) {
        let announced = self.announced.load(Ordering::Relaxed);
        self.announced.store(announced + attempts, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn after_announcing() {
        if obeys(Rule::AnnounceInOrder) {
            // Partner: a check's sequentially consistent insertion and look at `announced` after it. Either we see the insertion, or it
            // comes after this fence, and then the check sees the announcement.
            fence(Ordering::SeqCst);
        }
    }

    /// Announces the number of entries and fingerprints that there are now. Under the lock.
    #[inline(always)]
    pub(super) fn publish(&self, map: &Map) {
        let announced = map.len() as u64 + map.fingerprints.len() as u64 * FINGERPRINT;
        if self.announced.load(Ordering::Relaxed) != announced {
            // Release: partner of the look in `confirm`. Who sees an entry gone sees what became of its id.
            self.announced.store(announced, Ordering::Release);
        }
    }

    /// After an entry has gone.
    #[inline(always)]
    pub(super) fn unlock(&self, map: MutexGuard<'_, Map>) {
        self.publish(&map);
        let waiting = map.waiting;
        drop(map);
        if waiting > 0 {
            self.gone.notify_all();
        }
    }
}
