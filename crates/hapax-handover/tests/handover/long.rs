//! Engines with a long memory, handed over: journal and segments.

use crate::{Temporary, offset_of, options, take};
use hapax::{Dedup, JournalOptions, LongMemory, ManualClock, SyncMode, Tier, Timestamp};
use hapax_handover::object_store::ObjectStore;
use hapax_handover::object_store::memory::InMemory;
use hapax_handover::{Acquired, Handover, HandoverError, HandoverOptions, Owned};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const WINDOW: Duration = Duration::from_secs(100);
pub(crate) const RETENTION: Duration = Duration::from_secs(10_000);

pub(crate) fn clock() -> ManualClock {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_secs(1_000_000));
    clock
}

pub(crate) async fn try_open(acquired: Acquired, clock: &ManualClock) -> Result<Owned, HandoverError> {
    let builder = Dedup::builder().capacity(10_000).window(WINDOW).clock(clock.clone());
    let journal = JournalOptions::new().sync(SyncMode::System);
    acquired.open_with_long_memory(builder, journal, LongMemory::new(RETENTION)).await
}

/// Hands a partition with a long memory over some times, and checks what each owner knows.
pub(crate) async fn hands_over(store: Arc<dyn ObjectStore>, directory: &Path, options: HandoverOptions) {
    let handover = Handover::new(store, "hapax/long", options).unwrap();
    let (clock, mut next) = (clock(), 0);
    let mut uploaded = 0;
    for turn in 0..6_u64 {
        let acquired = handover.acquire("3", &directory.join(format!("node-{}", turn % 2))).await.unwrap();
        assert_eq!(offset_of(&acquired), next);
        let owned = try_open(acquired, &clock).await.unwrap();
        let engine = owned.engine().unwrap().clone();
        let by = |id: u64| engine.contains(id.to_le_bytes());
        let forgotten = |id: u64| id % 500 == 499;
        // (Ids that are forgotten were forgotten by the last owner, before its last checkpoint.)
        for id in 0..next {
            assert_eq!(by(id).is_none(), forgotten(id), "{id} of {next}, in turn {turn}: {:?}", by(id));
        }
        assert!(turn < 2 || by(0) == Some(Tier::Segments), "{:?}", by(0));
        for _ in 0..4 {
            assert_eq!(take(&owned, next..next + 500), 500);
            engine.forget((next + 499).to_le_bytes());
            next += 500;
            engine.journal().unwrap().checkpoint([("log", next.to_be_bytes())]).unwrap();
            uploaded += owned.publish().await.unwrap().uploaded_bytes;
            clock.advance(Duration::from_secs(40));
        }
        assert_eq!(engine.stats().long_memory.unwrap().in_doubt, 0);
        // In no publication: they come again.
        (next..next + 100).for_each(|id| assert!(engine.check(id.to_le_bytes()).is_fresh()));
    }
    // An id is in the journal, and written three times: sealed and merged.
    assert!(uploaded < 12_000 * (3 * 16 + 3 * 20), "{uploaded} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_owner_knows_what_is_in_segments_too() {
    let directory = Temporary::new();
    hands_over(Arc::new(InMemory::new()), &directory.0, options()).await;
}

#[tokio::test]
async fn who_leaves_segments_behind_is_refused() {
    let (directory, clock) = (Temporary::new(), clock());
    let handover = Handover::new(Arc::new(InMemory::new()), "hapax", options()).unwrap();
    let owned = try_open(handover.acquire("3", &directory.0).await.unwrap(), &clock).await.unwrap();
    take(&owned, 0..10);
    owned.publish().await.unwrap();
    let acquired = handover.acquire("3", &directory.0).await.unwrap();
    let error = acquired.open(Dedup::builder(), JournalOptions::new()).await.unwrap_err();
    assert!(matches!(error, HandoverError::LongMemory { .. }), "{error}");
    assert!(error.to_string().contains("open_with_long_memory"), "{error}");
    let owned = try_open(handover.acquire("3", &directory.0).await.unwrap(), &clock).await.unwrap();
    assert_eq!(take(&owned, 0..10), 0, "and nothing is lost by that");
}
