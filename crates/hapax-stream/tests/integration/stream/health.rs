//! Situations that could stop a consumer, with all options at their defaults: handlers that hang, a
//! message without an id.

use super::*;
use hapax_store::ErrorKind;
use hapax_stream::{Acks, Delivery, Health};
use hapax_testing::store::Fault;
use std::collections::HashMap;
use std::future::pending;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// The number of times that handlers for each id have come to their end.
type Done = Arc<Mutex<HashMap<String, u32>>>;

/// Makes a handler that takes this long, and hangs forever for ids with this prefix.
fn handler(
    done: &Done,
    takes: Duration,
    hangs: &'static str,
) -> impl Fn(Delivery<Received>) -> Handling + Send + Sync + 'static {
    let done = Arc::clone(done);
    move |message| {
        let done = Arc::clone(&done);
        Box::pin(async move {
            if !hangs.is_empty() && message.id.starts_with(hangs) {
                pending::<()>().await;
            }
            tokio::time::sleep(takes).await;
            *done.lock().unwrap().entry(message.id.clone()).or_default() += 1;
            Ok(())
        })
    }
}

fn hung_and_others() -> Queue {
    let hung = (0..4).map(|n| format!("hung-{n}"));
    let mut queue = Queue::of(30 * SECOND, hung.chain((0..36).map(|n| n.to_string())));
    // It is asked for hours.
    queue.patience = SECOND;
    queue
}

#[tokio::test(start_paused = true)]
async fn handlers_that_hang_do_not_stop_a_consumer() {
    let world = World::new();
    let (engine, queue, done) = (world.shared().await, hung_and_others(), Done::default());
    let consumer = of_queue(&engine).max_in_flight(4).build().unwrap();
    let run = consumer.run(&queue, handler(&done, SECOND, "hung"), queue.emptied());
    let run = tokio::time::timeout(DAY, run).await;
    assert_eq!(done.lock().unwrap().len(), 36, "of 36 other messages, within a day");
    assert_eq!((run.unwrap().unwrap().dead_lettered, queue.dead().len()), (4, 4), "these are put aside");
}

#[tokio::test(start_paused = true)]
async fn what_hangs_once_is_handled_by_whoever_gets_it_next() {
    let world = World::new();
    let (here, there) = (world.shared().await, world.shared().await);
    let (queue, done, hung) = (hung_and_others(), Done::default(), Done::default());
    let [hanging, healthy] = [&here, &there].map(|engine| of_queue(engine).max_in_flight(4).build().unwrap());
    let (hangs, works) = (handler(&done, SECOND, "hung"), handler(&done, SECOND, ""));
    // What it waits for never comes, once for each of them.
    let once = Arc::clone(&hung);
    let hangs_once = move |message: Delivery<Received>| {
        let times = *once.lock().unwrap().entry(message.id.clone()).and_modify(|times| *times += 1).or_default();
        if times == 0 { hangs(message) } else { works(message) }
    };
    let both = async {
        tokio::join!(hanging.run(&queue, hangs_once, queue.emptied()), async {
            tokio::time::sleep(SECOND).await;
            healthy.run(&queue, handler(&done, SECOND, ""), queue.emptied()).await
        })
    };
    let both = tokio::time::timeout(DAY, both).await;
    assert_eq!(done.lock().unwrap().len(), 40, "of 40 messages, within a day");
    assert_eq!((both.is_ok(), queue.dead().len()), (true, 0));
}

#[tokio::test(start_paused = true)]
async fn a_message_without_an_id_is_put_aside_and_the_others_are_handled() {
    for acks in [Acks::Each, Acks::Cumulative] {
        let world = World::new();
        let engine = world.shared().await;
        let (mut broker, effects) = (Broker::new(&world.store, acks), Effects::new(&world.store));
        broker.lenient = true;
        for n in 0..20 {
            broker.send_id(n % 2, (n % 7 != 3).then(|| n.to_string()));
        }
        broker.send(0, "  ");
        broker.close();
        let consumer = consumer(&engine).build().unwrap();
        let stats = consumer.run(&broker, effects.handler(|_| SECOND), pending()).await.unwrap();
        assert_eq!((stats.missing, stats.dead_lettered, stats.acknowledged), (4, 4, 21), "{acks:?}");
        assert_eq!((effects.total(), broker.is_done()), (17, true));
        let dead: std::collections::BTreeMap<usize, String> = broker.state().dead.clone().into_iter().collect();
        assert_eq!(dead.keys().copied().collect::<Vec<_>>(), [3, 10, 17, 20]);
        assert!(dead.values().all(|why| why.contains("has no id")), "{dead:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_is_bypassed_handles_what_comes_without_its_store() {
    let world = World::new();
    let engine = world.engine().retries(0).build().await.unwrap();
    let mut broker = Broker::new(&world.store, Acks::Each);
    broker.lenient = true;
    ["a", "b", "a"].into_iter().for_each(|id| _ = broker.send(0, id));
    world.store.always(Fault::Fails(ErrorKind::Unavailable));
    let handled = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = Arc::clone(&handled);
    let handle = move |message: Delivery<Message>| {
        let nth = count.fetch_add(1, Ordering::Relaxed);
        assert_eq!(message.token().as_u64(), 0);
        async move { if nth == 1 { Err("once") } else { Ok(()) } }
    };
    let consumer = consumer(&engine).build().unwrap();
    let (stats, ()) = tokio::join!(consumer.run(&broker, handle, pending()), async {
        tokio::time::sleep(SECOND).await;
        assert_eq!((consumer.stats().handled, consumer.stats().acknowledged), (0, 0), "they wait for the store");
        consumer.bypass(true);
        tokio::time::sleep(LEASE).await;
        assert_eq!((consumer.health(), engine.is_bypassed()), (Health::Bypassed, false));
        assert_eq!((consumer.stats().handled, consumer.stats().failed), (3, 1), "a duplicate, too");
        consumer.bypass(false);
        broker.send(0, "a");
        tokio::time::sleep(SECOND).await;
        assert_eq!(consumer.stats().handled, 3, "it waits for the store again");
        consumer.bypass(true);
        broker.close();
    });
    let stats = stats.unwrap();
    assert_eq!((stats.acknowledged, stats.duplicate, stats.dead_lettered), (4, 0, 0), "{stats:?}");
}
