//! Who remembers the ids that are done, as claims see it.

use crate::Timestamp;
use crate::digest::Digest;

/// The memory of the ids that are done: the window. Each call takes effect at once.
pub(crate) trait Marks {
    /// Returns true if an id is done.
    fn contains(&self, id: Digest) -> bool;
    /// Notes that it is; whether that is new. Sequentially consistent.
    fn insert(&self, id: Digest) -> bool;
    /// Takes back that it is.
    fn forget(&self, id: Digest);
    /// Returns the time that it is for it. (Leases may run by another clock.)
    fn now(&self) -> Timestamp;
    /// When it will have forgotten what it is told now.
    fn until(&self) -> Timestamp;
    /// It is, and was asked for again: it may stay for longer because of that.
    fn refresh(&self, id: Digest) {
        let _ = id;
    }
    /// Returns true if it slides: what is asked for again stays for longer.
    fn slides(&self) -> bool {
        false
    }
    /// Returns true if it may have forgotten some ids early.
    fn forgets_early(&self) -> bool {
        false
    }
    /// It is, for good, and perhaps with a fingerprint: whoever else remembers ids may learn of it.
    fn keep(&self, id: Digest, with_fingerprint: Option<Digest>) {
        let _ = (id, with_fingerprint);
    }
    /// It is about to be forgotten, for good: the same. (Before, since whoever accepts it again
    /// says so after that.)
    fn forgets(&self, id: Digest) {
        let _ = id;
    }
}
