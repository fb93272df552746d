//! Kafka's idempotent producer over the client's imitation of a cluster. (It does not compare the
//! numbers of producers without transactions, so what the broker drops cannot be seen here.)

use hapax::Dedup;
use hapax_patterns::idempotent_producer::{event_id, publish, settings};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::FutureProducer;
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use std::time::{Duration, Instant};

const TOPIC: &str = "orders";

/// Reads as many events of the topic: what a consumer takes for new by a key of its choice.
fn fresh(brokers: &str, count: usize, key: impl Fn(&rdkafka::message::BorrowedMessage) -> Vec<u8>) -> Vec<String> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("group.id", "reader");
    let consumer: BaseConsumer = config.create().expect("a reader");
    let mut all = TopicPartitionList::new();
    all.add_partition_offset(TOPIC, 0, Offset::Beginning).expect("a partition");
    consumer.assign(&all).expect("an assignment");
    let seen = Dedup::builder().window(Duration::from_secs(600)).build().expect("an engine");
    let (mut fresh, mut read) = (Vec::new(), 0);
    let end = Instant::now() + testkit::processes::PATIENCE;
    while read < count {
        assert!(Instant::now() < end, "{read} of {count} events have come");
        let Some(message) = consumer.poll(Duration::from_millis(100)) else { continue };
        let message = message.expect("an event");
        read += 1;
        if seen.check(key(&message)).is_fresh() {
            fresh.push(String::from_utf8(event_id(&message).expect("an id").to_vec()).expect("text"));
        }
    }
    fresh
}

#[test]
fn a_restarted_producer_sends_again_which_the_events_own_id_catches_and_the_offset_does_not() {
    let cluster = MockCluster::new(3).expect("a cluster");
    cluster.create_topic(TOPIC, 1, 3).expect("a topic");
    let brokers = cluster.bootstrap_servers();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let events = ["order-17/paid", "order-18/paid", "order-17/shipped"];
    // It dies after each event, before it has noted that the event was published.
    let mut noted = 0;
    let mut sent = 0;
    let mut dies_at = 0..events.len();
    while noted < events.len() {
        let producer: FutureProducer = settings(&brokers).create().expect("a producer");
        let death = dies_at.next();
        while noted < events.len() {
            runtime.block_on(publish(&producer, TOPIC, events[noted], b"{}")).expect("published");
            sent += 1;
            if death == Some(noted) {
                break; // the process is gone: the next one publishes the event again
            }
            noted += 1;
        }
    }
    assert_eq!(sent, 2 * events.len());
    assert_eq!(fresh(&brokers, sent, |event| event_id(event).expect("an id").to_vec()), events);
    let by_offset = fresh(&brokers, sent, |event| format!("{}/{}", event.partition(), event.offset()).into_bytes());
    assert_eq!(by_offset.len(), sent, "each copy has an offset of its own");
}

#[test]
fn settings_that_contradict_idempotence_are_refused() {
    let create = |change: &[(&str, &str)]| {
        let mut settings = settings("127.0.0.1:1");
        change.iter().for_each(|(name, value)| {
            settings.set(*name, *value);
        });
        settings.create::<FutureProducer>().map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(create(&[]), Ok(()));
    for change in [("acks", "1"), ("max.in.flight.requests.per.connection", "6"), ("retries", "0")] {
        let refused = create(&[change]).expect_err("it contradicts idempotence");
        assert!(refused.contains("enable.idempotence"), "{change:?}: {refused}");
        // Without idempotence nobody objects, and a retry may be stored twice or overtake.
        assert_eq!(create(&[("enable.idempotence", "false"), change]), Ok(()));
    }
}
