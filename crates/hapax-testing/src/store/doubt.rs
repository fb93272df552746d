//! Claims in doubt: who is told, and until when.

use super::fixture::*;
use super::outcome::Checked;
use super::tokens::clean_up;
use hapax_store::*;

pub(super) async fn verify(bench: &Bench<'_>) -> Checked {
    who_is_refused_is_told_who_has_it(bench).await?;
    if !bench.keeps_doubt {
        return Ok(());
    }
    an_end_that_was_reported_leaves_no_doubt(bench).await?;
    who_takes_over_is_told_of_the_first_claim_in_doubt(bench).await?;
    doubt_lasts_for_its_time_and_no_longer(bench).await?;
    what_is_in_doubt_counts_as_nothing_else(bench).await
}

/// A claim that leaves its holder's name, and is in doubt for a while.
fn named(case: &Case, id: &str, attempt: u64, name: &str) -> ClaimRequest {
    ClaimRequest { held_by: Some(HeldBy::of(name)), doubt: RETENTION, ..case.claim_of(id, attempt) }
}

impl Case {
    async fn claim_as(&self, id: &str, attempt: u64, name: &str) -> Checked<Claimed> {
        let claims = [named(self, id, attempt, name)];
        self.one(format!("claim of {id:?} by attempt {attempt} of {name}"), self.store.claim(&claims).await)
    }

    /// Claims an id that is free, and checks what it is told of claims before it.
    async fn taken(&self, id: &str, attempt: u64, name: &str, before: Option<(u64, &str)>) -> Checked<u64> {
        let claimed = self.claim_as(id, attempt, name).await?;
        let before = before.map(|(token, name)| Before::new(token, Some(HeldBy::of(name))));
        match claimed {
            Claimed::Claimed { token, before: told } => self.is(told, before).map(|()| token),
            other => self.is_claimed(other),
        }
    }

    async fn is_held_by(&self, claimed: Claimed, name: &str) -> Checked {
        match claimed {
            Claimed::InProgress { held_by, .. } => self.is(held_by, Some(HeldBy::of(name))),
            other => self.is_in_progress(other, LEASE),
        }
    }
}

async fn who_is_refused_is_told_who_has_it(bench: &Bench<'_>) -> Checked {
    let case = bench.case("who is refused is told who has it").await;
    let longest = "é".repeat(HeldBy::MAX_BYTES / 2);
    for (id, name) in [("a", "worker-7 trace=4bf92f35"), ("b", &longest), ("c", "00000000001234 '\"\\")] {
        let token = case.taken(id, 1, name, None).await?;
        case.is_held_by(case.claim_as(id, 2, "another").await?, name).await?;
        case.is(case.renew(id, token).await?, Held::Done)?;
        case.is_held_by(case.claim(id, 3).await?, name).await?;
        case.is(case.complete(id, token).await?, Held::Done)?;
        case.is_duplicate(case.claim(id, 4).await?)?;
    }
    Ok(())
}

async fn who_takes_over_is_told_of_the_first_claim_in_doubt(bench: &Bench<'_>) -> Checked {
    let case = bench.case("who takes over is told of the first claim in doubt").await;
    let over = LEASE + bench.slack();
    let fingerprint = Some(Fingerprint::of("amount=10"));
    let claims = [ClaimRequest { fingerprint, ..named(&case, "a", 1, "first") }];
    let first = case.is_claimed(case.one("a claim with a fingerprint", case.store.claim(&claims).await)?)?;
    case.is(case.renew("a", first).await?, Held::Done)?;
    bench.advance(over).await;
    let doubt = Some((first, "first"));
    let second = case.taken("a", 2, "second", doubt).await?;
    case.ensure(second > first, &format!("a token above {first}"), second)?;
    // Asked again, it is told the same.
    let again = case.taken("a", 2, "second", doubt).await?;
    case.is(again, second)?;
    case.is_held_by(case.claim("a", 3).await?, "second").await?;
    case.is(case.complete("a", first).await?, Held::Lost)?;

    // Whoever gives up has not said what became of the first one.
    case.is(case.release("a", second).await?, Held::Done)?;
    let third = case.taken("a", 4, "third", doubt).await?;
    case.is(case.fail("a", third, LEASE).await?, Held::Done)?;
    case.is_in_progress(case.claim("a", 5).await?, LEASE)?;
    bench.advance(over).await;
    case.taken("a", 6, "fourth", doubt).await?;
    bench.advance(over).await;
    let last = case.taken("a", 7, "last", doubt).await?;
    case.is(case.complete("a", last).await?, Held::Done)?;
    case.is(case.complete("a", last).await?, Held::Done)?;
    bench.advance(RETENTION + bench.slack()).await;
    case.taken("a", 8, "later", None).await.map(|_| ())
}

async fn an_end_that_was_reported_leaves_no_doubt(bench: &Bench<'_>) -> Checked {
    let case = bench.case("an end that was reported leaves no doubt").await;
    let token = case.taken("a", 1, "first", None).await?;
    case.is(case.release("a", token).await?, Held::Done)?;
    let token = case.taken("a", 2, "second", None).await?;
    case.is(case.fail("a", token, LEASE).await?, Held::Done)?;
    bench.advance(LEASE + bench.slack()).await;
    case.taken("a", 3, "third", None).await?;
    // One that leaves nothing.
    case.token("b", 1).await?;
    bench.advance(LEASE + bench.slack()).await;
    case.taken("b", 2, "second", None).await.map(|_| ())
}

async fn doubt_lasts_for_its_time_and_no_longer(bench: &Bench<'_>) -> Checked {
    let case = bench.case("doubt lasts for its time, and no longer").await;
    let token = case.taken("a", 1, "first", None).await?;
    case.taken("b", 2, "first", None).await?;
    bench.advance(bench.before(LEASE + RETENTION)).await;
    clean_up(&case).await?;
    case.taken("a", 3, "second", Some((token, "first"))).await?;
    bench.advance(bench.after(LEASE + RETENTION) - bench.before(LEASE + RETENTION)).await;
    case.taken("b", 4, "second", None).await.map(|_| ())
}

async fn what_is_in_doubt_counts_as_nothing_else(bench: &Bench<'_>) -> Checked {
    let case = bench.case("what is in doubt counts as nothing else").await;
    let ids = ["marked", "recorded", "forgotten", "looked at"];
    let mut tokens = Vec::new();
    for (attempt, id) in (1..).zip(ids) {
        tokens.push(case.taken(id, attempt, "first", None).await?);
    }
    bench.advance(LEASE + bench.slack()).await;
    case.is(case.mark("marked", 11).await?, Marked::Fresh)?;
    case.is(case.mark("marked", 11).await?, Marked::Fresh)?;
    case.is_marked(case.mark("marked", 12).await?)?;
    case.record("recorded", None).await?;
    case.is_duplicate(case.claim("recorded", 13).await?)?;
    case.is(case.forget("forgotten").await?, true)?;
    case.is(case.forget("forgotten").await?, false)?;
    case.taken("forgotten", 14, "second", None).await?;
    case.is(case.look_up("looked at").await?, Known::Unknown)?;
    for (id, token) in ids.into_iter().zip(tokens) {
        case.is(case.renew(id, token).await?, Held::Lost)?;
        case.is(case.fail(id, token, LEASE).await?, Held::Lost)?;
        case.is(case.release(id, token).await?, Held::Lost)?;
        case.is(case.complete(id, token).await?, Held::Lost)?;
    }
    Ok(())
}
