//! Leases that end: who takes over, and what the late holder is told.

use super::*;

#[test]
fn an_expired_lease_is_taken_over_and_the_late_holder_is_told() {
    let (dedup, clock) = engine();
    let mut late = dedup.claim("a").claimed().unwrap();
    clock.advance(LEASE - Duration::from_nanos(1));
    assert_eq!(lease_left(&dedup.claim("a")), Duration::from_nanos(1));
    clock.advance(Duration::from_nanos(1));
    let claim = dedup.claim("a").claimed().unwrap();
    assert!(dedup.claim("a").is_in_progress());
    assert!(claim.token() > late.token());

    let lost = LostLease::new(late.token());
    assert_eq!(late.renew(LEASE), Err(lost));
    assert_eq!(late.complete(), Err(lost));
    assert!(dedup.claim("a").is_in_progress(), "the late holder has changed something");
    let text = lost.to_string();
    assert!(text.contains(&lost.token.as_u64().to_string()), "{text}");
    assert_eq!(claim.complete(), Ok(()));
    assert!(dedup.claim("a").is_duplicate());
    let claims = dedup.stats().claims;
    assert_eq!((claims.taken_over, claims.lost, claims.completed), (1, 2, 1));
}

#[test]
fn a_late_holder_can_neither_release_nor_fail_what_is_somebody_elses() {
    let (dedup, clock) = engine();
    let ways: [fn(hapax::Claim<'_>) -> Result<(), LostLease>; 2] = [|c| c.release(), |c| c.fail(LEASE)];
    for (id, end) in ways.into_iter().enumerate() {
        let late = dedup.claim(id.to_string()).claimed().unwrap();
        clock.advance(LEASE);
        let claim = dedup.claim(id.to_string()).claimed().unwrap();
        assert!(end(late).is_err());
        assert!(dedup.claim(id.to_string()).is_in_progress());
        claim.complete().unwrap();
    }
    // Dropping it changes nothing either.
    let late = dedup.claim("b").claimed().unwrap();
    clock.advance(LEASE);
    let _claim = dedup.claim("b").claimed().unwrap();
    drop(late);
    assert!(dedup.claim("b").is_in_progress());
}

#[test]
fn of_many_that_race_for_an_expired_lease_one_takes_it_over() {
    let (dedup, clock) = engine();
    for round in 0..200 {
        let id = round.to_string();
        let late = dedup.claim(&id).claimed().unwrap();
        clock.advance(LEASE);
        let won = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    if let Some(claim) = dedup.claim(&id).claimed() {
                        won.fetch_add(1, Ordering::Relaxed);
                        claim.complete().unwrap();
                    }
                });
            }
            scope.spawn(|| won.fetch_add(dedup.check(&id).is_fresh().into(), Ordering::Relaxed));
        });
        assert_eq!(won.into_inner(), 1, "round {round}");
        assert!(late.complete().is_err());
    }
}

#[test]
fn a_lease_that_nobody_took_over_can_still_be_completed_and_renewed() {
    let (dedup, clock) = engine();
    let mut claim = dedup.claim("a").claimed().unwrap();
    clock.advance(2 * LEASE);
    claim.renew(Duration::from_secs(5)).unwrap();
    assert_eq!(lease_left(&dedup.claim("a")), Duration::from_secs(5));
    clock.advance(2 * LEASE);
    claim.complete().unwrap();
    assert!(dedup.check("a").is_duplicate());
}

#[test]
fn once_with_a_lease_that_was_too_short() {
    let (dedup, clock) = engine();
    let result = dedup.once("a", |_| {
        clock.advance(LEASE);
        assert!(dedup.check("a").is_fresh());
        Ok::<_, ()>("output")
    });
    assert!(matches!(result, Err(OnceError::LostLease { output: "output", .. })), "{result:?}");
    let result = dedup.once("b", |claim| {
        clock.advance(LEASE / 2);
        claim.renew(LEASE).map_err(|_| ())?;
        clock.advance(LEASE / 2);
        assert!(dedup.check("b").is_in_progress());
        Ok::<_, ()>(())
    });
    assert_eq!(result, Ok(Once::Done(())));
}

#[test]
fn whoever_has_an_id_later_has_a_larger_token() {
    let (dedup, clock) = engine();
    let mut tokens = Vec::new();
    for how in ["released", "lost", "failed", "lost"] {
        let claim = dedup.claim("id").claimed().unwrap();
        tokens.push(claim.token().as_u64());
        match how {
            "released" => claim.release().unwrap(),
            "failed" => claim.fail(LEASE).unwrap(),
            _ => std::mem::forget(claim),
        }
        clock.advance(LEASE);
    }
    assert!(tokens[0] > 0 && tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

#[test]
fn a_late_holder_has_its_id_however_many_others_come_and_what_rested_goes() {
    let (dedup, clock) = engine();
    let claim = |id: u32| dedup.claim(id.to_be_bytes()).claimed().unwrap();
    let late: Vec<_> = (0..5_000).map(claim).collect();
    (5_000..10_000).for_each(|id| claim(id).fail(LEASE).unwrap());
    clock.advance(LEASE);
    let others: Vec<_> = (10_000..30_000).map(claim).collect();
    let expired = dedup.stats().claims.expired;
    assert!((1..=5_000).contains(&expired), "{expired}");
    assert!(late.into_iter().all(|claim| claim.complete().is_ok()), "nobody has taken it over");
    assert_eq!(dedup.stats().claims.live, others.len() as u64);
}

#[test]
fn a_check_that_takes_a_claim_over_is_counted_and_one_after_a_rest_is_not() {
    let (dedup, clock) = engine();
    let late = dedup.claim("late").claimed().unwrap();
    dedup.claim("rests").claimed().unwrap().fail(LEASE).unwrap();
    clock.advance(LEASE);
    assert!(dedup.check("late").is_fresh() && dedup.check("rests").is_fresh());
    assert_eq!(dedup.stats().claims.taken_over, 1);
    assert!(late.complete().is_err());
}
