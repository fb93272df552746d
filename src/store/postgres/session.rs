//! Connections: how they are had, and when they are given back.

use super::errors::{failed, unconnected};
use super::names::Names;
use super::options::PostgresOptions;
use super::{BACKEND, statements};
use crate::store::{ErrorKind, StoreError};
use deadpool_postgres::{Client, Hook, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use std::time::Duration;
use tokio_postgres::types::ToSql;
use tokio_postgres::{NoTls, Row, Statement};

/// The values of a statement.
pub(super) type Values<'v> = &'v [&'v (dyn ToSql + Sync)];

/// A connection keeps so many statements prepared: with a table for each scope, there are a few for each.
const PREPARED_MAX: usize = 512;

/// The pool.
pub(super) fn pool(options: &PostgresOptions) -> Result<Pool, StoreError> {
    // Fast: only whether it is closed. Whatever else may be wrong with a connection shows when it is used.
    let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    #[cfg(feature = "tls")]
    let manager = match &options.tls {
        Some(roots) => Manager::from_config(options.config.clone(), super::tls::Connector::new(roots)?, config),
        None => Manager::from_config(options.config.clone(), NoTls, config),
    };
    #[cfg(not(feature = "tls"))]
    let manager = Manager::from_config(options.config.clone(), NoTls, config);
    let session = statements::session(options.timeout.as_millis());
    Pool::builder(manager)
        .max_size(options.connections)
        .wait_timeout(Some(options.timeout))
        .create_timeout(Some(options.timeout.max(Duration::from_secs(5))))
        .runtime(Runtime::Tokio1)
        .post_create(Hook::async_fn(move |client, _| {
            let session = session.clone();
            Box::pin(async move { client.batch_execute(&session).await.map_err(deadpool_postgres::HookError::Backend) })
        }))
        .build()
        .map_err(|error| StoreError::caused(ErrorKind::Misconfigured, BACKEND, "expected a pool", error))
}

/// A connection for one call. It goes back into the pool if the call says that it came to its end, and is closed
/// otherwise: a call that failed or was cancelled may have left a transaction open, or answers that nobody has read.
pub(super) struct Session<'s> {
    client: Option<Client>,
    names: &'s Names,
}

impl<'s> Session<'s> {
    pub(super) async fn open(pool: &Pool, names: &'s Names) -> Result<Self, StoreError> {
        let client = pool.get().await.map_err(|error| unconnected(names, error))?;
        if client.statement_cache.size() > PREPARED_MAX {
            client.statement_cache.clear();
        }
        Ok(Session { client: Some(client), names })
    }

    fn client(&self) -> &Client {
        self.client.as_ref().expect("a session has its client until `finish` consumes it")
    }

    /// The connection has nothing open.
    pub(super) fn finish(mut self) {
        // Drops it into the pool.
        self.client.take();
    }

    pub(super) async fn prepare(&self, sql: &str) -> Result<Statement, StoreError> {
        self.client().prepare_cached(sql).await.map_err(|error| failed("prepare a statement", self.names, error))
    }

    /// Statements without values, one after the other.
    pub(super) async fn batch(&self, doing: &str, sql: &str) -> Result<(), StoreError> {
        self.client().batch_execute(sql).await.map_err(|error| failed(doing, self.names, error))
    }

    /// One statement, in a transaction of its own or the one that is open.
    pub(super) async fn query(&self, doing: &str, sql: &str, values: Values<'_>) -> Result<Vec<Row>, StoreError> {
        let statement = self.prepare(sql).await?;
        self.client().query(&statement, values).await.map_err(|error| failed(doing, self.names, error))
    }

    /// One statement that is asked once, and whether its only value is true.
    pub(super) async fn ask_once(&self, doing: &str, sql: &str) -> Result<bool, StoreError> {
        let row = self.client().query_one(sql, &[]).await;
        row.and_then(|row| row.try_get(0)).map_err(|error| failed(doing, self.names, error))
    }

    /// A statement behind `before` and in front of `after`, in one round trip: all is sent before an answer is awaited.
    /// Whatever comes behind a statement that fails is not done by the server; the first failure is the error.
    pub(super) async fn between(
        &self,
        doing: &str,
        before: &str,
        (statement, values): (&Statement, Values<'_>),
        after: &str,
    ) -> Result<Vec<Row>, StoreError> {
        let client = self.client();
        let rows = async {
            let (before, rows, after) = tokio::join!(
                biased;
                in_order(client, before),
                client.query(statement, values),
                in_order(client, after),
            );
            before?;
            let rows = rows?;
            after?;
            Ok(rows)
        };
        rows.await.map_err(|error| failed(doing, self.names, error))
    }
}

/// Nothing at all, if there is nothing to be said.
async fn in_order(client: &Client, sql: &str) -> Result<(), tokio_postgres::Error> {
    match sql {
        "" => Ok(()),
        sql => client.batch_execute(sql).await,
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            drop(Client::take(client));
        }
    }
}
