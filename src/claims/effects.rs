//! The consequences of an attempt or a completion: for the entries that are kept of the id, and for
//! the tiers that remember ids. All under the shard's lock.

use super::fingerprints::Fingerprint;
use super::map::{Begun, Map, Request};
use super::marks::Marks;
use crate::Timestamp;
use crate::digest::Digest;
use crate::rules::{Rule, obeys};

impl Map {
    /// Notes that a claim has ended and the window was told, whether that was new to the window,
    /// and until when the window remembers the id at least.
    #[inline(always)]
    pub(super) fn done(
        &mut self,
        id: Digest,
        with_fingerprint: Option<Digest>,
        (is_news, until): (bool, Timestamp),
        marks: &impl Marks,
    ) {
        if (!is_news && obeys(Rule::KeepContested)) || self.kept.contains(id) {
            self.kept.clean(marks.now());
            self.kept.keep_done(id, marks.until(), !is_news);
        }
        match with_fingerprint {
            Some(digest) => self.fingerprints.keep(Fingerprint { id, digest, until }, marks.now()),
            None => drop(self.fingerprints.remove(id, || marks.now())),
        }
        marks.keep(id, with_fingerprint);
        self.stats.completed += 1;
    }

    /// Applies the consequences of an attempt.
    #[inline(always)]
    pub(super) fn settle(&mut self, request: &Request, begun: Begun, marks: &impl Marks) {
        match begun {
            Begun::Done if marks.slides() => self.refresh(request, marks),
            Begun::Claimed(_) => self.was_forgotten(request.id, marks),
            _ => {}
        }
    }

    /// Notes that an id was free: it was forgotten since it was last done. If that was before its
    /// time, the other tiers that remember it are told.
    #[inline(always)]
    pub(super) fn was_forgotten(&mut self, id: Digest, marks: &impl Marks) {
        if self.fingerprints.remove(id, || marks.now()) {
            marks.forgets(id);
        }
    }

    /// Extends the stay of an id that is done and was asked for again.
    fn refresh(&mut self, request: &Request, marks: &impl Marks) {
        if self.kept.is_done(request.id, || marks.now()) {
            self.kept.refresh(request.id, marks.until());
            marks.keep(request.id, None);
        } else {
            marks.refresh(request.id);
        }
        self.slide(request.id, marks, true);
    }

    /// Extends the stay of the fingerprint of an id that is done and was asked for again: it stays
    /// for as long as its id.
    pub(super) fn slide(&mut self, id: Digest, marks: &impl Marks, by_claim: bool) {
        if let Some(digest) = self.fingerprints.extend(id, marks.until(), || marks.now()) {
            marks.slid(id, digest, by_claim);
        }
    }

    pub(super) fn count(&mut self, begun: Begun) {
        match begun {
            Begun::Claimed(_) => self.stats.claimed += 1,
            Begun::InProgress(_) => self.stats.in_progress += 1,
            Begun::Done => self.stats.duplicates += 1,
            Begun::Mismatch => self.stats.mismatches += 1,
            Begun::TooMany => self.stats.refused += 1,
        }
    }
}
