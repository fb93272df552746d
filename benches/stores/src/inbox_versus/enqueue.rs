//! `enqueue` and `enqueue_batch` next to plain INSERTs, without a reader, with a sleeping reader,
//! and with one that reads what is written.

use super::ours::{self, Published};
use super::place::{Place, Taken};
use super::rivals;
use super::rows::{Rows, measured};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The readers that run meanwhile.
#[derive(Clone, Copy, PartialEq)]
enum Reader {
    Nobody,
    /// A relay of another topic, which has to be notified of each message, and finds none. For a
    /// plain table: no reader.
    Sleeps,
    /// A relay, or a poller for a plain table.
    Reads,
}

const KEYS: Option<u64> = Some(1_000);
const LABELS: [(Reader, Option<u64>, &str, &str); 6] = [
    (Reader::Nobody, None, "enqueue, no relay", "INSERT, no poller"),
    (Reader::Sleeps, None, "enqueue, sleeping relay", "INSERT, no poller (2)"),
    (Reader::Reads, None, "enqueue, relay at work", "INSERT, poller at work"),
    (Reader::Nobody, KEYS, "enqueue, 1,000 keys, no relay", "INSERT, 1,000 keys, no poller"),
    (Reader::Sleeps, KEYS, "enqueue, 1,000 keys, sleeping relay", "INSERT, 1,000 keys, no poller (2)"),
    (Reader::Reads, KEYS, "enqueue, 1,000 keys, relay at work", "INSERT, 1,000 keys, poller at work"),
];

pub async fn round(place: &Place, rows: &mut Rows, round: usize) {
    for (reader, keys, our_name, their_name) in LABELS {
        let (place, singles) = (&place.fresh().await, place.scale.singles);
        let bar = if keys.is_some() { 0.6 } else { 0.7 };
        let ours = measured(our_name, enqueue(place, reader, singles, 1, keys));
        rows.measure(round, ours, vec![(measured(their_name, insert(place, reader, singles, 1, keys)), Some(bar))])
            .await;
    }
    for (keys, our_name, many_name, each_name) in [
        (None, "enqueue_batch of 100", "one INSERT of 100 messages", "100 INSERTs, one transaction"),
        (KEYS, "enqueue_batch of 100, keyed", "one INSERT of 100, keyed", "100 INSERTs, keyed, one transaction"),
    ] {
        let (place, hundreds) = (&place.fresh().await, place.scale.hundreds);
        let bar = keys.is_none().then_some(0.9);
        let ours = measured(our_name, enqueue(place, Reader::Nobody, hundreds, 100, keys));
        let many = (measured(many_name, insert_many(place, hundreds, keys)), bar);
        let each = (measured(each_name, insert(place, Reader::Nobody, hundreds, 100, keys)), bar);
        rows.measure(round, ours, vec![many, each]).await;
    }
}

/// Runs this many transactions, of this many messages each. Returns messages a second.
async fn enqueue(place: &Place, reader: Reader, transactions: u64, messages: u64, keys: Option<u64>) -> f64 {
    let all = transactions * messages;
    // Transactions of eight connections commit in any order, so the order of numbers is not
    // promised.
    let taken = Taken::new(all, None);
    let (stop, stopped) = watch::channel(false);
    let relay: Option<JoinHandle<()>> = (reader != Reader::Nobody).then(|| {
        let (address, tables) = (place.address.clone(), place.tables.clone());
        let topic = (reader == Reader::Sleeps).then_some("another");
        let publisher = Published { taken: taken.clone(), takes: Duration::ZERO };
        tokio::spawn(async move { ours::relay(&address, &tables, topic, publisher, told(stopped)).await })
    });
    // It waits until the relay listens, and has looked once.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let rate = place
        .eight(transactions, |mut client, numbers| {
            let tables = place.tables.clone();
            async move {
                for n in numbers {
                    let mut tx = client.transaction().await.expect("a transaction");
                    match messages {
                        1 => ours::enqueue(&mut tx, &tables, n, keys).await,
                        _ => ours::enqueue_batch(&mut tx, &tables, n * messages..(n + 1) * messages, keys).await,
                    }
                    tx.commit().await.expect("a commit");
                }
            }
        })
        .await;
    if reader == Reader::Reads {
        taken.wait(Duration::from_secs(60)).await;
    }
    stop.send_replace(true);
    if let Some(relay) = relay {
        relay.await.expect("the relay ends");
    }
    assert_eq!(place.count("{p}_outbox").await + taken.count(), all, "each is there, or was published");
    assert!(reader != Reader::Reads || taken.count() == all, "all are published");
    rate * messages as f64
}

async fn insert(place: &Place, reader: Reader, transactions: u64, messages: u64, keys: Option<u64>) -> f64 {
    let all = transactions * messages;
    let taken = Taken::new(all, None);
    let (stop, stopped) = watch::channel(false);
    let poller: Option<JoinHandle<()>> = (reader == Reader::Reads).then(|| {
        let (address, prefix, taken) = (place.address.clone(), place.prefix.clone(), taken.clone());
        tokio::spawn(async move { rivals::poll(&address, &prefix, 100, &taken, Duration::ZERO, told(stopped)).await })
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let rate = place
        .eight(transactions, |client, numbers| {
            let prefix = place.prefix.clone();
            async move { rivals::insert(client, &prefix, numbers, messages, keys).await }
        })
        .await;
    if reader == Reader::Reads {
        taken.wait(Duration::from_secs(60)).await;
    }
    stop.send_replace(true);
    if let Some(poller) = poller {
        poller.await.expect("the poller ends");
    }
    assert_eq!(place.count("{p}_plain").await + taken.count(), all, "each is there, or was published");
    rate * messages as f64
}

async fn insert_many(place: &Place, transactions: u64, keys: Option<u64>) -> f64 {
    let rate = place
        .eight(transactions, |client, numbers| {
            let prefix = place.prefix.clone();
            async move { rivals::insert_many(client, &prefix, numbers, keys).await }
        })
        .await;
    assert_eq!(place.count("{p}_plain_by_many").await, transactions * 100, "each is there");
    rate * 100.0
}

async fn told(mut stopped: watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}
