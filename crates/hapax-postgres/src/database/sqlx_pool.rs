//! Connections of a pool of sqlx.

use super::listening::{Listens, SILENCE};
use super::{GRACE, OURS};
use crate::errors::unanswered_in;
use crate::transaction::sqlx_driver::{failed, rows};
use crate::transaction::{Row, Value};
use hapax_store::StoreError;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, PgPool, Postgres};
use std::time::Duration;
use tokio::sync::Notify;

/// A connection of a pool. It goes back if `finish` says that nothing is open on it, and is closed
/// otherwise.
pub(crate) struct Held(Option<PoolConnection<Postgres>>);

impl Held {
    pub(crate) fn connection(&mut self) -> &mut PgConnection {
        self.0.as_mut().expect("a connection is held until `finish` consumes this")
    }

    pub(crate) fn finish(mut self) {
        // Dropping it returns it to the pool.
        self.0.take();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            drop(connection.detach());
        }
    }
}

pub(super) async fn held(pool: &PgPool) -> Result<Held, StoreError> {
    let connection = pool.acquire().await.map_err(|error| failed("connect", error))?;
    Ok(Held(Some(connection)))
}

/// Runs one statement between this beginning and a commit.
pub(crate) async fn call_on(
    connection: &mut PgConnection,
    begin: &str,
    doing: &'static str,
    sql: &str,
    values: &[Value<'_>],
) -> Result<Vec<Row>, StoreError> {
    let called = async {
        connection.execute(sqlx::raw_sql(AssertSqlSafe(begin.to_owned()))).await?;
        let rows = rows(&mut *connection, sql, values).await?;
        connection.execute(sqlx::raw_sql("COMMIT")).await?;
        Ok(rows)
    };
    called.await.map_err(|error| failed(doing, error))
}

/// Connects with the pool's options, and listens.
pub(super) struct Listeners {
    options: PgConnectOptions,
    limit: Duration,
}

impl Listeners {
    pub(super) fn new(pool: &PgPool, timeout: Duration) -> Self {
        Listeners { options: (*pool.connect_options()).clone(), limit: timeout + GRACE }
    }

    /// Returns true if a pooler of transactions is in between: it refuses or ignores the settings
    /// in a connection's first message, as described in `connecting`.
    pub(super) async fn is_pooled(&self) -> Result<bool, StoreError> {
        let ours = self.options.clone().options([OURS]);
        let mut connection = match PgConnection::connect_with(&ours).await {
            Ok(connection) => connection,
            Err(sqlx::Error::Database(refused)) => {
                let code = refused.code().unwrap_or_default();
                if ["08", "0A", "22", "42"].iter().any(|class| code.starts_with(class)) {
                    return Ok(true);
                }
                return Err(failed("connect", sqlx::Error::Database(refused)));
            }
            Err(error) => return Err(failed("connect", error)),
        };
        let sql = format!("SELECT pg_catalog.current_setting('{}', true) AS setting", OURS.0);
        let rows = rows(&mut connection, &sql, &[]).await.map_err(|error| failed("connect", error))?;
        let setting = rows.first().map(|row| row.get::<Option<String>>("setting")).transpose()?;
        let is_pooled = setting.flatten().as_deref() != Some(OURS.1);
        // Closed either way.
        let _ = connection.close().await;
        Ok(is_pooled)
    }

    async fn in_time<A>(&self, call: impl Future<Output = Result<A, sqlx::Error>>) -> Result<A, StoreError> {
        match tokio::time::timeout(self.limit, call).await {
            Ok(answer) => answer.map_err(|error| failed("listen", error)),
            Err(_) => Err(unanswered_in(self.limit, "listen")),
        }
    }
}

impl Listens for Listeners {
    async fn listen(&self, channel: &str, woken: &Notify) -> Result<(), StoreError> {
        let mut listener = self
            .in_time(async {
                let pool = PgPoolOptions::new().max_connections(1).max_lifetime(None).idle_timeout(None);
                let mut listener = PgListener::connect_with(&pool.connect_lazy_with(self.options.clone())).await?;
                listener.eager_reconnect(false);
                listener.listen(channel).await?;
                Ok(listener)
            })
            .await?;
        woken.notify_one();
        loop {
            match tokio::time::timeout(SILENCE, listener.try_recv()).await {
                Ok(Ok(Some(_))) => woken.notify_one(),
                Ok(Ok(None)) => return Ok(()),
                Ok(Err(error)) => return Err(failed("listen", error)),
                Err(_) => self.in_time(listener.execute("")).await.map(drop)?,
            }
        }
    }
}
