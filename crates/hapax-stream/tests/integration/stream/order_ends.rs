//! Order by key at its worst moments: a partition is taken away, the consumer is shut down, the
//! store is away, the broker takes no acknowledgement.

use super::*;
use hapax_store::ErrorKind;
use hapax_stream::{Acks, Delivery};
use hapax_testing::store::Fault;
use std::future::pending;
use std::sync::Mutex;

const DEADLINE: Duration = Duration::from_secs(5);

/// The beginnings and ends of handlers, with their times.
#[derive(Default)]
struct Seen(Mutex<Vec<(String, Instant)>>);

impl Seen {
    fn note(&self, what: String) {
        self.0.lock().unwrap().push((what, Instant::now()));
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|(what, _)| what.clone()).collect()
    }

    fn at(&self, what: &str) -> Instant {
        self.0.lock().unwrap().iter().find(|(noted, _)| noted == what).unwrap_or_else(|| panic!("no {what}")).1
    }
}

struct Running(Arc<Seen>, String);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.note(format!("end {}", self.1));
    }
}

/// Makes a handler that takes as long as the message says.
fn handler<T>(seen: &Arc<Seen>, takes: T) -> impl Fn(Delivery<Message>) -> Handling + Send + Sync + use<T>
where
    T: Fn(&str) -> Duration + Send + Sync + 'static,
{
    let seen = Arc::clone(seen);
    move |delivery| {
        let id = delivery.id.clone().unwrap();
        let takes = takes(&id);
        seen.note(format!("begin {id}"));
        let running = Running(Arc::clone(&seen), id);
        Box::pin(async move {
            let _running = running;
            tokio::time::sleep(takes).await;
            Ok(())
        })
    }
}

fn in_order(engine: &Engine) -> ConsumerBuilder<Engine, Message> {
    consumer(engine).drain(DEADLINE).in_order_by(|message: &Message| message.id.as_ref().map(|id| id[..1].to_owned()))
}

#[tokio::test(start_paused = true)]
async fn a_key_in_two_partitions_goes_on_when_the_handler_in_the_revoked_one_is_dropped() {
    for acks in [Acks::Each, Acks::Cumulative] {
        let world = World::new();
        let engine = world.shared().await;
        let broker = Broker::new(&world.store, acks);
        for (partition, id) in [(0, "a-1"), (1, "a-2"), (0, "a-3"), (1, "a-4"), (1, "b-1")] {
            broker.send(partition, id);
        }
        let (seen, begun) = (Arc::<Seen>::default(), Instant::now());
        let consumer = in_order(&engine).build().unwrap();
        let handle = handler(&seen, |id| if id == "a-1" { 100 * LEASE } else { MOMENT });
        let consuming = consumer.run(&broker, handle, tokio::time::sleep(4 * DEADLINE));
        let revoking = async {
            tokio::time::sleep(MOMENT / 2).await;
            broker.revoke([0]);
        };
        let (stats, ()) = tokio::join!(consuming, revoking);
        let mut expected = vec!["begin a-1", "begin b-1", "end b-1", "end a-1"];
        expected.extend(["begin a-2", "end a-2", "begin a-4", "end a-4"]);
        assert_eq!(seen.all(), expected, "{acks:?}");
        assert!(seen.at("begin a-2") >= begun + DEADLINE);
        let mut acknowledged = broker.state().acknowledged.clone();
        acknowledged.sort_unstable();
        assert_eq!((acknowledged, stats.unwrap().abandoned), (vec![1, 3, 4], 1), "{acks:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn at_a_shutdown_what_waits_for_its_key_goes_back_unhandled_and_in_order() {
    for acks in [Acks::Each, Acks::Cumulative] {
        let world = World::new();
        let engine = world.shared().await;
        let broker = Broker::new(&world.store, acks);
        ["a-1", "b-1", "a-2", "b-2", "a-3"].into_iter().for_each(|id| _ = broker.send(0, id));
        let seen = Arc::<Seen>::default();
        let consumer = in_order(&engine).build().unwrap();
        let handle = handler(&seen, |_| 10 * MOMENT);
        let stats = consumer.run(&broker, handle, tokio::time::sleep(MOMENT)).await.unwrap();
        assert_eq!(seen.all(), ["begin a-1", "begin b-1", "end a-1", "end b-1"], "{acks:?}");
        assert_eq!((stats.handled, stats.acknowledged), (2, 2));
        let given_back = [2, 3, 4].map(|offset| (offset, Duration::ZERO));
        let given_back = if acks == Acks::Each { given_back.to_vec() } else { Vec::new() };
        assert_eq!(broker.state().retried, given_back, "{acks:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_until_the_completion_before_it_is_recorded() {
    let away = Duration::from_secs(8);
    for acks in [Acks::Each, Acks::Cumulative] {
        let world = World::new();
        let engine = world.shared().await;
        let broker = Broker::new(&world.store, acks);
        ["a-1", "a-2", "a-3"].into_iter().for_each(|id| _ = broker.send(0, id));
        broker.close();
        let seen = Arc::<Seen>::default();
        let consumer = in_order(&engine).build().unwrap();
        let consuming = consumer.run(&broker, handler(&seen, |_| MOMENT), pending());
        let failing = async {
            tokio::time::sleep(MOMENT / 2).await;
            world.store.always(Fault::Fails(ErrorKind::Unavailable));
            tokio::time::sleep(away).await;
            world.store.always(Fault::None);
        };
        let (stats, ()) = tokio::join!(consuming, failing);
        stats.unwrap();
        let expected = ["begin a-1", "end a-1", "begin a-2", "end a-2", "begin a-3", "end a-3"];
        assert_eq!(seen.all(), expected, "{acks:?}");
        assert!(seen.at("begin a-2") >= seen.at("begin a-1") + away, "{acks:?}");
        assert!(broker.is_done());
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_acknowledgement_changes_no_order() {
    for acks in [Acks::Each, Acks::Cumulative] {
        let world = World::new();
        let engine = world.shared().await;
        let broker = Broker::new(&world.store, acks);
        ["a-1", "a-2", "b-1", "a-3"].into_iter().for_each(|id| _ = broker.send(0, id));
        broker.close();
        broker.refuse("acknowledge");
        let seen = Arc::<Seen>::default();
        let consumer = in_order(&engine).build().unwrap();
        let ended = consumer.run(&broker, handler(&seen, |_| MOMENT), pending()).await;
        assert!(ended.is_err(), "{ended:?}");
        broker.refuses.lock().unwrap().clear();
        broker.reconnect();
        consumer.run(&broker, handler(&seen, |_| MOMENT), pending()).await.unwrap();
        assert!(broker.is_done());
        let begun: Vec<String> = seen.all().into_iter().filter(|what| what.starts_with("begin a")).collect();
        assert_eq!(begun, ["begin a-1", "begin a-2", "begin a-3"], "{acks:?}");
    }
}
