//! A member that reads all of its partitions.

use crate::cluster::{PARTITIONS, PATIENCE, committed, producer, send};
use crate::raw::send_raw;
use hapax_kafka::{KafkaMessage, KafkaOptions, KafkaSource};
use hapax_message::Described;
use hapax_stream::{Partition, Source};
use rdkafka::ClientConfig;
use rdkafka::Timestamp;
use rdkafka::message::OwnedMessage;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::block_in_place;

/// The session of members that nobody joins: a busy machine that stands still ends none.
const SESSION_MS: &str = "60000";
/// The session of members that join others, or that do not come to say that they leave. The
/// imitation waits for one second less at each rebalance; and for the first members 3 s, which must
/// be less.
const SHORT_SESSION_MS: &str = "8000";

pub type Cluster = MockCluster<'static, DefaultProducerContext>;

/// Returns a cluster with topics, each with messages of the ids `TOPIC-NUMBER`.
pub fn cluster(topics: &[(&str, usize)]) -> Cluster {
    let cluster = MockCluster::new(1).expect("a cluster");
    for (topic, messages) in topics {
        cluster.create_topic(topic, PARTITIONS, 1).expect("a topic");
        let ids = (0..*messages).map(|number| (number, format!("{topic}-{number}")));
        block_in_place(|| send(&producer(&cluster.bootstrap_servers()), topic, ids));
    }
    cluster
}

pub fn config(cluster: &Cluster, group: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", cluster.bootstrap_servers()).set("group.id", group);
    config.set("session.timeout.ms", SESSION_MS).set("heartbeat.interval.ms", "500");
    config.set("auto.commit.interval.ms", "100");
    config
}

/// Returns the same with a session that ends soon.
pub fn config_of_many(cluster: &Cluster, group: &str) -> ClientConfig {
    let mut config = config(cluster, group);
    config.set("session.timeout.ms", SHORT_SESSION_MS);
    config
}

/// Receives some messages.
pub async fn receive(source: &impl Source<Message = KafkaMessage>, many: usize) -> Vec<Arc<KafkaMessage>> {
    let (mut messages, began) = (Vec::new(), Instant::now());
    while messages.len() < many {
        let received = tokio::time::timeout(PATIENCE, source.receive(many - messages.len())).await;
        let received = received.unwrap_or_else(|_| panic!("{} of {many} after {:?}", messages.len(), began.elapsed()));
        messages.extend(received.expect("messages").expect("no end").into_iter().map(Arc::new));
    }
    messages
}

pub fn ids(messages: &[Arc<KafkaMessage>]) -> BTreeSet<String> {
    let id = |message: &Arc<KafkaMessage>| String::from_utf8(message.header_bytes("id").expect("an id").to_vec());
    messages.iter().map(|message| id(message).expect("text")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_acknowledged_is_committed_and_the_rest_comes_again() {
    let cluster = cluster(&[("orders", 40), ("returns", 20)]);
    let (config, topics) = (config(&cluster, "billing"), ["orders", "returns"]);
    let source = KafkaSource::subscribe(&config, &topics, KafkaOptions::new()).expect("a member");
    let all = receive(&source, 60).await;
    assert_eq!(ids(&all).len(), 60, "each message once, of both topics");
    for topic in topics {
        // In each partition in its order.
        for number in 0..PARTITIONS as u32 {
            let partition = Partition::new(topic, number);
            let offsets: Vec<u64> =
                all.iter().filter(|one| one.partition() == partition).map(|one| one.offset()).collect();
            assert!(offsets.is_sorted() && !offsets.is_empty(), "{partition}: {offsets:?}");
        }
    }
    let done: Vec<_> = all.iter().filter(|one| one.offset() < 3).cloned().collect();
    source.acknowledge(&done).await.expect("acknowledged");
    source.close().await;
    for topic in topics {
        let committed = block_in_place(|| committed(&cluster.bootstrap_servers(), topic, "billing"));
        assert_eq!(committed, 3 * i64::from(PARTITIONS), "{topic}: no more, no less, when it has left");
    }
    let source = KafkaSource::subscribe(&config, &topics, KafkaOptions::new()).expect("a member");
    let rest = receive(&source, 60 - done.len()).await;
    assert!(ids(&rest).is_disjoint(&ids(&done)) && ids(&rest).len() == 60 - done.len());
    source.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_put_aside_says_where_it_comes_from() {
    let cluster = cluster(&[("orders", 1), ("orders.dead", 0), ("aside", 0)]);
    for (options, topic) in
        [(KafkaOptions::new(), "orders.dead"), (KafkaOptions::new().dead_letter_topic("aside"), "aside")]
    {
        let group = format!("of-{topic}");
        let source = KafkaSource::subscribe(&config(&cluster, &group), &["orders"], options).expect("a member");
        let order = receive(&source, 1).await.remove(0);
        source.dead_letter(&order, "it always fails").await.expect("put aside");
        source.close().await;
        let readers = config(&cluster, &format!("reader-of-{topic}"));
        let reader = KafkaSource::subscribe(&readers, &[topic], KafkaOptions::new()).expect("a member");
        let dead = receive(&reader, 1).await.remove(0);
        let header = |name: &str| dead.header_bytes(name).map(|value| String::from_utf8_lossy(value).into_owned());
        let expected = [
            ("id", "orders-0"),
            ("dead-letter-reason", "it always fails"),
            ("dead-letter-topic", "orders"),
            ("dead-letter-partition", "0"),
            ("dead-letter-offset", "0"),
            ("dead-letter-group", &group),
        ];
        for (name, value) in expected {
            assert_eq!(header(name).as_deref(), Some(value), "{name}");
        }
        assert_eq!((dead.payload(), dead.key()), (&b"a payment"[..], None));
        reader.close().await;
    }
}

/// Nothing that a producer sends ends the consumer: it would come again at each start.
#[tokio::test(flavor = "multi_thread")]
async fn a_header_whose_name_is_no_text_is_left_out_and_the_message_is_one_all_the_same() {
    let cluster = cluster(&[("orders", 0), ("orders.dead", 0)]);
    let brokers = cluster.bootstrap_servers();
    block_in_place(|| send_raw(&brokers, "orders", &[(b"before", b"1"), (b"\xff\xfe", b"2"), (b"id", b"o-1")]));
    let source = KafkaSource::subscribe(&config(&cluster, "names"), &["orders"], KafkaOptions::new());
    let source = source.expect("a member");
    let order = receive(&source, 1).await.remove(0);
    assert_eq!((order.header("id"), order.payload()), (Some("o-1"), &b"a payment"[..]));
    assert_eq!(order.headers().map(|(name, _)| name).collect::<Vec<_>>(), ["before", "id"]);
    source.dead_letter(&order, "why").await.expect("put aside");
    source.acknowledge(&[order]).await.expect("acknowledged");
    source.close().await;
    let reader = KafkaSource::subscribe(&config(&cluster, "reader"), &["orders.dead"], KafkaOptions::new());
    let reader = reader.expect("a member");
    let dead = receive(&reader, 1).await.remove(0);
    assert_eq!((dead.header("id"), dead.header("dead-letter-reason")), (Some("o-1"), Some("why")));
    reader.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tombstone_stays_one_when_it_is_put_aside_and_an_empty_payload_is_none() {
    let cluster = cluster(&[("orders", 1), ("orders.dead", 0)]);
    let source = KafkaSource::subscribe(&config(&cluster, "empty"), &["orders"], KafkaOptions::new());
    let source = source.expect("a member");
    for payload in [None, Some(Vec::new())] {
        let time = Timestamp::NotAvailable;
        let order = OwnedMessage::new(payload, Some(b"key".to_vec()), "orders".into(), time, 0, 0, None);
        source.dead_letter(&Arc::new(KafkaMessage::from(order)), "why").await.expect("put aside");
    }
    source.close().await;
    let reader = KafkaSource::subscribe(&config(&cluster, "reader"), &["orders.dead"], KafkaOptions::new());
    let reader = reader.expect("a member");
    let dead = receive(&reader, 2).await;
    let mut tombstones: Vec<bool> = dead.iter().map(|one| one.is_tombstone()).collect();
    tombstones.sort();
    assert_eq!(tombstones, [false, true]);
    assert!(dead.iter().all(|one| one.key() == Some(b"key") && one.payload().is_empty()));
    reader.close().await;
}

/// The client's own limit is below that of brokers.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_message_is_put_aside_with_its_reason() {
    let cluster = cluster(&[("orders", 1), ("orders.dead", 0)]);
    let source = KafkaSource::subscribe(&config(&cluster, "large"), &["orders"], KafkaOptions::new());
    let source = source.expect("a member");
    let (payload, time) = (vec![7; 1_500_000], Timestamp::NotAvailable);
    let order = OwnedMessage::new(Some(payload.clone()), None, "orders".into(), time, 0, 0, None);
    source.dead_letter(&Arc::new(KafkaMessage::from(order)), &"é".repeat(512)).await.expect("put aside");
    source.close().await;
    let reader = KafkaSource::subscribe(&config(&cluster, "reader"), &["orders.dead"], KafkaOptions::new());
    let reader = reader.expect("a member");
    let dead = receive(&reader, 1).await.remove(0);
    assert_eq!(dead.header("dead-letter-reason"), Some("é".repeat(512).as_str()));
    assert!(dead.payload() == payload, "{} bytes", dead.payload().len());
    reader.close().await;
}

/// The broker would take its partitions away after `max.poll.interval.ms`, if nobody polled.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_receives_nothing_stays_one() {
    let cluster = cluster(&[("orders", 400)]);
    let mut config = config(&cluster, "slow");
    // Whoever does not poll for so long, or send a heartbeat, is a member no longer.
    config.set("max.poll.interval.ms", SHORT_SESSION_MS).set("session.timeout.ms", SHORT_SESSION_MS);
    let options = KafkaOptions::new().release_within(Duration::from_secs(1)).offsets_within(Duration::from_secs(2));
    let source = KafkaSource::subscribe(&config, &["orders"], options).expect("a member");
    let mut all = receive(&source, 10).await;
    tokio::select! {
        revoked = source.revoked() => panic!("{revoked:?} were revoked"),
        () = tokio::time::sleep(Duration::from_secs(12)) => {}
    }
    all.extend(receive(&source, 390).await);
    assert_eq!((ids(&all).len(), source.recovered()), (400, 0), "nothing was fetched again, and no error was met");
    source.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lag_is_that_of_what_is_not_acknowledged() {
    let cluster = cluster(&[("orders", 40)]);
    let mut config = config(&cluster, "lagging");
    config.set("statistics.interval.ms", "100");
    let source = KafkaSource::subscribe(&config, &["orders"], KafkaOptions::new()).expect("a member");
    let all = receive(&source, 40).await;
    let done: Vec<_> = all.into_iter().filter(|one| one.offset() < 4).collect();
    source.acknowledge(&done).await.expect("acknowledged");
    let began = Instant::now();
    let lag = || source.lag().iter().map(|one| (one.partition.number, one.messages)).collect::<Vec<_>>();
    while lag() != [(0, 6), (1, 6), (2, 6), (3, 6)] {
        assert!(began.elapsed() < PATIENCE, "{:?}", source.lag());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    source.close().await;
}
