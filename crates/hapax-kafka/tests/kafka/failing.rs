//! Brokers that answer with errors.

use crate::cluster::{PATIENCE, committed};
use crate::source::{Cluster, cluster, config, config_of_many, ids, receive};
use hapax_kafka::{KafkaOptions, KafkaPartitions, KafkaSource, KafkaSourceError};
use hapax_stream::Source;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::task::block_in_place;

/// An error that the client does not try again by itself.
const ERROR: RDKafkaRespErr = RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN;

fn subscribe(cluster: &Cluster, group: &str, options: KafkaOptions) -> KafkaSource {
    KafkaSource::subscribe(&config_of_many(cluster, group), &["orders"], options).expect("a member")
}

/// Waits for the error that ends a member.
async fn failed(source: &KafkaSource) -> KafkaSourceError {
    let failing = async {
        loop {
            if let Err(error) = source.receive(100).await {
                return error;
            }
        }
    };
    tokio::time::timeout(PATIENCE, failing).await.expect("it fails in time")
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_that_are_not_read_at_once_are_read_later() {
    let cluster = cluster(&[("orders", 40)]);
    // The client alone reports the error, and never reads these partitions.
    let mut alone = config(&cluster, "alone");
    let alone: BaseConsumer = alone.set("auto.offset.reset", "earliest").create().expect("a client");
    cluster.request_errors(RDKafkaApiKey::OffsetFetch, &[ERROR]);
    alone.subscribe(&["orders"]).expect("subscribed");
    let (began, mut received) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(6) {
        received += block_in_place(|| alone.poll(Duration::from_millis(100))).is_some_and(|one| one.is_ok()) as u32;
    }
    assert_eq!(received, 0, "this test no longer shows what it is for: the client reads them by itself");
    drop(alone);

    cluster.request_errors(RDKafkaApiKey::OffsetFetch, &[ERROR; 3]);
    let source = subscribe(&cluster, "patient", KafkaOptions::new());
    assert_eq!(ids(&receive(&source, 40).await).len(), 40);
    assert!(source.recovered() >= 3, "{} errors", source.recovered());
    source.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_that_are_never_read_end_the_run_in_time() {
    let cluster = cluster(&[("orders", 4)]);
    cluster.request_errors(RDKafkaApiKey::OffsetFetch, &[ERROR; 200]);
    let source = subscribe(&cluster, "hopeless", KafkaOptions::new().offsets_within(Duration::from_secs(1)));
    let error = failed(&source).await;
    assert!(matches!(&error, KafkaSourceError::Offsets { partitions, .. } if partitions.len() == 4), "{error}");
    assert!(source.receive(1).await.is_err(), "it stays so");
    source.close().await;
    cluster.clear_request_errors(RDKafkaApiKey::OffsetFetch);
    let source = subscribe(&cluster, "hopeless", KafkaOptions::new());
    assert_eq!(receive(&source, 4).await.len(), 4, "nothing is lost");
    source.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_without_an_offset_is_an_error_if_it_is_to_be_one() {
    let cluster = cluster(&[("orders", 4)]);
    let mut config = config(&cluster, "strict");
    config.set("auto.offset.reset", "error");
    let source = KafkaSource::subscribe(&config, &["orders"], KafkaOptions::new()).expect("a member");
    let error = failed(&source).await;
    assert!(matches!(error, KafkaSourceError::NoOffset { .. }), "{error}");
    source.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_permission_ends_the_run() {
    let cluster = cluster(&[("orders", 4)]);
    let denied = RDKafkaRespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
    cluster.request_errors(RDKafkaApiKey::JoinGroup, &[denied; 200]);
    let source = subscribe(&cluster, "denied", KafkaOptions::new());
    let error = failed(&source).await;
    assert!(matches!(error, KafkaSourceError::Client { .. }), "{error}");
    source.close().await;
    let config = config(&cluster, "denied");
    let mut partitions = KafkaPartitions::subscribe(&config, &["orders"], KafkaOptions::new()).expect("a member");
    let assigned = tokio::time::timeout(PATIENCE, partitions.assigned()).await.expect("in time");
    assert!(matches!(assigned.map(drop), Err(KafkaSourceError::Client { .. })));
}

/// Waits until the sum of a group's committed offsets is this.
async fn until_committed(cluster: &Cluster, group: &str, sum: i64) {
    let (brokers, began) = (cluster.bootstrap_servers(), Instant::now());
    while block_in_place(|| committed(&brokers, "orders", group)) != sum {
        assert!(began.elapsed() < PATIENCE, "{sum} are not committed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// So brokers answer while a group's partitions are handed out, and this member has them still.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_refused_in_a_rebalance_is_tried_again_while_the_partition_is_here() {
    let cluster = cluster(&[("orders", 8)]);
    let source = subscribe(&cluster, "refused", KafkaOptions::new());
    let all = receive(&source, 8).await;
    let refusal = RDKafkaRespErr::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS;
    cluster.request_errors(RDKafkaApiKey::OffsetCommit, &[refusal; 5]);
    source.acknowledge(&all).await.expect("acknowledged");
    until_committed(&cluster, "refused", 8).await;
    assert!(source.recovered() >= 5, "{} errors", source.recovered());
    source.close().await;
}

/// The group goes on without this member: what it has not committed comes again, here or elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_of_a_member_that_is_none_any_more_is_not_done() {
    for (group, refusal) in [
        ("outdated", RDKafkaRespErr::RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION),
        ("unknown", RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID),
    ] {
        let cluster = cluster(&[("orders", 8)]);
        let source = subscribe(&cluster, group, KafkaOptions::new());
        let all = receive(&source, 8).await;
        cluster.request_errors(RDKafkaApiKey::OffsetCommit, &[refusal]);
        source.acknowledge(&all).await.expect("acknowledged");
        let revoked = tokio::time::timeout(PATIENCE, source.revoked()).await.expect("in time");
        assert_eq!(revoked.len(), 4, "{group}");
        source.released(&revoked).await;
        let again = receive(&source, 8).await;
        assert_eq!(ids(&again), ids(&all), "{group}: nothing is lost");
        source.acknowledge(&again).await.expect("acknowledged");
        until_committed(&cluster, group, 8).await;
        source.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_leaves_in_time_though_its_last_commit_is_refused_or_brokers_are_away() {
    let cluster = cluster(&[("orders", 8)]);
    let leave = async |is_away: bool| {
        let source = subscribe(&cluster, "leaving", KafkaOptions::new());
        let all = receive(&source, 8).await;
        let refusal = RDKafkaRespErr::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS;
        cluster.request_errors(RDKafkaApiKey::OffsetCommit, &[refusal; 10_000]);
        source.acknowledge(&all).await.expect("acknowledged");
        if is_away {
            cluster.broker_down(1).expect("down");
        }
        let began = Instant::now();
        tokio::time::timeout(PATIENCE, source.close()).await.expect("it leaves in time");
        println!("away: {is_away}, left after {:?}", began.elapsed());
        cluster.broker_up(1).expect("up");
        cluster.clear_request_errors(RDKafkaApiKey::OffsetCommit);
    };
    leave(false).await;
    leave(true).await;
    let source = subscribe(&cluster, "leaving", KafkaOptions::new());
    assert_eq!(receive(&source, 8).await.len(), 8, "nothing is lost");
    source.close().await;
}

/// Brokers that take requests and do not answer: the client itself waits for them without an end,
/// and, once in a hundred times, for one that goes away while it leaves.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_leaves_in_time_though_brokers_do_not_answer() {
    let cluster = cluster(&[("orders", 8)]);
    let silent = |is_silent| {
        let delay = if is_silent { Duration::from_secs(3_600) } else { Duration::ZERO };
        cluster.broker_round_trip_time(1, delay).expect("a delay");
    };
    let source = subscribe(&cluster, "unanswered", KafkaOptions::new());
    let all = receive(&source, 8).await;
    silent(true);
    source.acknowledge(&all[..1]).await.expect("acknowledged");
    let began = Instant::now();
    source.close().await;
    assert!(began.elapsed() < PATIENCE, "a session of 8 s, and five: {:?}", began.elapsed());

    silent(false);
    let (rest, mut again) = (ids(&all[1..]), BTreeSet::new());
    let next = subscribe(&cluster, "unanswered", KafkaOptions::new());
    while !rest.is_subset(&again) {
        again.extend(ids(&receive(&next, 1).await));
    }
    next.close().await;

    for closes in [false, true] {
        let name = if closes { "closed" } else { "parted" };
        let mut group = KafkaPartitions::subscribe(&config_of_many(&cluster, name), &["orders"], KafkaOptions::new())
            .expect("a member");
        let mut last = group.assigned().await.expect("a partition");
        last.start(None).await.expect("it begins");
        assert_eq!(receive(&last, 2).await.len(), 2);
        silent(true);
        let began = Instant::now();
        if closes {
            drop(last);
            group.close().await;
        } else {
            // The last partition leaves.
            block_in_place(|| drop((group, last)))
        }
        assert!(began.elapsed() < PATIENCE, "{name}: {:?}", began.elapsed());
        silent(false);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_cannot_be_put_aside_is_an_error_in_time() {
    let cluster = cluster(&[("orders", 1)]);
    let source = subscribe(&cluster, "aside", KafkaOptions::new().dead_letter_within(Duration::from_secs(2)));
    let order = receive(&source, 1).await.remove(0);
    let too_large = RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
    cluster.request_errors(RDKafkaApiKey::Produce, &[too_large; 100]);
    let put = tokio::time::timeout(PATIENCE, source.dead_letter(&order, "why")).await.expect("in time");
    let error = put.expect_err("an error");
    assert!(
        matches!(&error, KafkaSourceError::DeadLetter { topic, offset: 0, .. } if topic == "orders.dead"),
        "{error}"
    );
    source.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn brokers_that_are_away_are_no_error_and_settings_are_read_at_once() {
    let cluster = cluster(&[("orders", 4)]);
    cluster.broker_down(1).expect("down");
    let source = subscribe(&cluster, "waiting", KafkaOptions::new());
    let nothing = tokio::time::timeout(Duration::from_secs(2), source.receive(10)).await;
    assert!(nothing.is_err(), "{nothing:?}");
    cluster.broker_up(1).expect("up");
    assert_eq!(receive(&source, 4).await.len(), 4);
    source.close().await;
    for (topics, setting) in [(&[][..], "topics"), (&["orders", " "][..], "topics")] {
        let refused = KafkaSource::subscribe(&config(&cluster, "g"), topics, KafkaOptions::new()).map(drop);
        assert!(matches!(refused, Err(KafkaSourceError::Setting { name, .. }) if name == setting), "{refused:?}");
    }
    let circle = KafkaOptions::new().dead_letter_topic("orders");
    let refused = KafkaSource::subscribe(&config(&cluster, "g"), &["orders"], circle).map(drop);
    assert!(
        matches!(refused, Err(KafkaSourceError::Setting { name: "dead_letter_topic", .. })),
        "it would read what it puts aside: {refused:?}"
    );
    let encrypted = |group| {
        let mut config = config(&cluster, group);
        config.set("security.protocol", "ssl");
        KafkaSource::subscribe(&config, &["orders"], KafkaOptions::new()).map(drop)
    };
    assert_eq!(encrypted("encrypted").is_ok(), cfg!(feature = "ssl"), "{:?}", encrypted("again"));
}
