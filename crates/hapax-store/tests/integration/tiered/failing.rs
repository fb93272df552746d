//! Stores that fail, hang, answer late, or lose their answers.

use super::*;
use hapax_store::{BreakerState, ErrorKind, TieredAttempt};
use hapax_testing::store::Fault;

const TRANSIENT: [ErrorKind; 2] = [ErrorKind::Unavailable, ErrorKind::Timeout];

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_for_a_while_is_asked_again() {
    let world = World::new();
    let engine = world.shared().await;
    for (i, kind) in TRANSIENT.into_iter().enumerate() {
        world.store.next(Fault::Fails(kind));
        world.store.next(Fault::Fails(kind));
        assert!(is_fresh(&engine, &format!("{i}")).await);
    }
    assert_eq!(engine.stats().retries, 4);
    // A permanent error is not retried.
    let calls = world.store.calls();
    for kind in [ErrorKind::Corrupt, ErrorKind::Misconfigured, ErrorKind::Conflict] {
        world.store.next(Fault::Fails(kind));
        assert_eq!(engine.check("b").await.unwrap_err().kind(), kind);
    }
    assert_eq!(world.store.calls() - calls, 3);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_lost_is_asked_for_again() {
    let world = World::new();
    let engine = world.shared().await;
    world.store.next(Fault::LosesAnswer(ErrorKind::Timeout));
    assert!(is_fresh(&engine, "a").await, "the mark of which no answer came was its own");
    world.store.next(Fault::LosesAnswer(ErrorKind::Unavailable));
    let claim = engine.claim("b").await.unwrap().claimed().expect("and so was the claim");
    world.store.next(Fault::LosesAnswer(ErrorKind::Timeout));
    claim.complete().await.expect("and the completion");
    let claim = engine.claim("c").await.unwrap().claimed().unwrap();
    world.store.next(Fault::LosesAnswer(ErrorKind::Timeout));
    claim.release().await.expect("and the release");
    let claim = engine.claim("c").await.unwrap().claimed().unwrap();
    world.store.next(Fault::LosesAnswer(ErrorKind::Timeout));
    claim.fail(WINDOW).await.expect("and the failure");
    assert!(engine.claim("c").await.unwrap().is_in_progress());
}

#[tokio::test(start_paused = true)]
async fn a_mark_whose_answer_never_came_is_not_a_duplicate_of_itself() {
    let world = World::new();
    let engine = world.engine().retries(0).build().await.unwrap();
    world.store.next(Fault::LosesAnswer(ErrorKind::Timeout));
    assert_eq!(engine.check("a").await.unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(engine.stats().unresolved, 1);
    // The message was not handled, so it comes again.
    assert!(is_fresh(&engine, "a").await);
    assert!(!is_fresh(&engine, "a").await);
    assert_eq!(engine.stats().unresolved, 0);

    world.store.next(Fault::Hangs);
    assert_eq!(engine.check("b").await.unwrap_err().kind(), ErrorKind::Timeout);
    world.store.next(Fault::AnswersLate(Duration::from_secs(5)));
    assert_eq!(engine.check("b").await.unwrap_err().kind(), ErrorKind::Timeout);
    assert!(is_fresh(&engine, "b").await);
}

#[tokio::test(start_paused = true)]
async fn one_request_that_fails_fails_alone() {
    let world = World::new();
    let engine = world.shared().await;
    world.store.next(Fault::FailsOne(ErrorKind::Corrupt));
    let verdicts = engine.check_batch(["a", "b", "c"]).await;
    assert_eq!(verdicts[0].as_ref().unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(verdicts[1..].iter().all(|verdict| verdict.as_ref().unwrap().is_fresh()));
    // And if it is transient, it alone is retried.
    let requests = world.store.requests();
    world.store.next(Fault::FailsOne(ErrorKind::Unavailable));
    assert!(engine.check_batch(["d", "e", "f"]).await.into_iter().all(|it| it.unwrap().is_fresh()));
    assert_eq!(world.store.requests() - requests, 4);
}

#[tokio::test(start_paused = true)]
async fn fail_closed_or_admit_and_say_so() {
    let world = World::new();
    let closed = world.engine().retries(0).build().await.unwrap();
    let open = admitting(world.engine()).retries(0).build().await.unwrap();
    assert!(is_fresh(&closed, "known").await && !is_fresh(&open, "known").await);
    for kind in TRANSIENT {
        world.store.always(Fault::Fails(kind));
        let id = format!("{kind:?}");
        assert_eq!(closed.check(&id).await.unwrap_err().kind(), kind);
        assert_eq!(closed.claim(&id).await.unwrap_err().kind(), kind);
        let verdict = open.check(&id).await.unwrap();
        assert!(verdict.is_fresh());
        assert!(!verdict.is_certain());
        // This process at least knows.
        assert!(open.check(&id).await.unwrap().is_duplicate());
        // The answers of memory are exact.
        for engine in [&closed, &open] {
            let verdict = engine.check("known").await.unwrap();
            assert!(verdict.is_duplicate());
            assert!(verdict.is_certain());
        }
        match open.claim(format!("{id} claim")).await.unwrap() {
            TieredAttempt::Claimed(claim) => {
                assert!(!claim.is_verified());
                assert!(claim.complete().await.is_err(), "what is not recorded is an error");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(open.stats().decided.admitted, 4);
    // Only an outage may be admitted.
    world.store.always(Fault::Fails(ErrorKind::Misconfigured));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(open.check("other").await.unwrap_err().kind(), ErrorKind::Misconfigured);
}

#[tokio::test(start_paused = true)]
async fn the_breaker_spares_a_store_that_is_down_and_tries_again() {
    let world = World::new();
    let rest = Duration::from_secs(1);
    let engine = world.engine().retries(0).circuit_breaker(5, rest).build().await.unwrap();
    let calls = world.store.calls();
    world.store.always(Fault::Fails(ErrorKind::Unavailable));
    // (A check's mark would be taken back in the background, which goes past the breaker.)
    for i in 0..100 {
        assert_eq!(engine.claim(format!("{i}")).await.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    assert_eq!(world.store.calls() - calls, 5);
    assert_eq!(engine.stats().breaker, BreakerState::Open);
    assert_eq!(engine.stats().refusals, 95);
    tokio::time::advance(rest).await;
    assert!(engine.claim("probe").await.is_err());
    assert!(engine.claim("not asked").await.is_err());
    assert_eq!(world.store.calls() - calls, 6);
    world.store.always(Fault::None);
    assert!(engine.claim("not asked").await.is_err());
    tokio::time::advance(rest).await;
    assert!(is_fresh(&engine, "probe").await);
    assert_eq!(engine.stats().breaker, BreakerState::Closed);
    for i in 0..100 {
        assert!(is_fresh(&engine, &format!("{i}")).await);
    }
    assert_eq!(engine.stats().breaker_opened, 2);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_waited_for_no_longer_than_said() {
    let world = World::new();
    let engine = world.engine().timeout(Duration::from_millis(100)).retries(2).build().await.unwrap();
    world.store.always(Fault::Hangs);
    let begun = tokio::time::Instant::now();
    assert_eq!(engine.check("a").await.unwrap_err().kind(), ErrorKind::Timeout);
    assert!(begun.elapsed() <= Duration::from_millis(3 * 100 + 10 + 20 + 10), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_admits_starts_while_the_store_is_down() {
    let world = World::new();
    world.store.always(Fault::Fails(ErrorKind::Unavailable));
    // An engine that does not gets an error, and an exclusive one never starts without its store.
    assert_eq!(world.engine().build().await.unwrap_err().kind(), ErrorKind::Unavailable);
    let admits = || admitting(world.engine());
    let error = admits().ownership(hapax_store::Ownership::Exclusive).build().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.to_string().contains("owns the store"), "{error}");

    let engine = admits().build().await.unwrap();
    assert!(!engine.check("a").await.unwrap().is_certain());
    tokio::time::sleep(Duration::from_secs(60)).await;
    let calls = world.store.calls();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!((50..130).contains(&(world.store.calls() - calls)), "once in half a second to a second");
    // The store answers. A check comes before the next question for the owner, which was just
    // asked.
    let calls = world.store.calls();
    while world.store.calls() == calls {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    world.store.always(Fault::None);
    assert!(!engine.check("b").await.unwrap().is_certain());
    tokio::time::sleep(Duration::from_millis(1_001)).await;
    assert!(is_fresh(&engine, "c").await);
    assert!(engine.check("d").await.unwrap().is_certain());
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_started_without_its_store_finds_that_another_owns_it() {
    let world = World::new();
    let _owner = world.exclusive().await;
    world.store.always(Fault::Hangs);
    let engine = admitting(world.engine()).build().await.unwrap();
    assert!(!engine.check("a").await.unwrap().is_certain());
    world.store.always(Fault::None);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let error = engine.check("b").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
}
