//! Batches that consumers see whole, or not at all.

use super::{producer, send, stored};
use crate::error::KafkaSourceError;
use hapax_message::{BoxError, Message, Publisher};
use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::producer::future_producer::DeliveryFuture;
use rdkafka::producer::{FutureProducer, Producer};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// The time that each step of a transaction may take.
const STEP: Duration = Duration::from_secs(8);
/// The number of times that a commit is asked for whose outcome is not known.
const COMMITS: u32 = 3;

type Answer = Result<(), BoxError>;

/// A [`Publisher`] for a relay that publishes each batch in a transaction of Kafka: consumers with
/// `isolation.level` `read_committed` see all of it or nothing.
///
/// ```no_run
/// use hapax_kafka::TransactionalKafkaPublisher;
/// use hapax_kafka::rdkafka::ClientConfig;
///
/// # fn main() -> Result<(), hapax_kafka::KafkaSourceError> {
/// let mut config = ClientConfig::new();
/// // One for each relay that runs at a time: the one that comes later shuts the other one out.
/// config.set("bootstrap.servers", "localhost:9092").set("transactional.id", "orders-relay-1");
/// let publisher = TransactionalKafkaPublisher::new(&config)?;
/// # Ok(())
/// # }
/// ```
///
/// Whatever [`KafkaPublisher`](crate::KafkaPublisher) says of a message holds here, too. If one of
/// a batch is not stored, the transaction is aborted, and all of them have failed. A batch whose
/// commit was not answered may be there, and comes again in another transaction: consumers know its
/// messages by their ids. There is one transaction at a time, of as many messages as the relay's
/// `batch`; a commit takes some milliseconds, so that small batches are slow.
pub struct TransactionalKafkaPublisher {
    config: ClientConfig,
    /// None before the first transaction, and after one that was aborted.
    producer: Arc<Mutex<Option<FutureProducer>>>,
}

impl TransactionalKafkaPublisher {
    /// Creates a publisher with these settings of the client. It connects at the first batch.
    ///
    /// # Errors
    ///
    /// [`KafkaSourceError::Setting`] names the setting that is missing or would lose messages.
    pub fn new(config: &ClientConfig) -> Result<Self, KafkaSourceError> {
        if config.get("transactional.id").is_none_or(|id| id.trim().is_empty()) {
            let (name, got) = ("transactional.id", String::new());
            return Err(KafkaSourceError::Setting { name, expected: "a name of the relay's own", got });
        }
        let _ = producer(config)?; // it can be made
        Ok(TransactionalKafkaPublisher { config: config.clone(), producer: Arc::default() })
    }

    /// Returns the producer, which no other transaction has meanwhile.
    async fn ready(&self) -> Result<(OwnedMutexGuard<Option<FutureProducer>>, FutureProducer), BoxError> {
        let mut held = Arc::clone(&self.producer).lock_owned().await;
        if let Some(producer) = held.as_ref() {
            let producer = producer.clone();
            return Ok((held, producer));
        }
        let new = producer(&self.config)?;
        let producer = blocking(new, |new| new.init_transactions(STEP).map(|()| new)).await??;
        *held = Some(producer.clone());
        Ok((held, producer))
    }
}

/// Runs a step that blocks its thread.
async fn blocking<T: Send + 'static>(
    producer: FutureProducer,
    step: impl FnOnce(FutureProducer) -> T + Send + 'static,
) -> Result<T, BoxError> {
    Ok(tokio::task::spawn_blocking(move || step(producer)).await?)
}

/// Waits until all of a transaction is stored, and commits it; aborts it if something is not. What
/// the client has refused was never sent, and the others need not wait for it.
async fn ended(
    mut held: OwnedMutexGuard<Option<FutureProducer>>,
    producer: FutureProducer,
    sent: Vec<Result<DeliveryFuture, BoxError>>,
) -> Vec<Answer> {
    let (mut answers, mut why) = (Vec::with_capacity(sent.len()), None);
    for sent in sent {
        let was_sent = sent.is_ok();
        let answer = stored(sent).await;
        if was_sent && answer.is_err() {
            why = Some("another message of it was not stored".to_owned());
        }
        answers.push(answer);
    }
    if why.is_none() {
        why = match blocking(producer.clone(), commit).await {
            Ok(Ok(())) => return answers,
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        };
    }
    // (The client's next transaction may be purged with this one, so there is another client then.
    // If this one is gone before the broker has heard of the end, the next one shuts it out.)
    let _ = blocking(producer, |producer| producer.abort_transaction(STEP)).await;
    *held = None;
    for answer in answers.iter_mut().filter(|answer| answer.is_ok()) {
        *answer = Err(format!("its transaction was not committed: {}", why.as_deref().unwrap_or_default()).into());
    }
    answers
}

/// Commits; asks again while the outcome is not known.
fn commit(producer: FutureProducer) -> Result<(), KafkaError> {
    let mut asked = 1;
    loop {
        match producer.commit_transaction(STEP) {
            Err(KafkaError::Transaction(error)) if error.is_retriable() && asked < COMMITS => asked += 1,
            ended => return ended,
        }
    }
}

impl Publisher for TransactionalKafkaPublisher {
    async fn publish(&self, message: &Message) -> Answer {
        let batch = self.publish_batch(std::slice::from_ref(message)).await;
        batch.and_then(|mut answers| answers.pop()).unwrap_or(Ok(()))
    }

    async fn publish_batch(&self, messages: &[Message]) -> Option<Vec<Answer>> {
        let failed = |error: &dyn std::fmt::Display| messages.iter().map(|_| Err(error.to_string().into())).collect();
        let (held, producer) = match self.ready().await {
            Ok(ready) => ready,
            Err(error) => return Some(failed(&error)),
        };
        if let Err(error) = producer.begin_transaction() {
            let mut held = held;
            *held = None;
            return Some(failed(&error));
        }
        let sent = messages.iter().map(|message| send(&producer, message)).collect();
        // In a task of its own: it is committed or aborted, even if nobody waits for that any more.
        Some(tokio::spawn(ended(held, producer, sent)).await.unwrap_or_else(|error| failed(&error)))
    }
}

impl std::fmt::Debug for TransactionalKafkaPublisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransactionalKafkaPublisher").finish_non_exhaustive()
    }
}
