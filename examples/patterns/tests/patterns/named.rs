//! A fan-out and a retry topic over one store: each consumer handles every order once, and with one
//! name for all of them the second one handles nothing.

use hapax_patterns::named_consumers::{Order, of_retries, of_service};
use hapax_store::{InMemoryStore, TieredDedup};
use hapax_stream::{Consumer, Source};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Store = Arc<InMemoryStore>;

/// A queue that is over when it is empty.
struct Queue(Mutex<VecDeque<Order>>);

impl Queue {
    /// Returns a queue with each of 100 orders twice.
    fn twice() -> Self {
        let order = |n: u32| Order { id: format!("order-{n}") };
        Queue(Mutex::new((0..100).chain(0..100).map(order).collect()))
    }
}

impl Source for Queue {
    type Message = Order;
    type Error = Infallible;

    async fn receive(&self, max: usize) -> Result<Option<Vec<Order>>, Infallible> {
        let mut queue = self.0.lock().unwrap();
        let some: Vec<Order> = (0..max).map_while(|_| queue.pop_front()).collect();
        Ok((!some.is_empty()).then_some(some))
    }

    async fn acknowledge(&self, _: &[Arc<Order>]) -> Result<(), Infallible> {
        Ok(())
    }

    async fn retry(&self, order: &Arc<Order>, _: Duration) -> Result<(), Infallible> {
        self.0.lock().unwrap().push_back(Order::clone(order));
        Ok(())
    }

    async fn dead_letter(&self, _: &Arc<Order>, _: &str) -> Result<(), Infallible> {
        Ok(())
    }
}

/// An engine of its own, as in another process.
async fn engine(store: &Store) -> TieredDedup<Store> {
    TieredDedup::builder(Arc::clone(store)).expiry(None).build().await.unwrap()
}

/// Returns the number of orders that a consumer has handled.
async fn handled(consumer: Consumer<Store, Order>, queue: &Queue) -> u64 {
    let stats = consumer.run(queue, |_| async { Ok::<(), Infallible>(()) }, pending()).await.unwrap();
    assert_eq!((stats.handled + stats.duplicate, stats.acknowledged), (stats.received, stats.received));
    stats.handled
}

#[tokio::test]
async fn every_service_of_a_fan_out_handles_each_order_once() {
    let store = Store::default();
    for service in ["billing", "mail", "stock"] {
        let consumer = of_service(service, engine(&store).await).unwrap();
        assert_eq!(handled(consumer, &Queue::twice()).await, 100, "{service}");
    }
    let naive = of_service("billing", engine(&store).await).unwrap();
    assert_eq!(handled(naive, &Queue::twice()).await, 0, "a fourth service with the name of the first");
}

#[tokio::test]
async fn a_retry_topics_consumer_handles_what_the_first_one_has_sent_on() {
    let store = Store::default();
    let retries = Arc::new(Queue(Mutex::default()));
    let first = of_service("billing", engine(&store).await).unwrap();
    let sends = Arc::clone(&retries);
    let send_on = move |order: hapax_stream::Delivery<Order>| {
        sends.0.lock().unwrap().push_back(Order::clone(&order));
        async { Ok::<(), Infallible>(()) }
    };
    assert_eq!(first.run(&Queue::twice(), send_on, pending()).await.unwrap().handled, 100);
    let again = Queue(Mutex::new(retries.0.lock().unwrap().clone()));
    let naive = of_service("billing", engine(&store).await).unwrap();
    assert_eq!(handled(naive, &again).await, 0, "the first one's name");
    assert_eq!(handled(of_retries("billing", engine(&store).await).unwrap(), &retries).await, 100);
}
