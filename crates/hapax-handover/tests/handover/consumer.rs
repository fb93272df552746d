//! A `LogConsumer` whose memory is an owned partition, and which another one fences while it is at
//! work; beside two consumers with one flaw each.

use crate::{Temporary, options};
use hapax::{Dedup, JournalOptions, SyncMode, Token};
use hapax_handover::object_store::memory::InMemory;
use hapax_handover::{Acquired, Handover, HandoverError, Owned};
use hapax_stream::{Acks, ConsumerError, Delivery, LogConsumer, Memory, Source};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A log of the numbers up to a limit, read from an offset on.
struct Log {
    next: AtomicU64,
    committed: AtomicU64,
}

const MESSAGES: u64 = 600;

impl Source for Log {
    type Message = u64;
    type Error = Infallible;

    async fn receive(&self, max: usize) -> Result<Option<Vec<u64>>, Infallible> {
        let from = self.next.fetch_add(max as u64, Ordering::Relaxed);
        Ok((from < MESSAGES).then(|| (from..MESSAGES.min(from + max as u64)).collect()))
    }

    async fn acknowledge(&self, messages: &[Arc<u64>]) -> Result<(), Infallible> {
        let last = messages.last().map_or(0, |last| **last + 1);
        self.committed.fetch_max(last, Ordering::Relaxed);
        Ok(())
    }

    async fn retry(&self, _: &Arc<u64>, _: Duration) -> Result<(), Infallible> {
        unreachable!("no handler fails")
    }

    async fn dead_letter(&self, _: &Arc<u64>, _: &str) -> Result<(), Infallible> {
        unreachable!("no handler fails")
    }

    fn acks(&self) -> Acks {
        Acks::Cumulative
    }

    fn position(&self, message: &u64) -> Option<Vec<u8>> {
        Some((message + 1).to_be_bytes().into())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// It acknowledges what is done, and does not publish it.
    CommitsUnpublished,
    /// Another owner changes nothing for this one.
    IgnoresFences,
}

struct Flawed(Owned, Flaw);

impl Memory for Flawed {
    type Error = HandoverError;

    fn engine(&self) -> &Dedup {
        Memory::engine(&self.0)
    }

    fn is_usable(&self) -> bool {
        self.1 == Flaw::IgnoresFences || self.0.is_usable()
    }

    async fn usable(&self) -> Result<(), HandoverError> {
        Memory::usable(&self.0).await
    }

    async fn persist(&self) -> Result<(), HandoverError> {
        match self.1 {
            Flaw::None => self.0.persist().await,
            Flaw::CommitsUnpublished => Ok(()),
            Flaw::IgnoresFences => self.0.persist().await.or(Ok(())),
        }
    }

    async fn lost(&self) -> HandoverError {
        match self.1 {
            Flaw::IgnoresFences => std::future::pending().await,
            _ => self.0.lost().await,
        }
    }

    fn token(&self) -> Token {
        self.0.token()
    }
}

async fn open(acquired: Acquired) -> Owned {
    let journal = JournalOptions::new().sync(SyncMode::System);
    acquired.open(Dedup::builder().capacity(10_000), journal).await.unwrap()
}

/// The next owner's position, what the first one has committed in the end, and how it ended.
struct End {
    position: u64,
    committed: u64,
    handled: u64,
    ended: Result<(), ConsumerError<Infallible>>,
}

/// Lets a consumer be fenced while it is at work.
async fn fenced(flaw: Flaw) -> End {
    let directory = Temporary::new();
    let options = options().lease(Duration::from_millis(90));
    let handover = Handover::new(Arc::new(InMemory::new()), "hapax", options).unwrap();
    let first = open(handover.acquire("3", &directory.0.join("a")).await.unwrap()).await;
    let log = Log { next: AtomicU64::new(0), committed: AtomicU64::new(0) };
    let handled = Arc::new(AtomicU64::new(0));
    let consumer = LogConsumer::builder("orders", Flawed(first, flaw), |number: &u64| Some(number.to_be_bytes()));
    let consumer = consumer.batch(32).max_in_flight(2).build().unwrap();
    let counted = Arc::clone(&handled);
    let handle = move |message: Delivery<u64>| {
        let counted = Arc::clone(&counted);
        async move {
            assert_eq!(message.token().as_u64(), 1, "the epoch");
            tokio::time::sleep(Duration::from_millis(1)).await;
            counted.fetch_add(1, Ordering::Relaxed);
            Ok::<(), Infallible>(())
        }
    };
    let second = async {
        while handled.load(Ordering::Relaxed) < 150 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        handover.acquire("3", &directory.0.join("b")).await.unwrap()
    };
    let (ended, acquired) = tokio::join!(consumer.run(&log, handle, std::future::pending()), second);
    let position = acquired.position("/0").map_or(0, |at| u64::from_be_bytes(at.try_into().unwrap()));
    let second = open(acquired).await;
    let engine = second.engine().unwrap();
    assert!((0..position).all(|number| engine.check(number.to_be_bytes()).is_duplicate()), "{flaw:?}");
    assert!(engine.check(MESSAGES.to_be_bytes()).is_fresh());
    let committed = log.committed.load(Ordering::Relaxed);
    End { position, committed, handled: handled.load(Ordering::Relaxed), ended: ended.map(drop) }
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_is_fenced_ends_and_has_committed_nothing_that_the_next_owner_does_not_know() {
    let End { position, committed, handled, ended } = fenced(Flaw::None).await;
    let Err(ConsumerError::Memory(error)) = ended else { panic!("{ended:?}") };
    assert!(matches!(error.downcast_ref(), Some(HandoverError::Fenced { by: 2, .. })), "{error}");
    assert!(committed > 0 && committed <= position, "{committed} were committed, {position} handed over");
    assert!(handled < MESSAGES, "it went on");
}

#[tokio::test(start_paused = true)]
async fn flaws_of_consumers_are_noticed() {
    let End { position, committed, .. } = fenced(Flaw::CommitsUnpublished).await;
    assert!(committed > position, "{committed} were committed, {position} handed over");
    let End { position, committed, handled, ended } = fenced(Flaw::IgnoresFences).await;
    assert!(ended.is_ok() && handled == MESSAGES && committed > position, "{handled} {committed} {position}");
}

/// Futures that a consumer spawns.
#[tokio::test]
async fn acquiring_opening_and_publishing_can_be_spawned() {
    let directory = Temporary::new();
    let handover = Handover::new(Arc::new(InMemory::new()), "hapax", options()).unwrap();
    let path = directory.0.join("a");
    let owner = tokio::spawn(async move {
        let owned = open(handover.acquire("3", &path).await.unwrap()).await;
        let _ = owned.engine().unwrap().check("a");
        owned.engine().unwrap().journal().unwrap().checkpoint([("log", [1])]).unwrap();
        owned.publish().await.unwrap().uploaded
    });
    assert!(owner.await.unwrap() > 0);
}
