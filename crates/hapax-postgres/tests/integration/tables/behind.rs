//! Behind a long transaction, rows that are gone cannot be removed: claims do not look at them
//! again and again. And a topic with one message does not wait for many with more.

use crate::publishing::relays::{start, until_empty};
use crate::*;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

const GONE: i64 = 200_000;

/// Pages of the queue's tables and indexes that all sessions have looked at.
async fn pages(place: &Place, client: &Client) -> i64 {
    client.batch_execute("SELECT pg_stat_clear_snapshot()").await.unwrap();
    let sql =
        "SELECT sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit, 0) + coalesce(idx_blks_read, 0))::bigint
        FROM pg_statio_user_tables WHERE relname IN ('{p}_outbox', '{p}_outbox_keys')";
    place.count(client, sql).await
}

#[derive(Default)]
struct Counter {
    published: AtomicUsize,
    rare: Mutex<Option<usize>>,
}

impl Publisher for Counter {
    async fn publish(&self, message: &Message) -> Result<(), BoxError> {
        let before = self.published.fetch_add(1, Ordering::SeqCst);
        if message.name == "rare" {
            *self.rare.lock().unwrap() = Some(before);
        }
        Ok(())
    }
}

/// Publishes messages one after the other beside a relay. Returns the pages that were looked at
/// for each claim that found one.
async fn published_one_by_one(place: &Place, client: &mut Client, key: Option<&str>, what: &str) -> i64 {
    const MESSAGES: usize = 15;
    let broker = Arc::new(Counter::default());
    let (stop, running) = start(place.relay(), &broker);
    let one = async |client: &mut Client, n: usize| {
        let id = format!("{what} {n}");
        let message = NewMessage::new(&id, "");
        place.enqueue(client, "t", key.map_or(message, |key| message.key(key))).await;
        // To count what is left would walk it all.
        until("it is published", async || broker.published.load(Ordering::SeqCst) > n).await;
    };
    // The first looks of a relay are at everything.
    for n in 0..MESSAGES {
        one(client, n).await;
    }
    // Statistics come a second late.
    tokio::time::sleep(ms(1_500)).await;
    let mut before = pages(place, client).await;
    // The least of some parts: once in half a minute a relay looks at everything.
    let mut looked_at = i64::MAX;
    for part in 1..=3 {
        for n in 0..MESSAGES {
            one(client, part * MESSAGES + n).await;
        }
        tokio::time::sleep(ms(1_500)).await;
        let after = pages(place, client).await;
        looked_at = looked_at.min((after - before) / MESSAGES as i64);
        before = after;
    }
    stop.send(true).unwrap();
    running.await.unwrap();
    println!("{what}: {looked_at} pages a message");
    looked_at
}

#[test]
fn claims_behind_a_long_transaction_do_not_walk_what_is_gone() {
    Place::run_alone(async |place| {
        let (mut client, reader) = (place.client().await, place.client().await);
        for (key, of_key) in [(None, "NULL"), (Some("k"), "'k'")] {
            let alone = published_one_by_one(&place, &mut client, key, "alone").await;
            reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class").await.unwrap();
            let gone = format!(
                "INSERT INTO {{p}}_outbox (name, key, id, payload, due_at) SELECT 't', {of_key}::bytea, int8send(n), '',
                    CASE WHEN {of_key} IS NULL THEN clock_timestamp() END FROM generate_series(1, {GONE}) n;
                 DELETE FROM {{p}}_outbox"
            );
            place.execute(&client, &gone).await;
            let beside = published_one_by_one(&place, &mut client, key, "beside a long transaction").await;
            reader.batch_execute("COMMIT").await.unwrap();
            place.execute(&client, "VACUUM {p}_outbox").await;
            // Half of them would be some 500 pages.
            assert!(beside < 3 * alone + 200, "{beside} pages a message, {alone} alone, key {key:?}");
        }
    });
}

/// A message that is committed long after it was stored, while others were claimed.
#[test]
fn a_message_that_is_committed_late_is_found() {
    Place::run(async |place| {
        let (mut client, mut late) = (place.client().await, place.client().await);
        let broker = Arc::new(Counter::default());
        let (stop, running) = start(place.relay(), &broker);
        for topic in ["t", "rare"] {
            let mut tx = late.transaction().await.unwrap();
            let past = std::time::SystemTime::now() - HOUR;
            outbox::enqueue(&mut tx, &place.tables, topic, NewMessage::new("late", "")).await.unwrap();
            outbox::enqueue(&mut tx, &place.tables, topic, NewMessage::new("past", "").due_at(past)).await.unwrap();
            outbox::enqueue(&mut tx, &place.tables, topic, NewMessage::new("keyed", "").key("k").due_at(past))
                .await
                .unwrap();
            for n in 0..50 {
                place.enqueue(&mut client, "t", NewMessage::new(&format!("{topic} {n}"), "")).await;
                until_empty(&place, &client).await;
            }
            tx.commit().await.unwrap();
            let began = tokio::time::Instant::now();
            until_empty(&place, &client).await;
            println!("{topic}: found {:?} after its commit", began.elapsed());
            // Everything is looked through every half minute: it is found without that.
            assert!(began.elapsed() < Duration::from_secs(20));
        }
        stop.send(true).unwrap();
        running.await.unwrap();
    });
}

#[test]
fn a_topic_with_one_message_does_not_wait_for_a_round_of_all_others() {
    const TOPICS: i64 = 2_000;
    const EACH: i64 = 32;
    Place::run(async |place| {
        let mut client = place.client().await;
        let many = format!(
            "INSERT INTO {{p}}_outbox (name, id, payload, due_at) SELECT 'a' || n % {TOPICS}, int8send(n), '',
                clock_timestamp() FROM generate_series(1, {TOPICS} * {EACH}) n"
        );
        place.execute(&client, &many).await;
        let broker = Arc::new(Counter::default());
        let (stop, running) = start(place.relay(), &broker);
        until("it publishes", async || broker.published.load(Ordering::SeqCst) > 2_000).await;
        place.enqueue(&mut client, "rare", NewMessage::new("rare", "")).await;
        let before = broker.published.load(Ordering::SeqCst);
        until("it is published", async || broker.rare.lock().unwrap().is_some()).await;
        let waited = broker.rare.lock().unwrap().unwrap().saturating_sub(before);
        stop.send(true).unwrap();
        running.await.unwrap();
        println!("it has waited for {waited} others");
        assert!((waited as i64) < TOPICS * 16 / 2, "it has waited for {waited} others");
    });
}
