//! The server, and tables of a round's own on both sides.

use super::{Scale, ours, rivals};
use crate::postgres_server::Server;
use hapax_postgres::Tables;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

/// The connections of the callers that mark and enqueue.
pub const CONNECTIONS: u64 = 8;

pub struct Place {
    pub address: String,
    pub scale: Scale,
    pub tables: Tables,
    /// The beginning of the names of this round's tables.
    pub prefix: String,
    pub admin: Client,
    _server: Arc<Server>,
}

impl Place {
    pub async fn connect(server: Server, scale: Scale) -> Self {
        Self::at(Arc::new(server), scale).await
    }

    async fn at(server: Arc<Server>, scale: Scale) -> Self {
        static PLACES: AtomicU64 = AtomicU64::new(0);
        let (address, prefix) = (server.address(), format!("r{}", PLACES.fetch_add(1, Ordering::Relaxed)));
        let (admin, tables) = (client(&address).await, Tables::new("public", &prefix).expect("a name"));
        ours::migrate(&tables, &admin).await;
        admin.batch_execute(&rivals::tables(&prefix)).await.expect("tables");
        Place { address, scale, tables, prefix, admin, _server: server }
    }

    /// Makes empty tables on the same server. Tables of other rounds are removed.
    pub async fn fresh(&self) -> Self {
        let old = "SELECT coalesce(string_agg(format('DROP TABLE IF EXISTS %I CASCADE', relname), ';'), '') FROM pg_class \
            WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace";
        let drops: String = self.admin.query_one(old, &[]).await.expect("tables").get(0);
        self.admin.batch_execute(&drops).await.expect("they are dropped");
        self.admin.batch_execute("CHECKPOINT").await.expect("a checkpoint");
        Self::at(Arc::clone(&self._server), self.scale).await
    }

    pub async fn count(&self, of: &str) -> u64 {
        let sql = format!("SELECT count(*) FROM {of}").replace("{p}", &self.prefix);
        self.admin.query_one(&sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error}")).get::<_, i64>(0) as u64
    }

    pub async fn execute(&self, sql: &str) {
        let sql = sql.replace("{p}", &self.prefix);
        // The statements run one by one: VACUUM is not allowed in a transaction.
        for sql in sql.split(';') {
            self.admin.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        }
    }

    /// Does the work of this many numbers on eight connections, each its share. Returns numbers a
    /// second.
    pub async fn eight<F>(&self, numbers: u64, work: impl Fn(Client, Range<u64>) -> F) -> f64
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.with(CONNECTIONS, numbers, work).await
    }

    /// Does the work on this many connections.
    pub async fn with<F>(&self, connections: u64, numbers: u64, work: impl Fn(Client, Range<u64>) -> F) -> f64
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut clients = Vec::new();
        for _ in 0..connections {
            clients.push(client(&self.address).await);
        }
        let (begun, mut tasks) = (Instant::now(), JoinSet::new());
        for (caller, client) in (0..).zip(clients) {
            // All numbers are covered, also if connections do not divide them.
            tasks.spawn(work(client, caller * numbers / connections..(caller + 1) * numbers / connections));
        }
        tasks.join_all().await;
        numbers as f64 / begun.elapsed().as_secs_f64()
    }
}

pub async fn client(address: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

/// Opens a transaction that sees one state, open until it is dropped.
pub async fn long_transaction(address: &str) -> Client {
    let client = client(address).await;
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class").await.expect("one");
    client
}

/// Returns the payload of a message: its number, and padding to a hundred bytes.
pub fn payload(number: u64) -> Vec<u8> {
    let mut payload = vec![b'x'; 100];
    payload[..8].copy_from_slice(&number.to_be_bytes());
    payload
}

/// Returns the number in a payload.
pub fn number(payload: &[u8]) -> u64 {
    u64::from_be_bytes(payload[..8].try_into().expect("a number is in front"))
}

/// Returns the key of a message's number, if messages have keys.
pub fn key(number: u64, keys: Option<u64>) -> Option<[u8; 8]> {
    keys.map(|keys| (number % keys).to_be_bytes())
}

/// The numbers that have come. It checks that each has come once; with keys, in order.
pub struct Taken {
    counts: Vec<AtomicU64>,
    last: Vec<AtomicU64>,
    left: AtomicU64,
    pub all: Notify,
}

impl Taken {
    /// Creates an empty set of numbers below this. `keys` where their order is promised.
    pub fn new(numbers: u64, keys: Option<u64>) -> Arc<Self> {
        let zeros = |count: u64| (0..count).map(|_| AtomicU64::new(0)).collect();
        let last = zeros(keys.unwrap_or(0));
        Arc::new(Taken { counts: zeros(numbers), last, left: AtomicU64::new(numbers), all: Notify::new() })
    }

    pub fn take(&self, number: u64) {
        let before = self.counts[number as usize].fetch_add(1, Ordering::Relaxed);
        assert_eq!(before, 0, "{number} has come twice, and nobody has died");
        if !self.last.is_empty() {
            let last = self.last[number as usize % self.last.len()].swap(number + 1, Ordering::Relaxed);
            assert!(last <= number, "{number} has come behind {}", last - 1);
        }
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.all.notify_waiters();
            self.all.notify_one();
        }
    }

    pub fn count(&self) -> u64 {
        self.counts.len() as u64 - self.left.load(Ordering::Relaxed)
    }

    /// Waits until all have come, at most for the window.
    pub async fn wait(&self, window: Duration) {
        let end = tokio::time::Instant::now() + window;
        while self.left.load(Ordering::Relaxed) > 0 && tokio::time::Instant::now() < end {
            let _ = tokio::time::timeout(Duration::from_millis(20), self.all.notified()).await;
        }
    }
}
