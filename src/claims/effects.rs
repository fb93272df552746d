//! What follows from an attempt or a completion: for what is kept of the id, and for those who
//! remember ids. Under the shard's lock.

use super::fingerprints::Fingerprint;
use super::map::{Begun, Map, Request};
use super::marks::Marks;
use crate::Timestamp;
use crate::digest::Digest;
use crate::rules::{Rule, obeys};

impl Map {
    /// A claim has ended, and the window was told: whether that was news to it, and until when it
    /// remembers the id at least.
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

    /// Does what follows from an attempt.
    #[inline(always)]
    pub(super) fn settle(&mut self, request: &Request, begun: Begun, marks: &impl Marks) {
        match begun {
            Begun::Done if marks.slides() => self.refresh(request, marks),
            Begun::Claimed(_) => self.was_forgotten(request.id, marks),
            _ => {}
        }
    }

    /// An id was free: whatever it was done with, it was forgotten since. If that was before its
    /// time, others who remember it are told.
    #[inline(always)]
    pub(super) fn was_forgotten(&mut self, id: Digest, marks: &impl Marks) {
        if self.fingerprints.remove(id, || marks.now()) {
            marks.forgets(id);
        }
    }

    /// Extends the stay of what is done and was asked for again.
    fn refresh(&mut self, request: &Request, marks: &impl Marks) {
        if self.kept.is_done(request.id, || marks.now()) {
            self.kept.refresh(request.id, marks.until());
            marks.keep(request.id, None);
        } else {
            marks.refresh(request.id);
        }
        self.fingerprints.extend(request.id, marks.until(), || marks.now());
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
