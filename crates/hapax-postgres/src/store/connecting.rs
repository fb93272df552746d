//! Makes connections, and detects a pooler of transactions in between.
//!
//! Behind such a pooler each transaction may be on another connection of the server, and a
//! session's state (settings, prepared statements) is left to other clients. So nothing is ever
//! `SET` for a session. A connection asks for its settings in its first message (`options`), which
//! a server obeys and which no pooler of transactions can: pgbouncer and others refuse or ignore
//! it. Where that happens, each transaction brings its settings along, and no statement has a name.

use super::options::{Connector, PostgresOptions};
use super::{BACKEND, statements};
use deadpool_postgres::{Connect, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use hapax_store::{ErrorKind, StoreError};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Error, SimpleQueryMessage};

use hapax_store::sync::{Ordering, StdAtomicBool};

/// A flag that transactions are pooled in between. Once true, it remains so: the way of working
/// behind a pooler is right without one, too.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pooled(Arc<StdAtomicBool>);

impl Pooled {
    pub(crate) fn new(is_pooled: bool) -> Self {
        Pooled(Arc::new(StdAtomicBool::new(is_pooled)))
    }

    // Relaxed: nothing else is published with it.
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn found(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns true for an error that only arises where the server does not know a prepared statement
/// of this session, or knows another one by its name.
pub(crate) fn is_anothers_session(state: &SqlState) -> bool {
    matches!(*state, SqlState::INVALID_SQL_STATEMENT_NAME | SqlState::DUPLICATE_PSTATEMENT)
}

/// Returns a pool of this many connections, each of which asks for these settings in its first
/// message.
pub(crate) fn pool(
    options: &PostgresOptions,
    connections: usize,
    settings: String,
    pooled: Pooled,
) -> Result<Pool, StoreError> {
    let connecting = Connecting { tls: options.connector()?, options: settings, pooled };
    // Fast: checks only that it is not closed. Any other fault of a connection shows when it is
    // used.
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_connect(options.config.clone(), connecting, recycling);
    Pool::builder(manager)
        .max_size(connections)
        .wait_timeout(Some(options.timeout))
        .create_timeout(Some(options.timeout.max(Duration::from_secs(5))))
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|error| StoreError::caused(ErrorKind::Misconfigured, BACKEND, "expected a pool", error))
}

/// A connection of a pool. It goes back if `finish` reports that nothing is open on it, and is
/// closed otherwise: a call that failed or was cancelled may have left a transaction open, or
/// answers unread.
pub(crate) struct Held(Option<deadpool_postgres::Client>);

impl Held {
    pub(crate) fn new(client: deadpool_postgres::Client) -> Self {
        Held(Some(client))
    }

    pub(crate) fn finish(mut self) {
        // Drops it into the pool.
        self.0.take();
    }
}

impl std::ops::Deref for Held {
    type Target = deadpool_postgres::Client;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref().expect("a client is held until `finish` consumes this")
    }
}

impl std::ops::DerefMut for Held {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.0.as_mut().expect("a client is held until `finish` consumes this")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            drop(deadpool_postgres::Client::take(client));
        }
    }
}

/// A connection, and the task that drives it.
pub(crate) type Driven = (Client, JoinHandle<()>);

/// The maker of connections.
struct Connecting {
    tls: Connector,
    /// Settings for a connection's first message.
    options: String,
    pooled: Pooled,
}

impl Connect for Connecting {
    fn connect(&self, config: &Config) -> Pin<Box<dyn Future<Output = Result<Driven, Error>> + Send + '_>> {
        let config = config.clone();
        Box::pin(async move {
            // (Without TLS it can be copied, and a method call is one clone too many.)
            let tls = || Connector::clone(&self.tls);
            if self.pooled.get() {
                return drive(&config, tls()).await;
            }
            let mut with_settings = config.clone();
            let theirs = config.get_options().unwrap_or_default();
            with_settings.options(format!("{theirs} {}", self.options));
            match drive(&with_settings, tls()).await {
                Ok(driven) => {
                    if !has_settings(&driven.0).await? {
                        self.pooled.found();
                    }
                    Ok(driven)
                }
                Err(refused) if may_be_for_settings(&refused) => {
                    let driven = drive(&config, tls()).await?;
                    self.pooled.found();
                    Ok(driven)
                }
                Err(error) => Err(error),
            }
        })
    }
}

pub(crate) async fn drive(config: &Config, tls: Connector) -> Result<Driven, Error> {
    let (client, connection) = config.connect(tls).await?;
    // An error ends the connection, and is reported to the callers that wait on it.
    let driver = tokio::spawn(async move { drop(connection.await) });
    Ok((client, driver))
}

/// Returns true if the server has obeyed a connection's first message.
pub(crate) async fn has_settings(client: &Client) -> Result<bool, Error> {
    let answer = client.simple_query(statements::HAS_SETTINGS).await?;
    Ok(answer.iter().any(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0) == Some("on"),
        _ => false,
    }))
}

/// Returns true for an error that a server never returns for settings that it has, and that poolers
/// return for settings that they do not know: a violated protocol (pgbouncer), a feature that is
/// not supported (proxies of clouds), a wrong value or name.
fn may_be_for_settings(error: &Error) -> bool {
    let code = error.code().map_or("", SqlState::code);
    ["08", "0A", "22", "42"].iter().any(|class| code.starts_with(class))
}
