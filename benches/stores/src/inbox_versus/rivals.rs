//! The rivals, written by hand: tables with the indexes that they need, statements that are
//! prepared.

use super::place::{Taken, client, key, number, payload};
use futures_util::future::join_all;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::{Client, Transaction};

/// Returns the SQL of a processed table, an outbox, a table of jobs, and their effects.
pub fn tables(p: &str) -> String {
    format!(
        "CREATE TABLE {p}_processed (consumer text NOT NULL, id bytea NOT NULL, \
             processed_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (consumer, id)); \
         CREATE TABLE {p}_processed_by_many (LIKE {p}_processed INCLUDING ALL); \
         CREATE TABLE {p}_plain (id bigserial PRIMARY KEY, topic text NOT NULL, key bytea, payload bytea NOT NULL); \
         CREATE TABLE {p}_plain_by_many (id bigserial PRIMARY KEY, topic text NOT NULL, key bytea, \
             payload bytea NOT NULL); \
         CREATE TABLE {p}_jobs (id bigserial PRIMARY KEY, key bytea, payload bytea NOT NULL); \
         CREATE TABLE {p}_effects (n bigserial, whose text NOT NULL, key bytea, number bytea NOT NULL)"
    )
}

/// Marks in a processed table, `a_transaction` ids in each transaction. Returns how many were
/// first.
pub async fn mark(mut client: Client, p: &str, numbers: Range<u64>, a_transaction: u64) -> u64 {
    let sql = format!("INSERT INTO {p}_processed (consumer, id) VALUES ($1, $2) ON CONFLICT DO NOTHING");
    let insert = client.prepare(&sql).await.expect("a statement");
    let mut first = 0;
    for n in numbers {
        let tx = client.transaction().await.expect("a transaction");
        for id in n * a_transaction..(n + 1) * a_transaction {
            let id = crate::load::id(id);
            first += tx.execute(&insert, &[&"c", &id.as_slice()]).await.expect("an answer");
        }
        tx.commit().await.expect("a commit");
    }
    first
}

/// Marks a hundred ids in a statement.
pub async fn mark_many(mut client: Client, p: &str, numbers: Range<u64>) -> u64 {
    let sql = format!(
        "INSERT INTO {p}_processed_by_many (consumer, id) SELECT $1, unnest($2::bytea[]) ON CONFLICT DO NOTHING RETURNING id"
    );
    let insert = client.prepare(&sql).await.expect("a statement");
    let mut first = 0;
    for n in numbers {
        let ids: Vec<[u8; 16]> = (n * 100..(n + 1) * 100).map(crate::load::id).collect();
        let ids: Vec<&[u8]> = ids.iter().map(<[u8; 16]>::as_slice).collect();
        let tx = client.transaction().await.expect("a transaction");
        first += tx.query(&insert, &[&"c", &ids]).await.expect("an answer").len() as u64;
        tx.commit().await.expect("a commit");
    }
    first
}

/// Inserts into a plain outbox, `a_transaction` messages in each transaction.
pub async fn insert(mut client: Client, p: &str, numbers: Range<u64>, a_transaction: u64, keys: Option<u64>) {
    let sql = format!("INSERT INTO {p}_plain (topic, key, payload) VALUES ('t', $1, $2)");
    let insert = client.prepare(&sql).await.expect("a statement");
    for n in numbers {
        let tx = client.transaction().await.expect("a transaction");
        for n in n * a_transaction..(n + 1) * a_transaction {
            let key = key(n, keys);
            let key = key.as_ref().map(|key| key.as_slice());
            tx.execute(&insert, &[&key, &payload(n)]).await.expect("an answer");
        }
        tx.commit().await.expect("a commit");
    }
}

/// Inserts a hundred messages in a statement.
pub async fn insert_many(mut client: Client, p: &str, numbers: Range<u64>, keys: Option<u64>) {
    let sql = format!(
        "INSERT INTO {p}_plain_by_many (topic, key, payload) SELECT 't', k, v FROM unnest($1::bytea[], $2::bytea[]) m(k, v)"
    );
    let insert = client.prepare(&sql).await.expect("a statement");
    for n in numbers {
        let of = n * 100..(n + 1) * 100;
        let keys: Vec<Option<Vec<u8>>> = of.clone().map(|n| key(n, keys).map(|key| key.to_vec())).collect();
        let payloads: Vec<Vec<u8>> = of.map(payload).collect();
        let tx = client.transaction().await.expect("a transaction");
        assert_eq!(tx.execute(&insert, &[&keys, &payloads]).await.expect("an answer"), 100);
        tx.commit().await.expect("a commit");
    }
}

/// Returns the SQL that inserts this many messages at once into an outbox or a table of jobs.
pub fn fill(table: &str, numbers: u64, keys: Option<u64>) -> String {
    let topic = if table.ends_with("plain") { ("topic, ", "'t', ") } else { ("", "") };
    let key = keys.map_or("NULL".to_owned(), |keys| format!("int8send(n % {keys})"));
    format!(
        "INSERT INTO {table} ({}key, payload) SELECT {}{key}, int8send(n) || decode(repeat('78', 92), 'hex') \
         FROM generate_series(0, {}) n",
        topic.0,
        topic.1,
        numbers - 1
    )
}

/// Publishes `of` at once, and then the next, until it is told to stop.
pub async fn poll(
    address: &str,
    p: &str,
    of: u64,
    taken: &Arc<Taken>,
    takes: Duration,
    stop: impl Future<Output = ()>,
) {
    let mut client = client(address).await;
    let sql = format!("SELECT id, key, payload FROM {p}_plain ORDER BY id LIMIT {of} FOR UPDATE SKIP LOCKED");
    let select = client.prepare(&sql).await.expect("a statement");
    let delete = client.prepare(&format!("DELETE FROM {p}_plain WHERE id = ANY($1)")).await.expect("a statement");
    let mut stop = std::pin::pin!(stop);
    loop {
        let tx = client.transaction().await.expect("a transaction");
        let rows = tx.query(&select, &[]).await.expect("an answer");
        join_all(rows.iter().map(async |row| {
            if !takes.is_zero() {
                tokio::time::sleep(takes).await;
            }
            taken.take(number(row.get("payload")));
        }))
        .await;
        let ids: Vec<i64> = rows.iter().map(|row| row.get("id")).collect();
        tx.execute(&delete, &[&ids]).await.expect("an answer");
        tx.commit().await.expect("a commit");
        let pause = if rows.is_empty() { Duration::from_millis(10) } else { Duration::ZERO };
        tokio::select! {
            biased;
            () = &mut stop => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Takes so many jobs at once, with their effects in the transaction in which they are removed.
pub async fn work_many(address: &str, p: &str, of: usize, taken: &Arc<Taken>, stop: impl Future<Output = ()>) {
    let mut client = client(address).await;
    let sql = format!(
        "DELETE FROM {p}_jobs WHERE id = ANY (ARRAY(SELECT id FROM {p}_jobs ORDER BY id FOR UPDATE SKIP LOCKED LIMIT {of})) \
         RETURNING key, payload"
    );
    let take = client.prepare(&sql).await.expect("a statement");
    let effects = format!(
        "INSERT INTO {p}_effects (whose, key, number) SELECT 'theirs', * FROM unnest($1::bytea[], $2::bytea[])"
    );
    let effects = client.prepare(&effects).await.expect("a statement");
    let mut stop = std::pin::pin!(stop);
    loop {
        let tx = client.transaction().await.expect("a transaction");
        let jobs = tx.query(&take, &[]).await.expect("an answer");
        let keys: Vec<Option<&[u8]>> = jobs.iter().map(|job| job.get("key")).collect();
        let payloads: Vec<&[u8]> = jobs.iter().map(|job| job.get("payload")).collect();
        let numbers: Vec<&[u8]> = payloads.iter().map(|payload| &payload[..8]).collect();
        tx.execute(&effects, &[&keys, &numbers]).await.expect("an answer");
        payloads.iter().for_each(|payload| taken.take(number(payload)));
        tx.commit().await.expect("a commit");
        let pause = if jobs.is_empty() { Duration::from_millis(10) } else { Duration::ZERO };
        tokio::select! {
            biased;
            () = &mut stop => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Takes jobs one by one, each with its effect in the transaction in which it is removed.
pub async fn work(address: &str, p: &str, taken: &Arc<Taken>, stop: impl Future<Output = ()>) {
    let mut client = client(address).await;
    let sql = format!(
        "DELETE FROM {p}_jobs WHERE id = (SELECT id FROM {p}_jobs ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) \
         RETURNING key, payload"
    );
    let take = client.prepare(&sql).await.expect("a statement");
    let effect = format!("INSERT INTO {p}_effects (whose, key, number) VALUES ('theirs', $1, $2)");
    let effect = client.prepare(&effect).await.expect("a statement");
    let mut stop = std::pin::pin!(stop);
    loop {
        let tx = client.transaction().await.expect("a transaction");
        let job = tx.query_opt(&take, &[]).await.expect("an answer");
        if let Some(job) = &job {
            let payload: &[u8] = job.get("payload");
            has_effect(&tx, &effect, job.get("key"), payload).await;
            taken.take(number(payload));
        }
        tx.commit().await.expect("a commit");
        let pause = if job.is_none() { Duration::from_millis(10) } else { Duration::ZERO };
        tokio::select! {
            biased;
            () = &mut stop => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn has_effect(tx: &Transaction<'_>, effect: &tokio_postgres::Statement, key: Option<&[u8]>, payload: &[u8]) {
    tx.execute(effect, &[&key, &&payload[..8]]).await.expect("an answer");
}
