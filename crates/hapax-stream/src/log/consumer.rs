//! A consumer of a log: its public interface.

use super::memory::Memory;
use super::run::LogRun;
use super::shared::LogShared;
use crate::error::ConsumerError;
use crate::handling::delivery::Delivery;
use crate::source::Source;
use crate::telemetry::event::ConsumerStats;
use crate::telemetry::health::Health;
use hapax::Dedup;
use std::fmt;

/// A consumer of a log that can be read again: it marks messages on sight, handles those that are
/// new, takes a [checkpoint](hapax::JournalHandle::checkpoint), and acknowledges. It takes no
/// store, and claims only to [compare contents](crate::ConsumerBuilder::fingerprint_by): the engine
/// is this consumer's alone, with a journal of its own that has
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
/// [`Consumer`](crate::Consumer). When all of the batch is done, the checkpoint is taken; while the
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
/// - With [`Acks::Cumulative`](crate::Acks::Cumulative), no acknowledgement overtakes an unfinished
///   message of its partition.
/// - When partitions are revoked, running handlers may go on until the [deadline](
///   crate::ConsumerBuilder::drain); what is done then is made durable and acknowledged, what is
///   not is forgotten, and only then the partitions are [released](Source::released).
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
    pub(crate) shared: LogShared<M, K>,
}

impl<M: Send + Sync + 'static, K: Memory> LogConsumer<M, K> {
    /// Consumes until the source has no more, or `shutdown` is ready. Then nothing more is
    /// received, running handlers may go on until the [deadline](crate::ConsumerBuilder::drain),
    /// and what is done is made durable and acknowledged. Runs on a tokio runtime.
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
    /// [`Consumer::run`](crate::Consumer::run).
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
        LogRun::new(&self.shared, source, self.shared.handler(handle)).run(Box::pin(shutdown)).await?;
        Ok(self.stats())
    }

    /// Returns the counts so far, also while it runs.
    pub fn stats(&self) -> ConsumerStats {
        self.shared.counts.stats()
    }

    /// Returns whether it gets on, also while it runs.
    pub fn health(&self) -> Health {
        self.shared.health()
    }
}

impl<M, K> fmt::Debug for LogConsumer<M, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogConsumer").field("name", &self.shared.options.name).finish_non_exhaustive()
    }
}

/// The memory of a [`LogConsumer`] that is being built.
#[derive(Debug)]
pub struct Log<K>(pub(crate) K);
