//! The interface of claims to the tiers that remember done ids.

use crate::Timestamp;
use crate::digest::Digest;

/// The memory of done ids: the window. Each call takes effect at once.
pub(crate) trait DoneIds {
    /// Returns true if an id is done.
    fn contains(&self, id: Digest) -> bool;
    /// Notes that an id is done; returns true if that is new. Sequentially consistent.
    fn insert(&self, id: Digest) -> bool;
    /// Takes back that an id is done.
    fn forget(&self, id: Digest);
    /// Returns the present of the window. (Leases may run by another clock.)
    fn now(&self) -> Timestamp;
    /// Returns the time of the call, which others' may be ahead of.
    fn asked_at(&self) -> Timestamp {
        self.now()
    }
    /// Returns the time when the window will have forgotten an id that it is told of now.
    fn until(&self) -> Timestamp;
    /// Notes that an id is done, and was asked for again: it may stay longer because of that.
    fn refresh(&self, id: Digest) {
        let _ = id;
    }
    /// Returns true if the window slides: an id that is asked for again stays longer.
    fn slides(&self) -> bool {
        false
    }
    /// Returns true if the window may have forgotten some ids early.
    fn forgets_early(&self) -> bool {
        false
    }
    /// Notes that an id is done, for good, and perhaps with a fingerprint: others that remember ids
    /// may learn of it.
    fn keep(&self, id: Digest, with_fingerprint: Option<Digest>) {
        let _ = (id, with_fingerprint);
    }
    /// Notes, for the same others, that an id stays longer that is kept beside the window.
    fn stays(&self, id: Digest) {
        let _ = id;
    }
    /// Notes, for the same others, that an id stays longer, with this fingerprint. (Id and
    /// fingerprint belong together, also where the record that was stored first has expired.)
    fn slid(&self, id: Digest, with_fingerprint: Digest, by_claim: bool) {
        let _ = (id, with_fingerprint, by_claim);
    }
    /// Notes, for the same others, that an id was forgotten, for good, and is accepted again.
    fn forgets(&self, id: Digest) {
        let _ = id;
    }
    /// Forgets an id for good; the same others forget it, too.
    fn forget_for_good(&self, id: Digest) {
        self.forget(id);
    }
}
