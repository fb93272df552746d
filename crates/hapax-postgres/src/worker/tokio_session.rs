//! Transactions of tokio-postgres.

use super::case::{Case, Ended, Session};
use crate::BatchHandler;
use crate::database::Database;
use crate::errors::failed;
use crate::store::connecting::Held;
use crate::transaction::tokio_driver;
use futures_util::FutureExt as _;
use futures_util::future::OptionFuture;
use hapax_store::StoreError;
use tokio_postgres::Client;

impl<H: BatchHandler> Session<H> for Held {
    async fn connect(database: &Database) -> Result<Self, StoreError> {
        database.held().await
    }

    async fn handle(&mut self, case: &Case<'_, H>) -> Ended {
        let (held, database) = (self, &case.work.database);
        let begun = database.in_time("begin", async {
            let refused = |error| database.refused("lock messages", error);
            let keeps = database.keeps_statements();
            let lock = keeps.then(|| tokio_driver::kept(held, &case.lock, &case.held));
            let lock = OptionFuture::from(lock).await.transpose().map_err(refused)?;
            let client: &mut Client = held;
            if let Some((begin, begins)) = &case.begin {
                // Sent in front of the transaction's beginning. Nobody awaits the answers, which
                // the driver drops: if that failed, no message that it was to count is locked.
                let _ = client.batch_execute(&database.begin()).now_or_never();
                let _ = tokio_driver::rows(client, begin, begins).now_or_never();
                let _ = client.batch_execute("COMMIT").now_or_never();
            }
            let tx = client.transaction().await.map_err(|error| failed("begin", error))?;
            let rows = match &lock {
                Some(lock) => tokio_driver::rows_by(&tx, lock, &case.held).await,
                None => tokio_driver::rows(&tx, &case.lock, &case.held).await,
            };
            let locked = case.locked(&rows.map_err(refused)?)?;
            Ok((tx, locked))
        });
        let (mut tx, locked) = match begun.await {
            Ok(begun) => begun,
            Err(error) => return Ended::NotBegun(error),
        };
        let rolled_back = async |tx: tokio_postgres::Transaction<'_>| {
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
                // Dropping it would roll it back at once, and a pooler would give its connection to
                // a stranger, before the handler's statements that still run there are cancelled.
                // It owns nothing.
                std::mem::forget(tx);
                return Ended::Broken(failed, Some(running));
            }
        };
        // One round trip. If the handler ignored an error, the removal is refused, and nothing is
        // committed.
        let remove = case.remove(&failures).map(|remove| remove + "; COMMIT");
        match case.committed(tx.batch_execute(remove.as_deref().unwrap_or("ROLLBACK"))).await {
            Ok(()) => {
                // Dropping it would send a rollback of what is over, of which the server would
                // warn. It owns nothing.
                std::mem::forget(tx);
                Ended::Answered(failures)
            }
            Err(failed) => Ended::undone(failed, rolled_back(tx).await),
        }
    }

    async fn roll_back(&mut self) -> Result<(), StoreError> {
        self.batch_execute("ROLLBACK").await.map_err(|error| failed("roll back", error))
    }

    fn finish(self) {
        Held::finish(self);
    }
}
