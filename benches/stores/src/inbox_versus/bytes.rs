//! Bytes of tables and indexes after many messages have gone in and out, with autovacuum on.

use super::ours::{self, Handled, Published};
use super::place::{Place, Taken};
use std::sync::Arc;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(1_800);

pub async fn run(place: &Place) {
    let through = place.scale.through;
    through_the_outbox(place, through).await;
    through_the_inbox(place, through / 10).await;
    // A hundred ids in each transaction.
    place
        .eight(through / 100, |mut client, numbers| {
            let tables = place.tables.clone();
            async move {
                for n in numbers {
                    let mut tx = client.transaction().await.expect("a transaction");
                    ours::once_batch(&mut tx, &tables, n * 100..(n + 1) * 100).await;
                    tx.commit().await.expect("a commit");
                }
            }
        })
        .await;
    println!(
        "\n| table, after {through} messages through the outbox (half of them of 1,000 keys), {} through the inbox, and \
         {through} marks | rows | heap, MiB | indexes, MiB |\n|---|---:|---:|---:|",
        through / 10
    );
    let sizes = "SELECT relname::text, pg_table_size(oid)::float8 / 1048576, pg_indexes_size(oid)::float8 / 1048576 \
        FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY relname";
    let ours = format!("{}_", place.prefix);
    let rivals = ["processed", "processed_by_many", "plain", "plain_by_many", "jobs", "effects"];
    for row in place.admin.query(sizes, &[]).await.expect("sizes") {
        let (name, heap, indexes): (String, f64, f64) = (row.get(0), row.get(1), row.get(2));
        let Some(name) = name.strip_prefix(&ours).filter(|name| !rivals.contains(name)) else { continue };
        let rows = place.count(&format!("{{p}}_{name}")).await;
        println!("| {name} | {rows} | {heap:.1} | {indexes:.1} |");
    }
}

/// Sends messages through the outbox: eight callers enqueue in hundreds while a relay publishes.
async fn through_the_outbox(place: &Place, messages: u64) {
    let taken = Taken::new(messages, None);
    let publisher = Published { taken: Arc::clone(&taken), takes: Duration::ZERO };
    let relay = {
        let (address, tables, taken) = (place.address.clone(), place.tables.clone(), Arc::clone(&taken));
        tokio::spawn(async move { ours::relay(&address, &tables, None, publisher, taken.wait(PATIENCE)).await })
    };
    place
        .eight(messages / 100, |mut client, numbers| {
            let tables = place.tables.clone();
            async move {
                for n in numbers {
                    let mut tx = client.transaction().await.expect("a transaction");
                    let keys = n.is_multiple_of(2).then_some(1_000);
                    ours::enqueue_batch(&mut tx, &tables, n * 100..(n + 1) * 100, keys).await;
                    tx.commit().await.expect("a commit");
                }
            }
        })
        .await;
    relay.await.expect("an end");
    assert_eq!((taken.count(), place.count("{p}_outbox").await), (messages, 0), "all are out");
}

/// Sends messages through the inbox: eight callers receive while a worker works.
async fn through_the_inbox(place: &Place, messages: u64) {
    let taken = Taken::new(messages, None);
    let worker = {
        let (address, tables) = (place.address.clone(), place.tables.clone());
        let (handled, taken) = (Handled::new(&taken, &place.prefix), Arc::clone(&taken));
        tokio::spawn(async move { ours::worker(&address, &tables, handled, taken.wait(PATIENCE)).await })
    };
    place
        .eight(messages, |mut client, numbers| {
            let tables = place.tables.clone();
            async move {
                for n in numbers {
                    let mut tx = client.transaction().await.expect("a transaction");
                    ours::receive(&mut tx, &tables, n, n.is_multiple_of(2).then_some(1_000)).await;
                    tx.commit().await.expect("a commit");
                }
            }
        })
        .await;
    worker.await.expect("an end");
    assert_eq!((taken.count(), place.count("{p}_inbox").await), (messages, 0), "all are handled");
    assert_eq!(place.count("{p}_effects").await, messages, "each has its effect");
}
