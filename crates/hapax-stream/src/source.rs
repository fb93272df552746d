//! The interface of a broker for a consumer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The form of acknowledgements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acks {
    /// Each message by itself, in any order. A message that is to be tried again is given
    /// [back](Source::retry) to the broker.
    #[default]
    Each,
    /// All messages of a partition up to one, as offsets are committed. None overtakes an
    /// unfinished one before it, and a message that is to be tried again waits in the consumer,
    /// since such brokers take nothing back.
    Cumulative,
}

/// A part of a stream that belongs to one consumer at a time. Brokers without partitions have one,
/// the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    /// The stream, topic or queue.
    pub topic: Arc<str>,
    /// The number of the part.
    pub number: u32,
}

impl Partition {
    /// Creates a partition of a topic.
    pub fn new(topic: impl Into<Arc<str>>, number: u32) -> Self {
        Partition { topic: topic.into(), number }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.number)
    }
}

/// A broker, as a [`Consumer`](super::Consumer) sees it.
///
/// ```
/// use hapax_stream::Source;
/// use std::{convert::Infallible, sync::Arc, time::Duration};
/// use tokio::sync::{Mutex, mpsc};
///
/// /// A queue in memory: what is given back is put at its end.
/// struct Queue {
///     messages: Mutex<mpsc::UnboundedReceiver<String>>,
///     again: mpsc::UnboundedSender<String>,
/// }
///
/// impl Source for Queue {
///     type Message = String;
///     type Error = Infallible;
///
///     async fn receive(&self, max: usize) -> Result<Option<Vec<String>>, Infallible> {
///         let mut batch = Vec::new();
///         let received = self.messages.lock().await.recv_many(&mut batch, max).await;
///         Ok((received > 0).then_some(batch))
///     }
///
///     async fn acknowledge(&self, _: &[Arc<String>]) -> Result<(), Infallible> {
///         Ok(())
///     }
///
///     async fn retry(&self, message: &Arc<String>, after: Duration) -> Result<(), Infallible> {
///         let (again, message) = (self.again.clone(), String::clone(message));
///         tokio::spawn(async move {
///             tokio::time::sleep(after).await;
///             let _ = again.send(message);
///         });
///         Ok(())
///     }
///
///     async fn dead_letter(&self, message: &Arc<String>, why: &str) -> Result<(), Infallible> {
///         eprintln!("put aside: {message}: {why}");
///         Ok(())
///     }
/// }
/// ```
///
/// All methods take `&self`, and up to one call of each is under way at a time: messages are
/// acknowledged while `receive` waits. A client that must be borrowed mutably for that goes into an
/// asynchronous mutex, as here.
///
/// # Errors
///
/// An error of any method ends the run, once everything that was begun is done: an error that is
/// worth another try, such as a lost connection, is tried again by the source itself. A message
/// that was not acknowledged then must come again, from the broker, after its own time-out or at
/// the next start.
pub trait Source: Send + Sync {
    /// The type of messages. The consumer and the handler share them.
    type Message: Send + Sync + 'static;
    /// The error of the broker.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Receives the next messages, at most `max`; an empty list if the broker has waited for some
    /// in vain: it is asked again at once. `None`: there will be no more.
    ///
    /// A message that cannot be decoded is a message all the same: it is kept as it came, has no
    /// id, and is [put aside](super::ConsumerBuilder::on_missing). An error would end the run, and
    /// the messages that were received with it would come again, with it, at each start.
    ///
    /// The call is not dropped before it has answered, except when the consumer stops (a shutdown,
    /// an error): messages that it has taken from the broker by then count as received and not
    /// acknowledged.
    fn receive(&self, max: usize) -> impl Future<Output = Result<Option<Vec<Self::Message>>, Self::Error>> + Send;

    /// Acknowledges messages that are done, now or long ago, and durably so: the broker may forget
    /// them. With [`Acks::Cumulative`] they are in the order in which they were received, and the
    /// last one of a partition stands for all before it.
    fn acknowledge(&self, messages: &[Arc<Self::Message>]) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Gives a message back that was not done: it is to be delivered again, after this long. With
    /// [`Acks::Cumulative`] it is not called.
    fn retry(
        &self,
        message: &Arc<Self::Message>,
        after: Duration,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Puts a message aside that has failed too often, or has killed too many consumers: keep a
    /// copy in a place that people look at. It is then [acknowledged](Source::acknowledge) like one
    /// that is done, but its id is free: a copy that is sent anew is handled. A broker
    /// whose own dead letters work by a refusal remembers that here, and refuses when it is to
    /// acknowledge. The reason has 1,024 bytes at most: it may quote what somebody has sent.
    fn dead_letter(
        &self,
        message: &Arc<Self::Message>,
        why: &str,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Returns the form of acknowledgements. Default: each by itself.
    fn acks(&self) -> Acks {
        Acks::Each
    }

    /// Returns the partition of a message. Default: there is one.
    fn partition(&self, message: &Self::Message) -> Partition {
        let _ = message;
        Partition::default()
    }

    /// Returns the position from which to go on once this message, and all before it in its
    /// partition, are done: with [`Acks::Cumulative`], a [`LogConsumer`](super::LogConsumer) puts
    /// it into its checkpoints, as that of the source of the partition's name. Default: none, and
    /// the broker alone says where to go on. With positions a batch of nothing but duplicates is
    /// written, too.
    fn position(&self, message: &Self::Message) -> Option<Vec<u8>> {
        let _ = message;
        None
    }

    /// Returns the number of times that the broker has delivered this message, this time included,
    /// if it counts. Default: it does not.
    ///
    /// No count of deliveries is taken for one of attempts. It has one use. At the first delivery,
    /// the message was never tried, so it is handled at once. At any other, the store is asked for
    /// the number of [attempts](super::Delivery::attempt) so far, and told that one begins, which
    /// are two calls for each batch of messages. A broker that knows only that it has delivered a
    /// message before returns two.
    fn deliveries(&self, message: &Self::Message) -> Option<u32> {
        let _ = message;
        None
    }

    /// Returns the name under which the broker delivers this message until it is acknowledged: the
    /// same at each delivery, and another one when the message is sent once more. An offset with
    /// its partition is one, and so is the number that a stream gives to each entry. Default: none.
    ///
    /// A message that was put aside is handled when it is sent anew, and put aside again when the
    /// broker only repeats it. Where neither this nor [`deliveries`](Self::deliveries) tells them
    /// apart, it is handled.
    fn sent_as(&self, message: &Self::Message) -> Option<Vec<u8>> {
        let _ = message;
        None
    }

    /// Returns the interval at which the broker is to be [told](Source::extend) that messages are
    /// still worked on. Default: never.
    ///
    /// A third of the time for which the broker leaves a message alone is often enough, even if one
    /// call fails.
    fn heartbeat(&self) -> Option<Duration> {
        None
    }

    /// Tells the broker that these messages wait here, or are handled, or recorded: it must not
    /// deliver them to others yet. Amazon SQS changes their visibility, JetStream takes it for
    /// progress. Default: nothing.
    ///
    /// It is called at every [heartbeat](Source::heartbeat) for all messages that are neither being
    /// acknowledged nor given back, in batches, and dropped if it has not answered when the next
    /// one is due. A message may be acknowledged or given back while this call is under way: a call
    /// that comes too late must not be an error.
    ///
    /// # Errors
    ///
    /// They are [counted](super::ConsumerStats::unextended), and do not end the run: a message that
    /// is delivered to another consumer all the same is in progress there.
    fn extend(&self, messages: &[Arc<Self::Message>]) -> impl Future<Output = Result<(), Self::Error>> + Send {
        let _ = messages;
        std::future::ready(Ok(()))
    }

    /// Returns true if received messages are this consumer's until they are acknowledged or given
    /// back, however long they wait here. Default: with [`Acks::Cumulative`], or if there is a
    /// [heartbeat](Source::heartbeat).
    ///
    /// Then messages are received before there is a handler for them, up to
    /// [`max_unacknowledged`](super::ConsumerBuilder::max_unacknowledged). Otherwise no more are
    /// received than handlers are free, since messages that wait may be delivered to another
    /// consumer meanwhile, again and again. That costs a round trip to the broker between two
    /// messages of a handler. RabbitMQ, for example, takes nothing away as long as its channel is
    /// open.
    fn keeps_received(&self) -> bool {
        self.acks() == Acks::Cumulative || self.heartbeat().is_some()
    }

    /// Waits until partitions are taken away from this consumer, and returns them. Default: never.
    ///
    /// It is awaited all the time, also while the consumer has no room to receive. From then until
    /// [`released`](Source::released), messages of these partitions from `receive` are ignored;
    /// messages that it returns after that belong to a new assignment, so a source forgets its
    /// buffer of the old one.
    fn revoked(&self) -> impl Future<Output = Vec<Partition>> + Send {
        std::future::pending()
    }

    /// Reports that nothing of these partitions is under way any more, and nothing of the old
    /// assignment will be acknowledged: a rebalance may go on. A callback that must block until
    /// then (Kafka's) runs on a thread of its own, sends to the place where
    /// [`revoked`](Source::revoked) waits, and waits for this.
    fn released(&self, partitions: &[Partition]) -> impl Future<Output = ()> + Send {
        let _ = partitions;
        std::future::ready(())
    }
}
