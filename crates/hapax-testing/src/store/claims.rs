//! Claims: their holder, and the record of their end.

use super::fixture::*;
use super::outcome::{Checked, is};
use hapax_store::*;
use std::time::Duration;

pub(super) async fn verify(bench: &Bench<'_>) -> Checked {
    one_has_a_claim_until_it_ends(bench).await?;
    asked_again_a_claim_gets_the_same_answer(bench).await?;
    asked_again_a_completion_changes_nothing(bench).await?;
    an_expired_lease_is_taken_over_and_the_late_holder_changes_nothing(bench).await?;
    failure_is_remembered_for_a_while(bench).await?;
    a_claim_that_has_failed_is_nobodys(bench).await?;
    results_are_kept_byte_for_byte(bench).await?;
    fingerprints_are_compared(bench).await?;
    claims_in_one_batch(bench).await
}

async fn one_has_a_claim_until_it_ends(bench: &Bench<'_>) -> Checked {
    let case = bench.case("one has a claim until it ends").await;
    let first = case.token("a", 1).await?;
    case.is_in_progress(case.claim("a", 2).await?, LEASE)?;
    case.is(case.release("a", first).await?, Held::Done)?;
    let second = case.token("a", 3).await?;
    case.ensure(second > first && second < 1 << 63, &format!("a token above {first}, below 2^63"), second)?;
    case.is(case.complete("a", first).await?, Held::Lost)?;
    case.is(case.release("a", first).await?, Held::Lost)?;
    case.is_in_progress(case.claim("a", 4).await?, LEASE)?;
    case.is(case.complete("a", second).await?, Held::Done)?;
    case.is_duplicate(case.claim("a", 5).await?)?;
    // Again, since the answer may have been lost.
    case.is(case.complete("a", second).await?, Held::Done)?;
    case.is(case.complete("a", first).await?, Held::Lost)?;
    case.is(case.release("a", second).await?, Held::Lost)?;
    case.is(case.renew("a", second).await?, Held::Lost)?;
    case.is(case.fail("a", second, LEASE).await?, Held::Lost)?;
    case.is_duplicate(case.claim("a", 6).await?)?;
    // A claim that never existed cannot be ended.
    case.is(case.complete("nothing", second).await?, Held::Lost)?;
    case.is(case.release("nothing", second).await?, Held::Lost)?;
    case.is(case.look_up("nothing").await?, Known::Unknown)
}

async fn asked_again_a_claim_gets_the_same_answer(bench: &Bench<'_>) -> Checked {
    let case = bench.case("asked again, a claim gets the same answer").await;
    let token = case.token("a", 1).await?;
    bench.advance(LEASE - bench.slack()).await;
    let again = case.token("a", 1).await?;
    case.is(again, token)?;
    case.is_in_progress(case.claim("a", 2).await?, LEASE)?;
    case.is_in_progress(case.claim("a", 2).await?, LEASE)?;
    case.is(case.complete("a", token).await?, Held::Done)?;
    case.is_duplicate(case.claim("a", 1).await?)?;

    // The fingerprint is the first one's: of two messages with one attempt, one is wrong.
    let (ten, other) = (Some(Fingerprint::of("amount=10")), Some(Fingerprint::of("amount=99")));
    let token = case.is_claimed(case.claim_with("b", 3, LEASE, ten).await?)?;
    case.is(case.claim_with("b", 3, LEASE, other).await?, Claimed::Mismatch)?;
    let again = case.token("b", 3).await?;
    case.is(again, token)?;
    case.is(case.claim_with("b", 4, LEASE, other).await?, Claimed::Mismatch)
}

async fn asked_again_a_completion_changes_nothing(bench: &Bench<'_>) -> Checked {
    let case = bench.case("asked again, a completion changes nothing").await;
    let completion = |token, retention, result: &[u8]| Completion {
        retention,
        result: Some(result.into()),
        ..case.completion("a", token)
    };
    let token = case.token("a", 1).await?;
    case.is(case.complete_as(completion(token, RETENTION, b"first")).await?, Held::Done)?;
    let passed = Duration::from_secs(600);
    bench.advance(passed).await;
    for (retention, result) in [(2 * RETENTION, b"later".as_slice()), (LEASE, b"")] {
        case.is(case.complete_as(completion(token, retention, result)).await?, Held::Done)?;
        let completed = case.is_duplicate(case.claim("a", 2).await?)?;
        case.is(completed.result.as_deref(), Some(b"first".as_slice()))?;
        bench.is_left("the retention after it was completed again", completed.expires_in, RETENTION - passed)?;
    }
    let other = case.complete_as(completion(token + 1, RETENTION, b"another's")).await?;
    case.is(other, Held::Lost)
}

async fn an_expired_lease_is_taken_over_and_the_late_holder_changes_nothing(bench: &Bench<'_>) -> Checked {
    let case = bench.case("an expired lease is taken over, and the late holder changes nothing").await;
    let late = case.token("a", 1).await?;
    bench.advance(LEASE + bench.slack()).await;
    let holder = case.token("a", 2).await?;
    case.ensure(holder > late, &format!("a token above {late}"), holder)?;
    case.is(case.complete("a", late).await?, Held::Lost)?;
    case.is(case.release("a", late).await?, Held::Lost)?;
    case.is(case.renew("a", late).await?, Held::Lost)?;
    case.is(case.fail("a", late, LEASE).await?, Held::Lost)?;
    case.is_in_progress(case.claim("a", 3).await?, LEASE)?;
    case.is(case.complete("a", holder).await?, Held::Done)?;
    case.is(case.complete("a", late).await?, Held::Lost)
}

async fn failure_is_remembered_for_a_while(bench: &Bench<'_>) -> Checked {
    let case = bench.case("failure is remembered for a while").await;
    let while_failed = Duration::from_secs(600);
    let token = case.token("a", 1).await?;
    case.is(case.fail("a", token, while_failed).await?, Held::Done)?;
    case.is_in_progress(case.claim("a", 2).await?, while_failed)?;
    case.is_in_progress(case.claim("a", 1).await?, while_failed)?;
    let marked = case.mark("a", 3).await?;
    case.ensure(matches!(marked, Marked::InProgress { .. }), "InProgress", marked)?;
    case.is(case.complete("a", token).await?, Held::Lost)?;
    bench.advance(while_failed + bench.slack()).await;
    let later = case.token("a", 4).await?;
    case.ensure(later > token, &format!("a token above {token}"), later)?;

    let token = case.token("b", 1).await?;
    case.is(case.fail("b", token, Duration::ZERO).await?, Held::Done)?;
    let later = case.token("b", 2).await?;
    case.ensure(later > token, &format!("a token above {token}, since a failure for no time is a release"), later)
}

async fn a_claim_that_has_failed_is_nobodys(bench: &Bench<'_>) -> Checked {
    let case = bench.case("a claim that has failed is nobody's").await;
    let while_failed = Duration::from_secs(600);
    let (ten, other) = (Some(Fingerprint::of("amount=10")), Some(Fingerprint::of("amount=99")));
    let token = case.is_claimed(case.claim_with("a", 1, LEASE, ten).await?)?;
    case.is(case.fail("a", token, while_failed).await?, Held::Done)?;
    case.is(case.renew_for("a", token, 2 * while_failed).await?, Held::Lost)?;
    case.is(case.renew_for("a", token, LEASE).await?, Held::Lost)?;
    case.is(case.fail("a", token, 2 * while_failed).await?, Held::Lost)?;
    case.is(case.release("a", token).await?, Held::Lost)?;
    case.is(case.complete("a", token).await?, Held::Lost)?;
    match case.look_up("a").await? {
        Known::InProgress { lease_left, fingerprint } => {
            bench.is_left("the time for which it has failed", lease_left, while_failed)?;
            case.is(fingerprint, ten)?;
        }
        known => case.ensure(false, "InProgress", known)?,
    }
    case.is(case.claim_with("a", 2, LEASE, other).await?, Claimed::Mismatch)?;
    case.is_in_progress(case.claim_with("a", 2, LEASE, ten).await?, while_failed)?;
    case.is(case.forget("a").await?, true)?;
    case.is_claimed(case.claim_with("a", 3, LEASE, other).await?).map(|_| ())
}

async fn results_are_kept_byte_for_byte(bench: &Bench<'_>) -> Checked {
    let case = bench.case("results are kept byte for byte").await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let large = vec![0xab; bench.result_bytes_max];
    let results = [None, Some(vec![]), Some(b"17".to_vec()), Some(every_byte), Some(large)];
    for (i, result) in results.into_iter().enumerate() {
        let (id, fingerprint) = (format!("{i}"), (i % 2 == 0).then(|| Fingerprint::of([i as u8])));
        let token = case.is_claimed(case.claim_with(&id, 1, LEASE, fingerprint).await?)?;
        let completion = Completion { result: result.clone(), ..case.completion(&id, token) };
        case.is(case.complete_as(completion).await?, Held::Done)?;
        let completed = case.is_duplicate(case.claim(&id, 2).await?)?;
        case.is(&completed.result, &result)?;
        case.is(completed.fingerprint, fingerprint)?;
        case.is_about(completed.expires_in, RETENTION)?;
        // A moment later, a little less time is left: some stores count finer than seconds.
        let looked_up = case.is_completed(case.look_up(&id).await?)?;
        case.is_about(looked_up.expires_in, RETENTION)?;
        case.is((looked_up.fingerprint, looked_up.result), (completed.fingerprint, completed.result))?;
    }
    Ok(())
}

async fn fingerprints_are_compared(bench: &Bench<'_>) -> Checked {
    let case = bench.case("fingerprints are compared, in progress and done").await;
    let (ten, other) = (Some(Fingerprint::of("amount=10")), Some(Fingerprint::of("amount=99")));
    let claim = async |attempt, fingerprint| case.claim_with("a", attempt, LEASE, fingerprint).await;
    let token = case.is_claimed(claim(1, ten).await?)?;
    case.is(claim(2, other).await?, Claimed::Mismatch)?;
    case.is_in_progress(claim(3, ten).await?, LEASE)?;
    case.is_in_progress(claim(4, None).await?, LEASE)?;
    match case.look_up("a").await? {
        Known::InProgress { lease_left, fingerprint } => {
            case.is_about(lease_left, LEASE)?;
            case.is(fingerprint, ten)?;
        }
        known => case.ensure(false, "InProgress", known)?,
    }
    case.is(case.complete("a", token).await?, Held::Done)?;
    case.is(claim(5, other).await?, Claimed::Mismatch)?;
    let completed = case.is_duplicate(claim(6, ten).await?)?;
    case.is(completed.fingerprint, ten)?;
    case.is_duplicate(claim(7, None).await?).map(|_| ())
}

async fn claims_in_one_batch(bench: &Bench<'_>) -> Checked {
    let case = bench.case("claims in one batch").await;
    case.record("done", None).await?;
    let claims: Vec<_> =
        (1..).zip(["b", "a", "b", "done", "c"]).map(|(attempt, id)| case.claim_of(id, attempt)).collect();
    let mut claimed = case.all("claims of b, a, b, done, c", case.store.claim(&claims).await)?;
    is("the number of answers to five claims", claimed.len(), 5)?;
    case.is_duplicate(claimed.remove(3))?;
    case.is_in_progress(claimed.remove(2), LEASE)?;
    let mut holds = Vec::new();
    for (id, claimed) in ["b", "a", "c"].into_iter().zip(claimed) {
        holds.push(case.completion(id, case.is_claimed(claimed)?));
    }
    let lost = Completion { hold: case.hold("b", 1), ..holds[0].clone() };
    let completions = [holds[0].clone(), lost, holds[1].clone(), holds[2].clone()];
    let held =
        case.all("completions, of which the second has a token of nobody", case.store.complete(&completions).await)?;
    case.is(held, vec![Held::Done, Held::Lost, Held::Done, Held::Done])
}
