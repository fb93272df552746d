//! Transactions of tokio-postgres.

use super::case::{Case, Ended, Running, Session};
use crate::BatchHandler;
use crate::database::Database;
use crate::errors::failed;
use crate::store::connecting::Held;
use crate::transaction::tokio_driver;
use futures_util::FutureExt as _;
use hapax_store::StoreError;
use tokio_postgres::Client;

pub(super) struct TokioSession {
    held: Held,
    interrupted: Option<Running>,
}

impl<H: BatchHandler> Session<H> for TokioSession {
    async fn connect(database: &Database) -> Result<Self, StoreError> {
        Ok(TokioSession { held: database.held().await?, interrupted: None })
    }

    async fn handle(&mut self, case: &Case<'_, H>) -> Ended {
        let (client, database): (&mut Client, _) = (&mut self.held, &case.work.database);
        let begun = database.in_time("begin", async {
            if let Some((begin, begins)) = &case.begin {
                // Sent in front of the transaction's beginning. Nobody awaits the answers, which
                // the driver drops: if that failed, no message that it was to count is locked.
                let _ = client.batch_execute(&database.begin()).now_or_never();
                let _ = tokio_driver::rows(client, begin, begins).now_or_never();
                let _ = client.batch_execute("COMMIT").now_or_never();
            }
            let tx = client.transaction().await.map_err(|error| failed("begin", error))?;
            let rows = tokio_driver::rows(&tx, &case.lock, &case.held).await;
            let rows = rows.map_err(|error| failed("lock messages", error))?;
            Ok((tx, case.locked(&rows)?))
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
                self.interrupted = Some(running);
                return Ended::Broken(failed);
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

    fn interrupted(&self) -> Option<&Running> {
        self.interrupted.as_ref()
    }

    async fn roll_back(&mut self) -> Result<(), StoreError> {
        self.held.batch_execute("ROLLBACK").await.map_err(|error| failed("roll back", error))
    }

    fn finish(self) {
        self.held.finish();
    }
}
