//! A mismatch is reported only when it is certain.

use super::*;
use hapax::Outcome;

/// Claims an id with a payload, and completes it, if it can be claimed.
pub fn pay(dedup: &Dedup, id: impl AsRef<[u8]>, payload: &str) -> bool {
    let claim = dedup.claim_with(id, ClaimOptions::new().fingerprint(payload)).claimed();
    claim.is_some_and(|claim| claim.complete().is_ok())
}

/// Returns the outcome of a claim with a payload; it is released if it is granted.
pub fn ask(dedup: &Dedup, id: impl AsRef<[u8]>, payload: &str) -> &'static str {
    match dedup.claim_with(id, ClaimOptions::new().fingerprint(payload)) {
        Attempt::Claimed(_) => "claimed",
        Attempt::InProgress { .. } => "in progress",
        Attempt::Duplicate(_) => "duplicate",
        Attempt::Mismatch => "mismatch",
        Attempt::TooMany => "too many",
    }
}

fn sliding(with_history: bool) -> (Dedup, ManualClock) {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(1_000));
    let builder = Dedup::builder().window(WINDOW).refresh_on_duplicate(true).clock(clock.clone()).seed(3);
    let builder = if with_history { builder.history(testkit::history(WINDOW, 1e-6, 1_000)) } else { builder };
    (builder.build().unwrap(), clock)
}

#[test]
fn a_payload_stays_the_same_where_the_window_slides_by_whatever_asks() {
    let mut verdicts = Vec::new();
    for with_history in [false, true] {
        for way in ["check", "checks", "claim", "claims", "same payload"] {
            let (dedup, clock) = sliding(with_history);
            let mut attempts = Vec::new();
            assert!(pay(&dedup, "id", "one"));
            for round in 0..4 {
                clock.advance(WINDOW * 6 / 10);
                match way {
                    "check" => assert_eq!(dedup.check("id").outcome(), Outcome::Duplicate),
                    "checks" => dedup.check_batch(["id"; 100], &mut verdicts),
                    "claim" => assert!(dedup.claim("id").is_duplicate()),
                    "claims" => dedup.claim_batch(["id"; 100], &mut attempts),
                    _ => assert_eq!(ask(&dedup, "id", "one"), "duplicate"),
                }
                // (A mismatch does not refresh.)
                assert_eq!(ask(&dedup, "id", "other"), "mismatch", "{way}, history: {with_history}, round {round}");
            }
            assert_eq!(ask(&dedup, "id", "one"), "duplicate", "{way}, history: {with_history}");
            clock.advance(WINDOW + 2 * dedup.tick());
            if !with_history {
                assert!(pay(&dedup, "id", "other"), "{way}: after a window it is forgotten, with what it was");
            }
        }
    }
}

#[test]
fn what_is_forgotten_early_is_no_mismatch() {
    for refresh in [false, true] {
        let builder = Dedup::builder().window(WINDOW).capacity(1_000).max_memory_bytes(64 << 10).growth_thread(false);
        let dedup = builder.clock(ManualClock::new()).refresh_on_duplicate(refresh).seed(5).build().unwrap();
        let ids = 0..12_000_u32;
        assert!(ids.clone().all(|id| pay(&dedup, id.to_be_bytes(), "one")));
        let evicted = dedup.evicted_live();
        assert!(evicted > 200, "{evicted}");
        let counts = ids.fold(HashMap::<_, u32>::new(), |mut counts, id| {
            *counts.entry(ask(&dedup, id.to_be_bytes(), "one")).or_default() += 1;
            counts
        });
        assert!(counts.keys().all(|answer| ["claimed", "duplicate"].contains(answer)), "{counts:?}");
    }
}

#[test]
fn what_is_accepted_again_by_a_check_has_no_payload_any_more() {
    for refresh in [false, true] {
        for batches in [false, true] {
            let builder = Dedup::builder().window(WINDOW).capacity(1_000).max_memory_bytes(64 << 10);
            let builder = builder.growth_thread(false).refresh_on_duplicate(refresh).clock(ManualClock::new());
            let dedup = builder.seed(5).build().unwrap();
            let ids = 0..12_000_u32;
            ids.clone().for_each(|id| assert!(pay(&dedup, id.to_be_bytes(), "one")));
            // Some were forgotten early, and are accepted by a check.
            let mut verdicts = Vec::new();
            if batches {
                dedup.check_batch(ids.clone().map(u32::to_be_bytes), &mut verdicts);
            } else {
                verdicts.extend(ids.clone().map(|id| dedup.check(id.to_be_bytes())));
            }
            let again: Vec<_> = ids.zip(verdicts).filter(|(_, verdict)| verdict.is_fresh()).collect();
            assert!(again.len() > 200);
            for (id, _) in again {
                let answer = ask(&dedup, id.to_be_bytes(), "other");
                assert!(["claimed", "duplicate"].contains(&answer), "{id}: {answer}");
            }
        }
    }
}

#[test]
fn what_only_the_history_guesses_at_is_no_mismatch() {
    for refresh in [false, true] {
        let clock = ManualClock::new();
        let builder = Dedup::builder()
            .window(WINDOW)
            .history(testkit::history(10 * WINDOW, 0.1, 1_000))
            .refresh_on_duplicate(refresh);
        let dedup = builder.clock(clock.clone()).seed(7).build().unwrap();
        assert!((0..1_000_u32).filter(|id| pay(&dedup, id.to_be_bytes(), "one")).count() > 900);
        let new = (1_000..5_000_u32).map(|id| ask(&dedup, id.to_be_bytes(), "new")).filter(|a| *a != "claimed");
        let guesses: Vec<_> = new.collect();
        assert!(guesses.len() > 50);
        assert!(guesses.iter().all(|answer| *answer == "duplicate"), "{guesses:?}");
        // Beyond the window the id is known by a guess, and the payload is unknown.
        clock.advance(2 * WINDOW);
        for id in 0..1_000_u32 {
            assert_eq!(ask(&dedup, id.to_be_bytes(), "other"), "duplicate");
        }
    }
}

#[test]
fn what_was_accepted_without_a_fingerprint_is_a_duplicate_whatever_the_fingerprint() {
    let (dedup, _) = engine();
    let (mut attempts, mut ended) = (Vec::new(), Vec::new());
    let _ = dedup.check("checked");
    dedup.claim("claimed").claimed().unwrap().complete().unwrap();
    dedup.claim_batch(["in a batch"], &mut attempts);
    dedup.complete_batch(attempts.drain(..).filter_map(Attempt::claimed), &mut ended);
    for id in ["checked", "claimed", "in a batch"] {
        assert_eq!(ask(&dedup, id, "one"), "duplicate", "{id}");
        assert_eq!(ask(&dedup, id, "other"), "duplicate", "{id}");
    }
    assert_eq!(dedup.stats().claims.mismatches, 0);
}

#[test]
fn what_is_forgotten_takes_its_payload_with_it() {
    for with_history in [false, true] {
        for refresh in [false, true] {
            let builder = Dedup::builder().window(WINDOW).refresh_on_duplicate(refresh).clock(ManualClock::new());
            let builder = if with_history {
                builder.history(hapax::History {
                    unconfirmed: Unconfirmed::Fresh,
                    ..testkit::history(WINDOW, 1e-6, 1_000)
                })
            } else {
                builder
            };
            let dedup = builder.build().unwrap();
            assert!(pay(&dedup, "id", "one"));
            dedup.forget("id");
            assert!(pay(&dedup, "id", "two"));
            assert_eq!(ask(&dedup, "id", "one"), "mismatch", "the old payload was not handled since");
            assert_eq!(ask(&dedup, "id", "two"), "duplicate");

            // Accepted again without a payload.
            dedup.forget("id");
            dedup.claim("id").claimed().unwrap().complete().unwrap();
            assert_eq!(ask(&dedup, "id", "two"), "duplicate");
            assert_eq!(ask(&dedup, "id", "three"), "duplicate");

            assert!(pay(&dedup, "another", "one"));
            dedup.clear();
            assert!(pay(&dedup, "another", "two"));
            assert_eq!(ask(&dedup, "another", "one"), "mismatch");
            assert_eq!(dedup.stats().claims.fingerprints, 1);
        }
    }
}

#[test]
fn payloads_of_batches_are_remembered() {
    let (dedup, clock) = engine();
    let with = |id: u32| ClaimOptions::new().fingerprint(if id.is_multiple_of(2) { "even" } else { "odd" });
    let claims: Vec<_> =
        (0..3_000_u32).filter_map(|id| dedup.claim_with(id.to_be_bytes(), with(id)).claimed()).collect();
    let mut ended = Vec::new();
    dedup.complete_batch(claims, &mut ended);
    for id in 0..3_000_u32 {
        let answers = if id.is_multiple_of(2) { ("duplicate", "mismatch") } else { ("mismatch", "duplicate") };
        assert_eq!((ask(&dedup, id.to_be_bytes(), "even"), ask(&dedup, id.to_be_bytes(), "odd")), answers, "{id}");
    }
    assert_eq!(dedup.stats().claims.fingerprints, 3_000);
    clock.advance(WINDOW + 2 * dedup.tick());
    assert!(pay(&dedup, 0_u32.to_be_bytes(), "odd"));
}

#[test]
fn of_more_payloads_than_there_is_room_for_the_oldest_go_and_are_counted() {
    let clock = ManualClock::new();
    let dedup = Dedup::builder().window(WINDOW).capacity(2_000_000).clock(clock.clone()).seed(9).build().unwrap();
    let before = dedup.stats().bytes;
    for id in 0..1_000_000_u32 {
        if id.is_multiple_of(100_000) {
            clock.advance(WINDOW / 100);
        }
        assert!(pay(&dedup, id.to_be_bytes(), "one"));
    }
    let stats = dedup.stats();
    let (kept, dropped) = (stats.claims.fingerprints, stats.claims.fingerprints_dropped);
    assert_eq!(kept + dropped, 1_000_000);
    assert!((800_000..=917_504).contains(&kept), "{kept}");
    assert!(stats.bytes - before < 100 << 20, "{} bytes", stats.bytes - before);
    assert!(stats.bytes - before >= 40 * kept as usize, "they are in the bytes that it says: {}", stats.bytes - before);
    // The last ids are known; forgotten ones are no mismatch.
    assert!((900_000..1_000_000_u32).all(|id| ask(&dedup, id.to_be_bytes(), "other") == "mismatch"));
    assert!((0..50_000_u32).all(|id| ask(&dedup, id.to_be_bytes(), "other") == "duplicate"));

    // Expired fingerprints are removed first.
    clock.advance(2 * WINDOW);
    assert!((2_000_000..2_100_000_u32).all(|id| pay(&dedup, id.to_be_bytes(), "one")));
    assert_eq!(dedup.stats().claims.fingerprints_dropped, dropped);
}

#[test]
fn with_one_payload_an_id_there_is_no_mismatch_whatever_threads_do() {
    for refresh in [false, true] {
        for history in [None, Some(Unconfirmed::Duplicate), Some(Unconfirmed::Fresh)] {
            let clock = ManualClock::new();
            let builder =
                Dedup::builder().window(WINDOW).capacity(1_000).max_memory_bytes(64 << 10).growth_thread(false);
            let builder = builder.refresh_on_duplicate(refresh).clock(clock.clone()).lease(LEASE).seed(11);
            let builder = match history {
                None => builder,
                Some(unconfirmed) => {
                    builder.history(hapax::History { unconfirmed, ..testkit::history(2 * WINDOW, 1e-2, 1_000) })
                }
            };
            let dedup = builder.build().unwrap();
            std::thread::scope(|scope| {
                for thread in 0..4_u64 {
                    let (dedup, clock) = (&dedup, &clock);
                    scope.spawn(move || {
                        let mut random = thread + 1;
                        for step in 0..20_000_u64 {
                            random =
                                random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                            let id = format!("{}", (random >> 33) % 10_000);
                            match (random >> 20) % 10 {
                                0 => drop(dedup.forget(&id)),
                                1 => drop(dedup.check(&id)),
                                2 => drop(dedup.claim(&id).claimed().map(|claim| claim.complete())),
                                _ => {
                                    let options = ClaimOptions::new().fingerprint(&id);
                                    match dedup.claim_with(&id, options) {
                                        Attempt::Claimed(claim) => drop(claim.complete()),
                                        Attempt::Mismatch => panic!("mismatch of {id} at {step}"),
                                        _ => {}
                                    }
                                }
                            }
                            if step.is_multiple_of(64) {
                                clock.advance(WINDOW / 400);
                            }
                        }
                    });
                }
            });
            assert_eq!(dedup.stats().claims.mismatches, 0);
        }
    }
}
