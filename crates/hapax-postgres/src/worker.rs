//! Handles the messages of an inbox.

mod case;
pub(super) mod handler;
mod handling;
pub(super) mod kept_records;
mod lane;
mod running;
#[cfg(feature = "sqlx")]
mod sqlx_session;
mod tokio_session;
mod waiting;
mod work;

use super::database::Database;
use super::errors::misconfigured;
use super::message::{validate_name, validate_text};
use crate::claims::retry::Retry;
#[cfg(feature = "sqlx")]
use crate::database::sqlx_pool;
use crate::polling::outage::Outage;
use crate::schema::tables::{Queue, Tables};
use crate::store::connecting::Held;
use crate::store::options::within;
use crate::telemetry::meters::{Counts, Meters, QueueStats};
use case::Session;
use handler::{BatchHandler, Each, Handler};
#[cfg(feature = "sqlx")]
use handler::{SqlxBatchHandler, SqlxHandler};
use hapax_store::StoreError;
use hapax_store::sync::StdAtomicBool;
use kept_records::Keep;
use running::Dispatcher;
use std::sync::Arc;
use std::time::Duration;
use waiting::Waiting;
use work::Work;

/// The messages of a batch, and the time for which one waits for others, where a handler gets one.
const EACH: (usize, Duration) = (1, Duration::ZERO);

/// Handles a consumer's messages: those of one key in order, one after the other; those of several
/// keys concurrently. Any number of workers share a consumer.
///
/// ```no_run
/// use hapax_postgres::{BoxError, Handler, Message, Tables, Worker};
/// use hapax_postgres::PostgresOptions;
/// use std::sync::Arc;
///
/// struct Billing;
///
/// impl Handler for Billing {
///     async fn handle(&self, tx: &mut tokio_postgres::Transaction<'_>, message: &Message) -> Result<(), BoxError> {
///         tx.execute("INSERT INTO invoices (order_id) VALUES ($1)", &[&message.payload]).await?;
///         Ok(())
///     }
/// }
///
/// # async fn example() -> Result<(), hapax_store::StoreError> {
/// let options = PostgresOptions::parse("host=/run/postgresql user=app")?;
/// let worker = Worker::new(options, Tables::new("public", "shop")?, "billing")?;
/// worker.run(Arc::new(Billing), std::future::pending()).await?; // or until a signal
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// The effect and the removal of the message are one transaction, so the effect is there once,
/// wherever worker or server die. That transaction has the isolation level and the durability that
/// the server has for the role.
///
/// While a handler is at work, its message is locked, so no other worker gets it even if the lease
/// is over. A handler that is late is stopped: its transaction is rolled back, and its statements
/// that still run in the database are cancelled. The server ends such a transaction by itself five
/// seconds later, in case that the worker is gone or its network.
///
/// A message that fails, or whose handler loses its connection, keeps the error's text, and holds
/// up the other messages of its key and no others. Only the worker's own calls decide whether the
/// server is away.
///
/// An attempt is counted when it fails; after one that failed or whose worker was lost, when it
/// begins, in a transaction of its own. So a message that kills its workers becomes a dead letter,
/// too, after one attempt more than others. Other messages that were claimed with it are not
/// counted.
///
/// Each key is handled by a task of its own. A handler that blocks its thread cannot be stopped,
/// and the handlers beside it go on only where the runtime has more threads.
///
/// # Errors
///
/// [`run`](Self::run) goes on without the server for five minutes by default. It returns an error
/// after that, and for a wrong password, missing tables, and the like.
///
/// # Cost
///
/// A worker has one connection for each of its [handlers](Self::concurrency), one to claim with,
/// and one that listens. Where the server gives fewer, so many handlers fewer are at work, and it
/// polls instead of listening. It claims as many keys as it has free handlers, each with up to 16
/// messages, of 16 MiB together. Where a key takes less than 40 ms, it claims some more, up to 16
/// for each handler; it gives back what it could not begin within 200 ms. Each message takes one
/// transaction, which waits for the disk, and three round trips besides the handler's (four with
/// sqlx). One that failed before takes another transaction, in front of that.
#[derive(Clone, Debug)]
pub struct Worker {
    database: Database,
    tables: Tables,
    consumer: String,
    retry: Retry,
    concurrency: usize,
    batch: (usize, Duration),
    lease: Duration,
    poll: Duration,
    longest_outage: Duration,
    keep: Keep,
    processor: Option<String>,
    counts: Arc<Counts>,
}

impl Worker {
    /// Creates a worker of this consumer, with these connections:
    /// [`PostgresOptions`](crate::PostgresOptions), a pool of deadpool-postgres or sqlx, or
    /// a [`Database`] that it shares with others. By default it handles 8 keys at a time, each
    /// message for at most 30 seconds, polls every second, and tries ten times, after 200 ms at
    /// first and a minute at last.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](hapax_store::ErrorKind::Misconfigured) if no consumer has such a name.
    pub fn new(database: impl Into<Database>, tables: Tables, consumer: &str) -> Result<Self, StoreError> {
        validate_name("a consumer", consumer)?;
        let retry = Retry::DEFAULT.attempts_max(Some(10))?;
        Ok(Worker {
            database: database.into(),
            tables,
            consumer: consumer.into(),
            retry,
            concurrency: 8,
            batch: (256, Duration::from_millis(10)),
            lease: Duration::from_secs(30),
            poll: Duration::from_secs(1),
            longest_outage: Duration::from_secs(300),
            keep: Keep::default(),
            processor: None,
            counts: Arc::default(),
        })
    }

    /// Sets when a message that failed is tried again, and when it is given up.
    #[must_use]
    pub fn retry(self, retry: Retry) -> Self {
        Worker { retry, ..self }
    }

    /// Sets how many keys (and messages without one) are handled at a time, each on a connection of
    /// its own. A pool with fewer connections than this number plus one sets the limit.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](hapax_store::ErrorKind::Misconfigured) unless it is between 1 and 1,000.
    pub fn concurrency(self, concurrency: usize) -> Result<Self, StoreError> {
        Ok(Worker { concurrency: within("concurrency", concurrency, 1..=1_000)?, ..self })
    }

    /// Sets the largest number of messages that a handler of [`run_batches`](Self::run_batches)
    /// gets, and the time for which one waits for others. [`concurrency`](Self::concurrency) is the
    /// number of such batches at a time. Default: 256, and 10 ms.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](hapax_store::ErrorKind::Misconfigured) unless it is between 1 and 1,000,
    /// and at most 10 seconds.
    pub fn handler_batch(self, messages: usize, within: Duration) -> Result<Self, StoreError> {
        let messages = self::within("handler_batch", messages, 1..=1_000)?;
        let within = self::within("handler_batch", within, Duration::ZERO..=Duration::from_secs(10))?;
        Ok(Worker { batch: (messages, within), ..self })
    }

    /// Sets how long a handler may take. The messages of a worker that died wait for up to half as
    /// long again, and at most five seconds longer.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](hapax_store::ErrorKind::Misconfigured) unless it is between 100 ms and a
    /// day.
    pub fn lease(self, lease: Duration) -> Result<Self, StoreError> {
        let lease = within("lease", lease, Duration::from_millis(100)..=Duration::from_secs(86_400))?;
        Ok(Worker { lease, ..self })
    }

    /// Sets how often it looks for messages while it sleeps and is not notified. Polling finds the
    /// same as a relay's does: see [`Relay::poll`](super::Relay::poll).
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](hapax_store::ErrorKind::Misconfigured) unless it is between 10 ms and an
    /// hour.
    pub fn poll(self, poll: Duration) -> Result<Self, StoreError> {
        let poll = within("poll", poll, Duration::from_millis(10)..=Duration::from_secs(3_600))?;
        Ok(Worker { poll, ..self })
    }

    /// Sets how long the server may be away before [`run`](Self::run) gives up.
    #[must_use]
    pub fn longest_outage(self, longest_outage: Duration) -> Self {
        Worker { longest_outage, ..self }
    }

    /// Sets what is kept of messages that are handled.
    ///
    /// # Cost
    ///
    /// A message of which something is kept takes no round trip more, but a row and its entries in
    /// two or three indexes, and for [`Keep::Messages`] its content once more, for as long as the
    /// marks of its time are kept. On a busy machine the server took 100 to 140 µs for that.
    #[must_use]
    pub fn keep(self, keep: Keep) -> Self {
        Worker { keep, ..self }
    }

    /// Sets the name of this process, such as a pod's: [`Handled`](super::inbox::Handled) says it.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](hapax_store::ErrorKind::Misconfigured) if it is empty, has control
    /// characters, or more than [`DESCRIPTION_BYTES_MAX`](super::DESCRIPTION_BYTES_MAX) bytes.
    pub fn processor(self, processor: &str) -> Result<Self, StoreError> {
        validate_text("a name of a processor", Some(processor))?;
        Ok(Worker { processor: Some(processor.into()), ..self })
    }

    /// Returns what became of messages since this worker was made, in all runs and steps of it and
    /// of its clones.
    pub fn stats(&self) -> QueueStats {
        self.counts.stats()
    }

    /// Handles messages until `stop` completes. The messages at hand are finished then, and the
    /// other claimed messages are given back.
    ///
    /// # Errors
    ///
    /// Errors that cannot pass, or did not in time. Handlers at work are stopped then, as they are
    /// when this is dropped, and what they did is rolled back.
    /// [`Misconfigured`](hapax_store::ErrorKind::Misconfigured) with a pool of sqlx, and with a
    /// pool of one connection.
    pub async fn run<H: Handler>(&self, handler: Arc<H>, stop: impl Future<Output = ()>) -> Result<(), StoreError> {
        self.run_in::<_, Held>(Arc::new(Each(handler)), EACH, stop).await
    }

    /// Handles messages with a pool of sqlx: see [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// Those of [`run`](Self::run); [`Misconfigured`](hapax_store::ErrorKind::Misconfigured)
    /// without a pool of sqlx.
    #[cfg(feature = "sqlx")]
    pub async fn run_sqlx<H: SqlxHandler>(
        &self,
        handler: Arc<H>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), StoreError> {
        self.run_in::<_, sqlx_pool::Held>(Arc::new(Each(handler)), EACH, stop).await
    }

    /// Handles messages as [`run`](Self::run) does, several at a time: for effects that are one
    /// statement for many rows.
    ///
    /// ```no_run
    /// # use hapax_postgres::{BatchHandler, Tables, Worker};
    /// # use hapax_postgres::PostgresOptions;
    /// # use std::{sync::Arc, time::Duration};
    /// # async fn example<Readings: BatchHandler>(readings: Readings) -> Result<(), hapax_store::StoreError> {
    /// let options = PostgresOptions::parse("host=/run/postgresql user=app")?;
    /// let worker = Worker::new(options, Tables::new("public", "shop")?, "readings")?;
    /// let worker = worker.handler_batch(500, Duration::from_millis(20))?;
    /// worker.run_batches(Arc::new(readings), std::future::pending()).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Batches
    ///
    /// A batch begins when [as many messages](Self::handler_batch) as it may have wait for a
    /// handler, or when the first of them has waited for others for the time that is set. All of
    /// them are locked, and of different keys: the next one of a key is handled when the last one
    /// is committed. One transaction has the effects of all, and removes them.
    ///
    /// # Answers
    ///
    /// - `Ok(().into())`: all are done.
    /// - A `Vec` with [a result for each](crate::Answers): those that are `Ok` are done; an error
    ///   concerns its message alone, as if [`run`](Self::run) had handled it. The handler leaves
    ///   out its effect; if all have failed, the transaction is rolled back. For another number of
    ///   results than there are messages the batch has failed.
    /// - An error with [`Later`](crate::Later): all are tried again later, and it was no attempt.
    /// - Any other error, a panic, or a lease that is over: it is unknown which message is to
    ///   blame. The batch is rolled back and halved, and its halves are handled one after the
    ///   other, down to single messages, whose failures count, as [`GiveUp`](crate::GiveUp) does. A
    ///   message of 500 that always fails costs the others up to 18 calls more, and none of them an
    ///   attempt.
    ///
    /// # What fails
    ///
    /// - A message that has failed, or was in a batch when its worker died, is handled by itself
    ///   from then on: one that kills its workers takes no others with it to the dead letters.
    /// - The leases of all messages are renewed together, also of those whose half has not had its
    ///   turn. If some are lost, the others are handled without them.
    ///
    /// # Errors
    ///
    /// Those of [`run`](Self::run); [`Misconfigured`](hapax_store::ErrorKind::Misconfigured) if
    /// messages wait for others for longer than the lease.
    pub async fn run_batches<H: BatchHandler>(
        &self,
        handler: Arc<H>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), StoreError> {
        self.run_in::<_, Held>(handler, self.batch, stop).await
    }

    /// Handles batches of messages with a pool of sqlx: see [`run_batches`](Self::run_batches).
    ///
    /// # Errors
    ///
    /// Those of [`run_batches`](Self::run_batches) and [`run_sqlx`](Self::run_sqlx).
    #[cfg(feature = "sqlx")]
    pub async fn run_batches_sqlx<H: SqlxBatchHandler>(
        &self,
        handler: Arc<H>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), StoreError> {
        self.run_in::<_, sqlx_pool::Held>(handler, self.batch, stop).await
    }

    /// Claims as much as can be begun at once, handles it, and settles it. Returns how many
    /// messages that were. For tests, and for programs that handle messages at times of their own
    /// choice.
    ///
    /// # Errors
    ///
    /// Those of the server and the connection; a handler's are kept with its message.
    pub async fn step<H: Handler>(&self, handler: &Arc<H>) -> Result<usize, StoreError> {
        self.dispatcher(Arc::new(Each(Arc::clone(handler))), EACH)?.step::<Held>().await
    }

    /// Does one [`step`](Self::step) with a pool of sqlx.
    ///
    /// # Errors
    ///
    /// Those of [`step`](Self::step).
    #[cfg(feature = "sqlx")]
    pub async fn step_sqlx<H: SqlxHandler>(&self, handler: &Arc<H>) -> Result<usize, StoreError> {
        self.dispatcher(Arc::new(Each(Arc::clone(handler))), EACH)?.step::<sqlx_pool::Held>().await
    }

    async fn run_in<H: Send + Sync + 'static, S: Session<H>>(
        &self,
        handler: Arc<H>,
        batch: (usize, Duration),
        stop: impl Future<Output = ()>,
    ) -> Result<(), StoreError> {
        let outage = Outage::new(self.longest_outage);
        self.dispatcher(handler, batch)?.run::<S>(outage, self.poll, stop).await
    }

    fn dispatcher<H: Send + Sync + 'static>(
        &self,
        handler: Arc<H>,
        (size, within): (usize, Duration),
    ) -> Result<Dispatcher<H>, StoreError> {
        if within > self.lease {
            return Err(misconfigured("messages of a worker wait for a batch for as long as their lease at most"));
        }
        // One connection to claim with, and to settle while all handlers are at work.
        let connections = self.database.connections_for(self.concurrency + 1);
        if connections < 2 {
            return Err(misconfigured("a worker needs a pool of at least two connections, not one"));
        }
        let work = Work {
            database: self.database.clone(),
            tables: self.tables.clone(),
            retry: self.retry,
            lease: self.lease,
            keep: self.keep,
            processor: self.processor.clone(),
            handler,
            meters: Meters::new(&self.counts, Queue::Inbox, Some(&self.consumer)),
            is_stopping: StdAtomicBool::new(false),
            waiting: Waiting::new(size, within),
        };
        Ok(Dispatcher::new(work, &self.consumer, self.concurrency.min(connections - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PostgresOptions;

    #[test]
    fn what_cannot_be_is_refused() {
        let options = PostgresOptions::parse("host=/tmp user=a").unwrap();
        assert!(Worker::new(options.clone(), Tables::new("public", "shop").unwrap(), "a\0").is_err());
        let worker = || Worker::new(options.clone(), Tables::new("public", "shop").unwrap(), "a").unwrap();
        for refused in [
            worker().concurrency(0),
            worker().concurrency(1_001),
            worker().lease(Duration::ZERO),
            worker().lease(Duration::MAX),
            worker().poll(Duration::ZERO),
            worker().poll(Duration::MAX),
            worker().handler_batch(0, Duration::ZERO),
            worker().handler_batch(1_001, Duration::ZERO),
            worker().handler_batch(1, Duration::MAX),
            worker().processor(""),
            worker().processor("a\0"),
        ] {
            assert_eq!(refused.unwrap_err().kind(), hapax_store::ErrorKind::Misconfigured);
        }
    }
}
