//! Completed claims that are stored elsewhere, in a journal or a store: how they come back.

use super::done::DoneIds;
use super::fingerprints::Fingerprint;
use super::shards::Claims;
use crate::Timestamp;
use crate::digest::Digest;

impl Claims {
    /// Notes ids that were accepted elsewhere, or at a time in the past; called before the window
    /// learns of them.
    pub(crate) fn restored(&self, ids: &[Digest], done: &impl DoneIds) {
        if !self.are_used() {
            return;
        }
        for &id in ids {
            let shard = self.shard(id);
            let mut map = shard.lock();
            // Where the window slides, this may only mean that the id was asked for again.
            if done.slides() && map.fingerprints.len() > 0 && done.contains(id) {
                map.fingerprints.extend(id, done.until(), || done.now());
            } else {
                map.fingerprints.remove(id, || done.now());
            }
            shard.publish(&map);
        }
    }

    /// Restores the fingerprint of a done id, as it was stored elsewhere.
    pub(crate) fn restore_fingerprint(&self, fingerprint: Fingerprint, now: Timestamp) {
        self.note_use();
        let shard = self.shard(fingerprint.id);
        let mut map = shard.lock();
        map.fingerprints.keep(fingerprint, now);
        shard.publish(&map);
    }

    /// Forgets the fingerprint of a done id, as the id is forgotten.
    pub(crate) fn forget_fingerprint(&self, id: Digest) {
        if self.are_used() {
            let shard = self.shard(id);
            let mut map = shard.lock();
            map.fingerprints.remove(id, Timestamp::default);
            shard.publish(&map);
        }
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use crate::clock::ManualClock;
    use crate::digest::Digester;
    use crate::{Attempt, ClaimOptions, Dedup};

    #[test]
    fn what_was_accepted_elsewhere_has_no_fingerprint_here() {
        let dedup = Dedup::builder().seed(5).clock(ManualClock::new()).build().unwrap();
        let [one, other] = ["one", "other"].map(|payload| ClaimOptions::new().fingerprint(payload));
        dedup.claim_with("id", one).claimed().unwrap().complete().unwrap();
        assert!(matches!(dedup.claim_with("id", other), Attempt::Mismatch));
        dedup.engine.restore(&[Digester::with_seed(5).digest("id")], dedup.engine.now());
        assert!(dedup.claim_with("id", other).is_duplicate());
    }
}
