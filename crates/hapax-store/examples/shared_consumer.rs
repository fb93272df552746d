//! Two instances share a store. One dies at work. The other one gets the message when the lease has
//! run out, and the token distinguishes the dead one's late writes from its own.
//!
//! `cargo run -p hapax-store --example shared_consumer`

use hapax::ManualClock;
use hapax_store::{ClaimError, InMemoryStore, TieredAttempt, TieredDedup};
use std::sync::Arc;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(30);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = ManualClock::new(); // so that nobody has to wait for a lease
    // Redis, PostgreSQL, SQLite: the rest would be the same.
    let store = Arc::new(InMemoryStore::with_clock(clock.clone()));
    let instance = || TieredDedup::builder(Arc::clone(&store)).clock(clock.clone()).lease(LEASE).build();
    let (blue, green) = (instance().await?, instance().await?);

    let TieredAttempt::Claimed(late) = blue.claim("m-17").await? else { return Err("somebody has it".into()) };
    println!("blue has m-17, with token {}", late.token().as_u64());
    println!("green is told: in progress: {}", green.claim("m-17").await?.is_in_progress());

    // Blue hangs. Nothing notices; the lease runs out.
    clock.advance(LEASE + Duration::from_secs(1));
    let TieredAttempt::Claimed(claim) = green.claim("m-17").await? else { return Err("the lease has run out".into()) };
    println!("green has it now, with token {}", claim.token().as_u64());
    assert!(claim.token() > late.token());
    claim.complete().await?;

    // Blue comes back, and learns that it is too late.
    let error = late.complete().await.expect_err("it was green's");
    println!("blue is told: {error}");
    assert!(matches!(error.error(), ClaimError::LostLease(_)));
    assert!(blue.claim("m-17").await?.is_duplicate());

    blue.shutdown(Duration::from_secs(5)).await?;
    green.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
