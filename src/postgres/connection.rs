//! A connection of a worker's or a relay's own, which is told of new messages.

use super::errors::failed;
use super::statements;
use super::tables::{Queue, Tables};
use crate::store::{ErrorKind, PostgresOptions, StoreError};
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_postgres::tls::TlsStream;
use tokio_postgres::{AsyncMessage, Client, NoTls, Socket};

/// Closed when it is dropped, so that nothing of it goes on.
pub(super) struct Connection {
    pub client: Client,
    /// Notified when there may be something new, and when the connection has ended.
    pub woken: Arc<Notify>,
    driver: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// How much longer than it was told to take we wait for an answer: the server should be the one to say that it has none.
const GRACE: Duration = Duration::from_secs(1);

/// An answer in time, or the server is taken for gone.
pub(super) async fn in_time<A>(
    options: &PostgresOptions,
    doing: &str,
    call: impl Future<Output = Result<A, StoreError>>,
) -> Result<A, StoreError> {
    let limit = options.timeout + GRACE;
    tokio::time::timeout(limit, call).await.unwrap_or_else(|_| {
        let what = format!("expected an answer to {doing} within {limit:?}");
        Err(StoreError::new(ErrorKind::Timeout, super::BACKEND, what))
    })
}

impl Connection {
    /// Connects, looks at the tables' version, and listens. The server ends what lasts longer than a lease: a statement,
    /// or a transaction whose client says nothing any more.
    pub(super) async fn open(
        options: &PostgresOptions,
        tables: &Tables,
        queue: Queue,
        lease: Duration,
    ) -> Result<Self, StoreError> {
        in_time(options, "connect", async {
            let connection = Self::connect(options).await?;
            tables.check(&connection.client).await?;
            let lease_ms = lease.as_millis();
            let session = format!(
                "SET client_min_messages = warning; SET statement_timeout = {lease_ms}; \
                 SET idle_in_transaction_session_timeout = {lease_ms}; {}",
                statements::listen(tables, queue)
            );
            connection.client.batch_execute(&session).await.map_err(|error| failed("listen", error))?;
            Ok(connection)
        })
        .await
    }

    async fn connect(options: &PostgresOptions) -> Result<Self, StoreError> {
        #[cfg(feature = "tls")]
        if let Some(roots) = &options.tls {
            let connector = crate::store::postgres::tls::Connector::new(roots)?;
            let connected = options.config.connect(connector).await;
            return connected.map(Self::driven).map_err(|error| failed("connect", error));
        }
        options.config.connect(NoTls).await.map(Self::driven).map_err(|error| failed("connect", error))
    }

    fn driven<T>((client, mut connection): (Client, tokio_postgres::Connection<Socket, T>)) -> Self
    where
        T: TlsStream + Unpin + Send + 'static,
    {
        let woken = Arc::new(Notify::new());
        let wakes = Arc::clone(&woken);
        let driver = tokio::spawn(async move {
            // An error ends the connection, and whoever asks gets to know it.
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                if matches!(message, AsyncMessage::Notification(_)) {
                    wakes.notify_one();
                }
            }
            drop(connection);
            wakes.notify_one();
        });
        Connection { client, woken, driver }
    }
}
