//! Brokers that deliver messages again which were received too long ago: heartbeats tell them that
//! a message is still worked on.

use super::queue::Extending;
use super::*;
use hapax_store::ErrorKind;
use hapax_stream::{ConsumerStats, Delivery};
use hapax_testing::store::Fault;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

const VISIBILITY: Duration = Duration::from_millis(200);

type Done = Arc<Mutex<HashMap<String, u32>>>;

fn handler(
    done: &Done,
    takes: Duration,
    fails: bool,
) -> impl Fn(Delivery<Received>) -> Handling + Send + Sync + 'static {
    let done = Arc::clone(done);
    move |message| {
        let done = Arc::clone(&done);
        Box::pin(async move {
            tokio::time::sleep(takes).await;
            let mut done = done.lock().unwrap();
            let times = done.entry(message.id.clone()).or_default();
            *times += 1;
            let fails = fails && message.id.parse::<u32>().is_ok_and(|n| n % 3 == 0);
            if fails && *times == 1 { Err("the first time".to_owned()) } else { Ok(()) }
        })
    }
}

fn queued(messages: u32) -> Queue {
    let mut queue = Queue::of(VISIBILITY, (0..messages).map(|n| n.to_string()));
    queue.heartbeat = Some(VISIBILITY / 3);
    queue
}

fn deliveries(queue: &Queue, messages: u32) -> Vec<u32> {
    (0..messages).map(|n| queue.deliveries(&n.to_string())).collect()
}

#[tokio::test(start_paused = true)]
async fn what_waits_or_is_handled_here_is_delivered_to_nobody_else() {
    let world = World::new();
    let (queue, done) = (queued(100), Done::default());
    let (first, second) = (world.shared().await, world.shared().await);
    let [slow, quick] = [&first, &second].map(|engine| soon_again(engine).max_in_flight(2).batch(10));
    let (slow, quick) = (slow.max_unacknowledged(30).build().unwrap(), quick.build().unwrap());
    let slowly = slow.run(&queue, handler(&done, SECOND, false), queue.emptied());
    let (one, other) = tokio::join!(slowly, async {
        tokio::time::sleep(SECOND / 2).await;
        quick.run(&queue, handler(&done, SECOND / 100, false), queue.emptied()).await
    });
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!(deliveries(&queue, 100), vec![1; 100], "each is handled or waits for longer than it is invisible");
    assert_eq!((one.handled + other.handled, one.in_progress + other.in_progress), (100, 0));
    assert_eq!((one.unextended, other.unextended, queue.extended_late.load(Ordering::Relaxed)), (0, 0, 0));
    assert_eq!(queue.most_extended.load(Ordering::Relaxed), 10, "in batches");
}

#[tokio::test(start_paused = true)]
async fn what_fails_or_waits_for_the_store_is_not_extended_when_it_is_given_back() {
    let world = World::new();
    let (queue, done, engine) = (queued(40), Done::default(), world.engine().retries(0).build().await.unwrap());
    let consumer = soon_again(&engine).max_in_flight(8).build().unwrap();
    let run = consumer.run(&queue, handler(&done, SECOND, true), queue.emptied());
    let (stats, ()) = tokio::join!(run, async {
        // They wait here until it is back, and some are recorded late.
        tokio::time::sleep(SECOND * 3 / 2).await;
        world.store.always(Fault::Fails(ErrorKind::Unavailable));
        tokio::time::sleep(10 * SECOND).await;
        world.store.always(Fault::None);
    });
    let stats = stats.unwrap();
    assert!(stats.store_error > 0 && stats.failed == 14, "{stats:?}");
    assert_eq!(queue.extended_late.load(Ordering::Relaxed), 0);
    let times: Vec<u32> = (0..40).map(|n| if n % 3 == 0 { 2 } else { 1 }).collect();
    assert_eq!(deliveries(&queue, 40), times, "one more for each failure: {stats:?}");
    assert!((0..40).all(|n| done.lock().unwrap()[&n.to_string()] == times[n]));
}

async fn with_heartbeats_that(extending: Extending) -> ConsumerStats {
    let world = World::new();
    let (queue, done, engine) = (queued(20), Done::default(), world.shared().await);
    *queue.extending.lock().unwrap() = extending;
    let consumer = soon_again(&engine).max_in_flight(4).build().unwrap();
    let stats = consumer.run(&queue, handler(&done, SECOND, false), queue.emptied()).await.unwrap();
    assert!(done.lock().unwrap().values().all(|times| *times == 1));
    assert_eq!((stats.handled, queue.is_empty(), queue.dead().len()), (20, true, 0), "{stats:?}");
    stats
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_cannot_be_told_ends_no_run_and_is_counted() {
    assert_eq!(with_heartbeats_that(Extending::Done).await.unextended, 0);
    for extending in [Extending::Fails, Extending::Hangs] {
        let stats = with_heartbeats_that(extending).await;
        // For five seconds, at every heartbeat, or every other one.
        assert!((30..=120).contains(&stats.unextended), "{extending:?}: {stats:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_heartbeat_no_more_are_received_than_handlers_are_free() {
    let world = World::new();
    let (mut queue, done, engine) = (queued(50), Done::default(), world.shared().await);
    queue.heartbeat = None;
    let consumer = soon_again(&engine).max_in_flight(5).build().unwrap();
    let stats = consumer.run(&queue, handler(&done, VISIBILITY * 3 / 4, false), queue.emptied()).await.unwrap();
    assert_eq!((stats.handled, stats.received, stats.in_progress), (50, 50, 0));
    assert_eq!(deliveries(&queue, 50), vec![1; 50]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_hangs_is_dropped_in_time_and_its_message_is_somebody_elses_then() {
    struct Dropped(Arc<Mutex<Vec<Duration>>>, Instant);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.lock().unwrap().push(self.1.elapsed());
        }
    }
    let world = World::new();
    let (here, there) = (world.shared().await, world.shared().await);
    let queue = Queue::of(SECOND, ["a"]);
    let dropped = Arc::new(Mutex::new(Vec::new()));
    // Longer than the lease, which is renewed.
    let timeout = 2 * LEASE;
    let consumer = soon_again(&here).handler_timeout(timeout).max_attempts(2).build().unwrap();
    let drops = Arc::clone(&dropped);
    let hangs = move |_: Delivery<Received>| {
        let dropped = Dropped(Arc::clone(&drops), Instant::now());
        async move {
            let _dropped = dropped;
            std::future::pending::<Result<(), String>>().await
        }
    };
    let (stats, ()) = tokio::join!(consumer.run(&queue, hangs, queue.emptied()), async {
        for _ in 0..11 {
            tokio::time::sleep(timeout / 12).await;
            assert!(orders(&there).claim("a").await.unwrap().is_in_progress(), "the lease is renewed");
        }
        tokio::time::sleep(timeout / 12 + Duration::from_millis(10)).await;
        assert_eq!(consumer.stats().timed_out, 1);
    });
    let stats = stats.unwrap();
    assert_eq!((stats.failed, stats.timed_out, stats.panicked, stats.dead_lettered), (2, 2, 0, 1), "{stats:?}");
    assert_eq!(*dropped.lock().unwrap(), [timeout; 2]);
    assert_eq!(queue.put_aside("a"), ["the handler was not done within 60s: option `handler_timeout`"]);
}
