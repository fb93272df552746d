//! Partitions that are started where their memories say.

use crate::cluster::{PATIENCE, committed, producer, send};
use crate::source::{Cluster, cluster, config, config_of_many};
use hapax_kafka::{AssignedPartition, KafkaOptions, KafkaPartitions, KafkaSourceError};
use hapax_stream::Source;
use std::time::{Duration, Instant};

const TOPIC: &str = "orders";
const PARTITIONS: usize = crate::cluster::PARTITIONS as usize;
const MESSAGES: usize = 10;

/// Returns a cluster with some messages in partition 0, and a member that has all partitions.
async fn member(group: &str) -> (Cluster, KafkaPartitions, Vec<AssignedPartition>) {
    let cluster = cluster(&[(TOPIC, 0)]);
    let messages: Vec<_> = (0..MESSAGES).map(|number| (number * PARTITIONS, format!("o-{number}"))).collect();
    tokio::task::block_in_place(|| send(&producer(&cluster.bootstrap_servers()), TOPIC, messages.into_iter()));
    let mut config = config_of_many(&cluster, group);
    config.set("partition.assignment.strategy", "cooperative-sticky");
    let mut group = KafkaPartitions::subscribe(&config, &[TOPIC], KafkaOptions::new()).expect("a member");
    let mut all = Vec::new();
    while all.len() < PARTITIONS {
        let assigned = tokio::time::timeout(PATIENCE, group.assigned()).await.expect("in time");
        all.push(assigned.expect("a partition"));
    }
    all.sort_by_key(|assigned| assigned.partition().number);
    (cluster, group, all)
}

/// Receives some messages. Returns their offsets.
async fn receive(assigned: &AssignedPartition, many: usize) -> Vec<u64> {
    crate::source::receive(assigned, many).await.iter().map(|message| message.offset()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_is_read_from_its_position_whatever_was_fetched_before() {
    let (_cluster, _group, mut all) = member("starting").await;
    let assigned = &mut all[0];
    assigned.start(None).await.expect("started");
    assert_eq!(receive(assigned, 3).await, [0, 1, 2]);
    for from in [7, 2] {
        assigned.start(Some(&u64::to_be_bytes(from))).await.expect("started");
        assert_eq!(receive(assigned, MESSAGES - from as usize).await, Vec::from_iter(from..MESSAGES as u64));
    }
    // The log is another one than that of the memory. Rather handled again than lost.
    assigned.start(Some(&1_000_u64.to_be_bytes())).await.expect("started");
    assert_eq!(receive(assigned, MESSAGES).await, Vec::from_iter(0..MESSAGES as u64));
    let refused = assigned.start(Some(b"7")).await;
    assert!(matches!(refused, Err(KafkaSourceError::Position { got: 1, .. })), "not a position of this source");
    let nothing = tokio::time::timeout(Duration::from_millis(500), assigned.receive(1)).await;
    assert!(nothing.is_err(), "nothing is received before it is started");
}

/// A client that does not know yet where the partition begins or ends must not go there later.
async fn is_read_from_its_position_for_good(reset: &str) {
    let cluster = cluster(&[(TOPIC, MESSAGES * PARTITIONS)]);
    let mut config = config(&cluster, "hasty");
    config.set("partition.assignment.strategy", "cooperative-sticky").set("auto.offset.reset", reset);
    cluster.broker_round_trip_time(1, Duration::from_millis(300)).expect("a slow broker");
    let mut group = KafkaPartitions::subscribe(&config, &[TOPIC], KafkaOptions::new()).expect("a member");
    for _ in 0..PARTITIONS {
        let assigned = tokio::time::timeout(PATIENCE, group.assigned()).await.expect("in time");
        let mut assigned = assigned.expect("a partition");
        assigned.start(Some(&4_u64.to_be_bytes())).await.expect("started");
        assigned.start(None).await.expect("started");
        assigned.start(Some(&4_u64.to_be_bytes())).await.expect("started");
        assert_eq!(receive(&assigned, 2).await, [4, 5], "{reset}");
        let more = tokio::time::timeout(Duration::from_secs(1), receive(&assigned, MESSAGES)).await;
        assert!(more.is_err(), "{reset}: it went elsewhere: {more:?}");
        assigned.start(Some(&8_u64.to_be_bytes())).await.expect("started");
        assert_eq!(receive(&assigned, 2).await, [8, 9], "{reset}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_is_started_at_once_is_read_from_its_position_for_good() {
    is_read_from_its_position_for_good("earliest").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn so_is_one_whose_client_would_go_to_the_end() {
    is_read_from_its_position_for_good("latest").await;
}

/// Its owner has published the end of the partition, and died before that was committed.
#[tokio::test(flavor = "multi_thread")]
async fn a_position_is_committed_though_nothing_comes_after_it() {
    let (cluster, _group, mut all) = member("committing").await;
    all[0].start(Some(&(MESSAGES as u64).to_be_bytes())).await.expect("started");
    let (brokers, began) = (cluster.bootstrap_servers(), Instant::now());
    while tokio::task::block_in_place(|| committed(&brokers, TOPIC, "committing")) != MESSAGES as i64 {
        assert!(began.elapsed() < PATIENCE, "it is not committed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A memory of another log knows nothing of this one. Its position must not be committed: this
/// group's next member would begin there once the log is that long, and leave out what is between.
#[tokio::test(flavor = "multi_thread")]
async fn a_position_behind_the_end_is_not_committed() {
    let (cluster, _group, mut all) = member("other").await;
    all[0].start(Some(&1_000_u64.to_be_bytes())).await.expect("started");
    let orders = crate::source::receive(&all[0], 4).await;
    tokio::time::sleep(Duration::from_secs(1)).await; // ten intervals of commits
    let brokers = cluster.bootstrap_servers();
    let is = || tokio::task::block_in_place(|| committed(&brokers, TOPIC, "other"));
    assert_eq!(is(), 0);
    all[0].acknowledge(&orders).await.expect("acknowledged");
    let began = Instant::now();
    while is() != 4 {
        assert!(began.elapsed() < PATIENCE, "{}", is());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The rebalance that revokes a partition waits for it, and for no other one.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_is_released_when_it_is_dropped() {
    let (cluster, first, mut all) = member("moving").await;
    let mut config = config_of_many(&cluster, "moving");
    config.set("partition.assignment.strategy", "cooperative-sticky");
    let mut second = KafkaPartitions::subscribe(&config, &[TOPIC], KafkaOptions::new()).expect("a member");
    let mut revoked = Vec::new();
    while revoked.is_empty() {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let (gone, kept) = all.into_iter().partition(|one| is_ready(one.revoked()));
        (revoked, all) = (gone, kept);
    }
    assert_eq!((revoked.len(), all.len()), (PARTITIONS / 2, PARTITIONS / 2));
    let early = tokio::time::timeout(Duration::from_secs(2), second.assigned()).await;
    assert!(early.is_err(), "its owner has it still");
    drop(revoked);
    let moved = tokio::time::timeout(PATIENCE, second.assigned()).await.expect("in time");
    let moved = moved.expect("a partition");
    assert!(all.iter().all(|kept| kept.partition() != moved.partition() && !is_ready(kept.revoked())));
    drop((moved, second, all, first));
}

/// Returns true if a future is ready at once.
fn is_ready(future: impl Future<Output = ()>) -> bool {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    std::pin::pin!(future).poll(&mut context).is_ready()
}
