//! Records in this process's memory, by key, and by the time at which they are over.

use crate::backend::record::StoredRecord;
use crate::key::RecordKey;
use crate::request::Expired;
use hapax::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

#[derive(Default)]
pub(crate) struct Expiring {
    stored: BTreeMap<RecordKey, StoredRecord>,
    expiries: BTreeSet<(Timestamp, RecordKey)>,
    /// The largest token of any claim so far.
    last_token: u64,
}

impl Expiring {
    pub(crate) fn len(&self) -> usize {
        self.stored.len()
    }

    pub(crate) fn last_token(&self) -> u64 {
        self.last_token
    }

    pub(crate) fn get(&self, key: &RecordKey) -> Option<&StoredRecord> {
        self.stored.get(key)
    }

    /// Returns the records after a key, in the order of their keys; all of them without one.
    pub(crate) fn after(&self, key: Option<&RecordKey>) -> impl Iterator<Item = (&RecordKey, &StoredRecord)> {
        self.stored.range((key.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded))
    }

    pub(crate) fn put(&mut self, key: &RecordKey, stored: StoredRecord) {
        self.remove(key);
        self.last_token = self.last_token.max(stored.token);
        self.expiries.insert((stored.kept_until(), key.clone()));
        self.stored.insert(key.clone(), stored);
    }

    pub(crate) fn remove(&mut self, key: &RecordKey) {
        if let Some(stored) = self.stored.remove(key) {
            self.expiries.remove(&(stored.kept_until(), key.clone()));
        }
    }

    /// Removes records that are over, up to so many.
    pub(crate) fn expire(&mut self, now: Timestamp, limit: usize) -> Expired {
        let mut expired = Expired::default();
        while self.expiries.first().is_some_and(|(until, _)| *until <= now) {
            if expired.records == limit as u64 {
                expired.more = true;
                break;
            }
            if let Some((_, key)) = self.expiries.pop_first() {
                self.stored.remove(&key);
                expired.records += 1;
            }
        }
        expired
    }
}
