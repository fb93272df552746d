//! Tables and streams. It may run any number of times.

use crate::{Failed, TOPIC, jetstream, pool, tables};
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::stream;
use hapax_postgres::{PostgresOptions, PostgresStore};
use std::time::Duration;

/// Orders; and bills, of which nothing but the mark of a message keeps an order from having two.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, customer text NOT NULL, cents bigint NOT NULL);
    CREATE TABLE IF NOT EXISTS bills (order_id text NOT NULL, cents bigint NOT NULL);
";

/// Makes tables, streams and the consumer, if they are not there.
///
/// # Errors
///
/// Those of database and broker.
pub async fn run(database: &str, nats: &str) -> Result<(), Failed> {
    let client = pool(database)?.get().await?;
    client.batch_execute(TABLES).await?;
    tables()?.migrate(&client).await?;
    PostgresStore::new(PostgresOptions::parse(database)?, "orders_keys")?.migrate().await?;

    let context = jetstream(nats).await?;
    let orders = stream::Config { name: "ORDERS".into(), subjects: vec![TOPIC.into()], ..stream::Config::default() };
    let orders = context.get_or_create_stream(orders).await?;
    let dead = stream::Config { name: "DEAD".into(), subjects: vec!["dead.>".into()], ..stream::Config::default() };
    context.get_or_create_stream(dead).await?;
    let billing = pull::Config {
        durable_name: Some("billing".into()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: Duration::from_secs(2),
        ..pull::Config::default()
    };
    orders.get_or_create_consumer("billing", billing).await?;
    Ok(())
}
