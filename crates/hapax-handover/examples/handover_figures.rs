//! Measures a hand-over on this machine: of so many ids, through a store in memory, or, if the
//! variable `HAPAX_S3` has the address of a server on loopback, through its bucket `hapax`.
//!
//! `cargo run --release -p hapax-handover --example handover_figures -- 100000000`

use hapax::{Dedup, JournalOptions, SyncMode};
use hapax_handover::object_store::aws::AmazonS3Builder;
use hapax_handover::object_store::{ObjectStore, memory::InMemory};
use hapax_handover::{Handover, HandoverOptions};
use std::sync::Arc;
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

/// The number of ids between two publications.
const BATCH: u64 = 1_000_000;

/// Returns the store; the time-out is long enough for a server of one thread.
fn store() -> Result<Arc<dyn ObjectStore>, Failure> {
    let Ok(address) = std::env::var("HAPAX_S3") else { return Ok(Arc::new(InMemory::new())) };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let store = AmazonS3Builder::new().with_endpoint(address).with_allow_http(true).with_bucket_name("hapax");
    let store = store.with_region("us-east-1").with_access_key_id("test").with_secret_access_key("test");
    Ok(Arc::new(store.build()?))
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let ids = std::env::args().nth(1).map_or(Ok(10_000_000), |ids| ids.parse::<u64>())?;
    let directory = std::env::temp_dir().join(format!("hapax-handover-figures-{}", std::process::id()));
    let handover = Handover::new(store()?, "figures", HandoverOptions::new())?;
    let builder = || Dedup::builder().capacity(ids as usize).window(Duration::from_secs(86_400));
    let journal = || JournalOptions::new().sync(SyncMode::System);

    let first = handover.acquire("3", &directory.join("first")).await?.open(builder(), journal()).await?;
    let (began, mut in_publish, mut uploaded) = (Instant::now(), Duration::ZERO, 0);
    let mut verdicts = Vec::new();
    for from in (0..ids).step_by(BATCH as usize) {
        let batch: Vec<_> = (from..ids.min(from + BATCH)).map(u64::to_le_bytes).collect();
        first.engine()?.check_batch(&batch, &mut verdicts);
        first.engine()?.checkpoint([("log", from.to_le_bytes())])?;
        let publishing = Instant::now();
        uploaded += first.publish().await?.uploaded_bytes;
        in_publish += publishing.elapsed();
        verdicts.clear();
    }
    println!("{ids} ids accepted and published in {:.1?}, of that {in_publish:.1?} in publications", began.elapsed());

    let began = Instant::now();
    let acquired = handover.acquire("3", &directory.join("second")).await?;
    let (bytes, acquiring) = (acquired.bytes(), began.elapsed());
    let second = acquired.open(builder(), journal()).await?;
    let is_known = second.engine()?.check((ids - 1).to_le_bytes()).is_duplicate();
    println!(
        "{:.2} GB ({:.1} times uploaded): acquired in {acquiring:.1?}, first verdict after {:.1?}",
        bytes as f64 / 1e9,
        uploaded as f64 / bytes as f64,
        began.elapsed()
    );
    let fresh = (0..ids).step_by(997).filter(|id| second.engine().is_ok_and(|e| e.check(id.to_le_bytes()).is_fresh()));
    assert!(is_known && fresh.count() == 0, "all of them are known");
    drop((first, second));
    std::fs::remove_dir_all(directory)?;
    Ok(())
}
