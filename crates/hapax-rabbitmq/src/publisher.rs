//! The other end: messages of an outbox go to an exchange.

use crate::calls::{in_time, open_publishing};
use crate::dead_letter::PERSISTENT;
use futures_util::future::{BoxFuture, FutureExt, join_all};
use hapax_message::cloudevents::Binding;
use hapax_message::{BoxError, Described, GiveUp, Message, Publisher};
use lapin::options::BasicPublishOptions;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, PublisherConfirm};
use tokio::sync::Mutex;

/// The longest text of a property, and of a routing key.
const SHORT_MAX: usize = 255;

type Connect = dyn Fn() -> BoxFuture<'static, lapin::Result<Connection>> + Send + Sync;

/// A [`Publisher`] for a relay: it publishes each message persistently, under its topic as the
/// routing key, and has published it when the broker has confirmed that a queue has it.
///
/// ```no_run
/// use hapax_rabbitmq::RabbitMqPublisher;
/// use lapin::{Connection, ConnectionProperties};
///
/// let connect = || async {
///     Connection::connect("amqp://127.0.0.1:5672/%2f", ConnectionProperties::default()).await
/// };
/// let publisher = RabbitMqPublisher::new(connect).exchange("shop");
/// # let _ = publisher;
/// ```
///
/// - The message's id is the property `message-id`, as [`text_id`](Message::text_id) has it, by
///   which the consumer knows what comes twice: RabbitMQ itself drops nothing. Its kind is `type`,
///   its header `content-type` the property of that name.
/// - Its headers go with it, and those of its event
///   ([`published_headers`](Message::published_headers)), except `CC` and `BCC`, which would send
///   it elsewhere.
/// - It connects at the first publication, and anew whenever the connection or the channel has
///   closed. A batch is sent at once, and its confirmations are awaited together. A call that takes
///   ten seconds has failed: a broker that has no memory left answers nothing.
/// - Dead letters at once ([`GiveUp`]) are what no queue takes (the broker returns it), and a topic
///   that is too long for a routing key. Whatever else fails is tried again: a missing exchange, a
///   broker that is away, a queue that is full and rejects.
pub struct RabbitMqPublisher {
    connect: Box<Connect>,
    exchange: String,
    open: Mutex<Option<Open>>,
}

struct Open {
    /// It closes when it is dropped.
    _connection: Connection,
    channel: Channel,
}

impl RabbitMqPublisher {
    /// Creates a publisher to the default exchange, whose routing keys are names of queues.
    pub fn new<F>(connect: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = lapin::Result<Connection>> + Send + 'static,
    {
        let connect = Box::new(move || connect().boxed());
        RabbitMqPublisher { connect, exchange: String::new(), open: Mutex::default() }
    }

    /// Sets the exchange.
    #[must_use]
    pub fn exchange(self, exchange: impl Into<String>) -> Self {
        RabbitMqPublisher { exchange: exchange.into(), ..self }
    }

    /// Returns a channel that confirms.
    async fn channel(&self) -> Result<Channel, BoxError> {
        let mut open = self.open.lock().await;
        if let Some(open) = open.as_ref().filter(|open| open.channel.status().connected()) {
            return Ok(open.channel.clone());
        }
        *open = None;
        let connection = in_time("connecting", (self.connect)()).await?;
        let channel = open_publishing(&connection).await?;
        *open = Some(Open { _connection: connection, channel: channel.clone() });
        Ok(channel)
    }

    async fn send(&self, message: &Message) -> Result<PublisherConfirm, BoxError> {
        if message.name.len() > SHORT_MAX {
            let got = message.name.len();
            return Err(GiveUp::because(format!("expected a topic of up to {SHORT_MAX} bytes, got {got}")).into());
        }
        let channel = self.channel().await?;
        let (exchange, routing_key) = (self.exchange.as_str().into(), message.name.as_str().into());
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let sent = channel.basic_publish(exchange, routing_key, options, &message.payload, properties(message));
        Ok(in_time("publishing", sent).await?)
    }

    async fn confirmed(&self, message: &Message, sent: Result<PublisherConfirm, BoxError>) -> Result<(), BoxError> {
        match in_time("waiting for a confirmation", sent?).await? {
            Confirmation::Ack(None) => Ok(()),
            Confirmation::Ack(Some(returned)) => {
                let (exchange, key, text) = (&self.exchange, &message.name, returned.reply_text);
                let why = format!("no queue took it from exchange {exchange:?} by the routing key {key:?}: {text}");
                Err(GiveUp::because(why).into())
            }
            refused => Err(format!("the broker did not confirm it: {refused:?}").into()),
        }
    }
}

impl Publisher for RabbitMqPublisher {
    async fn publish(&self, message: &Message) -> Result<(), BoxError> {
        let sent = self.send(message).await;
        self.confirmed(message, sent).await
    }

    async fn publish_batch(&self, messages: &[Message]) -> Option<Vec<Result<(), BoxError>>> {
        let mut sent = Vec::with_capacity(messages.len());
        for message in messages {
            sent.push(self.send(message).await);
        }
        Some(join_all(messages.iter().zip(sent).map(|(message, sent)| self.confirmed(message, sent))).await)
    }
}

fn properties(message: &Message) -> BasicProperties {
    let short = |text: &str| (text.len() <= SHORT_MAX).then(|| text.into());
    let mut headers = FieldTable::default();
    let mut properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
    for (name, value) in message.published_headers(Binding::Amqp) {
        match name.as_str() {
            "CC" | "BCC" => {}
            _ if name.eq_ignore_ascii_case("content-type") && value.len() <= SHORT_MAX => {
                properties = properties.with_content_type(value.into());
            }
            _ => drop(headers.insert(name.into(), AMQPValue::LongString(value.into()))),
        }
    }
    if let Some(id) = message.text_id() {
        properties = properties.with_message_id(id.into());
    }
    if let Some(kind) = message.kind().and_then(short) {
        properties = properties.with_type(kind);
    }
    properties.with_headers(headers)
}

impl std::fmt::Debug for RabbitMqPublisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RabbitMqPublisher").field("exchange", &self.exchange).finish_non_exhaustive()
    }
}
