//! The other end: messages of an outbox go to streams.

use async_nats::HeaderMap;
use async_nats::header::{HeaderName, HeaderValue, NATS_MESSAGE_ID};
use async_nats::jetstream::context::{GetStreamByNameErrorKind, PublishAckFuture, PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{self, Context, ErrorCode};
use futures_util::future::join_all;
use hapax_message::cloudevents::Binding;
use hapax_message::{BoxError, GiveUp, Message, Publisher};
use std::error::Error;

type SubjectOf = dyn Fn(&Message) -> String + Send + Sync;

/// A [`Publisher`] for a relay: it publishes each message to a stream of JetStream, under its topic
/// as the subject, and has published it when the stream has stored it.
///
/// ```no_run
/// use hapax_nats::JetStreamPublisher;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let client = async_nats::connect("nats://127.0.0.1:4222").await?;
/// let context = async_nats::jetstream::new(client);
/// let publisher = JetStreamPublisher::new(context).subject_by(|message| format!("shop.{}", message.name));
/// # Ok(())
/// # }
/// ```
///
/// - The message's id is its `Nats-Msg-Id`, as [`text_id`](Message::text_id) has it: within its
///   duplicate window, two minutes by default, the stream drops what is published again. After
///   that the consumer knows it, by the same id.
/// - Its headers go with it, and those of its event
///   ([`published_headers`](Message::published_headers)). Headers that begin with `Nats-` are
///   commands to the server, and are left out.
/// - A batch is sent at once, and its acknowledgements are awaited together: at most as many as the
///   context's `max_ack_inflight`, and as long as its `timeout`.
/// - Dead letters at once ([`GiveUp`]) are: what is larger than server or stream accept, headers
///   that NATS has not, and a subject of which the server says that no stream has it. Whatever else
///   fails, such as a server that is away or a stream that is full, is tried again.
pub struct JetStreamPublisher {
    context: Context,
    subject_of: Box<SubjectOf>,
}

impl JetStreamPublisher {
    /// Creates a publisher whose subjects are the messages' topics.
    pub fn new(context: Context) -> Self {
        JetStreamPublisher { context, subject_of: Box::new(|message| message.name.clone()) }
    }

    /// Sets the subject of a message.
    #[must_use]
    pub fn subject_by(self, subject_of: impl Fn(&Message) -> String + Send + Sync + 'static) -> Self {
        JetStreamPublisher { subject_of: Box::new(subject_of), ..self }
    }

    async fn send(&self, message: &Message) -> Result<PublishAckFuture, BoxError> {
        let publish = PublishMessage::build().headers(headers(message)?).payload(message.payload.clone().into());
        let subject = (self.subject_of)(message);
        match self.context.send_publish(subject.clone(), publish).await {
            Ok(sent) => Ok(sent),
            Err(error) => Err(self.judged(subject, error).await),
        }
    }

    async fn confirmed(&self, message: &Message, sent: Result<PublishAckFuture, BoxError>) -> Result<(), BoxError> {
        match sent?.await {
            Ok(_) => Ok(()), // also if the stream had it already
            Err(error) => Err(self.judged((self.subject_of)(message), error).await),
        }
    }

    /// Returns the error, which gives up if another attempt cannot help.
    async fn judged(&self, subject: String, error: PublishError) -> BoxError {
        let stream = error.source().and_then(|cause| cause.downcast_ref::<jetstream::Error>());
        let is_final = match (error.kind(), stream) {
            (PublishErrorKind::MaxPayloadExceeded, _) => true,
            (_, Some(refused)) => {
                let too_large = [ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM, ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM];
                too_large.contains(&refused.error_code())
            }
            // A stream that has no leader just now does not answer, either: so the server is asked.
            (PublishErrorKind::StreamNotFound | PublishErrorKind::Other, None) => {
                use GetStreamByNameErrorKind::{InvalidSubject, NotFound};
                let found = self.context.stream_by_subject(subject.as_str()).await;
                found.is_err_and(|why| matches!(why.kind(), NotFound | InvalidSubject))
            }
            _ => false,
        };
        let error = format!("publishing to {subject:?}: {error}");
        if is_final { GiveUp::because(error).into() } else { error.into() }
    }
}

impl Publisher for JetStreamPublisher {
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

fn headers(message: &Message) -> Result<HeaderMap, BoxError> {
    let mut headers = HeaderMap::new();
    for (name, value) in message.published_headers(Binding::Nats) {
        let is_command = name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("nats-"));
        if !is_command {
            let refused = |error: &dyn std::fmt::Display| GiveUp::because(format!("header {name:?}: {error}"));
            let header: HeaderName = name.parse().map_err(|error| refused(&error))?;
            let value: HeaderValue = value.parse().map_err(|error| refused(&error))?;
            headers.append(header, value);
        }
    }
    if let Some(id) = message.text_id() {
        headers.insert(NATS_MESSAGE_ID, id);
    }
    Ok(headers)
}

impl std::fmt::Debug for JetStreamPublisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JetStreamPublisher").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_those_of_the_message_but_for_commands() {
        let mut message = Message::new("orders", "o-1", "");
        message.headers =
            [("tenant", "a"), ("Nats-Rollup", "all"), ("nats-expected-last-sequence", "1"), ("traceparent", "t")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into();
        let headers = headers(&message).unwrap();
        let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_ref()).collect();
        assert_eq!(names.len(), 3, "{names:?}");
        assert_eq!(headers.get(NATS_MESSAGE_ID).unwrap().as_str(), "o-1");
    }

    #[test]
    fn a_header_that_nats_has_not_is_given_up() {
        for (name, value) in [("a b:", "x"), ("tenant", "a\r\nb")] {
            let mut message = Message::new("orders", "o-1", "");
            message.headers = vec![(name.to_owned(), value.to_owned())];
            let error = headers(&message).unwrap_err();
            assert!(error.is::<GiveUp>() && error.to_string().contains(&format!("{name:?}")), "{error}");
        }
    }
}
