//! A consumer of a queue with the protocol of Amazon SQS: its JSON form, without the signature of
//! requests, which the SDK adds.

use crate::BrokerError;
use hapax_stream::Source;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// A queue, by its endpoint and URL.
pub struct Sqs {
    http: reqwest::Client,
    endpoint: String,
    queue: String,
    /// The queue for messages that are put aside.
    dead: String,
    /// The time for which a received message is hidden from others, unless it is extended. Handling
    /// may take longer.
    visibility: Duration,
}

/// A received message.
#[derive(Debug)]
pub struct Message {
    /// The text that was sent.
    pub body: String,
    /// The receipt of this delivery: another one for each.
    receipt: String,
    received: Option<u32>,
}

/// Returns the field `id` of a body in JSON; none for any other body, and such a message is put
/// aside. SQS's own id differs each time that a producer sends.
pub fn body_id(message: &Message) -> Option<String> {
    let body: Value = serde_json::from_str(&message.body).ok()?;
    body["id"].as_str().map(str::to_owned)
}

impl Sqs {
    /// Creates a handle to a queue of an endpoint. It sends no request yet.
    pub fn new(endpoint: &str, queue: &str, dead: &str, visibility: Duration) -> Self {
        // The provider of TLS, unless the program has set one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (http, endpoint) = (reqwest::Client::new(), endpoint.to_owned());
        Sqs { http, endpoint, queue: queue.into(), dead: dead.into(), visibility }
    }

    /// Hides messages for this long from now on. A message whose receipt is not valid any more is
    /// left alone: it was deleted, or is visible, or another consumer has it.
    async fn hide(&self, messages: &[Arc<Message>], seconds: u64) -> Result<(), BrokerError> {
        for ten in messages.chunks(10) {
            let entry = |(place, message): (usize, &Arc<Message>)| json!({"Id": place.to_string(), "ReceiptHandle": message.receipt, "VisibilityTimeout": seconds});
            let entries: Vec<Value> = ten.iter().enumerate().map(entry).collect();
            // The answer says which have failed. (A request about a single one would be an error
            // then.)
            let request = json!({"QueueUrl": self.queue, "Entries": entries});
            self.ask("ChangeMessageVisibilityBatch", request).await?;
        }
        Ok(())
    }

    async fn ask(&self, action: &'static str, request: Value) -> Result<Value, BrokerError> {
        let post = self.http.post(&self.endpoint).header("content-type", "application/x-amz-json-1.0");
        let post = post.header("x-amz-target", format!("AmazonSQS.{action}")).body(request.to_string());
        let answer =
            post.send().await.and_then(reqwest::Response::error_for_status).map_err(BrokerError::when(action))?;
        let answer = answer.bytes().await.map_err(BrokerError::when(action))?;
        // Some actions have an empty answer.
        if answer.is_empty() {
            Ok(Value::Null)
        } else {
            serde_json::from_slice(&answer).map_err(BrokerError::when(action))
        }
    }
}

impl Source for Sqs {
    type Message = Message;
    type Error = BrokerError;

    async fn receive(&self, max: usize) -> Result<Option<Vec<Message>>, BrokerError> {
        let request = json!({
            "QueueUrl": self.queue,
            "MaxNumberOfMessages": max.min(10), // as many as SQS gives
            "WaitTimeSeconds": 20,
            "VisibilityTimeout": self.visibility.as_secs(),
            "MessageSystemAttributeNames": ["ApproximateReceiveCount"],
        });
        loop {
            let mut answer = self.ask("ReceiveMessage", request.clone()).await?;
            let Some(Value::Array(messages)) = answer.get_mut("Messages").map(Value::take) else { continue };
            let messages: Vec<Message> = messages.iter().filter_map(message).collect();
            if !messages.is_empty() {
                return Ok(Some(messages));
            }
        }
    }

    async fn acknowledge(&self, messages: &[Arc<Message>]) -> Result<(), BrokerError> {
        for ten in messages.chunks(10) {
            let entry = |(place, message): (usize, &Arc<Message>)| json!({"Id": place.to_string(), "ReceiptHandle": message.receipt});
            let entries: Vec<Value> = ten.iter().enumerate().map(entry).collect();
            // A message whose deletion is refused comes again, and is a duplicate.
            self.ask("DeleteMessageBatch", json!({"QueueUrl": self.queue, "Entries": entries})).await?;
        }
        Ok(())
    }

    async fn retry(&self, message: &Arc<Message>, after: Duration) -> Result<(), BrokerError> {
        let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
        self.hide(std::slice::from_ref(message), seconds.min(43_200)).await
    }

    fn heartbeat(&self) -> Option<Duration> {
        Some(self.visibility / 3)
    }

    async fn extend(&self, messages: &[Arc<Message>]) -> Result<(), BrokerError> {
        self.hide(messages, self.visibility.as_secs()).await
    }

    async fn dead_letter(&self, message: &Arc<Message>, why: &str) -> Result<(), BrokerError> {
        let why = json!({"DataType": "String", "StringValue": why});
        let request = json!({"QueueUrl": self.dead, "MessageBody": message.body, "MessageAttributes": {"Reason": why}});
        self.ask("SendMessage", request).await.map(drop)
    }

    fn deliveries(&self, message: &Message) -> Option<u32> {
        message.received
    }
}

/// Reads a message: anything that has a receipt can be deleted, and is a message.
fn message(received: &Value) -> Option<Message> {
    Some(Message {
        body: received["Body"].as_str().unwrap_or_default().to_owned(),
        receipt: received["ReceiptHandle"].as_str()?.to_owned(),
        received: received["Attributes"]["ApproximateReceiveCount"].as_str().and_then(|count| count.parse().ok()),
    })
}
