//! The interface of a consumer that is tried.

use super::world::World;
use std::sync::Arc;

/// An error of a handler: the message is delivered again.
pub type Failed = Box<dyn std::error::Error + Send + Sync>;

/// A message, as a handler gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// The id. Copies that were sent twice have the same.
    pub id: String,
    /// The number of the message, from one. Copies have the same.
    pub number: u64,
    /// The number of times that the broker has delivered it so far, this time included. A copy that
    /// was sent twice has a count of its own.
    pub deliveries: u32,
}

/// A consumer of an at-least-once broker, to be tried by a [`Simulation`](super::Simulation).
///
/// ```
/// use hapax_testing::consumer::{Consumer, Failed, Message, Simulation, World};
/// use std::collections::HashSet;
/// use std::sync::{Arc, Mutex};
///
/// /// Keeps the ids of handled messages in a table, in the transaction of the effect.
/// struct Transactional;
///
/// impl Consumer for Transactional {
///     type Durable = Mutex<HashSet<String>>;
///     type Process = Arc<Self::Durable>;
///
///     fn durable(&self, _: &World) -> Self::Durable {
///         Mutex::default()
///     }
///
///     async fn start(&self, durable: &Arc<Self::Durable>, _: &World) -> Result<Self::Process, Failed> {
///         Ok(Arc::clone(durable))
///     }
///
///     async fn handle(&self, table: &Self::Process, message: &Message, world: &World) -> Result<(), Failed> {
///         let transaction = || {
///             if table.lock().unwrap().insert(message.id.clone()) {
///                 world.effect(&message.id);
///             }
///         };
///         Ok(world.call("database: transaction", transaction).await?)
///     }
/// }
///
/// println!("{}", Simulation::new(Transactional).run()?);
/// # Ok::<(), Box<hapax_testing::consumer::Finding>>(())
/// ```
///
/// # Guarantees
///
/// Each schedule begins with a new [`durable`](Consumer::durable) state. All handlers of a schedule
/// are polled by one thread, inside a tokio runtime whose time is virtual: `tokio::time::sleep` and
/// `timeout` cost nothing, and `tokio::spawn` works.
pub trait Consumer: Sync {
    /// The state that survives crashes: databases, caches, files, the services that are called.
    /// All processes share it.
    type Durable;
    /// The memory of one process: lost when it crashes.
    type Process;

    /// Creates the durable state, empty.
    fn durable(&self, world: &World) -> Self::Durable;

    /// Starts a process, when it gets its first message.
    ///
    /// # Errors
    ///
    /// The message is delivered again, and the process starts again with its next one.
    fn start(&self, durable: &Arc<Self::Durable>, world: &World)
    -> impl Future<Output = Result<Self::Process, Failed>>;

    /// Handles a delivery of a message. When it returns, the message is acknowledged.
    ///
    /// Whatever is done outside of the process goes through [`World::call`].
    ///
    /// # Errors
    ///
    /// The message is not acknowledged, and is delivered again later.
    fn handle(
        &self,
        process: &Self::Process,
        message: &Message,
        world: &World,
    ) -> impl Future<Output = Result<(), Failed>>;
}
