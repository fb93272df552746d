//! All calls of hapax: nothing else here knows its interface.

use super::place::{Taken, key, number, payload};
use hapax_postgres::{
    Answers, BatchHandler, BoxError, Handler, Message, NewMessage, PostgresOptions, Publisher, Relay, Seen, Tables,
    Worker, inbox, outbox,
};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Transaction};

pub async fn migrate(tables: &Tables, client: &Client) {
    tables.migrate(client).await.expect("tables");
}

/// Marks ids one by one. Returns how many were first.
pub async fn once(tx: &mut Transaction<'_>, tables: &Tables, ids: Range<u64>) -> u64 {
    let mut first = 0;
    for id in ids {
        let seen = inbox::once(tx, tables, "c", crate::load::id(id)).await.expect("an answer");
        first += u64::from(seen == Seen::First);
    }
    first
}

/// Marks ids together. Returns how many were first.
pub async fn once_batch(tx: &mut Transaction<'_>, tables: &Tables, ids: Range<u64>) -> u64 {
    let ids: Vec<[u8; 16]> = ids.map(crate::load::id).collect();
    let seen = inbox::once_batch(tx, tables, "c", &ids).await.expect("an answer");
    seen.iter().filter(|seen| seen.is_first()).count() as u64
}

pub async fn enqueue(tx: &mut Transaction<'_>, tables: &Tables, n: u64, keys: Option<u64>) {
    let (id, key, payload) = (n.to_be_bytes(), key(n, keys), payload(n));
    let message = NewMessage::new(&id, &payload);
    let message = key.as_ref().map_or(message, |key| message.key(key));
    outbox::enqueue(tx, tables, "t", message).await.expect("an answer");
}

pub async fn enqueue_batch(tx: &mut Transaction<'_>, tables: &Tables, numbers: Range<u64>, keys: Option<u64>) {
    let parts: Vec<_> = numbers.map(|n| (n.to_be_bytes(), key(n, keys), payload(n))).collect();
    fn message<'m>((id, key, payload): &'m ([u8; 8], Option<[u8; 8]>, Vec<u8>)) -> NewMessage<'m> {
        let message = NewMessage::new(id, payload);
        key.as_ref().map_or(message, |key| message.key(key))
    }
    let messages: Vec<NewMessage<'_>> = parts.iter().map(message).collect();
    outbox::enqueue_batch(tx, tables, "t", &messages).await.expect("an answer");
}

pub async fn receive(tx: &mut Transaction<'_>, tables: &Tables, n: u64, keys: Option<u64>) {
    let (id, key, payload) = (n.to_be_bytes(), key(n, keys), payload(n));
    let message = NewMessage::new(&id, &payload);
    let message = key.as_ref().map_or(message, |key| message.key(key));
    let seen = inbox::receive(tx, tables, "w", message).await.expect("an answer");
    assert!(matches!(seen, Seen::First), "{seen:?}");
}

/// Publishes until it is told to stop.
pub async fn relay(
    address: &str,
    tables: &Tables,
    topic: Option<&str>,
    publisher: impl Publisher,
    stop: impl Future<Output = ()>,
) {
    let options = PostgresOptions::parse(address).expect("an address");
    let relay = Relay::new(options, tables.clone());
    let relay = match topic {
        Some(topic) => relay.topic(topic).expect("a name"),
        None => relay,
    };
    relay.run(Arc::new(publisher), stop).await.expect("an end");
}

/// Works until it is told to stop.
pub async fn worker(address: &str, tables: &Tables, handler: Arc<Handled>, stop: impl Future<Output = ()>) {
    let options = PostgresOptions::parse(address).expect("an address");
    let worker = Worker::new(options, tables.clone(), "w").expect("a worker");
    worker.run(handler, stop).await.expect("an end");
}

/// Works in batches until it is told to stop.
pub async fn batch_worker(
    address: &str,
    tables: &Tables,
    of: usize,
    handler: Arc<Handled>,
    stop: impl Future<Output = ()>,
) {
    let options = PostgresOptions::parse(address).expect("an address");
    let worker = Worker::new(options, tables.clone(), "w").expect("a worker");
    let worker = worker.handler_batch(of, Duration::from_millis(10)).expect("a batch");
    worker.run_batches(handler, stop).await.expect("an end");
}

/// A publisher that records the messages, and takes its time.
pub struct Published {
    pub taken: Arc<Taken>,
    pub takes: Duration,
}

impl Publisher for Published {
    async fn publish(&self, message: &Message) -> Result<(), BoxError> {
        if !self.takes.is_zero() {
            tokio::time::sleep(self.takes).await;
        }
        self.taken.take(number(&message.payload));
        Ok(())
    }
}

/// A publisher of batches.
pub struct Batched(pub Published);

impl Publisher for Batched {
    async fn publish(&self, message: &Message) -> Result<(), BoxError> {
        self.0.publish(message).await
    }

    async fn publish_batch(&self, messages: &[Message]) -> Option<Vec<Result<(), BoxError>>> {
        messages.iter().for_each(|message| self.0.taken.take(number(&message.payload)));
        Some(messages.iter().map(|_| Ok(())).collect())
    }
}

/// A handler with an effect of one row, for each message of a batch.
pub struct Handled {
    pub taken: Arc<Taken>,
    pub insert: String,
    insert_many: String,
}

impl Handled {
    pub fn new(taken: &Arc<Taken>, prefix: &str) -> Arc<Self> {
        let insert = format!("INSERT INTO {prefix}_effects (whose, key, number) VALUES ('ours', $1, $2)");
        let insert_many = format!(
            "INSERT INTO {prefix}_effects (whose, key, number) SELECT 'ours', * FROM unnest($1::bytea[], $2::bytea[])"
        );
        Arc::new(Handled { taken: Arc::clone(taken), insert, insert_many })
    }
}

impl Handler for Handled {
    async fn handle(&self, tx: &mut Transaction<'_>, message: &Message) -> Result<(), BoxError> {
        let number_bytes = &message.payload[..8];
        tx.query_typed(&self.insert, &[(&message.key, Type::BYTEA), (&number_bytes, Type::BYTEA)]).await?;
        self.taken.take(number(&message.payload));
        Ok(())
    }
}

impl BatchHandler for Handled {
    async fn handle(&self, tx: &mut Transaction<'_>, messages: &[&Message]) -> Result<Answers, BoxError> {
        let keys: Vec<_> = messages.iter().map(|message| message.key.as_deref()).collect();
        let numbers: Vec<&[u8]> = messages.iter().map(|message| &message.payload[..8]).collect();
        let values: [(&(dyn ToSql + Sync), Type); 2] = [(&keys, Type::BYTEA_ARRAY), (&numbers, Type::BYTEA_ARRAY)];
        tx.query_typed(&self.insert_many, &values).await?;
        messages.iter().for_each(|message| self.taken.take(number(&message.payload)));
        Ok(().into())
    }
}
