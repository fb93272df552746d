//! Orders from a RabbitMQ queue, each billed once, by any number of processes of one machine, which
//! share a file.
//!
//! `cargo run --bin rabbitmq amqp://127.0.0.1:5672/%2f billing.db ledger.txt`, where there is a
//! queue `orders` with a dead letter exchange.

use hapax_brokers::rabbitmq::{RabbitMq, message_id};
use hapax_brokers::{Failed, Ledger, arguments, interrupted};
use hapax_sqlite::SqliteStore;
use hapax_store::TieredDedup;
use hapax_stream::{Consumer, Delivery};
use std::sync::Arc;
use std::time::Duration;

/// The number of orders that are billed at a time.
const IN_FLIGHT: u16 = 8;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let [url, database, ledger] = arguments(["AMQP_URL", "DATABASE", "LEDGER"])?;
    let interrupted = interrupted()?;
    let orders = RabbitMq::connect(&url, "orders", 2 * IN_FLIGHT).await?;

    let billed = TieredDedup::builder(SqliteStore::open(database).await?)
        .retention(Duration::from_secs(7 * 24 * 3600))
        .lease(Duration::from_secs(1)) // renewed while the handler runs; so long orders wait after a crash
        .build()
        .await?;
    let consumer = Consumer::builder(billed, message_id)
        .max_in_flight(IN_FLIGHT.into())
        .handler_timeout(Duration::from_secs(60)) // the broker itself closes the channel after half an hour
        .max_attempts(3)
        .retry_delay(Duration::from_millis(50), Duration::from_secs(1))
        .build()?;

    let ledger = Arc::new(Ledger::open(ledger)?);
    let bill = move |order: Delivery<lapin::message::Delivery>| {
        let ledger = Arc::clone(&ledger);
        async move { ledger.work(&message_id(&order).unwrap_or_default(), order.token()).await }
    };
    let stats = consumer.run(&orders, bill, interrupted).await?;
    println!("{stats:?}");
    Ok(orders.close().await?)
}
