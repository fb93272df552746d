//! Handlers of messages: of one at a time, or of batches.

use crate::{BoxError, Message};
use hapax_message::Answers;
use std::future::Future;
use std::sync::Arc;
use tokio_postgres::Transaction;

/// The effect that a consumer's messages have.
pub trait Handler: Send + Sync + 'static {
    /// Has the effect, in the transaction in which the message is then removed. After an error (or
    /// a panic, or when the lease is over) the whole transaction is rolled back, and the message is
    /// tried again later. After an error with [`GiveUp`] it is not tried again: the message becomes
    /// a dead letter. One with [`Later`] was no attempt.
    ///
    /// [`GiveUp`]: hapax_message::GiveUp
    /// [`Later`]: hapax_message::Later
    fn handle(&self, tx: &mut Transaction<'_>, message: &Message) -> impl Future<Output = Result<(), BoxError>> + Send;
}

/// A handler in a transaction of sqlx, for a [`Worker`](crate::Worker) with a pool of sqlx.
///
/// ```no_run
/// use hapax_postgres::{BoxError, Message, SqlxHandler, Tables, Worker};
/// use sqlx::Postgres;
/// use std::sync::Arc;
///
/// struct Billing;
///
/// impl SqlxHandler for Billing {
///     async fn handle(
///         &self,
///         tx: &mut sqlx::Transaction<'_, Postgres>,
///         message: &Message,
///     ) -> Result<(), BoxError> {
///         let insert = sqlx::query("INSERT INTO invoices (order_id) VALUES ($1)");
///         insert.bind(&message.payload).execute(&mut **tx).await?;
///         Ok(())
///     }
/// }
///
/// # async fn example(pool: sqlx::PgPool) -> Result<(), hapax_store::StoreError> {
/// let worker = Worker::new(pool, Tables::new("public", "shop")?, "billing")?;
/// worker.run_sqlx(Arc::new(Billing), std::future::pending()).await?; // or until a signal
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "sqlx")]
pub trait SqlxHandler: Send + Sync + 'static {
    /// Has the effect, as [`Handler::handle`] does.
    fn handle(
        &self,
        tx: &mut sqlx::Transaction<'_, sqlx::Postgres>,
        message: &Message,
    ) -> impl Future<Output = Result<(), BoxError>> + Send;
}

/// The effect that several of a consumer's messages have together, in one transaction, for
/// [`Worker::run_batches`](crate::Worker::run_batches).
///
/// ```no_run
/// use hapax_postgres::{Answers, BatchHandler, BoxError, Message};
/// use hapax_postgres::tokio_postgres::Transaction;
///
/// struct Readings;
///
/// impl BatchHandler for Readings {
///     async fn handle(
///         &self,
///         tx: &mut Transaction<'_>,
///         messages: &[&Message],
///     ) -> Result<Answers, BoxError> {
///         let rows: Vec<&[u8]> = messages.iter().map(|message| &*message.payload).collect();
///         let insert = "INSERT INTO readings (content) SELECT unnest($1::bytea[])";
///         tx.execute(insert, &[&rows]).await?;
///         Ok(().into()) // all are done
///     }
/// }
/// ```
pub trait BatchHandler: Send + Sync + 'static {
    /// Has the effect, in the transaction in which the messages are then removed.
    fn handle(
        &self,
        tx: &mut Transaction<'_>,
        messages: &[&Message],
    ) -> impl Future<Output = Result<Answers, BoxError>> + Send;
}

/// A handler of batches in a transaction of sqlx, for
/// [`Worker::run_batches_sqlx`](crate::Worker::run_batches_sqlx).
///
/// ```no_run
/// use hapax_postgres::{Answers, BoxError, Message, SqlxBatchHandler};
/// use sqlx::{Postgres, Transaction};
///
/// struct Readings;
///
/// impl SqlxBatchHandler for Readings {
///     async fn handle(
///         &self,
///         tx: &mut Transaction<'_, Postgres>,
///         messages: &[&Message],
///     ) -> Result<Answers, BoxError> {
///         let rows: Vec<&[u8]> = messages.iter().map(|message| &*message.payload).collect();
///         let insert = sqlx::query("INSERT INTO readings (content) SELECT unnest($1::bytea[])");
///         insert.bind(rows).execute(&mut **tx).await?;
///         Ok(().into()) // all are done
///     }
/// }
/// ```
#[cfg(feature = "sqlx")]
pub trait SqlxBatchHandler: Send + Sync + 'static {
    /// Has the effect, as [`BatchHandler::handle`] does.
    fn handle(
        &self,
        tx: &mut sqlx::Transaction<'_, sqlx::Postgres>,
        messages: &[&Message],
    ) -> impl Future<Output = Result<Answers, BoxError>> + Send;
}

/// A handler of one message at a time, whose batches have one.
pub(super) struct Each<H>(pub(super) Arc<H>);

impl<H: Handler> BatchHandler for Each<H> {
    async fn handle(&self, tx: &mut Transaction<'_>, messages: &[&Message]) -> Result<Answers, BoxError> {
        for message in messages {
            self.0.handle(tx, message).await?;
        }
        Ok(().into())
    }
}

#[cfg(feature = "sqlx")]
impl<H: SqlxHandler> SqlxBatchHandler for Each<H> {
    async fn handle(
        &self,
        tx: &mut sqlx::Transaction<'_, sqlx::Postgres>,
        messages: &[&Message],
    ) -> Result<Answers, BoxError> {
        for message in messages {
            self.0.handle(tx, message).await?;
        }
        Ok(().into())
    }
}
