//! One relay with its defaults next to one poller, from a backlog.

use super::ours::{self, Published};
use super::place::{CONNECTIONS, Place, Taken, long_transaction};
use super::rivals;
use super::rows::{Rows, measured};
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Case {
    takes_ms: u64,
    is_beside_a_long_transaction: bool,
    keys: Option<u64>,
    bar: Option<f64>,
    ours: &'static str,
    theirs: &'static str,
}

const fn case(
    takes_ms: u64,
    is_beside_a_long_transaction: bool,
    keys: Option<u64>,
    bar: Option<f64>,
    [ours, theirs]: [&'static str; 2],
) -> Case {
    Case { takes_ms, is_beside_a_long_transaction, keys, bar, ours, theirs }
}

const KEYS: Option<u64> = Some(1_000);
const CASES: [Case; 6] = [
    case(0, false, None, Some(1.0), ["relay, publisher at once", "poller, publisher at once"]),
    case(0, true, None, Some(0.8), ["relay, at once, long transaction", "poller, at once, long transaction"]),
    case(5, false, None, Some(2.0), ["relay, publisher of 5 ms", "poller, publisher of 5 ms"]),
    case(5, true, None, Some(0.8), ["relay, 5 ms, long transaction", "poller, 5 ms, long transaction"]),
    case(0, false, KEYS, None, ["relay, 1,000 keys in order", "poller, at once, keeps no order"]),
    case(5, false, KEYS, None, ["relay, 1,000 keys in order, 5 ms", "poller, 5 ms, keeps no order"]),
];

pub async fn round(place: &Place, rows: &mut Rows, round: usize) {
    for case in &CASES {
        let ours = measured(case.ours, relay(place, case));
        rows.measure(round, ours, vec![(measured(case.theirs, poll(place, case)), case.bar)]).await;
    }
}

fn backlog(place: &Place, case: &Case) -> u64 {
    if case.keys.is_some() { place.scale.keyed_backlog } else { place.scale.backlog }
}

/// Returns the messages that are published and removed, a second.
async fn relay(place: &Place, case: &Case) -> f64 {
    let (place, all) = (&place.fresh().await, backlog(place, case));
    fill(place, all, case.keys).await;
    place.execute("VACUUM ANALYZE {p}_outbox; CHECKPOINT").await;
    let _long = if case.is_beside_a_long_transaction { Some(long_transaction(&place.address).await) } else { None };
    let taken = Taken::new(all, case.keys);
    let publisher = Published { taken: Arc::clone(&taken), takes: Duration::from_millis(case.takes_ms) };
    let begun = Instant::now();
    ours::relay(&place.address, &place.tables, None, publisher, taken.wait(place.scale.window)).await;
    let took = begun.elapsed();
    let removed = all - place.count("{p}_outbox").await;
    assert_eq!(removed, taken.count(), "what is published is removed, and nothing else");
    removed as f64 / took.as_secs_f64()
}

async fn poll(place: &Place, case: &Case) -> f64 {
    let (place, all) = (&place.fresh().await, backlog(place, case));
    place.execute(&rivals::fill(&format!("{}_plain", place.prefix), all, case.keys)).await;
    place.execute("VACUUM ANALYZE {p}_plain; CHECKPOINT").await;
    let _long = if case.is_beside_a_long_transaction { Some(long_transaction(&place.address).await) } else { None };
    let taken = Taken::new(all, None);
    let takes = Duration::from_millis(case.takes_ms);
    let begun = Instant::now();
    rivals::poll(&place.address, &place.prefix, 100, &taken, takes, taken.wait(place.scale.window)).await;
    let took = begun.elapsed();
    let removed = all - place.count("{p}_plain").await;
    assert_eq!(removed, taken.count(), "what is published is removed, and nothing else");
    removed as f64 / took.as_secs_f64()
}

/// Enqueues a backlog. Each key belongs to one connection, so that it has the order of its numbers.
pub async fn fill(place: &Place, messages: u64, keys: Option<u64>) {
    let batches = messages / 1_000;
    let connections = if keys.is_some() { 1 } else { CONNECTIONS };
    place
        .with(connections, batches, |mut client, numbers| {
            let tables = place.tables.clone();
            async move {
                for n in numbers {
                    let mut tx = client.transaction().await.expect("a transaction");
                    ours::enqueue_batch(&mut tx, &tables, n * 1_000..(n + 1) * 1_000, keys).await;
                    tx.commit().await.expect("a commit");
                }
            }
        })
        .await;
    assert_eq!(place.count("{p}_outbox").await, messages);
}
