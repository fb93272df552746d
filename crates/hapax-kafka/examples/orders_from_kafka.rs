//! Orders from a topic of Kafka, each billed once by any number of processes of the group
//! `billing`. What cannot be billed goes to the topic `orders.dead`.
//!
//! `cargo run --example orders_from_kafka 127.0.0.1:9092 redis://127.0.0.1/`

use hapax_kafka::rdkafka::ClientConfig;
use hapax_kafka::{KafkaMessage, KafkaOptions, KafkaSource};
use hapax_message::Described;
use hapax_redis::{RedisOptions, RedisStore};
use hapax_store::TieredDedup;
use hapax_stream::{Consumer, Delivery};
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(brokers), Some(redis)) = (arguments.next(), arguments.next()) else {
        return Err("expected BROKERS REDIS_URL".into());
    };
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("group.id", "billing");
    let orders = KafkaSource::subscribe(&config, &["orders"], KafkaOptions::new())?;
    let store = RedisStore::connect(RedisOptions::single(redis, "billing")).await?;
    // Longer than the topic keeps its messages.
    let engine = TieredDedup::builder(store).retention(Duration::from_secs(7 * 24 * 3_600)).build().await?;
    let consumer = Consumer::builder("billing", engine, |order: &KafkaMessage| order.id().map(|id| id.into_owned()))
        .in_order_by(|order: &KafkaMessage| order.key().map(<[u8]>::to_vec))
        .handler_timeout(Duration::from_secs(60))
        .build()?;
    let bill = |order: Delivery<KafkaMessage>| async move {
        println!("bill {} with token {:?}", String::from_utf8_lossy(order.payload()), order.token());
        Ok::<(), std::io::Error>(())
    };
    let interrupted = async { drop(tokio::signal::ctrl_c().await) };
    println!("{:?}", consumer.run(&orders, bill, interrupted).await?);
    orders.close().await;
    Ok(())
}
