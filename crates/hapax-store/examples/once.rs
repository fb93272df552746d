//! One line makes a function idempotent: it runs once for an order, and a retry gets its result.
//!
//! `cargo run -p hapax-store --features json --example once`
//!
//! A service has a store that outlives the process (1), and hands the key on to whoever has the
//! effect (2): the call runs again if the process is killed between the effect and its result.

use hapax_store::{IdempotencyError, InMemoryStore, TieredDedup};
use std::sync::atomic::{AtomicU32, Ordering};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The amount that the customer has paid.
static CHARGED: AtomicU32 = AtomicU32::new(0);

struct Bank {
    dedup: TieredDedup<InMemoryStore>, // 1: RedisStore, PostgresStore, SqliteStore
}

impl Bank {
    #[hapax_macros::once(
        dedup = self.dedup,
        key = order_id,
        fingerprint = cents.to_be_bytes(),
        name = "charge" // keys do not know the type of a method
    )]
    async fn charge(&self, order_id: &str, cents: u32) -> Result<String, Error> {
        // 2: here the bank's own call, with `order_id` as its idempotency key.
        let total = CHARGED.fetch_add(cents, Ordering::Relaxed) + cents;
        Ok(format!("{order_id}: charged {cents}, {total} in all"))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let bank = Bank { dedup: TieredDedup::builder(InMemoryStore::new()).build().await? };

    // Three retries at once, and one later.
    let charge = || bank.charge("order-17", 100);
    let (a, b, c) = tokio::join!(charge(), charge(), charge());
    println!("{}", a?);
    assert_eq!(b?, c?);
    println!("{} (a retry)", charge().await?);
    assert_eq!(CHARGED.load(Ordering::Relaxed), 100);

    // The same key, with another amount: a client's mistake, which is told.
    let error = bank.charge("order-17", 999).await.expect_err("it is another call");
    println!("{error}");
    assert!(matches!(error.downcast_ref(), Some(IdempotencyError::Mismatch)));
    Ok(())
}
