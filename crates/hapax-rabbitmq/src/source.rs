//! The source: a consumer of a queue.

use crate::calls::{in_time, open_channel, open_publishing, within};
use crate::{Message, RabbitMqError, RabbitMqOptions, dead_letter};
use futures_util::future::join_all;
use futures_util::{FutureExt, StreamExt};
use hapax_stream::{Source, retry_for};
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicNackOptions, BasicPublishOptions, BasicQosOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{Channel, Confirmation, Connection, ErrorKind};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

/// The code with which the broker closes a channel that asked for what is not there.
const NOT_FOUND: u16 = 404;

/// The messages of a queue for one consumer of it.
///
/// See the [crate](crate) for an example, for the guarantees, and for what the broker's
/// configuration must be.
///
/// # Cost
///
/// Two channels of the connection. The broker sends messages ahead, so none is asked for; an
/// acknowledgement is one frame, and nobody waits for an answer.
pub struct RabbitMq {
    connection: Arc<Connection>,
    options: RabbitMqOptions,
    consuming: Mutex<Option<Consuming>>,
    /// The channel on which dead letters are published and confirmed.
    publishing: Mutex<Option<Channel>>,
    /// Messages that wait to be given back. They end with the source: the broker has them then.
    held_back: Mutex<JoinSet<()>>,
}

struct Consuming {
    channel: Channel,
    messages: lapin::Consumer,
    /// The reason why there are no more messages, once they have ended.
    ended: Option<RabbitMqError>,
}

impl RabbitMq {
    /// Begins to consume, on a channel of its own of this connection. Both queues must exist.
    ///
    /// # Errors
    ///
    /// [`RabbitMqError::Misconfigured`] names the wrong option,
    /// [`RabbitMqError::QueueNotFound`] the missing queue. Those of the client: nothing is tried
    /// again.
    pub async fn new(connection: Arc<Connection>, options: RabbitMqOptions) -> Result<Self, RabbitMqError> {
        options.validate()?;
        let source = RabbitMq {
            connection,
            options,
            consuming: Mutex::default(),
            publishing: Mutex::default(),
            held_back: Mutex::default(),
        };
        let publishing = open_publishing(&source.connection).await?;
        let (queue, passive) =
            (&source.options.dead_letter_queue, QueueDeclareOptions { passive: true, ..Default::default() });
        let declared = publishing.queue_declare(queue.as_str().into(), passive, FieldTable::default());
        in_time("looking for the queue for dead letters", declared).await.map_err(not_found_or(queue))?;
        *source.publishing.lock().await = Some(publishing);
        *source.consuming.lock().await = Some(source.open_consuming().await?);
        Ok(source)
    }

    /// Closes the channels: the broker takes back at once what was not acknowledged. Without it,
    /// that happens when the connection ends. The connection stays open.
    ///
    /// # Errors
    ///
    /// Those of the client. The broker takes everything back all the same when it notices.
    pub async fn close(self) -> Result<(), RabbitMqError> {
        self.held_back.into_inner().shutdown().await;
        // (Its messages live until the channel is closed: dropped before, they are cancelled by a
        // task of the client, which takes a channel that is closing for broken.)
        let (consuming, publishing) = (self.consuming.into_inner(), self.publishing.into_inner());
        for channel in consuming.iter().map(|consuming| &consuming.channel).chain(&publishing) {
            if channel.status().connected() {
                in_time("closing a channel", channel.close(200, "".into())).await?;
            }
        }
        Ok(())
    }

    async fn open_consuming(&self) -> Result<Consuming, RabbitMqError> {
        let channel = open_channel(&self.connection).await?;
        let limited = channel.basic_qos(self.options.prefetch, BasicQosOptions::default());
        in_time("limiting the messages that are sent ahead", limited).await?;
        let queue = &self.options.queue;
        let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
        let messages = channel.basic_consume(queue.as_str().into(), "".into(), options, arguments);
        let messages = in_time("consuming", messages).await.map_err(not_found_or(queue))?;
        Ok(Consuming { channel, messages, ended: None })
    }

    /// Waits for a message, and takes those that are here already with it. If the channel is
    /// closed, opens another one first.
    async fn next(&self, max: usize) -> Result<Vec<Message>, RabbitMqError> {
        let mut consuming = self.consuming.lock().await;
        let mut open = match consuming.take() {
            Some(open) => open,
            None => self.open_consuming().await?,
        };
        if let Some(ended) = open.ended.take() {
            // (What a closed channel still has is dropped: the broker delivers it again.)
            return Err(ended);
        }
        // If this call is dropped while it waits, the channel stays.
        let open = consuming.insert(open);
        let mut batch = Vec::new();
        loop {
            let next = if batch.is_empty() {
                open.messages.next().await
            } else if batch.len() >= max {
                break;
            } else {
                let Some(next) = open.messages.next().now_or_never() else { break };
                next
            };
            match next {
                // (One of a channel that was closed meanwhile cannot be acknowledged any more.)
                Some(Ok(delivery)) if delivery.acker.usable() => batch.push(Message(delivery)),
                Some(Ok(_)) => {}
                Some(Err(error)) => match self.recovered(&open.channel, error).await {
                    Ok(()) => {}
                    Err(error) => {
                        open.ended = Some(error);
                        break;
                    }
                },
                None => {
                    open.ended = Some(RabbitMqError::Cancelled { queue: self.options.queue.clone() });
                    break;
                }
            }
        }
        if batch.is_empty() {
            Err(consuming.take().and_then(|open| open.ended).unwrap_or(RabbitMqError::ConnectionClosed))
        } else {
            Ok(batch)
        }
    }

    /// Waits until the connection has recovered by itself, if it does that.
    async fn recovered(&self, channel: &Channel, error: lapin::Error) -> Result<(), RabbitMqError> {
        within(self.options.outage, "receiving", channel.wait_for_recovery(error)).await
    }

    /// Publishes the copy of a message, and waits until the broker has confirmed that a queue has
    /// it.
    async fn publish_copy(&self, message: &Message, why: &str) -> Result<(), RabbitMqError> {
        // It is put back when it has proved to work.
        let mut publishing = self.publishing.lock().await;
        let channel = match publishing.take() {
            Some(channel) => channel,
            None => open_publishing(&self.connection).await?,
        };
        let queue = &self.options.dead_letter_queue;
        let properties = dead_letter::properties(message, &self.options.queue, why);
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let published = async {
            channel.basic_publish("".into(), queue.as_str().into(), options, &message.data, properties).await?.await
        };
        let confirmed = in_time("putting a message aside", published).await?;
        *publishing = Some(channel);
        match confirmed {
            Confirmation::Ack(None) => Ok(()),
            _ => Err(RabbitMqError::NotPutAside { queue: queue.clone() }),
        }
    }
}

/// Returns a function that names the queue in an error which says that it is missing.
fn not_found_or(queue: &str) -> impl Fn(RabbitMqError) -> RabbitMqError {
    move |error| {
        let RabbitMqError::Call { cause, .. } = &error else { return error };
        match cause.kind() {
            ErrorKind::ProtocolError(cause) if cause.get_id() == NOT_FOUND => {
                RabbitMqError::QueueNotFound { queue: queue.to_owned() }
            }
            _ => error,
        }
    }
}

impl Source for RabbitMq {
    type Message = Message;
    type Error = RabbitMqError;

    async fn receive(&self, max: usize) -> Result<Option<Vec<Message>>, RabbitMqError> {
        retry_for(self.options.outage, RabbitMqError::is_transient, || self.next(max)).await.map(Some)
    }

    /// Acknowledges messages. Where the channel is closed the broker has taken the message back: it
    /// comes again, and is a duplicate.
    async fn acknowledge(&self, messages: &[Arc<Message>]) -> Result<(), RabbitMqError> {
        let acknowledged = join_all(messages.iter().map(|message| message.ack(BasicAckOptions::default())));
        // (The error is that of the channel, and `receive` opens another one.)
        in_time("acknowledging", acknowledged.map(|_| Ok(()))).await
    }

    /// Holds the message back until it is time, since RabbitMQ delivers again at once. It counts as
    /// prefetched meanwhile, and the broker has it if this process ends.
    async fn retry(&self, message: &Arc<Message>, after: Duration) -> Result<(), RabbitMqError> {
        let give_back = |message: Arc<Message>| async move {
            let options = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
            // If that fails, the channel is closed, and the broker delivers the message again.
            let _ = message.nack(options).await;
        };
        let message = Arc::clone(message);
        if after.is_zero() {
            return in_time("giving a message back", give_back(message).map(Ok)).await;
        }
        let mut held_back = self.held_back.lock().await;
        while held_back.try_join_next().is_some() {}
        held_back.spawn(async move {
            tokio::time::sleep(after).await;
            give_back(message).await;
        });
        Ok(())
    }

    /// Returns true: received messages are delivered to nobody else as long as the channel is open.
    fn keeps_received(&self) -> bool {
        true
    }

    async fn dead_letter(&self, message: &Arc<Message>, why: &str) -> Result<(), RabbitMqError> {
        retry_for(self.options.outage, RabbitMqError::is_transient, || self.publish_copy(message, why)).await
    }

    fn deliveries(&self, message: &Message) -> Option<u32> {
        Some(message.deliveries())
    }
}

impl std::fmt::Debug for RabbitMq {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RabbitMq").field("options", &self.options).finish_non_exhaustive()
    }
}
