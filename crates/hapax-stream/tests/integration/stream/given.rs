//! Functions that a caller gives, and that panic at a message: the run ends with that panic, and no
//! message is lost, taken for done, or overtaken.

use super::logs::{Journal, log};
use super::*;
use hapax_message::Described;
use hapax_store::unwind::caught;
use hapax_stream::{Acks, Delivery, LogConsumer};
use std::future::pending;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

impl Described for Message {
    fn header(&self, _: &str) -> Option<&str> {
        None
    }

    fn payload(&self) -> &[u8] {
        &[]
    }
}

/// The calls of a function, one of which panics.
struct Calls {
    made: AtomicU32,
    panics_at: u32,
}

impl Calls {
    fn panicking_at(call: u32) -> Arc<Self> {
        Arc::new(Calls { made: AtomicU32::new(0), panics_at: call })
    }

    fn call(&self) {
        assert_ne!(self.made.fetch_add(1, Ordering::Relaxed) + 1, self.panics_at, "on purpose");
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_asks_for_id_and_kind_once_and_a_panic_there_loses_no_message() {
    const SENT: [&str; 4] = ["a", "a", "b", "c"];
    for (of_id, at) in (0..=12).flat_map(|at| [(false, at), (true, at)]) {
        let journal = Journal::new(&format!("given-{of_id}-{at}"));
        let (broker, effects) = log(Acks::Cumulative);
        SENT.into_iter().for_each(|id| _ = broker.send(0, id));
        broker.close();
        let calls = Calls::panicking_at(at);
        let (for_id, for_kind) = (Arc::clone(&calls), Arc::clone(&calls));
        let id_of = move |message: &Message| {
            of_id.then(|| for_id.call());
            message.id.clone()
        };
        let kind_of = move |_: &Message| {
            (!of_id).then(|| for_kind.call());
            Some("placed".to_owned())
        };
        let builder = LogConsumer::builder("orders", journal.open(), id_of);
        let consumer = builder.kinds_by(kind_of).build().unwrap();
        let mut panics = 0;
        while caught(consumer.run(&broker, effects.handler(|_| Duration::ZERO), pending())).await.is_err() {
            panics += 1;
            broker.reconnect();
        }
        assert!(SENT.iter().all(|id| effects.of(id) == 1), "call {at} panics: one is lost, or handled twice");
        assert!(broker.is_done());
        assert_eq!(panics, u32::from((1..=4).contains(&at)), "call {at}");
        if at == 0 {
            assert_eq!(calls.made.load(Ordering::Relaxed), 4, "one for each message");
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given {
    Id,
    Key,
    Kind,
    Scope,
}

/// Runs a consumer again and again, until all is done. Returns how often it has panicked, and the
/// ids that were handled.
async fn consume(acks: Acks, which: Given, at: u32) -> (u32, Vec<String>) {
    let world = World::new();
    let engine = world.shared().await;
    let mut broker = Broker::new(&world.store, acks);
    broker.scope_of = |partition| format!("orders/{partition}");
    for (partition, id) in [(0, "a-1"), (1, "b-1"), (0, "a-2"), (1, "b-2"), (0, "a-3")] {
        broker.send(partition, id);
    }
    broker.close();
    let calls = Calls::panicking_at(at);
    let called = |given: Given| {
        let calls = Arc::clone(&calls);
        move || {
            if given == which {
                calls.call();
            }
        }
    };
    let (id, key, kind, scope) = (called(Given::Id), called(Given::Key), called(Given::Kind), called(Given::Scope));
    let builder = Consumer::builder("orders", engine, move |message: &Message| {
        id();
        message.id.clone()
    });
    let builder = builder.in_order_by(move |message: &Message| {
        key();
        message.id.as_ref().map(|id| id[..1].to_owned())
    });
    let builder = builder.kinds_by(move |_| {
        kind();
        None
    });
    let builder = builder.scope_by(move |partition| {
        scope();
        partition.number.to_string()
    });
    let Ok(consumer) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| builder.batch(2).build())) else {
        assert_eq!((which, at), (Given::Scope, 1), "a scope is tried when a consumer is built");
        return (1, Vec::new());
    };
    let (consumer, handled, mut panics) = (consumer.unwrap(), Arc::<Mutex<Vec<String>>>::default(), 0);
    loop {
        let done = Arc::clone(&handled);
        let handle = move |delivery: Delivery<Message>| {
            let done = Arc::clone(&done);
            async move {
                tokio::time::sleep(Duration::from_millis(5)).await;
                done.lock().unwrap().push(delivery.id.clone().unwrap());
                Ok::<(), String>(())
            }
        };
        match caught(consumer.run(&broker, handle, pending())).await {
            Ok(stats) => {
                stats.unwrap();
                break;
            }
            Err(_) => panics += 1,
        }
        broker.reconnect();
    }
    assert!(broker.is_done());
    let handled = handled.lock().unwrap().clone();
    (panics, handled)
}

#[tokio::test(start_paused = true)]
async fn a_panic_ends_the_run_and_nothing_is_lost_or_overtaken() {
    for which in [Given::Id, Given::Key, Given::Kind, Given::Scope] {
        for acks in [Acks::Each, Acks::Cumulative] {
            let mut most = 0;
            for at in 1..=8 {
                let (panics, mut handled) = consume(acks, which, at).await;
                most = most.max(panics);
                if handled.is_empty() {
                    continue;
                }
                // (The last one before the panic may have been handled, and not recorded.)
                handled.dedup();
                for key in ["a", "b"] {
                    let mut of_key: Vec<&String> = handled.iter().filter(|id| id.starts_with(key)).collect();
                    of_key.dedup();
                    let expected: Vec<String> = (1..=of_key.len()).map(|n| format!("{key}-{n}")).collect();
                    assert_eq!(of_key, expected.iter().collect::<Vec<_>>(), "{which:?} {acks:?}: call {at}");
                }
                assert!(handled.len() >= 5, "{which:?} {acks:?}: call {at}: {handled:?}");
            }
            assert_eq!(most, 1, "{which:?} has panicked");
        }
    }
}
