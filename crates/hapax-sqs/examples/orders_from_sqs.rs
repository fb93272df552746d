//! Orders from a queue of Amazon SQS, each billed once by any number of processes, against a server
//! on loopback that has the queues `orders` and `orders-dead` already.
//!
//! `cargo run --example orders_from_sqs http://127.0.0.1:5000 redis://127.0.0.1/`

use aws_sdk_sqs::config::{Config, Credentials, Region};
use hapax_message::Described;
use hapax_redis::{RedisOptions, RedisStore};
use hapax_sqs::{Message, Sqs, SqsOptions};
use hapax_store::TieredDedup;
use hapax_stream::{Consumer, Delivery};
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(endpoint), Some(redis)) = (arguments.next(), arguments.next()) else {
        return Err("expected ENDPOINT REDIS_URL".into());
    };
    // (In production: `Client::new(&aws_config::load_from_env().await)`.)
    let config = Config::builder().endpoint_url(&endpoint).region(Region::new("us-east-1"));
    let config = config.credentials_provider(Credentials::new("nobody", "nothing", None, None, "loopback"));
    let config = config.http_client(aws_smithy_http_client::Builder::new().build_http()).behavior_version_latest();
    let client = aws_sdk_sqs::Client::from_conf(config.build());
    let queue = format!("{endpoint}/123456789012/orders");
    let orders = Sqs::new(client, SqsOptions::new(&queue, format!("{queue}-dead"))).await?;
    let store = RedisStore::connect(RedisOptions::single(redis, "billing")).await?;
    // SQS keeps messages for up to 14 days.
    let engine = TieredDedup::builder(store).retention(Duration::from_secs(15 * 24 * 3_600)).build().await?;
    let number = |order: &Message| order.header("order-number").map(str::to_owned); // the producer gave it
    let consumer = Consumer::builder("billing", engine, number).handler_timeout(Duration::from_secs(60)).build()?;
    let bill = |order: Delivery<Message>| async move {
        println!("bill {} with token {:?}", order.body().unwrap_or_default(), order.token());
        Ok::<(), std::io::Error>(())
    };
    let interrupted = async { drop(tokio::signal::ctrl_c().await) };
    println!("{:?}", consumer.run(&orders, bill, interrupted).await?);
    Ok(())
}
