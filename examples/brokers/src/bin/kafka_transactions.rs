//! Reads payments from Kafka, and writes receipts to Kafka, one for each payment, in transactions.
//!
//! `cargo run --bin kafka_transactions 127.0.0.1:9092 receipts.db`, where there are topics
//! `payments` and `receipts`.
//!
//! Kafka's transactions make receipts and offsets one: what is read is written once. They do not
//! recognize a payment that its producer has sent twice, since the second one has another offset.
//! So ids are claimed before a transaction, and completed after it. If this process dies
//!
//! - before the commit, no reader of committed messages sees anything of it, and after the lease
//!   the payments are handled again;
//! - between the commit and the completion, the payments of that batch do not come again, but
//!   copies of them get another receipt. Only a mark in the same transaction closes this gap: ids
//!   in a compacted topic, from which a starting process fills its memory; or effects in a database
//!   that holds the marks, too (`kafka.rs`).
//!
//! In the other order, completed before the commit, receipts would be missing. Partitions are
//! assigned by hand, so all of them are read here.

use hapax_brokers::{Failed, arguments, interrupted};
use hapax_kafka::KafkaMessage;
use hapax_kafka::rdkafka::consumer::{Consumer, StreamConsumer};
use hapax_kafka::rdkafka::error::KafkaResult;
use hapax_kafka::rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use hapax_kafka::rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use hapax_sqlite::SqliteStore;
use hapax_store::{TieredAttempt, TieredDedup};
use std::time::Duration;
use tokio::task::block_in_place;
use tokio::time::{sleep, timeout};

const BATCH: usize = 32;
const PATIENCE: Duration = Duration::from_secs(10);

struct Receipts {
    payments: StreamConsumer,
    receipts: BaseProducer,
    written: TieredDedup<SqliteStore>,
}

impl Receipts {
    fn connect(brokers: &str, written: TieredDedup<SqliteStore>) -> Result<Self, Failed> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers).set("group.id", "receipts").set("auto.offset.reset", "earliest");
        config.set("enable.auto.commit", "false").set("isolation.level", "read_committed");
        let payments: StreamConsumer = config.create()?;
        let topic = payments.fetch_metadata(Some("payments"), PATIENCE)?;
        let mut all = TopicPartitionList::new();
        for partition in topic.topics().iter().flat_map(|topic| topic.partitions()) {
            all.add_partition_offset("payments", partition.id(), Offset::Stored)?;
        }
        payments.assign(&all)?;
        let mut config = ClientConfig::new();
        // A producer that starts with the same name shuts the former one out. It is idempotent,
        // too: what it sends again, since it got no answer, is stored once, and in its order.
        // Without transactions say so: `enable.idempotence`, which wants all replicas (`acks`).
        config.set("bootstrap.servers", brokers).set("transactional.id", "receipts").set("enable.idempotence", "true");
        config.set("acks", "all").set("transaction.timeout.ms", "10000"); // longer than a batch takes
        let receipts: BaseProducer = config.create()?;
        receipts.init_transactions(PATIENCE)?;
        Ok(Receipts { payments, receipts, written })
    }

    /// Returns the payments that have come: at least one.
    async fn read(&self) -> Result<Vec<KafkaMessage>, Failed> {
        let mut batch = vec![self.payments.recv().await?.detach().into()];
        while batch.len() < BATCH
            && let Ok(next) = timeout(Duration::from_millis(5), self.payments.recv()).await
        {
            batch.push(next?.detach().into());
        }
        Ok(batch)
    }

    /// Writes one transaction. Returns how many of the batch it has processed. Any error ends this
    /// process, and with it the transaction.
    async fn write(&self, batch: &[KafkaMessage]) -> Result<usize, Failed> {
        let ids: Vec<&[u8]> = batch.iter().filter_map(|payment| payment.header_bytes("id")).collect();
        let mut attempts = self.written.claim_batch(&ids).await.into_iter();
        let (mut claims, mut fresh, mut aside, mut dealt_with) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for payment in batch {
            let attempt = payment.header_bytes("id").and_then(|id| Some((id, attempts.next()?)));
            let Some((id, attempt)) = attempt else {
                // It has no id: it will never be written, and those behind it must not wait.
                aside.push(payment);
                dealt_with += 1;
                continue;
            };
            match attempt? {
                TieredAttempt::Claimed(claim) => {
                    claims.push(claim);
                    fresh.push(id);
                }
                TieredAttempt::Duplicate(_) => {}
                // The id is in progress, in this batch or in a process that died. An offset stands
                // for all before it, so the following payments have to wait; their claims are
                // dropped here.
                _ => break,
            }
            dealt_with += 1;
        }
        if dealt_with > 0 {
            block_in_place(|| self.commit(&fresh, &aside, &offsets_after(&batch[..dealt_with])?))?;
        }
        for completed in self.written.complete_batch(claims).await {
            // It is committed, so there is no way back: a copy of this payment gets another
            // receipt.
            completed.unwrap_or_else(|error| eprintln!("committed, but not completed: {error}"));
        }
        Ok(dealt_with)
    }

    /// Commits receipts, messages that are put aside, and offsets, all or nothing.
    fn commit(&self, ids: &[&[u8]], aside: &[&KafkaMessage], offsets: &TopicPartitionList) -> Result<(), Failed> {
        self.receipts.begin_transaction()?;
        for payment in aside {
            let mut record = BaseRecord::<[u8], [u8]>::to("payments.dead");
            let payment = payment.as_rdkafka();
            (record.key, record.payload) = (payment.key(), payment.payload());
            record.headers = payment.headers().cloned();
            self.receipts.send(record).map_err(|(error, _)| error)?;
        }
        for id in ids {
            let receipt = BaseRecord::to("receipts").key(*id).payload("a receipt");
            self.receipts.send(receipt).map_err(|(error, _)| error)?;
        }
        let member = self.payments.group_metadata().ok_or("no consumer group")?;
        self.receipts.send_offsets_to_transaction(offsets, &member, PATIENCE)?;
        Ok(self.receipts.commit_transaction(PATIENCE)?)
    }

    async fn run(&self) -> Result<(), Failed> {
        loop {
            let batch = self.read().await?;
            let mut left = batch.as_slice();
            while !left.is_empty() {
                let dealt_with = self.write(left).await?;
                left = &left[dealt_with..];
                if dealt_with == 0 {
                    sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }
}

/// Returns the offset in each partition from which to read on.
fn offsets_after(batch: &[KafkaMessage]) -> KafkaResult<TopicPartitionList> {
    let mut offsets = TopicPartitionList::new();
    for payment in batch {
        let (next, payment) = (Offset::Offset(payment.offset() as i64 + 1), payment.as_rdkafka());
        match offsets.find_partition(payment.topic(), payment.partition()) {
            Some(mut partition) => partition.set_offset(next)?,
            None => offsets.add_partition_offset(payment.topic(), payment.partition(), next)?,
        }
    }
    Ok(offsets)
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let [brokers, database] = arguments(["BROKERS", "DATABASE"])?;
    let interrupted = interrupted()?;
    let written = TieredDedup::builder(SqliteStore::open(database).await?)
        .retention(Duration::from_secs(30 * 24 * 3600))
        .lease(Duration::from_secs(2)) // several times the longest transaction, or its claims end before it does
        .build()
        .await?;
    let receipts = Receipts::connect(&brokers, written)?;
    tokio::select! {
        failed = receipts.run() => failed,
        // An open transaction is given up.
        () = interrupted => Ok(()),
    }
}
