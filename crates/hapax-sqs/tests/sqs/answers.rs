//! Answers that a good queue seldom gives: parts of a batch that fail, throttling, refusals.

use crate::server::client;
use aws_sdk_sqs::types::Message as Received;
use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use hapax_sqs::{Message, Sqs, SqsError, SqsOptions};
use hapax_stream::Source;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const QUEUE: &str = "http://sqs/1/orders";
const DEAD: &str = "http://sqs/1/dead";

/// A request: the action, and what it asks for.
type Asked = (String, Value);

/// Creates a source whose requests are answered by a function. Returns it with the requests.
async fn source(
    outage: Duration,
    answer: impl Fn(&str, &Value, usize) -> (u16, Value) + Send + Sync + 'static,
) -> (Sqs, Arc<Mutex<Vec<Asked>>>) {
    let asked = Arc::new(Mutex::new(Vec::<Asked>::new()));
    let (all, answer) = (Arc::clone(&asked), Arc::new(answer));
    let answering = move |headers: HeaderMap, body: String| async move {
        let action = headers["x-amz-target"].to_str().unwrap().rsplit('.').next().unwrap().to_owned();
        let body: Value = serde_json::from_str(&body).unwrap();
        let mut all = all.lock().unwrap();
        let before = all.iter().filter(|(before, _)| *before == action).count();
        let (status, answer) = match action.as_str() {
            "GetQueueAttributes" => (200, json!({"Attributes": {"MaximumMessageSize": "1024"}})),
            _ => answer(&action, &body, before),
        };
        all.push((action, body));
        (StatusCode::from_u16(status).unwrap(), answer.to_string())
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("the address that was bound"));
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answering)).await });
    let client = client(&url, aws_smithy_http_client::Builder::new().build_http());
    let options = SqsOptions::new(QUEUE, DEAD).outage(outage);
    (Sqs::new(client, options).await.expect("a source"), asked)
}

fn messages(count: usize) -> Vec<Arc<Message>> {
    let message = |number: usize| Received::builder().body("order").receipt_handle(format!("r-{number}")).build();
    (0..count).map(|number| Arc::new(Message::new(message(number), Instant::now()))).collect()
}

/// Returns the answer to a batch: entries whose receipt has a code fail with it.
fn batch(asked: &Value, code_of: impl Fn(&str) -> Option<(&'static str, bool)>) -> (u16, Value) {
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for entry in asked["Entries"].as_array().unwrap() {
        match code_of(entry["ReceiptHandle"].as_str().unwrap()) {
            None => done.push(json!({"Id": entry["Id"]})),
            Some((code, fault)) => {
                failed.push(json!({"Id": entry["Id"], "Code": code, "SenderFault": fault, "Message": "no"}));
            }
        }
    }
    (200, json!({"Successful": done, "Failed": failed}))
}

fn receipts(asked: &[Asked], action: &str) -> Vec<Vec<String>> {
    let of = |asked: &Value| {
        let entries = asked["Entries"].as_array().unwrap().iter();
        entries.map(|entry| entry["ReceiptHandle"].as_str().unwrap().to_owned()).collect()
    };
    asked.iter().filter(|(asked, _)| asked == action).map(|(_, asked)| of(asked)).collect()
}

#[tokio::test]
async fn only_what_has_failed_is_deleted_again() {
    let (source, asked) = source(Duration::from_secs(10), |_, asked, before| {
        batch(asked, |receipt| match receipt {
            "r-1" => Some(("ReceiptHandleIsInvalid", true)),
            "r-2" if before < 1 => Some(("InternalError", false)),
            "r-3" if before < 2 => Some(("RequestThrottled", true)),
            _ => None,
        })
    })
    .await;
    source.acknowledge(&messages(5)).await.unwrap();
    let asked = receipts(&asked.lock().unwrap(), "DeleteMessageBatch");
    assert_eq!(asked, [vec!["r-0", "r-1", "r-2", "r-3", "r-4"], vec!["r-2", "r-3"], vec!["r-3"]]);
}

#[tokio::test]
async fn what_cannot_be_deleted_is_an_error_after_the_limit() {
    let outage = Duration::from_secs(5);
    let (source, asked) =
        source(outage, |_, asked, _| batch(asked, |receipt| (receipt == "r-11").then_some(("InternalError", false))))
            .await;
    let began = Instant::now();
    match source.acknowledge(&messages(12)).await {
        Err(SqsError::Entries { failed: 1, code, is_transient: true, .. }) => assert_eq!(code, "InternalError"),
        other => panic!("{other:?}"),
    }
    assert!(began.elapsed() < testkit::processes::PATIENCE, "{:?}", began.elapsed());
    let asked = receipts(&asked.lock().unwrap(), "DeleteMessageBatch").len();
    assert!((3..100).contains(&asked), "{asked} requests");
}

#[tokio::test]
async fn what_is_refused_is_not_tried_again() {
    let (source, asked) = source(Duration::from_secs(10), |_, asked, _| {
        batch(asked, |receipt| match receipt {
            "r-0" => Some(("InternalError", false)),
            "r-1" => Some(("AccessDenied", true)),
            _ => None,
        })
    })
    .await;
    match source.acknowledge(&messages(3)).await {
        Err(SqsError::Entries { failed: 2, code, is_transient: false, .. }) => assert_eq!(code, "AccessDenied"),
        other => panic!("{other:?}"),
    }
    match source.extend(&messages(3)).await {
        Err(SqsError::Entries { failed: 2, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(receipts(&asked.lock().unwrap(), "DeleteMessageBatch").len(), 1);
}

#[tokio::test]
async fn messages_are_hidden_in_batches_of_ten() {
    let (source, asked) = source(Duration::from_secs(10), |_, asked, _| batch(asked, |_| None)).await;
    source.extend(&messages(95)).await.unwrap();
    let asked = asked.lock().unwrap();
    let mut sizes: Vec<usize> = receipts(&asked, "ChangeMessageVisibilityBatch").iter().map(Vec::len).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [&[5][..], &[10; 9]].concat());
    let (_, last) = asked.last().unwrap();
    assert_eq!(last["Entries"][0]["VisibilityTimeout"], 60);
}

/// The delivery was over before the request came: the message is deleted, or another consumer's.
#[tokio::test]
async fn a_message_that_is_given_back_or_hidden_too_late_is_no_error() {
    let (source, _) = source(Duration::ZERO, |_, asked, _| {
        let gone = "Value AQEB for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not \
                    available for visibility timeout change.";
        let id = &asked["Entries"][0]["Id"];
        let failed = json!({"Id": id, "Code": "InvalidParameterValue", "SenderFault": true, "Message": gone});
        (200, json!({"Successful": [], "Failed": [failed]}))
    })
    .await;
    let messages = messages(1);
    source.retry(&messages[0], Duration::from_secs(5)).await.unwrap();
    source.extend(&messages).await.unwrap();
}

fn error(code: &str) -> Value {
    json!({"__type": format!("com.amazonaws.sqs#{code}"), "message": "no"})
}

#[tokio::test]
async fn throttling_is_waited_out_and_a_refusal_is_not() {
    let (source, asked) = source(Duration::from_secs(20), |_, _, before| match before {
        0 => (400, error("RequestThrottled")),
        1 => (403, error("OverLimit")),
        2 => (503, json!({})),
        3 => (200, json!({"Messages": [{"Body": "order", "ReceiptHandle": "r", "MessageId": "m"}]})),
        _ => (403, error("AccessDenied")),
    })
    .await;
    let received = source.receive(300).await.unwrap().unwrap();
    assert_eq!((received.len(), source.deliveries(&received[0])), (1, None));
    match source.receive(300).await {
        Err(SqsError::Call { code: Some(code), is_transient: false, .. }) => assert_eq!(code, "AccessDenied"),
        other => panic!("{other:?}"),
    }
    let asked = asked.lock().unwrap();
    let received: Vec<&Value> =
        asked.iter().filter(|(action, _)| action == "ReceiveMessage").map(|(_, asked)| asked).collect();
    assert_eq!(received.len(), 5);
    assert_eq!((&received[0]["MaxNumberOfMessages"], &received[0]["WaitTimeSeconds"]), (&json!(10), &json!(20)));
    assert_eq!(received[0]["VisibilityTimeout"], 60);
}

#[tokio::test]
async fn a_dead_letter_that_is_too_large_is_not_sent() {
    let (source, asked) = source(Duration::from_secs(10), |_, _, _| (200, json!({"MessageId": "m"}))).await;
    let of = |size: usize| {
        let received = Received::builder().body("x".repeat(size)).receipt_handle("r").build();
        Arc::new(Message::new(received, Instant::now()))
    };
    source.dead_letter(&of(1_024), "it failed").await.unwrap();
    match source.dead_letter(&of(1_025), "it failed").await {
        Err(SqsError::DeadLetterTooLarge { max: 1_024, got: 1_025 }) => {}
        other => panic!("{other:?}"),
    }
    let asked = asked.lock().unwrap();
    let sent: Vec<&Value> =
        asked.iter().filter(|(action, _)| action == "SendMessage").map(|(_, asked)| asked).collect();
    assert_eq!((sent.len(), &sent[0]["MessageAttributes"]), (1, &json!({})), "the reason has no room");
}
