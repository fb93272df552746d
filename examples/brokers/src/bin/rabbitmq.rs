//! Orders from a RabbitMQ queue, each billed once, by any number of processes of one machine, which
//! share a file.
//!
//! `cargo run --bin rabbitmq amqp://127.0.0.1:5672/%2f billing.db ledger.txt`, where there are
//! queues `orders` and `dead`.

use hapax_brokers::{Failed, Ledger, arguments, interrupted};
use hapax_message::Described;
use hapax_rabbitmq::{Message, RabbitMq, RabbitMqOptions};
use hapax_sqlite::SqliteStore;
use hapax_store::TieredDedup;
use hapax_stream::{Consumer, Delivery};
use lapin::{Connection, ConnectionProperties};
use std::sync::Arc;
use std::time::Duration;

/// The number of orders that are billed at a time.
const IN_FLIGHT: u16 = 8;

fn id(order: &Message) -> Option<String> {
    order.id().and_then(|id| String::from_utf8(id.into_owned()).ok())
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let [url, database, ledger] = arguments(["AMQP_URL", "DATABASE", "LEDGER"])?;
    let interrupted = interrupted()?;
    let connection = Arc::new(Connection::connect(&url, ConnectionProperties::default()).await?);
    let options = RabbitMqOptions::new("orders", "dead").prefetch(2 * IN_FLIGHT);
    let orders = RabbitMq::new(Arc::clone(&connection), options).await?;

    let billed = TieredDedup::builder(SqliteStore::open(database).await?)
        .retention(Duration::from_secs(7 * 24 * 3600))
        .lease(Duration::from_secs(1)) // renewed while the handler runs; so long orders wait after a crash
        .build()
        .await?;
    let consumer = Consumer::builder("billing", billed, id)
        .max_in_flight(IN_FLIGHT.into())
        .handler_timeout(Duration::from_secs(60)) // the broker itself closes the channel after half an hour
        .max_attempts(12)
        .retry_delay(Duration::from_millis(50), Duration::from_secs(1))
        .build()?;

    let ledger = Arc::new(Ledger::open(ledger)?);
    let bill = move |order: Delivery<Message>| {
        let ledger = Arc::clone(&ledger);
        async move { ledger.work(&id(&order).unwrap_or_default(), order.token()).await }
    };
    let stats = consumer.run(&orders, bill, interrupted).await?;
    println!("{stats:?}");
    orders.close().await?;
    Ok(connection.close(200, "".into()).await?)
}
