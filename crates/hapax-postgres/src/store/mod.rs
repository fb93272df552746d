//! Records in PostgreSQL.
//!
//! # Why no id is fresh twice
//!
//! The table is partitioned by *bucket*, a number that grows, so that expired records go by
//! dropping a partition. A key is unique within its partition only; that it is unique at all is due
//! to two rules:
//!
//! 1. *Rows are written into the last bucket only.* A writer holds the table's advisory lock in
//!    shared mode until its transaction has ended, and a new bucket is begun under the same lock in
//!    exclusive mode. So while there are writers, all of them agree on the last bucket, and every
//!    row that was ever inserted into earlier ones has been committed or undone.
//! 2. *An id is inserted only if no earlier bucket has it.* One statement takes the lock and the
//!    next one inserts. So the snapshot of the insertion, which READ COMMITTED takes when a
//!    statement begins, shows all rows that rule 1 speaks of. Within the last bucket the primary
//!    key decides.
//!
//! (PostgreSQL would see to most of rule 1 by itself: to make a partition locks the table, which
//! waits for all transactions that have written to it. But no documentation promises that a
//! statement takes its snapshot only after it has got such a lock.)
//!
//! A record in an earlier bucket that has to change is locked, deleted there, and written into the
//! last bucket, in one transaction. Until that is committed, others see it at its old place, do not
//! insert it, and wait for the lock; then they find it gone, and look again. Thus rows only ever
//! leave a closed bucket. So the latest time in it, found once, remains a bound, and when that time
//! has passed the bucket is dropped, again under the exclusive lock.

mod address;
mod batches;
pub(crate) mod connecting;
mod entries;
pub(crate) mod errors;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
mod inserting;
mod keys;
pub(crate) mod names;
mod operations;
pub(crate) mod options;
pub(crate) mod owned;
mod partitions;
mod rows;
mod schema;
mod scopes;
mod session;
mod statements;
#[cfg(feature = "tls")]
pub(crate) mod tls;

pub use options::{Layout, PostgresOptions};

use hapax_store::backend::times::{Sound, Timed};
use hapax_store::sync::{Ordering, StdAtomicBool};
use hapax_store::*;
use names::{Names, SHARED};
use operations::Operation;
use rows::column;
use scopes::Scopes;
use session::{Connections, Session};
use std::time::Duration;

pub(crate) const BACKEND: &str = "postgres";

/// The time that we wait longer than the server, so that the server is the one to report that the
/// work was not done.
const GRACE: Duration = Duration::from_secs(1);

/// Records in a PostgreSQL server, which any number of processes share.
///
/// ```no_run
/// use hapax_postgres::{PostgresOptions, PostgresStore};
/// use hapax_store::TieredDedup;
/// use std::time::Duration;
///
/// # async fn example() -> Result<(), hapax_store::StoreError> {
/// let options = PostgresOptions::parse("postgres://app@db.internal/app")?;
/// let store = PostgresStore::connect(options, "billing").await?;
/// let dedup = TieredDedup::builder(store).retention(Duration::from_secs(86_400)).build().await?;
/// if dedup.check("order-17").await?.is_fresh() {
///     println!("handle it");
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// *Time* is the server's: leases and retentions begin and end by its `clock_timestamp()`, to the
/// microsecond. Tokens are its microseconds since 1970: if its clock is set back, a claim of an id
/// of which nothing is left may get a smaller token than an earlier one.
///
/// *Durability* is that of a commit: with `synchronous_commit = on`, the server's default, what was
/// acknowledged survives a crash, and a failover if a standby is synchronous. With
/// `synchronous_commit = off` (for a role: `ALTER ROLE … SET`) a crash loses the last marks,
/// those of about three times `wal_writer_delay`, and those messages are fresh again when they are
/// redelivered.
///
/// *Isolation*: a call waits for a record only if others create or change the same one, and for a
/// rotation, which stops writers for some milliseconds, once per
/// [partition](PostgresOptions::partition). A transaction that reads for long keeps partitions from
/// being dropped, and nobody waits for it.
///
/// # What it needs
///
/// PostgreSQL 14 or later, a UTF-8 database, no extension, no superuser.
/// [`migrate`](Self::migrate), [`expire`](Store::expire), and in the layout [`Layout::PerScope`]
/// the first write to a new scope make and drop tables: their role owns the tables and has `CREATE`
/// on the schema. All others need `SELECT`, `INSERT`, `UPDATE` and `DELETE` on them.
///
/// *A pooler* may be in between, also one of transactions, as pgbouncer with `pool_mode =
/// transaction`. The store detects it with the first connection, or is told so
/// ([`PostgresOptions::pooled`]). Then nothing is left on the server's connections: settings are
/// local to a transaction, and no statement is prepared under a name. In return each statement is
/// planned each time. Poolers of single statements do not work: a batch is a transaction. Locks are
/// those of transactions, and nothing listens, so a session would have nothing else to keep.
///
/// Call [`expire`](Store::expire) regularly from one process or several. Until it is called,
/// partitions grow and nothing is dropped.
///
/// # Errors
///
/// [`ErrorKind::Unavailable`] and [`ErrorKind::Timeout`] when the server cannot be reached, is
/// shutting down, reads only, or is late; [`ErrorKind::Misconfigured`] for a wrong password or
/// database, a lack of permission, and tables that are not there or of another layout;
/// [`ErrorKind::Conflict`] if another client's long transaction was in the way of what has expired,
/// and that was put off; [`ErrorKind::Corrupt`] for rows that hapax could not have written. The
/// store never repeats a request by itself. A call that failed or was dropped closes its
/// connection. A prepared statement that is gone, or one of its name that belongs to another client
/// (SQLSTATE 26000, 42P05), is `Unavailable`: none is used from then on.
///
/// # Cost
///
/// Marks and claims of fresh ids take one round trip and one transaction a batch. Those of
/// duplicates take another one that only reads. Every change of a record takes two. An id of 16
/// bytes takes about 122 bytes with its index. Each look-up of an id takes a probe of each
/// partition; a mark of a new id, of each earlier partition. Results are up to 64 MiB each.
///
/// Ideas: batches by `unnest`; partitions that are dropped instead of deleting rows; a lock order
/// against deadlocks, Havender 1968; fencing tokens, Burrows, OSDI 2006.
pub struct PostgresStore {
    options: PostgresOptions,
    names: Names,
    connections: Connections,
    scopes: Scopes,
    /// True once the tables were checked.
    checked: StdAtomicBool,
}

impl PostgresStore {
    /// Connects, and makes the tables that are not there: [`new`](Self::new) and
    /// [`migrate`](Self::migrate).
    ///
    /// # Errors
    ///
    /// Those of both.
    pub async fn connect(options: PostgresOptions, namespace: &str) -> Result<Self, StoreError> {
        let store = PostgresStore::new(options, namespace)?;
        store.migrate().await?;
        Ok(store)
    }

    /// Creates a store that connects at the first call.
    ///
    /// Its *namespace* is the beginning of the names of its tables, as `orders`, or `app.orders` in
    /// a schema that is not `public`. Services that share a database have different ones: with one
    /// namespace each takes the other's ids for its own.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if the options are invalid, or the namespace is not
    /// `[a-z_][a-z0-9_]{0,40}`, with or without a schema of that form.
    pub fn new(options: PostgresOptions, namespace: &str) -> Result<Self, StoreError> {
        let names = Names::of(namespace)?;
        let connections = Connections::new(&options, &names)?;
        let (scopes, checked) = (Scopes::default(), StdAtomicBool::new(false));
        Ok(PostgresStore { options, names, connections, scopes, checked })
    }

    /// Makes the tables that are not there. Any number of processes may do so at once.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if the role lacks the permission, or the tables exist in the
    /// other layout.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        self.in_time(async {
            let mut session = self.connections.session().await?;
            // A role that may not make tables may call this, too, once there is nothing to make.
            // What is no table may run code of somebody else's when it is read.
            let is_there = self.is_there(&session).await? && self.version(&session).await.is_ok();
            if !is_there {
                drop(session);
                session = self.connections.session().await?;
                let made = schema::migrations(session.settings(), &self.names, self.options.layout);
                session.batch("make tables", &made).await?;
            }
            self.check(&session).await?;
            session.finish();
            Ok(())
        })
        .await
    }

    /// Returns the SQL that [`migrate`](Self::migrate) would run, for users that make tables by
    /// other means. It may be run any number of times.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if the namespace is none.
    ///
    /// ```
    /// use hapax_postgres::{PostgresOptions, PostgresStore};
    ///
    /// let sql = PostgresStore::migrations(&PostgresOptions::parse("host=localhost")?, "orders")?;
    /// assert!(sql.contains("CREATE TABLE IF NOT EXISTS \"public\".\"orders_records\""));
    /// # Ok::<(), hapax_store::StoreError>(())
    /// ```
    pub fn migrations(options: &PostgresOptions, namespace: &str) -> Result<String, StoreError> {
        Ok(schema::migrations("", &Names::of(namespace)?, options.layout))
    }

    /// Returns a connection to tables that were checked.
    async fn session(&self) -> Result<Session<'_>, StoreError> {
        let session = self.connections.session().await?;
        if !self.checked.load(Ordering::Relaxed) {
            self.check(&session).await?;
        }
        Ok(session)
    }

    async fn check(&self, session: &Session<'_>) -> Result<(), StoreError> {
        let expected = (schema::VERSION, self.options.layout.name());
        let (version, layout) = self.version(session).await?;
        if (version, layout.as_str()) != expected {
            let what = format!(
                "expected tables {} of version {} with the layout {:?}, got version {version} with {layout:?}",
                self.names.shown(),
                expected.0,
                expected.1,
            );
            return Err(errors::misconfigured(what));
        }
        self.checked.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn is_there(&self, session: &Session<'_>) -> Result<bool, StoreError> {
        let rows = session.query("look for tables", &statements::is_there(&self.names), &[]).await?;
        column(partitions::one(&rows)?, "is_table")
    }

    async fn version(&self, session: &Session<'_>) -> Result<(i32, String), StoreError> {
        let rows = session.query("look at the version", &statements::version(&self.names), &[]).await?;
        match rows.first() {
            Some(row) => Ok((column(row, "version")?, column(row, "layout")?)),
            None => Ok((0, String::new())),
        }
    }

    /// Ends a call that takes longer than the server may, plus a little.
    async fn in_time<A>(&self, call: impl Future<Output = Result<A, StoreError>>) -> Result<A, StoreError> {
        let limit = self.options.timeout + GRACE;
        tokio::time::timeout(limit, call).await.unwrap_or_else(|_| Err(errors::unanswered_in(limit, "a call")))
    }

    /// Runs an operation on those requests whose times can be.
    async fn sound<R: Timed, A>(&self, operation: &Operation<R, A>, requests: &[R]) -> Answers<A> {
        let asked = Sound::of(requests);
        let answers = self.in_time(self.run(operation, asked.requests())).await;
        asked.answers(answers)
    }
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore")
            .field("names", &self.names)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Store for PostgresStore {
    fn backend(&self) -> &'static str {
        BACKEND
    }

    /// Allows as many batches under way as there are connections, up to four: more would only wait
    /// for each other.
    fn limits(&self) -> Limits {
        Limits::batches_of(1_024).under_way(self.options.connections_or_few().min(4))
    }

    async fn mark(&self, marks: &[Mark]) -> Answers<Marked> {
        self.sound(&operations::MARK, marks).await
    }

    async fn unmark(&self, marks: &[Unmark]) -> Answers<Unmarked> {
        self.in_time(self.run(&operations::UNMARK, marks)).await
    }

    async fn claim(&self, claims: &[ClaimRequest]) -> Answers<Claimed> {
        self.sound(&operations::CLAIM, claims).await
    }

    async fn complete(&self, completions: &[Completion]) -> Answers<Held> {
        self.sound(&operations::COMPLETE, completions).await
    }

    async fn release(&self, holds: &[Hold]) -> Answers<Held> {
        self.in_time(self.run(&operations::RELEASE, holds)).await
    }

    async fn fail(&self, failures: &[ClaimFailure]) -> Answers<Held> {
        self.sound(&operations::FAIL, failures).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Answers<Held> {
        self.sound(&operations::RENEW, renewals).await
    }

    async fn look_up(&self, keys: &[RecordKey]) -> Answers<Known> {
        self.in_time(self.run(&operations::LOOK_UP, keys)).await
    }

    async fn record(&self, records: &[Record]) -> Answers<()> {
        self.sound(&operations::RECORD, records).await
    }

    async fn forget(&self, keys: &[RecordKey]) -> Answers<bool> {
        self.in_time(self.run(&operations::FORGET, keys)).await
    }

    async fn expire(&self, limit: usize) -> Result<Expired, StoreError> {
        self.in_time(self.clean_up(limit)).await
    }

    async fn scan(&self, from: Option<&Cursor>, limit: usize) -> Result<Page, StoreError> {
        self.in_time(self.page(from, limit)).await.map(Page::of)
    }
}

impl Inspect for PostgresStore {
    async fn inspect(&self, keys: &[RecordKey]) -> Answers<Option<Inspected>> {
        self.in_time(self.run(&operations::INSPECT, keys)).await
    }

    async fn list(&self, from: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        self.in_time(self.page(from, limit)).await
    }
}
