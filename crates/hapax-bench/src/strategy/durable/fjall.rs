//! `fjall`: an LSM tree in a directory.

use super::group::Syncing;
use super::lasting::Keep;
use crate::strategy::{Failure, Needs, Plan, Sort};
use ::fjall::config::{HashRatioPolicy, PinningPolicy};
use ::fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// The cache: all of a run's ids fit, for which its documentation asks.
const CACHE_BYTES: u64 = 256 << 20;

/// The size of the hash index in a block: as full as RocksDB's authors advise for theirs.
const BUCKETS_PER_KEY: f32 = 1.0 / 0.75;

/// Inserts if absent, under a lock, since the crate has no such operation: look the ids up, collect
/// the new ones, write them as one batch.
///
/// *Durable*: within 5 ms, plus the disk's sync, after the answer. A crash or a power cut loses
/// those answered in that time. That is the same as for a journal of this crate, so the two are
/// compared. Its transactions, which would do without our lock, take one of their own.
///
/// Set as its documentation advises for small keys that are looked up, mostly in vain: filters at
/// every level, pinned; a hash index in its blocks; a cache that has room for all of them; its
/// journal written when it is synced.
pub struct Fjall {
    syncing: Syncing,
    /// Held from the lookup to the write.
    writer: Mutex<()>,
    database: Database,
    ids: Keyspace,
}

fn options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .manual_journal_persist(true)
        .data_block_hash_ratio_policy(HashRatioPolicy::all(BUCKETS_PER_KEY))
        .filter_block_pinning_policy(PinningPolicy::all(true))
        .index_block_pinning_policy(PinningPolicy::all(true))
}

impl Keep for Fjall {
    const NAME: &'static str = "fjall";
    const SORT: Sort = Sort::Durable;
    const NEEDS: Needs = Needs::Directory;

    fn open(plan: &Plan) -> Result<Self, Failure> {
        let database = Database::builder(plan.directory()?).cache_size(CACHE_BYTES).open()?;
        let ids = database.keyspace("ids", options)?;
        let synced = database.clone();
        let syncing = Syncing::start(Self::NAME, move || Ok(synced.persist(PersistMode::SyncData)?))?;
        Ok(Fjall { syncing, writer: Mutex::new(()), database, ids })
    }

    fn add(&self, id: &[u8]) -> Result<bool, Failure> {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !self.ids.contains_key(id)?;
        if is_new {
            self.ids.insert(id, [])?;
            self.syncing.grows()?;
        }
        Ok(is_new)
    }

    fn add_batch<B: AsRef<[u8]>>(&self, ids: impl Iterator<Item = B>, fresh: &mut Vec<bool>) -> Result<(), Failure> {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut batch, mut new) = (self.database.batch(), HashSet::new());
        for id in ids {
            let is_new = !new.contains(id.as_ref()) && !self.ids.contains_key(&id)?;
            if is_new {
                batch.insert(&self.ids, id.as_ref(), []);
                new.insert(id.as_ref().to_vec());
            }
            fresh.push(is_new);
        }
        if !new.is_empty() {
            batch.commit()?;
            self.syncing.grows()?;
        }
        Ok(())
    }
}
