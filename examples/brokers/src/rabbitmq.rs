//! A consumer of a RabbitMQ queue.

use crate::{BrokerError, ready};
use hapax_stream::Source;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions, BasicRejectOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties};
use std::collections::HashSet;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex;

/// One consumer of a queue. When its connection ends, the broker delivers the messages again at
/// once that it has not acknowledged.
pub struct RabbitMq {
    messages: Mutex<lapin::Consumer>,
    /// The deliveries that are to go to the dead letter exchange of their queue.
    refused: StdMutex<HashSet<u64>>,
    connection: Connection,
    // It closes when its last handle is dropped.
    _channel: Channel,
}

/// Returns the property `message-id`. A message without it is put aside.
pub fn message_id(message: &Delivery) -> Option<String> {
    message.properties.message_id().as_ref().map(ToString::to_string)
}

impl RabbitMq {
    /// Consumes from a queue that exists already. The broker sends up to `prefetch` messages ahead.
    ///
    /// # Errors
    ///
    /// Those of the client.
    pub async fn connect(url: &str, queue: &str, prefetch: u16) -> Result<Self, BrokerError> {
        let connecting = BrokerError::when("connecting");
        let connection = Connection::connect(url, ConnectionProperties::default()).await.map_err(&connecting)?;
        let channel = connection.create_channel().await.map_err(&connecting)?;
        channel.basic_qos(prefetch, BasicQosOptions::default()).await.map_err(&connecting)?;
        let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
        let messages = channel.basic_consume(queue.into(), "".into(), options, arguments).await;
        let messages = Mutex::new(messages.map_err(BrokerError::when("consuming"))?);
        Ok(RabbitMq { messages, refused: StdMutex::default(), connection, _channel: channel })
    }

    /// Closes the connection, and waits until the broker has taken back the messages that were not
    /// acknowledged. Without it, that happens some time after the process has ended.
    ///
    /// # Errors
    ///
    /// Those of the client. The broker takes everything back all the same when it notices.
    pub async fn close(self) -> Result<(), BrokerError> {
        self.connection.close(200, "".into()).await.map_err(BrokerError::when("closing"))
    }

    fn refused(&self) -> std::sync::MutexGuard<'_, HashSet<u64>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source for RabbitMq {
    type Message = Delivery;
    type Error = BrokerError;

    async fn receive(&self, max: usize) -> Result<Option<Vec<Delivery>>, BrokerError> {
        ready(&mut *self.messages.lock().await, max).await.map_err(BrokerError::when("receiving"))
    }

    async fn acknowledge(&self, messages: &[Arc<Delivery>]) -> Result<(), BrokerError> {
        for message in messages {
            let is_refused = self.refused().remove(&message.delivery_tag);
            let told = match is_refused {
                true => message.reject(BasicRejectOptions { requeue: false }).await,
                false => message.ack(BasicAckOptions::default()).await,
            };
            told.map_err(BrokerError::when("acknowledging"))?;
        }
        Ok(())
    }

    /// Holds the message back until it is time, since RabbitMQ delivers again at once. It counts as
    /// prefetched meanwhile, and the broker has it if this process ends.
    async fn retry(&self, message: &Arc<Delivery>, after: Duration) -> Result<(), BrokerError> {
        let message = Arc::clone(message);
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            // If that fails, the connection has ended, and the broker delivers it again.
            let _ = message.nack(BasicNackOptions { requeue: true, ..BasicNackOptions::default() }).await;
        });
        Ok(())
    }

    /// Returns true: received messages are delivered to nobody else as long as the channel is open.
    fn keeps_received(&self) -> bool {
        true
    }

    async fn dead_letter(&self, message: &Arc<Delivery>, why: &str) -> Result<(), BrokerError> {
        eprintln!("put aside: {:?}: {why}", message_id(message));
        self.refused().insert(message.delivery_tag);
        Ok(())
    }
}
