//! Orders from a queue of RabbitMQ, each billed once by any number of processes of one machine. The
//! queues `orders` and `orders-dead` exist already.
//!
//! `cargo run --example orders_from_rabbitmq amqp://127.0.0.1:5672/%2f billing.db`

use hapax_message::Described;
use hapax_rabbitmq::{Message, RabbitMq, RabbitMqOptions};
use hapax_sqlite::SqliteStore;
use hapax_store::TieredDedup;
use hapax_stream::{Consumer, Delivery};
use lapin::{Connection, ConnectionProperties};
use std::{sync::Arc, time::Duration};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(database)) = (arguments.next(), arguments.next()) else {
        return Err("expected AMQP_URL DATABASE".into());
    };
    let connection = Arc::new(Connection::connect(&url, ConnectionProperties::default()).await?);
    let options = RabbitMqOptions::new("orders", "orders-dead").prefetch(128);
    let orders = RabbitMq::new(Arc::clone(&connection), options).await?;
    let store = SqliteStore::open(database).await?;
    let engine = TieredDedup::builder(store).retention(Duration::from_secs(7 * 24 * 3_600)).build().await?;
    let consumer = Consumer::builder("billing", engine, |order: &Message| order.id().map(|id| id.into_owned()))
        .handler_timeout(Duration::from_secs(60)) // the broker closes the channel after half an hour
        .build()?;
    let bill = |order: Delivery<Message>| async move {
        println!("bill {} with token {:?}", String::from_utf8_lossy(&order.data), order.token());
        Ok::<(), std::io::Error>(())
    };
    let interrupted = async { drop(tokio::signal::ctrl_c().await) };
    println!("{:?}", consumer.run(&orders, bill, interrupted).await?);
    orders.close().await?;
    Ok(connection.close(200, "".into()).await?)
}
