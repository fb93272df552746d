//! A fan-out, and a retry topic: consumers that must each handle a message have a name each.
//!
//! A consumer's name is the scope of its ids in the store. With one name for two services, the
//! second one would take everything for done, since the first has done it.

use hapax_store::{Store, StoreError, TieredDedup};
use hapax_stream::Consumer;

/// An order that several services get, each from a queue or a group of its own.
#[derive(Clone)]
pub struct Order {
    /// The producer's id: the same in every queue.
    pub id: String,
}

/// Returns the consumer of a service, by the service's name. All its instances have this name.
///
/// # Errors
///
/// The name is blank, too long, or has a slash.
pub fn of_service<S: Store>(service: &str, engine: TieredDedup<S>) -> Result<Consumer<S, Order>, StoreError> {
    Consumer::builder(service, engine, |order: &Order| Some(order.id.clone())).build()
}

/// Returns the consumer of the topic to which a service's handler sends what it cannot do now, and
/// returns `Ok`: these ids are completed under the service's name.
///
/// # Errors
///
/// Those of [`of_service`].
pub fn of_retries<S: Store>(service: &str, engine: TieredDedup<S>) -> Result<Consumer<S, Order>, StoreError> {
    of_service(&format!("{service}-retry"), engine)
}
