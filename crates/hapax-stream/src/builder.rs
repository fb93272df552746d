//! The configuration of a consumer.

use super::consumer::Consumer;
use super::options::{IdOf, OnMissing, Options};
use super::shared::Shared;
use super::source::Partition;
use super::stats::Counts;
#[cfg(doc)]
use hapax_store::ErrorKind;
use hapax_store::back_off::BackOff;
use hapax_store::{Store, StoreError, TieredDedup};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A builder of a [`Consumer`].
///
/// ```
/// use hapax_stream::{Consumer, OnMissing};
/// use hapax_store::{InMemoryStore, TieredDedup};
/// use std::time::Duration;
///
/// struct Order { number: String }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let engine = TieredDedup::builder(InMemoryStore::new()).build().await?;
/// let consumer = Consumer::builder(engine, |order: &Order| Some(order.number.clone()))
///     .on_missing(OnMissing::DeadLetter)
///     .max_in_flight(16)
///     .max_attempts(3)
///     .handler_timeout(Duration::from_secs(60))
///     .retry_delay(Duration::from_millis(200), Duration::from_secs(30))
///     .build()?;
/// # Ok::<(), hapax_store::StoreError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a builder does nothing until `build` is called"]
pub struct ConsumerBuilder<S: Store, M> {
    engine: TieredDedup<S>,
    id_of: IdOf<M>,
    options: Options,
}

impl<S: Store, M: Send + Sync + 'static> Consumer<S, M> {
    /// Starts configuring a consumer: `id_of` returns the id of a message, for example a header or
    /// a field, or one of [`hapax_message::ids`]. `None`, or a blank one, is
    /// [missing](ConsumerBuilder::on_missing): so is that of a message that cannot be parsed.
    pub fn builder<I: AsRef<[u8]>>(
        engine: TieredDedup<S>,
        id_of: impl Fn(&M) -> Option<I> + Send + Sync + 'static,
    ) -> ConsumerBuilder<S, M> {
        let id_of = move |message: &M| id_of(message).map(|id| id.as_ref().to_vec());
        ConsumerBuilder { engine, id_of: Arc::new(id_of), options: Options::default() }
    }
}

impl<S: Store, M> ConsumerBuilder<S, M> {
    fn with(self, change: impl FnOnce(&mut Options)) -> Self {
        let mut changed = self;
        change(&mut changed.options);
        changed
    }

    /// Sets the name under which metrics and spans show it. Default: none.
    pub fn name(self, name: impl Into<String>) -> Self {
        self.with(|options| options.name = name.into())
    }

    /// Sets the treatment of a message whose id is missing, or blank, or cannot be found because
    /// the message is malformed. Default: it is put aside. Either way it is
    /// [counted](super::ConsumerStats::missing).
    pub fn on_missing(self, on_missing: OnMissing) -> Self {
        self.with(|options| options.on_missing = on_missing)
    }

    /// Sets the number of handlers that run at a time. A crash may repeat the effects of up to
    /// twice as many messages: of those being handled, and those being completed. Default: 64.
    pub fn max_in_flight(self, handlers: usize) -> Self {
        self.with(|options| options.max_in_flight = handlers)
    }

    /// Sets the largest number of messages to receive at a time. Default: 256.
    pub fn batch(self, messages: usize) -> Self {
        self.with(|options| options.batch = messages)
    }

    /// Sets the number of messages that may be received and not acknowledged: no more are received
    /// then. They belong to this consumer, so a slow one keeps this many from others. If a broker
    /// delivers messages that wait here to other consumers
    /// ([`keeps_received`](super::Source::keeps_received)), no more are received than handlers are
    /// free. Default: 1,024.
    pub fn max_unacknowledged(self, messages: usize) -> Self {
        self.with(|options| options.max_unacknowledged = messages)
    }

    /// Sets the number of [attempts](super::Delivery::attempt) after which a message is put aside.
    /// Default: 5.
    ///
    /// The message is put aside when the last attempt fails. If the broker [counts
    /// deliveries](super::Source::deliveries), attempts that never ended count, too: a message that
    /// kills its consumer is put aside unhandled at the next delivery after this many, and one
    /// more, since the first delivery is counted only when it fails. Messages that were in progress
    /// beside it when the process died are not put aside with it: of those that have one attempt
    /// left, one at a time is handled. (With a limit of one they are: the first attempt that is
    /// counted is the last.)
    ///
    /// If the broker does not count (Kafka, RabbitMQ's classic queues), failures are counted in
    /// this run, and a message that kills its process comes again each time: nothing is written
    /// before a message is handled. A message without an id has no count but the broker's
    /// deliveries.
    ///
    /// The store keeps a count as long as the engine remembers completed ids, and for twice the
    /// longest [delay](Self::retry_delay) at least; with a broker that takes longer to deliver
    /// again, the count begins anew. [`forget`](hapax_store::TieredDedup::forget) forgets it with
    /// the id.
    pub fn max_attempts(self, attempts: u32) -> Self {
        self.with(|options| options.max_attempts = attempts)
    }

    /// Sets the time that a handler may take. Then it is dropped where it awaits, its attempt has
    /// failed, which is [counted](super::ConsumerStats::timed_out), and the message is tried again
    /// or put aside like any that fails. Default: 10 minutes.
    ///
    /// The lease is renewed, and the broker told that the message is worked on, for this time at
    /// most: without a limit, a few handlers that hang would stop this consumer for ever, and no
    /// other one would get their messages. It may be longer or shorter than the lease. The default
    /// is longer than handlers of single messages take. As many hanging handlers as
    /// [`max_in_flight`](Self::max_in_flight) stop a consumer for this time, so set the time that
    /// yours need.
    ///
    /// A handler that blocks its thread cannot be dropped: nothing ends it, and its lease is not
    /// renewed, so another consumer handles the message when that is over. Blocking work belongs on
    /// [`spawn_blocking`](tokio::task::spawn_blocking), with a time-out of its own: the handler
    /// that awaits it is dropped in time, but the work goes on, and may still have its effect.
    /// [`Delivery::token`](super::Delivery::token) fences that.
    pub fn handler_timeout(self, timeout: Duration) -> Self {
        self.with(|options| options.handler_timeout = timeout)
    }

    /// Sets the wait before a failed message is tried again: twice as long each time, up to a
    /// limit, and shortened at random by up to a half. The limit holds for messages in progress
    /// elsewhere, too. Default: half a second, a minute.
    pub fn retry_delay(self, first: Duration, max: Duration) -> Self {
        self.with(|options| options.back_off = BackOff { first, max })
    }

    /// Sets the time for which handlers may go on when the consumer is shut down, or their
    /// partition is revoked. They are dropped then. Default: 10 seconds.
    pub fn drain(self, deadline: Duration) -> Self {
        self.with(|options| options.drain = deadline)
    }

    /// Gives each partition's ids a scope of their own, so that the same id in two partitions is
    /// two ids, and each may have a policy. Default: all are in the engine's scope.
    pub fn scope_by(self, scope_of: impl Fn(&Partition) -> String + Send + Sync + 'static) -> Self {
        self.with(|options| options.scope_of = Some(Arc::new(scope_of)))
    }

    /// Builds the consumer.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] names the wrong option.
    pub fn build(self) -> Result<Consumer<S, M>, StoreError> {
        self.options.validate()?;
        let counts = Arc::new(Counts::new(&self.options.name));
        Ok(Consumer { shared: Shared { engine: self.engine, id_of: self.id_of, options: self.options, counts } })
    }
}

impl<S: Store, M> fmt::Debug for ConsumerBuilder<S, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumerBuilder")
            .field("engine", &self.engine)
            .field("name", &self.options.name)
            .finish_non_exhaustive()
    }
}
