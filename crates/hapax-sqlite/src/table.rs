//! The table: its name, its statements, and marks in a user's own transaction.

use super::{BACKEND, failed};
use hapax::Timestamp;
use hapax_store::backend::record::{State, StoredRecord, live};
use hapax_store::backend::{codec, times};
use hapax_store::{ErrorKind, Marked, RecordKey, Scope, StoreError};
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use std::time::Duration;

const VERSION: i64 = 1;

/// A table of records in an SQLite database: that of a [`SqliteStore`](super::SqliteStore), and for
/// marks inside a user's own transaction.
///
/// ```
/// use hapax::Timestamp;
/// use hapax_sqlite::SqliteTable;
/// use hapax_store::{Marked, Scope};
/// use std::time::{Duration, SystemTime};
///
/// # let mut connection = rusqlite::Connection::open_in_memory()?;
/// # connection.execute_batch("CREATE TABLE paid (amount INTEGER)")?;
/// let table = SqliteTable::new("hapax")?;
/// table.create(&connection)?; // once
///
/// let (scope, day) = (Scope::new("payments")?, Duration::from_secs(86_400));
/// let now = Timestamp::from(SystemTime::now());
/// let transaction = connection.transaction()?;
/// if table.mark(&transaction, &scope, "payment-17", day, now)? == Marked::Fresh {
///     transaction.execute("INSERT INTO paid VALUES (10)", ())?;
/// }
/// transaction.commit()?; // both, or neither
/// # assert_eq!(connection.query_row("SELECT count(*) FROM paid", (), |row| row.get::<_, i64>(0))?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Guarantees
///
/// The mark is part of the transaction: the work in it happens once, however often the message
/// comes. Rolled back, the id is fresh again. The table also holds a store's records: a mark sees
/// claims, and is seen by them. The time is the caller's, which should be that of the store's
/// clock: since 1970, as here.
///
/// # Cost
///
/// One look-up and one insert by primary key. A transaction that begins with
/// [`Immediate`](rusqlite::TransactionBehavior::Immediate) cannot be refused at its first write
/// because another one wrote after its first look-up.
#[derive(Clone, Debug)]
pub struct SqliteTable {
    pub(super) name: String,
    pub(super) select: String,
    upsert: String,
}

impl SqliteTable {
    /// The length of the longest name, in bytes.
    pub const MAX_NAME_BYTES: usize = 63;

    /// Creates a table of this name: ASCII letters, digits and underscores, no digit first, not
    /// SQLite's own.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if the name is invalid.
    pub fn new(name: &str) -> Result<Self, StoreError> {
        let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let is_number = name.bytes().next().is_none_or(|byte| byte.is_ascii_digit());
        let is_reserved = name.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("sqlite_"));
        if !is_word || is_number || is_reserved || name.len() > Self::MAX_NAME_BYTES {
            let wrong = format!(
                "a table's name has up to {} ASCII letters, digits and underscores, no digit first, no \"sqlite_\"; not {name:?}",
                Self::MAX_NAME_BYTES
            );
            return Err(StoreError::new(ErrorKind::Misconfigured, BACKEND, wrong));
        }
        Ok(SqliteTable {
            name: name.into(),
            select: format!("SELECT kept FROM \"{name}\" WHERE key = ?1"),
            upsert: format!("INSERT OR REPLACE INTO \"{name}\" (key, until, kept) VALUES (?1, ?2, ?3)"),
        })
    }

    /// Returns the table's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Creates the table in the database, if it is not there: `NAME` with an index, and
    /// `NAME_about`, which holds the version.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if something else has that name, or another version of hapax
    /// made it.
    pub fn create(&self, connection: &Connection) -> Result<(), StoreError> {
        let name = &self.name;
        let create = format!(
            "SAVEPOINT hapax_create;
             CREATE TABLE IF NOT EXISTS \"{name}_about\" (name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
             CREATE TABLE IF NOT EXISTS \"{name}\" (key BLOB PRIMARY KEY NOT NULL, until INTEGER NOT NULL, kept BLOB NOT NULL) STRICT, WITHOUT ROWID;
             CREATE INDEX IF NOT EXISTS \"{name}_until\" ON \"{name}\" (until);
             INSERT OR IGNORE INTO \"{name}_about\" VALUES ('version', {VERSION});
             RELEASE hapax_create;"
        );
        match self.version(connection)? {
            Some(VERSION) => return Ok(()),
            Some(version) => {
                let wrong = format!("table {name} is of version {version}, this hapax knows {VERSION}");
                return Err(StoreError::new(ErrorKind::Misconfigured, BACKEND, wrong));
            }
            None => {}
        }
        if let Err(error) = connection.execute_batch(&create) {
            // It fails again if the savepoint was not reached; the first error has the reason.
            let _ = connection.execute_batch("ROLLBACK TO hapax_create; RELEASE hapax_create;");
            return Err(failed(error, &format!("making table {name}")));
        }
        Ok(())
    }

    /// Returns the version of the existing table.
    pub(super) fn version(&self, connection: &Connection) -> Result<Option<i64>, StoreError> {
        let name = &self.name;
        let failed = |error| failed(error, &format!("looking at table {name}"));
        let is_there = |name: &str| {
            let there = "SELECT 1 FROM sqlite_schema WHERE name = ?1 COLLATE NOCASE";
            connection.query_row(there, [name], |_| Ok(())).optional().map_err(failed)
        };
        let about = format!("{name}_about");
        if is_there(&about)?.is_none() {
            return match is_there(name)? {
                None => Ok(None),
                Some(()) => {
                    let wrong = format!("a table {name} is there, but no {about}: it is not hapax's");
                    Err(StoreError::new(ErrorKind::Misconfigured, BACKEND, wrong))
                }
            };
        }
        let version = format!("SELECT value FROM \"{about}\" WHERE name = 'version'");
        connection.query_row(&version, (), |row| row.get(0)).optional().map_err(failed)
    }

    /// Marks an id as part of a transaction.
    ///
    /// # Errors
    ///
    /// Those of SQLite, and [`ErrorKind::Corrupt`] if the stored data of the id is no record. Then
    /// nothing was marked.
    pub fn mark(
        &self,
        transaction: &Transaction<'_>,
        scope: &Scope,
        id: impl AsRef<[u8]>,
        retention: Duration,
        now: Timestamp,
    ) -> Result<Marked, StoreError> {
        times::check("retention", retention)?;
        let key = RecordKey::new(scope, id).to_stored();
        let kept = self.read(transaction, &key)?;
        match live(kept.as_ref(), now) {
            None => {
                let token = kept.as_ref().map_or(0, |kept| kept.token);
                let state = State::Completed { attempt: None, result: None };
                let marked = StoredRecord { state, token, fingerprint: None, until: now + retention, trail: None };
                self.write(transaction, &key, marked.until, &codec::encode(&marked))?;
                Ok(Marked::Fresh)
            }
            Some(StoredRecord { state: State::Completed { attempt, .. }, until, .. }) => {
                Ok(Marked::Duplicate { expires_in: until.since(now), attempt: *attempt })
            }
            Some(StoredRecord { until, .. }) => Ok(Marked::InProgress { lease_left: until.since(now) }),
        }
    }

    /// Marks ids as part of a transaction, one after the other: the second of two equal ids is a
    /// duplicate.
    ///
    /// # Errors
    ///
    /// Those of [`mark`](SqliteTable::mark), for the whole batch: the ids before the failed one are
    /// marked, as far as the transaction goes.
    pub fn mark_batch<I: AsRef<[u8]>>(
        &self,
        transaction: &Transaction<'_>,
        scope: &Scope,
        ids: impl IntoIterator<Item = I>,
        retention: Duration,
        now: Timestamp,
    ) -> Result<Vec<Marked>, StoreError> {
        ids.into_iter().map(|id| self.mark(transaction, scope, id, retention, now)).collect()
    }

    pub(super) fn read(&self, connection: &Connection, key: &[u8]) -> Result<Option<StoredRecord>, StoreError> {
        let failed = |error| failed(error, "reading");
        let mut select = connection.prepare_cached(&self.select).map_err(failed)?;
        let mut rows = select.query([key]).map_err(failed)?;
        let Some(row) = rows.next().map_err(failed)? else { return Ok(None) };
        let kept = row.get_ref(0).map_err(failed)?.as_blob();
        codec::decode(kept.map_err(|error| failed(error.into()))?, BACKEND).map(Some)
    }

    pub(super) fn write(
        &self,
        connection: &Connection,
        key: &[u8],
        until: Timestamp,
        kept: &[u8],
    ) -> Result<(), StoreError> {
        let failed = |error| failed(error, "writing");
        let mut upsert = connection.prepare_cached(&self.upsert).map_err(failed)?;
        // Times are at most i64::MAX.
        upsert.execute(params![key, until.as_nanos() as i64, kept]).map_err(failed)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words() {
        for name in ["hapax", "_a1", "Ids_2", &"x".repeat(63)] {
            assert_eq!(SqliteTable::new(name).unwrap().name(), name);
        }
        for name in ["", "1a", "a-b", "a b", "a\"b", "ä", "a;", "sqlite_a", "SQLITE_a", "a\0", &"x".repeat(64)] {
            assert_eq!(SqliteTable::new(name).unwrap_err().kind(), ErrorKind::Misconfigured, "{name:?}");
        }
    }

    #[test]
    fn the_table_is_made_once_and_only_where_nothing_else_is() {
        let connection = Connection::open_in_memory().unwrap();
        let table = SqliteTable::new("ids").unwrap();
        table.create(&connection).unwrap();
        table.create(&connection).unwrap();
        connection.execute("UPDATE ids_about SET value = 2", ()).unwrap();
        let error = table.create(&connection).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.to_string().contains("version 2"), "{error}");
        connection.execute("CREATE TABLE mine (a)", ()).unwrap();
        let error = SqliteTable::new("MINE").unwrap().create(&connection).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
    }

    #[test]
    fn a_table_is_made_inside_a_transaction_or_not_at_all() {
        let mut connection = Connection::open_in_memory().unwrap();
        let table = SqliteTable::new("ids").unwrap();
        let transaction = connection.transaction().unwrap();
        table.create(&transaction).unwrap();
        transaction.rollback().unwrap();
        assert_eq!(table.version(&connection).unwrap(), None);
    }
}
