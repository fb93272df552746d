//! Tokens: no id gets one twice, however its claims end.

use super::fixture::*;
use super::outcome::Checked;
use hapax_store::*;
use std::time::Duration;

/// The ways in which the claim of an id ends, so that another one can follow.
#[derive(Clone, Copy, Debug)]
enum End {
    Release,
    Fail,
    Forget,
    RecordAndForget,
    CompleteAndForget,
    Expire,
}

impl End {
    const ALL: [End; 6] =
        [End::Release, End::Fail, End::Forget, End::RecordAndForget, End::CompleteAndForget, End::Expire];

    fn case(self) -> String {
        let how = match self {
            End::Release => "a release",
            End::Fail => "a failure for no time",
            End::Forget => "a forget",
            End::RecordAndForget => "a record and a forget",
            End::CompleteAndForget => "a completion and a forget",
            End::Expire => "the end of a lease",
        };
        format!("no token is given twice: after {how}")
    }
}

pub(super) async fn verify(bench: &Bench<'_>) -> Checked {
    for end in End::ALL {
        no_token_is_given_twice(bench, end).await?;
    }
    Ok(())
}

/// Claims an id again and again. A store with a manual clock sees no time pass meanwhile; between
/// claims, what is over is removed, and the store is closed and opened.
async fn no_token_is_given_twice(bench: &Bench<'_>, end: End) -> Checked {
    let mut case = bench.case(&end.case()).await;
    let mut given: Vec<u64> = Vec::new();
    for round in 0..6 {
        // A unit of the store, if only a part of it can pass.
        let lease = if matches!(end, End::Expire) { shortest_lease(bench) } else { LEASE };
        let token = case.is_claimed(case.claim_with("a", 100 + round, lease, None).await?)?;
        let last = given.last().copied().unwrap_or(0);
        case.ensure(token > last && token < 1 << 63, &format!("a token above {last}, below 2^63"), token)?;
        for &earlier in &given {
            case.is(case.renew("a", earlier).await?, Held::Lost)?;
            case.is(case.complete("a", earlier).await?, Held::Lost)?;
        }
        given.push(token);
        ends(bench, &case, end, token, lease).await?;
        if round % 3 == 1 {
            clean_up(&case).await?;
        }
        if round % 3 == 2 {
            case = case.reopened(bench).await;
        }
    }
    Ok(())
}

fn shortest_lease(bench: &Bench<'_>) -> Duration {
    match bench.time {
        StoreTime::Stands { unit } => unit,
        StoreTime::Passes { .. } => LEASE,
    }
}

async fn ends(bench: &Bench<'_>, case: &Case, end: End, token: u64, lease: Duration) -> Checked {
    match end {
        End::Release => case.is(case.release("a", token).await?, Held::Done)?,
        End::Fail => case.is(case.fail("a", token, Duration::ZERO).await?, Held::Done)?,
        End::Forget => {}
        End::RecordAndForget => case.record("a", None).await?,
        End::CompleteAndForget => case.is(case.complete("a", token).await?, Held::Done)?,
        End::Expire => bench.advance(bench.after(lease)).await,
    }
    match end {
        End::Forget | End::RecordAndForget | End::CompleteAndForget => case.is(case.forget("a").await?, true),
        End::Release | End::Fail | End::Expire => Ok(()),
    }
}

/// Removes everything that is over.
pub(super) async fn clean_up(case: &Case) -> Checked {
    for _ in 0..10_000 {
        if !case.one("expire", case.store.expire(1_000).await.map(|expired| vec![Ok(expired)]))?.more {
            return Ok(());
        }
    }
    case.ensure(false, "an end of the clean-up", "more")
}
