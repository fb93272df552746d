//! Completions while the store is away: they are tried for as long as a lease is, and the claim
//! comes back if all tries fail.

use super::*;
use hapax_store::{
    ClaimError, ErrorKind, NotCompleted, RecordKey, Scope, Store as _, TieredAttempt, TieredClaim, TieredOnce,
    TieredOnceError,
};
use hapax_testing::store::Fault;
use std::convert::Infallible;
use tokio::time::Instant;

const DOWN: Fault = Fault::Fails(ErrorKind::Unavailable);
const LEASE: Duration = Duration::from_secs(5);
const SECOND: Duration = Duration::from_secs(1);

/// Moves the store's clock along with the runtime's, which is stopped and jumps.
fn go_along(world: &World) {
    let (clock, tick) = (world.clock.clone(), Duration::from_millis(10));
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(tick).await;
            clock.advance(tick);
        }
    });
}

async fn short_lease(world: &World) -> Engine {
    world.engine().lease(LEASE).build().await.unwrap()
}

/// Makes the store unavailable, for this long from now on.
fn away(world: &World, how: Fault, time: Duration) {
    world.store.always(how);
    let store = Arc::clone(&world.store);
    tokio::spawn(async move {
        tokio::time::sleep(time).await;
        store.always(Fault::None);
    });
}

async fn result_of(world: &World, id: &str) -> Option<Vec<u8>> {
    let key = RecordKey::new(&Scope::default(), id);
    match world.store.inner().look_up(&[key]).await.unwrap().remove(0).unwrap() {
        hapax_store::Known::Completed(done) => done.result,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_completion_outlasts_a_store_that_is_away_for_less_than_its_lease() {
    for how in [DOWN, Fault::Hangs, Fault::LosesAnswer(ErrorKind::Timeout)] {
        for time in [SECOND * 3 / 10, SECOND, 3 * SECOND] {
            let world = World::new();
            go_along(&world);
            let engine = short_lease(&world).await;
            let one = claim(&engine, "one").await;
            let several = [claim(&engine, "a").await, claim(&engine, "b").await];
            let begun = Instant::now();
            away(&world, how, time);
            let (one, several) = tokio::join!(one.complete_with("result"), engine.complete_batch(several));
            one.unwrap();
            several.into_iter().for_each(|completed| completed.unwrap());
            let late = begun.elapsed() - time;
            assert!(late <= 2 * SECOND + SECOND / 10, "{how:?}: {late:?} after the store was back");
            assert_eq!(result_of(&world, "one").await.as_deref(), Some(b"result".as_slice()));
            assert!(engine.claim("a").await.unwrap().is_duplicate());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_while_its_completion_is_tried() {
    for is_batch in [false, true] {
        let world = World::new();
        go_along(&world);
        let engine = world.engine().lease(LEASE).retries(0).build().await.unwrap();
        let mut claims = vec![claim(&engine, "a").await];
        if is_batch {
            claims.push(claim(&engine, "b").await);
        }
        // The lease is nearly over when the work is done. The completion fails, and the renewal
        // does not; then the store is away until after the first lease.
        tokio::time::sleep(4 * SECOND).await;
        world.store.next(DOWN);
        world.store.next(Fault::None);
        away(&world, DOWN, 3 * SECOND);
        let begun = Instant::now();
        let completed =
            if is_batch { engine.complete_batch(claims).await } else { vec![claims.remove(0).complete().await] };
        completed.into_iter().for_each(|completed| completed.unwrap());
        assert!(begun.elapsed() >= 3 * SECOND, "the first lease is over");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_could_not_be_completed_comes_back_and_is_not_released() {
    let world = World::new();
    go_along(&world);
    let engine = short_lease(&world).await;
    // Claimed anew each time: the lease is over when the store is back.
    for gives_up in [false, true] {
        let held = claim(&engine, "a").await;
        let token = held.token();
        let begun = Instant::now();
        world.store.always(Fault::Fails(ErrorKind::Corrupt));
        let not_completed = held.complete_with("done").await.unwrap_err();
        assert_eq!(begun.elapsed(), Duration::ZERO, "asking again would not help");
        assert!(matches!(not_completed.error(), ClaimError::Store(error) if error.kind() == ErrorKind::Corrupt));
        assert!(not_completed.to_string().contains("done, but not recorded: "), "{not_completed}");
        world.store.always(Fault::None);
        if gives_up {
            drop(not_completed.into_claim());
            tokio::time::sleep(SECOND).await;
            assert!(engine.claim("a").await.unwrap().is_in_progress(), "its work is done");
            tokio::time::sleep(LEASE).await;
            claim(&engine, "a").await.release().await.unwrap();
        } else {
            assert!(engine.claim("a").await.unwrap().is_in_progress());
            let claim = not_completed.into_claim();
            assert_eq!(claim.token(), token);
            // A caller that knows better may release it.
            claim.release().await.unwrap();
        }
    }
    let held = claim(&engine, "a").await;
    world.store.next(Fault::Fails(ErrorKind::Corrupt));
    let not_completed = held.complete_with("done").await.unwrap_err();
    not_completed.retry().await.unwrap();
    assert_eq!(result_of(&world, "a").await.as_deref(), Some(b"done".as_slice()), "the result was kept");
}

#[tokio::test(start_paused = true)]
async fn it_is_tried_for_one_lease_and_no_longer() {
    let world = World::new();
    let engine = short_lease(&world).await;
    let claims = [claim(&engine, "a").await, claim(&engine, "b").await];
    let one = claim(&engine, "one").await;
    world.store.always(DOWN);
    let begun = Instant::now();
    let (one, several) = tokio::join!(one.complete(), engine.complete_batch(claims));
    assert!(begun.elapsed() >= LEASE && begun.elapsed() < LEASE + SECOND, "{:?}", begun.elapsed());
    let one: NotCompleted<Store> = one.unwrap_err();
    let several = several.into_iter().map(|completed| completed.unwrap_err());
    let errors: Vec<ClaimError> = several.chain([one]).map(ClaimError::from).collect();
    let is_down = |error: &ClaimError| matches!(error, ClaimError::Store(it) if it.kind() == ErrorKind::Unavailable);
    assert!(errors.len() == 3 && errors.iter().all(is_down), "{errors:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_lost_ends_it_at_once_and_nothing_is_completed_over_the_next_one() {
    let world = World::new();
    let (here, there) = (short_lease(&world).await, short_lease(&world).await);
    let (one, other) = (claim(&here, "a").await, claim(&here, "b").await);
    world.store.always(DOWN);
    let (one, other) = (tokio::spawn(one.complete()), tokio::spawn(async move { here.complete_batch([other]).await }));
    tokio::time::sleep(SECOND).await;
    world.clock.advance(2 * LEASE);
    world.store.always(Fault::None);
    let theirs = [claim(&there, "a").await, claim(&there, "b").await];
    let begun = Instant::now();
    let lost = [one.await.unwrap().unwrap_err(), other.await.unwrap().remove(0).unwrap_err()];
    assert!(lost.iter().all(|lost| matches!(lost.error(), ClaimError::LostLease(_))), "{lost:?}");
    assert!(begun.elapsed() < 3 * SECOND, "{:?}", begun.elapsed());
    for theirs in theirs {
        theirs.complete_with("theirs").await.unwrap();
    }
    assert_eq!(result_of(&world, "a").await.as_deref(), Some(b"theirs".as_slice()));
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_was_shut_down_and_a_claim_that_nobody_verified_are_not_waited_for() {
    let world = World::new();
    let engine = short_lease(&world).await;
    let held = claim(&engine, "a").await;
    engine.shutdown(LEASE).await.unwrap();
    let begun = Instant::now();
    assert!(held.complete().await.is_err());
    let open = admitting(world.engine()).retries(0).build().await.unwrap();
    world.store.always(DOWN);
    let admitted = claim(&open, "b").await;
    assert!(!admitted.is_verified());
    assert!(admitted.complete().await.is_err());
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

/// Delivers a message as docs/guide/3-sharing.md does, and returns true if it may be acknowledged.
async fn deliver(engine: &Engine, id: &str, effects: &mut u32) -> Result<bool, ClaimError> {
    match engine.claim(id).await.map_err(ClaimError::Store)? {
        TieredAttempt::Claimed(claim) => {
            *effects += 1;
            claim.complete().await?;
            Ok(true)
        }
        TieredAttempt::Duplicate(_) => Ok(true),
        _ => Ok(false),
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_knows_what_it_has_done_while_the_store_was_away() {
    let world = World::new();
    let engine = admitting(world.engine()).retries(0).build().await.unwrap();
    world.store.always(DOWN);
    let (mut effects, mut acknowledged) = (0, 0);
    for _ in 0..40 {
        acknowledged += u32::from(matches!(deliver(&engine, "a", &mut effects).await, Ok(true)));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!((effects, acknowledged), (1, 39));
    let all = engine.claim_batch(["b", "b"]).await.into_iter().map(|it| it.unwrap().claimed().unwrap());
    assert!(engine.complete_batch(all).await.iter().all(Result::is_err));
    assert!(engine.claim("b").await.unwrap().is_duplicate());
    // A caller that gives up its work leaves nothing behind.
    drop(claim(&engine, "c").await);
    assert!(!claim(&engine, "c").await.is_verified());
    let not_completed = claim(&engine, "c").await.complete().await.unwrap_err();
    assert!(engine.claim("c").await.unwrap().is_duplicate());
    // Its work is to be done again.
    not_completed.into_claim().release().await.unwrap();
    assert!(!claim(&engine, "c").await.is_verified());
}

#[tokio::test(start_paused = true)]
async fn once_holds_on_to_its_claim() {
    let world = World::new();
    go_along(&world);
    let engine = short_lease(&world).await;
    let work = |time| {
        let world = &world;
        move |_| async move {
            away(world, DOWN, time);
            Ok::<_, Infallible>("output")
        }
    };
    let done = engine.once("a", work(SECOND)).await.unwrap();
    assert_eq!(done, TieredOnce::Done("output"));
    let outcome = engine.once("b", work(2 * LEASE)).await;
    let Err(TieredOnceError::Complete { output: "output", error }) = outcome else { panic!("{outcome:?}") };
    world.store.always(Fault::None);
    let error = error.retry().await.unwrap_err();
    assert!(matches!(error.error(), ClaimError::LostLease(_)), "it was away for a lease: {error:?}");
}

/// Checks that `?` works in functions that return any error, or that of claims.
#[tokio::test]
async fn the_error_converts() {
    async fn boxed(claim: TieredClaim<Store>) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(claim.complete().await?)
    }
    async fn plain(claim: TieredClaim<Store>) -> Result<(), ClaimError> {
        Ok(claim.complete().await?)
    }
    let world = World::new();
    let engine = world.shared().await;
    for _ in 0..2 {
        world.store.next(Fault::None);
        world.store.next(Fault::Fails(ErrorKind::Corrupt));
    }
    let error = boxed(claim(&engine, "a").await).await.unwrap_err();
    assert!(error.downcast_ref::<NotCompleted<Store>>().is_some(), "{error}");
    assert!(matches!(plain(claim(&engine, "b").await).await, Err(ClaimError::Store(_))));
}
