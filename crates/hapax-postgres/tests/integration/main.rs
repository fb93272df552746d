//! Exactly once in PostgreSQL: on servers that the tests start and stop themselves. Without
//! PostgreSQL they say SKIPPED.

use hapax_message::GiveUp;
use testkit::long;
use testkit::postgres_server as server;
use testkit::processes::PATIENCE;
use testkit::random::Random;

use testkit::postgres_pooler as pooler;

mod campaign;
mod connections;
mod crash;
mod failover;
mod flawed;
mod handling;
mod hostile;
mod publishing;
mod queue;
mod refused;
mod store;
mod tables;
mod telemetry;

use hapax_postgres::{PostgresOptions, *};
use server::Server;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_postgres::{Client, NoTls};

const HOUR: Duration = Duration::from_secs(3_600);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A server, and tables of a test's own.
struct Place {
    server: Arc<Server>,
    tables: Tables,
    prefix: String,
}

impl Place {
    /// Runs a test where there is a PostgreSQL.
    fn run<F: Future<Output = ()>>(test: impl FnOnce(Place) -> F) {
        if let Some(server) = Server::shared() {
            Self::run_at(server, test);
        }
    }

    /// Runs a test on a server that no other test has, so that it can be killed.
    fn run_alone<F: Future<Output = ()>>(test: impl FnOnce(Place) -> F) {
        if let Some(server) = Server::start(&["fsync=off", "full_page_writes=off"]) {
            Self::run_at(Arc::new(server), test);
        }
    }

    /// Runs a test on a server of its own that loses nothing when it is killed, and keeps what a
    /// standby needs that is slow.
    fn run_durable<F: Future<Output = ()>>(test: impl FnOnce(Place) -> F) {
        if let Some(server) = Server::start(&["max_connections=200", "wal_keep_size=1GB"]) {
            Self::run_at(Arc::new(server), test);
        }
    }

    fn run_at<F: Future<Output = ()>>(server: Arc<Server>, test: impl FnOnce(Place) -> F) {
        static PLACES: AtomicU64 = AtomicU64::new(0);
        let prefix = format!("p{}", PLACES.fetch_add(1, Ordering::Relaxed));
        let tables = Tables::new("public", &prefix).expect("a name");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let place = Place { server, tables, prefix };
            place.tables.migrate(&place.client().await).await.expect("tables");
            test(place).await;
        });
    }

    fn options(&self) -> PostgresOptions {
        options(&self.server.address())
    }

    async fn client(&self) -> Client {
        client(&self.server.address()).await
    }

    /// Returns a worker that finds due messages soon.
    fn worker(&self, consumer: &str) -> Worker {
        Worker::new(self.options(), self.tables.clone(), consumer).unwrap().poll(ms(20)).unwrap().retry(soon(None))
    }

    fn relay(&self) -> Relay {
        Relay::new(self.options(), self.tables.clone()).poll(ms(20)).unwrap().retry(soon(None))
    }

    async fn receive(&self, client: &mut Client, consumer: &str, message: NewMessage<'_>) -> Seen {
        let mut tx = client.transaction().await.unwrap();
        let seen = inbox::receive(&mut tx, &self.tables, consumer, message).await.unwrap();
        tx.commit().await.unwrap();
        seen
    }

    /// Marks an id in a transaction of its own.
    async fn once(&self, client: &mut Client, consumer: &str, id: impl AsRef<[u8]>) -> Seen {
        let mut tx = client.transaction().await.unwrap();
        let seen = inbox::once(&mut tx, &self.tables, consumer, id).await.unwrap();
        tx.commit().await.unwrap();
        seen
    }

    /// Lets the partitions of marks grow older, and does all that is due then.
    async fn grow_older(&self, client: &Client, retention: Retention, by: Duration) -> Cleanup {
        let by = format!("interval '{} microseconds'", by.as_micros());
        let sql = format!("UPDATE {{p}}_mark_buckets SET opened_at = opened_at - {by}, closed_at = closed_at - {by}");
        self.execute(client, &sql).await;
        let mut all = Cleanup::default();
        loop {
            let done = retention.expire(client, &self.tables).await.unwrap();
            (all.begun, all.dropped, all.put_off) = (all.begun + done.begun, all.dropped + done.dropped, done.put_off);
            if !done.more {
                return all;
            }
        }
    }

    /// Runs a relay until nothing is left that it could publish.
    async fn publish_all(&self, client: &Client, relay: Relay, broker: &Arc<impl Publisher>) {
        relay.run(Arc::clone(broker), publishing::relays::until_empty(self, client)).await.unwrap();
    }

    /// Runs a worker until nothing is left that it could handle.
    async fn handle_all(&self, client: &Client, worker: Worker, handler: &Arc<impl Handler>) {
        let left = "SELECT count(*) FROM {p}_inbox WHERE dead_at IS NULL";
        let done = until("all are handled", async || self.count(client, left).await == 0);
        worker.run(Arc::clone(handler), done).await.unwrap();
    }

    async fn enqueue(&self, client: &mut Client, topic: &str, message: NewMessage<'_>) {
        let mut tx = client.transaction().await.unwrap();
        outbox::enqueue(&mut tx, &self.tables, topic, message).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// Enqueues messages in one transaction.
    async fn enqueue_all<'m>(
        &self,
        client: &mut Client,
        topic: &str,
        messages: impl IntoIterator<Item = NewMessage<'m>>,
    ) {
        let messages: Vec<_> = messages.into_iter().collect();
        let mut tx = client.transaction().await.unwrap();
        outbox::enqueue_batch(&mut tx, &self.tables, topic, &messages).await.unwrap();
        tx.commit().await.unwrap();
    }

    async fn count(&self, client: &Client, sql: &str) -> i64 {
        let sql = sql.replace("{p}", &self.prefix);
        client.query_one(&sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error}")).get(0)
    }

    async fn text(&self, client: &Client, sql: &str) -> String {
        let sql = sql.replace("{p}", &self.prefix);
        client.query_one(&sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error}")).get(0)
    }

    async fn execute(&self, client: &Client, sql: &str) {
        let sql = sql.replace("{p}", &self.prefix);
        client.batch_execute(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }
}

/// Whoever takes all, and does nothing.
struct Nothing;

impl Handler for Nothing {
    async fn handle(&self, _: &mut tokio_postgres::Transaction<'_>, _: &Message) -> Result<(), BoxError> {
        Ok(())
    }
}

impl Publisher for Nothing {
    async fn publish(&self, _: &Message) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Whoever gives all up.
struct GivesUp;

impl Handler for GivesUp {
    async fn handle(&self, _: &mut tokio_postgres::Transaction<'_>, _: &Message) -> Result<(), BoxError> {
        Err(GiveUp::because("no").into())
    }
}

/// Whoever keeps what it gets.
#[derive(Default)]
struct Keeps(Mutex<Vec<Message>>);

impl Keeps {
    fn taken(&self) -> Vec<Message> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Handler for Keeps {
    async fn handle(&self, _: &mut tokio_postgres::Transaction<'_>, message: &Message) -> Result<(), BoxError> {
        self.0.lock().unwrap().push(message.clone());
        Ok(())
    }
}

impl Publisher for Keeps {
    async fn publish(&self, message: &Message) -> Result<(), BoxError> {
        self.0.lock().unwrap().push(message.clone());
        Ok(())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("tests write text")
}

fn options(address: &str) -> PostgresOptions {
    PostgresOptions::parse(address).expect("an address")
}

async fn client(address: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

/// Returns delays that a test can wait for.
fn soon(attempts_max: Option<u32>) -> Retry {
    Retry::new(ms(1), ms(4)).unwrap().attempts_max(attempts_max).unwrap()
}

/// Waits until a condition holds, and not forever: for much longer than a busy machine takes.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let end = tokio::time::Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(tokio::time::Instant::now() < end, "waited for ever: {what}");
        tokio::time::sleep(ms(5)).await;
    }
}

/// Waits until another transaction waits for a lock that we hold.
async fn until_somebody_waits(client: &Client, for_pid: i32) {
    until("somebody waits", async || {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid))";
        client.query_one(sql, &[&for_pid]).await.unwrap().get::<_, i64>(0) > 0
    })
    .await;
}

async fn pid(client: &impl tokio_postgres::GenericClient) -> i32 {
    client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0)
}

/// Returns random numbers that are different from run to run. The seed is printed.
fn random() -> Random {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let given = std::env::var("HAPAX_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or(now.as_nanos() as u64);
    println!("HAPAX_SEED={seed}");
    Random(seed)
}
