//! The connection: the database that the thread owns.

use super::table::SqliteTable;
use super::{BACKEND, SqliteOptions, failed};
use hapax::Timestamp;
use hapax::seam::MonotonicClock;
use hapax_store::backend::codec;
use hapax_store::backend::committer::{CommitError, Database, Durability, Place, Put, Time};
use hapax_store::backend::record::StoredRecord;
use hapax_store::{Cursor, ErrorKind, Expired, Listing, RecordKey, StoreError};
use rusqlite::{Connection, OpenFlags, Row, params};
use std::path::Path;
use std::time::Duration;

/// The names of the numbers that the second table holds besides the version.
const REMOVED_UNTIL: &str = "removed_until";
const SPENT: &str = "spent";

pub struct Table {
    place: Place,
    connection: Connection,
    table: SqliteTable,
    clock: Time,
    /// The largest token that any process has given, as of the transaction's beginning.
    spent: u64,
    about: String,
    set_about: String,
    remove: String,
    scan: String,
}

impl Table {
    pub(super) fn open(path: &Path, table: SqliteTable, options: SqliteOptions) -> Result<Self, StoreError> {
        let connection = connect(path, &table, &options)?;
        let place = Place::of_open(path, BACKEND)?;
        let execute = |statement| connection.execute_batch(statement).map_err(|error| failed(error, "opening it"));
        execute("BEGIN IMMEDIATE")?;
        table.create(&connection)?;
        execute("COMMIT")?;
        let clock = options.clock.unwrap_or_else(|| Box::new(MonotonicClock::since_epoch(Duration::ZERO)));
        let name = table.name.clone();
        Ok(Table {
            place,
            connection,
            table,
            clock: Time::new(clock, Timestamp::default()),
            spent: 0,
            remove: format!(
                "DELETE FROM \"{name}\" WHERE key IN (SELECT key FROM \"{name}\" WHERE until <= ?1 ORDER BY until LIMIT ?2)"
            ),
            about: format!(
                "SELECT max(CASE name WHEN '{REMOVED_UNTIL}' THEN value END), \
                 max(CASE name WHEN '{SPENT}' THEN value END) FROM \"{name}_about\""
            ),
            set_about: format!("INSERT OR REPLACE INTO \"{name}_about\" VALUES (?1, ?2)"),
            scan: format!("SELECT key, kept FROM \"{name}\" WHERE key > ?1 ORDER BY key LIMIT ?2"),
        })
    }

    fn execute(&self, statement: &str) -> Result<(), StoreError> {
        let mut statement = self.connection.prepare_cached(statement).map_err(|error| failed(error, "preparing"))?;
        statement.execute(()).map(|_| ()).map_err(|error| failed(error, "a transaction"))
    }

    /// Writes the records, and the largest token: a record that has it may be overwritten by one
    /// that has not, or removed.
    fn write(&self, puts: Vec<Put>, spent: u64) -> Result<(), StoreError> {
        puts.iter().try_for_each(|put| self.table.write(&self.connection, &put.key, put.until, &put.value))?;
        if spent > self.spent {
            self.write_about(SPENT, spent).map_err(|error| failed(error, "writing"))
        } else {
            Ok(())
        }
    }

    /// Rolls back an open transaction; SQLite may have ended it itself.
    fn roll_back(&self) -> bool {
        self.connection.is_autocommit() || self.execute("ROLLBACK").is_ok()
    }

    /// Returns the time up to which records were removed, and the largest token that was given.
    fn read_about(&self) -> rusqlite::Result<(Timestamp, u64)> {
        let number = |row: &Row<'_>, column| row.get::<_, Option<i64>>(column).map(|number| number.unwrap_or(0).max(0));
        self.connection.prepare_cached(&self.about)?.query_row((), |row| {
            Ok((Timestamp::from_nanos(number(row, 0)?.cast_unsigned()), number(row, 1)?.cast_unsigned()))
        })
    }

    fn write_about(&self, name: &str, value: u64) -> rusqlite::Result<()> {
        self.connection.prepare_cached(&self.set_about)?.execute(params![name, value.cast_signed()]).map(|_| ())
    }

    fn remove(&self, now: Timestamp, limit: i64) -> rusqlite::Result<usize> {
        let removed = self.connection.prepare_cached(&self.remove)?.execute(params![now.as_nanos() as i64, limit])?;
        if removed > 0 {
            self.write_about(REMOVED_UNTIL, now.as_nanos())?;
        }
        Ok(removed)
    }

    fn page(&self, after: &[u8], limit: usize, now: Timestamp) -> Result<Listing, StoreError> {
        let failed = |error| failed(error, "scanning");
        let mut scan = self.connection.prepare_cached(&self.scan).map_err(failed)?;
        let mut rows = scan.query(params![after, limit as i64]).map_err(failed)?;
        let (mut page, mut visited) = (Listing::default(), 0);
        while let Some(row) = rows.next().map_err(failed)? {
            let blob = |column| row.get_ref(column).map_err(failed)?.as_blob().map_err(|error| failed(error.into()));
            let (key, kept) = (blob(0)?, codec::decode(blob(1)?, BACKEND)?);
            visited += 1;
            if visited == limit {
                page.next = Some(Cursor(key.to_vec()));
            }
            page.listed.extend(kept.listed(RecordKey::from_stored(key)?, now));
        }
        Ok(page)
    }
}

impl Database for Table {
    const BACKEND: &'static str = BACKEND;

    fn begin(&mut self, writes: bool) -> Result<(), StoreError> {
        self.place.check()?;
        // Takes the lock for writing at once: a transaction that reads first may find that it
        // cannot write.
        self.execute(if writes { "BEGIN IMMEDIATE" } else { "BEGIN DEFERRED" })?;
        match self.read_about() {
            Ok((removed_until, spent)) => {
                self.clock.goes_on_from(removed_until);
                self.spent = spent;
            }
            Err(error) => {
                self.roll_back();
                return Err(failed(error, "a transaction"));
            }
        }
        Ok(())
    }

    fn now(&mut self) -> Timestamp {
        self.clock.next()
    }

    fn spent(&self) -> u64 {
        self.spent
    }

    fn read(&mut self, key: &[u8]) -> Result<Option<StoredRecord>, StoreError> {
        self.table.read(&self.connection, key)
    }

    fn commit(&mut self, puts: Vec<Put>, spent: u64) -> Result<(), CommitError> {
        let committed = self.write(puts, spent).and_then(|()| self.execute("COMMIT"));
        committed.map_err(|error| {
            if is_sure(&error) && self.roll_back() { CommitError::Undone(error) } else { CommitError::Broken(error) }
        })?;
        // What is in a file that is gone must not be acknowledged: others do not see it.
        self.place.check().map_err(CommitError::Broken)
    }

    fn expire(&mut self, limit: usize) -> Result<Expired, StoreError> {
        let (now, limit) = (self.now(), i64::try_from(limit.max(1)).unwrap_or(i64::MAX));
        let removed = self.remove(now, limit).map_err(|error| failed(error, "removing what has expired"))?;
        Ok(Expired::new(removed as u64, removed as i64 == limit))
    }

    fn list(&mut self, from: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        let now = self.now();
        let after = from.map_or(&[][..], |cursor| &cursor.0);
        self.page(after, limit.clamp(1, i64::MAX as usize), now)
    }

    fn close(self) {
        // Closing the last connection moves the content of the log into the file. Anything that
        // cannot be moved stays in the log.
        let _ = self.connection.close();
    }
}

/// Opens the file. If the table must be there already, nothing is made or changed unless it is.
fn connect(path: &Path, table: &SqliteTable, options: &SqliteOptions) -> Result<Connection, StoreError> {
    let failed = |error| failed(error, "opening it");
    // A path is taken literally: nothing in it is an option.
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    flags.set(OpenFlags::SQLITE_OPEN_CREATE, !options.must_exist);
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(options.busy_timeout).map_err(failed)?;
    if options.must_exist && table.version(&connection)?.is_none() {
        let wrong = format!("there is no store in it: no table {}", table.name);
        return Err(StoreError::new(ErrorKind::Misconfigured, BACKEND, wrong));
    }
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", (), |row| row.get(0)).map_err(failed)?;
    if !mode.eq_ignore_ascii_case("wal") {
        let wrong = format!(
            "it should have a write-ahead log, but its journal mode is {mode}: is it in memory, or on a network's disk?"
        );
        return Err(StoreError::new(ErrorKind::Misconfigured, BACKEND, wrong));
    }
    let synchronous = match options.durability {
        Durability::Disk => "FULL",
        Durability::System => "NORMAL",
    };
    connection.pragma_update(None, "synchronous", synchronous).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(16);
    Ok(connection)
}

/// Returns true if SQLite has reported that nothing was done: it is busy or full. After other
/// errors it is unknown what reached the disk.
fn is_sure(error: &StoreError) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked, DiskFull};
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<rusqlite::Error>());
    let code = cause.and_then(rusqlite::Error::sqlite_error_code);
    matches!(code, Some(DatabaseBusy | DatabaseLocked | DiskFull))
}
