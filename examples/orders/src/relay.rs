//! The relay: what is in the outbox goes to JetStream, each customer's orders in their order.

use crate::{Failed, jetstream, tables};
use hapax_nats::JetStreamPublisher;
use hapax_postgres::{PostgresOptions, Relay};
use std::sync::Arc;

/// Publishes until it is stopped. Any number of relays may run.
///
/// # Errors
///
/// Those of the database, if it stays away for minutes.
pub async fn run(database: &str, nats: &str, stop: impl Future<Output = ()>) -> Result<(), Failed> {
    let relay = Relay::new(PostgresOptions::parse(database)?, tables()?);
    let publisher = JetStreamPublisher::new(jetstream(nats).await?);
    Ok(relay.run(Arc::new(publisher), stop).await?)
}
