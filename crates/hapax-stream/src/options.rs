//! The configuration of a consumer.

use super::consumer::Consumer;
use super::source::Partition;
use super::stats::Counts;
use hapax_store::back_off::BackOff;
use hapax_store::{ErrorKind, Scope, Store, StoreError, TieredDedup};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The treatment of a message whose id is missing or blank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMissing {
    /// It is [put aside](super::Source::dead_letter), and acknowledged, unhandled.
    #[default]
    DeadLetter,
    /// It is handled like one that is not claimed: a repetition is handled again.
    Pass,
    /// It is acknowledged, and not handled.
    Drop,
    /// The run ends with an error, and so does the next one, for as long as the broker delivers it
    /// again: for streams where nothing may be left out. The message is not acknowledged.
    Error,
}

/// A function that returns the id of a message.
pub(super) type IdOf<M> = Arc<dyn Fn(&M) -> Option<Vec<u8>> + Send + Sync>;
/// A function that names the scope of a partition's ids.
pub(super) type ScopeOf = Arc<dyn Fn(&Partition) -> String + Send + Sync>;

#[derive(Clone)]
pub(super) struct Options {
    pub(super) name: String,
    pub(super) on_missing: OnMissing,
    pub(super) max_in_flight: usize,
    pub(super) batch: usize,
    pub(super) max_unacknowledged: usize,
    pub(super) max_attempts: u32,
    pub(super) handler_timeout: Duration,
    pub(super) back_off: BackOff,
    pub(super) drain: Duration,
    pub(super) scope_of: Option<ScopeOf>,
}

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

impl<S: Store, M> ConsumerBuilder<S, M> {
    pub(super) fn new<I: AsRef<[u8]>>(
        engine: TieredDedup<S>,
        id_of: impl Fn(&M) -> Option<I> + Send + Sync + 'static,
    ) -> Self {
        let id_of = move |message: &M| id_of(message).map(|id| id.as_ref().to_vec());
        let options = Options {
            name: String::new(),
            on_missing: OnMissing::default(),
            max_in_flight: 64,
            batch: 256,
            max_unacknowledged: 1_024,
            max_attempts: 5,
            handler_timeout: Duration::from_secs(600),
            back_off: BackOff { first: Duration::from_millis(500), max: Duration::from_secs(60) },
            drain: Duration::from_secs(10),
            scope_of: None,
        };
        ConsumerBuilder { engine, id_of: Arc::new(id_of), options }
    }

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
    /// again, the count begins anew. [`forget`](hapax_store::TieredDedup::forget) forgets it with the id.
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
        Ok(Consumer { engine: self.engine, id_of: self.id_of, options: self.options, counts })
    }
}

impl Options {
    fn validate(&self) -> Result<(), StoreError> {
        let check = |valid: bool, option: &str, got: &dyn fmt::Debug, expected: &str| match valid {
            true => Ok(()),
            false => {
                let wrong = format!("option `{option}`: got {got:?}, expected {expected}");
                Err(StoreError::new(ErrorKind::Misconfigured, "hapax", wrong))
            }
        };
        const MAX: Duration = Duration::from_secs(366 * 24 * 3600);
        let sane = |time: Duration| !time.is_zero() && time <= MAX;
        let several = 1..=1 << 20;
        check(several.contains(&self.max_in_flight), "max_in_flight", &self.max_in_flight, "1 to 2^20")?;
        check(several.contains(&self.batch), "batch", &self.batch, "1 to 2^20")?;
        let unacknowledged = self.max_in_flight..=1 << 20;
        let expected = "max_in_flight to 2^20";
        check(
            unacknowledged.contains(&self.max_unacknowledged),
            "max_unacknowledged",
            &self.max_unacknowledged,
            expected,
        )?;
        check(self.max_attempts > 0, "max_attempts", &self.max_attempts, "at least 1")?;
        let expected = "a duration of up to a year, not none";
        check(sane(self.handler_timeout), "handler_timeout", &self.handler_timeout, expected)?;
        let BackOff { first, max } = self.back_off;
        let delays = sane(first) && sane(max) && first <= max;
        check(delays, "retry_delay", &(first, max), "two durations of up to a year, not none, the first not longer")?;
        check(self.drain <= MAX, "drain", &self.drain, "a duration of up to a year")?;
        if let Some(scope_of) = &self.scope_of {
            Scope::new(&scope_of(&Partition::default()))?;
        }
        Ok(())
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
