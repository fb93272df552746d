//! `rusqlite`: a table in an SQLite file.

use super::group::Syncing;
use super::lasting::Keep;
use crate::strategy::{Failure, Needs, Plan, Sort};
use ::rusqlite::Connection;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Runs `INSERT OR IGNORE` on one connection, since SQLite has one writer at a time, in a
/// transaction that is open until it is committed for all who wrote in the last 5 ms.
///
/// *Durable*: within 5 ms, plus the disk's sync, after the answer (write-ahead log, `synchronous =
/// FULL`). A crash or a power cut loses those answered in that time. That is the same as for a
/// journal of this crate, so the two are compared.
pub struct Rusqlite {
    syncing: Syncing,
    connection: Arc<Mutex<Connection>>,
}

const INSERT: &str = "INSERT OR IGNORE INTO ids (id) VALUES (?1)";

impl Keep for Rusqlite {
    const NAME: &'static str = "rusqlite";
    const SORT: Sort = Sort::Durable;
    const NEEDS: Needs = Needs::Directory;

    fn open(plan: &Plan) -> Result<Self, Failure> {
        let connection = Connection::open(plan.directory()?.join("ids.sqlite"))?;
        connection.pragma_update(None, "page_size", 8_192)?;
        // Nobody else opens it, so nothing about locks is shared with other processes.
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        // In pages: ten times the default, so that a page is copied to the table less often.
        connection.pragma_update(None, "wal_autocheckpoint", 10_000)?;
        // The size is in KiB if negative: 256 MiB, instead of 2.
        connection.pragma_update(None, "cache_size", -262_144)?;
        connection.execute("CREATE TABLE ids (id BLOB PRIMARY KEY) WITHOUT ROWID", [])?;
        let connection = Arc::new(Mutex::new(connection));
        let synced = Arc::clone(&connection);
        let syncing = Syncing::start(Self::NAME, move || commit(&locked(&synced)))?;
        Ok(Rusqlite { syncing, connection })
    }

    fn add(&self, id: &[u8]) -> Result<bool, Failure> {
        let connection = locked(&self.connection);
        self.begin(&connection)?;
        Ok(connection.prepare_cached(INSERT)?.execute([id])? == 1)
    }

    fn add_batch<B: AsRef<[u8]>>(&self, ids: impl Iterator<Item = B>, fresh: &mut Vec<bool>) -> Result<(), Failure> {
        let connection = locked(&self.connection);
        self.begin(&connection)?;
        let mut insert = connection.prepare_cached(INSERT)?;
        for id in ids {
            fresh.push(insert.execute([id.as_ref()])? == 1);
        }
        Ok(())
    }
}

impl Rusqlite {
    /// Begins a transaction that will be committed, unless one is open.
    fn begin(&self, connection: &Connection) -> Result<(), Failure> {
        if connection.is_autocommit() {
            connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        }
        self.syncing.grows()
    }
}

/// Commits the transaction that is open. A thread that began one while the connection was waited
/// for has had it committed with the others', so there may be none.
fn commit(connection: &Connection) -> Result<(), Failure> {
    if !connection.is_autocommit() {
        connection.prepare_cached("COMMIT")?.execute([])?;
    }
    Ok(())
}

fn locked(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}
