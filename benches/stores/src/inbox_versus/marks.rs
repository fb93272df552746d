//! `once` and `once_batch` next to a processed table.

use super::place::Place;
use super::rows::{Rows, measured};
use super::{ours, rivals};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub async fn round(place: &Place, rows: &mut Rows, round: usize) {
    let Place { scale, .. } = place;
    let singles = scale.singles;
    rows.measure(
        round,
        measured("once, 8 connections, a transaction each", once(place, singles, 1, singles)),
        vec![(measured("processed table, the same", mark(place, singles, 1, singles)), Some(0.9))],
    )
    .await;
    rows.measure(
        round,
        measured("once, duplicates", once(place, singles, 1, 0)),
        vec![(measured("processed table, duplicates", mark(place, singles, 1, 0)), None)],
    )
    .await;
    let (place, hundreds) = (&place.fresh().await, scale.hundreds);
    rows.measure(
        round,
        measured("once_batch of 100 in a transaction", once(place, hundreds, 100, 100 * hundreds)),
        vec![
            (measured("100 INSERTs in a transaction", mark(place, hundreds, 100, 100 * hundreds)), Some(1.0)),
            (measured("one INSERT of 100 rows", mark_many(place, hundreds)), None),
        ],
    )
    .await;
}

/// Runs this many transactions, of this many ids each. Returns ids a second.
async fn once(place: &Place, transactions: u64, ids: u64, first: u64) -> f64 {
    let found = Arc::new(AtomicU64::new(0));
    let rate = place
        .eight(transactions, |mut client, numbers| {
            let (tables, found) = (place.tables.clone(), Arc::clone(&found));
            async move {
                for n in numbers {
                    let mut tx = client.transaction().await.expect("a transaction");
                    let of = n * ids..(n + 1) * ids;
                    let first = match ids {
                        1 => ours::once(&mut tx, &tables, of).await,
                        _ => ours::once_batch(&mut tx, &tables, of).await,
                    };
                    tx.commit().await.expect("a commit");
                    found.fetch_add(first, Ordering::Relaxed);
                }
            }
        })
        .await;
    assert_eq!(found.load(Ordering::Relaxed), first, "so many were first");
    assert_eq!(place.count("{p}_marks").await, transactions * ids, "each has a mark");
    rate * ids as f64
}

async fn mark(place: &Place, transactions: u64, ids: u64, first: u64) -> f64 {
    let found = Arc::new(AtomicU64::new(0));
    let rate = place
        .eight(transactions, |client, numbers| {
            let (prefix, found) = (place.prefix.clone(), Arc::clone(&found));
            async move {
                found.fetch_add(rivals::mark(client, &prefix, numbers, ids).await, Ordering::Relaxed);
            }
        })
        .await;
    assert_eq!(found.load(Ordering::Relaxed), first, "so many were first");
    assert_eq!(place.count("{p}_processed").await, transactions * ids, "each has a mark");
    rate * ids as f64
}

async fn mark_many(place: &Place, transactions: u64) -> f64 {
    let rate = place
        .eight(transactions, |client, numbers| {
            let prefix = place.prefix.clone();
            async move {
                rivals::mark_many(client, &prefix, numbers).await;
            }
        })
        .await;
    assert_eq!(place.count("{p}_processed_by_many").await, transactions * 100, "each has a mark");
    rate * 100.0
}
