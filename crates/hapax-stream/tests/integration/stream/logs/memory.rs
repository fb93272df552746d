//! Consumers of a log over a memory that others may take over: nothing begins while another may
//! have it, and all that is under way ends when it is lost.

use crate::stream::logs::{Journal, log};
use crate::stream::*;
use hapax::{Dedup, Token};
use hapax_stream::{Acks, ConsumerBuilder, ConsumerError, Delivery, Log, LogConsumer, Memory};
use std::collections::BTreeSet;
use std::future::pending;
use std::io::Error;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lease {
    Held,
    Over,
    Lost,
}

fn lost() -> Error {
    Error::other("it is another one's")
}

type Positions = Vec<(Vec<u8>, Vec<u8>)>;

/// An engine, a lease, and what was persisted.
struct Leased {
    engine: Dedup,
    lease: watch::Receiver<Lease>,
    /// The number of times that it was persisted, and the positions by then.
    persisted: Arc<(AtomicU64, Mutex<Positions>)>,
}

impl Memory for Leased {
    type Error = Error;

    fn engine(&self) -> &Dedup {
        &self.engine
    }

    fn is_usable(&self) -> bool {
        *self.lease.borrow() == Lease::Held
    }

    async fn usable(&self) -> Result<(), Error> {
        match self.lease.clone().wait_for(|lease| *lease != Lease::Over).await.as_deref() {
            Ok(Lease::Held) => Ok(()),
            _ => Err(lost()),
        }
    }

    async fn persist(&self) -> Result<(), Error> {
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.persisted.0.fetch_add(1, Ordering::Relaxed);
        *self.persisted.1.lock().unwrap() = self.engine.journal().unwrap().positions().unwrap();
        Ok(())
    }

    async fn lost(&self) -> Error {
        let _ = self.lease.clone().wait_for(|lease| *lease == Lease::Lost).await;
        lost()
    }

    fn token(&self) -> Token {
        Token::from_u64(7)
    }
}

fn leased(journal: &Journal) -> (watch::Sender<Lease>, Leased) {
    let (set, lease) = watch::channel(Lease::Held);
    (set, Leased { engine: journal.open(), lease, persisted: Arc::default() })
}

fn consumer(memory: Leased) -> ConsumerBuilder<Log<Leased>, Message> {
    LogConsumer::builder("orders", memory, |message: &Message| message.id.clone()).max_in_flight(2)
}

/// The messages that have begun, or are done.
type Offsets = Arc<Mutex<BTreeSet<usize>>>;

/// Returns a handler that takes 10 ms, and says which messages have begun and which are done.
fn handler(begun: &Offsets, done: &Offsets) -> impl Fn(Delivery<Message>) -> Handling + Send + Sync + use<> {
    let (begun, done) = (Arc::clone(begun), Arc::clone(done));
    move |message| {
        let (begun, done) = (Arc::clone(&begun), Arc::clone(&done));
        Box::pin(async move {
            assert_eq!(message.token(), Token::from_u64(7), "handlers get the memory's token");
            begun.lock().unwrap().insert(message.offset);
            tokio::time::sleep(Duration::from_millis(10)).await;
            done.lock().unwrap().insert(message.offset);
            Ok(())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn when_the_memory_is_lost_handlers_are_dropped_and_nothing_more_is_acknowledged() {
    let journal = Journal::new("lost");
    let (broker, _) = log(Acks::Cumulative);
    (0..40).for_each(|n| _ = broker.send_id(0, Some(n.to_string())));
    let (lease, memory) = leased(&journal);
    let (begun, done) = (Offsets::default(), Offsets::default());
    let consumer = consumer(memory).batch(8).build().unwrap();
    let run = consumer.run(&broker, handler(&begun, &done), pending());
    let ended = tokio::join!(run, async {
        tokio::time::sleep(Duration::from_millis(65)).await;
        lease.send(Lease::Lost).unwrap();
    });
    let Err(ConsumerError::Memory(error)) = ended.0 else { panic!("{ended:?}") };
    assert!(error.is::<Error>());
    let (begun, done) = (begun.lock().unwrap().len(), done.lock().unwrap().len());
    assert_eq!((begun, done), (14, 12), "two were under way, and were dropped");
    let acknowledged = broker.state().acknowledged.clone();
    assert_eq!(acknowledged.len(), 8, "the second batch was not acknowledged: {acknowledged:?}");
}

#[tokio::test(start_paused = true)]
async fn while_the_lease_is_over_nothing_is_checked_or_begins_and_then_all_goes_on() {
    let journal = Journal::new("over");
    let (broker, _) = log(Acks::Cumulative);
    (0..16).for_each(|n| _ = broker.send_id(0, Some(n.to_string())));
    let (lease, memory) = leased(&journal);
    let engine = memory.engine.clone();
    let (begun, done) = (Offsets::default(), Offsets::default());
    let consumer = consumer(memory).batch(8).build().unwrap();
    let run = consumer.run(&broker, handler(&begun, &done), pending());
    let watch = async {
        let count = || (begun.lock().unwrap().len(), done.lock().unwrap().len());
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(count(), (2, 0));
        lease.send(Lease::Over).unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(count(), (2, 2), "what had begun came to its end, and nothing has begun");
        lease.send(Lease::Held).unwrap();
        tokio::time::sleep(Duration::from_millis(35)).await;
        assert!(count().1 >= 8);
        // Between two batches: the second one waits, unchecked.
        lease.send(Lease::Over).unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let before = count().0;
        lease.send(Lease::Held).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(before < 16 && count() == (16, 16), "{before} {:?}", count());
        lease.send(Lease::Over).unwrap();
        broker.send_id(0, Some("late".into()));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(engine.contains("late").is_none(), "it was received, and not checked");
        lease.send(Lease::Held).unwrap();
        broker.close();
    };
    let (ended, ()) = tokio::join!(run, watch);
    assert_eq!(ended.unwrap().acknowledged, 17);
    assert!(engine.contains("late").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_is_revoked_while_the_lease_is_over_is_released_and_its_messages_are_not_checked() {
    let journal = Journal::new("revoked-over");
    let (broker, _) = log(Acks::Cumulative);
    let (lease, memory) = leased(&journal);
    lease.send(Lease::Over).unwrap();
    let engine = memory.engine.clone();
    let (begun, done) = (Offsets::default(), Offsets::default());
    (0..8).for_each(|n| _ = broker.send_id(n % 2, Some(n.to_string())));
    let consumer = consumer(memory).build().unwrap();
    let run = consumer.run(&broker, handler(&begun, &done), tokio::time::sleep(Duration::from_secs(30)));
    let watch = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        broker.revoke([0]);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(broker.state().releases, [vec![broker::partition(0)]], "though the memory may not be asked");
        lease.send(Lease::Held).unwrap();
    };
    let (ended, ()) = tokio::join!(run, watch);
    assert_eq!(ended.unwrap().handled, 4);
    assert!((0..8).all(|n| engine.contains(n.to_string()).is_some() == (n % 2 == 1)));
}

#[tokio::test(start_paused = true)]
async fn it_is_persisted_as_often_as_was_said_with_the_positions_behind_what_is_done() {
    let journal = Journal::new("every");
    let (mut broker, _) = log(Acks::Cumulative);
    broker.has_positions = true;
    let (_lease, memory) = leased(&journal);
    let persisted = Arc::clone(&memory.persisted);
    let (begun, done) = (Offsets::default(), Offsets::default());
    let consumer = consumer(memory).batch(4).persist_every(Duration::from_secs(10), 20).build().unwrap();
    let run = consumer.run(&broker, handler(&begun, &done), pending());
    let times = || persisted.0.load(Ordering::Relaxed);
    let watch = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        // By the number of messages.
        (0..44).for_each(|n| _ = broker.send_id(n % 2, Some(n.to_string())));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(times(), 2, "after 20, and after 40");
        assert_eq!(broker.state().acknowledged.len(), 40);
        // By the time, though nothing comes.
        tokio::time::sleep(Duration::from_secs(11)).await;
        assert_eq!((times(), broker.state().acknowledged.len()), (3, 44));
        // At the end of the run, at once.
        broker.send_id(0, Some("last".into()));
        tokio::time::sleep(Duration::from_millis(100)).await;
        broker.close();
    };
    let (ended, ()) = tokio::join!(run, watch);
    assert_eq!((ended.unwrap().acknowledged, times()), (45, 4));
    let name = |n| broker::partition(n).to_string().into_bytes();
    let last = [(name(0), b"45".to_vec()), (name(1), b"44".to_vec())];
    assert_eq!(*persisted.1.lock().unwrap(), last, "of each partition, behind its last message");
    let wrong =
        LogConsumer::builder("orders", Dedup::builder().build().unwrap(), |message: &Message| message.id.clone());
    let wrong = wrong.persist_every(Duration::ZERO, 0).build().unwrap_err();
    assert!(wrong.to_string().contains("persist_every"), "{wrong}");
}
