//! Workers with an effect of one row, next to jobs by hand that have the same effect in one
//! transaction: one, and four, each a thread with a runtime of its own.

use super::ours::{self, Handled};
use super::place::{CONNECTIONS, Place, Taken};
use super::rivals;
use super::rows::{Rows, measured};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

const KEYS: Option<u64> = Some(1_000);
const CASES: [(u64, Option<u64>, &str, &str); 4] = [
    (1, None, "1 worker", "1 DELETE … SKIP LOCKED"),
    (4, None, "4 workers", "4 DELETE … SKIP LOCKED"),
    (1, KEYS, "1 worker, 1,000 keys in order", "1 DELETE … SKIP LOCKED, no order"),
    (4, KEYS, "4 workers, 1,000 keys in order", "4 DELETE … SKIP LOCKED, no order"),
];

pub async fn round(place: &Place, rows: &mut Rows, round: usize) {
    for (workers, keys, our_name, their_name) in CASES {
        let ours = measured(our_name, work(place, workers, keys, None));
        rows.measure(round, ours, vec![(measured(their_name, rival(place, workers, keys)), Some(0.8))]).await;
    }
}

/// Returns messages with an effect, a second, in batches of some.
pub async fn work(place: &Place, workers: u64, keys: Option<u64>, of: Option<usize>) -> f64 {
    let (place, all) = (&place.fresh().await, amount(place, of));
    match of {
        Some(_) => fill_at_once(place, all).await,
        None => fill(place, all, keys).await,
    }
    place.execute("VACUUM ANALYZE {p}_inbox; CHECKPOINT").await;
    let taken = Taken::new(all, keys);
    let rate = side_by_side(place, workers, &taken, |place, taken| {
        let (address, tables, window) = (place.address.clone(), place.tables.clone(), place.scale.window);
        let (handled, taken) = (Handled::new(taken, &place.prefix), Arc::clone(taken));
        async move {
            match of {
                Some(of) => ours::batch_worker(&address, &tables, of, handled, taken.wait(window)).await,
                None => ours::worker(&address, &tables, handled, taken.wait(window)).await,
            }
        }
    });
    let rate = rate.await;
    verify(place, "inbox", all, keys).await;
    rate
}

async fn rival(place: &Place, workers: u64, keys: Option<u64>) -> f64 {
    let (place, all) = (&place.fresh().await, place.scale.work);
    place.execute(&rivals::fill(&format!("{}_jobs", place.prefix), all, keys)).await;
    place.execute("VACUUM ANALYZE {p}_jobs; CHECKPOINT").await;
    let taken = Taken::new(all, None);
    let rate = side_by_side(place, workers, &taken, |place, taken| {
        let (address, prefix, window) = (place.address.clone(), place.prefix.clone(), place.scale.window);
        let taken = Arc::clone(taken);
        async move { rivals::work(&address, &prefix, &taken, taken.wait(window)).await }
    });
    let rate = rate.await;
    verify(place, "jobs", all, None).await;
    rate
}

/// Runs this many at a time. Returns effects a second.
async fn side_by_side<F: Future<Output = ()> + Send + 'static>(
    place: &Place,
    workers: u64,
    taken: &Arc<Taken>,
    work: impl Fn(&Place, &Arc<Taken>) -> F,
) -> f64 {
    let begun = Instant::now();
    let threads: Vec<_> = (0..workers)
        .map(|_| {
            let work = work(place, taken);
            thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                runtime.block_on(work);
            })
        })
        .collect();
    let joined = tokio::task::spawn_blocking(|| threads.into_iter().for_each(|thread| thread.join().expect("an end")));
    joined.await.expect("they end");
    let took = begun.elapsed();
    place.count("{p}_effects").await as f64 / took.as_secs_f64()
}

/// Checks that each message that is gone has one effect; with keys, each key's are in order.
async fn verify(place: &Place, queue: &str, all: u64, keys: Option<u64>) {
    let left = place.count(&format!("{{p}}_{queue}")).await;
    assert_eq!(place.count("{p}_effects").await, all - left, "each that is gone has an effect");
    assert_eq!(place.count("(SELECT DISTINCT number FROM {p}_effects) n").await, all - left, "each has one");
    if keys.is_some() {
        let late = "(SELECT number < lag(number) OVER (PARTITION BY key ORDER BY n) AS is_late FROM {p}_effects) e \
            WHERE is_late";
        assert_eq!(place.count(late).await, 0, "effects of each key are in order");
    }
}

/// Returns how many messages there are to work on: in batches, enough that they take a while.
pub fn amount(place: &Place, of: Option<usize>) -> u64 {
    place.scale.work * of.map_or(1, |_| 10)
}

/// Stores messages as if they were received, in one statement.
async fn fill_at_once(place: &Place, messages: u64) {
    let sql = "INSERT INTO {p}_inbox (name, due_at, id, payload) SELECT 'w', clock_timestamp(), int8send(n), \
        int8send(n) || decode(repeat('78', 92), 'hex') FROM generate_series(0, {last}) n";
    place.execute(&sql.replace("{last}", &(messages - 1).to_string())).await;
}

/// Receives the messages that are to be handled.
pub async fn fill(place: &Place, messages: u64, keys: Option<u64>) {
    let connections = if keys.is_some() { 1 } else { CONNECTIONS };
    let batches = messages / 100;
    place
        .with(connections, batches, |mut client, numbers| {
            let tables = place.tables.clone();
            async move {
                for n in numbers {
                    let mut tx = client.transaction().await.expect("a transaction");
                    for n in n * 100..(n + 1) * 100 {
                        ours::receive(&mut tx, &tables, n, keys).await;
                    }
                    tx.commit().await.expect("a commit");
                }
            }
        })
        .await;
    assert_eq!(place.count("{p}_inbox").await, messages);
}
