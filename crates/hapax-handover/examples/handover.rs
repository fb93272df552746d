//! Two consumers of one partition, which the broker moves from one to the other and back. The
//! memory of ids moves with it, through an object store. Here the first one stalls, and does not
//! notice that the partition has moved; and the commit of the second one is lost.

use hapax::{Dedup, JournalOptions};
use hapax_handover::object_store::{ObjectStore, memory::InMemory};
use hapax_handover::{Acquired, Handover, HandoverError, HandoverOptions, Owned};
use std::path::Path;
use std::sync::Arc;

type Failure = Box<dyn std::error::Error>;

/// The name of the partition among the positions.
const SOURCE: &str = "orders/3";

/// Returns the offset up to which the last owner has published.
pub fn start(acquired: &Acquired) -> Result<u64, Failure> {
    let known = acquired.positions().iter().find(|(source, _)| source == SOURCE.as_bytes());
    Ok(known.map_or(Ok(0), |(_, position)| position[..].try_into().map(u64::from_be_bytes))?)
}

/// Becomes the owner: fences the last one, and brings its memory here.
pub async fn own(handover: &Handover, directory: &Path) -> Result<(Owned, u64), Failure> {
    let acquired = handover.acquire("3", directory).await?;
    let offset = start(&acquired)?;
    Ok((acquired.open(Dedup::builder(), JournalOptions::new()).await?, offset))
}

/// Handles what is new of a batch that begins at `offset`, and publishes. Returns the offset to
/// commit, and to go on from.
pub async fn consume(owned: &Owned, offset: u64, batch: &[&str], handled: &mut Vec<String>) -> Result<u64, Failure> {
    let engine = owned.engine()?; // an error, if this is not the owner any more
    let mut verdicts = Vec::new();
    engine.check_batch(batch, &mut verdicts);
    let new = batch.iter().zip(verdicts).filter(|(_, verdict)| verdict.is_fresh());
    handled.extend(new.map(|(id, _)| (*id).to_owned()));
    let next = offset + batch.len() as u64;
    engine.journal()?.checkpoint([(SOURCE, next.to_be_bytes())])?;
    owned.publish().await?; // now the next owner knows it
    Ok(next)
}

#[tokio::main]
/// Moves the partition there and back.
pub async fn main() -> Result<(), Failure> {
    let directory = std::env::temp_dir().join(format!("hapax-handover-example-{}", std::process::id()));
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new()); // in production: S3, GCS, Azure
    let handover = Handover::new(store, "hapax/orders", HandoverOptions::new())?;
    let log = ["m-1", "m-2", "m-1", "m-3", "m-2", "m-4", "m-3", "m-5"];
    let batch = |offset: u64| &log[offset as usize..log.len().min(offset as usize + 2)];
    let mut handled = Vec::new();

    let (first, offset) = own(&handover, &directory.join("first")).await?;
    let committed = consume(&first, offset, batch(offset), &mut handled).await?;
    // It stalls; the broker gives the partition to another, from what was committed.
    let (second, offset) = own(&handover, &directory.join("second")).await?;
    assert_eq!(offset, committed);
    let next = consume(&second, offset, batch(offset), &mut handled).await?;
    // The first one goes on, as if nothing had been.
    let stale = consume(&first, committed, batch(committed), &mut Vec::new()).await.unwrap_err();
    println!("{stale}");
    assert!(matches!(stale.downcast_ref(), Some(HandoverError::Fenced { .. })), "it commits nothing");
    // Back to the first one, as another owner. That commit was lost: the broker has the old offset.
    drop((first, second));
    let (again, offset) = own(&handover, &directory.join("first")).await?;
    assert_eq!((offset, committed), (next, 2));
    let mut offset = committed;
    while offset < log.len() as u64 {
        offset = consume(&again, offset, batch(offset), &mut handled).await?;
    }
    println!("handled {handled:?}");
    assert_eq!(handled, ["m-1", "m-2", "m-3", "m-4", "m-5"]);
    drop(again);
    std::fs::remove_dir_all(directory)?;
    Ok(())
}
