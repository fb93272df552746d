//! The options of a [`Consumer`] alone.

use super::ConsumerBuilder;
use crate::consuming::consumer::Consumer;
use crate::handling::takeover::OnTakeover;
use crate::shared::Shared;
use crate::source::Partition;
#[cfg(doc)]
use hapax_store::ErrorKind;
use hapax_store::{Store, StoreError, TieredDedup};
use std::sync::Arc;
use std::time::Duration;

impl<S: Store, M> ConsumerBuilder<TieredDedup<S>, M> {
    /// Sets the number of messages that may be received and not acknowledged: no more are received
    /// then. They belong to this consumer, so a slow one keeps this many from others. If a broker
    /// delivers messages that wait here to other consumers
    /// ([`keeps_received`](crate::Source::keeps_received)), no more are received than handlers are
    /// free. Default: 1,024, or as many as are handled at a time if that is more.
    pub fn max_unacknowledged(self, messages: usize) -> Self {
        self.with(|options| options.max_unacknowledged = Some(messages))
    }

    /// Sets the largest number of messages that a handler of
    /// [`run_batches`](Consumer::run_batches) gets, and the time for which a message that was
    /// received waits for others. [`max_in_flight`](Self::max_in_flight) is the number of such
    /// batches at a time; all of them together have
    /// [`max_unacknowledged`](Self::max_unacknowledged) messages at most. Default: 256, or fewer if
    /// fewer may be unacknowledged, and 10 ms.
    pub fn handler_batch(self, messages: usize, within: Duration) -> Self {
        self.with(|options| options.handler_batch = Some((messages, within)))
    }

    /// Gives each partition's ids a scope of their own beneath the consumer's, so that the same id
    /// in two partitions is two ids, and each may have a policy: `billing/orders/3` is that of the
    /// consumer `billing` and the partition's scope `orders/3`. Default: all are in the consumer's
    /// scope.
    pub fn scope_by(self, scope_of: impl Fn(&Partition) -> String + Send + Sync + 'static) -> Self {
        self.with(|options| options.scope_of = Some(Arc::new(scope_of)))
    }

    /// Sets the treatment of a message whose effect may be there already, since an earlier claim of
    /// it is in doubt ([`Delivery::before`](crate::Delivery::before)). Default: it is handled.
    /// Either way it is [counted](crate::ConsumerStats::taken_over), and the age of the oldest one
    /// is a metric. (Claims of an exclusive engine are in memory alone, and never in doubt.)
    pub fn on_takeover(mut self, on_takeover: OnTakeover<M>) -> Self {
        self.on_takeover = on_takeover;
        self
    }

    /// Handles messages of the same key one after the other, as they were received, and different
    /// keys side by side. Default: all of them side by side. A message without a key has no order.
    ///
    /// ```
    /// # use hapax_store::{InMemoryStore, TieredDedup};
    /// # use hapax_stream::Consumer;
    /// # struct Order { number: String, change: String }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// # let engine = TieredDedup::builder(InMemoryStore::new()).build().await?;
    /// let consumer = Consumer::builder("orders", engine, |order: &Order| Some(order.change.clone()))
    ///     .in_order_by(|order: &Order| Some(order.number.clone()))
    ///     .build()?;
    /// # Ok::<(), hapax_store::StoreError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A message is handled when all of its key that were received before it are done (their
    /// completion is recorded) or put aside. One that failed, or is in progress elsewhere, is tried
    /// again here, also if the broker would take it back, and those of its key wait for it: for
    /// [`max_attempts`](Self::max_attempts) times the [time-out](Self::handler_timeout) and the
    /// delays between them, and as long as handlers say [`Later`](crate::Later) or what they depend
    /// on is away ([`Health::Outage`](crate::Health)). A message that is put aside does not stop
    /// its key: an order that must not go on without it needs a handler that looks.
    ///
    /// # Conditions
    ///
    /// - The source [keeps](crate::Source::keeps_received) what was received until it is
    ///   acknowledged. [`run`](Consumer::run) fails with
    ///   [`OrderNotKept`](crate::ConsumerError::OrderNotKept) otherwise.
    /// - The order is that of receipt, by this consumer. It is the order of sending if the broker
    ///   delivers so, a key's messages to one consumer at a time: partitions do, and the groups of
    ///   an SQS FIFO queue. At a shutdown, what is not done goes back to the broker: what waits at
    ///   once, and what a handler has when that has ended. A broker that does not put it back in
    ///   its place changes the order.
    /// - A handler's work ends when it is dropped. Work that goes on after that
    ///   ([`spawn_blocking`](tokio::task::spawn_blocking)), or that blocks its thread beyond the
    ///   release of its partition, goes on beside the next message of its key.
    /// - Messages that wait for their key count as unacknowledged. A key whose handler is stuck
    ///   keeps no other key waiting until it has
    ///   [`max_unacknowledged`](Self::max_unacknowledged) messages here: then nothing is received
    ///   before one of them is done.
    ///
    /// Keys are the same in all partitions: put the partition into the key if they are not.
    pub fn in_order_by<K: AsRef<[u8]>>(mut self, key_of: impl Fn(&M) -> Option<K> + Send + Sync + 'static) -> Self {
        self.key_of = Some(Arc::new(move |message: &M| key_of(message).map(|key| key.as_ref().to_vec())));
        self
    }

    /// Builds the consumer.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] names the wrong option.
    pub fn build(self) -> Result<Consumer<S, M>, StoreError> {
        let ConsumerBuilder { engine, id_of, key_of, content_of, on_takeover, shown, options } = self;
        options.validate()?;
        let engine = options.scoped(&engine)?;
        let mut shared = Shared::new(engine, id_of, shown, options);
        (shared.key_of, shared.content_of, shared.on_takeover) = (key_of, content_of, on_takeover);
        Ok(Consumer { shared })
    }
}
