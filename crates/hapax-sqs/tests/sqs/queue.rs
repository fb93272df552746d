//! Deliveries, heartbeats, delays, deletions, dead letters of a standard queue.

use crate::server::{Server, receive};
use aws_sdk_sqs::types::MessageAttributeValue;
use hapax_message::{Described, cloudevents};
use hapax_sqs::{Sqs, SqsError, SqsOptions};
use hapax_stream::Source;
use std::time::{Duration, Instant};

fn text(value: &str) -> MessageAttributeValue {
    MessageAttributeValue::builder().data_type("String").string_value(value).build().unwrap()
}

impl Server {
    async fn send(&self, body: &str, attributes: &[(&str, &str)]) {
        let mut send = self.client.send_message().queue_url(&self.queue).message_body(body);
        for (name, value) in attributes {
            send = send.message_attributes(*name, text(value));
        }
        send.send().await.expect("sent");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_hidden_again_and_again_is_delivered_to_nobody_else() {
    let Some(server) = Server::start("sqs_heartbeat", "").await else { return };
    let options = server.options().visibility(Duration::from_secs(2));
    let source = Sqs::new(server.client.clone(), options).await.unwrap();
    for body in ["extended", "forgotten"] {
        server.send(body, &[]).await;
    }
    let messages = receive(&source, 2).await;
    let every = source.heartbeat().unwrap();
    assert_eq!(every, Duration::from_secs(2) / 3);
    let extended = messages.iter().find(|message| message.body() == Some("extended")).unwrap().clone();
    let extend = async {
        // Twice as long as it is hidden.
        let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
        for _ in 0..6 {
            tokio::time::sleep(every).await;
            source.extend(std::slice::from_ref(&extended)).await.unwrap();
            longest = longest.max(last.elapsed());
            last = Instant::now();
        }
        longest
    };
    let (again, longest) = tokio::join!(receive(&source, 1), extend);
    // On a machine that has stood still for as long as it is hidden, this says nothing.
    if longest > Duration::from_millis(1_800) {
        return println!("it was hidden again after {longest:?}");
    }
    assert_eq!(again[0].body(), Some("forgotten"));
    assert_eq!((source.deliveries(&extended), source.deliveries(&again[0])), (Some(1), Some(2)));
    // The receipts of before are over, and no error.
    source.acknowledge(&messages).await.unwrap();
    source.acknowledge(&again).await.unwrap();
    source.extend(&messages).await.unwrap();
    source.retry(&messages[0], Duration::from_secs(1)).await.unwrap();
    assert_eq!(server.left().await, [0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_are_deleted_ten_at_a_time_and_an_empty_queue_answers() {
    let Some(server) = Server::start("sqs_batches", "").await else { return };
    let source = server.source().await;
    for number in 0..27 {
        server.send(&number.to_string(), &[]).await;
    }
    let messages = receive(&source, 27).await;
    assert_eq!(source.receive(100).await.unwrap().unwrap().len(), 0);
    source.acknowledge(&messages).await.unwrap();
    assert_eq!(server.left().await, [0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_given_back_for_as_long_as_is_asked() {
    let Some(server) = Server::start("sqs_back", "").await else { return };
    let source = Sqs::new(server.client.clone(), server.options()).await.unwrap();
    server.send("order", &[]).await;
    let mut message = receive(&source, 1).await.remove(0);
    // SQS counts whole seconds.
    for (delay, seconds, deliveries) in [(Duration::from_millis(1_200), 2, 2), (Duration::ZERO, 0, 3)] {
        let began = Instant::now();
        source.retry(&message, delay).await.unwrap();
        message = receive(&source, 1).await.remove(0);
        let (took, seconds) = (began.elapsed(), Duration::from_secs(seconds));
        assert!(took + Duration::from_millis(500) >= seconds && took < testkit::processes::PATIENCE, "{took:?}");
        assert_eq!(source.deliveries(&message), Some(deliveries));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_put_aside_has_its_attributes_and_the_reason() {
    let Some(server) = Server::start("sqs_dead", "").await else { return };
    let source = server.source().await;
    server.send("order", &[("tenant", "a")]).await;
    let message = receive(&source, 1).await.remove(0);
    source.dead_letter(&message, "it failed\0 <&>").await.unwrap();
    let dead = server.dead_letters().await;
    let attribute = |name: &str| dead[0].message_attributes().unwrap()[name].string_value().unwrap().to_owned();
    assert_eq!((dead.len(), dead[0].body()), (1, Some("order")));
    assert_eq!(
        (attribute("tenant").as_str(), attribute("Dead-Letter-Reason").as_str()),
        ("a", "it failed\u{fffd} <&>")
    );
    assert_eq!(Some(attribute("Dead-Letter-Message-Id").as_str()), message.message_id());
    assert_eq!(server.left().await, [0, 1], "the consumer deletes it");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_say_what_they_are() {
    let Some(server) = Server::start("sqs_described", "").await else { return };
    let source = server.source().await;
    server.send("{}", &[("ce-id", "17"), ("ce-source", "/shop"), ("ce-type", "order.placed")]).await;
    let event = receive(&source, 1).await.remove(0);
    assert_eq!(event.id().as_deref(), Some(cloudevents::id("/shop", "17").as_ref()));
    assert_eq!((event.kind(), event.key(), Described::payload(&*event)), (Some("order.placed"), None, &b"{}"[..]));
    source.acknowledge(&[event]).await.unwrap();
    server.send("{}", &[]).await;
    let plain = receive(&source, 1).await.remove(0);
    assert_eq!((plain.id().as_deref(), plain.kind()), (plain.message_id().map(str::as_bytes), None));
    assert!(plain.message_id().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_queue_is_named() {
    let Some(server) = Server::start("sqs_missing", "").await else { return };
    let missing = format!("{}-missing", server.queue);
    for options in [SqsOptions::new(&missing, &server.dead), SqsOptions::new(&server.queue, &missing)] {
        match Sqs::new(server.client.clone(), options).await {
            Err(SqsError::QueueNotFound { url }) => assert_eq!(url, missing),
            other => panic!("{other:?}"),
        }
    }
    // One that is deleted later ends the run: trying again would be of no use.
    let source = server.source().await;
    server.client.delete_queue().queue_url(&server.queue).send().await.unwrap();
    match source.receive(1).await {
        Err(SqsError::QueueNotFound { url }) => assert_eq!(url, server.queue),
        other => panic!("{other:?}"),
    }
}
