//! Measures a hand-over on this machine: of so many ids, through a store in memory, or, if the
//! variable `HAPAX_S3` has the address of a server on loopback, through its bucket `hapax`. With a
//! window in hours, of a long memory of a week, in which a million ids come in an hour.
//!
//! `cargo run --release -p hapax-handover --example handover_figures -- 100000000`, and with a long
//! memory whose window has six hours of ids `cargo run --release -p hapax-handover --example
//! handover_figures -- 100000000 6`.

use hapax::{Dedup, JournalOptions, SyncMode};
use hapax_handover::object_store::aws::AmazonS3Builder;
use hapax_handover::object_store::{ObjectStore, memory::InMemory};
use hapax_handover::{Handover, HandoverOptions, Owned};
use std::path::Path;
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
    match std::env::args().nth(2) {
        None => journal(&handover, &directory, ids).await?,
        Some(hours) => long(&handover, &directory, ids, hours.parse()?).await?,
    }
    std::fs::remove_dir_all(directory)?;
    Ok(())
}

/// Accepts and publishes ids, and says how long that took; `after` is called after each batch.
async fn fill(first: &Owned, ids: u64, after: impl Fn()) -> Result<u64, Failure> {
    let (began, mut in_publish, mut longest, mut uploaded) = (Instant::now(), Duration::ZERO, Duration::ZERO, 0);
    let mut verdicts = Vec::new();
    for from in (0..ids).step_by(BATCH as usize) {
        let batch: Vec<_> = (from..ids.min(from + BATCH)).map(u64::to_le_bytes).collect();
        for batch in batch.chunks(1_024) {
            first.engine()?.check_batch(batch, &mut verdicts);
            verdicts.clear();
        }
        first.engine()?.journal()?.checkpoint([("log", from.to_le_bytes())])?;
        let publishing = Instant::now();
        uploaded += first.publish().await?.uploaded_bytes;
        (in_publish, longest) = (in_publish + publishing.elapsed(), longest.max(publishing.elapsed()));
        after();
    }
    println!(
        "{ids} ids accepted and published in {:.1?}, of that {in_publish:.1?} in publications, {longest:.1?} at most",
        began.elapsed()
    );
    Ok(uploaded)
}

fn of_journal() -> JournalOptions {
    JournalOptions::new().sync(SyncMode::System)
}

async fn journal(handover: &Handover, directory: &Path, ids: u64) -> Result<(), Failure> {
    let builder = || Dedup::builder().capacity(ids as usize).window(Duration::from_secs(86_400));
    let first = handover.acquire("3", &directory.join("first")).await?.open(builder(), of_journal()).await?;
    let uploaded = fill(&first, ids, || {}).await?;

    let began = Instant::now();
    let acquired = handover.acquire("3", &directory.join("second")).await?;
    let (bytes, acquiring) = (acquired.bytes(), began.elapsed());
    let second = acquired.open(builder(), of_journal()).await?;
    let is_known = second.engine()?.check((ids - 1).to_le_bytes()).is_duplicate();
    println!(
        "{:.2} GB ({:.1} times uploaded): acquired in {acquiring:.1?}, first verdict after {:.1?}",
        bytes as f64 / 1e9,
        uploaded as f64 / bytes as f64,
        began.elapsed()
    );
    assert!(is_known && fresh_of(&second, ids)? == 0, "all of them are known");
    Ok(())
}

/// Returns the number of ids that are fresh, of some that were accepted.
fn fresh_of(owned: &Owned, ids: u64) -> Result<usize, Failure> {
    let sample: Vec<_> = (0..ids).step_by(997).map(u64::to_le_bytes).collect();
    let (mut verdicts, mut fresh) = (Vec::new(), 0);
    for batch in sample.chunks(1_024) {
        owned.engine()?.check_batch(batch, &mut verdicts);
        fresh += batch.len() - verdicts.iter().filter(|verdict| verdict.is_duplicate()).count();
        verdicts.clear();
    }
    Ok(fresh)
}

async fn long(handover: &Handover, directory: &Path, ids: u64, hours: u64) -> Result<(), Failure> {
    use hapax::{LongMemory, ManualClock, Timestamp};
    let (clock, hour) = (ManualClock::new(), Duration::from_secs(3_600));
    clock.set(Timestamp::from_secs(1_700_000_000));
    let builder = || {
        let window = hour * u32::try_from(hours).unwrap_or(u32::MAX);
        Dedup::builder().capacity(((hours + 1) * BATCH) as usize).window(window).clock(clock.clone())
    };
    let week = LongMemory::new(hour * 24 * 7);
    let acquired = handover.acquire("3", &directory.join("first")).await?;
    let first = acquired.open_with_long_memory(builder(), of_journal(), week).await?;
    let uploaded = fill(&first, ids, || clock.advance(hour)).await?;

    let began = Instant::now();
    let acquired = handover.acquire("3", &directory.join("second")).await?;
    let (bytes, acquiring) = (acquired.bytes(), began.elapsed());
    let second = acquired.open_with_long_memory(builder(), of_journal(), week).await?;
    let opened = began.elapsed();
    let known = second.engine()?.check(7_u64.to_le_bytes());
    let verdict = began.elapsed();
    let new = second.engine()?.check(u64::MAX.to_le_bytes());
    let remote = second.engine()?.stats().long_memory.map_or(0, |long| long.segments.remote);
    println!(
        "{:.2} GB ({:.1} times uploaded): acquired in {acquiring:.2?}, engine after {opened:.2?}, first verdict after \
         {verdict:.2?} ({known:?}; {remote} segments in the store), of a new id after {:.2?}",
        bytes as f64 / 1e9,
        uploaded as f64 / bytes as f64,
        began.elapsed()
    );
    assert!(known.is_duplicate() && new.is_fresh());
    let at = Instant::now();
    assert_eq!(fresh_of(&second, ids.min(997 * 1_024))?, 0, "all of them are known");
    println!("a batch of 1,024 known ids in {:.2?}, {:.2?} after the hand-over began", at.elapsed(), began.elapsed());
    second.segments_are_here().await?;
    println!("all segments here after {:.2?}", began.elapsed());
    assert_eq!(fresh_of(&second, ids)?, 0, "all of them are known");
    let doubts = second.engine()?.stats().long_memory.map_or(0, |long| long.in_doubt);
    assert_eq!(doubts, 0, "and nothing was in doubt");
    Ok(())
}
