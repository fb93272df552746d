//! The consumer: its public interface.

use super::run::Run;
use crate::error::ConsumerError;
use crate::handling::delivery::Delivery;
use crate::handling::handler::Handle;
use crate::shared::Shared;
use crate::source::Source;
use crate::telemetry::event::ConsumerStats;
use crate::telemetry::health::Health;
use hapax_message::Answers;
use hapax_store::{Store, StoreError, TieredDedup};
use std::fmt;

/// A consumer: it receives from a broker, handles each message once, and acknowledges it when it is
/// done.
///
/// ```
/// # use std::{convert::Infallible, sync::{Arc, Mutex}, time::Duration};
/// # struct Broker(Mutex<Vec<Vec<&'static str>>>);
/// # impl hapax_stream::Source for Broker {
/// #     type Message = &'static str;
/// #     type Error = Infallible;
/// #     async fn receive(&self, _: usize) -> Result<Option<Vec<&'static str>>, Infallible> { Ok(self.0.lock().unwrap().pop()) }
/// #     async fn acknowledge(&self, _: &[Arc<&'static str>]) -> Result<(), Infallible> { Ok(()) }
/// #     async fn retry(&self, _: &Arc<&'static str>, _: Duration) -> Result<(), Infallible> { Ok(()) }
/// #     async fn dead_letter(&self, _: &Arc<&'static str>, _: &str) -> Result<(), Infallible> { Ok(()) }
/// # }
/// use hapax_stream::{Consumer, Delivery};
/// use hapax_store::{InMemoryStore, TieredDedup};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// # let broker = Broker(Mutex::new(vec![vec!["b", "a"], vec!["a"]]));
/// # let until_told = std::future::pending();
/// let engine = TieredDedup::builder(InMemoryStore::new()).build().await?;
/// let consumer = Consumer::builder("orders", engine, |message: &&str| Some(*message)).build()?;
/// let handle = |message: Delivery<&'static str>| async move {
///     println!("{} is handled, with fencing token {:?}", *message, message.token());
///     Ok::<(), std::io::Error>(())
/// };
/// let stats = consumer.run(&broker, handle, until_told).await?; // `broker` has delivered "a" twice
/// assert_eq!((stats.received, stats.handled, stats.acknowledged), (3, 2, 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # The name
///
/// A consumer's name is the scope of its ids in the store, beneath the
/// [engine's](hapax_store::TieredBuilder::scope): what one has handled, another one has not.
///
/// - Consumers that must each handle every message have different names: the services of a fan-out,
///   and the consumer of a retry topic, whose messages have the ids that the first one has
///   completed.
/// - Instances that share the work have the same name, today's and the next version's, too. A
///   consumer that is renamed knows no ids, and handles what is delivered again.
/// - Two sources under one name share their ids: a message is handled from one of them, and is a
///   duplicate from the other. That is right for two queues that carry the same messages, and
///   loses messages where the ids are unique within each source only:
///   [`scope_by`](crate::ConsumerBuilder::scope_by) tells those apart, or another name.
///
/// # What it does
///
/// A message is received, claimed by its id, handled, completed, and acknowledged, in batches where
/// there are several. A duplicate is acknowledged at once. A message whose id is being handled here
/// waits for that. One whose id is in progress elsewhere is tried again when the rest of that lease
/// has passed. A message whose handler fails or panics is tried again after a while, and is put
/// aside after a number of [attempts](crate::Delivery::attempt). Deliveries are not counted: a
/// message may wait, or be in progress elsewhere, for any number of them.
///
/// # Guarantees
///
/// - No message is acknowledged before its completion is durable in the store, or it was put aside,
///   or had no id and was to be dropped.
/// - A handled message is recorded, with tries for as long as its lease: if the store is
///   unavailable for less than that, nothing is repeated. Meanwhile the message is neither
///   acknowledged nor tried again.
/// - A message that is not acknowledged comes again, at the latest when the broker misses the
///   acknowledgement: nothing is lost, whenever the run is dropped, or the process dies.
/// - A handler runs once for each completed claim. It may run again if it has failed, if its lease
///   had expired, if the process died before the completion was durable, or if the store did not
///   report whether it was; [`Delivery::token`] fences such a second run.
/// - The lease of a message is renewed for as long as its handler runs, and that is no longer than
///   [`handler_timeout`](crate::ConsumerBuilder::handler_timeout).
/// - With [`Acks::Cumulative`](crate::Acks::Cumulative), no acknowledgement overtakes an unfinished
///   message of its partition. Messages of a partition are handled at the same time.
/// - Once a partition is revoked, none of its messages begins to be handled. Handlers that run may
///   go on until the [deadline](crate::ConsumerBuilder::drain); then each is dropped and its claim
///   released, for the next owner. Nothing of it is acknowledged after [`Source::released`]. A
///   handler that blocks its thread cannot be dropped, and the consumer waits for it no longer than
///   a second; if its claim is still good when it ends, its completion is recorded, so that the
///   next owner does not do it again.
/// - At most [`max_unacknowledged`](crate::ConsumerBuilder::max_unacknowledged) messages are held;
///   while that many are held, none is received.
///
/// # What fails
///
/// A message that is put aside is not done, and its id is free: a copy that is sent anew, as any
/// replay of dead letters does, is handled, with all its attempts. One that the broker only
/// repeats, since it has missed that it was put aside, is [put aside
/// again](ConsumerStats::aside_again): brokers tell them apart by the count of deliveries or by
/// [the name](Source::sent_as) of each.
///
/// A handler whose message is not to blame says [`Later`](crate::Later), which is no attempt;
/// [`OnError`](crate::OnError) finds that in common errors. When five different messages fail one
/// after another, and none succeeds between them, it is not the messages, either: then nothing more
/// is received than one message to try, one is handled at a time, every half second at first and
/// every half minute at last, and what fails is no attempt, until one is handled. After an hour
/// failures count again: where nothing is left but messages that fail by their own fault, these are
/// put aside then.
///
/// If the engine [admits](hapax_store::OnStoreError::Admit) messages while the store cannot be
/// asked, these are handled and acknowledged even if their completion cannot be recorded either
/// ([`ConsumerStats::unrecorded`]): that is the meaning of this policy. Otherwise messages wait for
/// the store, here, without being handled.
///
/// # Cost
///
/// A task for each message that is handled. One call each of claim, complete, acknowledge, retry
/// and dead letter is under way at a time, and takes all messages that have gathered, so batches
/// are as large as the store and the broker are slow. No timer delays anything. A message that the
/// broker has [delivered before](crate::Source::deliveries) costs three requests more, which are
/// batched as well: its attempts are looked up, counted, and forgotten when it is done.
///
/// The result is what Kafka's "exactly-once" and Flink's checkpoints call effectively once:
/// at-least-once delivery, and an idempotent receiver (Hohpe and Woolf, *Enterprise Integration
/// Patterns*, 2003), whose leases and fencing tokens are those of Gray and Cheriton (1989) and of
/// Chubby (Burrows, 2006).
pub struct Consumer<S: Store, M> {
    pub(crate) shared: Shared<TieredDedup<S>, M>,
}

impl<S: Store, M: Send + Sync + 'static> Consumer<S, M> {
    /// Consumes until the source has no more, or `shutdown` is ready. Then nothing more is
    /// received, running handlers may go on until the [deadline](crate::ConsumerBuilder::drain),
    /// finished messages are made durable and acknowledged, and the rest is given back. Runs on a
    /// tokio runtime.
    ///
    /// It may be dropped at any time: handlers are dropped where they wait, and their claims
    /// released.
    ///
    /// # Errors
    ///
    /// [`ConsumerError`]. A handler's errors are not among them.
    ///
    /// # Panics
    ///
    /// If a function that the builder was given panics at a message (that of its id, its key, its
    /// kind or its scope): nothing is lost, but the message comes again at the next run. Return
    /// `None` for what cannot be parsed. A handler's panics are failures, and end no run.
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
        self.run_with(source, Handle::Each(self.shared.handler(handle)), shutdown).await
    }

    /// Consumes as [`run`](Self::run) does, with a handler that gets several messages at a time:
    /// for sinks that take many rows in one statement, or many documents in one request.
    ///
    /// ```
    /// # use std::{convert::Infallible, sync::{Arc, Mutex}, time::Duration};
    /// # struct Broker(Mutex<Vec<Vec<u64>>>);
    /// # impl hapax_stream::Source for Broker {
    /// #     type Message = u64;
    /// #     type Error = Infallible;
    /// #     async fn receive(&self, _: usize) -> Result<Option<Vec<u64>>, Infallible> { Ok(self.0.lock().unwrap().pop()) }
    /// #     async fn acknowledge(&self, _: &[Arc<u64>]) -> Result<(), Infallible> { Ok(()) }
    /// #     async fn retry(&self, _: &Arc<u64>, _: Duration) -> Result<(), Infallible> { Ok(()) }
    /// #     async fn dead_letter(&self, _: &Arc<u64>, _: &str) -> Result<(), Infallible> { Ok(()) }
    /// # }
    /// use hapax_stream::{Consumer, Delivery};
    /// use hapax_store::{InMemoryStore, TieredDedup};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// # let broker = Broker(Mutex::new(vec![vec![4, 2, 3], vec![1, 2, 2]]));
    /// let engine = TieredDedup::builder(InMemoryStore::new()).build().await?;
    /// let consumer = Consumer::builder("readings", engine, |reading: &u64| Some(reading.to_string()))
    ///     .handler_batch(500, Duration::from_millis(20))
    ///     .build()?;
    /// let insert = |batch: Vec<Delivery<u64>>| async move {
    ///     let rows: Vec<u64> = batch.iter().map(|reading| **reading).collect();
    ///     println!("INSERT … SELECT unnest({rows:?})"); // in a transaction
    ///     Ok::<(), std::io::Error>(())
    /// };
    /// let stats = consumer.run_batches(&broker, insert, std::future::pending()).await?;
    /// assert_eq!((stats.received, stats.handled, stats.duplicate), (6, 4, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Batches
    ///
    /// A batch begins when [as many messages](crate::ConsumerBuilder::handler_batch) as it may have
    /// wait for a handler, or when the first of them has waited for the others for the time that is
    /// set, counted from its receipt; at once, if the source has no more. Then all are claimed, in
    /// one request. Those that turn out to be duplicates are left out, so a batch may be smaller,
    /// and never empty. All messages of a batch are fresh, each with a claim of its own, and of
    /// different ids. With [`in_order_by`](crate::ConsumerBuilder::in_order_by) they are of
    /// different keys: the next one of a key is handled when the last one is recorded. With
    /// [`scope_by`](crate::ConsumerBuilder::scope_by) they are of one partition.
    ///
    /// # Answers
    ///
    /// - `Ok(())`: all are done. They are completed in one request, and acknowledged.
    /// - A `Vec` with [a result for each](Answers): those that are `Ok` are done; an error concerns
    ///   its message alone, as if [`run`](Self::run) had handled it. For another number of results
    ///   than there are messages the batch has failed.
    /// - An error with [`Later`](crate::Later): all are tried again later, and it was no attempt.
    /// - Any other error, a panic, or the [time-out](crate::ConsumerBuilder::handler_timeout): it
    ///   is unknown which message is to blame. The batch is halved, and its halves are handled one
    ///   after the other, down to single messages, whose failures count, as
    ///   [`GiveUp`](crate::GiveUp) does. A message of 500 that always fails costs the others up to
    ///   18 calls more, and none of them an attempt. In an [outage](crate::Health::Outage) all of
    ///   them are tried again later, unless it says `GiveUp`.
    ///
    /// A batch that has failed must have had no effect, as a transaction that is rolled back has
    /// none: most of its messages are handled again.
    ///
    /// # What fails
    ///
    /// - The leases of all messages are renewed together, also of those whose half is not its turn.
    ///   If some are lost, the handler is dropped; these come again later, and the others are
    ///   handled again at once, without them.
    /// - A message that is to stop (its partition was revoked, and its
    ///   [deadline](crate::ConsumerBuilder::drain) is over) ends in the same way. At a shutdown all
    ///   of them are to stop.
    /// - A message that was in a batch when its process died is handled by itself from then on, if
    ///   the broker [counts deliveries](Source::deliveries) and an attempt at it had been counted:
    ///   one that kills its process takes no others with it to the dead letters.
    /// - If the process dies behind the effect of a batch, all of it is handled again: up to twice
    ///   [`max_in_flight`](crate::ConsumerBuilder::max_in_flight) batches. A sink that keeps their
    ///   ids with their rows, in the same transaction, has the effect once.
    ///
    /// # Errors
    ///
    /// Those of [`run`](Self::run).
    ///
    /// # Panics
    ///
    /// As [`run`](Self::run) does.
    pub async fn run_batches<Src, H, F, A, E>(
        &self,
        source: &Src,
        handle: H,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<ConsumerStats, ConsumerError<Src::Error>>
    where
        Src: Source<Message = M>,
        H: Fn(Vec<Delivery<M>>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<A, E>> + Send + 'static,
        A: Into<Answers>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.run_with(source, self.shared.batch_handler(handle), shutdown).await
    }

    async fn run_with<Src: Source<Message = M>>(
        &self,
        source: &Src,
        handle: Handle<M>,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<ConsumerStats, ConsumerError<Src::Error>> {
        if self.shared.key_of.is_some() && !source.keeps_received() {
            return Err(ConsumerError::OrderNotKept);
        }
        Run::new(&self.shared, source, handle, shutdown).run().await?;
        Ok(self.stats())
    }

    /// Stops receiving and handling until it is [resumed](Self::resume), also before it runs.
    /// Handlers that run go on to their end. Messages that were received stay here, and their
    /// broker is told that they are worked on, if it [wants to know](Source::heartbeat); a broker
    /// that gives them to others after a time does so.
    pub fn pause(&self) {
        self.shared.standing.paused.send_replace(true);
    }

    /// Goes on after a [pause](Self::pause).
    pub fn resume(&self) {
        self.shared.standing.paused.send_replace(false);
    }

    /// Has every message handled that comes, duplicate or not, from now on, or no more, as
    /// [`TieredDedup::bypass`](hapax_store::TieredDedup::bypass) says: without a claim, and without
    /// a word to the store. Messages of one id still wait for one another here. Those that wait for
    /// a store that is away are handled when it was to be asked again, within 30 s.
    ///
    /// Retries, order and dead letters are as ever; failures are counted in this run, and tokens
    /// are zero. What was handled so is not recorded: it is handled again if it comes again later.
    pub fn bypass(&self, on: bool) {
        self.shared.engine.bypass(on);
    }

    /// Has a message that was put aside handled again, even if it comes as the same delivery once
    /// more. Returns true if its id was put aside; one that is done or in progress is left alone.
    ///
    /// It looks in the consumer's own scope: with
    /// [`scope_by`](crate::ConsumerBuilder::scope_by) ask the engine of a partition's scope. What
    /// is sent anew, as replays of dead letters do, is handled without this: see
    /// [`TieredDedup::redrive`](hapax_store::TieredDedup::redrive).
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn redrive(&self, id: impl AsRef<[u8]>) -> Result<bool, StoreError> {
        self.shared.engine.redrive(id).await
    }

    /// Returns whether it gets on, also while it runs: for a check of health, which should report
    /// [`Health::Stalled`], and perhaps the others.
    pub fn health(&self) -> Health {
        match self.shared.health() {
            Health::Good if self.shared.engine.is_bypassed() => Health::Bypassed,
            health => health,
        }
    }

    /// Returns the counts so far, also while it runs.
    pub fn stats(&self) -> ConsumerStats {
        self.shared.counts.stats()
    }
}

impl<S: Store, M> fmt::Debug for Consumer<S, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("engine", &self.shared.engine)
            .field("name", &self.shared.options.name)
            .finish_non_exhaustive()
    }
}
