//! Consumers that documents show, word for word, as in `shown`.

use super::broker::{Broker, Carries, Message, Queue};
use super::shown::{engine, sendable};
use super::{CURRENT, Failure, Place, Store};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use hapax_store::StoreError;
use hapax_stream::{Consumer, Delivery};

#[path = "../../../../../examples/patterns/src/named_consumers.rs"]
mod named_consumers;

mod of_consumers {
    use super::*;
    use hapax_store::{Store, TieredDedup};

    pub struct Order {
        pub id: String,
        pub message: Message,
        pub place: Place,
    }

    impl Carries for Order {
        fn of(message: Message, place: &Place) -> Self {
            Order { id: message.id.clone(), message, place: place.clone() }
        }

        fn id(&self) -> &str {
            &self.id
        }

        fn delivery(&self) -> Option<&Message> {
            Some(&self.message)
        }
    }

    pub fn consumers<S: Store>(dedup: &TieredDedup<S>) -> Result<Vec<Consumer<S, Order>>, StoreError> {
        let id = |order: &Order| Some(order.id.clone());
        let consumer = |name: &str| Consumer::builder(name, dedup.clone(), id).build();
        Ok(vec![
            consumer("billing")?,       // the same name in all instances of billing, and in its next version
            consumer("mail")?,          // what billing has done, mail has not
            consumer("billing-retry")?, // orders with ids that `billing` has completed: it sent them on, and returned `Ok`
        ])
    }

    pub mod whole {
        use super::Order;
        use crate::hostile::{CURRENT, Failure, Store, shown};
        use hapax_store::TieredBuilder;
        use hapax_stream::{Consumer, Source};
        use std::error::Error;

        /// Says nothing.
        macro_rules! println {
            ($($text:tt)*) => { drop(format!($($text)*)) };
        }

        struct InMemoryStore;

        impl InMemoryStore {
            #[expect(clippy::new_ret_no_self, reason = "the block asks for it so")]
            fn new() -> Store {
                CURRENT.with(|place| place.store.clone())
            }
        }

        struct TieredDedup;

        impl TieredDedup {
            fn builder(_: Store) -> TieredBuilder<Store> {
                CURRENT.with(shown::engine)
            }
        }

        async fn charge(order: &Order) -> Result<(), Failure> {
            order.place.clone().work_in_task(order.id.clone()).await
        }

        pub async fn consume<B: Source<Message = Order>>(broker: B) -> Result<(), Box<dyn Error>> {
            let dedup = TieredDedup::builder(InMemoryStore::new()).build().await?; // or Redis, …
            let id = |order: &Order| Some(order.id.clone());
            let consumer = Consumer::builder("billing", dedup, id).max_in_flight(64).build()?;
            let stop = async {
                let _ = tokio::signal::ctrl_c().await;
            };
            let counts = consumer.run(&broker, |order| async move { charge(&order).await }, stop).await?;
            println!("{counts:?}");
            Ok(())
        }
    }
}

pub fn whole_consumer(place: Place, broker: Broker) -> LocalBoxFuture<'static, Result<(), Failure>> {
    async move {
        let consume = of_consumers::whole::consume(Queue::new(broker, place.clone()));
        CURRENT.scope(place, consume).await.map_err(sendable)
    }
    .boxed_local()
}

/// Runs a consumer until all is done.
pub async fn run_consumer<M: Carries>(
    consumer: Consumer<Store, M>,
    place: Place,
    broker: Broker,
) -> Result<(), Failure> {
    let queue = Queue::new(broker, place.clone());
    let handle = move |order: Delivery<M>| place.clone().work_in_task(order.id().to_owned());
    consumer.run(&queue, handle, std::future::pending()).await?;
    Ok(())
}

pub fn fan_out(place: Place, broker: Broker) -> LocalBoxFuture<'static, Result<(), Failure>> {
    async move {
        let consumers = of_consumers::consumers(&engine(&place).build().await?)?;
        let of_service = ["billing", "mail", "billing-retry"].iter().position(|service| *service == place.service);
        let consumer = consumers.into_iter().nth(of_service.expect("it is one of them")).expect("there are three");
        run_consumer(consumer, place, broker).await
    }
    .boxed_local()
}

impl Carries for named_consumers::Order {
    fn of(message: Message, _: &Place) -> Self {
        named_consumers::Order { id: message.id }
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn delivery(&self) -> Option<&Message> {
        None
    }
}

pub fn of_service(place: Place, broker: Broker) -> LocalBoxFuture<'static, Result<(), Failure>> {
    async move {
        let engine = engine(&place).build().await?;
        let consumer = match place.service.strip_suffix("-retry") {
            Some(service) => named_consumers::of_retries(service, engine)?,
            None => named_consumers::of_service(place.service, engine)?,
        };
        run_consumer(consumer, place, broker).await
    }
    .boxed_local()
}
