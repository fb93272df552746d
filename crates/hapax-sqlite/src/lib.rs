#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod database;
mod table;

pub use rusqlite;
pub use table::SqliteTable;

use database::Table;
use hapax::Clock;
use hapax_store::backend::committer::{Committed, Committer, Durability};
use hapax_store::{ErrorKind, Limits, StoreError};
use std::path::Path;
use std::time::Duration;

const BACKEND: &str = "sqlite";

/// Records in a table of an SQLite file: for tools that keep everything in one file, and for users
/// that mark ids in transactions of their own, by a [`SqliteTable`].
///
/// ```
/// use hapax_sqlite::SqliteStore;
/// use hapax_store::{TieredAttempt, TieredDedup};
/// use std::time::Duration;
///
/// # let path = std::env::temp_dir().join(format!("hapax-doc-sqlite-{}", std::process::id()));
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let week = Duration::from_secs(7 * 86_400);
/// let open = async || TieredDedup::builder(SqliteStore::open(&path).await?).retention(week).build().await;
/// let dedup = open().await?;
/// if let TieredAttempt::Claimed(claim) = dedup.claim("order-17").await? {
///     claim.complete().await?; // the order is handled
/// }
/// dedup.shutdown(Duration::from_secs(1)).await?;
/// drop(dedup);
///
/// assert!(matches!(open().await?.claim("order-17").await?, TieredAttempt::Duplicate(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Guarantees
///
/// - What was acknowledged survives kill -9, and with [`Durability::Disk`], the default, the loss
///   of power (write-ahead log, `synchronous=FULL`).
/// - Any number of processes of one machine may share the file. Each group of calls is one
///   transaction (`BEGIN IMMEDIATE`).
/// - Time is the clock's, in each process its own: by default the system's when the store is
///   opened, monotonic from then on, so processes agree on leases as far as their machine's clock
///   was not set meanwhile. It never goes back behind records that were removed.
/// - Tokens grow over all processes and restarts: the largest one is stored with the claims that
///   get it.
/// - After an error that leaves open what reached the disk, every call fails until the store is
///   opened again.
/// - A file that is removed, moved or replaced while it is open is noticed, before and after each
///   transaction: nothing is acknowledged that other processes do not see. (On Unix; Windows does
///   not let go of an open file.)
/// - Nothing is done on the caller's thread, and a call that is cancelled is carried out
///   nevertheless.
///
/// # Errors
///
/// [`ErrorKind::Unavailable`]: another process held the lock for longer than the [busy
/// timeout](SqliteOptions::busy_timeout), or the disk fails or is full. [`ErrorKind::Corrupt`]: the
/// file is damaged, or no database. [`ErrorKind::Misconfigured`]: the file cannot be used, or is
/// not the one that was opened any more (open the store again), or its table is not hapax's, or of
/// another version.
///
/// # A process that stands still
///
/// A process that is stopped in a transaction (SIGSTOP, a debugger, a machine that runs out of
/// memory) has the lock for as long as that: SQLite takes it from nobody that lives. Meanwhile no
/// other process writes. Its calls get [`ErrorKind::Unavailable`] after the [busy
/// timeout](SqliteOptions::busy_timeout); those that came while others waited, after twice that
/// time. (An engine's callers wait no longer than its own time-outs.) When the stopped process goes
/// on or is killed, so do the others, and nothing is lost.
///
/// Leases go on meanwhile, since renewals and completions cannot be stored either; an engine tries
/// those again. Stopped for less than half of a lease, a process changes nothing. Stopped for
/// longer, it lets others' leases end, and the work under them may be done again. So leases are
/// longer than a process may stand still.
///
/// # Cost
///
/// One transaction, one sync and two looks at the file's entry for all calls that have gathered
/// while the previous one was committed; a look-up by primary key for each id, except for
/// [`record`](hapax_store::Store::record), and a write to the table and to its index by time.
/// [`expire`](hapax_store::Store::expire) deletes up to `limit` rows by that index; the file keeps
/// its size, and reuses the space. Dropping the store waits until it is closed.
///
/// Ideas: SQLite's write-ahead log; the idempotency table of the transactional inbox.
#[derive(Debug)]
pub struct SqliteStore {
    committer: Committer<Table>,
}

/// Options for a [`SqliteStore`].
///
/// ```no_run
/// use hapax_sqlite::SqliteOptions;
/// use std::time::Duration;
///
/// # async fn open() -> Result<(), hapax_store::StoreError> {
/// let store = SqliteOptions::new().table("ids_of_orders").busy_timeout(Duration::from_secs(1)).open("app.db").await?;
/// # Ok(())
/// # }
/// ```
///
/// With the feature `serde` they are read and written, except for the clock.
#[must_use]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct SqliteOptions {
    table: String,
    durability: Durability,
    busy_timeout: Duration,
    must_exist: bool,
    #[cfg_attr(feature = "serde", serde(skip))]
    clock: Option<Box<dyn Clock>>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        SqliteOptions {
            table: "hapax".into(),
            durability: Durability::default(),
            busy_timeout: Duration::from_secs(5),
            must_exist: false,
            clock: None,
        }
    }
}

impl SqliteOptions {
    /// Creates the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the table's name, as [`SqliteTable::new`] takes it. Default: `hapax`.
    pub fn table(self, table: &str) -> Self {
        SqliteOptions { table: table.into(), ..self }
    }

    /// Sets the time at which a call is answered. Default: when the disk has what it wrote.
    pub fn durability(self, durability: Durability) -> Self {
        SqliteOptions { durability, ..self }
    }

    /// Sets the time that a group of calls waits for another process that is writing: well below
    /// the leases, so that who claims is told in time. Default: 5 s.
    pub fn busy_timeout(self, busy_timeout: Duration) -> Self {
        SqliteOptions { busy_timeout, ..self }
    }

    /// Opens only a store that is there, for tools that look into one: makes neither a file nor a
    /// table. Default: makes both.
    pub fn must_exist(self, must_exist: bool) -> Self {
        SqliteOptions { must_exist, ..self }
    }

    /// Sets the clock. Times are stored, so it must count from the same origin every time, and
    /// everywhere. Default: the system's, read when the store is opened, and a monotonic one from
    /// then on.
    pub fn clock(self, clock: impl Clock) -> Self {
        SqliteOptions { clock: Some(Box::new(clock)), ..self }
    }

    /// Opens the table in a file, and makes both if they are not there.
    ///
    /// # Errors
    ///
    /// Those of [`SqliteStore`].
    pub async fn open(self, path: impl AsRef<Path>) -> Result<SqliteStore, StoreError> {
        let table = SqliteTable::new(&self.table)?;
        let committer = Committer::start(path, |path| Table::open(path, table, self)).await?;
        Ok(SqliteStore { committer })
    }
}

impl SqliteStore {
    /// Opens the table `hapax` in a file with the default options.
    ///
    /// # Errors
    ///
    /// Those of [`SqliteOptions::open`].
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        SqliteOptions::new().open(path).await
    }

    /// Returns the store's file.
    pub fn path(&self) -> &Path {
        self.committer.path()
    }
}

/// Returns the store's error for an error of SQLite.
fn failed(error: rusqlite::Error, doing: &str) -> StoreError {
    use rusqlite::ErrorCode::*;
    let kind = match error.sqlite_error_code() {
        Some(DatabaseBusy | DatabaseLocked | DiskFull | SystemIoFailure | OperationInterrupted | OutOfMemory) => {
            ErrorKind::Unavailable
        }
        Some(DatabaseCorrupt | NotADatabase) => ErrorKind::Corrupt,
        // A column of another type than it was made with.
        None => ErrorKind::Corrupt,
        Some(_) => ErrorKind::Misconfigured,
    };
    StoreError::caused(kind, BACKEND, format!("{doing} failed"), error)
}

impl Committed for SqliteStore {
    type Database = Table;
    const LIMITS: Limits = Limits::batches_of(1_024).under_way(2);
    const IS_PRIVATE: bool = false;

    fn committer(&self) -> &Committer<Table> {
        &self.committer
    }
}

#[cfg(all(test, feature = "serde"))]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_they_were_written() {
        let options =
            SqliteOptions::new().durability(Durability::System).table("ids").busy_timeout(Duration::from_secs(1));
        let written = serde_json::to_value(&options).unwrap();
        let read: SqliteOptions = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), written);
        assert_eq!((read.durability, read.busy_timeout), (options.durability, options.busy_timeout));
        let none: SqliteOptions = serde_json::from_str("{}").unwrap();
        assert_eq!(serde_json::to_value(&none).unwrap(), serde_json::to_value(SqliteOptions::new()).unwrap());
        assert!(serde_json::from_str::<SqliteOptions>(r#"{"clocks": 1}"#).is_err());
    }
}
