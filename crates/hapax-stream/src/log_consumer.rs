//! A consumer of a log: its public interface and its options.

use super::delivery::Delivery;
use super::error::ConsumerError;
use super::failure::OnError;
use super::handler::{Shown, handler};
use super::kinds::{Description, Kinds};
use super::log_run::LogRun;
use super::log_shared::LogShared;
use super::marks::Marks;
use super::memory::Memory;
use super::options::{IdOf, OnMissing, Options};
use super::source::Source;
use super::standing::{Health, Standing};
use super::stats::{ConsumerStats, Counts};
use hapax::Dedup;
use hapax_message::Described;
use hapax_store::StoreError;
use hapax_store::back_off::BackOff;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// A consumer of a log that can be read again: it marks messages at sight, handles those that are
/// new, takes a [checkpoint](hapax::JournalHandle::checkpoint), and acknowledges. It takes no claim
/// and no store: the engine is this consumer's alone, with a journal of its own that has
/// [checkpoints](hapax::JournalOptions::checkpoints).
///
/// ```
/// # use std::{convert::Infallible, sync::{Arc, Mutex}, time::Duration};
/// # struct Log(Mutex<Vec<Vec<&'static str>>>);
/// # impl hapax_stream::Source for Log {
/// #     type Message = &'static str;
/// #     type Error = Infallible;
/// #     async fn receive(&self, _: usize) -> Result<Option<Vec<&'static str>>, Infallible> { Ok(self.0.lock().unwrap().pop()) }
/// #     async fn acknowledge(&self, _: &[Arc<&'static str>]) -> Result<(), Infallible> { Ok(()) }
/// #     async fn retry(&self, _: &Arc<&'static str>, _: Duration) -> Result<(), Infallible> { Ok(()) }
/// #     async fn dead_letter(&self, _: &Arc<&'static str>, _: &str) -> Result<(), Infallible> { Ok(()) }
/// # }
/// # let directory = std::env::temp_dir().join(format!("hapax-doc-log-consumer-{}", std::process::id()));
/// use hapax::{Dedup, JournalOptions};
/// use hapax_stream::{Delivery, LogConsumer};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// # let log = Log(Mutex::new(vec![vec!["b", "a"], vec!["a"]]));
/// # let until_told = std::future::pending();
/// let engine = Dedup::builder().journal(&directory, JournalOptions::new().checkpoints(true)).build()?;
/// let consumer = LogConsumer::builder("orders", engine, |message: &&str| Some(*message)).build()?;
/// let handle = |message: Delivery<&'static str>| async move {
///     println!("{} is handled", *message);
///     Ok::<(), std::io::Error>(())
/// };
/// let stats = consumer.run(&log, handle, until_told).await?; // `log` has delivered "a" twice
/// assert_eq!((stats.received, stats.handled, stats.acknowledged), (3, 2, 3));
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A batch is received, checked, and its new messages are handled, some at a time. A message whose
/// handler fails is tried again here, after a while, and put aside after a number of attempts: then
/// it is forgotten, so that a copy that is sent anew is handled (unless the engine has a history,
/// which cannot forget, and may take it for a duplicate). What a handler's error says about the
/// next attempt, and what happens when different messages fail one after another, is as in a
/// [`Consumer`](super::Consumer). When all of the batch is done, the checkpoint is taken; while the
/// next batch is being handled, it is made durable, and after that the messages are acknowledged.
///
/// # Guarantees
///
/// - No message is acknowledged before the checkpoint that has it is durable: whatever was not
///   acknowledged comes again, and nothing is lost, whenever the run is dropped or the process
///   dies.
/// - After a crash, messages are handled again only if they were handled after the last durable
///   checkpoint: those of two batches at most.
/// - A message that was not handled to its end is forgotten, however the run ends, so that its next
///   delivery is handled. (A history cannot forget: then the run ends with
///   [`NotForgotten`](ConsumerError::NotForgotten), and no checkpoint is taken any more. An engine
///   that is built again is at the last one.)
/// - With [`Acks::Cumulative`](super::Acks::Cumulative), no acknowledgement overtakes an unfinished
///   message of its partition.
/// - When partitions are revoked, running handlers may go on until the [deadline](
///   LogConsumerBuilder::drain); what is done then is made durable and acknowledged, what is not is
///   forgotten, and only then the partitions are [released](Source::released).
///
/// - When the memory is [lost](Memory::lost), handlers are dropped at once, and nothing is
///   acknowledged any more.
///
/// An engine does not follow a partition: its next owner has its own, so a repetition of what this
/// one has handled is handled there again. A [`Memory`] may: `Owned` of `hapax-handover` does.
///
/// # Cost
///
/// One check of each message, in batches, one sync for each batch, and two small allocations for
/// each message that is handled. Handlers run in the task of [`run`](Self::run), many at a time but
/// on one thread: work that keeps a processor busy belongs on
/// [`spawn_blocking`](tokio::task::spawn_blocking) or a task of its own.
pub struct LogConsumer<M, K = Dedup> {
    shared: LogShared<M, K>,
}

impl<M: Send + Sync + 'static, K: Memory> LogConsumer<M, K> {
    /// Starts configuring a consumer. Metrics and spans show its name, which is as a
    /// [`Consumer`'s](super::Consumer::builder); it is no scope, since no other consumer has this
    /// memory.
    ///
    /// The memory is an engine, or one that follows a partition: [`Memory`]. `id_of` returns the id
    /// of a message. `None`, or a blank one, is [missing](LogConsumerBuilder::on_missing).
    pub fn builder<I: AsRef<[u8]>>(
        name: impl Into<String>,
        memory: K,
        id_of: impl Fn(&M) -> Option<I> + Send + Sync + 'static,
    ) -> LogConsumerBuilder<M, K> {
        let id_of = move |message: &M| id_of(message).map(|id| id.as_ref().to_vec());
        let options = Options { batch: 1_024, ..Options::new(name.into()) };
        LogConsumerBuilder { memory, id_of: Arc::new(id_of), shown: Shown::default(), options }
    }

    /// Consumes until the source has no more, or `shutdown` is ready. Then nothing more is
    /// received, running handlers may go on until the [deadline](LogConsumerBuilder::drain), and
    /// what is done is made durable and acknowledged. Runs on a tokio runtime.
    ///
    /// It may be dropped at any time: handlers are dropped where they wait, and their messages
    /// forgotten.
    ///
    /// # Errors
    ///
    /// [`ConsumerError`]: of the source, or of the memory. A handler's errors are not among them.
    ///
    /// # Panics
    ///
    /// If a function that the builder was given panics at a message: as
    /// [`Consumer::run`](super::Consumer::run).
    pub async fn run<Src, H, F, E>(
        &self,
        source: &Src,
        handle: H,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<ConsumerStats, ConsumerError<Src::Error>>
    where
        Src: Source<Message = M>,
        H: Fn(Delivery<M>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let handler = handler(handle, Arc::clone(&self.shared.shown), self.shared.options.on_error.clone());
        LogRun::new(&self.shared, source, handler).run(Box::pin(shutdown)).await?;
        Ok(self.stats())
    }

    /// Returns the counts so far, also while it runs.
    pub fn stats(&self) -> ConsumerStats {
        self.shared.counts.stats()
    }

    /// Returns whether it gets on, also while it runs.
    pub fn health(&self) -> Health {
        self.shared.standing.health(Instant::now())
    }
}

impl<M, K> fmt::Debug for LogConsumer<M, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogConsumer").field("name", &self.shared.options.name).finish_non_exhaustive()
    }
}

/// A builder of a [`LogConsumer`].
///
/// ```
/// # let directory = std::env::temp_dir().join(format!("hapax-doc-log-builder-{}", std::process::id()));
/// use hapax::{Dedup, JournalOptions};
/// use hapax_stream::LogConsumer;
/// use std::time::Duration;
///
/// struct Order { number: String }
///
/// let engine = Dedup::builder().journal(&directory, JournalOptions::new().checkpoints(true)).build()?;
/// let consumer = LogConsumer::builder("orders", engine, |order: &Order| Some(order.number.clone()))
///     .batch(4_096)
///     .max_in_flight(16)
///     .handler_timeout(Duration::from_secs(60))
///     .build()?;
/// # drop(consumer);
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a builder does nothing until `build` is called"]
pub struct LogConsumerBuilder<M, K = Dedup> {
    memory: K,
    id_of: IdOf<M>,
    shown: Shown<M>,
    options: Options,
}

impl<M, K> LogConsumerBuilder<M, K> {
    fn with(self, change: impl FnOnce(&mut Options)) -> Self {
        let mut changed = self;
        change(&mut changed.options);
        changed
    }

    /// Sets the treatment of a message whose id is missing, or blank. Default: it is put aside.
    pub fn on_missing(self, on_missing: OnMissing) -> Self {
        self.with(|options| options.on_missing = on_missing)
    }

    /// Sets the number of handlers that run at a time. Default: 64.
    pub fn max_in_flight(self, handlers: usize) -> Self {
        self.with(|options| options.max_in_flight = handlers)
    }

    /// Sets the largest number of messages of a batch, with a checkpoint behind it. A crash repeats
    /// two batches at most. Default: 1,024.
    pub fn batch(self, messages: usize) -> Self {
        self.with(|options| options.batch = messages)
    }

    /// Sets the number of attempts after which a message is put aside. They are counted here, so a
    /// message that kills its process comes again each time. Default: 5.
    pub fn max_attempts(self, attempts: u32) -> Self {
        self.with(|options| options.max_attempts = Some(attempts))
    }

    /// Sets what errors of handlers mean for the next attempt, as
    /// [`ConsumerBuilder::on_error`](super::ConsumerBuilder::on_error) does. Default: each is an
    /// attempt that has failed.
    pub fn on_error(
        self,
        meaning: impl Fn(&(dyn std::error::Error + 'static)) -> OnError + Send + Sync + 'static,
    ) -> Self {
        self.with(|options| options.on_error = Some(Arc::new(meaning)))
    }

    /// Sets the time that a handler may take. Then it is dropped where it awaits, and its attempt
    /// has failed. Default: 10 minutes.
    pub fn handler_timeout(self, timeout: Duration) -> Self {
        self.with(|options| options.handler_timeout = timeout)
    }

    /// Sets the wait before a failed message is tried again: twice as long each time, up to a
    /// limit, and shortened at random by up to a half. The rest of its batch goes on meanwhile, and
    /// the next batch waits. Default: half a second, a minute.
    pub fn retry_delay(self, first: Duration, max: Duration) -> Self {
        self.with(|options| options.back_off = Some(BackOff { first, max }))
    }

    /// Sets the time for which handlers may go on when the consumer is shut down, or their
    /// partition is revoked. They are dropped then. Default: 10 seconds.
    pub fn drain(self, deadline: Duration) -> Self {
        self.with(|options| options.drain = deadline)
    }

    /// Sets the time, and the number of messages, after which what is done is made durable and
    /// acknowledged, whichever comes first: for a memory where that costs more than a sync. A crash
    /// repeats that much, and two batches. A broker that delivers again what is not acknowledged in
    /// time must have more time: it is not [told](Source::extend) of messages that are done.
    /// Default: no time, so after each batch.
    pub fn persist_every(self, time: Duration, messages: usize) -> Self {
        self.with(|options| options.persist_every = (time, messages))
    }

    /// Tells kinds of messages apart in metrics and spans, as
    /// [`ConsumerBuilder::kinds`](super::ConsumerBuilder::kinds) does. Default: all are `*`.
    pub fn kinds(mut self, kinds: Kinds) -> Self
    where
        M: Described,
    {
        self.shown.by(Description::of_described(kinds));
        self
    }

    /// Does the same as [`kinds`](Self::kinds), where the kind of a message is elsewhere. It is
    /// asked for once a message.
    pub fn kinds_by(mut self, kinds: Kinds, kind_of: impl Fn(&M) -> Option<String> + Send + Sync + 'static) -> Self
    where
        M: Described,
    {
        self.shown.by(Description::by(kinds, kind_of));
        self
    }

    /// Sets the span in which a message is handled, as
    /// [`ConsumerBuilder::span_by`](super::ConsumerBuilder::span_by) does.
    #[cfg(feature = "tracing")]
    pub fn span_by(mut self, span_by: impl Fn(&Delivery<M>) -> tracing::Span + Send + Sync + 'static) -> Self {
        self.shown.span_by(span_by);
        self
    }

    /// Builds the consumer.
    ///
    /// # Errors
    ///
    /// An error that names the wrong option.
    pub fn build(self) -> Result<LogConsumer<M, K>, StoreError>
    where
        K: Memory,
    {
        let LogConsumerBuilder { memory, id_of, shown, mut options } = self;
        // (There is no such option here: no more are held than a batch.)
        options.max_unacknowledged = options.max_in_flight.clamp(1, 1 << 20);
        options.validate()?;
        let (shown, counts) = (shown.under(&options.name)?, Arc::new(Counts::new(&options.name)));
        let marks = Arc::new(Marks::new(memory.engine().clone()));
        let (standing, alone) = (Arc::new(Standing::new()), Semaphore::new(1));
        Ok(LogConsumer { shared: LogShared { memory, marks, id_of, options, counts, standing, alone, shown } })
    }
}

impl<M, K> fmt::Debug for LogConsumerBuilder<M, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogConsumerBuilder").field("name", &self.options.name).finish_non_exhaustive()
    }
}
