//! The consumer: each order is billed once, by any number of processes.

use crate::{Failed, jetstream, pool, tables};
use hapax_message::Described;
use hapax_message::cloudevents::Event;
use hapax_nats::{JetStream, JetStreamOptions, Message};
use hapax_postgres::{Seen, inbox};
use hapax_store::{InMemoryStore, TieredDedup};
use hapax_stream::{Consumer, Delivery};
use std::time::Duration;

/// The number of orders that are billed at a time.
const IN_FLIGHT: usize = 8;

/// Bills until it is stopped.
///
/// # Errors
///
/// Those of the broker, if it stays away for a minute.
pub async fn run(database: &str, nats: &str, stop: impl Future<Output = ()> + Send) -> Result<(), Failed> {
    let context = jetstream(nats).await?;
    let billing = context.get_consumer_from_stream("billing", "ORDERS").await?;
    let options = JetStreamOptions::new("dead.billing").ack_pending_min(2 * IN_FLIGHT);
    let orders = JetStream::new(context, billing, options).await?;
    // This process's memory answers for what it has billed itself. The database decides the rest,
    // in the transaction that has the bill.
    let billed = TieredDedup::builder(InMemoryStore::new()).build().await?;
    let consumer = Consumer::builder("billing", billed, |order: &Message| order.id().map(|id| id.into_owned()))
        .max_in_flight(IN_FLIGHT)
        .max_unacknowledged(2 * IN_FLIGHT)
        .handler_timeout(Duration::from_secs(10))
        // With minutes between the last of them, a long outage makes no dead letters.
        .max_attempts(100)
        .retry_delay(Duration::from_millis(50), Duration::from_secs(60))
        .build()?;
    let (pool, tables) = (pool(database)?, tables()?);
    let bill = move |order: Delivery<Message>| {
        let (pool, tables) = (pool.clone(), tables.clone());
        async move {
            // (An event's id as it is: its header is encoded.)
            let event = Event::of(&*order)?;
            let (id, cents) = (event.event_id(), std::str::from_utf8(event.payload())?.parse::<i64>()?);
            let mut client = pool.get().await?;
            let mut tx = client.transaction().await?;
            if let Seen::First = inbox::once(&mut tx, &tables, "billing", id).await? {
                tx.execute("INSERT INTO bills VALUES ($1, $2)", &[&id, &cents]).await?;
            }
            tx.commit().await?;
            Ok::<(), Failed>(())
        }
    };
    println!("{:?}", consumer.run(&orders, bill, stop).await?);
    Ok(())
}
