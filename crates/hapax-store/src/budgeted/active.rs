//! Records that are in progress or have failed. They are never forgotten before their time.

use super::BACKEND;
use crate::error::{ErrorKind, StoreError};
use crate::key::RecordKey;
use crate::record::{Kept, State};
use crate::request::Expired;
use hapax::Timestamp;
use std::collections::{BTreeSet, HashMap};

pub(super) struct Active {
    kept: HashMap<RecordKey, Kept>,
    expiries: BTreeSet<(Timestamp, RecordKey)>,
    max: usize,
    /// The largest token of any claim so far.
    last_token: u64,
}

impl Active {
    pub(super) fn new(max: usize) -> Self {
        Active { kept: HashMap::new(), expiries: BTreeSet::new(), max, last_token: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(super) fn get(&self, key: &RecordKey) -> Option<&Kept> {
        self.kept.get(key)
    }

    /// Returns the stand-in for an id without a record. It counts as nothing, but a claim of it
    /// gets a token that no earlier claim had.
    pub(super) fn forgotten(&self, now: Timestamp) -> Kept {
        Kept { state: State::Failed, token: self.last_token, fingerprint: None, until: now }
    }

    pub(super) fn remove(&mut self, key: &RecordKey) {
        if let Some(kept) = self.kept.remove(key) {
            self.last_token = self.last_token.max(kept.token);
            self.expiries.remove(&(kept.until, key.clone()));
        }
    }

    /// Keeps a record, unless it has expired already. There is always room for another state of an
    /// id that is already kept.
    pub(super) fn put(&mut self, key: &RecordKey, kept: Kept, now: Timestamp) -> Result<(), StoreError> {
        // Removes two expired records for each one written, so that expired records never pile up.
        self.expire(now, 2);
        if kept.until > now && self.kept.len() >= self.max && !self.kept.contains_key(key) {
            let full = format!("{} ids are in progress, which is what the budget has room for", self.max);
            return Err(StoreError::new(ErrorKind::Unavailable, BACKEND, full));
        }
        self.remove(key);
        self.last_token = self.last_token.max(kept.token);
        if kept.until > now {
            self.expiries.insert((kept.until, key.clone()));
            self.kept.insert(key.clone(), kept);
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
                if let Some(kept) = self.kept.remove(&key) {
                    self.last_token = self.last_token.max(kept.token);
                }
                expired.records += 1;
            }
        }
        expired
    }
}
