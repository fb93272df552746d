//! Exactly once in PostgreSQL, with a pool of sqlx: mark, effect and message in one transaction, a
//! relay and a worker.
//!
//! `DATABASE_URL=postgres://… cargo run -p hapax-postgres --features sqlx --example inbox_sqlx`
//! makes tables `shop_…` and `orders` there.

use hapax_postgres::*;
use sqlx::PgPool;
use std::sync::Arc;
use std::time::Duration;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Pays an order, unless that was done before, and tells others, in one transaction.
async fn pay(pool: &PgPool, tables: &Tables, id: &str) -> Result<(), Failure> {
    let mut tx = pool.begin().await?;
    if let Seen::First = inbox::once(&mut tx, tables, "billing", id).await? {
        sqlx::query("UPDATE orders SET paid = true WHERE id = 17").execute(&mut *tx).await?;
        outbox::enqueue(&mut tx, tables, "shipping", NewMessage::new("m-17/paid", "17")).await?;
    }
    Ok(tx.commit().await?) // mark, effect and message, or none of them; now acknowledge
}

/// A broker that delivers to this process: it stores what it gets for the worker.
struct Deliver(PgPool, Tables);

impl Publisher for Deliver {
    async fn publish(&self, message: &Message) -> Result<(), BoxError> {
        let mut tx = self.0.begin().await?;
        let seen = inbox::receive(&mut tx, &self.1, "shipping", NewMessage::new(&message.id, &message.payload)).await?;
        println!("delivered {}: {seen:?}", message.id.escape_ascii());
        Ok(tx.commit().await?)
    }
}

struct Ship;

impl SqlxHandler for Ship {
    async fn handle(&self, tx: &mut sqlx::Transaction<'_, sqlx::Postgres>, message: &Message) -> Result<(), BoxError> {
        sqlx::query("UPDATE orders SET shipped = true WHERE id = 17 AND paid").execute(&mut **tx).await?;
        println!("shipped order {}", message.payload.escape_ascii());
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let Ok(url) = std::env::var("DATABASE_URL") else {
        println!("DATABASE_URL says which database to use, and it is not set.");
        return Ok(());
    };
    let tables = Tables::new("public", "shop")?;
    let pool = PgPool::connect(&url).await?;
    tables.migrate(&pool).await?;
    for made in [
        "CREATE TABLE IF NOT EXISTS orders (id int PRIMARY KEY, paid bool, shipped bool)",
        "INSERT INTO orders VALUES (17, false, false) ON CONFLICT DO NOTHING",
    ] {
        sqlx::query(made).execute(&pool).await?;
    }
    for _delivery in 1..=2 {
        pay(&pool, &tables, "m-17").await?;
    }
    let relay = Relay::new(pool.clone(), tables.clone());
    let worker = Worker::new(pool.clone(), tables.clone(), "shipping")?;
    let stop = || tokio::time::sleep(Duration::from_secs(2));
    let deliver = Arc::new(Deliver(pool, tables));
    tokio::try_join!(relay.run(deliver, stop()), worker.run_sqlx(Arc::new(Ship), stop()))?;
    Ok(())
}
