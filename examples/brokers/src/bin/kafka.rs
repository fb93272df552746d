//! Payments from a Kafka topic, each booked exactly once: the booking and the mark of its id are
//! one transaction in the same SQLite database.
//!
//! `cargo run --bin kafka 127.0.0.1:9092 payments 6000 books.db`; 6 s is the shortest session that
//! brokers allow by default.

use hapax::Timestamp;
use hapax_brokers::{Failed, arguments, interrupted};
use hapax_kafka::rdkafka::ClientConfig;
use hapax_kafka::{KafkaMessage, KafkaOptions, KafkaSource};
use hapax_sqlite::SqliteTable;
use hapax_store::{InMemoryStore, Marked, Scope, TieredDedup};
use hapax_stream::{Consumer, Delivery};
use rusqlite::{Connection, TransactionBehavior};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

const RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// The bookings, and the ids of those that were made.
pub struct Books {
    pub connection: Mutex<Connection>,
    ids: SqliteTable,
    scope: Scope,
}

impl Books {
    /// Opens a database, and creates its tables if it has none.
    pub fn open(path: &str) -> Result<Self, Failed> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.busy_timeout(Duration::from_secs(5))?;
        connection.execute_batch("CREATE TABLE IF NOT EXISTS bookings (payment TEXT NOT NULL)")?;
        let ids = SqliteTable::new("payments")?;
        ids.create(&connection)?;
        Ok(Books { connection: Mutex::new(connection), ids, scope: Scope::new("books")? })
    }

    /// Books a payment, unless that was done before.
    pub fn book(&self, payment: &[u8]) -> Result<(), Failed> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let now = Timestamp::from(SystemTime::now());
        if self.ids.mark(&transaction, &self.scope, payment, RETENTION, now)? == Marked::Fresh {
            transaction.execute("INSERT INTO bookings VALUES (?1)", [std::str::from_utf8(payment)?])?;
        }
        Ok(transaction.commit()?) // both, or neither
    }
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let [brokers, topic, session_ms, database] = arguments(["BROKERS", "TOPIC", "SESSION_MS", "DATABASE"])?;
    let interrupted = interrupted()?;
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("group.id", "books").set("session.timeout.ms", session_ms);
    config.set("heartbeat.interval.ms", "700").set("auto.commit.interval.ms", "200");
    let payments = KafkaSource::subscribe(&config, &[&topic], KafkaOptions::new())?;

    // The database decides. Memory spares it payments that came a short while ago, and keeps two
    // deliveries of one payment apart.
    let recent = TieredDedup::builder(InMemoryStore::new())
        .retention(Duration::from_secs(600))
        .lease(Duration::from_secs(1)) // so long a second delivery waits that comes while the first is handled
        .build()
        .await?;
    let id_of = |payment: &KafkaMessage| payment.header_bytes("id").map(<[u8]>::to_vec);
    let consumer = Consumer::builder("books", recent, id_of)
        .max_in_flight(8)
        .handler_timeout(Duration::from_secs(60))
        .max_attempts(12) // an outage of seconds is over by then
        .retry_delay(Duration::from_millis(50), Duration::from_secs(1))
        .build()?;

    let books = Arc::new(Books::open(&database)?);
    let book = move |payment: Delivery<KafkaMessage>| {
        let books = Arc::clone(&books);
        async move {
            let booked =
                tokio::task::spawn_blocking(move || books.book(payment.header_bytes("id").unwrap_or_default()));
            booked.await.map_err(Failed::from)?
        }
    };
    let stats = consumer.run(&payments, book, interrupted).await?;
    println!("{stats:?}");
    payments.close().await;
    Ok(())
}
