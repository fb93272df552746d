//! The ends of leases, failures and retentions: each holds until its end, and no longer.

use super::fixture::*;
use super::outcome::Checked;
use hapax_store::*;
use std::time::Duration;

pub(super) async fn verify(bench: &Bench<'_>) -> Checked {
    a_lease_holds_until_its_end_and_no_longer(bench).await?;
    an_expired_claim_is_not_revived(bench).await?;
    a_renewal_counts_from_its_own_time(bench).await?;
    a_repeated_claim_has_a_whole_lease(bench).await?;
    a_failure_lasts_until_its_end_and_no_longer(bench).await?;
    a_retention_lasts_until_its_end_and_no_longer(bench).await
}

/// The time for which an id has failed.
const FAILED: Duration = Duration::from_secs(600);

/// Checks by each request that answers so that an id is in progress, for this long.
async fn is_in_progress(bench: &Bench<'_>, case: &Case, id: &str, attempt: u64, left: Duration) -> Checked {
    match case.claim(id, attempt).await? {
        Claimed::InProgress { lease_left, .. } => bench.is_left(&case.asked(), lease_left, left)?,
        other => case.ensure(false, "InProgress", other)?,
    }
    match case.mark(id, attempt).await? {
        Marked::InProgress { lease_left } => bench.is_left(&case.asked(), lease_left, left)?,
        other => case.ensure(false, "InProgress", other)?,
    }
    match case.look_up(id).await? {
        Known::InProgress { lease_left, .. } => bench.is_left(&case.asked(), lease_left, left),
        other => case.ensure(false, "InProgress", other),
    }
}

/// Checks by each request that answers so that an id is done, for this long.
async fn is_done(bench: &Bench<'_>, case: &Case, id: &str, attempt: u64, left: Duration) -> Checked {
    let completed = case.is_duplicate(case.claim(id, attempt).await?)?;
    bench.is_left(&case.asked(), completed.expires_in, left)?;
    let (expires_in, _) = case.is_marked(case.mark(id, attempt).await?)?;
    bench.is_left(&case.asked(), expires_in, left)?;
    let completed = case.is_completed(case.look_up(id).await?)?;
    bench.is_left(&case.asked(), completed.expires_in, left)
}

/// Ways to end or extend a claim.
const ENDS: [&str; 4] = ["complete", "release", "fail", "renew"];

async fn end(case: &Case, how: &str, id: &str, token: u64) -> Checked<Held> {
    match how {
        "complete" => case.complete(id, token).await,
        "release" => case.release(id, token).await,
        "fail" => case.fail(id, token, FAILED).await,
        _ => case.renew(id, token).await,
    }
}

async fn a_lease_holds_until_its_end_and_no_longer(bench: &Bench<'_>) -> Checked {
    let case = bench.case("a lease holds until its end, and no longer").await;
    let mut tokens = Vec::new();
    for (attempt, how) in (1..).zip(ENDS) {
        tokens.push(case.token(how, attempt).await?);
    }
    for (attempt, id) in (11..).zip(["looked at", "marked", "claimed"]) {
        case.token(id, attempt).await?;
    }
    bench.advance(bench.before(LEASE)).await;
    for (attempt, id) in (21..).zip(["looked at", "marked", "claimed"]) {
        is_in_progress(bench, &case, id, attempt, LEASE - bench.before(LEASE)).await?;
    }
    for (how, token) in ENDS.into_iter().zip(tokens) {
        case.is(end(&case, how, how, token).await?, Held::Done)?;
    }
    bench.advance(bench.after(LEASE) - bench.before(LEASE)).await;
    case.is(case.look_up("looked at").await?, Known::Unknown)?;
    case.is(case.forget("looked at").await?, false)?;
    case.is(case.mark("marked", 31).await?, Marked::Fresh)?;
    case.token("claimed", 32).await.map(|_| ())
}

async fn an_expired_claim_is_not_revived(bench: &Bench<'_>) -> Checked {
    let case = bench.case("a claim whose lease has expired is not revived, though nobody took it").await;
    let mut tokens = Vec::new();
    for (attempt, how) in (1..).zip(ENDS) {
        tokens.push(case.token(how, attempt).await?);
    }
    bench.advance(bench.after(LEASE)).await;
    for (how, &token) in ENDS.into_iter().zip(&tokens) {
        case.is(end(&case, how, how, token).await?, Held::Lost)?;
        case.is(case.look_up(how).await?, Known::Unknown)?;
    }
    bench.advance(Duration::from_secs(3)).await;
    for (how, token) in ENDS.into_iter().zip(tokens) {
        case.is(end(&case, how, how, token).await?, Held::Lost)?;
        case.is(case.look_up(how).await?, Known::Unknown)?;
    }
    Ok(())
}

async fn a_renewal_counts_from_its_own_time(bench: &Bench<'_>) -> Checked {
    let case = bench.case("a renewed lease counts from the renewal, also if it is shorter").await;
    let (longer, shorter) = (case.token("longer", 1).await?, case.token("shorter", 2).await?);
    case.is(case.renew_for("shorter", shorter, LEASE / 2).await?, Held::Done)?;
    is_in_progress(bench, &case, "shorter", 3, LEASE / 2).await?;
    bench.advance(bench.after(LEASE / 2)).await;
    case.is(case.look_up("shorter").await?, Known::Unknown)?;
    case.is(case.renew("longer", longer).await?, Held::Done)?;
    bench.advance(bench.before(LEASE)).await;
    is_in_progress(bench, &case, "longer", 4, LEASE - bench.before(LEASE)).await?;
    bench.advance(bench.after(LEASE) - bench.before(LEASE)).await;
    case.is(case.look_up("longer").await?, Known::Unknown)
}

async fn a_repeated_claim_has_a_whole_lease(bench: &Bench<'_>) -> Checked {
    let case = bench.case("a repeated claim has a whole lease").await;
    let token = case.token("a", 1).await?;
    bench.advance(bench.before(LEASE)).await;
    let again = case.token("a", 1).await?;
    case.is(again, token)?;
    bench.advance(bench.before(LEASE)).await;
    is_in_progress(bench, &case, "a", 2, LEASE - bench.before(LEASE)).await?;
    bench.advance(bench.after(LEASE) - bench.before(LEASE)).await;
    case.token("a", 1).await.map(|_| ())
}

async fn a_failure_lasts_until_its_end_and_no_longer(bench: &Bench<'_>) -> Checked {
    let case = bench.case("a failure lasts until its end, and no longer").await;
    for (attempt, id) in (1..).zip(["looked at", "marked", "claimed"]) {
        let token = case.token(id, attempt).await?;
        case.is(case.fail(id, token, FAILED).await?, Held::Done)?;
    }
    bench.advance(bench.before(FAILED)).await;
    for (attempt, id) in (11..).zip(["looked at", "marked", "claimed"]) {
        is_in_progress(bench, &case, id, attempt, FAILED - bench.before(FAILED)).await?;
    }
    bench.advance(bench.after(FAILED) - bench.before(FAILED)).await;
    case.is(case.look_up("looked at").await?, Known::Unknown)?;
    case.is(case.mark("marked", 21).await?, Marked::Fresh)?;
    case.token("claimed", 22).await.map(|_| ())
}

async fn a_retention_lasts_until_its_end_and_no_longer(bench: &Bench<'_>) -> Checked {
    let case = bench.case("a retention lasts until its end, and no longer").await;
    let ways = ["marked", "completed", "recorded"];
    let then = ["looked at", "marked again", "claimed", "completed again"];
    let mut tokens = Vec::new();
    for (attempt, id) in (1..).zip(then) {
        case.is(case.mark(&format!("marked {id}"), attempt).await?, Marked::Fresh)?;
        let completed = format!("completed {id}");
        tokens.push(case.token(&completed, attempt).await?);
        case.is(case.complete(&completed, tokens[tokens.len() - 1]).await?, Held::Done)?;
        case.record(&format!("recorded {id}"), Some(b"result")).await?;
    }
    bench.advance(bench.before(RETENTION)).await;
    let mut attempt = 10;
    for id in ways.iter().flat_map(|way| then.map(|then| format!("{way} {then}"))) {
        is_done(bench, &case, &id, attempt, RETENTION - bench.before(RETENTION)).await?;
        attempt += 1;
    }
    bench.advance(bench.after(RETENTION) - bench.before(RETENTION)).await;
    for way in ways {
        attempt += 2;
        case.is(case.look_up(&format!("{way} looked at")).await?, Known::Unknown)?;
        case.is(case.forget(&format!("{way} looked at")).await?, false)?;
        case.is(case.mark(&format!("{way} marked again"), attempt).await?, Marked::Fresh)?;
        case.token(&format!("{way} claimed"), attempt + 1).await?;
    }
    case.is(case.complete("completed completed again", tokens[3]).await?, Held::Lost)
}
