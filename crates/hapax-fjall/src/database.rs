//! The buckets on disk: the database that the thread owns.

use super::FjallOptions;
use super::buckets::{self, Row};
use super::directory::{self, failed};
use fjall::compaction::Leveled;
use fjall::config::{BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry, PinningPolicy};
use fjall::{Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode};
use hapax::Timestamp;
use hapax::seam::MonotonicClock;
use hapax_store::backend::codec;
use hapax_store::backend::committer::{CommitError, Database, Durability, Place, Put, Time};
use hapax_store::backend::record::StoredRecord;
use hapax_store::{Cursor, ErrorKind, Expired, Listed, Listing, RecordKey, StoreError};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The key of a bucket's row. No record has it: a record's key begins with a scope, and this is not
/// UTF-8.
const ROW_KEY: [u8; 1] = [0xff];

/// The size of the part in memory, which is replayed after a kill, and written as one file.
const MEMTABLE_BYTES: u64 = 16 << 20;
/// The number of files of one bucket, each with a filter to ask, from which on they are merged into
/// fewer. (A larger number makes blind writes cheaper, and look-ups dearer.)
const FILES_TO_MERGE: u8 = 8;
/// The memory for blocks that were read, besides the Bloom filters.
const CACHE_BYTES: u64 = 32 << 20;
/// The time that closing waits for the last bucket's file: without it the next opening replays a
/// log.
const CLOSING: Duration = Duration::from_secs(5);

pub struct Buckets {
    place: Place,
    database: fjall::Database,
    /// The buckets, the oldest first.
    buckets: Vec<Bucket>,
    persist: PersistMode,
    bucket: Option<Duration>,
    time: Time,
    /// The largest token that any process has given before this one.
    spent: u64,
}

struct Bucket {
    number: u64,
    keyspace: Keyspace,
    row: Row,
    /// True if the row is in the bucket.
    has_row: bool,
}

impl Buckets {
    pub(super) fn open(path: &Path, options: FjallOptions) -> Result<Self, StoreError> {
        directory::prepare(path, options.must_exist)?;
        let opened = fjall::Database::builder(path).cache_size(CACHE_BYTES).open();
        let database = opened.map_err(|error| failed(error, "opening it"))?;
        let place = directory::place(path)?;
        let mut numbers = Vec::new();
        for name in database.list_keyspace_names() {
            numbers.push(buckets::number(&name).ok_or_else(|| directory::foreign(&name))?);
        }
        numbers.sort_unstable();
        let mut buckets = Vec::new();
        for (i, &number) in numbers.iter().enumerate() {
            buckets.push(Self::open_bucket(&database, number, i + 1 == numbers.len())?);
        }
        let seen = buckets.iter().map(|bucket| bucket.row.seen).max().unwrap_or_default();
        let spent = buckets.iter().map(|bucket| bucket.row.spent()).max().unwrap_or_default();
        let persist = match options.durability {
            Durability::Disk => PersistMode::SyncData,
            Durability::System => PersistMode::Buffer,
        };
        let clock = options.clock.unwrap_or_else(|| Box::new(MonotonicClock::since_epoch(Duration::ZERO)));
        let time = Time::new(clock, seen);
        Ok(Buckets { place, database, buckets, persist, bucket: options.bucket, time, spent })
    }

    /// Opens an existing bucket. A bucket without a row was being made, and is the newest: it is
    /// used as it is.
    ///
    /// (It is not deleted. After a restart, the library may give the number of a deleted keyspace
    /// to another one. Its count of changes may then begin with a smaller number than the deletion
    /// had, and the library would take the new keyspace for deleted. Buckets are deleted from the
    /// oldest on, and never the newest, so no number comes back.)
    fn open_bucket(database: &fjall::Database, number: u64, is_newest: bool) -> Result<Bucket, StoreError> {
        let failed = |error| failed(error, "opening a bucket");
        let keyspace = database.keyspace(&buckets::name(number), keyspace_options).map_err(failed)?;
        let row = keyspace.get(ROW_KEY).map_err(failed)?;
        let has_row = row.is_some();
        let row = match row {
            Some(row) => Row::decode(&row, super::BACKEND)?,
            None if is_newest && keyspace.is_empty().map_err(failed)? => Row::new(Timestamp::default()),
            None => {
                let wrong = format!("bucket {number} has no row that says until when it counts");
                return Err(StoreError::new(ErrorKind::Corrupt, super::BACKEND, wrong));
            }
        };
        Ok(Bucket { number, keyspace, row, has_row })
    }

    fn rows(&self) -> Vec<Row> {
        self.buckets.iter().map(|bucket| bucket.row).collect()
    }

    /// Closes the newest bucket, and opens another.
    fn open_another(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let number = self.buckets.last().map_or(0, |newest| newest.number + 1);
        let made = self.database.keyspace(&buckets::name(number), keyspace_options);
        let keyspace = made.map_err(|error| failed(error, "making a bucket"))?;
        if let Some(closed) = self.buckets.last() {
            // Nothing more is written to it, so its memtable would otherwise stay in memory, and in
            // the log.
            closed.keyspace.rotate_memtable().map_err(|error| failed(error, "closing a bucket"))?;
        }
        self.buckets.push(Bucket { number, keyspace, row: Row::new(now), has_row: false });
        Ok(())
    }

    /// Writes records, and the newest bucket's row if they change it.
    fn write(&mut self, puts: Vec<Put>, spent: u64) -> Result<(), StoreError> {
        let now = self.time.last();
        if buckets::is_time_for_another(&self.rows(), now, self.bucket) {
            self.open_another(now)?;
        }
        let Some(newest) = self.buckets.last_mut() else { return Ok(()) }; // there is one now
        let batch = OwnedWriteBatch::with_capacity(self.database.clone(), puts.len() + 1);
        let mut batch = batch.durability(Some(self.persist));
        let mut row = if newest.row.has_records() { newest.row } else { Row::new(now) };
        for put in puts {
            row = row.with(put.until, now).unwrap_or(row);
            batch.insert(&newest.keyspace, put.key, put.value);
        }
        row = row.with_token(spent);
        if row != newest.row || !newest.has_row {
            batch.insert(&newest.keyspace, ROW_KEY, row.encode());
        }
        batch.commit().map_err(|error| failed(error, "writing"))?;
        (newest.row, newest.has_row) = (row, true);
        Ok(())
    }

    /// Writes the newest bucket's row, with the time.
    fn write_row(&mut self) -> Result<(), StoreError> {
        let seen = self.buckets.iter().map(|bucket| bucket.row.seen).fold(self.time.last(), Timestamp::max);
        let Some(newest) = self.buckets.last_mut() else { return Ok(()) };
        let row = Row { seen, ..newest.row };
        let mut batch = self.database.batch().durability(Some(self.persist));
        batch.insert(&newest.keyspace, ROW_KEY, row.encode());
        batch.commit().map_err(|error| failed(error, "writing"))?;
        (newest.row, newest.has_row) = (row, true);
        Ok(())
    }

    /// Returns the last copy of a record, and the number of its bucket.
    fn find(&self, key: &[u8]) -> Result<Option<(u64, StoredRecord)>, StoreError> {
        for bucket in self.buckets.iter().rev() {
            if let Some(value) = bucket.keyspace.get(key).map_err(|error| failed(error, "reading"))? {
                return codec::decode(&value, super::BACKEND).map(|kept| Some((bucket.number, kept)));
            }
        }
        Ok(None)
    }

    /// Returns the record that one step of a list visits, or `None` if it is not to be reported.
    fn listed(&self, number: u64, key: &[u8], now: Timestamp) -> Result<Option<Listed>, StoreError> {
        match self.find(key)? {
            // A later copy is reported from its own bucket.
            Some((current, kept)) if current == number => Ok(kept.listed(RecordKey::from_stored(key)?, now)),
            _ => Ok(None),
        }
    }
}

impl Database for Buckets {
    const BACKEND: &'static str = super::BACKEND;

    fn begin(&mut self, _writes: bool) -> Result<(), StoreError> {
        Ok(())
    }

    fn now(&mut self) -> Timestamp {
        self.time.next()
    }

    fn spent(&self) -> u64 {
        self.spent
    }

    fn read(&mut self, key: &[u8]) -> Result<Option<StoredRecord>, StoreError> {
        Ok(self.find(key)?.map(|(_, kept)| kept))
    }

    fn commit(&mut self, puts: Vec<Put>, spent: u64) -> Result<(), CommitError> {
        let written = if puts.is_empty() { Ok(()) } else { self.write(puts, spent) };
        // The library accepts nothing more after a failed write or sync, and neither do we; nor in
        // a directory that is gone, whose content nobody sees any more.
        written.and_then(|()| self.place.check()).map_err(CommitError::Broken)
    }

    /// Drops the oldest bucket, if all of its records have expired.
    fn expire(&mut self, _limit: usize) -> Result<Expired, StoreError> {
        let now = self.time.next();
        // The newest bucket stays. Once it has expired, another one takes its place, unless it is
        // empty.
        let is_over = |buckets: &[Bucket]| {
            buckets
                .first()
                .is_some_and(|oldest| oldest.row.is_over(now) && (buckets.len() > 1 || oldest.row.has_records()))
        };
        if !is_over(&self.buckets) {
            return Ok(Expired::default());
        }
        if self.buckets.len() == 1 {
            self.open_another(now)?;
        }
        // Stores the time, before the time of the dropped bucket is forgotten.
        self.write_row()?;
        let dropped = self.buckets.remove(0);
        let records = dropped.keyspace.approximate_len().saturating_sub(1) as u64;
        self.database.delete_keyspace(dropped.keyspace).map_err(|error| failed(error, "dropping a bucket"))?;
        Ok(Expired::new(records, is_over(&self.buckets)))
    }

    /// Goes from the oldest bucket to the newest, so that a record that is written again meanwhile
    /// is met later on.
    fn list(&mut self, from: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        let now = self.time.next();
        let (first, mut after) = match from.map(|cursor| cursor.0.split_first_chunk()) {
            Some(Some((number, key))) => (u64::from_be_bytes(*number), Bound::Excluded(key.to_vec())),
            Some(None) => {
                let wrong = "a scan goes on where a page ended, and this is no such place";
                return Err(StoreError::new(ErrorKind::Misconfigured, super::BACKEND, wrong));
            }
            None => (0, Bound::Unbounded),
        };
        let (mut page, mut visited) = (Listing::default(), 0);
        for bucket in self.buckets.iter().filter(|bucket| bucket.number >= first) {
            let start =
                if bucket.number == first { std::mem::replace(&mut after, Bound::Unbounded) } else { Bound::Unbounded };
            for entry in bucket.keyspace.range::<Vec<u8>, _>((start, Bound::Excluded(ROW_KEY.to_vec()))) {
                let key = entry.key().map_err(|error| failed(error, "scanning"))?;
                page.listed.extend(self.listed(bucket.number, &key, now)?);
                visited += 1;
                if visited >= limit.max(1) {
                    page.next = Some(Cursor([&bucket.number.to_be_bytes()[..], &key].concat()));
                    return Ok(page);
                }
            }
        }
        Ok(page)
    }

    fn close(mut self) {
        // This only speeds up the next opening, which works without it.
        if self.write_row().is_err() {
            return;
        }
        if let Some(newest) = self.buckets.last()
            && newest.keyspace.rotate_memtable().is_ok()
        {
            let deadline = Instant::now() + CLOSING;
            while newest.keyspace.sealed_memtable_count() > 0 && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// Returns options for ids, which are hardly compressible and mostly looked up in buckets that lack
/// them.
fn keyspace_options() -> KeyspaceCreateOptions {
    let bloom = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(12.0));
    KeyspaceCreateOptions::default()
        .max_memtable_size(MEMTABLE_BYTES)
        .compaction_strategy(Arc::new(Leveled::default().with_l0_threshold(FILES_TO_MERGE)))
        .filter_policy(FilterPolicy::all(bloom))
        .filter_block_pinning_policy(PinningPolicy::all(true))
        .manual_journal_persist(true)
}
