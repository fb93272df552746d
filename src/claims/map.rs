//! The ids in flight in one shard, and what a call does to them. No atomics, no clock: the caller
//! holds the shard's lock, and passes the time.

use super::fingerprints::Fingerprints;
use super::name::{ByName, Name};
use super::stats::ClaimStats;
use super::tombstones::{Known, Tombstones};
use crate::Timestamp;
use crate::digest::Digest;
use crate::mutation::{Rule, obeys};
use std::collections::hash_map::Entry as Place;
use std::time::Duration;

/// The most ids in flight in a shard.
pub(super) const MAX_IDS: usize = 1 << 15;
/// With fewer ids, expired ones may stay.
const FEW_IDS: usize = 64;

/// Returns the memory that a shard's entries take with this many ids in flight.
pub(super) fn bytes_for(ids: usize) -> usize {
    // Only the map knows the steps in which it grows.
    ByName::<Entry>::with_capacity_and_hasher(ids, Default::default()).capacity() * size_of::<(Name, Entry)>()
}

/// The state of one id.
#[derive(Clone, Debug)]
struct Entry {
    /// The token of the id's claim.
    token: u64,
    state: State,
    /// The time from which on the entry means nothing.
    until: Timestamp,
    /// The digest of the id with the fingerprint that its claim was given. (It is boxed because few
    /// claims have one, and the entries should be small.)
    with_fingerprint: Option<Box<Digest>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A caller is at work.
    Claimed,
    /// The caller's work failed, and the id rests.
    Failed,
}

/// A request to claim an id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) id: Digest,
    /// The digest of the id together with its fingerprint.
    pub(crate) with_fingerprint: Option<Digest>,
    pub(crate) now: Timestamp,
    /// The end of the lease.
    pub(crate) until: Timestamp,
}

/// The result of an attempt, as far as the map knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// The id belongs to the caller, under this token.
    Claimed(u64),
    InProgress(Duration),
    /// The id is done, according to the window or the map.
    Done,
    /// The id is in flight or done with another fingerprint, for certain.
    Mismatch,
    TooMany,
}

/// The answer to a call with a token: it still held, or was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Held,
    Lost,
}

#[derive(Debug)]
pub(crate) struct Map {
    entries: ByName<Entry>,
    /// Ids that are not in flight, or soon will not be.
    pub(super) tombstones: Tombstones,
    /// The fingerprints of ids that are done.
    pub(super) fingerprints: Fingerprints,
    last_token: u64,
    /// The number of entries from which on expired ones are looked for …
    clean_at: usize,
    /// … and the time when the first of the present ones may have expired.
    clean_from: Timestamp,
    /// The number of threads that wait for an entry to go.
    pub(super) waiting: usize,
    pub(super) stats: ClaimStats,
}

impl Map {
    pub(super) fn new(last_token: u64) -> Self {
        let entries = ByName::default();
        Map {
            entries,
            tombstones: Tombstones::default(),
            fingerprints: Fingerprints::default(),
            last_token,
            clean_at: FEW_IDS,
            clean_from: Timestamp::default(),
            waiting: 0,
            stats: ClaimStats::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len() + self.tombstones.len()
    }

    /// Returns the ids that a check has to know of.
    pub(super) fn ids(&self) -> impl Iterator<Item = Digest> {
        self.entries.keys().copied().chain(self.tombstones.names()).map(Name::digest)
    }

    /// Returns the result of an attempt, by the map alone; `None` if the window has to decide.
    /// `windows` is the window's time.
    pub(super) fn look(&self, request: &Request, windows: impl Fn() -> Timestamp) -> Option<Begun> {
        let in_flight = self.entries.get(&Name::of(request.id)).and_then(|entry| entry.answer(request));
        in_flight.or_else(|| {
            if self.fingerprints.differ(request.id, request.with_fingerprint, &windows) {
                Some(Begun::Mismatch)
            } else {
                self.tombstones.is_done(request.id, windows).then_some(Begun::Done)
            }
        })
    }

    /// Attempts to claim an id. If nobody else has the id, the window is asked whether it is done.
    #[inline(always)]
    pub(crate) fn attempt(
        &mut self,
        request: &Request,
        windows: impl Fn() -> Timestamp,
        is_done: impl Fn() -> bool,
    ) -> Begun {
        let before = request.with_fingerprint.map(|_| windows());
        let begun = self.attempt_any(request, &windows, &is_done);
        let differs = |at: Timestamp| self.fingerprints.differ(request.id, request.with_fingerprint, || at);
        match (begun, before) {
            (Begun::Done, Some(_)) if differs(windows()) => Begun::Mismatch,
            // It has expired since the window was asked, and perhaps the id with it.
            (Begun::Done, Some(before)) if differs(before) && obeys(Rule::AskAgain) => {
                self.attempt_any(request, &windows, is_done)
            }
            (begun, _) => begun,
        }
    }

    /// Attempts to claim an id, regardless of the fingerprints of ids that are done.
    #[inline(always)]
    fn attempt_any(
        &mut self,
        request: &Request,
        windows: impl FnOnce() -> Timestamp,
        is_done: impl FnOnce() -> bool,
    ) -> Begun {
        if self.entries.len() >= self.clean_at && request.now >= self.clean_from {
            self.clean(request.now);
        }
        // An id that is kept as done is not in flight.
        if self.tombstones.is_done(request.id, windows) {
            return Begun::Done;
        }
        let is_full = self.entries.len() >= MAX_IDS;
        let mut place = self.entries.entry(Name::of(request.id));
        if let Place::Occupied(place) = &mut place {
            if let Some(begun) = place.get().answer(request) {
                return begun;
            }
            self.stats.taken_over += u64::from(place.get().state == State::Claimed);
        }
        if is_done() {
            if let Place::Occupied(place) = place {
                place.remove();
            }
            return Begun::Done;
        }
        if is_full && matches!(place, Place::Vacant(_)) {
            return Begun::TooMany;
        }
        self.last_token += 1;
        let with_fingerprint = request.with_fingerprint.map(Box::new);
        place.insert_entry(Entry {
            token: self.last_token,
            state: State::Claimed,
            until: request.until,
            with_fingerprint,
        });
        debug_assert!(self.entries.len() <= MAX_IDS);
        Begun::Claimed(self.last_token)
    }

    /// Drops expired entries; amortized, each entry is looked at once for each new one. Claims,
    /// whose holders may only be late, are dropped only if there is no more room.
    fn clean(&mut self, now: Timestamp) {
        let before = self.entries.len();
        let is_full = before >= MAX_IDS;
        self.entries.retain(|_, entry| entry.until > now || (entry.state == State::Claimed && !is_full));
        self.stats.expired += (before - self.entries.len()) as u64;
        self.clean_at = (2 * self.entries.len()).clamp(FEW_IDS, MAX_IDS);
        // If there is still room, again as soon as it is used up.
        let first = self.entries.values().map(|entry| entry.until).min();
        self.clean_from = first.filter(|_| self.entries.len() == MAX_IDS).unwrap_or_default();
    }

    /// Returns what a check has to know of an id. A claim that has expired is the check's to take.
    pub(super) fn known(&mut self, id: Digest, now: Timestamp, windows: impl FnOnce() -> Timestamp) -> Known {
        // (`HashMap::entry` would reserve room for a new entry.)
        if let Some(entry) = self.entries.get(&Name::of(id)) {
            if now < entry.until {
                return Known::InProgress;
            }
            self.stats.taken_over += u64::from(entry.state == State::Claimed);
            self.entries.remove(&Name::of(id));
        }
        self.tombstones.known(id, windows)
    }

    pub(super) fn is_in_progress(&self, id: Digest, now: Timestamp) -> bool {
        self.entries.get(&Name::of(id)).is_some_and(|entry| now < entry.until)
    }

    /// Ends a claim whose id is done, as [`end`](Self::end) does.
    #[inline(always)]
    pub(crate) fn complete(&mut self, id: Digest, token: u64) -> Option<Option<Digest>> {
        let with_fingerprint = self.end(id, token)?;
        self.stats.completed += 1;
        Some(with_fingerprint)
    }

    /// Ends a claim. Returns the digest of its id together with the fingerprint, if the token held.
    #[inline(always)]
    pub(super) fn end(&mut self, id: Digest, token: u64) -> Option<Option<Digest>> {
        match self.entries.entry(Name::of(id)) {
            Place::Occupied(place) if place.get().is_of(token) => Some(place.remove().with_fingerprint.map(|id| *id)),
            _ => {
                self.stats.lost += 1;
                None
            }
        }
    }

    /// Extends a claim, or lets its id rest.
    pub(super) fn extend(&mut self, id: Digest, token: u64, until: Timestamp, fails: bool) -> Ended {
        match self.entries.get_mut(&Name::of(id)) {
            Some(entry) if entry.is_of(token) => {
                entry.until = until;
                if fails {
                    entry.state = State::Failed;
                }
                Ended::Held
            }
            _ => {
                self.stats.lost += 1;
                Ended::Lost
            }
        }
    }

    /// Forgets everything but claims that are held.
    pub(super) fn clear(&mut self) {
        self.tombstones.free_all();
        self.fingerprints.clear();
        self.entries.retain(|_, entry| entry.state == State::Claimed);
    }

    /// Returns the number of claims that are held, as far as is known.
    pub(super) fn live(&self, now: Timestamp) -> u64 {
        self.entries.values().filter(|entry| entry.state == State::Claimed && entry.until > now).count() as u64
    }

    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<(Name, Entry)>() + self.tombstones.bytes() + self.fingerprints.bytes()
    }
}

impl Entry {
    /// Returns the result of an attempt that finds this entry, unless the entry has expired.
    #[inline(always)]
    fn answer(&self, request: &Request) -> Option<Begun> {
        if self.until <= request.now {
            return None;
        }
        let mismatch = matches!((&self.with_fingerprint, request.with_fingerprint), (Some(a), Some(b)) if **a != b);
        Some(match self.state {
            _ if mismatch => Begun::Mismatch,
            State::Claimed | State::Failed => Begun::InProgress(self.until.since(request.now)),
        })
    }

    fn is_of(&self, token: u64) -> bool {
        self.state == State::Claimed && (self.token == token || !obeys(Rule::TokenHolds))
    }
}
