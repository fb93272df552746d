//! Inbox and outbox, in transactions of a PostgreSQL with default durability.

use crate::postgres_server::Server;
use crate::table::{median, row};
use hapax_postgres::{
    BoxError, Handler, Message, NewMessage, PostgresOptions, Publisher, Relay, Seen, Tables, Worker, inbox, outbox,
};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_postgres::{Client, NoTls, Transaction};

const ROUNDS: u64 = 3;
const PATIENCE: Duration = Duration::from_secs(120);

struct Nothing;

impl Handler for Nothing {
    async fn handle(&self, _: &mut Transaction<'_>, _: &Message) -> Result<(), BoxError> {
        Ok(())
    }
}

impl Publisher for Nothing {
    async fn publish(&self, _: &Message) -> Result<(), BoxError> {
        Ok(())
    }
}

/// One round's tables, named after it.
struct Place {
    server: Server,
    tables: Tables,
    prefix: String,
    client: Client,
}

impl Place {
    async fn round(self, round: u64) -> Self {
        let prefix = format!("round{round}");
        let tables = Tables::new("public", &prefix).expect("a name");
        tables.migrate(&self.client).await.expect("tables");
        Place { tables, prefix, ..self }
    }

    async fn connect(server: Server) -> Self {
        let (client, connection) = tokio_postgres::connect(&server.address(), NoTls).await.expect("a connection");
        tokio::spawn(connection);
        let prefix = "unused".to_owned();
        Place { server, tables: Tables::new("public", &prefix).expect("a name"), prefix, client }
    }

    fn options(&self) -> PostgresOptions {
        PostgresOptions::parse(&self.server.address()).expect("an address")
    }

    /// Marks ids, `a_transaction` in each transaction, that are all new or all seen. Returns ids a
    /// second.
    async fn once(&mut self, ids: u64, a_transaction: u64, is_first: bool) -> f64 {
        let begun = Instant::now();
        for transaction in 0..ids / a_transaction {
            let mut tx = self.client.transaction().await.expect("a transaction");
            for n in 0..a_transaction {
                let id = format!("{a_transaction} {transaction} {n}");
                let seen = inbox::once(&mut tx, &self.tables, "c", id).await.expect("an answer");
                assert_eq!(seen == Seen::First, is_first);
            }
            tx.commit().await.expect("a commit");
        }
        ids as f64 / begun.elapsed().as_secs_f64()
    }

    /// Receives messages of this many keys, a transaction each, and then handles them. Returns
    /// messages a second of both.
    async fn receive_and_work(&mut self, messages: u64, keys: u64) -> (f64, f64) {
        let begun = Instant::now();
        for n in 0..messages {
            let (id, key) = (n.to_be_bytes(), (n % keys).to_be_bytes());
            let mut tx = self.client.transaction().await.expect("a transaction");
            let message = NewMessage::new(&id, "payload").key(&key);
            let seen = inbox::receive(&mut tx, &self.tables, "w", message).await.expect("an answer");
            assert!(matches!(seen, Seen::First), "{seen:?}");
            tx.commit().await.expect("a commit");
        }
        let received = messages as f64 / begun.elapsed().as_secs_f64();
        let worker = Worker::new(self.options(), self.tables.clone(), "w").expect("a worker");
        let (begun, mut done, handler) = (Instant::now(), 0, Arc::new(Nothing));
        while done < messages as usize {
            let step = worker.step(&handler).await.expect("an answer");
            assert!(step > 0, "{done} of {messages} are done, and no more is due");
            done += step;
        }
        (received, messages as f64 / begun.elapsed().as_secs_f64())
    }

    /// Enqueues messages of this many keys, a hundred in a transaction. Returns messages a second.
    async fn enqueue(&mut self, messages: u64, keys: u64) -> f64 {
        let begun = Instant::now();
        for hundred in 0..messages / 100 {
            let mut tx = self.client.transaction().await.expect("a transaction");
            for n in hundred * 100..hundred * 100 + 100 {
                let (id, key) = (n.to_be_bytes(), (n % keys).to_be_bytes());
                let message = NewMessage::new(&id, "payload").key(&key);
                outbox::enqueue(&mut tx, &self.tables, "t", message).await.expect("an answer");
            }
            tx.commit().await.expect("a commit");
        }
        messages as f64 / begun.elapsed().as_secs_f64()
    }

    /// Publishes until this many are left. Returns how long that takes.
    async fn relay(&self, left: i64) -> Duration {
        let (begun, sql) = (Instant::now(), format!("SELECT count(*) FROM {}_outbox", self.prefix));
        let done = async {
            while self.client.query_one(&sql, &[]).await.expect("a count").get::<_, i64>(0) > left {
                assert!(begun.elapsed() < PATIENCE, "not published within {PATIENCE:?}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        Relay::new(self.options(), self.tables.clone()).run(Nothing.into(), done).await.expect("an end");
        begun.elapsed()
    }

    /// Publishes one message past this many of another key, which has been put off forever.
    async fn relay_past(&mut self, waiting: u64) -> Duration {
        self.enqueue(waiting, 1).await;
        let put_off = format!("UPDATE {}_outbox_keys SET due_at = 'infinity'", self.prefix);
        self.client.batch_execute(&put_off).await.expect("an update");
        let mut tx = self.client.transaction().await.expect("a transaction");
        let message = NewMessage::new("free", "payload").key("another");
        outbox::enqueue(&mut tx, &self.tables, "t", message).await.expect("an answer");
        tx.commit().await.expect("a commit");
        self.relay(waiting as i64).await
    }
}

pub async fn run() {
    println!("\n== inbox and outbox in PostgreSQL, one connection, durable");
    let Some(server) = Server::start(&[]) else { return };
    let mut place = Place::connect(server).await;
    let mut rows: Vec<(&str, &str, Vec<f64>)> = Vec::new();
    for round in 0..ROUNDS {
        place = place.round(round).await;
        let (received, worked) = place.receive_and_work(1_000, 50).await;
        let mut measured = vec![
            ("once, fresh, a transaction each", "ids/s", place.once(1_000, 1, true).await),
            ("once, duplicates, a transaction each", "ids/s", place.once(1_000, 1, false).await),
            ("once, fresh, a hundred a transaction", "ids/s", place.once(5_000, 100, true).await),
            ("once, duplicates, a hundred a transaction", "ids/s", place.once(5_000, 100, false).await),
            ("receive, a transaction each", "ids/s", received),
            ("one worker, 50 keys", "ids/s", worked),
        ];
        for (keys, enqueued, relayed) in
            [(1, "enqueue, 1 key", "relay, 1 key"), (1_000, "enqueue, 1,000 keys", "relay, 1,000 keys")]
        {
            measured.push((enqueued, "ids/s", place.enqueue(5_000, keys).await));
            measured.push((relayed, "ids/s", 5_000.0 / place.relay(0).await.as_secs_f64()));
        }
        let past = place.relay_past(20_000).await.as_secs_f64() * 1_000.0;
        measured.push(("relay, past 20,000 that wait behind one of their key", "ms", past));
        for (i, (what, unit, value)) in measured.into_iter().enumerate() {
            match rows.get_mut(i) {
                Some(row) => row.2.push(value),
                None => rows.push((what, unit, vec![value])),
            }
        }
    }
    rows.into_iter().for_each(|(what, unit, values)| row(what, median(values), unit, None, ""));
}
