//! `rusqlite`: a table in an SQLite file.

use super::lasting::Keep;
use crate::strategy::{Failure, Needs, Plan, Sort};
use ::rusqlite::Connection;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Runs `INSERT OR IGNORE`, a transaction a batch, on one connection, since SQLite has one writer
/// at a time.
///
/// *Durable*: when it is answered (write-ahead log, `synchronous = FULL`): neither a crash nor a
/// power cut loses an answered id. That is more than a journal of this crate or fjall promise,
/// which sync every 5 ms. So a single id costs a sync here, and only batches can be compared.
pub struct Rusqlite(Mutex<Connection>);

const INSERT: &str = "INSERT OR IGNORE INTO ids (id) VALUES (?1)";

impl Keep for Rusqlite {
    const NAME: &'static str = "rusqlite";
    const SORT: Sort = Sort::Durable;
    const NEEDS: Needs = Needs::Directory;

    fn open(plan: &Plan) -> Result<Self, Failure> {
        let connection = Connection::open(plan.directory()?.join("ids.sqlite"))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        // The size is in KiB if negative: 256 MiB, instead of 2.
        connection.pragma_update(None, "cache_size", -262_144)?;
        connection.execute("CREATE TABLE ids (id BLOB PRIMARY KEY) WITHOUT ROWID", [])?;
        connection.prepare_cached(INSERT)?;
        Ok(Rusqlite(Mutex::new(connection)))
    }

    fn add(&self, id: &[u8]) -> Result<bool, Failure> {
        Ok(self.locked().prepare_cached(INSERT)?.execute([id])? == 1)
    }

    fn add_batch<B: AsRef<[u8]>>(&self, ids: impl Iterator<Item = B>, fresh: &mut Vec<bool>) -> Result<(), Failure> {
        let mut connection = self.locked();
        let transaction = connection.transaction()?;
        let mut insert = transaction.prepare_cached(INSERT)?;
        for id in ids {
            fresh.push(insert.execute([id.as_ref()])? == 1);
        }
        drop(insert);
        Ok(transaction.commit()?)
    }
}

impl Rusqlite {
    fn locked(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
