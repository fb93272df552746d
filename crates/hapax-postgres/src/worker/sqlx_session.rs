//! Transactions of sqlx.

use super::case::{Case, Ended, Session};
use crate::SqlxBatchHandler;
use crate::database::Database;
use crate::database::sqlx_pool::{self, Held};
use crate::transaction::sqlx_driver::{failed, rows};
use hapax_store::StoreError;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, Postgres};

impl<H: SqlxBatchHandler> Session<H> for Held {
    async fn connect(database: &Database) -> Result<Self, StoreError> {
        database.held_sqlx().await
    }

    async fn handle(&mut self, case: &Case<'_, H>) -> Ended {
        let (connection, database) = (self.connection(), &case.work.database);
        let begun = database.in_time("begin", async {
            if let Some((begin, begins)) = &case.begin {
                sqlx_pool::call_on(connection, &database.begin(), "begin an attempt", begin, begins).await?;
            }
            let mut tx = connection.begin().await.map_err(|error| failed("begin", error))?;
            let rows = rows(&mut *tx, &case.lock, &case.held).await;
            let rows = rows.map_err(|error| failed("lock messages", error))?;
            Ok((tx, case.locked(&rows)?))
        });
        let (mut tx, locked) = match begun.await {
            Ok(begun) => begun,
            Err(error) => return Ended::NotBegun(error),
        };
        let rolled_back = async |tx: sqlx::Transaction<'_, Postgres>| {
            let rollback = async { tx.rollback().await.map_err(|error| failed("roll back", error)) };
            database.in_time("roll back", rollback).await
        };
        let running = match locked {
            Ok(running) => running,
            Err(end) => return rolled_back(tx).await.map_or_else(Ended::NotBegun, |()| end),
        };
        let handling = async { case.work.handler.handle(&mut tx, &case.messages).await };
        let failures = match case.answers(handling).await {
            Ok(failures) => failures,
            Err(failed) if failed.is_reported() => return Ended::undone(failed, rolled_back(tx).await),
            Err(failed) => {
                // Dropping it only queues a rollback that is sent with the next statement, and none
                // follows.
                drop(tx);
                return Ended::Broken(failed, Some(running));
            }
        };
        // If the handler ignored an error, the removal is refused, and nothing is committed.
        let commit = async {
            let Some(remove) = case.remove(&failures) else { return tx.rollback().await };
            tx.execute(sqlx::raw_sql(AssertSqlSafe(remove))).await?;
            tx.commit().await
        };
        match case.committed(commit).await {
            Ok(()) => Ended::Answered(failures),
            Err(failed) => Ended::Broken(failed, None),
        }
    }

    async fn roll_back(&mut self) -> Result<(), StoreError> {
        // The ping sends the rollback that is queued.
        self.connection().ping().await.map_err(|error| failed("roll back", error))
    }

    fn finish(self) {
        Held::finish(self);
    }
}
