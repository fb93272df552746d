//! The fingerprints of completed claims: one for each id, for as long as the window remembers the
//! id. In one shard, under its lock; no clock of its own.
//!
//! A fingerprint in this map is known, so that another one is a mismatch for certain. A missing
//! fingerprint says nothing: the id may have been accepted without one, or there was no room.

use super::name::{ByName, Name};
use crate::Timestamp;
use crate::digest::Digest;
use crate::mutation::{Rule, obeys};

/// The most fingerprints in a shard: as many as fit a hash map of 2^15 places, since one more would
/// double it.
pub(super) const MAX_FINGERPRINTS: usize = if cfg!(miri) { (1 << 8) / 8 * 7 } else { (1 << 15) / 8 * 7 };
/// With fewer fingerprints, expired ones may stay.
const FEW: usize = 64;

/// The fingerprints of completed claims, by id. Most engines have none, and pay a single word.
#[derive(Debug, Default)]
pub(super) struct Fingerprints(Option<Box<Known>>);

/// The fingerprints of an engine that has had some.
#[derive(Debug, Default)]
struct Known {
    ids: ByName<Entry>,
    /// The number of fingerprints from which on expired ones are looked for.
    clean_at: usize,
    /// The time when all of them have expired.
    over: Timestamp,
    /// The number of fingerprints that were dropped before their time.
    dropped: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The digest of the id together with its fingerprint.
    digest: Digest,
    /// The time when the window forgets the id, as far as is known; by the window's time.
    until: Timestamp,
}

/// A fingerprint as it is stored elsewhere: its id, its digest, and its expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    pub(crate) id: Digest,
    pub(crate) digest: Digest,
    pub(crate) until: Timestamp,
}

impl Fingerprints {
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |known| known.ids.len())
    }

    /// Returns the number of fingerprints that were dropped before their time.
    pub(super) fn dropped(&self) -> u64 {
        self.0.as_ref().map_or(0, |known| known.dropped)
    }

    /// Returns the fingerprints, if there are any.
    fn some(&mut self) -> Option<&mut Known> {
        self.0.as_deref_mut().filter(|known| !known.ids.is_empty())
    }

    /// Returns true if an id is known with another fingerprint than the one that is asked for.
    #[inline(always)]
    pub(super) fn differ(&self, id: Digest, asked: Option<Digest>, now: impl FnOnce() -> Timestamp) -> bool {
        let Some(asked) = asked else { return false };
        let known = self.0.as_ref().and_then(|known| known.digest(id, now));
        known.map_or(!obeys(Rule::CertainMismatch), |known| known != asked)
    }

    /// Notes that an id is done, with this fingerprint.
    pub(super) fn keep(&mut self, fingerprint: Fingerprint, now: Timestamp) {
        self.0.get_or_insert_default().keep(fingerprint, now);
    }

    /// Notes that an id that is done was asked for again, and the window slides. Returns the
    /// fingerprint that stays longer with it, if there is one.
    #[inline(always)]
    pub(super) fn extend(&mut self, id: Digest, until: Timestamp, now: impl FnOnce() -> Timestamp) -> Option<Digest> {
        self.some().and_then(|known| known.extend(id, until, now()))
    }

    /// Removes the fingerprint of an id that is forgotten, or was accepted without one. Returns
    /// true if it had one that had not expired.
    #[inline(always)]
    pub(super) fn remove(&mut self, id: Digest, now: impl FnOnce() -> Timestamp) -> bool {
        self.some().and_then(|known| known.ids.remove(&Name::of(id))).is_some_and(|entry| now() < entry.until)
    }

    pub(super) fn clear(&mut self) {
        self.some().into_iter().for_each(|known| known.ids.clear());
    }

    /// Returns the number of fingerprints that have not expired.
    pub(super) fn live(&self, now: Timestamp) -> u64 {
        let known = self.0.iter().flat_map(|known| known.ids.values());
        known.filter(|entry| now < entry.until).count() as u64
    }

    pub(super) fn bytes(&self) -> usize {
        let each = size_of::<(Name, Entry)>();
        self.0.as_ref().map_or(0, |known| size_of::<Known>() + known.ids.capacity() * each)
    }
}

impl Known {
    /// Returns the digest of an id whose fingerprint is known and has not expired.
    fn digest(&self, id: Digest, now: impl FnOnce() -> Timestamp) -> Option<Digest> {
        let known = (!self.ids.is_empty()).then(|| self.ids.get(&Name::of(id)))??;
        (now() < known.until).then_some(known.digest)
    }

    fn keep(&mut self, fingerprint: Fingerprint, now: Timestamp) {
        let Fingerprint { id, digest, until } = fingerprint;
        if self.ids.len() >= self.clean_at.max(FEW) {
            self.clean(now);
        }
        self.over = self.over.max(until);
        self.ids.insert(Name::of(id), Entry { digest, until });
        debug_assert!(self.ids.len() <= MAX_FINGERPRINTS);
    }

    #[inline(never)]
    fn extend(&mut self, id: Digest, until: Timestamp, now: Timestamp) -> Option<Digest> {
        if self.over <= now {
            self.ids.clear();
        }
        let entry = self.ids.get_mut(&Name::of(id)).filter(|entry| now < entry.until)?;
        entry.until = entry.until.max(until);
        self.over = self.over.max(until);
        Some(entry.digest)
    }

    /// Makes room: expired fingerprints go, and if that is not enough, the oldest eighth.
    fn clean(&mut self, now: Timestamp) {
        self.ids.retain(|_, entry| now < entry.until);
        if self.ids.len() >= MAX_FINGERPRINTS {
            let mut ends: Vec<_> = self.ids.values().map(|entry| entry.until).collect();
            let mut rest = ends.len() / 8;
            let (older, oldest_kept, _) = ends.select_nth_unstable(rest);
            let oldest_kept = *oldest_kept;
            rest -= older.iter().filter(|until| **until < oldest_kept).count();
            let before = self.ids.len();
            // Of the fingerprints with the same expiry, only as many as are too many.
            self.ids.retain(|_, entry| {
                let is_one_of_many = entry.until == oldest_kept && rest > 0;
                rest -= usize::from(is_one_of_many);
                entry.until >= oldest_kept && !is_one_of_many
            });
            self.dropped += (before - self.ids.len()) as u64;
        }
        self.clean_at = (2 * self.ids.len()).clamp(FEW, MAX_FINGERPRINTS);
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::digest::Digester;
    use std::sync::LazyLock;

    fn digest(n: u64) -> Digest {
        static DIGESTER: LazyLock<Digester> = LazyLock::new(|| Digester::with_seed(5));
        DIGESTER.digest(n.to_le_bytes())
    }

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn differs(fingerprints: &Fingerprints, id: u64, with: u64, now: u64) -> bool {
        fingerprints.differ(digest(id), Some(digest(with)), || at(now))
    }

    #[test]
    fn a_fingerprint_counts_until_the_id_is_forgotten() {
        let mut fingerprints = Fingerprints::default();
        fingerprints.keep(Fingerprint { id: digest(1), digest: digest(11), until: at(10) }, at(0));
        assert!(!differs(&fingerprints, 1, 11, 9) && differs(&fingerprints, 1, 12, 9));
        assert!(!differs(&fingerprints, 1, 12, 10) && !differs(&fingerprints, 2, 12, 9));
        assert_eq!(fingerprints.extend(digest(1), at(20), || at(9)), Some(digest(11)));
        assert!(differs(&fingerprints, 1, 12, 19) && !differs(&fingerprints, 1, 12, 20));
        // Neither less, nor twice.
        assert_eq!(fingerprints.extend(digest(1), at(15), || at(9)), Some(digest(11)));
        assert!(differs(&fingerprints, 1, 12, 19));
        fingerprints.keep(Fingerprint { id: digest(2), digest: digest(12), until: at(50) }, at(20));
        assert_eq!(fingerprints.extend(digest(1), at(60), || at(20)), None);
        assert!(!differs(&fingerprints, 1, 12, 21));
        assert!(!fingerprints.remove(digest(1), || at(21)) && fingerprints.remove(digest(2), || at(21)));
        assert!(!differs(&fingerprints, 2, 13, 21));
    }

    #[test]
    fn what_is_over_goes_first_and_then_the_oldest_even_if_all_are_as_old() {
        for same in [true, false] {
            let mut fingerprints = Fingerprints::default();
            let until = |n: u64| if same { at(10) } else { at(10 + n) };
            let keep = |fingerprints: &mut Fingerprints, n| {
                fingerprints.keep(Fingerprint { id: digest(n), digest: digest(n), until: until(n) }, at(0));
            };
            let count = 2 * MAX_FINGERPRINTS as u64;
            (0..count).for_each(|n| keep(&mut fingerprints, n));
            let kept = fingerprints.len() as u64;
            assert_eq!(kept + fingerprints.dropped(), count);
            assert!((MAX_FINGERPRINTS * 7 / 8..=MAX_FINGERPRINTS).contains(&fingerprints.len()), "{kept}");
            assert!(differs(&fingerprints, count - 1, 0, 9), "the last one is there");
            let newest = (count - kept..count).filter(|&n| differs(&fingerprints, n, count, 9)).count() as u64;
            assert!(same || newest == kept, "{newest} of {kept}");

            let dropped = fingerprints.dropped();
            let fresh = Fingerprint { id: digest(count), digest: digest(0), until: at(2 * count) };
            (0..MAX_FINGERPRINTS as u64).for_each(|n| {
                fingerprints.keep(Fingerprint { id: digest(count + n), ..fresh }, at(11 + count));
            });
            assert_eq!(fingerprints.dropped(), dropped, "what was over has made room");
        }
    }
}
