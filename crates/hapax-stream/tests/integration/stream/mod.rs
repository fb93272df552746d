//! Consumers of a broker, and streams without their duplicates, over a store in memory that fails
//! when it is told to.

mod attempts;
mod away;
mod batches;
mod broker;
mod crashes;
mod effects;
mod ending;
mod failing;
mod given;
mod handling;
mod health;
mod logs;
mod named;
mod order_ends;
mod ordering;
mod outage;
mod queue;
mod routing;
mod streams;
mod visibility;

use hapax::{Clock, Timestamp};
use hapax_store::{HistoryOptions, InMemoryStore, TieredBuilder, TieredDedup};
use hapax_stream::{Consumer, ConsumerBuilder};
use hapax_testing::store::FaultyStore;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

use broker::{Broker, Message};
use effects::{Effects, Handling};
use queue::{Queue, Received};

type Store = Arc<FaultyStore<InMemoryStore>>;
type Engine = TieredDedup<Store>;

/// The runtime's clock, which tests pause: leases pass when it does.
#[derive(Clone, Copy)]
pub(crate) struct TokioClock(pub(crate) Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1_000_000) + self.0.elapsed()
    }
}

const MOMENT: Duration = Duration::from_millis(10);
const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(30);

/// A store, and engines on it.
struct World {
    clock: TokioClock,
    store: Store,
}

impl World {
    fn new() -> Self {
        let clock = TokioClock(Instant::now());
        World { clock, store: Arc::new(FaultyStore::new(InMemoryStore::with_clock(clock))) }
    }

    fn engine(&self) -> TieredBuilder<Store> {
        TieredDedup::builder(Arc::clone(&self.store))
            .window(Duration::from_secs(600))
            .retention(Duration::from_secs(3_600))
            .capacity(10_000)
            .clock(self.clock)
            .lease(LEASE)
            .expiry(None)
    }

    async fn shared(&self) -> Engine {
        self.engine().build().await.unwrap()
    }

    async fn exclusive(&self) -> Engine {
        let engine = self
            .engine()
            .ownership(hapax_store::Ownership::ExclusiveAs("test".into()))
            .history(HistoryOptions { ids: 100_000, false_positive_rate: 1e-6 });
        let engine = engine.build().await.unwrap();
        engine.warm().await.unwrap();
        engine
    }
}

/// Builds a consumer whose messages bring their ids.
fn consumer(engine: &Engine) -> ConsumerBuilder<Engine, Message> {
    let builder = Consumer::builder("orders", engine.clone(), |message: &Message| message.id.clone());
    builder.retry_delay(Duration::from_millis(100), Duration::from_secs(5))
}

/// Builds a consumer of a queue.
fn of_queue(engine: &Engine) -> ConsumerBuilder<Engine, Received> {
    Consumer::builder("orders", engine.clone(), |message: &Received| Some(message.id.clone()))
}

/// Builds a consumer of a queue whose failed messages come again soon.
fn soon_again(engine: &Engine) -> ConsumerBuilder<Engine, Received> {
    of_queue(engine).retry_delay(Duration::from_millis(100), Duration::from_secs(5))
}

/// Returns a handle for the ids of the consumers above.
fn orders(engine: &Engine) -> Engine {
    engine.with_subscope("orders").unwrap()
}
