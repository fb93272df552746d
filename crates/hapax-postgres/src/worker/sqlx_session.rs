//! Transactions of sqlx.

use super::handling::{Case, Ended, Running, Session};
use crate::SqlxHandler;
use crate::claims::attempt;
use crate::database::{Database, sqlx_pool};
use crate::transaction::sqlx_driver::{failed, rows};
use hapax_store::StoreError;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, Postgres};

pub(super) struct SqlxSession {
    held: sqlx_pool::Held,
    interrupted: Option<Running>,
}

impl<H: SqlxHandler> Session<H> for SqlxSession {
    async fn connect(database: &Database) -> Result<Self, StoreError> {
        Ok(SqlxSession { held: database.held_sqlx().await?, interrupted: None })
    }

    async fn handle(&mut self, case: &Case<'_, H>) -> Ended {
        let connection = self.held.connection();
        let begun = case.database.in_time("begin", async {
            if let Some((begin, begins)) = &case.begin {
                sqlx_pool::call_on(connection, &case.database.begin(), "begin an attempt", begin, begins).await?;
            }
            let mut tx = connection.begin().await.map_err(|error| failed("begin", error))?;
            let rows = rows(&mut *tx, &case.lock, &case.held).await;
            let rows = rows.map_err(|error| failed("lock a message", error))?;
            Ok((tx, rows.first().map(Running::of).transpose()?))
        });
        let (mut tx, running) = match begun.await {
            Ok(begun) => begun,
            Err(error) => return Ended::NotBegun(error),
        };
        let rolled_back = async |tx: sqlx::Transaction<'_, Postgres>| {
            let rollback = async { tx.rollback().await.map_err(|error| failed("roll back", error)) };
            case.database.in_time("roll back", rollback).await
        };
        if let Some(end) = case.without_handler(running.is_some()) {
            return rolled_back(tx).await.map_or_else(Ended::NotBegun, |()| end);
        }
        match attempt::run(case.lease, async { case.handler.handle(&mut tx, case.message).await }).await {
            Ok(()) => {}
            Err(failed) if failed.is_reported() => return Ended::undone(failed, rolled_back(tx).await),
            Err(failed) => {
                // Dropping it only queues a rollback that is sent with the next statement, and none
                // follows.
                drop(tx);
                self.interrupted = running;
                return Ended::Broken(failed);
            }
        }
        // If the handler ignored an error, the removal is refused, and nothing is committed.
        let commit = async {
            tx.execute(sqlx::raw_sql(AssertSqlSafe(case.remove.clone()))).await?;
            tx.commit().await
        };
        case.committed(commit).await.map_or_else(Ended::Broken, |()| Ended::Committed)
    }

    fn interrupted(&self) -> Option<&Running> {
        self.interrupted.as_ref()
    }

    async fn roll_back(&mut self) -> Result<(), StoreError> {
        // The ping sends the rollback that is queued.
        self.held.connection().ping().await.map_err(|error| failed("roll back", error))
    }

    fn finish(self) {
        self.held.finish();
    }
}
