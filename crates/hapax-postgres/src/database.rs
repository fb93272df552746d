//! Connections of workers and relays: how they are obtained, and when they are given back.

mod listening;
mod outside;
mod scarce;
#[cfg(feature = "sqlx")]
pub(super) mod sqlx_pool;

pub(super) use listening::Listening;

#[cfg(feature = "sqlx")]
use super::errors::misconfigured;
use super::errors::{failed, unanswered_in};
use super::transaction::{Row, Value, tokio_driver};
use crate::PostgresOptions;
use crate::schema::migrations::version_of;
use crate::schema::tables::{Queue, Tables};
use crate::store::connecting::{self, Held, Pooled};
use crate::store::errors::unconnected;
use crate::store::options::within;
use deadpool_postgres::Pool;
use hapax_store::StoreError;
use scarce::Scarce;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The time that we wait longer than the server, so that the server is the one to say that a
/// statement was not done.
const GRACE: Duration = Duration::from_secs(1);
/// The time after which the server ends a transaction that nobody has finished.
pub(super) const NET: Duration = Duration::from_secs(5);
/// A setting by which a connection of our own sees that the server itself got its first message
/// (and not a pooler).
const OURS: (&str, &str) = ("hapax.session", "on");
const TIMEOUT: Duration = Duration::from_secs(5);

/// The connections of a [`Worker`](super::Worker) or a [`Relay`](super::Relay): a pool of their
/// own, or one of the program's.
///
/// ```no_run
/// use hapax_postgres::{Database, Relay, Tables, Worker};
/// use hapax_postgres::PostgresOptions;
///
/// # fn example() -> Result<(), hapax_store::StoreError> {
/// // Options make a pool:
/// let options = PostgresOptions::parse("postgres://app@db.internal/app")?;
/// let tables = Tables::new("public", "shop")?;
/// let worker = Worker::new(options.clone(), tables.clone(), "billing")?;
/// // One pool for both, of at most ten connections:
/// let database = Database::from(options.connections(10)?);
/// let worker = Worker::new(database.clone(), tables.clone(), "billing")?;
/// let relay = Relay::new(database, tables);
/// # let _ = (worker, relay);
/// # Ok(())
/// # }
/// ```
///
/// The program's pool, of deadpool-postgres or (with the feature `sqlx`) of sqlx:
///
/// ```no_run
/// # use hapax_postgres::{Relay, Tables};
/// # fn example(pool: deadpool_postgres::Pool) -> Result<(), hapax_store::StoreError> {
/// let relay = Relay::new(pool, Tables::new("public", "shop")?);
/// # let _ = relay;
/// # Ok(())
/// # }
/// ```
///
/// A clone is a handle to the same connections.
///
/// # Guarantees
///
/// Nothing is left on a program's connection: settings are a transaction's own, and no statement
/// has a name. Connections that options make keep a prepared statement, unless a pooler is in
/// between. A connection on which something failed, or was not answered in time, is closed and not
/// given back to its pool.
///
/// A pooler of transactions may be in between, as pgbouncer with `pool_mode = transaction`. It is
/// detected with the first connection, or declared with [`pooled`](Self::pooled). Behind one, and
/// with a pool of deadpool-postgres (which hands no notifications on), nobody is woken by `NOTIFY`:
/// workers and relays that sleep find new messages by polling. Otherwise there is one more
/// connection, which listens. A pool of sqlx needs options of its own to go through a pooler of
/// transactions, with or without hapax: `statement_cache_capacity(0)`, and for pgbouncer
/// `extra_float_digits(None)`.
#[derive(Clone)]
pub struct Database {
    source: Source,
    timeout: Duration,
    pooled: Pooled,
}

#[derive(Clone)]
enum Source {
    /// A pool of our own, and the options to connect outside of it.
    Own(Own),
    Deadpool(Pool),
    #[cfg(feature = "sqlx")]
    Sqlx(sqlx::PgPool),
    /// No connection: each caller that asks for one gets this error.
    None(StoreError),
}

#[derive(Clone)]
struct Own {
    pool: Pool,
    options: Arc<PostgresOptions>,
    scarce: Arc<Scarce>,
}

impl From<PostgresOptions> for Database {
    fn from(options: PostgresOptions) -> Self {
        let pooled = Pooled::new(options.pooled);
        let (timeout, ours) = (options.timeout, format!("-c {}={}", OURS.0, OURS.1));
        let source = match connecting::pool(&options, options.connections_or_few(), ours, pooled.clone()) {
            Ok(pool) => Source::Own(Own { pool, options: Arc::new(options), scarce: Arc::default() }),
            Err(error) => Source::None(error),
        };
        Database { source, timeout, pooled }
    }
}

impl From<Pool> for Database {
    fn from(pool: Pool) -> Self {
        Database { source: Source::Deadpool(pool), timeout: TIMEOUT, pooled: Pooled::default() }
    }
}

#[cfg(feature = "sqlx")]
impl From<sqlx::PgPool> for Database {
    fn from(pool: sqlx::PgPool) -> Self {
        Database { source: Source::Sqlx(pool), timeout: TIMEOUT, pooled: Pooled::default() }
    }
}

impl Database {
    /// Sets how long a statement of ours may take at the server: for claims and the like, not for
    /// handlers. The default is 5 seconds, or the limit of the [options](PostgresOptions::timeout).
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](hapax_store::ErrorKind::Misconfigured) unless it is between 10
    /// milliseconds and an hour.
    pub fn timeout(mut self, timeout: Duration) -> Result<Self, StoreError> {
        self.timeout = within("timeout", timeout, Duration::from_millis(10)..=Duration::from_secs(3_600))?;
        Ok(self)
    }

    /// Declares that a pooler of transactions is in between, for poolers that cannot be
    /// [detected](PostgresOptions::pooled).
    #[must_use]
    pub fn pooled(self) -> Self {
        self.pooled.found();
        self
    }

    /// Runs one statement in a transaction of its own, in one round trip (with sqlx in three). It
    /// is committed without waiting for the disk: a server's crash may undo it.
    pub(super) async fn call(
        &self,
        doing: &'static str,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        self.in_time(doing, async {
            match &self.source {
                Source::Own(Own { pool, .. }) | Source::Deadpool(pool) => {
                    let held = self.take(pool).await?;
                    let rows = self.call_on(&held, doing, sql, values).await?;
                    held.finish();
                    Ok(rows)
                }
                #[cfg(feature = "sqlx")]
                Source::Sqlx(pool) => {
                    let mut held = sqlx_pool::held(pool).await?;
                    let rows = sqlx_pool::call_on(held.connection(), &self.begin(), doing, sql, values).await?;
                    held.finish();
                    Ok(rows)
                }
                Source::None(error) => Err(error.clone()),
            }
        })
        .await
    }

    /// Takes a connection of a pool. Where there are no more to be had, it waits for one that
    /// others use.
    async fn take(&self, pool: &Pool) -> Result<Held, StoreError> {
        let scarce = match &self.source {
            Source::Own(Own { scarce, .. }) => Some(scarce),
            _ => None,
        };
        if let Some(scarce) = scarce {
            scarce.grow(pool, Instant::now());
        }
        let client = match pool.get().await {
            Err(error) if scarce.is_some_and(|scarce| scarce.found(pool, &error, Instant::now())) => pool.get().await,
            client => client,
        };
        Ok(Held::new(client.map_err(|error| unconnected(error, |error| failed("connect", error)))?))
    }

    /// Sends everything before it awaits an answer. The server does nothing of what comes after a
    /// failure, and the first failure is the error.
    pub(super) async fn call_on(
        &self,
        client: &tokio_postgres::Client,
        doing: &'static str,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        let begin = self.begin();
        let (begun, rows, committed) = tokio::join!(
            biased;
            client.batch_execute(&begin),
            tokio_driver::rows(client, sql, values),
            client.batch_execute("COMMIT")
        );
        let all = begun.and(rows).and_then(|rows| committed.map(|()| rows));
        all.map_err(|error| failed(doing, error))
    }

    /// Returns the SQL that begins a transaction of ours. The limit on its idle time is a safety
    /// net, for when this process is gone.
    pub(super) fn begin(&self) -> String {
        let (ms, net_ms) = (self.timeout.as_millis(), (self.timeout + NET).as_millis());
        format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE; SET LOCAL synchronous_commit = off; \
             SET LOCAL statement_timeout = {ms}; SET LOCAL idle_in_transaction_session_timeout = {net_ms}"
        )
    }

    /// Waits for an answer within the time limit; without one, the server is taken for gone. The
    /// future is dropped then, and its connection closed with it.
    pub(super) async fn in_time<A>(
        &self,
        doing: &str,
        call: impl Future<Output = Result<A, StoreError>>,
    ) -> Result<A, StoreError> {
        let limit = self.timeout + GRACE;
        tokio::time::timeout(limit, call).await.unwrap_or_else(|_| Err(unanswered_in(limit, doing)))
    }

    /// Takes a connection of tokio-postgres for a transaction that the caller runs.
    pub(super) async fn held(&self) -> Result<Held, StoreError> {
        match &self.source {
            Source::Own(Own { pool, .. }) | Source::Deadpool(pool) => self.in_time("connect", self.take(pool)).await,
            #[cfg(feature = "sqlx")]
            Source::Sqlx(_) => {
                let what = "expected connections of tokio-postgres, got a pool of sqlx: handle with run_sqlx";
                Err(misconfigured(what))
            }
            Source::None(error) => Err(error.clone()),
        }
    }

    /// Returns true if connections may keep prepared statements: they are ours alone, and the
    /// server's.
    pub(super) fn keeps_statements(&self) -> bool {
        matches!(self.source, Source::Own(_)) && !self.pooled.get()
    }

    /// Records an error of a statement that a connection keeps: it may be due to a pooler.
    pub(super) fn refused(&self, doing: &str, error: tokio_postgres::Error) -> StoreError {
        if error.code().is_some_and(connecting::is_anothers_session) {
            self.pooled.found();
        }
        failed(doing, error)
    }

    /// Takes a connection of sqlx.
    #[cfg(feature = "sqlx")]
    pub(super) async fn held_sqlx(&self) -> Result<sqlx_pool::Held, StoreError> {
        match &self.source {
            Source::Sqlx(pool) => self.in_time("connect", sqlx_pool::held(pool)).await,
            Source::None(error) => Err(error.clone()),
            Source::Own(..) | Source::Deadpool(_) => {
                let what = "expected a pool of sqlx, got connections of tokio-postgres: handle with run";
                Err(misconfigured(what))
            }
        }
    }

    /// Returns how many of the wanted connections there may be. A pool whose size was not
    /// configured grows.
    pub(super) fn connections_for(&self, wanted: usize) -> usize {
        match &self.source {
            Source::Own(Own { pool, options, .. }) if options.connections.is_none() => {
                // Other workers and relays may share the pool.
                if pool.status().max_size < wanted + options.connections_or_few() {
                    pool.resize(wanted + options.connections_or_few());
                }
                wanted
            }
            Source::Own(Own { pool, .. }) | Source::Deadpool(pool) => pool.status().max_size.min(wanted),
            #[cfg(feature = "sqlx")]
            Source::Sqlx(pool) => (pool.options().get_max_connections() as usize).min(wanted),
            // Each caller that asks for a connection gets the error.
            Source::None(_) => wanted,
        }
    }

    /// Returns how many connections there may be now: fewer than were wanted, where the server
    /// gives no more.
    pub(super) fn connections_max(&self) -> usize {
        match &self.source {
            Source::Own(Own { pool, .. }) => pool.status().max_size,
            _ => usize::MAX,
        }
    }

    /// Fails unless the tables are of a version that this code may use.
    pub(super) async fn check(&self, tables: &Tables) -> Result<(), StoreError> {
        let rows = self.call("look at the version", &tables.version(), &[]).await?;
        tables.expect_version(version_of(&rows)?)
    }

    /// Listens on a connection of its own, which is made again whenever it is lost. Behind a pooler
    /// it does not listen.
    pub(super) async fn listen(&self, tables: &Tables, queue: Queue) -> Result<Listening, StoreError> {
        let channel = tables.channel(queue);
        match &self.source {
            Source::Own(Own { pool, options, scarce }) => {
                // The first connection shows whether there is a pooler.
                self.in_time("connect", self.take(pool)).await?.finish();
                Ok(if self.pooled.get() {
                    Listening::to_nobody()
                } else {
                    Listening::to(listening::Own(Arc::clone(options), Arc::clone(scarce)), channel)
                })
            }
            #[cfg(feature = "sqlx")]
            Source::Sqlx(pool) => {
                let listeners = sqlx_pool::Listeners::new(pool, self.timeout);
                let is_pooled = self.pooled.get() || self.in_time("connect", listeners.is_pooled()).await?;
                Ok(if is_pooled { Listening::to_nobody() } else { Listening::to(listeners, channel) })
            }
            Source::Deadpool(_) => Ok(Listening::to_nobody()),
            Source::None(error) => Err(error.clone()),
        }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Database");
        match &self.source {
            Source::Own(Own { options, .. }) => shown.field("options", options),
            Source::Deadpool(pool) => shown.field("deadpool", &pool.status()),
            #[cfg(feature = "sqlx")]
            Source::Sqlx(pool) => shown.field("sqlx", &pool.size()),
            Source::None(error) => shown.field("error", error),
        };
        shown.field("timeout", &self.timeout).field("pooled", &self.pooled.get()).finish()
    }
}
