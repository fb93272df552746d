//! A consumer over a queue in memory that delivers every message twice, and redelivers early now
//! and then.
//!
//! `cargo run -p hapax-stream --example stream_consumer`

use hapax_store::{InMemoryStore, Ownership, TieredDedup};
use hapax_stream::{Consumer, Delivery, Source};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc};

/// The broker: messages that are given back go to the end of the queue.
struct Queue {
    messages: Mutex<mpsc::UnboundedReceiver<String>>,
    again: mpsc::WeakUnboundedSender<String>,
}

impl Source for Queue {
    type Message = String;
    type Error = Infallible;

    async fn receive(&self, max: usize) -> Result<Option<Vec<String>>, Infallible> {
        let mut batch = Vec::new();
        let received = self.messages.lock().await.recv_many(&mut batch, max).await;
        Ok((received > 0).then_some(batch))
    }

    async fn acknowledge(&self, messages: &[Arc<String>]) -> Result<(), Infallible> {
        messages.iter().for_each(|message| println!("acknowledged {message}"));
        Ok(())
    }

    async fn retry(&self, message: &Arc<String>, after: Duration) -> Result<(), Infallible> {
        println!("again, in {after:?}: {message}");
        if let Some(again) = self.again.upgrade() {
            let message = String::clone(message);
            tokio::spawn(async move {
                tokio::time::sleep(after).await;
                let _ = again.send(message);
            });
        }
        Ok(())
    }

    async fn dead_letter(&self, message: &Arc<String>, why: &str) -> Result<(), Infallible> {
        println!("put aside {message}: {why}");
        Ok(())
    }
}

async fn handle(order: Delivery<String>) -> Result<(), String> {
    println!("handled {} (attempt {})", order.message(), order.attempt());
    if order.ends_with('3') { Err("it cannot be handled".to_owned()) } else { Ok(()) }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (sender, receiver) = mpsc::unbounded_channel();
    for delivery in 0..2 {
        (1..=5).try_for_each(|n| sender.send(format!("order-{n}")))?;
        println!("sent orders 1 to 5, {} times", delivery + 1);
    }
    let queue = Queue { messages: Mutex::new(receiver), again: sender.downgrade() };

    // The consumer, in about ten lines.
    let engine = TieredDedup::builder(InMemoryStore::new()).ownership(Ownership::Exclusive).build().await?;
    let consumer = Consumer::builder("orders", engine, |order: &String| Some(order.clone()))
        .max_in_flight(4)
        .max_attempts(3)
        .retry_delay(Duration::from_millis(10), Duration::from_millis(100))
        .build()?;
    let shutdown = async move {
        tokio::time::sleep(Duration::from_millis(500)).await;
        drop(sender);
    };
    let stats = consumer.run(&queue, handle, shutdown).await?;

    println!("{stats:#?}");
    // Both copies of order 3 are put aside: that one was put aside does not make the other one
    // done.
    assert_eq!((stats.received - stats.retried, stats.handled, stats.dead_lettered), (10, 4, 2));
    assert_eq!(stats.acknowledged, 10);
    Ok(())
}
