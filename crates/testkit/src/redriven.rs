//! Dead letters that are sent anew, and deliveries that are only repeated: what a consumer does
//! with them is the same for each broker. So is what becomes of poison in a batch.

use crate::processes::PATIENCE;
use hapax_store::{InMemoryStore, TieredDedup};
use hapax_stream::{Acks, Consumer, ConsumerStats, Delivery, Partition, Source};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The number of messages that are sent.
pub const MESSAGES: u64 = 20;
/// The largest number of messages in a batch.
const BATCH: usize = 8;
/// The ids of those that fail until they are healed: fewer than an outage takes.
pub const POISON: [&str; 3] = ["o-3", "o-11", "o-17"];

/// Returns the ids of the messages that are to be sent.
pub fn ids() -> impl Iterator<Item = String> {
    (0..MESSAGES).map(|number| format!("o-{number}"))
}

/// A consumer that puts poison aside, and what its handler has done.
pub struct Billing<M> {
    consumer: Consumer<InMemoryStore, M>,
    id_of: fn(&M) -> Option<String>,
    handler: Arc<Handler>,
}

#[derive(Default)]
struct Handler {
    is_healed: AtomicBool,
    /// The calls for each id, and those of them that ended well.
    calls: Mutex<BTreeMap<String, (u32, u32)>>,
}

impl Handler {
    fn handle(&self, id: String) -> Result<(), &'static str> {
        let fails = POISON.contains(&id.as_str()) && !self.is_healed.load(SeqCst);
        let mut calls = self.calls.lock().expect("no panic");
        let (called, done) = calls.entry(id).or_default();
        *called += 1;
        *done += u32::from(!fails);
        if fails { Err("it cannot be billed") } else { Ok(()) }
    }
}

impl<M: Send + Sync + 'static> Billing<M> {
    pub async fn new(id_of: fn(&M) -> Option<String>) -> Self {
        let engine = TieredDedup::builder(InMemoryStore::new()).build().await.expect("an engine");
        let consumer = Consumer::builder("billing", engine, id_of).max_attempts(2);
        let consumer = consumer
            .handler_batch(BATCH, Duration::from_millis(100))
            .retry_delay(Duration::from_millis(10), Duration::from_millis(20))
            .build();
        Billing { consumer: consumer.expect("a consumer"), id_of, handler: Arc::default() }
    }

    /// Runs the consumer until it has acknowledged this many messages, in all its runs.
    pub async fn run(&self, source: &impl Source<Message = M>, messages: u64) -> ConsumerStats {
        self.run_until(source, self.acknowledged(messages)).await
    }

    async fn run_until(
        &self,
        source: &impl Source<Message = M>,
        until: impl Future<Output = ()> + Send,
    ) -> ConsumerStats {
        let (handler, id_of) = (Arc::clone(&self.handler), self.id_of);
        let handle = move |message: Delivery<M>| {
            let handled = handler.handle(id_of(&message).expect("an id"));
            async move { handled }
        };
        let run = tokio::time::timeout(PATIENCE, self.consumer.run(source, handle, until));
        run.await.unwrap_or_else(|_| panic!("no end: {:?}", self.consumer.stats())).expect("a run")
    }

    async fn acknowledged(&self, messages: u64) {
        while self.consumer.stats().acknowledged < messages {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Has the poison among the [messages](ids) put aside, and handled when it is sent anew,
    /// by the same consumer, which runs on.
    pub async fn handles_what_is_sent_anew(
        &self,
        source: &impl Source<Message = M>,
        send_anew: impl Future<Output = ()> + Send,
    ) {
        let poison = POISON.len() as u64;
        let counts = |stats: &ConsumerStats| [stats.handled, stats.failed, stats.dead_lettered, stats.duplicate];
        let until = async {
            self.acknowledged(MESSAGES).await;
            let stats = self.consumer.stats();
            assert_eq!(counts(&stats), [MESSAGES - poison, 2 * poison, poison, 0], "before: {stats:?}");
            self.handler.is_healed.store(true, SeqCst);
            send_anew.await;
            self.acknowledged(MESSAGES + poison).await;
        };
        let stats = self.run_until(source, until).await;
        assert_eq!(counts(&stats), [MESSAGES, 2 * poison, poison, 0], "sent anew: {stats:?}");
        assert_eq!((stats.acknowledged, stats.aside_again), (MESSAGES + poison, 0), "{stats:?}");
        let calls = |id: String| (id.clone(), if POISON.contains(&id.as_str()) { (3, 1) } else { (1, 1) });
        assert_eq!(*self.handler.calls.lock().expect("no panic"), ids().map(calls).collect(), "each is done once");
    }

    /// Handles the [messages](ids) in batches, each of which fails as a whole if poison is in it:
    /// all others are done once, and poison alone is put aside.
    pub async fn handles_batches(&self, source: &impl Source<Message = M>) {
        let (handler, id_of) = (Arc::clone(&self.handler), self.id_of);
        let handle = move |batch: Vec<Delivery<M>>| {
            let ids: Vec<String> = batch.iter().map(|message| id_of(message).expect("an id")).collect();
            assert!((1..=BATCH).contains(&ids.len()), "{ids:?}");
            let fails = ids.iter().any(|id| POISON.contains(&id.as_str()));
            let mut calls = handler.calls.lock().expect("no panic");
            for id in ids {
                let (called, done) = calls.entry(id).or_default();
                (*called, *done) = (*called + 1, *done + u32::from(!fails));
            }
            async move { if fails { Err("one of them cannot be billed") } else { Ok(()) } }
        };
        let run = self.consumer.run_batches(source, handle, self.acknowledged(MESSAGES));
        let stats = tokio::time::timeout(PATIENCE, run).await.expect("an end").expect("a run");
        let counts = (stats.handled + stats.dead_lettered, stats.dead_lettered, stats.failed, stats.acknowledged);
        let poison = POISON.len() as u64;
        assert_eq!(counts, (MESSAGES, poison, 2 * poison, MESSAGES), "{stats:?}");
        let calls = self.handler.calls.lock().expect("no panic").clone();
        let done = |id: &String| u32::from(!POISON.contains(&id.as_str()));
        assert!(ids().all(|id| calls[&id].1 == done(&id)), "each is done once: {calls:?}");
        assert!(stats.split > 0, "a message of several is found: {stats:?}");
    }

    /// Has a message put aside once more, of which nothing but the first [poison](POISON) is sent,
    /// when its broker repeats the delivery, since the acknowledgement was lost: without a call of
    /// its handler, and, where deliveries have names, without another dead letter.
    pub async fn puts_aside_again_what_is_repeated(&self, source: &impl Source<Message = M>, dead_letters: u64) {
        let stats = self.run(&Forgetful { source, has_lost: AtomicBool::new(false) }, 2).await;
        self.has_put_aside_again(&stats, 2, dead_letters);
    }

    /// Checks that the one message was put aside twice, with this many calls of its handler.
    pub fn has_put_aside_again(&self, stats: &ConsumerStats, calls: u32, dead_letters: u64) {
        assert_eq!((stats.handled, stats.dead_lettered, stats.aside_again), (0, dead_letters, 1), "{stats:?}");
        let called = self.handler.calls.lock().expect("no panic").clone();
        assert_eq!(called, BTreeMap::from([(POISON[0].to_owned(), (calls, 0))]), "{stats:?}");
    }
}

/// A source whose first acknowledgement is lost, so that its broker delivers the messages again, at
/// once.
struct Forgetful<'s, Src> {
    source: &'s Src,
    has_lost: AtomicBool,
}

impl<Src: Source> Source for Forgetful<'_, Src> {
    type Message = Src::Message;
    type Error = Src::Error;

    async fn receive(&self, max: usize) -> Result<Option<Vec<Src::Message>>, Src::Error> {
        self.source.receive(max).await
    }

    async fn acknowledge(&self, messages: &[Arc<Src::Message>]) -> Result<(), Src::Error> {
        if self.has_lost.swap(true, SeqCst) {
            return self.source.acknowledge(messages).await;
        }
        for message in messages {
            self.source.retry(message, Duration::ZERO).await?;
        }
        Ok(())
    }

    async fn retry(&self, message: &Arc<Src::Message>, after: Duration) -> Result<(), Src::Error> {
        self.source.retry(message, after).await
    }

    async fn dead_letter(&self, message: &Arc<Src::Message>, why: &str) -> Result<(), Src::Error> {
        self.source.dead_letter(message, why).await
    }

    fn acks(&self) -> Acks {
        self.source.acks()
    }

    fn partition(&self, message: &Src::Message) -> Partition {
        self.source.partition(message)
    }

    fn deliveries(&self, message: &Src::Message) -> Option<u32> {
        self.source.deliveries(message)
    }

    fn sent_as(&self, message: &Src::Message) -> Option<Vec<u8>> {
        self.source.sent_as(message)
    }

    fn heartbeat(&self) -> Option<Duration> {
        self.source.heartbeat()
    }

    async fn extend(&self, messages: &[Arc<Src::Message>]) -> Result<(), Src::Error> {
        self.source.extend(messages).await
    }

    fn keeps_received(&self) -> bool {
        self.source.keeps_received()
    }

    async fn revoked(&self) -> Vec<Partition> {
        self.source.revoked().await
    }

    async fn released(&self, partitions: &[Partition]) {
        self.source.released(partitions).await;
    }
}
