//! The client's imitation of a cluster answers all requests of a transaction, and then shows
//! messages that were not committed, and forgets the offsets. So here every start reads everything
//! again, and receipts of a batch that was not committed are seen: the engine works without the
//! transactions' help.

use crate::directory::Directory;
use crate::kafka::{PARTITIONS, payments_twice, producer, send};
use crate::killed::{Consumer, check_effects, seed};
use crate::processes::await_until;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::FutureRecord;
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::time::Duration;

const PAYMENTS: usize = 300;
const KILLS: usize = 3;
/// The size of a batch: up to a whole one has its receipts and is not completed.
const BATCH: usize = 32;
const PATIENCE: Duration = Duration::from_secs(60);

/// The receipts, as they are read one after the other.
struct Receipts {
    consumer: BaseConsumer,
    by_id: BTreeMap<String, usize>,
}

impl Receipts {
    fn of(brokers: &str) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers).set("group.id", "reader").set("isolation.level", "read_committed");
        let consumer: BaseConsumer = config.create().expect("a reader");
        let mut all = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            all.add_partition_offset("receipts", partition, Offset::Beginning).expect("a partition");
        }
        consumer.assign(&all).expect("an assignment");
        Receipts { consumer, by_id: BTreeMap::new() }
    }

    fn read(&mut self) -> usize {
        while let Some(receipt) = self.consumer.poll(Duration::from_millis(1)) {
            let receipt = receipt.expect("a receipt");
            let id = std::str::from_utf8(receipt.key().expect("an id")).expect("text");
            *self.by_id.entry(id.to_owned()).or_default() += 1;
        }
        self.by_id.values().sum()
    }

    /// Returns true if all existing receipts are read.
    fn read_all(&mut self) -> bool {
        let there: i64 = (0..PARTITIONS)
            .map(|partition| self.consumer.fetch_watermarks("receipts", partition, PATIENCE).expect("offsets").1)
            .sum();
        self.read() as i64 == there
    }
}

#[test]
fn each_payment_has_one_receipt_but_for_those_of_a_batch_that_was_killed() {
    let (directory, seed) = (Directory::new("kafka_transactions"), seed("kafka_transactions"));
    let cluster = MockCluster::new(1).expect("a cluster");
    cluster.create_topic("receipts", PARTITIONS, 1).expect("a topic");
    let mut ids: Vec<String> = (0..PAYMENTS).map(|number| format!("p-{number}")).collect();
    payments_twice(&cluster, "payments", &ids);

    let (brokers, log) = (cluster.bootstrap_servers(), directory.path().join("receipts.log"));
    let arguments = vec![brokers.clone(), directory.file("receipts.db")];
    let mut writer = Consumer::start(env!("CARGO_BIN_EXE_kafka_transactions"), arguments, &log, seed);
    let mut receipts = Receipts::of(&brokers);
    writer.kill_at_random(KILLS, PAYMENTS, || receipts.read());

    // One payment has no id, and holds up nothing.
    let producer = producer(&brokers);
    let unnamed = FutureRecord::<str, str>::to("payments").payload("nobody's").partition(0);
    let _sent = producer.send_result(unnamed).map_err(|(error, _)| error).expect("sent");
    // One more payment in each partition, behind everything: once it has come, all copies have.
    let last: Vec<String> = (0..PARTITIONS).map(|partition| format!("last-{partition}")).collect();
    send(&producer, "payments", last.iter().enumerate());
    writer.await_until(|| {
        receipts.read();
        last.iter().all(|id| receipts.by_id.contains_key(id))
    });
    writer.stop();
    await_until(&log, || receipts.read_all());
    ids.extend(last);
    check_effects("kafka_transactions", &ids, &receipts.by_id, writer.kills, BATCH);
}
