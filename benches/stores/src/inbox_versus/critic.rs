//! Rows as a critic would write them: pollers of 500, batches of 1,000, jobs on as many connections
//! as there are handlers; one of each, and four. A few seconds a row, with the bytes of WAL that
//! each side writes for a message.

use super::ours::{self, Batched, Published};
use super::place::{Place, Taken};
use super::rows::{Rows, measured};
use super::{relay, rivals, worker};
use futures_util::future::join_all;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

const KEYS: Option<u64> = Some(1_000);
/// The relays, workers or callers: alone, and side by side.
const MANY: [u64; 2] = [1, 4];

/// The names of a row: ours and theirs, alone and side by side.
type Names = [[&'static str; 2]; 2];

const RELAY: Names = [["relay", "poller of 500"], ["4 relays", "4 pollers of 500"]];
const BATCHES: Names = [["relay, batches", "poller of 1,000, batches"], ["4 relays, batches", "4 pollers, batches"]];
const WORKER: Names = [["worker, 8 handlers", "8 jobs at a time"], ["4 workers", "32 jobs at a time"]];
const FIFTIES: Names =
    [["worker, batches of 50", "50 jobs in a transaction"], ["4 workers, 50", "50 jobs, 32 connections"]];
const ENQUEUE: Names = [["enqueue_batch of 100", "INSERT of 100"], ["enqueue_batch, 8", "INSERT of 100, 8"]];
const KEYED: Names = [["enqueue_batch, keyed", "INSERT, keyed"], ["enqueue_batch, keyed, 8", "INSERT, keyed, 8"]];
const ONCE: Names = [["once", "INSERT … DO NOTHING"], ["once, 8", "INSERT … DO NOTHING, 8"]];
const AGAIN: Names = [["once, duplicates", "duplicates"], ["once, duplicates, 8", "duplicates, 8"]];

pub async fn round(place: &Place, rows: &mut Rows, round: usize, wants: impl Fn(&str) -> bool) {
    for (n, many) in MANY.into_iter().enumerate() {
        if wants("relay") {
            for (names, is_batching) in [(RELAY, false), (BATCHES, true)] {
                let ours = measured(names[n][0], relays(place, many, is_batching));
                rows.measure(round, ours, vec![(measured(names[n][1], polled(place, many, is_batching)), None)]).await;
            }
        }
        if wants("worker") {
            for (names, of) in [(WORKER, None), (FIFTIES, Some(50))] {
                let ours = measured(names[n][0], worker::work(place, many, None, of));
                rows.measure(round, ours, vec![(measured(names[n][1], jobs(place, 8 * many, of)), None)]).await;
            }
        }
        let callers = if many == 1 { 1 } else { 8 };
        if wants("enqueue") {
            for (names, keys) in [(ENQUEUE, None), (KEYED, KEYS)] {
                let ours = measured(names[n][0], enqueued(place, callers, keys));
                rows.measure(round, ours, vec![(measured(names[n][1], inserted(place, callers, keys)), None)]).await;
            }
        }
        if wants("marks") {
            let place = &place.fresh().await;
            for names in [ONCE, AGAIN] {
                let ours = measured(names[n][0], marked(place, callers));
                let theirs = measured(names[n][1], processed(place, callers));
                rows.measure(round, ours, vec![(theirs, None)]).await;
            }
        }
    }
}

/// Prints the bytes of WAL that some work writes for each of its messages.
async fn counted<T>(place: &Place, what: &str, messages: u64, work: impl Future<Output = T>) -> T {
    let written = async || {
        let sql = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
        place.admin.query_one(sql, &[]).await.expect("an answer").get::<_, i64>(0)
    };
    let before = written().await;
    let result = work.await;
    eprintln!("{what}: {} bytes of WAL a message", (written().await - before) as u64 / messages);
    result
}

async fn relays(place: &Place, many: u64, is_batching: bool) -> f64 {
    let (place, all) = (&place.fresh().await, place.scale.backlog);
    relay::fill(place, all, None).await;
    place.execute("VACUUM ANALYZE {p}_outbox; CHECKPOINT").await;
    let (taken, window, begun) = (Taken::new(all, None), place.scale.window, Instant::now());
    let relays = (0..many).map(|_| {
        let (address, tables, taken) = (place.address.clone(), place.tables.clone(), Arc::clone(&taken));
        tokio::spawn(async move {
            let single = Published { taken: Arc::clone(&taken), takes: Duration::ZERO };
            if is_batching {
                ours::relay(&address, &tables, None, Batched(single), taken.wait(window)).await;
            } else {
                ours::relay(&address, &tables, None, single, taken.wait(window)).await;
            }
        })
    });
    counted(place, "relays", all, join_all(relays)).await;
    let took = begun.elapsed();
    let removed = all - place.count("{p}_outbox").await;
    assert_eq!(removed, taken.count(), "what is published is removed, and nothing else");
    removed as f64 / took.as_secs_f64()
}

async fn polled(place: &Place, many: u64, is_batching: bool) -> f64 {
    let (place, all) = (&place.fresh().await, place.scale.backlog);
    place.execute(&rivals::fill(&format!("{}_plain", place.prefix), all, None)).await;
    place.execute("VACUUM ANALYZE {p}_plain; CHECKPOINT").await;
    let (taken, window, begun) = (Taken::new(all, None), place.scale.window, Instant::now());
    let pollers = (0..many).map(|_| {
        let (address, prefix, taken) = (place.address.clone(), place.prefix.clone(), Arc::clone(&taken));
        let of = if is_batching { 1_000 } else { 500 };
        tokio::spawn(async move {
            rivals::poll(&address, &prefix, of, &taken, Duration::ZERO, taken.wait(window)).await;
        })
    });
    counted(place, "pollers", all, join_all(pollers)).await;
    let took = begun.elapsed();
    taken.count() as f64 / took.as_secs_f64()
}

async fn jobs(place: &Place, connections: u64, of: Option<usize>) -> f64 {
    let (place, all) = (&place.fresh().await, worker::amount(place, of));
    place.execute(&rivals::fill(&format!("{}_jobs", place.prefix), all, None)).await;
    place.execute("VACUUM ANALYZE {p}_jobs; CHECKPOINT").await;
    let (taken, window, begun) = (Taken::new(all, None), place.scale.window, Instant::now());
    let workers = (0..connections).map(|_| {
        let (address, prefix, taken) = (place.address.clone(), place.prefix.clone(), Arc::clone(&taken));
        tokio::spawn(async move {
            match of {
                Some(of) => rivals::work_many(&address, &prefix, of, &taken, taken.wait(window)).await,
                None => rivals::work(&address, &prefix, &taken, taken.wait(window)).await,
            }
        })
    });
    counted(place, "jobs", all, join_all(workers)).await;
    taken.count() as f64 / begun.elapsed().as_secs_f64()
}

async fn enqueued(place: &Place, callers: u64, keys: Option<u64>) -> f64 {
    let (place, hundreds) = (&place.fresh().await, place.scale.hundreds);
    let rate = place.with(callers, hundreds, |mut client, numbers| {
        let tables = place.tables.clone();
        async move {
            for n in numbers {
                let mut tx = client.transaction().await.expect("a transaction");
                ours::enqueue_batch(&mut tx, &tables, n * 100..(n + 1) * 100, keys).await;
                tx.commit().await.expect("a commit");
            }
        }
    });
    100.0 * counted(place, "enqueue_batch", 100 * hundreds, rate).await
}

async fn inserted(place: &Place, callers: u64, keys: Option<u64>) -> f64 {
    let (place, hundreds) = (&place.fresh().await, place.scale.hundreds);
    let rate = place.with(callers, hundreds, |client, numbers| {
        let prefix = place.prefix.clone();
        async move { rivals::insert_many(client, &prefix, numbers, keys).await }
    });
    100.0 * counted(place, "INSERT", 100 * hundreds, rate).await
}

async fn marked(place: &Place, callers: u64) -> f64 {
    place
        .with(callers, place.scale.singles, |mut client, numbers: Range<u64>| {
            let tables = place.tables.clone();
            async move {
                for n in numbers {
                    let mut tx = client.transaction().await.expect("a transaction");
                    ours::once(&mut tx, &tables, n..n + 1).await;
                    tx.commit().await.expect("a commit");
                }
            }
        })
        .await
}

async fn processed(place: &Place, callers: u64) -> f64 {
    place
        .with(callers, place.scale.singles, |client, numbers| {
            let prefix = place.prefix.clone();
            async move {
                rivals::mark(client, &prefix, numbers, 1).await;
            }
        })
        .await
}
