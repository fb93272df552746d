//! The other end: messages of an outbox go to queues.

use crate::SqsError;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{BatchResultErrorEntry, MessageAttributeValue, SendMessageBatchRequestEntry};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hapax_message::cloudevents::Binding;
use hapax_message::ids::sqs_deduplication_id;
use hapax_message::{BoxError, GiveUp, MESSAGE_ID, Message, Publisher};
use std::collections::HashMap;
use std::time::Duration;

/// The largest number of messages of a request.
const BATCH: usize = 10;
/// The largest size of a request of several messages, in bytes: what every region takes.
const BATCH_BYTES: usize = 256 << 10;
/// The largest number of attributes of a message.
const ATTRIBUTES_MAX: usize = 10;
/// The number of requests that are under way at a time.
const REQUESTS: usize = 8;
/// The time that a call may take, with the client's own tries.
const CALL: Duration = Duration::from_secs(30);
/// The parts of SQS's codes for messages that it never takes.
const FINAL: [&str; 5] =
    ["InvalidMessageContents", "InvalidParameterValue", "InvalidAttribute", "MissingParameter", "TooLong"];

type QueueOf = dyn Fn(&Message) -> String + Send + Sync;
type Answer = Result<(), BoxError>;

/// A [`Publisher`] for a relay: it sends each message to a queue, ten in a request, and has
/// published it when SQS has accepted it.
///
/// ```no_run
/// use hapax_sqs::SqsPublisher;
///
/// # fn example(client: aws_sdk_sqs::Client) {
/// let account = "https://sqs.eu-central-1.amazonaws.com/123456789012";
/// let publisher = SqsPublisher::new(client, move |message| format!("{account}/{}", message.name));
/// # }
/// ```
///
/// - The message's id is its attribute `message-id`, as [`text_id`](Message::text_id) has it. In a
///   FIFO queue (its URL ends with `.fifo`) it is the deduplication id, too: SQS drops what is sent
///   again within five minutes. Its key is the message group; one without a key has a group of its
///   own.
/// - Its headers are attributes, and so are those of its event
///   ([`published_headers`](Message::published_headers), with names such as `ce_type`): ten with
///   the id, as many as SQS takes. Empty ones are left out.
/// - Dead letters at once ([`GiveUp`]) are: a payload that is empty or no text, more attributes,
///   what SQS says is too large or not valid, and a queue that does not exist. Whatever else fails
///   is tried again.
///
/// # Cost
///
/// One request for ten messages of a queue, of up to 256 KiB together; eight at a time.
pub struct SqsPublisher {
    client: Client,
    queue_of: Box<QueueOf>,
}

impl SqsPublisher {
    /// Creates a publisher that sends each message to the queue with this URL. The client has the
    /// region, credentials, TLS, tries and time-outs that the program gives it.
    pub fn new(client: Client, queue_of: impl Fn(&Message) -> String + Send + Sync + 'static) -> Self {
        SqsPublisher { client, queue_of: Box::new(queue_of) }
    }

    /// Sends some messages in one request. Returns an answer for each, with its place.
    async fn send(&self, request: Request) -> Vec<(usize, Answer)> {
        let doing = "sending messages";
        let (url, places) = (request.url, request.places);
        let sent = self.client.send_message_batch().queue_url(&url).set_entries(Some(request.entries)).send();
        let error = match tokio::time::timeout(CALL, sent).await {
            Ok(Ok(sent)) => {
                let failed: HashMap<&str, &BatchResultErrorEntry> =
                    sent.failed().iter().map(|entry| (entry.id(), entry)).collect();
                let answer = |place: usize| match failed.get(place.to_string().as_str()) {
                    None => Ok(()),
                    Some(entry) => Err(refused(entry)),
                };
                return places.into_iter().map(|place| (place, answer(place))).collect();
            }
            Ok(Err(error)) => SqsError::when(doing, &url)(error),
            Err(_) => SqsError::TimedOut { doing, after: CALL },
        };
        let is_final = match &error {
            SqsError::QueueNotFound { .. } => true,
            SqsError::Call { code: Some(code), .. } => FINAL.iter().any(|part| code.contains(part)),
            _ => false,
        };
        let text = error.to_string();
        places.into_iter().map(|place| (place, Err(judged(text.clone(), is_final)))).collect()
    }
}

/// Messages of one queue, by their places.
struct Request {
    url: String,
    places: Vec<usize>,
    entries: Vec<SendMessageBatchRequestEntry>,
    bytes: usize,
}

/// Puts messages into as few requests as they fit into; those that SQS never takes are answered.
fn requests(messages: &[Message], queue_of: &QueueOf, answers: &mut [Answer]) -> Vec<Request> {
    let mut full = Vec::new();
    let mut open: HashMap<String, Request> = HashMap::new();
    for (place, message) in messages.iter().enumerate() {
        let url = queue_of(message);
        let (entry, bytes) = match entry(place, message, url.ends_with(".fifo")) {
            Ok(entry) => entry,
            Err(why) => {
                answers[place] = Err(why.into());
                continue;
            }
        };
        let new = || Request { url: url.clone(), places: Vec::new(), entries: Vec::new(), bytes: 0 };
        let request = open.entry(url.clone()).or_insert_with(new);
        let is_full = request.entries.len() == BATCH || request.bytes + bytes > BATCH_BYTES;
        if is_full && !request.entries.is_empty() {
            full.push(std::mem::replace(request, new()));
        }
        request.places.push(place);
        request.entries.push(entry);
        request.bytes += bytes;
    }
    full.extend(open.into_values());
    full
}

/// Returns what is sent of a message, and its size in bytes.
fn entry(place: usize, message: &Message, is_fifo: bool) -> Result<(SendMessageBatchRequestEntry, usize), GiveUp> {
    let body = std::str::from_utf8(&message.payload).map_err(GiveUp::because)?;
    let id = message.text_id();
    let mut headers = message.published_headers(Binding::Kafka);
    headers.extend(id.clone().map(|id| (MESSAGE_ID.to_owned(), id)));
    headers.retain(|(_, value)| !value.is_empty());
    if body.is_empty() || headers.len() > ATTRIBUTES_MAX {
        let (attributes, bytes) = (headers.len(), body.len());
        let expected = format!("SQS takes messages of 1 byte or more with up to {ATTRIBUTES_MAX} attributes");
        return Err(GiveUp::because(format!("{expected}, got {bytes} bytes with {attributes} attributes")));
    }
    let mut bytes = body.len();
    let mut entry = SendMessageBatchRequestEntry::builder().id(place.to_string()).message_body(body);
    for (name, value) in headers {
        bytes += name.len() + value.len() + "String".len();
        let attribute = MessageAttributeValue::builder().data_type("String").string_value(value).build();
        entry = entry.message_attributes(name, attribute.map_err(GiveUp::because)?);
    }
    if is_fifo {
        let id = id.ok_or_else(|| GiveUp::because("a FIFO queue takes a message with an id, and this one is blank"))?;
        let group = message.key.as_ref().and_then(sqs_deduplication_id).unwrap_or_else(|| id.clone());
        entry = entry.message_deduplication_id(id).message_group_id(group);
    }
    Ok((entry.build().map_err(GiveUp::because)?, bytes))
}

fn refused(entry: &BatchResultErrorEntry) -> BoxError {
    let (code, words) = (entry.code(), entry.message().unwrap_or_default());
    judged(format!("SQS refused the message: {code}: {words}"), FINAL.iter().any(|part| code.contains(part)))
}

fn judged(error: String, is_final: bool) -> BoxError {
    if is_final { GiveUp::because(error).into() } else { error.into() }
}

impl Publisher for SqsPublisher {
    async fn publish(&self, message: &Message) -> Answer {
        let batch = self.publish_batch(std::slice::from_ref(message)).await;
        batch.and_then(|mut answers| answers.pop()).unwrap_or(Ok(()))
    }

    async fn publish_batch(&self, messages: &[Message]) -> Option<Vec<Answer>> {
        let mut answers: Vec<Answer> = messages.iter().map(|_| Ok(())).collect();
        let mut waiting = requests(messages, &*self.queue_of, &mut answers).into_iter();
        let mut sending: FuturesUnordered<_> =
            waiting.by_ref().take(REQUESTS).map(|request| self.send(request)).collect();
        while let Some(sent) = sending.next().await {
            sent.into_iter().for_each(|(place, answer)| answers[place] = answer);
            sending.extend(waiting.next().map(|request| self.send(request)));
        }
        Some(answers)
    }
}

impl std::fmt::Debug for SqsPublisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqsPublisher").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_of_one_queue_ten_messages_and_a_limited_size() {
        let message = |topic: &str, bytes: usize| Message::new(topic, "o-1", "x".repeat(bytes));
        let mut messages: Vec<Message> = (0..25).map(|place| message(["a", "b"][place % 2], 1)).collect();
        messages.extend([message("a", 200 << 10), message("a", 100 << 10), message("a", 300 << 10), message("a", 0)]);
        let mut answers: Vec<Answer> = messages.iter().map(|_| Ok(())).collect();
        let requests = requests(&messages, &|message| message.name.clone(), &mut answers);
        let mut places: Vec<usize> = requests.iter().flat_map(|request| request.places.clone()).collect();
        places.sort_unstable();
        assert_eq!(places, (0..28).collect::<Vec<_>>(), "each once");
        for Request { url, places, entries, bytes } in &requests {
            assert!(places.iter().all(|&place| messages[place].name == *url));
            assert!(
                entries.len() <= BATCH && (*bytes <= BATCH_BYTES || entries.len() == 1),
                "{} of {bytes}",
                entries.len()
            );
        }
        assert!(answers.pop().unwrap().is_err_and(|error| error.is::<GiveUp>()), "empty");
        assert!(answers.iter().all(Result::is_ok));
    }

    #[test]
    fn what_sqs_has_no_place_for_is_given_up() {
        let with = |headers: usize| {
            let mut message = Message::new("a", "o-1", "x");
            message.headers = (0..headers).map(|number| (format!("h{number}"), "1".to_owned())).collect();
            message.headers.push(("empty".into(), String::new()));
            entry(0, &message, false).map(drop).map_err(|why| why.to_string())
        };
        assert_eq!(with(9), Ok(()));
        assert!(with(10).unwrap_err().contains("11 attributes"));
        assert!(entry(0, &Message::new("a", "o-1", [0xff]), false).is_err());
        assert!(entry(0, &Message::new("a", " ", "x"), true).is_err());
    }

    #[test]
    fn a_group_of_a_fifo_queue_is_the_key_or_the_message_alone() {
        let mut message = Message::new("a", "o-1", "x");
        let of = |message: &Message| {
            let entry = entry(0, message, true).unwrap().0;
            [entry.message_group_id().unwrap().to_owned(), entry.message_deduplication_id().unwrap().to_owned()]
        };
        assert_eq!(of(&message), ["o-1", "o-1"]);
        message.key = Some("order 17".into());
        assert!(of(&message)[0].starts_with("sha256:"), "a key with a space");
        message.key = Some("order-17".into());
        assert_eq!(of(&message), ["order-17", "o-1"]);
    }
}
