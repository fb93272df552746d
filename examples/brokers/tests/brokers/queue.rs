//! A queue with the protocol of Amazon SQS: a received message is hidden for a while, comes again
//! unless it is deleted by its latest receipt, and sometimes comes twice all the same, as from a
//! standard queue.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::Instant;

#[derive(Default)]
struct Queue {
    messages: Vec<Sent>,
    receipts: u64,
}

struct Sent {
    body: String,
    visible: Instant,
    receipt: u64,
    received: u32,
}

/// The queues by the last part of their URL.
#[derive(Clone)]
pub struct Queues {
    queues: Arc<Mutex<HashMap<String, Queue>>>,
    random: Arc<Mutex<fastrand::Rng>>,
}

impl Queues {
    pub fn new(names: &[&str], seed: u64) -> Self {
        let queues = names.iter().map(|name| (name.to_string(), Queue::default())).collect();
        let random = Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)));
        Queues { queues: Arc::new(Mutex::new(queues)), random }
    }

    /// Listens on loopback. Returns its endpoint.
    pub fn serve(&self, runtime: &Runtime) -> String {
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("the address that was bound");
        let routes = Router::new().route("/", post(asked)).with_state(self.clone());
        runtime.spawn(async move { axum::serve(listener, routes).await });
        format!("http://{address}")
    }

    /// Returns the bodies of messages that were not deleted.
    pub fn left(&self, name: &str) -> Vec<String> {
        self.queues()[name].messages.iter().map(|sent| sent.body.clone()).collect()
    }

    pub fn send(&self, name: &str, body: &str) {
        let sent = Sent { body: body.into(), visible: Instant::now(), receipt: 0, received: 0 };
        self.queues().get_mut(name).expect("a queue").messages.push(sent);
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<String, Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn comes_twice(&self) -> bool {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).u8(..10) == 0
    }

    async fn receive(&self, name: &str, request: &Value) -> Option<Value> {
        let max = request["MaxNumberOfMessages"].as_u64().filter(|max| (1..=10).contains(max))?;
        let hidden = Duration::from_secs(request["VisibilityTimeout"].as_u64()?);
        let deadline = Instant::now() + Duration::from_secs(request["WaitTimeSeconds"].as_u64()?);
        loop {
            let received = self.visible(name, max as usize, hidden)?;
            if !received.is_empty() || Instant::now() >= deadline {
                return Some(json!({"Messages": received}));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn visible(&self, name: &str, max: usize, hidden: Duration) -> Option<Vec<Value>> {
        let (mut queues, now) = (self.queues(), Instant::now());
        let Queue { messages, receipts } = queues.get_mut(name)?;
        let visible = messages.iter_mut().filter(|sent| sent.visible <= now).take(max);
        let received = visible.map(|sent| {
            *receipts += 1;
            sent.receipt = *receipts;
            sent.received += 1;
            if !self.comes_twice() {
                sent.visible = now + hidden;
            }
            let attributes = json!({"ApproximateReceiveCount": sent.received.to_string()});
            json!({"Body": sent.body, "ReceiptHandle": sent.receipt.to_string(), "Attributes": attributes})
        });
        Some(received.collect())
    }

    fn delete(&self, name: &str, request: &Value) -> Option<Value> {
        let entries = request["Entries"].as_array().filter(|entries| (1..=10).contains(&entries.len()))?;
        let mut queues = self.queues();
        let messages = &mut queues.get_mut(name)?.messages;
        let mut deleted = Vec::new();
        for entry in entries {
            let receipt = receipt(entry)?;
            // An older receipt is accepted, and deletes nothing.
            messages.retain(|sent| sent.receipt != receipt);
            deleted.push(json!({"Id": entry["Id"]}));
        }
        Some(json!({"Successful": deleted, "Failed": []}))
    }

    /// Hides messages; a receipt that has expired fails alone.
    fn hide_batch(&self, name: &str, request: &Value) -> Option<Value> {
        let entries = request["Entries"].as_array().filter(|entries| (1..=10).contains(&entries.len()))?;
        let (mut hidden, mut failed) = (Vec::new(), Vec::new());
        for entry in entries {
            match self.hide(name, entry) {
                Some(()) => hidden.push(json!({"Id": entry["Id"]})),
                None => failed.push(json!({"Id": entry["Id"], "SenderFault": true, "Code": "ReceiptHandleIsInvalid"})),
            }
        }
        Some(json!({"Successful": hidden, "Failed": failed}))
    }

    /// Hides a message. Returns none, and so an error, if the receipt has expired: the message was
    /// deleted, is visible, or was received again.
    fn hide(&self, name: &str, request: &Value) -> Option<()> {
        let hidden = Duration::from_secs(request["VisibilityTimeout"].as_u64().filter(|seconds| *seconds <= 43_200)?);
        let (receipt, now) = (receipt(request)?, Instant::now());
        let mut queues = self.queues();
        let messages = &mut queues.get_mut(name)?.messages;
        let sent = messages.iter_mut().find(|sent| sent.receipt == receipt && sent.visible > now)?;
        sent.visible = now + hidden;
        Some(())
    }
}

fn receipt(request: &Value) -> Option<u64> {
    request["ReceiptHandle"].as_str()?.parse().ok()
}

async fn asked(State(queues): State<Queues>, headers: HeaderMap, body: Bytes) -> (StatusCode, String) {
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let name = request["QueueUrl"].as_str().and_then(|url| url.rsplit('/').next()).unwrap_or_default().to_owned();
    let answer = match headers.get("x-amz-target").and_then(|action| action.to_str().ok()) {
        Some("AmazonSQS.ReceiveMessage") => queues.receive(&name, &request).await,
        Some("AmazonSQS.DeleteMessageBatch") => queues.delete(&name, &request),
        Some("AmazonSQS.ChangeMessageVisibility") => queues.hide(&name, &request).map(|()| Value::Null),
        Some("AmazonSQS.ChangeMessageVisibilityBatch") => queues.hide_batch(&name, &request),
        Some("AmazonSQS.SendMessage") => request["MessageBody"].as_str().map(|body| {
            queues.send(&name, body);
            json!({"MessageId": fastrand::u64(..).to_string()})
        }),
        _ => None,
    };
    match answer {
        Some(Value::Null) => (StatusCode::OK, String::new()),
        Some(answer) => (StatusCode::OK, answer.to_string()),
        None => (StatusCode::BAD_REQUEST, json!({"__type": "InvalidParameterValue"}).to_string()),
    }
}
