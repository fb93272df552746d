//! Orders from NATS JetStream, each billed once by any number of processes. There are a stream
//! `ORDERS` with a durable pull consumer `billing`, and a stream that has the subject
//! `dead.billing`.
//!
//! `cargo run --example orders_from_nats nats://127.0.0.1:4222 redis://127.0.0.1/`

use hapax_message::Described;
use hapax_nats::{JetStream, JetStreamOptions, Message};
use hapax_redis::{RedisOptions, RedisStore};
use hapax_store::TieredDedup;
use hapax_stream::{Consumer, Delivery};
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(nats), Some(redis)) = (arguments.next(), arguments.next()) else {
        return Err("expected NATS_URL REDIS_URL".into());
    };
    let context = async_nats::jetstream::new(async_nats::connect(nats).await?);
    let billing = context.get_consumer_from_stream("billing", "ORDERS").await?;
    let orders = JetStream::new(context, billing, JetStreamOptions::new("dead.billing")).await?;
    let store = RedisStore::connect(RedisOptions::single(redis, "billing")).await?;
    // Longer than the stream keeps its messages.
    let engine = TieredDedup::builder(store).retention(Duration::from_secs(7 * 24 * 3_600)).build().await?;
    let consumer = Consumer::builder("billing", engine, |order: &Message| order.id().map(|id| id.into_owned()))
        .handler_timeout(Duration::from_secs(60))
        .build()?;
    let bill = |order: Delivery<Message>| async move {
        println!("bill {} with token {:?}", String::from_utf8_lossy(&order.payload), order.token());
        Ok::<(), std::io::Error>(())
    };
    let interrupted = async { drop(tokio::signal::ctrl_c().await) };
    println!("{:?}", consumer.run(&orders, bill, interrupted).await?);
    Ok(())
}
