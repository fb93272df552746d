//! Claims: the lines of "Claims" in "What hapax does", as far as they apply to this engine.

use super::*;
use hapax_store::{
    ClaimError, ErrorKind, HeldBy, Ownership, RecordKey, Scope, Store as _, TieredAttempt, TieredClaimOptions,
    TieredOnce, TieredOnceError,
};
use hapax_testing::store::Fault;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::task::JoinSet;

const LEASE: Duration = Duration::from_secs(30);

/// Builds both kinds of engine, each with a world of its own.
async fn both() -> [(World, Engine); 2] {
    let (one, other) = (World::new(), World::new());
    // So that time can pass for claims without passing for the owner.
    other.store.be_private();
    let (shared, exclusive) = (one.shared().await, other.exclusive().await);
    [(one, shared), (other, exclusive)]
}

#[tokio::test]
async fn in_progress_is_not_done() {
    for (_, engine) in both().await {
        let held = claim(&engine, "a").await;
        match engine.claim("a").await.unwrap() {
            TieredAttempt::InProgress { lease_left, .. } => assert!(lease_left <= LEASE && lease_left >= LEASE / 2),
            other => panic!("{other:?}"),
        }
        assert!(engine.check("a").await.unwrap().is_in_progress());
        held.complete().await.unwrap();
        assert!(engine.claim("a").await.unwrap().is_duplicate());
        assert!(engine.check("a").await.unwrap().is_duplicate());
        assert_eq!(engine.stats().decided.in_progress, 2);
    }
}

#[tokio::test]
async fn who_is_refused_and_who_takes_over_is_told_who_had_it() {
    let world = World::new();
    let engine = world.shared().await;
    let named = |name| TieredClaimOptions::new().held_by(HeldBy::of(name));
    let held = engine.claim_with("a", named("trace 1")).await.unwrap().claimed().unwrap();
    assert_eq!(held.before(), None);
    let token = held.token();
    let TieredAttempt::InProgress { held_by, .. } = engine.claim("a").await.unwrap() else { panic!("it is held") };
    assert_eq!(held_by, Some(HeldBy::of("trace 1")));
    std::mem::forget(held); // its process dies
    world.clock.advance(LEASE);
    for ends in ["release", "fail", "drop", "complete"] {
        let taken = engine.claim_with("a", named("trace 2")).await.unwrap().claimed().unwrap();
        let before = taken.before().expect("nobody has said what became of it").clone();
        assert_eq!((before.token(), before.held_by()), (token, Some(&HeldBy::of("trace 1"))));
        match ends {
            "release" => taken.release().await.unwrap(),
            "fail" => {
                taken.fail(LEASE).await.unwrap();
                world.clock.advance(LEASE);
            }
            "drop" => drop(taken),
            _ => taken.complete().await.unwrap(),
        }
        tokio::task::yield_now().await;
    }
    assert!(engine.claim("a").await.unwrap().is_duplicate());
}

#[tokio::test]
async fn ten_callers_who_send_a_hundred_ids_run_the_handler_a_hundred_times() {
    for (_, engine) in both().await {
        let handled = Arc::new(AtomicU32::new(0));
        let mut callers = JoinSet::new();
        for caller in 0..10 {
            let (engine, handled) = (engine.clone(), Arc::clone(&handled));
            callers.spawn(async move {
                for i in 0..100 {
                    let id = format!("{}", (i + caller * 10) % 100);
                    let work = |_| async {
                        handled.fetch_add(1, Ordering::Relaxed);
                        tokio::task::yield_now().await;
                        Ok::<_, Infallible>(())
                    };
                    while let TieredOnce::InProgress { .. } = engine.once(&id, work).await.unwrap() {
                        tokio::task::yield_now().await;
                    }
                }
            });
        }
        callers.join_all().await;
        assert_eq!(handled.load(Ordering::Relaxed), 100);
    }
}

#[tokio::test]
async fn a_handler_that_fails_or_panics_releases() {
    for (_, engine) in both().await {
        let mut attempts = std::collections::HashMap::new();
        for id in ["1", "2", "1", "2", "1", "3"] {
            let outcome = engine
                .once(id, |_| {
                    *attempts.entry(id).or_insert(0) += 1;
                    async move { if id == "2" { Err("no") } else { Ok(()) } }
                })
                .await;
            assert_eq!(matches!(outcome, Err(TieredOnceError::Work("no"))), id == "2");
        }
        assert_eq!((attempts["1"], attempts["2"], attempts["3"]), (1, 2, 1));

        let panics = engine.clone();
        let panicked = tokio::spawn(async move {
            panics.once("4", |_| async { panic!("a handler that panics") as Result<(), Infallible> }).await
        });
        assert!(panicked.await.unwrap_err().is_panic());
        tokio::task::yield_now().await;
        let attempt = engine.claim_wait("4", Duration::from_secs(5)).await.unwrap();
        assert!(attempt.claimed().is_some());
    }
}

#[tokio::test]
async fn the_late_holder_is_told_and_changes_nothing() {
    for (world, engine) in both().await {
        let mut late = claim(&engine, "a").await;
        let also_late = claim(&engine, "b").await;
        world.clock.advance(LEASE + Duration::from_secs(1));
        let holder = claim(&engine, "a").await;
        assert!(holder.token() > late.token());
        let (old, new) = (late.token(), holder.token());
        assert!(matches!(late.renew(LEASE).await, Err(ClaimError::LostLease(lost)) if lost.token == old));
        assert!(matches!(late.complete().await.unwrap_err().error(), ClaimError::LostLease(_)));
        assert!(engine.claim("a").await.unwrap().is_in_progress());
        holder.complete().await.unwrap();
        let again = claim(&engine, "b").await;
        assert!(again.token() > also_late.token() && new > old);
        drop(also_late);
        tokio::task::yield_now().await;
        assert!(engine.claim("b").await.unwrap().is_in_progress(), "a late holder that is dropped releases nothing");
        again.release().await.unwrap();
    }
}

#[tokio::test]
async fn renewals_failures_and_leases_of_their_own() {
    for (world, engine) in both().await {
        let mut held = claim(&engine, "a").await;
        for _ in 0..3 {
            world.clock.advance(LEASE - Duration::from_secs(1));
            held.renew(LEASE).await.unwrap();
        }
        held.fail(Duration::from_secs(600)).await.unwrap();
        world.clock.advance(Duration::from_secs(599));
        assert!(engine.claim("a").await.unwrap().is_in_progress());
        world.clock.advance(Duration::from_secs(2));
        drop(claim(&engine, "a").await);

        let short = TieredClaimOptions::new().lease(Duration::from_secs(1));
        let held = engine.claim_with("b", short.clone()).await.unwrap().claimed().unwrap();
        world.clock.advance(Duration::from_secs(2));
        let other = claim(&engine, "b").await;
        assert!(matches!(held.release().await, Err(ClaimError::LostLease(_))));
        other.release().await.unwrap();
    }
}

#[tokio::test]
async fn results_and_fingerprints() {
    for (_, engine) in both().await {
        let ten = TieredClaimOptions::new().fingerprint("amount=10");
        let other = TieredClaimOptions::new().fingerprint("amount=99");
        let held = engine.claim_with("a", ten.clone()).await.unwrap().claimed().unwrap();
        let mismatch = engine.claim_with("a", other.clone()).await.unwrap();
        assert!(matches!(mismatch, TieredAttempt::Mismatch));
        assert!(!mismatch.is_duplicate() && !mismatch.is_in_progress());
        assert!(!engine.claim("a").await.unwrap().is_duplicate(), "it is in progress");
        held.complete_with("paid").await.unwrap();
        // Also when memory knows the id.
        assert!(engine.check("a").await.unwrap().is_duplicate());
        assert!(matches!(engine.claim_with("a", other.clone()).await.unwrap(), TieredAttempt::Mismatch));
        for options in [ten.clone(), TieredClaimOptions::new().wants_result()] {
            match engine.claim_with("a", options).await.unwrap() {
                TieredAttempt::Duplicate(done) => assert_eq!(done.result.as_deref(), Some(b"paid".as_slice())),
                other => panic!("{other:?}"),
            }
        }
        match engine.claim("a").await.unwrap() {
            TieredAttempt::Duplicate(done) => assert_eq!(done.result, None, "memory knows no results"),
            other => panic!("{other:?}"),
        }
        // An id that was only checked has no fingerprint to differ from.
        assert!(is_fresh(&engine, "b").await);
        let done = engine.claim_with("b", ten.clone()).await.unwrap();
        assert!(done.is_duplicate() && !done.is_in_progress());
    }
}

#[tokio::test]
async fn memory_learns_only_what_the_store_has_recorded() {
    for (world, engine) in both().await {
        let held = claim(&engine, "a").await;
        world.store.always(Fault::Fails(ErrorKind::Corrupt));
        assert!(matches!(held.complete().await.unwrap_err().into_error(), ClaimError::Store(_)));
        world.store.always(Fault::None);
        assert!(engine.claim("a").await.unwrap().is_in_progress(), "neither done nor released: the work may be done");
        world.clock.advance(LEASE + Duration::from_secs(1));
        claim(&engine, "a").await.complete().await.unwrap();
        assert!(engine.claim("a").await.unwrap().is_duplicate());
    }
}

#[tokio::test]
async fn memory_forgets_with_the_store_what_is_remembered_for_less_than_the_window() {
    const SHORT: Duration = Duration::from_secs(10);
    let worlds = [World::new(), World::new(), World::new()];
    let engines = worlds.each_ref().map(|world| {
        world.store.be_private();
        admitting(world.engine())
    });
    let [shared, exclusive, with_history] = engines;
    let exclusive = exclusive.ownership(Ownership::Exclusive);
    let with_history = with_history.ownership(Ownership::Exclusive).history(HISTORY);
    for (kind, (world, engine)) in worlds.iter().zip([shared, exclusive, with_history]).enumerate() {
        assert!(SHORT < WINDOW);
        let engine = engine.build().await.unwrap();
        let short = TieredClaimOptions::new().retention(SHORT);
        // One that is admitted before the history is complete, and recorded afterwards.
        world.store.always(Fault::Fails(ErrorKind::Unavailable));
        let early = engine.claim_with("early", short.clone()).await.unwrap().claimed().unwrap();
        world.store.always(Fault::None);
        if kind > 0 {
            engine.warm().await.unwrap();
        }
        early.complete().await.unwrap();
        assert!(engine.claim("early").await.unwrap().is_duplicate(), "engine {kind}");
        for admitted in [false, true, false] {
            if admitted {
                world.store.always(Fault::Fails(ErrorKind::Unavailable));
            }
            let held = engine.claim_with("a", short.clone()).await.unwrap().claimed().expect("it was forgotten");
            assert_eq!(held.is_verified(), !admitted, "engine {kind}");
            world.store.always(Fault::None);
            held.complete().await.unwrap();
            for _ in 0..2 {
                assert!(engine.claim("a").await.unwrap().is_duplicate(), "engine {kind}, admitted: {admitted}");
                world.clock.advance(SHORT * 9 / 20);
            }
            world.clock.advance(SHORT / 5);
        }
        assert!(is_fresh(&engine, "a").await, "engine {kind}");
    }
}

#[tokio::test]
async fn batches_of_claims() {
    for (world, engine) in both().await {
        assert!(is_fresh(&engine, "done").await);
        let attempts = engine.claim_batch(["a", "b", "a", "done"]).await;
        let mut attempts: Vec<_> = attempts.into_iter().map(|attempt| attempt.unwrap()).collect();
        assert!(attempts.pop().unwrap().is_duplicate());
        assert!(attempts.pop().unwrap().is_in_progress());
        let claims: Vec<_> = attempts.into_iter().map(|attempt| attempt.claimed().unwrap()).collect();
        assert!(engine.complete_batch(claims).await.into_iter().all(|end| end.is_ok()));
        for id in ["a", "b"] {
            assert!(engine.claim(id).await.unwrap().is_duplicate());
        }
        // One that has lost its lease fails alone.
        let lost = claim(&engine, "c").await;
        world.clock.advance(LEASE + Duration::from_secs(1));
        let (holder, other) = (claim(&engine, "c").await, claim(&engine, "d").await);
        let ended = engine.complete_batch([lost, holder, other]).await;
        assert!(matches!(ended[0].as_ref().unwrap_err().error(), ClaimError::LostLease(_)));
        assert!(ended[1].is_ok() && ended[2].is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_an_id() {
    for (_, engine) in both().await {
        let held = claim(&engine, "a").await;
        let begun = tokio::time::Instant::now();
        assert!(engine.claim_wait("a", Duration::from_secs(1)).await.unwrap().is_in_progress());
        assert!(begun.elapsed() >= Duration::from_secs(1) && begun.elapsed() < Duration::from_millis(1_300));
        let waits = tokio::spawn({
            let engine = engine.clone();
            async move { engine.claim_wait("a", Duration::from_secs(60)).await.unwrap().is_duplicate() }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        held.complete().await.unwrap();
        assert!(waits.await.unwrap());
    }
}

#[tokio::test]
async fn engines_share_claims_and_tokens_grow_when_ownership_changes() {
    let world = World::new();
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    world.clock.set(hapax::Timestamp::default() + since_epoch);
    let (here, there) = (world.shared().await, world.shared().await);
    let held = claim(&here, "a").await;
    assert!(there.claim("a").await.unwrap().is_in_progress());
    assert!(there.check("a").await.unwrap().is_in_progress());
    let first = held.token();
    held.release().await.unwrap();
    drop((here, there));

    world.clock.advance(Duration::from_secs(1));
    let exclusive = world.engine().ownership(Ownership::Exclusive).build().await.unwrap();
    let held = claim(&exclusive, "a").await;
    let second = held.token();
    held.release().await.unwrap();
    exclusive.shutdown(LEASE).await.unwrap();

    world.clock.advance(Duration::from_secs(60));
    let third = claim(&world.shared().await, "a").await.token();
    assert!(first < second && second < third, "{first:?} {second:?} {third:?}");
}

#[tokio::test]
async fn what_was_taken_to_be_completed_is_completed_even_if_the_rest_panics() {
    for (_, engine) in both().await {
        let claims = vec![claim(&engine, "a").await, claim(&engine, "b").await, claim(&engine, "c").await];
        let mut taken = 0;
        let claims = claims.into_iter().inspect(move |_| {
            taken += 1;
            assert!(taken < 3, "claims that panic");
        });
        let completes = engine.clone();
        let panicked = tokio::spawn(async move { completes.complete_batch(claims).await }).await;
        assert!(panicked.unwrap_err().is_panic());
        assert!(engine.claim("a").await.unwrap().is_duplicate());
        assert!(engine.claim("b").await.unwrap().is_duplicate());
        let attempt = engine.claim_wait("c", Duration::from_secs(5)).await.unwrap();
        assert!(attempt.claimed().is_some(), "it was dropped with the rest");
    }
}

#[tokio::test]
async fn what_was_forgotten_was_for_another_message_and_so_is_a_mismatch() {
    for (_, engine) in both().await {
        let [ten, other] = ["amount=10", "amount=99"].map(|what| TieredClaimOptions::new().fingerprint(what));
        for (now, before) in [(&ten, &other), (&other, &ten)] {
            let held = engine.claim_with("a", now.clone()).await.unwrap().claimed().unwrap();
            held.complete().await.unwrap();
            assert!(matches!(engine.claim_with("a", before.clone()).await.unwrap(), TieredAttempt::Mismatch));
            assert!(engine.claim_with("a", now.clone()).await.unwrap().is_duplicate());
            engine.forget("a").await.unwrap();
        }
    }
}

/// Checks that the store's record decides: after it has gone, memory must not make a mismatch of
/// the same message.
#[tokio::test]
async fn what_the_store_does_not_know_any_more_is_no_mismatch_of_the_same_message() {
    for (world, engine) in both().await {
        let ten = TieredClaimOptions::new().fingerprint("amount=10");
        assert!(is_fresh(&engine, "checked").await);
        claim(&engine, "claimed").await.complete().await.unwrap();
        let held = engine.claim_with("with", ten.clone()).await.unwrap().claimed().unwrap();
        held.complete().await.unwrap();
        engine.flush().await.unwrap();
        // The records are removed without the engine.
        let keys = ["checked", "claimed", "with"].map(|id| RecordKey::new(&Scope::default(), id));
        assert!(world.store.inner().forget(&keys).await.unwrap().into_iter().all(|known| known.unwrap()));
        for id in ["checked", "claimed", "with"] {
            let attempt = engine.claim_with(id, ten.clone()).await.unwrap();
            assert!(attempt.is_duplicate() || attempt.claimed().is_some(), "{id}");
        }
    }
}
