//! A connection of a case's own, with its queues.

use hapax_rabbitmq::{Message, RabbitMq, RabbitMqOptions};
use hapax_stream::Source;
use lapin::message::BasicGetMessage;
use lapin::options::{BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use std::sync::Arc;
use std::time::Duration;

pub struct Node {
    pub url: String,
    pub connection: Arc<Connection>,
    /// The case's own channel.
    pub channel: Channel,
    pub queue: String,
    pub dead: String,
}

impl Node {
    pub async fn connect(url: String, name: &str) -> Node {
        println!("{name}");
        let connection = Connection::connect(&url, ConnectionProperties::default()).await.expect("a connection");
        let connection = Arc::new(connection);
        let channel = connection.create_channel().await.expect("a channel");
        channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirmations");
        let node = Node { url, connection, channel, queue: name.into(), dead: format!("{name}-dead") };
        for queue in [&node.queue, &node.dead] {
            node.declare(queue, &[]).await;
        }
        node
    }

    pub async fn declare(&self, queue: &str, arguments: &[(&str, &str)]) {
        let mut table = FieldTable::default();
        for (name, value) in arguments {
            table.insert((*name).into(), AMQPValue::LongString((*value).into()));
        }
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        self.channel.queue_declare(queue.into(), durable, table).await.expect("a queue");
    }

    pub async fn publish(&self, payload: &str, properties: BasicProperties) {
        self.publish_to(&self.queue, payload, properties).await;
    }

    pub async fn publish_to(&self, queue: &str, payload: &str, properties: BasicProperties) {
        let options = BasicPublishOptions::default();
        let sent = self.channel.basic_publish("".into(), queue.into(), options, payload.as_bytes(), properties).await;
        sent.expect("sent").await.expect("stored");
    }

    pub fn options(&self) -> RabbitMqOptions {
        RabbitMqOptions::new(&self.queue, &self.dead).outage(Duration::from_secs(3))
    }

    pub async fn source(&self) -> RabbitMq {
        RabbitMq::new(Arc::clone(&self.connection), self.options()).await.expect("a source")
    }

    /// Takes a message out of the queue for dead letters.
    pub async fn dead_letter(&self) -> Option<BasicGetMessage> {
        self.channel.basic_get(self.dead.as_str().into(), BasicGetOptions { no_ack: true }).await.expect("an answer")
    }
}

/// Receives until there are this many messages.
pub async fn receive(source: &RabbitMq, messages: usize) -> Vec<Arc<Message>> {
    let mut received = Vec::new();
    while received.len() < messages {
        let more = tokio::time::timeout(testkit::processes::PATIENCE, source.receive(messages - received.len()));
        let more = more.await.expect("a message").expect("received").expect("more");
        received.extend(more.into_iter().map(Arc::new));
    }
    received
}

pub fn payload(message: &Message) -> &str {
    std::str::from_utf8(&message.data).expect("text")
}

/// Returns true if nothing comes for a while.
pub async fn is_silent(source: &RabbitMq) -> bool {
    tokio::time::timeout(Duration::from_millis(300), source.receive(1)).await.is_err()
}
