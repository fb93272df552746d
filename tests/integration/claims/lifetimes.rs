//! The time for which claimed ids are remembered, if the window slides, and the lifetime of
//! fingerprints.

use super::*;

/// Builds an engine with a sliding window, at time 1,000 s, and optionally a history.
fn sliding(with_history: bool) -> (Dedup, ManualClock) {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(1_000));
    let builder = Dedup::builder().window(WINDOW).refresh_on_duplicate(true).clock(clock.clone());
    let builder = if with_history { builder.history(testkit::history(WINDOW, 1e-6, 1_000)) } else { builder };
    (builder.build().unwrap(), clock)
}

#[test]
fn a_claim_of_what_is_done_slides_the_window() {
    for with_history in [false, true] {
        let (dedup, clock) = sliding(with_history);
        dedup.claim("one").claimed().unwrap().complete().unwrap();
        dedup.claim("many").claimed().unwrap().complete().unwrap();
        let mut attempts = Vec::new();
        for round in 0..20 {
            clock.advance(WINDOW * 9 / 10);
            let _ = dedup.check(format!("other {round}"));
            assert!(dedup.claim("one").is_duplicate(), "history: {with_history}, round {round}");
            dedup.claim_batch(["many"], &mut attempts);
            assert!(attempts[0].is_duplicate(), "history: {with_history}, round {round}: {attempts:?}");
        }
    }
}

#[test]
fn a_fingerprint_lives_as_long_as_its_id() {
    let pay = |dedup: &Dedup| dedup.claim_with("id", ClaimOptions::new().fingerprint("amount=10")).is_duplicate();
    let done = |dedup: &Dedup| {
        let attempt = dedup.claim_with("id", ClaimOptions::new().fingerprint("amount=10"));
        attempt.claimed().unwrap().complete().unwrap();
    };
    for with_history in [false, true] {
        let (dedup, clock) = sliding(with_history);
        done(&dedup);
        for round in 0..10 {
            clock.advance(WINDOW * 6 / 10);
            let _ = dedup.check(format!("other {round}"));
            assert!(pay(&dedup), "history: {with_history}, round {round}: asked for within a window that slides");
        }
    }

    let (dedup, clock) = engine();
    clock.advance(Duration::from_secs(1_000));
    done(&dedup);
    clock.advance(WINDOW * 6 / 10);
    assert_eq!(dedup.forget("id"), Forgotten::Entirely);
    done(&dedup);
    clock.advance(WINDOW * 6 / 10);
    assert!(pay(&dedup), "done again within a window");
}

/// A clock that may be behind by ten milliseconds.
struct Behind(ManualClock);

impl hapax::Clock for Behind {
    fn now(&self) -> hapax::Timestamp {
        hapax::Clock::now(&self.0)
    }

    fn lag(&self) -> Duration {
        Duration::from_millis(10)
    }
}

#[test]
fn a_lease_is_no_shorter_for_a_clock_that_lags() {
    let clock = ManualClock::new();
    let builder = Dedup::builder().window(WINDOW).capacity(10_000).lease(LEASE);
    let dedup = builder.clock(Behind(clock.clone())).build().unwrap();
    let claim = dedup.claim("id").claimed().unwrap();
    clock.advance(LEASE);
    assert_eq!(lease_left(&dedup.claim("id")), Duration::from_millis(10), "the lease began up to 10 ms later");
    clock.advance(Duration::from_millis(10));
    let taken_over = dedup.claim("id").claimed().expect("the lease is over, whatever time it was");
    assert!(claim.complete().is_err());
    taken_over.complete().unwrap();
}
