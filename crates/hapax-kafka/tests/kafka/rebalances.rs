//! Members that come and go, with both protocols. Here nothing recognizes a message that another
//! member has handled, so each must come to one member only.

use crate::cluster::{PARTITIONS, PATIENCE, committed, producer, send};
use crate::source::{Cluster, cluster, config_of_many, receive};
use hapax_kafka::{KafkaMessage, KafkaOptions, KafkaSource, KafkaSourceError};
use hapax_store::{InMemoryStore, TieredDedup};
use hapax_stream::{Acks, Consumer, Delivery, Partition, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, block_in_place};

/// A source that writes down how many partitions are revoked each time.
struct Watched {
    source: KafkaSource,
    revoked: Arc<Mutex<Vec<usize>>>,
}

impl Source for Watched {
    type Message = KafkaMessage;
    type Error = KafkaSourceError;

    async fn receive(&self, max: usize) -> Result<Option<Vec<KafkaMessage>>, KafkaSourceError> {
        self.source.receive(max).await
    }

    async fn acknowledge(&self, messages: &[Arc<KafkaMessage>]) -> Result<(), KafkaSourceError> {
        self.source.acknowledge(messages).await
    }

    async fn retry(&self, message: &Arc<KafkaMessage>, after: Duration) -> Result<(), KafkaSourceError> {
        self.source.retry(message, after).await
    }

    async fn dead_letter(&self, message: &Arc<KafkaMessage>, why: &str) -> Result<(), KafkaSourceError> {
        self.source.dead_letter(message, why).await
    }

    fn acks(&self) -> Acks {
        self.source.acks()
    }

    fn partition(&self, message: &KafkaMessage) -> Partition {
        self.source.partition(message)
    }

    async fn revoked(&self) -> Vec<Partition> {
        let partitions = self.source.revoked().await;
        self.revoked.lock().unwrap().push(partitions.len());
        partitions
    }

    async fn released(&self, partitions: &[Partition]) {
        self.source.released(partitions).await;
    }
}

/// A consumer, which handles a message in a few milliseconds.
struct Member {
    running: JoinHandle<u64>,
    stop: oneshot::Sender<()>,
    revoked: Arc<Mutex<Vec<usize>>>,
}

type Handled = Arc<Mutex<BTreeMap<String, Vec<&'static str>>>>;

impl Member {
    async fn start(cluster: &Cluster, strategy: &str, name: &'static str, handled: &Handled) -> Self {
        let mut config = config_of_many(cluster, "moving");
        config.set("partition.assignment.strategy", strategy);
        let source = KafkaSource::subscribe(&config, &["orders"], KafkaOptions::new()).expect("a member");
        let revoked = Arc::<Mutex<Vec<usize>>>::default();
        let source = Watched { source, revoked: Arc::clone(&revoked) };
        let engine = TieredDedup::builder(InMemoryStore::new()).build().await.expect("an engine");
        let id_of = |order: &KafkaMessage| order.header_bytes("id").map(<[u8]>::to_vec);
        let consumer = Consumer::builder("billing", engine, id_of).max_in_flight(8).build().expect("a consumer");
        let handled = Arc::clone(handled);
        let handle = move |order: Delivery<KafkaMessage>| {
            let handled = Arc::clone(&handled);
            async move {
                let id = String::from_utf8_lossy(order.header_bytes("id").unwrap_or_default()).into_owned();
                tokio::time::sleep(Duration::from_millis(20)).await;
                handled.lock().unwrap().entry(id).or_default().push(name);
                Ok::<(), std::io::Error>(())
            }
        };
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(async move {
            let stats = consumer.run(&source, handle, async move { drop(stopped.await) }).await.expect("no error");
            source.source.close().await;
            stats.handled
        });
        Member { running, stop, revoked }
    }

    async fn stop(self) -> u64 {
        let _ = self.stop.send(());
        tokio::time::timeout(PATIENCE, self.running).await.expect("it ends").expect("no panic")
    }
}

async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < PATIENCE, "not yet: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns how many partitions were revoked from the first member each time, while there were two.
/// Nothing is under way when members come and go: while a group waits for its members to join
/// again, the imitation refuses commits, which brokers accept.
async fn each_order_comes_to_one_member(strategy: &str) -> Vec<usize> {
    let (cluster, handled) = (cluster(&[("orders", 0)]), Handled::default());
    let (brokers, mut sent) = (cluster.bootstrap_servers(), 0);
    let producer = producer(&brokers);
    let mut send = |many: usize| {
        block_in_place(|| send(&producer, "orders", (sent..sent + many).map(|number| (number, format!("o-{number}")))));
        sent += many;
        sent
    };
    let is_committed = |many: usize| block_in_place(|| committed(&brokers, "orders", "moving")) == many as i64;
    let all = send(200);
    let first = Member::start(&cluster, strategy, "first", &handled).await;
    until("the first works", || handled.lock().unwrap().len() > 50).await;
    until("all are committed", || is_committed(all)).await;
    let second = Member::start(&cluster, strategy, "second", &handled).await;
    until("it has joined", || !first.revoked.lock().unwrap().is_empty()).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    until("the second works", || {
        send(4);
        handled.lock().unwrap().values().flatten().any(|name| *name == "second")
    })
    .await;
    let all = send(100);
    until("all are committed again", || is_committed(all)).await;
    let revoked = first.revoked.lock().unwrap().clone();
    let by_second = second.stop().await;
    let all = send(40);
    until("all are handled", || handled.lock().unwrap().len() == all).await;
    until("all are committed at last", || is_committed(all)).await;
    let by_first = first.stop().await;
    let handled = handled.lock().unwrap();
    let twice: Vec<_> = handled.iter().filter(|(_, names)| names.len() != 1).collect();
    assert!(twice.is_empty(), "{strategy}: handled again: {twice:?}");
    assert!(by_first > 0 && by_second > 0, "{strategy}: {by_first} and {by_second}");
    println!("{strategy}: {all} orders, {by_first} and {by_second}; revoked from the first: {revoked:?}");
    revoked
}

#[tokio::test(flavor = "multi_thread")]
async fn all_partitions_are_revoked_and_nothing_is_handled_twice() {
    let revoked = each_order_comes_to_one_member("range").await;
    assert_eq!(revoked[0], PARTITIONS as usize, "the first gets its half anew");
    // Where members stood still for a while, the group has shared out anew, and all were revoked.
    assert!(revoked[1..].iter().all(|half| *half == PARTITIONS as usize / 2), "{revoked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_that_move_are_revoked_and_nothing_is_handled_twice() {
    let revoked = each_order_comes_to_one_member("cooperative-sticky").await;
    assert_eq!(revoked, [PARTITIONS as usize / 2], "the others go on");
}

/// Its handlers hang, for example. Nothing of its old assignment is received any more, nor of the
/// new one before it has released the old.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_does_not_release_delays_others_for_a_time_and_receives_nothing_meanwhile() {
    let cluster = cluster(&[("orders", 40)]);
    let mut config = config_of_many(&cluster, "hanging");
    config.set("partition.assignment.strategy", "range");
    let options = || KafkaOptions::new().release_within(Duration::from_secs(1));
    let first = KafkaSource::subscribe(&config, &["orders"], options()).expect("a member");
    assert_eq!(receive(&first, 40).await.len(), 40);
    let second = KafkaSource::subscribe(&config, &["orders"], options()).expect("a member");
    let revoked = tokio::time::timeout(PATIENCE, first.revoked()).await.expect("in time");
    assert_eq!(revoked.len(), PARTITIONS as usize);
    let moved = receive(&second, 20).await;
    let moved: BTreeSet<Partition> = moved.iter().map(|order| order.partition()).collect();
    assert_eq!(moved.len(), PARTITIONS as usize / 2);
    let nothing = tokio::time::timeout(Duration::from_secs(2), first.receive(100)).await;
    assert!(nothing.is_err(), "received before the old assignment was released: {nothing:?}");
    first.released(&revoked).await;
    let kept = receive(&first, 20).await;
    assert!(kept.iter().all(|order| !moved.contains(&order.partition())), "what was not acknowledged comes again");
    first.close().await;
    second.close().await;
}
