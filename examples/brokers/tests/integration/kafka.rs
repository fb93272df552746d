//! The client's own imitation of a cluster, in this process: consumer groups and offsets, on
//! loopback.

use crate::directory::Directory;
use crate::killed::{Consumer, seed};
use hapax_kafka::KafkaMessage;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::util::Timeout;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::time::Duration;

#[path = "../../../../crates/hapax-kafka/tests/kafka/cluster.rs"]
mod cluster;
pub use cluster::{PARTITIONS, committed, producer, send};

/// A session longer than the imitation waits for the first members, 3 s; it waits one second less
/// for those of a rebalance.
pub const SESSION_MS: &str = "3500";

const PAYMENTS: usize = 200;
const KILLS: usize = 2;
/// A payment that the database refuses, until it no longer does.
const REFUSED: &str = "p 13";
const LATE: usize = 200;

/// Sends each payment twice, also to two partitions, so that two of them may be handled at a time.
pub fn payments_twice(cluster: &MockCluster<'_, DefaultProducerContext>, topic: &str, ids: &[String]) {
    cluster.create_topic(topic, PARTITIONS, 1).expect("a topic");
    let again = ids.iter().enumerate().map(|(number, id)| (number + 1, id));
    send(&producer(&cluster.bootstrap_servers()), topic, ids.iter().enumerate().chain(again));
}

/// Returns the ids of the first messages of a topic with one partition.
fn ids_of_first<const N: usize>(brokers: &str, topic: &str) -> [Vec<u8>; N] {
    use rdkafka::consumer::{BaseConsumer, Consumer as _};
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("group.id", "reader");
    let consumer: BaseConsumer = config.create().expect("a reader");
    let mut all = TopicPartitionList::new();
    all.add_partition_offset(topic, 0, Offset::Beginning).expect("a partition");
    consumer.assign(&all).expect("an assignment");
    std::array::from_fn(|_| {
        let polled = consumer.poll(Timeout::After(testkit::processes::PATIENCE));
        let message = polled.expect("a message").expect("a message");
        KafkaMessage::from(message.detach()).header_bytes("id").expect("an id").to_vec()
    })
}

/// Returns a connection to a database that refuses one payment, and has none yet.
fn refusing(database: &str) -> Connection {
    let books = Connection::open(database).expect("a database");
    books.busy_timeout(Duration::from_secs(60)).expect("a time-out");
    let sql = format!(
        "PRAGMA journal_mode = WAL; CREATE TABLE bookings (payment TEXT NOT NULL);
         CREATE TRIGGER refuses BEFORE INSERT ON bookings WHEN NEW.payment = '{REFUSED}'
         BEGIN SELECT RAISE(ABORT, 'the account is closed'); END;"
    );
    books.execute_batch(&sql).expect("a table");
    books
}

/// Returns the bookings, and how often each was made.
fn bookings(database: &str) -> rusqlite::Result<BTreeMap<String, usize>> {
    let books = Connection::open(database)?;
    books.busy_timeout(Duration::from_secs(60))?;
    let mut select = books.prepare("SELECT payment, count(*) FROM bookings GROUP BY payment")?;
    let rows = select.query_map((), |row| Ok((row.get(0)?, row.get::<_, u32>(1)? as usize)))?;
    rows.collect()
}

/// Returns how many partitions were assigned to a member, if a line of its log says so.
pub fn is_assigned(line: &str) -> Option<usize> {
    line.split_once("partitions of Kafka are assigned partitions=")?.1.trim().parse().ok()
}

#[test]
fn each_payment_is_booked_exactly_once() {
    let (directory, seed) = (Directory::new("kafka"), seed("kafka"));
    let cluster = MockCluster::new(1).expect("a cluster");
    let (brokers, database) = (cluster.bootstrap_servers(), directory.file("books.db"));
    let ids: Vec<String> = (0..PAYMENTS).map(|number| format!("p-{number}")).collect();
    payments_twice(&cluster, "payments", &ids);
    cluster.create_topic("payments.dead", 1, 1).expect("a topic");
    // An id that is no text cannot be booked, however often it is tried.
    send(&producer(&brokers), "payments", [(0, &b"\xff"[..]), (0, REFUSED.as_bytes())].into_iter());
    let refusing = refusing(&database);

    let start = |log: &str| {
        let arguments = vec![brokers.clone(), "payments".into(), SESSION_MS.into(), database.clone()];
        Consumer::start(env!("CARGO_BIN_EXE_kafka"), arguments, &directory.path().join(log), seed)
    };
    let mut books = start("books.log");
    let booked = || bookings(&database).map_or(0, |bookings| bookings.values().sum());
    books.kill_at_random(KILLS - 1, PAYMENTS / 2, booked);
    // For two seconds nothing can be booked, and it is killed meanwhile.
    let away = "CREATE TRIGGER away BEFORE INSERT ON bookings BEGIN SELECT RAISE(ABORT, 'away'); END";
    refusing.execute_batch(away).expect("a trigger");
    books.kill_in_an_outage();
    refusing.execute_batch("DROP TRIGGER away").expect("no trigger");
    books.await_until(|| committed(&brokers, "payments", "books") == 2 * PAYMENTS as i64 + 2);
    let mut aside: [_; 2] = ids_of_first(&brokers, "payments.dead");
    aside.sort();
    assert_eq!(aside, [REFUSED.as_bytes(), b"\xff"], "what fails is put aside, and nothing else");
    // The account is opened again, and the payment sent anew.
    refusing.execute_batch("DROP TRIGGER refuses").expect("no trigger");
    send(&producer(&brokers), "payments", std::iter::once((0, &aside[0])));
    books.await_until(|| bookings(&database).is_ok_and(|bookings| bookings.contains_key(REFUSED)));

    // A second member joins and leaves, while payments come: each time partitions are revoked from
    // their owners.
    let late: Vec<String> = (0..LATE).map(|number| format!("late-{number}")).collect();
    let (mut second, producer) = (start("second.log"), producer(&brokers));
    let said = directory.path().join("second.log");
    let is_assigned = |line: &str| is_assigned(line).is_some_and(|partitions| partitions > 0);
    for (number, id) in late.iter().enumerate() {
        if number == LATE / 2 {
            // However busy the machine is, the rest comes while both are members.
            second.await_until(|| std::fs::read_to_string(&said).is_ok_and(|said| said.lines().any(is_assigned)));
        }
        send(&producer, "payments", [(number, id), (number + 1, id)].into_iter());
        std::thread::sleep(Duration::from_millis(25));
    }
    second.stop();
    books.await_until(|| committed(&brokers, "payments", "books") == 2 * (PAYMENTS + LATE) as i64 + 3);
    books.stop();
    let received = |consumer: &Consumer| !consumer.said().contains("{ received: 0,");
    assert!(received(&books) && received(&second), "{} {}", books.said(), second.said());

    let bookings = bookings(&database).expect("bookings");
    println!("kafka: {} payments, {KILLS} kills, {} bookings", PAYMENTS + LATE, bookings.values().sum::<usize>());
    assert_eq!(bookings, ids.into_iter().chain(late).chain([REFUSED.into()]).map(|id| (id, 1)).collect());
}
