//! Orders from a Kafka topic, marked on sight, by several consumers. The memory of each partition
//! follows it to its next consumer, through an object store: an order that comes again after a
//! rebalance is known.
//!
//! `cargo run --bin kafka_handover 127.0.0.1:9092 orders 6000 s3-bucket memory ledger.txt`; 6 s is
//! the shortest session that brokers allow by default. The store's address and credentials are in
//! the environment (`AWS_ENDPOINT`, `AWS_REGION`, …). Each process has a directory of its own.

use hapax::{Dedup, JournalOptions, SyncMode};
use hapax_brokers::{Failed, Ledger, arguments, interrupted};
use hapax_handover::{Handover, HandoverError, HandoverOptions};
use hapax_kafka::rdkafka::ClientConfig;
use hapax_kafka::{AssignedPartition, KafkaMessage, KafkaOptions, KafkaPartitions, KafkaSourceError};
use hapax_message::Described;
use hapax_stream::{ConsumerError, Delivery, LogConsumer};
use object_store::aws::AmazonS3Builder;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

struct Orders {
    handover: Handover,
    session: Duration,
    directory: PathBuf,
    ledger: Arc<Ledger>,
}

impl Orders {
    /// Acquires a partition, and consumes it until it is revoked: what is done by then is published
    /// and committed.
    async fn consume(&self, assigned: &mut AssignedPartition) -> Result<(), Failed> {
        let (name, number) = (assigned.partition().to_string(), assigned.partition().number.to_string());
        let revoked = assigned.revoked();
        let acquiring = async {
            let acquired = self.handover.acquire(&number, &self.directory.join(&number)).await?;
            assigned.start(acquired.position(&name)).await?; // not from where the broker thinks
            // For longer than producers try again, and than a consumer may lag behind.
            let seen = Dedup::builder().window(Duration::from_secs(3_600));
            Ok::<_, Failed>(acquired.open(seen, JournalOptions::new().sync(SyncMode::System)).await?)
        };
        let owned = tokio::select! {
            owned = acquiring => owned?,
            () = revoked => return Ok(()),
        };
        eprintln!("{name}: acquired, epoch {}", owned.epoch());
        let consumer = LogConsumer::builder("counting", owned, |order: &KafkaMessage| {
            order.header_bytes("id").map(<[u8]>::to_vec)
        })
        .batch(64)
        .max_in_flight(4)
        .persist_every(Duration::from_millis(200), 256) // a crash handles that again, and two batches
        .handler_timeout(Duration::from_secs(60))
        .max_attempts(3)
        .retry_delay(Duration::from_millis(50), Duration::from_secs(1))
        .build()?;
        let ledger = Arc::clone(&self.ledger);
        let handle = move |order: Delivery<KafkaMessage>| {
            let ledger = Arc::clone(&ledger);
            async move {
                // The token is the epoch: give it to what you write to, to refuse a late owner's.
                ledger.work(order.header("id").unwrap_or_default(), order.token()).await
            }
        };
        let stats = consumer.run(&*assigned, handle, assigned.revoked()).await?;
        eprintln!("{name}: released; {stats:?}");
        Ok(())
    }

    /// Consumes a partition until it is revoked, whatever fails.
    async fn keep(self: Arc<Self>, mut assigned: AssignedPartition) {
        while let Err(error) = self.consume(&mut assigned).await {
            eprintln!("{}: {error}", assigned.partition());
            // Whoever has fenced this one was given the partition. If it is this one's all the
            // same, the broker will not have said otherwise within a session.
            let wait = if is_fenced(&error) { 2 * self.session } else { self.session / 4 };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = assigned.revoked() => return,
            }
        }
    }
}

fn is_fenced(error: &Failed) -> bool {
    let memory = match error.downcast_ref::<ConsumerError<KafkaSourceError>>() {
        Some(ConsumerError::Memory(memory)) => memory.downcast_ref(),
        _ => error.downcast_ref(),
    };
    matches!(memory, Some(HandoverError::Fenced { .. }))
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let [brokers, topic, session_ms, bucket, directory, ledger] =
        arguments(["BROKERS", "TOPIC", "SESSION_MS", "BUCKET", "DIRECTORY", "LEDGER"])?;
    let (mut interrupted, session) = (Box::pin(interrupted()?), Duration::from_millis(session_ms.parse()?));
    let _ = rustls::crypto::ring::default_provider().install_default();
    let store = Arc::new(AmazonS3Builder::from_env().with_bucket_name(bucket).build()?);
    // An owner that has stalled for a session has no lease any more.
    let options = HandoverOptions::new().lease(session / 2).request_timeout(session / 2);
    let handover = Handover::new(store, format!("hapax/{topic}"), options)?;
    let ledger = Arc::new(Ledger::open(ledger)?);
    let orders = Arc::new(Orders { handover, session, directory: directory.into(), ledger });

    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("group.id", "shipping").set("session.timeout.ms", session_ms);
    config.set("heartbeat.interval.ms", "700").set("auto.commit.interval.ms", "200");
    config.set("partition.assignment.strategy", "cooperative-sticky"); // partitions that stay go on meanwhile
    let mut group = KafkaPartitions::subscribe(&config, &[&topic], KafkaOptions::new())?;
    let mut consumers = JoinSet::new();
    loop {
        tokio::select! {
            assigned = group.assigned() => drop(consumers.spawn(Arc::clone(&orders).keep(assigned?))),
            Some(ended) = consumers.join_next() => ended?,
            () = &mut interrupted => break,
        }
    }
    group.leave(); // all partitions are revoked
    while let Some(ended) = consumers.join_next().await {
        ended?;
    }
    group.close().await;
    Ok(())
}
