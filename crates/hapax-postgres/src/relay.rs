//! Publishes the messages of an outbox.

mod breaker;
mod publishing;
mod running;

use super::Database;
use super::message::validate_name;
use crate::claims::retry::Retry;
use crate::schema::tables::{Queue, Tables};
use crate::store::options::within;
use crate::telemetry::meters::{Counts, Meters, QueueStats};
use hapax_message::Publisher;
use hapax_store::StoreError;
use publishing::Publishing;
use running::Running;
use std::sync::Arc;
use std::time::Duration;

/// The least time for the publications in front of the last one of a claim, and the least time to
/// settle. Each is as long as one publication may take, but not so short that the claim itself
/// could use it up.
const WINDOW_MIN: Duration = Duration::from_millis(500);
const MIB: usize = 1 << 20;

/// Publishes messages of an outbox: those of one key in order, one after the other; all others
/// concurrently. Any number of relays share an outbox.
///
/// ```no_run
/// use hapax_postgres::{BoxError, Message, Publisher, Relay, Tables};
/// use hapax_postgres::PostgresOptions;
/// use std::sync::Arc;
///
/// struct Log;
///
/// impl Publisher for Log {
///     async fn publish(&self, message: &Message) -> Result<(), BoxError> {
///         println!("{}: {:?}", message.name, message.payload); // a broker's client, which gets message.id, too
///         Ok(())
///     }
/// }
///
/// # async fn example() -> Result<(), hapax_store::StoreError> {
/// let options = PostgresOptions::parse("host=/run/postgresql user=app")?;
/// let relay = Relay::new(options, Tables::new("public", "shop")?);
/// relay.run(Arc::new(Log), std::future::pending()).await?; // or until a signal
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// Each message is published *at least* once, and removed only then. A message that fails is tried
/// again, and holds up the other messages of its topic and key, and no others. After as many
/// attempts as [`Retry`] allows, or at once with [`GiveUp`](hapax_message::GiveUp), it becomes a
/// dead letter. So does a message that has expired, without being tried.
///
/// Publications are outside of any transaction: a slow broker keeps no locks and no old rows alive.
/// Instead a relay has a message under a lease, and every publication is stopped before the lease
/// is over, so no two relays have a message in flight at a time. (The exception is a relay whose
/// process stands still for longer than that, and goes on.) A relay that is killed after it has
/// published, and before it has settled, leaves the message to be published again after its lease.
/// So does a server that crashes within a moment after it was told, or loses the claim: in a
/// failover all that is in flight may be published once more. Even then the *first*
/// publications of a key's messages come in order, so a receiver that dedupes by id has all of them
/// once and in order.
///
/// Topics take turns: one with few messages does not wait for one with millions.
///
/// Nobody waits for rows that others have locked, such as an operator with `SELECT … FOR UPDATE`:
/// they are not claimed. All else is published and settled. (Who locks a row while it is removed is
/// waited for, for 200 ms at most.) A message that is locked while it is in flight is published
/// once, unless its relay dies.
///
/// If eight messages of a topic fail that never failed before, and none succeeds in between, the
/// broker is assumed to be away. The topic pauses then, for 200 ms at first and 30 s at last; other
/// topics go on. What is claimed of it is given back. After each wait up to eight messages without
/// a key and those of up to eight keys probe whether the broker is back: those first that never
/// failed, and first of all the newest (of the table's last thousand messages). The first success
/// ends the pause. So an outage costs a few attempts for each topic, and does not touch most
/// messages.
///
/// Messages that a broker always refuses are retried with their back-off until you set a limit
/// ([`Retry::attempts_max`]), or say [`GiveUp`](hapax_message::GiveUp). They pause their topic when
/// they come, if there are eight or more, and never again: what fails twice says nothing of the
/// broker. A message that is enqueued behind them waits for two waits at most, and those after it
/// for none.
///
/// At most 4,096 topics pause at a time. In others a message has its back-off, and no pause.
///
/// Attempts are counted when they fail, so a message that kills its relays is tried forever.
///
/// # Errors
///
/// [`run`](Self::run) reconnects after failures that may pass, for five minutes by default. It
/// returns an error after that, and for a wrong password, missing tables, and the like.
///
/// # Cost
///
/// Two calls of the server for the messages that were claimed together (hundreds, where there are
/// many). The calls run concurrently with publications and are committed without waiting for the
/// disk. At most [`batch`](Self::batch) messages are in flight, and at most [`bytes`](Self::bytes)
/// of payload claimed. It uses up to four connections, and one to listen.
/// If the server gives no more (a role's limit), those that it has do, and it polls instead.
///
/// A relay that found something looks again every 5 to 50 ms for two seconds; then it sleeps until
/// it is notified, or for [`poll`](Self::poll). Behind a pooler nothing is notified.
#[derive(Clone, Debug)]
pub struct Relay {
    database: Database,
    tables: Tables,
    topic: Option<String>,
    retry: Retry,
    batch: usize,
    bytes: usize,
    publish_timeout: Duration,
    poll: Duration,
    longest_outage: Duration,
    counts: Arc<Counts>,
}

impl Relay {
    /// Returns a relay of all topics, with connections of these options or of a pool. By default it
    /// has up to 1,024 messages in flight, claims up to 16 MiB, lets a publication take 10 seconds,
    /// and polls every second. It retries until it succeeds, after 200 ms at first and a minute at
    /// last: the message is not at fault if a broker is away.
    pub fn new(database: impl Into<Database>, tables: Tables) -> Self {
        Relay {
            database: database.into(),
            tables,
            topic: None,
            retry: Retry::DEFAULT,
            batch: 1_024,
            bytes: 16 * MIB,
            publish_timeout: Duration::from_secs(10),
            poll: Duration::from_secs(1),
            longest_outage: Duration::from_secs(300),
            counts: Arc::default(),
        }
    }

    /// Publishes messages of this topic only.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](hapax_store::ErrorKind::Misconfigured) if no topic has such a name.
    pub fn topic(self, topic: &str) -> Result<Self, StoreError> {
        validate_name("a topic", topic)?;
        Ok(Relay { topic: Some(topic.into()), ..self })
    }

    /// Sets when a message that failed is tried again, and when it is given up.
    #[must_use]
    pub fn retry(self, retry: Retry) -> Self {
        Relay { retry, ..self }
    }

    /// Sets how many messages are in flight at a time: keys, each with one of its messages, and
    /// messages without a key; and how many a batch of a publisher has, of which there are two.
    /// Fewer go easy on a broker; more help where publications take long.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](hapax_store::ErrorKind::Misconfigured) unless it is between 1 and 10,000.
    pub fn batch(self, batch: usize) -> Result<Self, StoreError> {
        Ok(Relay { batch: within("batch", batch, 1..=10_000)?, ..self })
    }

    /// Sets how many bytes of messages are claimed at a time, and so are in memory. A claim takes
    /// at least one message of each topic, whatever its size.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](hapax_store::ErrorKind::Misconfigured) unless it is between 1 and 2^40.
    pub fn bytes(self, bytes: usize) -> Result<Self, StoreError> {
        Ok(Relay { bytes: within("bytes", bytes, 1..=1 << 40)?, ..self })
    }

    /// Sets how long one publication may take. The messages that a dead relay had claimed wait for
    /// three times as long, and at least for a second more.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](hapax_store::ErrorKind::Misconfigured) unless it is between 50 ms and an
    /// hour.
    pub fn publish_timeout(self, timeout: Duration) -> Result<Self, StoreError> {
        let publish_timeout =
            within("publish_timeout", timeout, Duration::from_millis(50)..=Duration::from_secs(3_600))?;
        Ok(Relay { publish_timeout, ..self })
    }

    /// Sets how often it looks for messages while it sleeps and is not notified. By polling it
    /// finds retries, messages that dead relays have left, messages that were enqueued through a
    /// pooler, and messages for which nobody notifies: those of a transaction that was open for
    /// seconds, that began while another relay was awake which died or has no room, or that ran
    /// beside one that notifies.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](hapax_store::ErrorKind::Misconfigured) unless it is between 10 ms and an
    /// hour.
    pub fn poll(self, poll: Duration) -> Result<Self, StoreError> {
        let poll = within("poll", poll, Duration::from_millis(10)..=Duration::from_secs(3_600))?;
        Ok(Relay { poll, ..self })
    }

    /// Sets how long the server may be away before [`run`](Self::run) gives up.
    #[must_use]
    pub fn longest_outage(self, longest_outage: Duration) -> Self {
        Relay { longest_outage, ..self }
    }

    /// Returns what became of messages since this relay was made, in all runs of it and of its
    /// clones.
    pub fn stats(&self) -> QueueStats {
        self.counts.stats()
    }

    /// Publishes messages until `stop` completes. Publications in flight are waited for, and the
    /// other claimed messages are given back.
    ///
    /// # Errors
    ///
    /// Errors that cannot pass, or did not in time. Publications in flight are stopped, and
    /// repeated by the next relay.
    pub async fn run<P: Publisher>(&self, publisher: Arc<P>, stop: impl Future<Output = ()>) -> Result<(), StoreError> {
        let meters = Meters::new(&self.counts, Queue::Outbox, self.topic.as_deref());
        let publishing = Publishing::new(publisher, self.retry, self.publish_timeout, meters);
        Running::new(self, Arc::new(publishing)).run(stop).await
    }

    /// Returns the time after a claim in which publications may begin, which is also the time that
    /// there is to settle them.
    fn window(&self) -> Duration {
        self.publish_timeout.max(WINDOW_MIN)
    }

    fn lease(&self) -> Duration {
        2 * self.window() + self.publish_timeout
    }
}
