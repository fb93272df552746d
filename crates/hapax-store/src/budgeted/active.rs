//! Records that are in progress or have failed. They are never forgotten before their time.

use super::BACKEND;
use crate::error::{ErrorKind, StoreError};
use crate::key::RecordKey;
use crate::record::StoredRecord;
use crate::request::Expired;
use hapax::Timestamp;
use std::collections::{BTreeSet, HashMap};

pub(super) struct Active {
    records: HashMap<RecordKey, StoredRecord>,
    expiries: BTreeSet<(Timestamp, RecordKey)>,
    max: usize,
    /// The largest token of any claim so far.
    last_token: u64,
}

impl Active {
    pub(super) fn new(max: usize) -> Self {
        Active { records: HashMap::new(), expiries: BTreeSet::new(), max, last_token: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn get(&self, key: &RecordKey) -> Option<&StoredRecord> {
        self.records.get(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&RecordKey, &StoredRecord)> {
        self.records.iter()
    }

    /// Returns the largest token of any claim so far: every claim begins here.
    pub(super) fn last_token(&self) -> u64 {
        self.last_token
    }

    pub(super) fn remove(&mut self, key: &RecordKey) {
        if let Some(stored) = self.records.remove(key) {
            self.expiries.remove(&(stored.until, key.clone()));
        }
    }

    /// Keeps a record, unless it has expired already. There is always room for another state of an
    /// id that is already kept.
    pub(super) fn put(&mut self, key: &RecordKey, stored: StoredRecord, now: Timestamp) -> Result<(), StoreError> {
        // Removes two expired records for each one written, so that expired records never pile up.
        self.expire(now, 2);
        if stored.until > now && self.records.len() >= self.max && !self.records.contains_key(key) {
            let full = format!("{} ids are in progress, which is what the budget has room for", self.max);
            return Err(StoreError::new(ErrorKind::Unavailable, BACKEND, full));
        }
        self.remove(key);
        self.last_token = self.last_token.max(stored.token);
        if stored.until > now {
            self.expiries.insert((stored.until, key.clone()));
            self.records.insert(key.clone(), stored);
        }
        Ok(())
    }

    pub(super) fn expire(&mut self, now: Timestamp, limit: usize) -> Expired {
        let mut expired = Expired::default();
        while self.expiries.first().is_some_and(|(until, _)| *until <= now) {
            if expired.records == limit as u64 {
                expired.more = true;
                break;
            }
            if let Some((_, key)) = self.expiries.pop_first() {
                self.records.remove(&key);
                expired.records += 1;
            }
        }
        expired
    }
}
