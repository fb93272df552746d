//! Partitions that are started where their memories say.

use crate::kafka::{committed, producer, send};
use hapax_brokers::kafka_partitions::{Assigned, Partitions};
use hapax_stream::Source;
use rdkafka::Message;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use std::time::{Duration, Instant};

const TOPIC: &str = "orders";
const PARTITIONS: usize = crate::kafka::PARTITIONS as usize;
const MESSAGES: usize = 10;

/// Returns a cluster with some messages in partition 0, and a member that has all partitions.
async fn member(group: &str) -> (MockCluster<'static, DefaultProducerContext>, Partitions, Vec<Assigned>) {
    let cluster = MockCluster::new(1).expect("a cluster");
    cluster.create_topic(TOPIC, PARTITIONS as i32, 1).expect("a topic");
    let brokers = cluster.bootstrap_servers();
    let messages: Vec<_> = (0..MESSAGES).map(|number| (number * PARTITIONS, format!("o-{number}"))).collect();
    tokio::task::block_in_place(|| send(&producer(&brokers), TOPIC, messages.into_iter()));
    let mut group = Partitions::join(&brokers, TOPIC, group, Duration::from_millis(3_500)).expect("a member");
    let mut all = Vec::new();
    while all.len() < PARTITIONS {
        let assigned = tokio::time::timeout(Duration::from_secs(30), group.assigned()).await.expect("in time");
        all.push(assigned.expect("a partition"));
    }
    all.sort_by_key(|assigned| assigned.partition().number);
    (cluster, group, all)
}

/// Receives some messages. Returns their offsets.
async fn receive(assigned: &Assigned, many: usize) -> Vec<i64> {
    let (mut offsets, began) = (Vec::new(), Instant::now());
    while offsets.len() < many {
        assert!(began.elapsed() < Duration::from_secs(20), "nothing comes after {offsets:?}");
        let batch = assigned.receive(many - offsets.len()).await.expect("a batch").expect("no end");
        offsets.extend(batch.iter().map(Message::offset));
    }
    offsets
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_is_read_from_its_position_whatever_was_fetched_before() {
    let (_cluster, _group, mut all) = member("starting").await;
    let assigned = &mut all[0];
    assigned.start(None).await.expect("started");
    assert_eq!(receive(assigned, 3).await, [0, 1, 2]);
    for from in [7, 2] {
        assigned.start(Some(&i64::to_be_bytes(from))).await.expect("started");
        assert_eq!(receive(assigned, MESSAGES - from as usize).await, Vec::from_iter(from..MESSAGES as i64));
    }
    // The log is another one than that of the memory. Rather handled again than lost.
    assigned.start(Some(&1_000_i64.to_be_bytes())).await.expect("started");
    assert_eq!(receive(assigned, MESSAGES).await, Vec::from_iter(0..MESSAGES as i64));
    assert!(assigned.start(Some(b"7")).await.is_err(), "not a position of this source");
}

/// Its owner has published the end of the partition, and died before that was committed.
#[tokio::test(flavor = "multi_thread")]
async fn a_position_is_committed_though_nothing_comes_after_it() {
    let (cluster, _group, mut all) = member("committing").await;
    all[0].start(Some(&(MESSAGES as i64).to_be_bytes())).await.expect("started");
    let (brokers, began) = (cluster.bootstrap_servers(), Instant::now());
    while tokio::task::block_in_place(|| committed(&brokers, TOPIC, "committing")) != MESSAGES as i64 {
        assert!(began.elapsed() < Duration::from_secs(20), "it is not committed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
