//! Claims: their holder, their duration, and the record of their end.

use super::fixture::*;
use hapax_store::*;
use std::time::Duration;

pub(super) async fn verify(bench: &Bench<'_>) {
    one_has_a_claim_until_it_ends(bench).await;
    asked_again_a_claim_gets_the_same_answer(bench).await;
    an_expired_lease_is_taken_over_and_the_late_holder_changes_nothing(bench).await;
    an_expired_lease_is_lost_even_if_nobody_took_it(bench).await;
    renewal_extends(bench).await;
    failure_is_remembered_for_a_while(bench).await;
    results_are_kept_byte_for_byte(bench).await;
    fingerprints_are_compared(bench).await;
    claims_in_one_batch(bench).await;
}

async fn one_has_a_claim_until_it_ends(bench: &Bench<'_>) {
    let case = bench.case("one has a claim until it ends").await;
    let first = case.token("a", 1).await;
    is_in_progress(case.claim("a", 2).await, LEASE);
    assert_eq!(case.release("a", first).await, Held::Done);
    let second = case.token("a", 3).await;
    assert!(second > first && second < 1 << 63, "tokens grow: {first}, then {second}");
    assert_eq!(case.complete("a", first).await, Held::Lost);
    assert_eq!(case.release("a", first).await, Held::Lost);
    is_in_progress(case.claim("a", 4).await, LEASE);
    assert_eq!(case.complete("a", second).await, Held::Done);
    is_duplicate(case.claim("a", 5).await);
    // Again, since the answer may have been lost.
    assert_eq!(case.complete("a", second).await, Held::Done);
    assert_eq!(case.complete("a", first).await, Held::Lost);
    assert_eq!(case.release("a", second).await, Held::Lost);
    assert_eq!(case.renew("a", second).await, Held::Lost);
    assert_eq!(case.fail("a", second, LEASE).await, Held::Lost);
    is_duplicate(case.claim("a", 6).await);
    // A claim that never existed cannot be ended.
    assert_eq!(case.complete("nothing", second).await, Held::Lost);
    assert_eq!(case.release("nothing", second).await, Held::Lost);
    assert_eq!(case.look_up("nothing").await, Known::Unknown);
}

async fn asked_again_a_claim_gets_the_same_answer(bench: &Bench<'_>) {
    let case = bench.case("asked again, a claim gets the same answer").await;
    let token = case.token("a", 1).await;
    bench.fixture.advance(LEASE - SLACK).await;
    assert_eq!(case.token("a", 1).await, token);
    is_in_progress(case.claim("a", 2).await, LEASE);
    is_in_progress(case.claim("a", 2).await, LEASE);
    assert_eq!(case.complete("a", token).await, Held::Done);
    is_duplicate(case.claim("a", 1).await);
}

async fn an_expired_lease_is_taken_over_and_the_late_holder_changes_nothing(bench: &Bench<'_>) {
    let case = bench.case("an expired lease is taken over, and the late holder changes nothing").await;
    let late = case.token("a", 1).await;
    bench.fixture.advance(LEASE + SLACK).await;
    let holder = case.token("a", 2).await;
    assert!(holder > late);
    assert_eq!(case.complete("a", late).await, Held::Lost);
    assert_eq!(case.release("a", late).await, Held::Lost);
    assert_eq!(case.renew("a", late).await, Held::Lost);
    assert_eq!(case.fail("a", late, LEASE).await, Held::Lost);
    is_in_progress(case.claim("a", 3).await, LEASE);
    assert_eq!(case.complete("a", holder).await, Held::Done);
    assert_eq!(case.complete("a", late).await, Held::Lost);
}

async fn an_expired_lease_is_lost_even_if_nobody_took_it(bench: &Bench<'_>) {
    let case = bench.case("an expired lease is lost even if nobody took it").await;
    let token = case.token("a", 1).await;
    bench.fixture.advance(LEASE + SLACK).await;
    assert_eq!(case.look_up("a").await, Known::Unknown);
    assert_eq!(case.renew("a", token).await, Held::Lost);
    assert_eq!(case.fail("a", token, LEASE).await, Held::Lost);
    assert_eq!(case.complete("a", token).await, Held::Lost);
    assert_eq!(case.release("a", token).await, Held::Lost);
    assert_eq!(case.look_up("a").await, Known::Unknown);
}

async fn renewal_extends(bench: &Bench<'_>) {
    let case = bench.case("a renewal extends a lease").await;
    let token = case.token("a", 1).await;
    for _ in 0..3 {
        bench.fixture.advance(LEASE - SLACK).await;
        assert_eq!(case.renew("a", token).await, Held::Done);
        is_in_progress(case.claim("a", 2).await, LEASE);
    }
    assert_eq!(case.complete("a", token).await, Held::Done);
}

async fn failure_is_remembered_for_a_while(bench: &Bench<'_>) {
    let case = bench.case("failure is remembered for a while").await;
    let while_failed = Duration::from_secs(600);
    let token = case.token("a", 1).await;
    assert_eq!(case.fail("a", token, while_failed).await, Held::Done);
    is_in_progress(case.claim("a", 2).await, while_failed);
    is_in_progress(case.claim("a", 1).await, while_failed);
    assert!(matches!(case.mark("a", 3).await, Marked::InProgress { .. }));
    assert_eq!(case.complete("a", token).await, Held::Lost);
    bench.fixture.advance(while_failed + SLACK).await;
    assert!(case.token("a", 4).await > token);

    let token = case.token("b", 1).await;
    assert_eq!(case.fail("b", token, Duration::ZERO).await, Held::Done);
    assert!(case.token("b", 2).await > token, "a failure for no time is a release");
}

async fn results_are_kept_byte_for_byte(bench: &Bench<'_>) {
    let case = bench.case("results are kept byte for byte").await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let results = [None, Some(vec![]), Some(b"17".to_vec()), Some(every_byte), Some(vec![0xab; 1 << 20])];
    for (i, result) in (0..).zip(results) {
        let (id, fingerprint) = (format!("{i}"), (i % 2 == 0).then(|| Fingerprint::of([i])));
        let claim = ClaimRequest { fingerprint, ..case.claim_of(&id, 1) };
        let Claimed::Claimed { token } = one(case.store.claim(&[claim]).await) else { panic!("nobody else has it") };
        let completion = Completion { result: result.clone(), ..case.completion(&id, token) };
        assert_eq!(one(case.store.complete(&[completion]).await), Held::Done);
        let completed = is_duplicate(case.claim(&id, 2).await);
        assert!(completed.result == result, "the result of {} bytes is another one", result.map_or(0, |r| r.len()));
        assert_eq!(completed.fingerprint, fingerprint);
        about(completed.expires_in, RETENTION);
        // A moment later, a little less time is left: some stores count finer than seconds.
        let looked_up = is_completed(case.look_up(&id).await);
        about(looked_up.expires_in, RETENTION);
        let expected = Completed::new(looked_up.expires_in, completed.fingerprint, completed.result);
        assert!(looked_up == expected, "a look finds another result");
    }
}

fn is_completed(known: Known) -> Completed {
    match known {
        Known::Completed(completed) => completed,
        other => panic!("the id is done, but a look says {other:?}"),
    }
}

async fn fingerprints_are_compared(bench: &Bench<'_>) {
    let case = bench.case("fingerprints are compared, in progress and done").await;
    let (ten, other) = (Some(Fingerprint::of("amount=10")), Some(Fingerprint::of("amount=99")));
    let claim = async |attempt, fingerprint| {
        one(case.store.claim(&[ClaimRequest { fingerprint, ..case.claim_of("a", attempt) }]).await)
    };
    let Claimed::Claimed { token } = claim(1, ten).await else { panic!("nobody else has it") };
    assert_eq!(claim(2, other).await, Claimed::Mismatch);
    is_in_progress(claim(3, ten).await, LEASE);
    is_in_progress(claim(4, None).await, LEASE);
    match case.look_up("a").await {
        Known::InProgress { lease_left, fingerprint } => {
            about(lease_left, LEASE);
            assert_eq!(fingerprint, ten);
        }
        known => panic!("the id is claimed, but a look says {known:?}"),
    }
    assert_eq!(case.complete("a", token).await, Held::Done);
    assert_eq!(claim(5, other).await, Claimed::Mismatch);
    assert_eq!(is_duplicate(claim(6, ten).await).fingerprint, ten);
    is_duplicate(claim(7, None).await);
}

async fn claims_in_one_batch(bench: &Bench<'_>) {
    let case = bench.case("claims in one batch").await;
    case.record("done", None).await;
    let claims: Vec<_> =
        (1..).zip(["b", "a", "b", "done", "c"]).map(|(attempt, id)| case.claim_of(id, attempt)).collect();
    let mut claimed = all(case.store.claim(&claims).await);
    is_duplicate(claimed.remove(3));
    is_in_progress(claimed.remove(2), LEASE);
    let holds: Vec<Completion> = ["b", "a", "c"]
        .into_iter()
        .zip(claimed)
        .map(|(id, claimed)| match claimed {
            Claimed::Claimed { token } => case.completion(id, token),
            other => panic!("{id} can be had, but a claim says {other:?}"),
        })
        .collect();
    let lost = Completion { hold: case.hold("b", 1), ..holds[0].clone() };
    let held = all(case.store.complete(&[holds[0].clone(), lost, holds[1].clone(), holds[2].clone()]).await);
    assert_eq!(held, [Held::Done, Held::Lost, Held::Done, Held::Done]);
}
