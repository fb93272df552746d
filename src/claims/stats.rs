//! The counters of claims.

/// The counters of claims, and the number of claims that there are now.
///
/// ```
/// let dedup = hapax::Dedup::builder().build()?;
/// let claim = dedup.claim("a").claimed().unwrap();
/// assert_eq!(dedup.stats().claims.live, 1);
/// claim.complete()?;
/// let claims = dedup.stats().claims;
/// assert_eq!((claims.live, claims.claimed, claims.completed), (0, 1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimStats {
    /// Claims that are held and whose lease has not expired.
    pub live: u64,
    /// Attempts that got the claim.
    pub claimed: u64,
    /// Attempts that found the id claimed, or resting after a failure.
    pub in_progress: u64,
    /// Attempts that found the id done.
    pub duplicates: u64,
    /// Attempts that came with another fingerprint than the id's.
    pub mismatches: u64,
    /// Attempts that were refused because too many ids are in flight.
    pub refused: u64,
    /// Claims whose work was completed.
    pub completed: u64,
    /// Claims that were released, or dropped.
    pub released: u64,
    /// Claims that failed, so that their id rests for a while.
    pub failed: u64,
    /// Leases that expired, so that another caller took the id.
    pub taken_over: u64,
    /// Entries that expired and that were not asked for again.
    pub expired: u64,
    /// Calls of holders that had lost their lease.
    pub lost: u64,
    /// Fingerprints of completed claims that are kept now.
    pub fingerprints: u64,
    /// Fingerprints that were dropped before their ids, for want of room: such an id is a duplicate
    /// whatever the fingerprint.
    pub fingerprints_dropped: u64,
}

impl ClaimStats {
    pub(super) fn add(&mut self, other: &ClaimStats) {
        let ClaimStats { live, claimed, in_progress, duplicates, mismatches, refused, .. } = *other;
        self.live += live;
        self.claimed += claimed;
        self.in_progress += in_progress;
        self.duplicates += duplicates;
        self.mismatches += mismatches;
        self.refused += refused;
        let ClaimStats { completed, released, failed, taken_over, expired, .. } = *other;
        self.completed += completed;
        self.released += released;
        self.failed += failed;
        self.taken_over += taken_over;
        self.expired += expired;
        let ClaimStats { lost, fingerprints, fingerprints_dropped, .. } = *other;
        self.lost += lost;
        self.fingerprints += fingerprints;
        self.fingerprints_dropped += fingerprints_dropped;
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    #[test]
    fn the_sum_has_every_count() {
        let one = ClaimStats {
            live: 1,
            claimed: 2,
            in_progress: 3,
            duplicates: 4,
            mismatches: 5,
            refused: 6,
            completed: 7,
            released: 8,
            failed: 9,
            taken_over: 10,
            expired: 11,
            lost: 12,
            fingerprints: 13,
            fingerprints_dropped: 14,
        };
        let mut sum = ClaimStats::default();
        (0..3).for_each(|_| sum.add(&one));
        let thrice = ClaimStats {
            live: 3,
            claimed: 6,
            in_progress: 9,
            duplicates: 12,
            mismatches: 15,
            refused: 18,
            completed: 21,
            released: 24,
            failed: 27,
            taken_over: 30,
            expired: 33,
            lost: 36,
            fingerprints: 39,
            fingerprints_dropped: 42,
        };
        assert_eq!(sum, thrice);
    }
}
