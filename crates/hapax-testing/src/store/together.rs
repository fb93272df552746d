//! Concurrent callers, each with a handle of its own, as in other processes.

use super::fixture::*;
use hapax_store::sync::{Ordering, StdAtomicU64};
use hapax_store::*;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

pub(super) async fn verify(bench: &Bench<'_>) {
    one_of_many_gets_the_id(bench).await;
    one_of_many_takes_over(bench).await;
    a_hundred_ids_sent_ten_times_are_handled_a_hundred_times(bench).await;
    overlapping_batches_do_not_stand_in_each_others_way(bench).await;
    whoever_is_cancelled_may_ask_again(bench).await;
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

async fn one_of_many_gets_the_id(bench: &Bench<'_>) {
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
                match marks {
                    true => u64::from(case.mark(&id, attempt).await == Marked::Fresh),
                    false => u64::from(matches!(case.claim(&id, attempt).await, Claimed::Claimed { .. })),
                }
            });
        }
        assert_eq!(racers.join_all().await.into_iter().sum::<u64>(), 1, "round {round}");
    }
}

async fn one_of_many_takes_over(bench: &Bench<'_>) {
    let case = bench.case("one of many takes an expired lease over").await;
    let handles = handles(bench, &case).await;
    for round in 0..10 {
        let id = format!("{round}");
        let late = case.token(&id, 1_000).await;
        bench.fixture.advance(LEASE + SLACK).await;
        let (mut racers, start) = (JoinSet::new(), Arc::new(Barrier::new(CALLERS as usize)));
        for (attempt, case) in (1..).zip(handles.iter().cloned()) {
            let (id, start) = (id.clone(), Arc::clone(&start));
            racers.spawn(async move {
                start.wait().await;
                match case.claim(&id, attempt).await {
                    Claimed::Claimed { token } => vec![token],
                    _ => vec![],
                }
            });
        }
        let holders = racers.join_all().await.concat();
        assert_eq!(holders.len(), 1, "round {round}: one takes over, not {holders:?}");
        assert!(holders[0] > late);
        assert_eq!(case.complete(&id, late).await, Held::Lost);
        assert_eq!(case.complete(&id, holders[0]).await, Held::Done);
    }
}

async fn a_hundred_ids_sent_ten_times_are_handled_a_hundred_times(bench: &Bench<'_>) {
    let case = bench.case("a hundred ids, sent ten times, are handled a hundred times").await;
    let handled = Arc::new(StdAtomicU64::new(0));
    let mut consumers = JoinSet::new();
    for (consumer, case) in handles(bench, &case).await.into_iter().enumerate() {
        let handled = Arc::clone(&handled);
        consumers.spawn(async move {
            for i in 0..100 {
                // Each in another order.
                let (id, attempt) = (format!("{}", (i + consumer * 7) % 100), (consumer * 1_000_000) as u64);
                for retry in 0.. {
                    match case.claim(&id, attempt + (i * 1_000) as u64 + retry).await {
                        Claimed::Claimed { token } => {
                            handled.fetch_add(1, Ordering::Relaxed);
                            assert_eq!(case.complete(&id, token).await, Held::Done);
                            break;
                        }
                        Claimed::Duplicate(_) => break,
                        Claimed::InProgress { .. } => tokio::time::sleep(Duration::from_millis(1)).await,
                        Claimed::Mismatch => panic!("there is no fingerprint"),
                    }
                }
            }
        });
    }
    consumers.join_all().await;
    assert_eq!(handled.load(Ordering::Relaxed), 100);
}

async fn overlapping_batches_do_not_stand_in_each_others_way(bench: &Bench<'_>) {
    let case = bench.case("overlapping batches do not stand in each other's way").await;
    let mut racers = JoinSet::new();
    for (caller, case) in (0..).zip(handles(bench, &case).await) {
        racers.spawn(async move {
            let mut got = 0;
            for round in 0..10u64 {
                let id = |i: u64| format!("{}", if caller % 2 == 0 { i } else { 255 - i });
                let attempt = |i: u64| caller * 100_000 + round * 1_000 + i + 1;
                let claims: Vec<_> =
                    (0..256).map(|i| case.claim_of(format!("{round} {}", id(i)), attempt(i))).collect();
                let claimed = all(case.store.claim(&claims).await);
                let held = claims.iter().zip(&claimed).filter_map(|(claim, claimed)| match claimed {
                    Claimed::Claimed { token } => Some(Completion {
                        hold: Hold { key: claim.key.clone(), token: *token },
                        retention: RETENTION,
                        result: None,
                    }),
                    _ => None,
                });
                let held: Vec<Completion> = held.collect();
                got += held.len();
                assert!(all(case.store.complete(&held).await).iter().all(|held| *held == Held::Done));
            }
            got
        });
    }
    assert_eq!(racers.join_all().await.into_iter().sum::<usize>(), 10 * 256);
}

async fn whoever_is_cancelled_may_ask_again(bench: &Bench<'_>) {
    let case = Arc::new(bench.case("whoever is cancelled may ask again").await);
    for i in 0..50 {
        let (id, cancelled) = (format!("{i}"), Arc::clone(&case));
        let asked = id.clone();
        let asking = tokio::spawn(async move { cancelled.claim(&asked, 1).await });
        tokio::time::sleep(Duration::from_micros(20 * i)).await;
        asking.abort();
        let _ = asking.await;
        let token = case.token(&id, 1).await;
        is_in_progress(case.claim(&id, 2).await, LEASE);
        assert_eq!(case.complete(&id, token).await, Held::Done);
    }
}
