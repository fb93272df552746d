//! The source: a durable pull consumer.

use crate::{JetStreamOptions, Message, NatsError, check, dead_letter};
use async_nats::RequestErrorKind;
use async_nats::connection::State;
use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::context::{ConsumerInfoErrorKind, GetStreamByNameErrorKind, PublishErrorKind};
use async_nats::jetstream::{AckKind, Context};
use futures_util::StreamExt;
use futures_util::future::try_join_all;
use hapax_store::sync::lock;
use hapax_stream::{Source, retry_for};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The time for which the server waits for a message. If the connection breaks meanwhile, the
/// server forgets the request, and the client notices when this has passed.
const POLL: Duration = Duration::from_secs(5);
/// The time that a call may take, beyond what the server itself waits.
const CALL: Duration = Duration::from_secs(10);
/// The number of acknowledgements whose confirmation is awaited at a time.
const ACKNOWLEDGED_TOGETHER: usize = 64;

/// The messages of a stream for one durable pull consumer, shared by all processes that use it.
///
/// See the [crate](crate) for an example, and for what the consumer's configuration must be.
///
/// # Cost
///
/// One request for each batch of messages, and two a poll of five seconds while there is none. An
/// acknowledgement is a message, and the server's answer to it; 64 are under way at a time.
pub struct JetStream {
    context: Context,
    consumer: PullConsumer,
    options: JetStreamOptions,
    /// The shortest time for which the server waits for an acknowledgement, or for a sign of
    /// progress.
    ack_wait: Duration,
    batch_max: usize,
    poll: Duration,
    /// The places of messages that were put aside, and are to be acknowledged.
    put_aside: Mutex<HashSet<u64>>,
}

impl JetStream {
    /// Creates a source of a consumer that exists already, and checks its configuration.
    ///
    /// # Errors
    ///
    /// [`NatsError::Misconfigured`] names the option of the consumer, or of `options`, that would
    /// lose messages. Those of the client, if the server does not answer: nothing is tried again.
    pub async fn new(context: Context, consumer: PullConsumer, options: JetStreamOptions) -> Result<Self, NatsError> {
        let doing = "asking for the consumer's configuration";
        let info = in_time(doing, CALL, consumer.get_info()).await?.map_err(NatsError::when(doing))?;
        let ack_wait = check::consumer(&info.config, &options)?;
        let doing = "looking for the stream of dead letters";
        let found = in_time(doing, CALL, context.stream_by_subject(options.dead_letters.as_str())).await?;
        let stored_by = match found {
            Ok(stream) => Some(stream),
            Err(error) if error.kind() == GetStreamByNameErrorKind::Request => {
                return Err(NatsError::when(doing)(error));
            }
            Err(_) => None,
        };
        check::dead_letters(&options.dead_letters, stored_by.as_deref(), &info.stream_name, &info.config)?;
        let limit = |limit: i64| usize::try_from(limit).ok().filter(|limit| *limit > 0);
        let batch_max = limit(info.config.max_batch).unwrap_or(usize::MAX);
        let poll = Some(info.config.max_expires).filter(|max| !max.is_zero()).map_or(POLL, |max| max.min(POLL));
        Ok(JetStream { context, consumer, options, ack_wait, batch_max, poll, put_aside: Mutex::default() })
    }

    /// Receives messages that are there, or waits for one; none, if there is none for a while.
    ///
    /// The request is for exactly as many as there is room for, and is over when this returns: no
    /// message waits in the client, where no heartbeat would report it.
    async fn fetch(&self, max: usize) -> Result<Vec<Message>, NatsError> {
        let doing = "asking for messages";
        let request = self.consumer.fetch().max_messages(max.min(self.batch_max)).expires(self.poll).messages();
        let mut batch = match in_time(doing, CALL, request).await? {
            Ok(batch) => batch,
            Err(error) => return Err(self.cause(NatsError::when(doing)(error)).await),
        };
        let mut received = Vec::new();
        // (The client ends it some seconds after the server should have.)
        while let Some(next) = batch.next().await {
            match next {
                Ok(message) => received.push(Message(message)),
                Err(error) if received.is_empty() => return Err(self.cause(NatsError::when(doing)(error)).await),
                // What has come before it is here; the next request hears of it again.
                Err(_) => break,
            }
        }
        let is_away = received.is_empty() && self.context.client().connection_state() != State::Connected;
        if is_away { Err(NatsError::Disconnected) } else { Ok(received) }
    }

    /// Returns the cause of an error: the client does not say that the consumer is gone.
    async fn cause(&self, error: NatsError) -> NatsError {
        use ConsumerInfoErrorKind::{NotFound, StreamNotFound};
        match tokio::time::timeout(CALL, self.consumer.get_info()).await {
            Ok(Err(info)) if matches!(info.kind(), NotFound | StreamNotFound) => {
                let info = self.consumer.cached_info();
                NatsError::ConsumerDeleted { stream: info.stream_name.clone(), consumer: info.name.clone() }
            }
            _ => error,
        }
    }

    async fn tell(&self, doing: &'static str, message: &Message, kind: AckKind) -> Result<(), NatsError> {
        in_time(doing, CALL, message.ack_with(kind)).await?.map_err(NatsError::when(doing))
    }

    /// Tells the server of a message, and waits until it has confirmed that. (The client's own
    /// `double_ack` takes it for a confirmation that nobody is there to hear of the message.)
    async fn tell_confirmed(&self, message: &Message, kind: AckKind) -> Result<(), NatsError> {
        let doing = "acknowledging a message";
        let Some(reply) = message.reply.clone() else {
            return Err(NatsError::when(doing)("it has no subject for acknowledgements"));
        };
        match in_time(doing, CALL, self.context.client().request(reply, kind.into())).await? {
            Ok(_) => Ok(()),
            // The consumer is gone; or its leader is, and another one is being chosen.
            Err(error) if error.kind() == RequestErrorKind::NoResponders => {
                Err(self.cause(NatsError::when(doing)(error)).await)
            }
            Err(error) => Err(NatsError::when(doing)(error)),
        }
    }

    /// Acknowledges a message, and waits until the server has confirmed it.
    async fn acknowledge_one(&self, message: &Message) -> Result<(), NatsError> {
        let place = message.stream_sequence();
        // The server reports terminated messages to those that watch it.
        let kind = if lock(&self.put_aside).contains(&place) { AckKind::Term } else { AckKind::Ack };
        let acknowledge = || self.tell_confirmed(message, kind);
        retry_for(self.options.outage, NatsError::is_transient, acknowledge).await?;
        lock(&self.put_aside).remove(&place);
        Ok(())
    }

    /// Stores the copy of a message, and waits until the server has confirmed it.
    async fn store_copy(&self, message: &Message, why: &str) -> Result<(), NatsError> {
        let doing = "putting a message aside";
        let headers = dead_letter::headers(message, why);
        let subject = self.options.dead_letters.clone();
        let published = async {
            self.context.publish_with_headers(subject, headers, message.payload.clone()).await?.await.map(drop)
        };
        in_time(doing, CALL, published).await?.map_err(|error| match error.kind() {
            PublishErrorKind::MaxPayloadExceeded => NatsError::DeadLetterTooLarge {
                max: self.context.client().max_payload(),
                stream_sequence: message.stream_sequence(),
            },
            _ => NatsError::when(doing)(error),
        })
    }
}

async fn in_time<T>(doing: &'static str, after: Duration, call: impl Future<Output = T>) -> Result<T, NatsError> {
    tokio::time::timeout(after, call).await.map_err(|_| NatsError::TimedOut { doing, after })
}

impl Source for JetStream {
    type Message = Message;
    type Error = NatsError;

    async fn receive(&self, max: usize) -> Result<Option<Vec<Message>>, NatsError> {
        retry_for(self.options.outage, NatsError::is_transient, || self.fetch(max)).await.map(Some)
    }

    async fn acknowledge(&self, messages: &[Arc<Message>]) -> Result<(), NatsError> {
        for some in messages.chunks(ACKNOWLEDGED_TOGETHER) {
            try_join_all(some.iter().map(|message| self.acknowledge_one(message))).await?;
        }
        Ok(())
    }

    /// Gives the message back with a delay, which the server waits for. If that is lost, the
    /// message is delivered again after the consumer's `ack_wait`.
    async fn retry(&self, message: &Arc<Message>, after: Duration) -> Result<(), NatsError> {
        let delay = Some(after).filter(|after| !after.is_zero());
        let tell = || self.tell("giving a message back", message, AckKind::Nak(delay));
        retry_for(self.options.outage, NatsError::is_transient, tell).await
    }

    fn heartbeat(&self) -> Option<Duration> {
        Some(self.ack_wait / 3)
    }

    async fn extend(&self, messages: &[Arc<Message>]) -> Result<(), NatsError> {
        for message in messages {
            // The server ignores this for a message that was acknowledged meanwhile.
            self.tell("reporting progress", message, AckKind::Progress).await?;
        }
        Ok(())
    }

    async fn dead_letter(&self, message: &Arc<Message>, why: &str) -> Result<(), NatsError> {
        let store = || self.store_copy(message, why);
        retry_for(self.options.outage, NatsError::is_transient, store).await?;
        lock(&self.put_aside).insert(message.stream_sequence());
        Ok(())
    }

    fn deliveries(&self, message: &Message) -> Option<u32> {
        message.info().ok().and_then(|info| u32::try_from(info.delivered).ok())
    }

    /// Returns the stream, and the number that it gave the message.
    fn sent_as(&self, message: &Message) -> Option<Vec<u8>> {
        message.info().ok().map(|info| format!("{}/{}", info.stream, info.stream_sequence).into())
    }
}

impl std::fmt::Debug for JetStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let info = self.consumer.cached_info();
        f.debug_struct("JetStream")
            .field("stream", &info.stream_name)
            .field("consumer", &info.name)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
