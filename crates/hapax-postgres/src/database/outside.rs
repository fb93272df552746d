//! A connection outside of any pool.

use crate::PostgresOptions;
use crate::errors::{failed, unanswered_in};
use crate::store::connecting;
#[cfg(doc)]
use hapax_store::ErrorKind;
use hapax_store::StoreError;
use std::time::Duration;
use tokio_postgres::Client;

impl PostgresOptions {
    /// Connects once, outside of any pool: for calls that take a [`Client`](crate::Client), as
    /// [`inbox::handled`](crate::inbox::handled). The connection ends when the client is dropped.
    ///
    /// ```no_run
    /// use hapax_postgres::{PostgresOptions, Tables, inbox};
    ///
    /// # async fn example() -> Result<(), hapax_store::StoreError> {
    /// let client = PostgresOptions::parse("postgres://app@db.internal/app")?.connect().await?;
    /// let waiting = inbox::backlog(&client, &Tables::new("public", "shop")?, None).await?;
    /// println!("{} messages wait", waiting.waiting);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Timeout`](ErrorKind::Timeout) if that takes longer than the option
    /// [`timeout`](Self::timeout), or 5 seconds if that is longer;
    /// [`Unavailable`](ErrorKind::Unavailable) if there is no server;
    /// [`Misconfigured`](ErrorKind::Misconfigured) if it refuses the user.
    pub async fn connect(&self) -> Result<Client, StoreError> {
        let limit = self.timeout.max(Duration::from_secs(5));
        let connected = tokio::time::timeout(limit, async {
            let driven = connecting::drive(&self.config, self.connector()?).await;
            driven.map(|(client, _)| client).map_err(|error| failed("connect", error))
        });
        connected.await.unwrap_or_else(|_| Err(unanswered_in(limit, "connect")))
    }
}
