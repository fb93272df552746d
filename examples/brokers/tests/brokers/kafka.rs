//! The client's own imitation of a cluster, in this process: consumer groups and offsets, on loopback.

use crate::directory::Directory;
use crate::killed::{Consumer, seed};
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{DefaultProducerContext, FutureProducer, FutureRecord};
use rdkafka::util::Timeout;
use rusqlite::Connection;
use std::collections::BTreeMap;
use tokio::runtime::Runtime;

const PAYMENTS: usize = 200;
pub const PARTITIONS: i32 = 4;
const KILLS: usize = 2;
/// Longer than the imitation waits for the first members, 3 s; it waits one second less for those of a rebalance.
pub const SESSION_MS: &str = "3500";

/// Each payment twice, also to two partitions, so that two of them may be handled at a time.
pub fn payments_twice(cluster: &MockCluster<'_, DefaultProducerContext>, topic: &str, ids: &[String]) {
    cluster.create_topic(topic, PARTITIONS, 1).expect("a topic");
    let again = ids.iter().enumerate().map(|(number, id)| (number + 1, id));
    send(&cluster.bootstrap_servers(), topic, ids.iter().enumerate().chain(again));
}

/// Payments, each to a partition by its number.
pub fn send<'a>(brokers: &str, topic: &str, payments: impl Iterator<Item = (usize, &'a String)>) {
    let producer: FutureProducer = ClientConfig::new().set("bootstrap.servers", brokers).create().expect("a producer");
    let send = |(number, id): (usize, &String)| {
        let headers = OwnedHeaders::new().insert(Header { key: "id", value: Some(id) });
        let record = FutureRecord::<str, str>::to(topic).payload(id).headers(headers);
        let sent = producer.send_result(record.partition(number as i32 % PARTITIONS));
        sent.map_err(|(error, _)| error).expect("sent")
    };
    let sent: Vec<_> = payments.map(send).collect();
    Runtime::new().expect("a runtime").block_on(async {
        for sent in sent {
            sent.await.expect("an answer").map_err(|(error, _)| error).expect("stored");
        }
    });
}

/// Up to where the group has committed, in all partitions together.
pub fn committed(brokers: &str, topic: &str, group: &str) -> i64 {
    use rdkafka::consumer::{BaseConsumer, Consumer as _};
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", group)
        .create()
        .expect("a client that is no member");
    let mut asked = rdkafka::TopicPartitionList::new();
    asked.add_partition_range(topic, 0, PARTITIONS - 1);
    let committed = consumer.committed_offsets(asked, Timeout::After(std::time::Duration::from_secs(5)));
    let committed = committed.expect("offsets");
    committed.elements().iter().filter_map(|partition| partition.offset().to_raw()).map(|offset| offset.max(0)).sum()
}

#[test]
fn each_payment_is_booked_exactly_once() {
    let (directory, seed) = (Directory::new("kafka"), seed("kafka"));
    let cluster = MockCluster::new(1).expect("a cluster");
    let ids: Vec<String> = (0..PAYMENTS).map(|number| format!("p-{number}")).collect();
    payments_twice(&cluster, "payments", &ids);

    let (brokers, database, log) =
        (cluster.bootstrap_servers(), directory.file("books.db"), directory.path().join("books.log"));
    let arguments = vec![brokers.clone(), "payments".into(), SESSION_MS.into(), database.clone()];
    let mut books = Consumer::start(env!("CARGO_BIN_EXE_kafka"), arguments, &log, seed);
    let booked = || {
        Connection::open(&database).and_then(|books| {
            books.busy_timeout(std::time::Duration::from_secs(5))?;
            books.query_row("SELECT count(*) FROM bookings", (), |row| row.get::<_, u32>(0))
        })
    };
    books.kill_at_random(KILLS, PAYMENTS / KILLS - 5, || booked().unwrap_or(0) as usize);
    books.await_until(|| committed(&brokers, "payments", "books") == 2 * PAYMENTS as i64);
    books.stop();

    let connection = Connection::open(&database).expect("the books");
    let mut select = connection.prepare("SELECT payment, count(*) FROM bookings GROUP BY payment").expect("a table");
    let rows =
        select.query_map((), |row| Ok((row.get::<_, String>(0)?, row.get::<_, u32>(1)? as usize))).expect("rows");
    let counts: BTreeMap<String, usize> = rows.collect::<Result<_, _>>().expect("rows");
    println!("kafka: {} payments, {KILLS} kills, {} bookings", ids.len(), counts.values().sum::<usize>());
    assert_eq!(counts, ids.iter().map(|id| (id.clone(), 1)).collect());
}
