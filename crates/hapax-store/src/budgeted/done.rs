//! Completed records, within their budget of bytes, of which each account has at least an equal
//! share. Pure.
//!
//! ```text
//! records   key ─► record, its bytes, when it was asked for last
//! asked     (when) ─► key                  the one that was not asked for longest is the first
//! by_owner  (account, when)                the same of each account
//! sizes     (bytes, account)               the account that has most is the last
//! expiries  (until, key)
//! ```
//!
//! *Eviction:* the least recently used record goes, if its account has more than an equal share
//! (the bytes in use, divided by the accounts that have records) or if all accounts have the same.
//! Otherwise the oldest record of the largest account goes, which has more than an equal share. So
//! an account within its share loses nothing to others, and where all accounts have the same it is
//! plain LRU.
//!
//! Idea: max-min fairness, of networks, over least-recently-used eviction.

use super::RECORD_BYTES;
use crate::backend::record::{State, StoredRecord};
use crate::key::{RecordKey, Scope};
use crate::request::Expired;
use hapax::Timestamp;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The account of a record: one group of ids, in one scope.
pub(super) type Account = (Scope, Option<[u8; 14]>);

#[derive(Default)]
pub(super) struct Done {
    records: HashMap<RecordKey, Entry>,
    asked: BTreeMap<u64, RecordKey>,
    by_owner: BTreeSet<(Account, u64)>,
    owners: HashMap<Account, u64>,
    sizes: BTreeSet<(u64, Account)>,
    expiries: BTreeSet<(Timestamp, RecordKey)>,
    bytes: u64,
    max_bytes: u64,
    /// The number of times that a record was put or asked for.
    time: u64,
}

struct Entry {
    stored: StoredRecord,
    bytes: u64,
    asked: u64,
}

/// Returns the number of bytes that a record counts as.
pub(super) fn weight(key: &RecordKey, stored: &StoredRecord) -> u64 {
    let result = match &stored.state {
        State::Completed { result: Some(result), .. } => result.len(),
        _ => 0,
    };
    RECORD_BYTES + (key.scope.as_str().len() + result) as u64
}

fn account(key: &RecordKey) -> Account {
    (key.scope.clone(), key.id.group())
}

impl Done {
    pub(super) fn new(max_bytes: u64) -> Self {
        Done { max_bytes, ..Done::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&RecordKey, &StoredRecord)> {
        self.records.iter().map(|(key, entry)| (key, &entry.stored))
    }

    /// Returns a record, and makes it the most recently used one.
    pub(super) fn get(&mut self, key: &RecordKey) -> Option<&StoredRecord> {
        self.time += 1;
        let entry = self.records.get_mut(key)?;
        let before = std::mem::replace(&mut entry.asked, self.time);
        let owner = account(key);
        if let Some(key) = self.asked.remove(&before) {
            self.asked.insert(self.time, key);
        }
        self.by_owner.remove(&(owner.clone(), before));
        self.by_owner.insert((owner, self.time));
        Some(&entry.stored)
    }

    /// Keeps a record in place of the earlier record of its id, and evicts others until it fits.
    /// Returns the number of evicted records. The record must not be larger than the budget.
    pub(super) fn put(&mut self, key: &RecordKey, stored: StoredRecord, now: Timestamp) -> u64 {
        // Removes two expired records for each one written, so that expired records never pile up.
        self.expire(now, 2);
        self.remove(key);
        if stored.until <= now {
            return 0;
        }
        let (bytes, owner) = (weight(key, &stored), account(key));
        self.time += 1;
        self.expiries.insert((stored.until, key.clone()));
        self.records.insert(key.clone(), Entry { stored, bytes, asked: self.time });
        self.asked.insert(self.time, key.clone());
        self.by_owner.insert((owner.clone(), self.time));
        self.grow(owner, bytes);
        let mut evicted = 0;
        while self.bytes > self.max_bytes {
            let Some(victim) = self.victim(key) else { break };
            self.remove(&victim);
            evicted += 1;
        }
        evicted
    }

    /// Returns the record to evict next, which is never `spared`.
    fn victim(&self, spared: &RecordKey) -> Option<RecordKey> {
        let (_, oldest) = self.asked.iter().find(|(_, key)| *key != spared)?;
        let exceeds = |owned: u64| owned.saturating_mul(self.owners.len() as u64) > self.bytes;
        let owned = self.owners.get(&account(oldest)).copied().unwrap_or(0);
        let are_equal = self.sizes.last().is_none_or(|(most, _)| !exceeds(*most));
        if exceeds(owned) || are_equal {
            return Some(oldest.clone());
        }
        for (_, owner) in self.sizes.iter().rev() {
            let of_owner = self.by_owner.range((owner.clone(), 0)..=(owner.clone(), u64::MAX));
            let mut keys = of_owner.filter_map(|(_, asked)| self.asked.get(asked));
            if let Some(key) = keys.find(|key| *key != spared) {
                return Some(key.clone());
            }
        }
        None
    }

    pub(super) fn remove(&mut self, key: &RecordKey) {
        let Some(entry) = self.records.remove(key) else { return };
        self.expiries.remove(&(entry.stored.until, key.clone()));
        self.asked.remove(&entry.asked);
        let owner = account(key);
        self.by_owner.remove(&(owner.clone(), entry.asked));
        self.shrink(owner, entry.bytes);
    }

    /// Removes records that are over, up to so many.
    pub(super) fn expire(&mut self, now: Timestamp, limit: u64) -> Expired {
        let mut removed = 0;
        while let Some((until, key)) = self.expiries.first()
            && *until <= now
        {
            if removed == limit {
                return Expired::new(removed, true);
            }
            let key = key.clone();
            self.remove(&key);
            removed += 1;
        }
        Expired::new(removed, false)
    }

    fn grow(&mut self, owner: Account, bytes: u64) {
        self.bytes += bytes;
        let owned = self.owners.entry(owner.clone()).or_default();
        self.sizes.remove(&(*owned, owner.clone()));
        *owned += bytes;
        self.sizes.insert((*owned, owner));
    }

    fn shrink(&mut self, owner: Account, bytes: u64) {
        self.bytes -= bytes;
        let Some(owned) = self.owners.get_mut(&owner) else { return };
        self.sizes.remove(&(*owned, owner.clone()));
        *owned -= bytes;
        if *owned == 0 {
            self.owners.remove(&owner);
        } else {
            self.sizes.insert((*owned, owner));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::StoredId;
    use proptest::prelude::*;
    use std::time::Duration;

    fn key(owner: &str, id: u64) -> RecordKey {
        let scope = Scope::new("budget").unwrap();
        RecordKey { scope, id: StoredId::of_group(owner.as_bytes(), &id.to_le_bytes()) }
    }

    fn record(bytes: usize, until: u64) -> StoredRecord {
        let state = State::Completed { attempt: None, result: Some(vec![7; bytes]) };
        StoredRecord { state, token: 1, fingerprint: None, until: Timestamp::from_millis(until), trail: None }
    }

    const EACH: u64 = RECORD_BYTES + 6;

    #[test]
    fn of_equals_the_one_that_was_not_asked_for_longest_goes() {
        let mut done = Done::new(4 * EACH);
        let now = Timestamp::default();
        (0..4).for_each(|id| assert_eq!(done.put(&key(&id.to_string(), id), record(0, 9), now), 0));
        assert!(done.get(&key("0", 0)).is_some());
        assert_eq!(done.put(&key("4", 4), record(0, 9), now), 1);
        let left = |done: &mut Done| {
            (0..6).filter(|id| done.records.contains_key(&key(&id.to_string(), *id))).collect::<Vec<_>>()
        };
        assert_eq!(left(&mut done), vec![0, 2, 3, 4]);
        // A large record evicts others, and stays, although its account is the largest.
        assert_eq!(done.put(&key("5", 5), record(2 * EACH as usize, 9), now), 3);
        assert_eq!(left(&mut done), vec![4, 5]);
    }

    #[test]
    fn what_is_over_goes_first_and_leaves_nothing() {
        let mut done = Done::new(4 * EACH);
        (0..4).for_each(|id| assert_eq!(done.put(&key("a", id), record(0, 10), Timestamp::default()), 0));
        assert_eq!(done.expire(Timestamp::from_millis(10), 3), Expired::new(3, true));
        assert_eq!(done.put(&key("b", 0), record(0, 20), Timestamp::from_millis(10)), 0);
        assert_eq!(done.expire(Timestamp::from_millis(20), 9), Expired::new(1, false));
        assert_eq!((done.len(), done.bytes(), done.asked.len(), done.by_owner.len()), (0, 0, 0, 0));
        assert_eq!((done.owners.len(), done.sizes.len(), done.expiries.len()), (0, 0, 0));
    }

    proptest! {
        /// Checks that an account within an equal share loses nothing, whatever other accounts do,
        /// and that the sums agree.
        #[test]
        fn an_account_within_its_share_loses_nothing(
            steps in proptest::collection::vec((0_usize..4, 0_u64..12, 0_usize..2_000, any::<bool>()), 1..120),
        ) {
            let names = ["a", "b", "c", "d"];
            let mut done = Done::new(24 * EACH);
            let now = Timestamp::default();
            for (owner, id, bytes, asks) in steps {
                let key = key(names[owner], id);
                if asks {
                    done.get(&key);
                    continue;
                }
                let before: HashMap<RecordKey, u64> = done.records.iter().map(|(key, it)| (key.clone(), it.bytes)).collect();
                done.put(&key, record(bytes, 1_000), now + Duration::ZERO);
                prop_assert!(done.bytes <= done.max_bytes);
                prop_assert!(done.records.contains_key(&key), "the newest one is kept");
                let lost: Vec<&RecordKey> = before.keys().filter(|it| !done.records.contains_key(*it)).collect();
                for owner in lost.iter().map(|it| account(it)).filter(|it| *it != account(&key)) {
                    let had: u64 = before.iter().filter(|(key, _)| account(key) == owner).map(|(_, bytes)| bytes).sum();
                    prop_assert!(had * 4 > done.max_bytes, "had {had} of {}, and lost some", done.max_bytes);
                }
                let sum: u64 = done.records.iter().map(|(key, it)| weight(key, &it.stored)).sum();
                prop_assert_eq!(sum, done.bytes);
                prop_assert_eq!(done.owners.values().sum::<u64>(), sum);
                prop_assert_eq!((done.asked.len(), done.by_owner.len()), (done.records.len(), done.records.len()));
            }
        }
    }
}
