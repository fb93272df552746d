//! The configuration of a consumer.

mod consumer;

use super::options::{IdOf, OnMissing, Options};
use crate::consuming::consumer::Consumer;
#[cfg(feature = "tracing")]
use crate::handling::delivery::Delivery;
use crate::handling::failure::OnError;
use crate::handling::handler::Shown;
use crate::handling::takeover::OnTakeover;
use crate::log::consumer::{Log, LogConsumer};
use crate::log::marks::Marks;
use crate::log::memory::Memory;
use crate::log::shared::LogMemory;
use crate::shared::Shared;
use crate::telemetry::kinds::{self, Description};
use hapax_message::{Described, OnMismatch};
#[cfg(doc)]
use hapax_store::ErrorKind;
use hapax_store::back_off::BackOff;
use hapax_store::{Store, StoreError, TieredDedup};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// A builder of a [`Consumer`], which has an engine with a store, or of a [`LogConsumer`], which
/// has a [`Log`].
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
/// let consumer = Consumer::builder("orders", engine, |order: &Order| Some(order.number.clone()))
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
pub struct ConsumerBuilder<E, M> {
    engine: E,
    id_of: IdOf<M>,
    key_of: Option<IdOf<M>>,
    content_of: Option<IdOf<M>>,
    on_takeover: OnTakeover<M>,
    shown: Shown<M>,
    options: Options,
}

impl<S: Store, M: Send + Sync + 'static> Consumer<S, M> {
    /// Starts configuring a consumer.
    ///
    /// The name says whose ids these are ([`Consumer`], "The name"), and metrics and spans show it:
    /// 1 to 128 bytes of text, without control characters and `/`.
    ///
    /// `id_of` returns the id of a message, for example a header or a field, or one of
    /// [`hapax_message::ids`]. `None`, or a blank one, is [missing](ConsumerBuilder::on_missing):
    /// so is that of a message that cannot be parsed.
    pub fn builder<I: AsRef<[u8]>>(
        name: impl Into<String>,
        engine: TieredDedup<S>,
        id_of: impl Fn(&M) -> Option<I> + Send + Sync + 'static,
    ) -> ConsumerBuilder<TieredDedup<S>, M> {
        ConsumerBuilder::new(Options::new(name.into()), engine, id_of)
    }
}

impl<M: Send + Sync + 'static, K: Memory> LogConsumer<M, K> {
    /// Starts configuring a consumer. Metrics and spans show its name, which is as a
    /// [`Consumer`'s](Consumer::builder); it is no scope, since no other consumer has this memory.
    ///
    /// The memory is an engine, or one that follows a partition: [`Memory`]. `id_of` returns the id
    /// of a message. `None`, or a blank one, is [missing](ConsumerBuilder::on_missing).
    pub fn builder<I: AsRef<[u8]>>(
        name: impl Into<String>,
        memory: K,
        id_of: impl Fn(&M) -> Option<I> + Send + Sync + 'static,
    ) -> ConsumerBuilder<Log<K>, M> {
        ConsumerBuilder::new(Options { batch: 1_024, ..Options::new(name.into()) }, Log(memory), id_of)
    }
}

impl<E, M> ConsumerBuilder<E, M> {
    fn new<I: AsRef<[u8]>>(
        options: Options,
        engine: E,
        id_of: impl Fn(&M) -> Option<I> + Send + Sync + 'static,
    ) -> Self {
        let id_of = move |message: &M| {
            let id = id_of(message)?;
            let is_blank = id.as_ref().trim_ascii().is_empty();
            (!is_blank).then(|| id.as_ref().to_vec())
        };
        ConsumerBuilder {
            engine,
            id_of: Arc::new(id_of),
            key_of: None,
            content_of: None,
            on_takeover: OnTakeover::Run,
            shown: Shown::default(),
            options,
        }
    }

    fn with(self, change: impl FnOnce(&mut Options)) -> Self {
        let mut changed = self;
        change(&mut changed.options);
        changed
    }

    /// Sets the treatment of a message whose id is missing, or blank, or cannot be found because
    /// the message is malformed. Default: it is put aside. Either way it is
    /// [counted](super::ConsumerStats::missing).
    pub fn on_missing(self, on_missing: OnMissing) -> Self {
        self.with(|options| options.on_missing = on_missing)
    }

    /// Compares what messages of one id say besides it: a message whose id is in progress or done
    /// with another content is no duplicate, and is treated as
    /// [`on_mismatch`](Self::on_mismatch) says. Default: what has a known id is a duplicate.
    ///
    /// ```
    /// # use hapax_store::{InMemoryStore, TieredDedup};
    /// # use hapax_stream::{Consumer, OnMismatch};
    /// # struct Order { number: String, body: Vec<u8> }
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// # let engine = TieredDedup::builder(InMemoryStore::new()).build().await?;
    /// let consumer = Consumer::builder("orders", engine, |order: &Order| Some(order.number.clone()))
    ///     .fingerprint_by(|order: &Order| Some(order.body.clone()))
    ///     .on_mismatch(OnMismatch::DeadLetter)
    ///     .build()?;
    /// # Ok::<(), hapax_store::StoreError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Return what is the same in each copy, and nothing else: no time of sending, no attempt, no
    /// trace. With `None` a message is not compared, nor is one whose id was completed without a
    /// fingerprint.
    ///
    /// # Cost
    ///
    /// A hash of the content, 16 bytes of which are kept with the id. A [`Consumer`] asks the store
    /// about each repetition: memory knows ids, and no contents. A [`LogConsumer`] claims each
    /// message instead of checking it, which costs as much as two checks, and has [room for
    /// fingerprints](hapax::ClaimOptions::fingerprint) of the last 800,000 ids or more: what is
    /// older, or was handled before it compared, is a duplicate.
    pub fn fingerprint_by<C: AsRef<[u8]>>(
        mut self,
        content_of: impl Fn(&M) -> Option<C> + Send + Sync + 'static,
    ) -> Self {
        self.content_of = Some(Arc::new(move |message: &M| content_of(message).map(|it| it.as_ref().to_vec())));
        self
    }

    /// Sets the treatment of a message whose id belongs to another one, as
    /// [fingerprints](Self::fingerprint_by) tell. Default: it is [put
    /// aside](super::Source::dead_letter), and acknowledged. Either way it is
    /// [counted](super::ConsumerStats::mismatch).
    pub fn on_mismatch(self, on_mismatch: OnMismatch) -> Self {
        self.with(|options| options.on_mismatch = on_mismatch)
    }

    /// Sets the number of handlers that run at a time. A crash of a [`Consumer`] may repeat the
    /// effects of up to twice as many messages: of those being handled, and those being completed.
    /// Default: 64, or fewer if fewer may be unacknowledged.
    pub fn max_in_flight(self, handlers: usize) -> Self {
        self.with(|options| options.max_in_flight = Some(handlers))
    }

    /// Sets the largest number of messages to receive at a time. Default: 256; of a
    /// [`LogConsumer`], which takes a checkpoint behind each batch, 1,024. A crash of that one
    /// repeats two batches at most.
    pub fn batch(self, messages: usize) -> Self {
        self.with(|options| options.batch = messages)
    }

    /// Sets the number of [attempts](super::Delivery::attempt) after which a message is put aside.
    /// Default: 10; of a [`LogConsumer`], and with [`Acks::Cumulative`](super::Acks::Cumulative),
    /// where it stands before all others of its partition, 5.
    ///
    /// The message is put aside when the last attempt fails. If the broker [counts
    /// deliveries](super::Source::deliveries), attempts that never ended count, too: a message that
    /// kills its consumer is put aside unhandled at the next delivery after this many, and one
    /// more, since the first delivery is counted only when it fails. Messages that were in progress
    /// beside it when the process died are not put aside with it: of those that have one attempt
    /// left, one at a time is handled. (With a limit of one they are: the first attempt that is
    /// counted is the last.)
    ///
    /// If the broker does not count (Kafka, RabbitMQ's classic queues), and with a [`LogConsumer`],
    /// failures are counted in this run, and a message that kills its process comes again each
    /// time: nothing is written before a message is handled. A message without an id has no count
    /// but the broker's deliveries.
    ///
    /// The store keeps a count as long as the engine remembers completed ids, and for twice the
    /// longest [delay](Self::retry_delay) at least; with a broker that takes longer to deliver
    /// again, the count begins anew. [`forget`](hapax_store::TieredDedup::forget) forgets it with
    /// the id.
    pub fn max_attempts(self, attempts: u32) -> Self {
        self.with(|options| options.max_attempts = Some(attempts))
    }

    /// Sets what errors of handlers mean for the next attempt: this is asked about each error in
    /// the chain of causes, until one means something else than an attempt that has failed. What
    /// says [`Later`](super::Later) or [`GiveUp`](hapax_message::GiveUp) itself is not asked about.
    /// Default: each is an attempt that has failed.
    ///
    /// ```
    /// # use hapax_store::{InMemoryStore, TieredDedup};
    /// # use hapax_stream::{Consumer, OnError};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// # let engine = TieredDedup::builder(InMemoryStore::new()).build().await?;
    /// let consumer = Consumer::builder("orders", engine, |message: &&str| Some(*message))
    ///     .on_error(|error| match error.downcast_ref::<std::fmt::Error>() {
    ///         Some(_) => OnError::GiveUp,
    ///         None => OnError::common(error), // of the network: later
    ///     })
    ///     .build()?;
    /// # Ok::<(), hapax_store::StoreError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_error(
        self,
        meaning: impl Fn(&(dyn std::error::Error + 'static)) -> OnError + Send + Sync + 'static,
    ) -> Self {
        self.with(|options| options.on_error = Some(Arc::new(meaning)))
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
    /// elsewhere, too. Default: a second and five minutes, so that ten attempts take four to nine
    /// minutes; with [`Acks::Cumulative`](super::Acks::Cumulative), and of a [`LogConsumer`], whose
    /// next batch waits meanwhile, half a second and a minute.
    pub fn retry_delay(self, first: Duration, max: Duration) -> Self {
        self.with(|options| options.back_off = Some(BackOff { first, max }))
    }

    /// Sets the time for which handlers may go on when the consumer is shut down, or their
    /// partition is revoked. They are dropped then. Default: 10 seconds.
    pub fn drain(self, deadline: Duration) -> Self {
        self.with(|options| options.drain = deadline)
    }

    /// Tells kinds of messages apart in metrics, by a label `kind`, and shows
    /// [kind](Described::kind) and `traceparent` of a message in the span of its handler. Default:
    /// neither; all are `*`.
    ///
    /// The first 64 kinds that come, of up to 256 bytes each, are told apart; all others are `*`,
    /// since whoever sends messages may make up any number of kinds. Where anybody may send, name
    /// the kinds, by [`kinds_by`](Self::kinds_by).
    pub fn kinds(mut self) -> Self
    where
        M: Described,
    {
        self.shown.by(Description::by(kinds::kind_of_described()));
        self
    }

    /// Does the same as [`kinds`](Self::kinds), where the kind of a message is elsewhere, in an
    /// envelope in its payload for example, or where some kinds are not to be told apart: `None`.
    pub fn kinds_by(mut self, kind_of: impl Fn(&M) -> Option<String> + Send + Sync + 'static) -> Self
    where
        M: Described,
    {
        self.shown.by(Description::by(kinds::kind_by(kind_of)));
        self
    }

    /// Sets the span in which a message is handled. Default: `hapax_consumer_handle`, at level
    /// debug.
    ///
    /// That is where a message's trace goes on. With tracing-opentelemetry a span has its parent
    /// set before it is entered, and only there: extract the context from the headers of the
    /// delivery, or from its [`TraceContext`](hapax_message::TraceContext), and call `set_parent`
    /// of the span that you return.
    ///
    /// ```
    /// use hapax_message::TraceContext;
    /// use hapax_message::cloudevents::Event;
    /// use hapax_stream::Delivery;
    ///
    /// fn span(delivery: &Delivery<Event>) -> tracing::Span {
    ///     let trace = TraceContext::of(delivery).map(|trace| trace.traceparent());
    ///     let span = tracing::info_span!("order", attempt = delivery.attempt(), trace);
    ///     // `span.set_parent(context)` of tracing-opentelemetry comes here.
    ///     span
    /// }
    /// # use hapax_stream::Consumer;
    /// # use hapax_store::{InMemoryStore, TieredDedup};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// # use hapax_message::Described;
    /// # let engine = TieredDedup::builder(InMemoryStore::new()).build().await?;
    /// # let builder = Consumer::builder("orders", engine, |event: &Event| event.id().map(|id| id.into_owned()));
    /// let consumer = builder.span_by(span).build()?;
    /// # Ok::<(), hapax_store::StoreError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "tracing")]
    pub fn span_by(mut self, span_by: impl Fn(&Delivery<M>) -> tracing::Span + Send + Sync + 'static) -> Self {
        self.shown.span_by(span_by);
        self
    }
}

impl<M, K> ConsumerBuilder<Log<K>, M> {
    /// Sets the time, and the number of messages, after which what is done is made durable and
    /// acknowledged, whichever comes first: for a memory where that costs more than a sync. A crash
    /// repeats that much, and two batches. A broker that delivers again what is not acknowledged in
    /// time must have more time: it is not [told](super::Source::extend) of messages that are done.
    /// Default: no time, so after each batch.
    pub fn persist_every(self, time: Duration, messages: usize) -> Self {
        self.with(|options| options.persist_every = (time, messages))
    }

    /// Builds the consumer.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] names the wrong option.
    pub fn build(self) -> Result<LogConsumer<M, K>, StoreError>
    where
        K: Memory,
    {
        let ConsumerBuilder { engine: Log(memory), id_of, content_of, shown, options, .. } = self;
        options.validate()?;
        let marks = Arc::new(Marks::new(memory.engine().clone()));
        let log = LogMemory { memory, marks, alone: Semaphore::new(1) };
        let mut shared = Shared::new(log, id_of, shown, options);
        shared.content_of = content_of;
        Ok(LogConsumer { shared })
    }
}

impl<E, M> fmt::Debug for ConsumerBuilder<E, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumerBuilder").field("name", &self.options.name).finish_non_exhaustive()
    }
}
