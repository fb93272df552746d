//! Publishes what an outbox has.

use super::connection::{Connection, in_time};
use super::errors::misconfigured;
use super::message::validate_name;
use super::outage::Outage;
use super::queue::{self, BEHIND, Claimer, Fate, Outcome, Portion, Run, Tried};
use super::retry::Retry;
use super::tables::{Queue, Tables};
use super::{Database, Failure, Message, trial};
use crate::back_off::jittered;
use crate::random;
use crate::store::postgres::options::within;
use crate::store::{PostgresOptions, StoreError};
use futures_util::FutureExt as _;
use futures_util::future::Fuse;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// A lease is so many times what a publication may take: one for those that come first, one for the last that is begun,
/// one to say what came of them.
const LEASE_FACTOR: u32 = 3;

/// Whatever messages are published to.
pub trait Publisher: Send + Sync + 'static {
    /// Publishes a message. When it returns, the message is where it has to be; after an error it may be, too, and is
    /// published again, with the same id.
    fn publish(&self, message: &Message) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Publishes messages of an outbox: those of one key in order, one after the other; those of several keys at a time. Any
/// number of relays share an outbox.
///
/// ```no_run
/// use hapax::postgres::{Failure, Message, Publisher, Relay, Tables};
/// use hapax::store::PostgresOptions;
/// use std::sync::Arc;
///
/// struct Log;
///
/// impl Publisher for Log {
///     async fn publish(&self, message: &Message) -> Result<(), Failure> {
///         println!("{}: {:?}", message.name, message.payload); // a broker's client, which gets message.id, too
///         Ok(())
///     }
/// }
///
/// # async fn example() -> Result<(), hapax::store::StoreError> {
/// let options = PostgresOptions::parse("host=/run/postgresql user=app")?;
/// let relay = Relay::new(options, Tables::default());
/// relay.run(Arc::new(Log), std::future::pending()).await?; // or until a signal
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// Each message is published *at least* once, and removed only then. A message that fails is tried again, and holds up
/// those of its topic and key, and no others.
///
/// Publications are outside of any transaction: a broker that is slow keeps no locks and no old rows alive. Instead a
/// relay has a message under a lease, and every publication is stopped before that is over, so no two relays have a
/// message in flight at a time. (Unless a relay's process stands still for longer than that, and goes on.) A relay that
/// is killed after it has published and before it has said so leaves the message to be published again, after its lease.
/// Even then the *first* publications of a key's messages come in order, so a receiver that dedupes by id has all of them
/// once and in order.
///
/// Attempts are counted when they fail, so a message that kills its relays is tried for ever.
///
/// # Errors
///
/// [`run`](Self::run) connects again after whatever may pass, for five minutes if nobody says otherwise, and returns an
/// error after that, and for a wrong password, tables that are not there, and the like.
///
/// # Cost
///
/// Two transactions for what was claimed together, up to 16 messages of each key. At most [`batch`](Self::batch) keys, and
/// so 16 times as many messages, are in memory. A claim looks at the 256 oldest messages, and, if too few of them can be
/// taken, at the first one of each key that waits.
#[derive(Clone, Debug)]
pub struct Relay {
    options: PostgresOptions,
    tables: Tables,
    topic: Option<String>,
    retry: Retry,
    batch: usize,
    publish_timeout: Duration,
    poll: Duration,
    longest_outage: Duration,
}

/// What outlives a connection: publications that go on, and what came of those that have ended.
#[derive(Default)]
struct UnderWay {
    runs: JoinSet<Option<Outcome>>,
    unsettled: Vec<Outcome>,
}

impl Relay {
    /// A relay of all topics. Unless told otherwise it has 32 keys in flight, lets a publication take 10 seconds, polls
    /// every second, and tries until it succeeds, after 200 ms at first and a minute at last: a broker that is away is not
    /// the message's fault.
    pub fn new(options: PostgresOptions, tables: Tables) -> Self {
        Relay {
            options,
            tables,
            topic: None,
            retry: Retry::USUAL,
            batch: 32,
            publish_timeout: Duration::from_secs(10),
            poll: Duration::from_secs(1),
            longest_outage: Duration::from_secs(300),
        }
    }

    /// This topic only.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](crate::store::ErrorKind::Misconfigured) if no topic has such a name.
    pub fn topic(self, topic: &str) -> Result<Self, StoreError> {
        validate_name("a topic", topic)?;
        Ok(Relay { topic: Some(topic.into()), ..self })
    }

    /// When a message that failed is tried again, and whether it is ever given up.
    #[must_use]
    pub fn retry(self, retry: Retry) -> Self {
        Relay { retry, ..self }
    }

    /// How many keys (and messages without one) are in flight at a time.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](crate::store::ErrorKind::Misconfigured) unless it is between 1 and 1,000.
    pub fn batch(self, batch: usize) -> Result<Self, StoreError> {
        match (1..=1_000).contains(&batch) {
            true => Ok(Relay { batch, ..self }),
            false => Err(misconfigured(format!("a batch has 1 to 1000 keys, not {batch}"))),
        }
    }

    /// How long one publication may take. What a relay that died had claimed waits for three times as long.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](crate::store::ErrorKind::Misconfigured) unless it is between 50 ms and an hour.
    pub fn publish_timeout(self, timeout: Duration) -> Result<Self, StoreError> {
        let publish_timeout =
            within("a publication's timeout", timeout, Duration::from_millis(50), Duration::from_secs(3_600))?;
        Ok(Relay { publish_timeout, ..self })
    }

    /// How often to look for messages, besides when told of one: retries and what dead relays have left are found so.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](crate::store::ErrorKind::Misconfigured) unless it is between 10 ms and an hour.
    pub fn poll(self, poll: Duration) -> Result<Self, StoreError> {
        let poll = within("a poll's interval", poll, Duration::from_millis(10), Duration::from_secs(3_600))?;
        Ok(Relay { poll, ..self })
    }

    /// How long the server may be away before [`run`](Self::run) gives up.
    #[must_use]
    pub fn longest_outage(self, longest_outage: Duration) -> Self {
        Relay { longest_outage, ..self }
    }

    /// Publishes messages until `stop` says so. What is in flight then is waited for.
    ///
    /// # Errors
    ///
    /// What cannot pass, or did not in time. Publications in flight are stopped, and done again by whoever comes next.
    pub async fn run<P: Publisher>(&self, publisher: Arc<P>, stop: impl Future<Output = ()>) -> Result<(), StoreError> {
        let stop = stop.fuse();
        tokio::pin!(stop);
        let (mut outage, mut under_way) = (Outage::new(self.longest_outage), UnderWay::default());
        let mut stopping = false;
        loop {
            let session = self.session(&publisher, &mut outage, &mut under_way, stop.as_mut(), &mut stopping);
            let Err(error) = session.await else { return Ok(()) };
            let delay = outage.failed(error, Instant::now())?;
            tokio::select! {
                () = &mut stop, if !stopping => stopping = true,
                () = tokio::time::sleep(delay) => {}
            }
        }
    }

    async fn session<P: Publisher, F: Future<Output = ()>>(
        &self,
        publisher: &Arc<P>,
        outage: &mut Outage,
        under_way: &mut UnderWay,
        mut stop: Pin<&mut Fuse<F>>,
        stopping: &mut bool,
    ) -> Result<(), StoreError> {
        let connection = Connection::open(&self.options, &self.tables, Queue::Outbox, self.lease()).await?;
        let database = Database::from(self.options.clone());
        let mut claimer = Claimer::new(&self.tables, Queue::Outbox, self.topic.as_deref());
        loop {
            let settle = under_way.settle(&database, &self.tables);
            in_time(&self.options, "settle claims", settle).await?;
            if !*stopping {
                self.begin(&database, &mut claimer, publisher, under_way).await?;
            }
            outage.end();
            if *stopping && under_way.runs.is_empty() {
                return Ok(());
            }
            tokio::select! {
                biased;
                () = &mut stop, if !*stopping => *stopping = true,
                Some(ended) = under_way.runs.join_next() => under_way.ended(ended.unwrap_or_default()),
                () = connection.woken.notified() => {}
                () = tokio::time::sleep(jittered(self.poll, random::any())) => {}
            }
        }
    }

    fn lease(&self) -> Duration {
        self.publish_timeout * LEASE_FACTOR
    }

    /// Claims as much as there is room for, and begins to publish it.
    async fn begin<P: Publisher>(
        &self,
        database: &Database,
        claimer: &mut Claimer,
        publisher: &Arc<P>,
        under_way: &mut UnderWay,
    ) -> Result<(), StoreError> {
        let room = self.batch.saturating_sub(under_way.runs.len());
        if room == 0 {
            return Ok(());
        }
        let portion = Portion { first: room, behind: BEHIND, bytes: 16 << 20, lease: self.lease() };
        // Before the server reads its clock, so that by ours the lease is never over later than by the server's.
        let begin_until = Instant::now() + self.publish_timeout;
        let runs = in_time(&self.options, "claim messages", claimer.claim(database, &portion)).await?;
        for run in runs {
            let (publisher, retry, timeout) = (Arc::clone(publisher), self.retry, self.publish_timeout);
            under_way.runs.spawn(async move { Some(publish(&*publisher, &run, &retry, timeout, begin_until).await) });
        }
        Ok(())
    }
}

impl UnderWay {
    /// Takes along all that have ended meanwhile.
    fn ended(&mut self, outcomes: Option<Outcome>) {
        self.unsettled.extend(outcomes);
        while let Some(ended) = self.runs.try_join_next() {
            self.unsettled.extend(ended.unwrap_or_default());
        }
    }

    async fn settle(&mut self, database: &Database, tables: &Tables) -> Result<(), StoreError> {
        if !self.unsettled.is_empty() {
            queue::settle(database, tables, Queue::Outbox, &self.unsettled).await?;
        }
        self.unsettled.clear();
        Ok(())
    }
}

/// Publishes messages of a key one after the other, up to the first that fails. The others are given back, and so are
/// those that there is no time for.
async fn publish(
    publisher: &impl Publisher,
    run: &Run,
    retry: &Retry,
    timeout: Duration,
    begin_until: Instant,
) -> Outcome {
    let mut outcome = run.outcome();
    for claimed in &run.messages {
        if Instant::now() >= begin_until {
            break;
        }
        let attempts = claimed.message.attempts.saturating_add(1);
        let (fate, ends) = match trial::within(timeout, publisher.publish(&claimed.message)).await {
            Ok(()) => (Fate::Done, false),
            Err(error) => (Fate::of_failure(retry, attempts, &error), true),
        };
        outcome.fates.push(Tried { position: claimed.position, attempts, fate });
        if ends {
            break;
        }
    }
    outcome
}
