//! The behaviour of claims, case by case.

mod batches;
mod fingerprints;
mod lifetimes;
mod restarts;
mod takeover;

use hapax::{
    Attempt, ClaimOptions, Dedup, Forgotten, LostLease, ManualClock, Once, OnceError, Tier, Unconfirmed, Verdict,
};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(600);
const LEASE: Duration = Duration::from_secs(30);

fn engine() -> (Dedup, ManualClock) {
    let clock = ManualClock::new();
    let dedup = Dedup::builder().window(WINDOW).capacity(10_000).lease(LEASE).clock(clock.clone()).build().unwrap();
    (dedup, clock)
}

fn lease_left(attempt: &Attempt<'_>) -> Duration {
    match attempt {
        Attempt::InProgress { lease_left } => *lease_left,
        other => panic!("expected InProgress, got {other:?}"),
    }
}

#[test]
fn one_of_many_callers_gets_the_claim_and_the_handler_runs_once_for_each_id() {
    const THREADS: usize = 10;
    const IDS: u32 = 100;
    let (dedup, _) = engine();
    let runs: Vec<_> = (0..IDS).map(|_| AtomicU32::new(0)).collect();
    let refused = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for (id, runs) in runs.iter().enumerate() {
                    loop {
                        let work = |_: &mut _| -> Result<(), ()> {
                            runs.fetch_add(1, Ordering::Relaxed);
                            std::thread::yield_now();
                            Ok(())
                        };
                        match dedup.once(id.to_string(), work).unwrap() {
                            Once::Done(()) | Once::Duplicate(_) => break,
                            // Like a broker: a message that is not acknowledged is delivered again.
                            Once::InProgress { lease_left } => {
                                assert_eq!(lease_left, LEASE);
                                refused.fetch_add(1, Ordering::Relaxed);
                                std::thread::yield_now();
                            }
                            Once::TooMany => panic!("too many"),
                        }
                    }
                }
            });
        }
    });
    assert!(runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 1));
    let claims = dedup.stats().claims;
    assert_eq!((claims.claimed, claims.completed, claims.live), (100, 100, 0));
    assert_eq!(claims.in_progress, u64::from(refused.into_inner()));
    assert_eq!(claims.duplicates, 10 * 100 - 100);
}

#[test]
fn what_fails_is_attempted_again() {
    let (dedup, _) = engine();
    let mut attempts: HashMap<u32, u32> = HashMap::new();
    for id in [1, 2, 1, 2, 1, 3] {
        let work = |_: &mut _| {
            *attempts.entry(id).or_default() += 1;
            if id == 2 { Err("no") } else { Ok(()) }
        };
        assert_eq!(dedup.once(id.to_string(), work).is_err(), id == 2);
    }
    assert_eq!(attempts, HashMap::from([(1, 1), (2, 2), (3, 1)]));
}

#[test]
fn a_dropped_claim_and_a_panic_release() {
    let (dedup, _) = engine();
    drop(dedup.claim("a"));
    let panics = || dedup.once("a", |_| -> Result<(), ()> { panic!("as it should") });
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert_eq!(dedup.once("a", |_| Ok::<_, ()>(7)), Ok(Once::Done(7)));
    let claims = dedup.stats().claims;
    assert_eq!((claims.claimed, claims.released, claims.completed, claims.live), (3, 2, 1, 0));
}

#[test]
fn a_failure_is_remembered_for_a_short_time() {
    let (dedup, clock) = engine();
    let retry_after = Duration::from_secs(7);
    dedup.claim("poison").claimed().unwrap().fail(retry_after).unwrap();
    assert_eq!(lease_left(&dedup.claim("poison")), retry_after);
    assert!(dedup.check("poison").is_in_progress());
    clock.advance(retry_after);
    assert!(dedup.claim("poison").claimed().is_some());
    assert_eq!(dedup.stats().claims.failed, 1);
}

#[test]
fn retention_counts_from_completion_and_is_separate_from_the_lease() {
    let (dedup, clock) = engine();
    let long = ClaimOptions::new().lease(3 * WINDOW);
    let claim = dedup.claim_with("a", long).claimed().unwrap();
    clock.advance(2 * WINDOW);
    assert!(dedup.claim("a").is_in_progress());
    assert!(dedup.check("a").is_in_progress());
    claim.complete().unwrap();
    clock.advance(WINDOW - Duration::from_nanos(1));
    assert!(dedup.claim("a").is_duplicate());
    clock.advance(2 * dedup.tick() + Duration::from_nanos(1));
    assert!(dedup.claim("a").claimed().is_some());
}

#[test]
fn checks_and_claims_respect_each_other() {
    let (dedup, clock) = engine();
    assert!(dedup.check("checked").is_fresh());
    assert!(dedup.claim("checked").is_duplicate());

    let claim = dedup.claim("claimed").claimed().unwrap();
    let verdict = dedup.check("claimed");
    assert!(verdict.is_in_progress() && !verdict.is_fresh() && !verdict.is_duplicate());
    assert_eq!(verdict.tier(), Tier::Claims);
    let mut verdicts = Vec::new();
    dedup.check_batch(["claimed", "new", "checked", "claimed"], &mut verdicts);
    let which = |is: fn(Verdict) -> bool| verdicts.iter().map(|v| is(*v)).collect::<Vec<_>>();
    assert_eq!(which(Verdict::is_in_progress), [true, false, false, true]);
    assert_eq!(which(Verdict::is_fresh), [false, true, false, false]);
    assert_eq!(which(Verdict::is_duplicate), [false, false, true, false]);

    // An id that a check found in progress is not burned.
    claim.release().unwrap();
    assert!(dedup.check("claimed").is_fresh());
    assert!(dedup.claim("claimed").is_duplicate());

    // A check takes over an expired lease, too.
    let late = dedup.claim("late").claimed().unwrap();
    clock.advance(LEASE);
    assert!(dedup.check("late").is_fresh());
    assert!(late.complete().is_err());
    let stats = dedup.stats();
    assert_eq!((stats.in_progress, stats.checks()), (3, 8));
}

#[test]
fn fingerprints() {
    let (dedup, _) = engine();
    let (one, other) = (ClaimOptions::new().fingerprint("amount=10"), ClaimOptions::new().fingerprint("amount=99"));
    let claim = dedup.claim_with("payment", one).claimed().unwrap();
    assert!(matches!(dedup.claim_with("payment", other), Attempt::Mismatch));
    assert!(dedup.claim_with("payment", one).is_in_progress());
    assert!(dedup.claim("payment").is_in_progress());
    claim.complete().unwrap();
    assert!(matches!(dedup.claim_with("payment", other), Attempt::Mismatch));
    assert!(dedup.claim_with("payment", one).is_duplicate());
    assert!(dedup.claim("payment").is_duplicate());
    // A mismatch burns nothing, and leaves nothing behind.
    assert_eq!(dedup.stats().claims.mismatches, 2);
    assert!(dedup.claim_with("another", other).claimed().is_some());

    let claim = dedup.claim_with("failed", one).claimed().unwrap();
    claim.release().unwrap();
    assert!(dedup.claim_with("failed", other).claimed().is_some(), "a corrected retry is fresh");
}

#[test]
fn scopes_are_apart() {
    let (dedup, _) = engine();
    let (alice, bob) = (dedup.with_scope("alice"), dedup.with_scope("bob"));
    let _claim = alice.claim("key").claimed().unwrap();
    assert!(bob.claim("key").claimed().is_some());
    assert!(alice.claim("key").is_in_progress());
}

#[test]
fn batches_answer_as_one_by_one() {
    let (dedup, _) = engine();
    let (mut attempts, mut ended) = (Vec::new(), Vec::new());
    dedup.claim_batch([] as [&str; 0], &mut attempts);
    assert!(attempts.is_empty());

    let _ = dedup.check("done");
    dedup.claim_batch(["a", "a", "b", "done", "done"], &mut attempts);
    assert!(matches!(
        attempts[..],
        [
            Attempt::Claimed(_),
            Attempt::InProgress { lease_left: LEASE },
            Attempt::Claimed(_),
            Attempt::Duplicate(_),
            Attempt::Duplicate(_)
        ]
    ));
    dedup.complete_batch(attempts.drain(..).filter_map(Attempt::claimed), &mut ended);
    assert_eq!(ended, [Ok(()), Ok(())]);
    dedup.claim_batch(["b", "c", "a"], &mut attempts);
    assert!(matches!(attempts[..], [Attempt::Duplicate(_), Attempt::Claimed(_), Attempt::Duplicate(_)]));
    drop(attempts);
    assert!(dedup.claim("c").claimed().is_some());
}

#[test]
fn large_batches_over_and_over() {
    let (dedup, clock) = engine();
    let (mut attempts, mut ended, mut verdicts) = (Vec::new(), Vec::new(), Vec::new());
    let ids = |from: u32| (from..from + 3_000).map(|id| id.to_be_bytes());
    dedup.check_batch(ids(0).step_by(3), &mut verdicts);
    for lap in 0..2 {
        dedup.claim_batch(ids(0), &mut attempts);
        for (id, attempt) in attempts.iter().enumerate() {
            let expected = if id % 3 == 0 || lap > 0 { "Duplicate" } else { "Claimed" };
            assert!(format!("{attempt:?}").starts_with(expected), "lap {lap}, id {id}: {attempt:?}");
        }
        dedup.complete_batch(attempts.drain(..).filter_map(Attempt::claimed), &mut ended);
        assert_eq!(ended.len(), if lap == 0 { 2_000 } else { 0 });
        assert!(ended.iter().all(Result::is_ok));
    }
    // Some claims have lost their lease, and some are another engine's.
    let (other, _) = engine();
    dedup.claim_batch(ids(10_000), &mut attempts);
    let mut claims: Vec<_> = attempts.drain(..).filter_map(Attempt::claimed).collect();
    clock.advance(LEASE);
    let _taken: Vec<_> = ids(10_000).step_by(2).map(|id| dedup.claim(id)).collect();
    claims.insert(1, other.claim("its").claimed().unwrap());
    dedup.complete_batch(claims, &mut ended);
    assert_eq!(ended.len(), 3_001);
    assert!(other.claim("its").is_duplicate());
    ended.remove(1).unwrap();
    assert!(ended.iter().enumerate().all(|(i, end)| end.is_err() == (i % 2 == 0)));
}

#[test]
fn waiting() {
    let (dedup, _) = engine();
    for completes in [true, false] {
        let claim = dedup.claim("a").claimed().unwrap();
        let before = dedup.stats().claims.in_progress;
        std::thread::scope(|scope| {
            let other = scope.spawn(|| dedup.claim_wait("a", Duration::from_secs(600)).is_duplicate());
            while dedup.stats().claims.in_progress == before {
                std::thread::yield_now();
            }
            if completes { claim.complete() } else { claim.release() }.unwrap();
            assert_eq!(other.join().unwrap(), completes);
        });
        dedup.forget("a");
    }
    // The time is up.
    let _claim = dedup.claim("b").claimed().unwrap();
    assert!(dedup.claim_wait("b", Duration::from_millis(10)).is_in_progress());

    // The lease expires, on a clock that nobody can wait for.
    let (dedup, clock) = engine();
    let _late = dedup.claim("c").claimed().unwrap();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| dedup.claim_wait("c", Duration::MAX).claimed().is_some());
        clock.advance(LEASE);
        assert!(other.join().unwrap());
    });
}

#[test]
fn claims_can_be_handed_to_other_threads() {
    let (dedup, _) = engine();
    let claim = dedup.claim("a").claimed().unwrap().into_owned();
    assert!(dedup.claim("a").is_in_progress(), "owning it has released it");
    std::thread::spawn(move || claim.complete()).join().unwrap().unwrap();
    assert!(dedup.claim("a").is_duplicate());
}

#[test]
fn what_is_claimed_is_neither_forgotten_nor_cleared() {
    let (dedup, _) = engine();
    let claim = dedup.claim("a").claimed().unwrap();
    assert_eq!(dedup.forget("a"), Forgotten::InProgress);
    assert_eq!(dedup.contains("a"), None, "in progress is not done");
    let _ = dedup.check("b");
    dedup.claim("c").claimed().unwrap().fail(LEASE).unwrap();
    dedup.clear();
    assert!(dedup.claim("a").is_in_progress());
    assert!(dedup.check("b").is_fresh());
    assert!(dedup.check("c").is_fresh(), "its failure was to be forgotten");
    claim.complete().unwrap();
    assert!(dedup.check("a").is_duplicate());
    assert_eq!(dedup.forget("a"), Forgotten::Entirely);
    assert!(dedup.claim("a").claimed().is_some());
}

#[test]
fn with_a_history() {
    for unconfirmed in [Unconfirmed::Duplicate, Unconfirmed::Fresh] {
        let clock = ManualClock::new();
        let dedup = Dedup::builder()
            .window(WINDOW)
            .capacity(10_000)
            .history(hapax::History { unconfirmed, ..testkit::history(100 * WINDOW, 1e-4, 10_000) })
            .clock(clock.clone())
            .build()
            .unwrap();
        let (mut attempts, mut ended) = (Vec::new(), Vec::new());
        // An id in progress is not in the history either.
        let claim = dedup.claim("a").claimed().unwrap();
        assert!(dedup.check("a").is_in_progress());
        claim.release().unwrap();
        let fingerprint = ClaimOptions::new().fingerprint("f");
        dedup.claim_with("a", fingerprint).claimed().unwrap().complete().unwrap();
        dedup.claim_batch(["b", "a"], &mut attempts);
        assert!(attempts[1].is_duplicate());
        let known = dedup.claim("a");
        assert!(matches!(known, Attempt::Duplicate(verdict) if verdict.tier() != Tier::History), "{known:?}");
        dedup.complete_batch(attempts.drain(..).filter_map(Attempt::claimed), &mut ended);

        clock.advance(2 * WINDOW);
        dedup.claim_batch(["a", "c", "b"], &mut attempts);
        let guesses =
            attempts.iter().filter(|a| matches!(a, Attempt::Duplicate(v) if v.tier() == Tier::History)).count();
        let claimed = attempts.drain(..).filter_map(Attempt::claimed).count();
        let other = dedup.claim_with("a", ClaimOptions::new().fingerprint("g"));
        match unconfirmed {
            Unconfirmed::Duplicate => {
                assert_eq!((guesses, claimed), (2, 1));
                assert!(dedup.claim("b").is_duplicate());
                assert!(dedup.claim_with("a", fingerprint).is_duplicate());
                assert!(other.is_duplicate(), "of what only the history knows nobody knows what it was");
            }
            Unconfirmed::Fresh => {
                assert_eq!((guesses, claimed), (0, 3));
                assert!(other.claimed().is_some());
            }
        }
    }
}

#[test]
fn too_many_in_flight_are_refused_until_leases_expire() {
    let (dedup, clock) = engine();
    // Their holders are gone and have not released them.
    let leak = |id: u32| match dedup.claim(id.to_be_bytes()) {
        Attempt::Claimed(claim) => {
            std::mem::forget(claim);
            true
        }
        Attempt::TooMany => false,
        other => panic!("{other:?}"),
    };
    let leaked = (0..1_200_000).filter(|&id| leak(id)).count();
    assert!((1_000_000..1_100_000).contains(&leaked), "{leaked}");
    let claims = dedup.stats().claims;
    assert_eq!((claims.live, claims.refused), (leaked as u64, 1_200_000 - leaked as u64));
    clock.advance(LEASE);
    assert!((2_000_000..2_001_000).all(leak));
    let claims = dedup.stats().claims;
    assert_eq!((claims.live, claims.expired), (1_000, leaked as u64));
}

#[test]
fn a_lease_of_nothing_is_refused_by_name() {
    for lease in [Duration::ZERO, Duration::MAX] {
        let error = Dedup::builder().lease(lease).build().unwrap_err().to_string();
        assert!(error.contains("option `lease`") && error.contains(&format!("{lease:?}")), "{error}");
    }
}

#[test]
fn checks_of_what_is_claimed_leave_nothing_behind() {
    let (dedup, _) = engine();
    let claims: Vec<_> = (0..100_u32).map(|id| dedup.claim(id.to_be_bytes()).claimed().unwrap()).collect();
    let (before, mut verdicts) = (dedup.stats(), Vec::new());
    for _ in 0..100 {
        assert!((0..100_u32).all(|id| dedup.check(id.to_be_bytes()).is_in_progress()));
        dedup.check_batch((0..100_u32).map(u32::to_be_bytes), &mut verdicts);
        assert!(verdicts.iter().all(|verdict| verdict.is_in_progress()));
    }
    let after = dedup.stats();
    assert_eq!((after.bytes, after.window.live, after.in_progress), (before.bytes, before.window.live, 20_000));
    drop(claims);
    dedup.check_batch((0..100_u32).map(u32::to_be_bytes), &mut verdicts);
    assert!(verdicts.iter().all(|verdict| verdict.is_fresh()));
}

#[test]
fn work_that_fails_says_why() {
    let (dedup, _) = engine();
    let failed = dedup.once("id", |_| Err::<(), _>(std::io::Error::other("no route to the bank"))).unwrap_err();
    assert_eq!(failed.to_string(), "the work failed, and its id was released: no route to the bank");
    let source = std::error::Error::source(&failed).expect("the work's own error");
    assert_eq!(source.to_string(), "no route to the bank");
}
