//! Handles what an inbox has.

use super::connection::{Connection, in_time};
use super::errors::{failed, misconfigured};
use super::message::validate_name;
use super::outage::Outage;
use super::queue::{self, BEHIND, Claimed, Claimer, Fate, Outcome, Portion, Run, Tried};
use super::retry::Retry;
use super::tables::{Queue, Tables};
use super::transaction::tokio_driver;
use super::{Database, Failure, Message, statements, trial};
use crate::back_off::jittered;
use crate::random;
use crate::store::postgres::options::within;
use crate::store::{PostgresOptions, StoreError};
use futures_util::FutureExt as _;
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Transaction};

/// What a consumer does with a message.
pub trait Handler: Send + Sync {
    /// Has the effect, in the transaction in which the message is then removed. After an error (or a panic, or when the
    /// lease is over) all of that is rolled back, and it is tried again later.
    fn handle(&self, tx: &mut Transaction<'_>, message: &Message) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Handles a consumer's messages, one after the other. Any number of workers share a consumer.
///
/// ```no_run
/// use hapax::postgres::{Failure, Handler, Message, Tables, Worker};
/// use hapax::store::PostgresOptions;
///
/// struct Billing;
///
/// impl Handler for Billing {
///     async fn handle(&self, tx: &mut tokio_postgres::Transaction<'_>, message: &Message) -> Result<(), Failure> {
///         tx.execute("INSERT INTO invoices (order_id) VALUES ($1)", &[&message.payload]).await?;
///         Ok(())
///     }
/// }
///
/// # async fn example() -> Result<(), hapax::store::StoreError> {
/// let options = PostgresOptions::parse("host=/run/postgresql user=app")?;
/// let worker = Worker::new(options, Tables::default(), "billing")?;
/// worker.run(&Billing, std::future::pending()).await?; // or until a signal
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// The effect and the removal of the message are one transaction, so the effect is there once, wherever worker or server
/// die. While a handler is at work, its message is locked, so nobody else gets it even if the lease is over; a handler
/// that is late is stopped, and its transaction rolled back.
///
/// Messages of one key are handled in order, one after the other; those of others go on when one fails.
///
/// An attempt is counted when it begins, in a transaction of its own, so a message that kills its workers becomes a dead
/// letter, too. Others that were claimed with it are not counted.
///
/// # Errors
///
/// [`run`](Self::run) connects again after whatever may pass, for five minutes if nobody says otherwise, and returns an
/// error after that, and for a wrong password, tables that are not there, and the like.
///
/// # Cost
///
/// A claim for each batch, and for each message two transactions, with five round trips besides the handler's. At most
/// [`batch`](Self::batch) keys with 16 messages each are in memory. A claim looks at the 256 oldest messages, and, if too
/// few of them can be taken, at the first one of each key that waits.
#[derive(Clone, Debug)]
pub struct Worker {
    options: PostgresOptions,
    tables: Tables,
    consumer: String,
    retry: Retry,
    batch: usize,
    lease: Duration,
    poll: Duration,
    longest_outage: Duration,
}

/// What came of an attempt.
enum Attempt {
    Handled,
    /// Somebody else has it.
    Lost,
    Failed {
        attempts: u32,
        error: String,
    },
}

impl Worker {
    /// A worker of this consumer. Unless told otherwise it claims 16 keys for 30 seconds, polls every second, and
    /// tries ten times, after 200 ms at first and a minute at last.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](crate::store::ErrorKind::Misconfigured) if no consumer has such a name.
    pub fn new(options: PostgresOptions, tables: Tables, consumer: &str) -> Result<Self, StoreError> {
        validate_name("a consumer", consumer)?;
        let retry = Retry::USUAL.attempts_max(Some(10))?;
        Ok(Worker {
            options,
            tables,
            consumer: consumer.into(),
            retry,
            batch: 16,
            lease: Duration::from_secs(30),
            poll: Duration::from_secs(1),
            longest_outage: Duration::from_secs(300),
        })
    }

    /// When a message that failed is tried again, and when it is given up.
    #[must_use]
    pub fn retry(self, retry: Retry) -> Self {
        Worker { retry, ..self }
    }

    /// How many keys (and messages without one) are claimed at a time, each with up to 15 messages behind its first: more
    /// spare claims, and wait longer for one that is slow.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](crate::store::ErrorKind::Misconfigured) unless it is between 1 and 1,000.
    pub fn batch(self, batch: usize) -> Result<Self, StoreError> {
        match (1..=1_000).contains(&batch) {
            true => Ok(Worker { batch, ..self }),
            false => Err(misconfigured(format!("a batch has 1 to 1000 keys, not {batch}"))),
        }
    }

    /// How long a handler may take; and how long messages of a worker that died wait.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](crate::store::ErrorKind::Misconfigured) unless it is between 100 ms and a day.
    pub fn lease(self, lease: Duration) -> Result<Self, StoreError> {
        let lease = within("a lease", lease, Duration::from_millis(100), Duration::from_secs(86_400))?;
        Ok(Worker { lease, ..self })
    }

    /// How often to look for messages, besides when told of one: retries and what dead workers have left are found so.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](crate::store::ErrorKind::Misconfigured) unless it is between 10 ms and an hour.
    pub fn poll(self, poll: Duration) -> Result<Self, StoreError> {
        let poll = within("a poll's interval", poll, Duration::from_millis(10), Duration::from_secs(3_600))?;
        Ok(Worker { poll, ..self })
    }

    /// How long the server may be away before [`run`](Self::run) gives up.
    #[must_use]
    pub fn longest_outage(self, longest_outage: Duration) -> Self {
        Worker { longest_outage, ..self }
    }

    /// Handles messages until `stop` says so. The message at hand is finished then, and what else was claimed given back.
    ///
    /// # Errors
    ///
    /// What cannot pass, or did not in time.
    pub async fn run(&self, handler: &impl Handler, stop: impl Future<Output = ()>) -> Result<(), StoreError> {
        let stop = stop.fuse();
        tokio::pin!(stop);
        let mut outage = Outage::new(self.longest_outage);
        loop {
            let session = self.session(handler, &mut outage, stop.as_mut());
            let Err(error) = session.await else { return Ok(()) };
            let delay = outage.failed(error, Instant::now())?;
            tokio::select! {
                () = &mut stop => return Ok(()),
                () = tokio::time::sleep(delay) => {}
            }
        }
    }

    async fn session<F: Future<Output = ()>>(
        &self,
        handler: &impl Handler,
        outage: &mut Outage,
        mut stop: std::pin::Pin<&mut futures_util::future::Fuse<F>>,
    ) -> Result<(), StoreError> {
        let mut connection = Connection::open(&self.options, &self.tables, Queue::Inbox, self.lease).await?;
        let mut stopped = false;
        loop {
            // Only looked at here: it wakes whoever waits for it below.
            let is_stopped = || {
                stopped = stopped || stop.as_mut().now_or_never().is_some();
                stopped
            };
            let claimed = self.work(&mut connection.client, handler, is_stopped).await?;
            outage.end();
            if stopped {
                return Ok(());
            }
            let pause = if claimed == 0 { self.poll } else { Duration::ZERO };
            tokio::select! {
                biased;
                () = &mut stop => return Ok(()),
                () = connection.woken.notified() => {}
                () = tokio::time::sleep(jittered(pause, random::any())) => {}
            }
        }
    }

    /// Claims a batch and handles it, with the caller's connection: how many messages that were. For tests, and for
    /// whoever handles messages at times of their own.
    ///
    /// # Errors
    ///
    /// Those of the server and the connection; a handler's are kept with its message.
    pub async fn step(&self, client: &mut Client, handler: &impl Handler) -> Result<usize, StoreError> {
        self.work(client, handler, || false).await
    }

    /// Claims a batch and handles it until it is to stop, and gives back the rest.
    async fn work(
        &self,
        client: &mut Client,
        handler: &impl Handler,
        mut is_stopped: impl FnMut() -> bool,
    ) -> Result<usize, StoreError> {
        let portion = Portion { first: self.batch, behind: BEHIND, bytes: 16 << 20, lease: self.lease };
        let database = Database::from(self.options.clone());
        let mut claimer = Claimer::new(&self.tables, Queue::Inbox, Some(&self.consumer));
        let runs = in_time(&self.options, "claim messages", claimer.claim(&database, &portion)).await?;
        let mut handled = 0;
        for run in &runs {
            let mut outcome = run.outcome();
            for claimed in &run.messages {
                // What is behind a message in a key waits for it.
                if is_stopped() {
                    break;
                }
                handled += 1;
                match self.attempt(client, handler, run, claimed).await? {
                    Attempt::Handled => {
                        outcome.fates.push(Tried { position: claimed.position, attempts: 1, fate: Fate::Done });
                        continue;
                    }
                    Attempt::Lost => outcome.put_off = Duration::from_secs(1),
                    Attempt::Failed { attempts, error } => {
                        let fate = Fate::of_failure(&self.retry, attempts, &error);
                        outcome.fates.push(Tried { position: claimed.position, attempts, fate });
                    }
                }
                break;
            }
            self.settle(&database, &[outcome]).await?;
        }
        Ok(handled)
    }

    async fn settle(&self, database: &Database, outcomes: &[Outcome]) -> Result<(), StoreError> {
        queue::settle(database, &self.tables, Queue::Inbox, outcomes).await.map(drop)
    }

    async fn attempt(
        &self,
        client: &mut Client,
        handler: &impl Handler,
        run: &Run,
        claimed: &Claimed,
    ) -> Result<Attempt, StoreError> {
        let Some(attempts) = self.begin(client, run, claimed).await? else { return Ok(Attempt::Lost) };
        if attempts > 1 && self.retry.is_last(attempts - 1) {
            let error =
                format!("{} attempts were begun, and the last ended neither well nor with an error", attempts - 1);
            return Ok(Attempt::Failed { attempts: attempts - 1, error });
        }
        let (lock, remove) =
            (statements::lock(&self.tables, Queue::Inbox), statements::remove(&self.tables, Queue::Inbox));
        let (position, token) = (claimed.position, run.token);

        let mut tx = self.ask("begin", client.transaction()).await?;
        let held = [(&position as &(dyn ToSql + Sync), Type::INT8), (&token, Type::INT8)];
        if self.ask("lock a message", tx.query_typed(&lock, &held)).await?.is_empty() {
            self.ask("roll back", tx.rollback()).await?;
            return Ok(Attempt::Lost);
        }
        let message = Message { attempts: attempts - 1, ..claimed.message.clone() };
        if let Err(error) = trial::within(self.lease, handler.handle(&mut tx, &message)).await {
            self.ask("roll back", tx.rollback()).await?;
            return Ok(Attempt::Failed { attempts, error });
        }
        // Refused, if the handler took no notice of an error: a commit would say nothing, and do nothing.
        if let Err(error) = self.ask("remove a message", tx.query_typed(&remove, &held[..1])).await {
            self.ask("roll back", tx.rollback()).await?;
            return refused(attempts, error);
        }
        match self.ask("commit", tx.commit()).await {
            Ok(()) => Ok(Attempt::Handled),
            Err(error) => refused(attempts, error),
        }
    }

    /// Counts an attempt, and makes its lease a whole one. Nothing, if somebody else has the message.
    async fn begin(&self, client: &Client, run: &Run, claimed: &Claimed) -> Result<Option<u32>, StoreError> {
        let values = queue::begin(run, claimed.position, self.lease);
        let sql = statements::begin(&self.tables, Queue::Inbox);
        let rows = self.ask("begin an attempt", tokio_driver::rows(client, &sql, &values)).await?;
        let attempts = rows.first().map(|row| row.get::<Option<i32>>("begin")).transpose()?.flatten();
        Ok(attempts.map(queue::attempts))
    }

    /// An answer of the server, in time.
    async fn ask<A>(
        &self,
        doing: &str,
        call: impl Future<Output = Result<A, tokio_postgres::Error>>,
    ) -> Result<A, StoreError> {
        in_time(&self.options, doing, async { call.await.map_err(|error| failed(doing, error)) }).await
    }
}

/// The server does not commit what a handler did: that is the message's failure, if the connection has survived it.
fn refused(attempts: u32, error: StoreError) -> Result<Attempt, StoreError> {
    let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<tokio_postgres::Error>());
    let state = cause.and_then(|cause| cause.code());
    // Of these classes are failures of the server and the connection, and not of a transaction.
    let is_servers = state.is_none_or(|state| ["08", "53", "57", "58", "XX"].contains(&&state.code()[..2]));
    match is_servers {
        true => Err(error),
        false => Ok(Attempt::Failed { attempts, error: error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused() {
        let options = PostgresOptions::parse("host=/tmp user=a").unwrap();
        assert!(Worker::new(options.clone(), Tables::default(), "a\0").is_err());
        let worker = || Worker::new(options.clone(), Tables::default(), "a").unwrap();
        for refused in [
            worker().batch(0),
            worker().batch(1_001),
            worker().lease(Duration::ZERO),
            worker().lease(Duration::MAX),
            worker().poll(Duration::ZERO),
            worker().poll(Duration::MAX),
        ] {
            assert_eq!(refused.unwrap_err().kind(), crate::store::ErrorKind::Misconfigured);
        }
    }
}
