//! The consequences of an attempt or a completion: for the entries that are kept of the id, and for
//! the tiers that remember ids. All under the shard's lock.

use super::done::DoneIds;
use super::fingerprints::Fingerprint;
use super::map::{Begun, Map, Request};
use crate::Timestamp;
use crate::digest::Digest;
use crate::mutation::{Rule, obeys};

/// The window's answer when it was told that an id is done.
pub(crate) struct Insertion {
    /// True if the window did not have the id.
    pub(crate) is_news: bool,
    /// The time until which the window remembers the id at least.
    pub(crate) until: Timestamp,
}

impl Map {
    /// Notes that a claim has ended, and that the window was told.
    #[inline(always)]
    pub(crate) fn done(
        &mut self,
        id: Digest,
        with_fingerprint: Option<Digest>,
        Insertion { is_news, until }: Insertion,
        done: &impl DoneIds,
    ) {
        if (!is_news && obeys(Rule::KeepContested)) || self.tombstones.contains(id) {
            self.tombstones.clean(done.now());
            self.tombstones.keep_done(id, done.until(), !is_news);
        }
        match with_fingerprint {
            Some(digest) => self.fingerprints.keep(Fingerprint { id, digest, until }, done.now()),
            None => drop(self.fingerprints.remove(id, || done.now())),
        }
        done.keep(id, with_fingerprint);
    }

    /// Returns true if something is kept beside the ids in flight, of this id perhaps: then
    /// [`done`](Self::done) is to be called, whatever the window said.
    #[inline(always)]
    pub(crate) fn keeps_more(&self) -> bool {
        self.tombstones.len() + self.fingerprints.len() > 0
    }

    /// Applies the consequences of an attempt.
    #[inline(always)]
    pub(crate) fn settle(&mut self, request: &Request, begun: Begun, done: &impl DoneIds) {
        match begun {
            Begun::Done if done.slides() => self.refresh(request, done),
            Begun::Claimed(_) => self.was_forgotten(request.id, done),
            _ => {}
        }
    }

    /// Notes that an id was free: it was forgotten since it was last done. If that was before its
    /// time, the other tiers that remember it are told.
    #[inline(always)]
    pub(super) fn was_forgotten(&mut self, id: Digest, done: &impl DoneIds) {
        if self.fingerprints.remove(id, || done.now()) {
            done.forgets(id);
        }
    }

    /// Extends the stay of an id that is done and was asked for again.
    fn refresh(&mut self, request: &Request, done: &impl DoneIds) {
        if self.tombstones.is_done(request.id, || done.now()) {
            self.tombstones.refresh(request.id, done.until());
            done.stays(request.id);
        } else {
            done.refresh(request.id);
        }
        self.slide(request.id, done, true);
    }

    /// Extends the stay of the fingerprint of an id that is done and was asked for again: it stays
    /// for as long as its id.
    pub(super) fn slide(&mut self, id: Digest, done: &impl DoneIds, by_claim: bool) {
        // As of when the id was asked for: if others' time has gone on since, it may seem to have
        // expired, although its id stays.
        let asked_at = || if obeys(Rule::SlidesAsAsked) { done.asked_at() } else { done.now() };
        if let Some(digest) = self.fingerprints.extend(id, done.until(), asked_at) {
            done.slid(id, digest, by_claim);
        }
    }

    pub(crate) fn count(&mut self, begun: Begun) {
        match begun {
            Begun::Claimed(_) => self.stats.claimed += 1,
            Begun::InProgress(_) => self.stats.in_progress += 1,
            Begun::Done => self.stats.duplicates += 1,
            Begun::Mismatch => self.stats.mismatches += 1,
            Begun::TooMany => self.stats.refused += 1,
        }
    }
}
