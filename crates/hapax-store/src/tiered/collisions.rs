//! Tests of two ids whose digests agree where memory compares them: the answers about one of them
//! while the engine knows the other.

use super::dedup::TieredDedup;
use super::engine::Name;
use super::{HistoryOptions, Ownership, TieredClaimOptions};
use crate::{InMemoryStore, RecordKey, Scope, StoreError};
use hapax::seam::Digest;
use hapax::{ManualClock, Verdict};
use std::sync::Arc;
use std::time::Duration;

type Engine = TieredDedup<Arc<InMemoryStore>>;

const WINDOW: Duration = Duration::from_secs(60);

/// Returns the name of an id with a digest that is not its own.
fn forged(id: &str, digest: u128) -> Name {
    (RecordKey::new(&Scope::default(), id), Digest::from(digest))
}

/// Returns two ids with the same line of the window, and the same tag. (The lowest bits of a
/// digest's halves are in neither.)
fn colliding() -> (Name, Name) {
    const DIGEST: u128 = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef;
    (forged("known", DIGEST), forged("new", DIGEST ^ 1 ^ 1 << 64))
}

async fn engine(ownership: Ownership, history: bool, clock: &ManualClock) -> Engine {
    let store = Arc::new(InMemoryStore::with_clock(clock.clone()));
    let builder = TieredDedup::builder(store).ownership(ownership).clock(clock.clone()).expiry(None);
    let builder = builder.window(WINDOW).retention(60 * WINDOW).capacity(10_000);
    if history { builder.history(HistoryOptions { ids: 10_000, false_positive_rate: 1e-6 }) } else { builder }
        .build()
        .await
        .unwrap()
}

/// Checks an id as [`TieredDedup::check`] does.
async fn check(engine: &Engine, name: &Name) -> Result<Verdict, StoreError> {
    match engine.engine.check_in_memory(name) {
        Some(verdict) => verdict,
        None => engine.engine.check(name.clone()).await,
    }
}

/// Returns every kind of engine: shared, exclusive, and exclusive with a history that knows all.
async fn engines() -> Vec<(Engine, ManualClock)> {
    let mut engines = Vec::new();
    for (ownership, history) in
        [(Ownership::Shared, false), (Ownership::Exclusive, false), (Ownership::Exclusive, true)]
    {
        let clock = ManualClock::new();
        clock.advance(1_000 * WINDOW);
        let engine = engine(ownership, history, &clock).await;
        engine.warm().await.unwrap();
        engines.push((engine, clock));
    }
    engines
}

#[tokio::test]
async fn an_id_that_the_store_does_not_have_is_no_duplicate_of_another_one() {
    for (engine, clock) in engines().await {
        let (known, new) = colliding();
        assert!(check(&engine, &known).await.unwrap().is_fresh());
        assert!(check(&engine, &known).await.unwrap().is_duplicate());
        // Never dropped: a shared engine's store decides; an exclusive engine has it come again …
        let verdict = check(&engine, &new).await.unwrap();
        assert!(!verdict.is_duplicate(), "exclusive: {}: {verdict:?}", engine.engine.ownership().is_exclusive);
        // … until its window has forgotten the other one.
        if !verdict.is_fresh() {
            assert!(verdict.is_in_progress() && engine.engine.ownership().is_exclusive);
            clock.advance(WINDOW * 102 / 100);
            assert!(check(&engine, &new).await.unwrap().is_fresh());
        }
        assert!(check(&engine, &new).await.unwrap().is_duplicate());
        assert!(check(&engine, &known).await.unwrap().is_duplicate());
    }
}

#[tokio::test]
async fn so_it_is_in_batches() {
    for (engine, clock) in engines().await {
        let (known, new) = colliding();
        let batch = || vec![known.clone(), new.clone(), known.clone()];
        let verdicts: Vec<Verdict> = engine.engine.check_named(batch()).await.into_iter().map(Result::unwrap).collect();
        assert!(verdicts[0].is_fresh() && verdicts[2].is_duplicate() && !verdicts[1].is_duplicate(), "{verdicts:?}");
        if !verdicts[1].is_fresh() {
            clock.advance(WINDOW * 102 / 100);
            assert!(check(&engine, &new).await.unwrap().is_fresh());
        }
        let verdicts = engine.engine.check_named(batch()).await;
        assert!(verdicts.into_iter().all(|verdict| verdict.unwrap().is_duplicate()));
    }
}

#[tokio::test]
async fn so_it_is_with_claims() {
    use super::claim::Attempt;
    for (engine, clock) in engines().await {
        let (known, new) = colliding();
        let options = TieredClaimOptions::new();
        let claim = async |name: &Name| match engine.engine.claim_in_memory(name.clone(), &options) {
            Ok(attempt) => attempt.unwrap(),
            Err(name) => engine.engine.claim(name, options.clone()).await.unwrap(),
        };
        let Attempt::Claimed(claimed) = claim(&known).await else { panic!("nobody has it") };
        assert!(claimed.complete(None, true).await.is_ok());
        assert!(matches!(claim(&known).await, Attempt::Duplicate(_)));
        let claimed = match claim(&new).await {
            Attempt::Claimed(claimed) => claimed,
            Attempt::InProgress { .. } if engine.engine.ownership().is_exclusive => {
                clock.advance(WINDOW * 102 / 100);
                let Attempt::Claimed(claimed) = claim(&new).await else { panic!("nobody has it") };
                claimed
            }
            _ => panic!("a duplicate of another one"),
        };
        assert!(claimed.complete(None, true).await.is_ok());
        assert!(matches!(claim(&new).await, Attempt::Duplicate(_)));
    }
}

// All 128 bits agree: only the ids themselves tell them apart.
// A store that does not answer at once, so that the second follows the first.
