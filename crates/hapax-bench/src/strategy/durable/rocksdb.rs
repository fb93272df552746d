//! `rocksdb`: an LSM tree in a directory.

use super::group::Syncing;
use super::lasting::Keep;
use crate::strategy::{Failure, Needs, Plan, Sort};
use ::rocksdb::{ColumnFamilyDescriptor, DB, DBCompressionType, DEFAULT_COLUMN_FAMILY_NAME, Options, WriteBatch};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The cache of blocks, in MiB: all of a run's ids fit.
const CACHE_MIB: u64 = 256;

/// Inserts if absent, under a lock: look the ids up, write the new ones as one batch. Its
/// transactions, which would do without our lock, take one for each key.
///
/// *Durable*: within 5 ms, plus the disk's sync, after the answer. A crash or a power cut loses
/// those answered in that time. That is the same as for a journal of this crate, so the two are
/// compared.
///
/// Set as its authors advise for lookups of single keys (`OptimizeForPointLookup`: filters of whole
/// keys for files and for memory, a hash index in blocks, a cache), without compression, which ids
/// do not gain from; a batch is one `MultiGet`.
pub struct RocksDb {
    syncing: Syncing,
    /// Held from the lookup to the write.
    writer: Mutex<()>,
    database: Arc<DB>,
}

fn options(plan: &Plan) -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.increase_parallelism(i32::try_from(plan.threads).unwrap_or(i32::MAX).max(2));
    options.optimize_for_point_lookup(CACHE_MIB);
    options.set_compression_type(DBCompressionType::None);
    options.set_manual_wal_flush(true);
    // There is one writer at a time, which then need not wait for others.
    options.set_allow_concurrent_memtable_write(false);
    options
}

impl Keep for RocksDb {
    const NAME: &'static str = "RocksDB";
    const SORT: Sort = Sort::Durable;
    const NEEDS: Needs = Needs::Directory;

    fn open(plan: &Plan) -> Result<Self, Failure> {
        let options = options(plan);
        let ids = ColumnFamilyDescriptor::new(DEFAULT_COLUMN_FAMILY_NAME, options.clone());
        let database = Arc::new(DB::open_cf_descriptors(&options, plan.directory()?, [ids])?);
        let synced = Arc::clone(&database);
        let syncing = Syncing::start(Self::NAME, move || Ok(synced.flush_wal(true)?))?;
        Ok(RocksDb { syncing, writer: Mutex::new(()), database })
    }

    fn add(&self, id: &[u8]) -> Result<bool, Failure> {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = self.database.get_pinned(id)?.is_none();
        if is_new {
            self.database.put(id, [])?;
            self.syncing.grows()?;
        }
        Ok(is_new)
    }

    fn add_batch<B: AsRef<[u8]>>(&self, ids: impl Iterator<Item = B>, fresh: &mut Vec<bool>) -> Result<(), Failure> {
        let ids: Vec<B> = ids.collect();
        let family = self.database.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).ok_or("the database has no ids")?;
        let (mut batch, mut new) = (WriteBatch::default(), HashSet::new());
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let found = self.database.batched_multi_get_cf(family, ids.iter().map(AsRef::as_ref), false);
        for (id, found) in ids.iter().zip(found) {
            let is_new = found?.is_none() && new.insert(id.as_ref());
            if is_new {
                batch.put(id, []);
            }
            fresh.push(is_new);
        }
        if !new.is_empty() {
            self.database.write(batch)?;
            self.syncing.grows()?;
        }
        Ok(())
    }
}
