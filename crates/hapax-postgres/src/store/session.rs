//! Connections: taken from the pool, and given back.

use super::connecting::{self, Held, Pooled, is_anothers_session};
use super::errors::{failed, unconnected};
use super::names::Names;
use super::options::PostgresOptions;
use super::statements;
use deadpool_postgres::{Client, Pool};
use hapax_store::StoreError;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row, SimpleQueryMessage, Statement};

/// The values of a statement, and their types: a statement without a name is told them.
pub(super) type Values<'v> = &'v [(&'v (dyn ToSql + Sync), Type)];

/// The number of prepared statements that a connection keeps: with a table for each scope, there
/// are a few for each.
const PREPARED_MAX: usize = 512;

/// Connections to a server, and what is known of the way to it.
pub(super) struct Connections {
    pool: Pool,
    pooled: Pooled,
    /// The tables, as errors name them.
    tables: String,
    /// The beginning of a transaction where a session's settings are not its own.
    local: String,
}

impl Connections {
    pub(super) fn new(options: &PostgresOptions, names: &Names) -> Result<Self, StoreError> {
        let timeout_ms = options.timeout.as_millis();
        let pooled = Pooled::new(options.pooled);
        let startup = statements::startup_options(timeout_ms);
        let pool = connecting::pool(options, options.connections_or_few(), startup, pooled.clone())?;
        let tables = format!("the tables {}, which PostgresStore::migrate makes", names.shown());
        Ok(Connections { pool, pooled, tables, local: statements::local(timeout_ms) })
    }

    /// Returns a connection for one call.
    pub(super) async fn session(&self) -> Result<Session<'_>, StoreError> {
        let client = self
            .pool
            .get()
            .await
            .map_err(|error| unconnected(error, |error| failed("connect", &self.tables, error)))?;
        if client.statement_cache.size() > PREPARED_MAX {
            client.statement_cache.clear();
        }
        Ok(Session { client: Held::new(client), is_pooled: self.pooled.get(), connections: self })
    }
}

/// A connection for one call. It goes back into the pool if the call reports that it came to its
/// end, and is closed otherwise: a call that failed or was cancelled may have left a transaction
/// open, or answers unread.
pub(super) struct Session<'s> {
    client: Held,
    is_pooled: bool,
    connections: &'s Connections,
}

impl Session<'_> {
    /// Gives the connection back: nothing is open on it.
    pub(super) fn finish(self) {
        self.client.finish();
    }

    /// Returns the settings that a transaction has to begin with, behind `BEGIN`, unless they are
    /// the session's.
    pub(super) fn settings(&self) -> &str {
        if self.is_pooled { &self.connections.local } else { "" }
    }

    /// Prepares a statement for later, where prepared statements last.
    pub(super) async fn prepare(&self, sql: &str) -> Result<(), StoreError> {
        self.prepared(sql).await.map(drop).map_err(|error| self.failed("prepare a statement", error))
    }

    /// Returns the prepared statement, where names last.
    async fn prepared(&self, sql: &str) -> Result<Option<Statement>, Error> {
        if self.is_pooled { Ok(None) } else { self.client.prepare_cached(sql).await.map(Some) }
    }

    /// Runs statements without values, one after the other.
    pub(super) async fn batch(&self, doing: &str, sql: &str) -> Result<(), StoreError> {
        self.client.batch_execute(sql).await.map_err(|error| self.failed(doing, error))
    }

    /// Runs statements without values, one after the other. Returns the first value of this column.
    pub(super) async fn batch_answer(
        &self,
        doing: &str,
        sql: &str,
        column: &str,
    ) -> Result<Option<String>, StoreError> {
        let messages = self.client.simple_query(sql).await.map_err(|error| self.failed(doing, error))?;
        Ok(messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.try_get(column).ok().flatten().map(str::to_owned),
            _ => None,
        }))
    }

    /// Runs one statement without values that is not worth keeping prepared, in a transaction of
    /// its own.
    pub(super) async fn ask(&self, doing: &str, sql: &str) -> Result<Vec<Row>, StoreError> {
        let client = &*self.client;
        let (before, after) =
            if self.is_pooled { (statements::begin_plain(self.settings()), "COMMIT") } else { (String::new(), "") };
        let (before, rows, after) =
            tokio::join!(biased; in_order(client, &before), client.query_typed(sql, &[]), in_order(client, after));
        before.and(rows).and_then(|rows| after.map(|()| rows)).map_err(|error| self.failed(doing, error))
    }

    /// Runs one statement in a transaction of its own.
    pub(super) async fn query(&self, doing: &str, sql: &str, values: Values<'_>) -> Result<Vec<Row>, StoreError> {
        if self.is_pooled {
            self.between(doing, &statements::begin_plain(self.settings()), (sql, values), "COMMIT").await
        } else {
            self.between(doing, "", (sql, values), "").await
        }
    }

    /// Runs a statement behind `before` and in front of `after`, in one round trip: all is sent
    /// before an answer is awaited. The server does nothing that comes behind a failed statement;
    /// the first failure is the error.
    pub(super) async fn between(
        &self,
        doing: &str,
        before: &str,
        (sql, values): (&str, Values<'_>),
        after: &str,
    ) -> Result<Vec<Row>, StoreError> {
        let client = &*self.client;
        let rows = async {
            let statement = self.prepared(sql).await?;
            let query = async {
                match &statement {
                    Some(statement) => {
                        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|(value, _)| *value).collect();
                        client.query(statement, &values).await
                    }
                    None => client.query_typed(sql, values).await,
                }
            };
            let (before, rows, after) = tokio::join!(biased; in_order(client, before), query, in_order(client, after));
            before?;
            let rows = rows?;
            after?;
            Ok(rows)
        };
        rows.await.map_err(|error| self.failed(doing, error))
    }

    /// Returns the store's error, and notes what it says about the way to the server.
    fn failed(&self, doing: &str, error: Error) -> StoreError {
        if error.code().is_some_and(is_anothers_session) {
            self.connections.pooled.found();
        }
        failed(doing, &self.connections.tables, error)
    }
}

/// Sends nothing at all if the text is empty.
async fn in_order(client: &Client, sql: &str) -> Result<(), tokio_postgres::Error> {
    match sql {
        "" => Ok(()),
        sql => client.batch_execute(sql).await,
    }
}
