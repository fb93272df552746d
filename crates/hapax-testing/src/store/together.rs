//! Concurrent callers, each with a handle of its own, as in other processes.

use super::fixture::*;
use super::outcome::{Checked, Wrong, is};
use hapax_store::sync::{Ordering, StdAtomicU64};
use hapax_store::*;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

pub(super) async fn verify(bench: &Bench<'_>) -> Checked {
    one_of_many_gets_the_id(bench).await?;
    one_of_many_takes_over(bench).await?;
    a_hundred_ids_sent_ten_times_are_handled_a_hundred_times(bench).await?;
    overlapping_batches_do_not_stand_in_each_others_way(bench).await?;
    whoever_is_cancelled_may_ask_again(bench).await
}

const CALLERS: u64 = 10;

/// Returns handles to the same records.
async fn handles(bench: &Bench<'_>, case: &Case) -> Vec<Arc<Case>> {
    let mut handles = Vec::new();
    for _ in 0..CALLERS {
        handles.push(Arc::new(case.with(bench.fixture.open().await)));
    }
    handles
}

/// Waits for all racers. A panic of one is the store's.
async fn joined<T: 'static>(mut racers: JoinSet<Checked<T>>) -> Checked<Vec<T>> {
    let mut answers = Vec::new();
    while let Some(joined) = racers.join_next().await {
        answers.push(joined.map_err(|error| Wrong::new("a call among others", "an answer", error))??);
    }
    Ok(answers)
}

async fn one_of_many_gets_the_id(bench: &Bench<'_>) -> Checked {
    let case = bench.case("one of many gets the id").await;
    let handles = handles(bench, &case).await;
    for round in 0..30 {
        let (mut racers, start) = (JoinSet::new(), Arc::new(Barrier::new(CALLERS as usize)));
        for (attempt, case) in (1..).zip(handles.iter().cloned()) {
            let start = Arc::clone(&start);
            racers.spawn(async move {
                let id = format!("{round}");
                start.wait().await;
                // All mark, all claim, or half of them: a claim that is correct would hide marks
                // that are not.
                let marks = match round % 3 {
                    0 => true,
                    1 => false,
                    _ => attempt % 2 == 0,
                };
                Ok(if marks {
                    u64::from(case.mark(&id, attempt).await? == Marked::Fresh)
                } else {
                    u64::from(matches!(case.claim(&id, attempt).await?, Claimed::Claimed { .. }))
                })
            });
        }
        let got = joined(racers).await?.into_iter().sum::<u64>();
        is(format!("how many of {CALLERS} callers got id {round}"), got, 1)?;
    }
    Ok(())
}

async fn one_of_many_takes_over(bench: &Bench<'_>) -> Checked {
    let case = bench.case("one of many takes an expired lease over").await;
    let handles = handles(bench, &case).await;
    for round in 0..10 {
        let id = format!("{round}");
        let late = case.token(&id, 1_000).await?;
        bench.advance(LEASE + bench.slack()).await;
        let (mut racers, start) = (JoinSet::new(), Arc::new(Barrier::new(CALLERS as usize)));
        for (attempt, case) in (1..).zip(handles.iter().cloned()) {
            let (id, start) = (id.clone(), Arc::clone(&start));
            racers.spawn(async move {
                start.wait().await;
                Ok(match case.claim(&id, attempt).await? {
                    Claimed::Claimed { token, .. } => vec![token],
                    _ => vec![],
                })
            });
        }
        let holders = joined(racers).await?.concat();
        let [holder] = holders[..] else {
            return Err(Wrong::new(format!("tokens of {CALLERS} callers for id {round}"), "one", holders));
        };
        case.ensure(holder > late, &format!("a token above {late}"), holder)?;
        case.is(case.complete(&id, late).await?, Held::Lost)?;
        case.is(case.complete(&id, holder).await?, Held::Done)?;
    }
    Ok(())
}

async fn a_hundred_ids_sent_ten_times_are_handled_a_hundred_times(bench: &Bench<'_>) -> Checked {
    let case = bench.case("a hundred ids, sent ten times, are handled a hundred times").await;
    let handled = Arc::new(StdAtomicU64::new(0));
    // Whoever asks a slow store all the time is why it is slow.
    let pause = Duration::from_millis(if bench.is_slow { 20 } else { 1 });
    let mut consumers = JoinSet::new();
    for (consumer, case) in handles(bench, &case).await.into_iter().enumerate() {
        let handled = Arc::clone(&handled);
        consumers.spawn(async move {
            for i in 0..100 {
                // Each in another order.
                let (id, attempt) = (format!("{}", (i + consumer * 7) % 100), (consumer * 1_000_000) as u64);
                for retry in 0.. {
                    match case.claim(&id, attempt + (i * 1_000) as u64 + retry).await? {
                        Claimed::Claimed { token, .. } => {
                            handled.fetch_add(1, Ordering::Relaxed);
                            case.is(case.complete(&id, token).await?, Held::Done)?;
                            break;
                        }
                        Claimed::Duplicate(_) => break,
                        Claimed::InProgress { .. } => tokio::time::sleep(pause).await,
                        other => case.ensure(false, "no mismatch, as there is no fingerprint", other)?,
                    }
                }
            }
            Ok(())
        });
    }
    joined(consumers).await?;
    is("how many times ids were handled", handled.load(Ordering::Relaxed), 100)
}

async fn overlapping_batches_do_not_stand_in_each_others_way(bench: &Bench<'_>) -> Checked {
    let case = bench.case("overlapping batches do not stand in each other's way").await;
    let (rounds, ids) = if bench.is_slow { (1, 64) } else { (10, 256) };
    let mut racers = JoinSet::new();
    for (caller, case) in (0..).zip(handles(bench, &case).await) {
        racers.spawn(async move {
            let mut got = 0;
            for round in 0..rounds {
                got += claim_and_complete(&case, caller, round, ids).await?;
            }
            Ok(got)
        });
    }
    is("how many ids were completed", joined(racers).await?.into_iter().sum::<usize>(), (rounds * ids) as usize)
}

/// Claims ids that others claim, too, from one end or the other. Returns the number of those that
/// it got, and has completed.
async fn claim_and_complete(case: &Case, caller: u64, round: u64, ids: u64) -> Checked<usize> {
    let id = |i: u64| if caller.is_multiple_of(2) { i } else { ids - 1 - i };
    let attempt = |i: u64| caller * 100_000 + round * 1_000 + i + 1;
    let claims: Vec<_> = (0..ids).map(|i| case.claim_of(format!("{round} {}", id(i)), attempt(i))).collect();
    let claimed = case.all(&format!("claims of {ids} ids among others"), case.store.claim(&claims).await)?;
    let held = claims.iter().zip(&claimed).filter_map(|(claim, claimed)| match claimed {
        Claimed::Claimed { token, .. } => {
            let hold = Hold { key: claim.key.clone(), token: *token };
            Some(Completion { hold, retention: RETENTION, result: None })
        }
        _ => None,
    });
    let held: Vec<Completion> = held.collect();
    let completed = case.all("completions of what was claimed", case.store.complete(&held).await)?;
    case.is(completed, vec![Held::Done; held.len()])?;
    Ok(held.len())
}

async fn whoever_is_cancelled_may_ask_again(bench: &Bench<'_>) -> Checked {
    let case = Arc::new(bench.case("whoever is cancelled may ask again").await);
    for i in 0..50 {
        let (id, cancelled) = (format!("{i}"), Arc::clone(&case));
        let asked = id.clone();
        let asking = tokio::spawn(async move { cancelled.claim(&asked, 1).await });
        tokio::time::sleep(Duration::from_micros(20 * i)).await;
        asking.abort();
        let _ = asking.await;
        let token = case.token(&id, 1).await?;
        case.is_in_progress(case.claim(&id, 2).await?, LEASE)?;
        case.is(case.complete(&id, token).await?, Held::Done)?;
    }
    Ok(())
}
