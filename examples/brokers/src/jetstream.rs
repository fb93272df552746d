//! A durable pull consumer of NATS JetStream.

use crate::{BrokerError, ready};
use async_nats::HeaderMap;
use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::{self, AckKind, Context, Message};
use hapax_stream::Source;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// The messages of a stream for one durable consumer, shared by all processes that name it.
pub struct JetStream {
    context: Context,
    messages: Mutex<pull::Stream>,
    /// The time for which the server waits for an acknowledgement, or for a sign of progress.
    ack_wait: Duration,
}

/// Returns the id that the publisher gave it, by which JetStream itself drops duplicates within its
/// own window. A message without one is put aside.
pub fn message_id(message: &Message) -> Option<&str> {
    message.headers.as_ref()?.get(NATS_MESSAGE_ID).map(|id| id.as_str())
}

impl JetStream {
    /// Connects to a consumer that exists already, and fetches up to `prefetch` messages ahead. The
    /// server waits for the acknowledgement of each from then on, no longer than its `ack_wait`. It
    /// gets progress reports about messages that were [received](Source::receive), and not about
    /// those that the client has only fetched, so fetch few.
    ///
    /// # Errors
    ///
    /// Those of the client.
    pub async fn connect(url: &str, stream: &str, consumer: &str, prefetch: usize) -> Result<Self, BrokerError> {
        let client = async_nats::connect(url).await.map_err(BrokerError::when("connecting"))?;
        let context = jetstream::new(client);
        let found = context.get_consumer_from_stream::<pull::Config, _, _>(consumer, stream).await;
        let consumer = found.map_err(BrokerError::when("looking for the consumer"))?;
        let ack_wait = consumer.cached_info().config.ack_wait;
        let messages = consumer.stream().max_messages_per_batch(prefetch).messages().await;
        let messages = messages.map_err(BrokerError::when("subscribing"))?;
        Ok(JetStream { context, messages: Mutex::new(messages), ack_wait })
    }
}

impl Source for JetStream {
    type Message = Message;
    type Error = BrokerError;

    async fn receive(&self, max: usize) -> Result<Option<Vec<Message>>, BrokerError> {
        ready(&mut *self.messages.lock().await, max).await.map_err(BrokerError::when("receiving"))
    }

    async fn acknowledge(&self, messages: &[Arc<Message>]) -> Result<(), BrokerError> {
        for message in messages {
            // This does not wait for the server: if the acknowledgement is lost, the message comes
            // again, and is a duplicate.
            message.ack().await.map_err(BrokerError::when("acknowledging"))?;
        }
        Ok(())
    }

    async fn retry(&self, message: &Arc<Message>, after: Duration) -> Result<(), BrokerError> {
        message.ack_with(AckKind::Nak(Some(after))).await.map_err(BrokerError::when("giving a message back"))
    }

    fn heartbeat(&self) -> Option<Duration> {
        Some(self.ack_wait / 3)
    }

    async fn extend(&self, messages: &[Arc<Message>]) -> Result<(), BrokerError> {
        for message in messages {
            // The server ignores this for a message that was acknowledged or given back meanwhile.
            message.ack_with(AckKind::Progress).await.map_err(BrokerError::when("reporting progress"))?;
        }
        Ok(())
    }

    async fn dead_letter(&self, message: &Arc<Message>, why: &str) -> Result<(), BrokerError> {
        let mut headers: HeaderMap = message.headers.clone().unwrap_or_default();
        headers.insert("Dead-Letter-Reason", why.replace(['\r', '\n'], " "));
        let subject = format!("dead.{}", message.subject);
        let sent = self.context.publish_with_headers(subject, headers, message.payload.clone()).await;
        // The answer shows that a stream has stored it.
        sent.map_err(BrokerError::when("putting a message aside"))?
            .await
            .map_err(BrokerError::when("putting a message aside"))?;
        Ok(())
    }

    fn deliveries(&self, message: &Message) -> Option<u32> {
        message.info().ok().and_then(|info| u32::try_from(info.delivered).ok())
    }
}
