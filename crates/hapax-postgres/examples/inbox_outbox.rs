//! Exactly once in PostgreSQL: a message is received and handled with an effect, and others are
//! notified.
//!
//! `DATABASE_URL=postgres://… cargo run -p hapax-postgres --example inbox_outbox` makes tables
//! `example_…` there.

use hapax_postgres::{PostgresOptions, *};
use std::sync::Arc;
use std::time::Duration;

struct Billing(Tables);

impl Handler for Billing {
    // The consumer: its effect, its message, and the removal of the handled message are one
    // transaction.
    async fn handle(&self, tx: &mut tokio_postgres::Transaction<'_>, message: &Message) -> Result<(), BoxError> {
        tx.execute("INSERT INTO example_invoices VALUES ($1)", &[&message.payload]).await?;
        let id = [&message.id, "/billed".as_bytes()].concat();
        let billed = NewMessage::new(&id, &message.payload).key(&message.payload);
        outbox::enqueue(tx, &self.0, "billed", billed).await?;
        Ok(())
    }
}

struct Print;

impl Publisher for Print {
    async fn publish(&self, message: &Message) -> Result<(), BoxError> {
        println!("{}: {} of {}", message.name, message.id.escape_ascii(), message.payload.escape_ascii());
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let Ok(url) = std::env::var("DATABASE_URL") else {
        println!("DATABASE_URL says which database to use, and it is not set.");
        return Ok(());
    };
    let (mut client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    let tables = Tables::new("public", "example")?;
    tables.migrate(&client).await?;
    client.batch_execute("CREATE TABLE IF NOT EXISTS example_invoices (order_id bytea)").await?;

    // Two deliveries of one message.
    for delivery in 1..=2 {
        let mut tx = client.transaction().await?;
        let message = NewMessage::new("m-17", "order-17").key("order-17");
        let seen = inbox::receive(&mut tx, &tables, "billing", message).await?;
        tx.commit().await?;
        println!("delivery {delivery}: {seen:?}");
    }
    let options = PostgresOptions::parse(&url)?;
    let stop = || tokio::time::sleep(Duration::from_secs(1));
    let worker = Worker::new(options.clone(), tables.clone(), "billing")?;
    let (billing, relay) = (Arc::new(Billing(tables.clone())), Relay::new(options, tables));
    tokio::try_join!(worker.run(billing, stop()), relay.run(Arc::new(Print), stop()))?;
    Ok(())
}
