//! The client's imitation of a cluster, and what is sent to it and committed there.

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::util::Timeout;
use rdkafka::{ClientConfig, TopicPartitionList};
use std::time::Duration;
use tokio::runtime::Builder;

/// The time after which what is waited for does not come: much longer than a busy machine takes.
pub const PATIENCE: Duration = Duration::from_secs(120);

pub const PARTITIONS: i32 = 4;

pub fn producer(brokers: &str) -> FutureProducer {
    ClientConfig::new().set("bootstrap.servers", brokers).set("linger.ms", "0").create().expect("a producer")
}

/// Sends messages with these ids, each to a partition by its number.
pub fn send<I: AsRef<[u8]>>(producer: &FutureProducer, topic: &str, messages: impl Iterator<Item = (usize, I)>) {
    let send = |(number, id): (usize, I)| {
        let headers = OwnedHeaders::new().insert(Header { key: "id", value: Some(id.as_ref()) });
        let record = FutureRecord::<str, str>::to(topic).payload("a payment").headers(headers);
        let sent = producer.send_result(record.partition(number as i32 % PARTITIONS));
        sent.map_err(|(error, _)| error).expect("sent")
    };
    let sent: Vec<_> = messages.map(send).collect();
    Builder::new_current_thread().build().expect("a runtime").block_on(async {
        for sent in sent {
            sent.await.expect("an answer").map_err(|(error, _)| error).expect("stored");
        }
    });
}

/// Returns the sum of the group's committed offsets in all partitions.
pub fn committed(brokers: &str, topic: &str, group: &str) -> i64 {
    use rdkafka::consumer::{BaseConsumer, Consumer as _};
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", group)
        .create()
        .expect("a client that is no member");
    let mut asked = TopicPartitionList::new();
    asked.add_partition_range(topic, 0, PARTITIONS - 1);
    let committed = consumer.committed_offsets(asked, Timeout::After(PATIENCE));
    let committed = committed.expect("offsets");
    committed.elements().iter().filter_map(|partition| partition.offset().to_raw()).map(|offset| offset.max(0)).sum()
}
