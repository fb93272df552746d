//! What is known of the ids in flight, in one shard, and what a call does to it. No atomics, no clock: whoever calls holds the shard's lock, and
//! says what time it is.

use super::fingerprints::Fingerprints;
use super::kept::Kept;
use super::stats::ClaimStats;
use crate::Timestamp;
use crate::digest::Digest;
use crate::rules::{Rule, obeys};
use crate::window::Tag;
use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Duration;

/// The most ids in flight in a shard.
pub(super) const MAX_IDS: usize = 1 << 15;
/// With fewer, what has expired may stay.
const FEW_IDS: usize = 64;

/// What the entries of a shard take that has so many ids in flight.
#[cfg(feature = "plan")]
pub(super) fn bytes_for(ids: usize) -> usize {
    // Only the map knows by which steps it grows.
    HashMap::<Name, Entry>::with_capacity(ids).capacity() * size_of::<(Name, Entry)>()
}

/// An id, as far as the window tells it from others. (Not all who ask know more of it.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name {
    tag: u64,
    place: u64,
}

impl Name {
    pub(super) fn of(id: Digest) -> Self {
        Name { tag: Tag::of(id.mark).as_mark(), place: id.place }
    }

    /// A digest with this name.
    pub(super) fn digest(self) -> Digest {
        Digest { place: self.place, mark: self.tag }
    }
}

/// What is known of one id.
#[derive(Clone, Debug)]
struct Entry {
    /// Whose it is.
    token: u64,
    state: State,
    /// From then on it means nothing.
    until: Timestamp,
    /// The id with the fingerprint that its claim was given. (Few are, and the entries should be small.)
    with_fingerprint: Option<Box<Digest>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Somebody is at work.
    Claimed,
    /// Somebody was, and wants it to rest.
    Failed,
}

/// What somebody wants to claim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) id: Digest,
    /// The digest of the id together with its fingerprint.
    pub(crate) with_fingerprint: Option<Digest>,
    pub(crate) now: Timestamp,
    /// When the lease ends.
    pub(crate) until: Timestamp,
}

/// What a claim came to, as far as the map knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// It is the caller's, under this token.
    Claimed(u64),
    InProgress(Duration),
    /// It is done: by what the window knows, or the map.
    Done,
    /// It is in flight or done with another fingerprint, for certain.
    Mismatch,
    TooMany,
}

/// What the map knows of an id that a check has asked the window about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Nothing,
    InProgress,
    Done,
    /// Nobody has it, but the window may have forgotten what the check has inserted, or seen.
    Free,
}

/// Whether a token still held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Held,
    Lost,
}

#[derive(Debug)]
pub(super) struct Map {
    entries: HashMap<Name, Entry, BuildHasherDefault<Uniform>>,
    /// Ids that are not in flight, or will soon not be.
    pub(super) kept: Kept,
    /// The fingerprints that ids are done with.
    pub(super) fingerprints: Fingerprints,
    last_token: u64,
    /// How many entries there may be until those that have expired are looked for …
    clean_at: usize,
    /// … and when the first of those that are there may have.
    clean_from: Timestamp,
    /// Threads that wait for an entry to go.
    pub(super) waiting: usize,
    pub(super) stats: ClaimStats,
}

impl Map {
    pub(super) fn new(last_token: u64) -> Self {
        let entries = HashMap::default();
        Map {
            entries,
            kept: Kept::default(),
            fingerprints: Fingerprints::default(),
            last_token,
            clean_at: FEW_IDS,
            clean_from: Timestamp::default(),
            waiting: 0,
            stats: ClaimStats::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len() + self.kept.len()
    }

    /// What an attempt comes to, by the map alone; `None`: it is for the window to say, whose time is this.
    pub(super) fn look(&self, request: &Request, windows: impl Fn() -> Timestamp) -> Option<Begun> {
        let in_flight = self.entries.get(&Name::of(request.id)).and_then(|entry| entry.answer(request));
        in_flight.or_else(|| match self.fingerprints.differ(request, &windows) {
            true => Some(Begun::Mismatch),
            false => self.kept.is_done(request.id, windows).then_some(Begun::Done),
        })
    }

    /// An attempt to claim an id. The window is asked if nobody else has the id: whether it is
    /// done.
    #[inline(always)]
    pub(super) fn attempt(
        &mut self,
        request: &Request,
        windows: impl Fn() -> Timestamp,
        is_done: impl FnOnce() -> bool,
    ) -> Begun {
        let begun = self.attempt_any(request, &windows, is_done);
        match begun {
            Begun::Done if self.fingerprints.differ(request, windows) => Begun::Mismatch,
            begun => begun,
        }
    }

    /// The same, whatever fingerprints those have who are done.
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
        // What is kept as done is not in flight.
        if self.kept.is_done(request.id, windows) {
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
        Begun::Claimed(self.last_token)
    }

    /// Drops what has expired: each entry is looked at once for each that came since. Claims, whose holders may only be late, only if
    /// there is no more room.
    fn clean(&mut self, now: Timestamp) {
        let before = self.entries.len();
        let is_full = before >= MAX_IDS;
        self.entries.retain(|_, entry| entry.until > now || (entry.state == State::Claimed && !is_full));
        self.stats.expired += (before - self.entries.len()) as u64;
        self.clean_at = (2 * self.entries.len()).clamp(FEW_IDS, MAX_IDS);
        // Where there is still room, as soon as that is used up.
        let first = self.entries.values().map(|entry| entry.until).min();
        self.clean_from = first.filter(|_| self.entries.len() == MAX_IDS).unwrap_or_default();
    }

    /// What a check has to know of an id. A claim that has expired is the check's to take.
    pub(super) fn known(&mut self, id: Digest, now: Timestamp, windows: impl FnOnce() -> Timestamp) -> Known {
        // (An `entry` would make room for one.)
        if let Some(entry) = self.entries.get(&Name::of(id)) {
            if now < entry.until {
                return Known::InProgress;
            }
            self.stats.taken_over += u64::from(entry.state == State::Claimed);
            self.entries.remove(&Name::of(id));
        }
        self.kept.known(id, windows)
    }

    pub(super) fn is_in_progress(&self, id: Digest, now: Timestamp) -> bool {
        self.entries.get(&Name::of(id)).is_some_and(|entry| now < entry.until)
    }

    /// Ends a claim; with what its id was, together with the fingerprint, if the token held.
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

    /// Forgets what is no claim that somebody holds.
    pub(super) fn clear(&mut self) {
        self.kept.free_all();
        self.fingerprints.clear();
        self.entries.retain(|_, entry| entry.state == State::Claimed);
    }

    /// Claims that somebody holds, as far as one knows.
    pub(super) fn live(&self, now: Timestamp) -> u64 {
        self.entries.values().filter(|entry| entry.state == State::Claimed && entry.until > now).count() as u64
    }

    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<(Name, Entry)>() + self.kept.bytes() + self.fingerprints.bytes()
    }
}

impl Entry {
    /// What an attempt comes to that finds this, unless it has expired.
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

/// Digests are uniform, so any part of them is a hash.
#[derive(Default)]
pub(super) struct Uniform(u64);

impl Hasher for Uniform {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    /// The last word counts.
    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
