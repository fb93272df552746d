//! A relay's publisher: confirmed before it is done, and given up only when another attempt cannot
//! help.

use crate::node::{Node, payload, receive};
use futures_util::FutureExt;
use hapax_message::{Described, GiveUp, Message, Publisher, cloudevents};
use hapax_rabbitmq::RabbitMqPublisher;
use hapax_stream::Source;
use lapin::{Connection, ConnectionProperties};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// A publisher that counts its connections, and the last of them.
struct Connected {
    publisher: RabbitMqPublisher,
    connections: Arc<AtomicU32>,
    close: Arc<Mutex<Option<lapin::Channel>>>,
}

fn publisher(node: &Node) -> Connected {
    let (connections, close) = (Arc::<AtomicU32>::default(), Arc::<Mutex<Option<lapin::Channel>>>::default());
    let (url, counted, last) = (node.url.clone(), Arc::clone(&connections), Arc::clone(&close));
    let connect = move || {
        let (url, counted, last) = (url.clone(), Arc::clone(&counted), Arc::clone(&last));
        async move {
            counted.fetch_add(1, Relaxed);
            let connection = Connection::connect(&url, ConnectionProperties::default()).await?;
            *last.lock().unwrap() = Some(connection.create_channel().await?);
            Ok(connection)
        }
    };
    Connected { publisher: RabbitMqPublisher::new(connect), connections, close }
}

fn message(queue: &str, id: &str) -> Message {
    let mut message = Message::new(queue, id, id);
    for (name, value) in [("tenant", "a"), ("Content-Type", "text/plain"), ("CC", "elsewhere")] {
        message.headers.push((name.into(), value.into()));
    }
    message
}

pub async fn each_is_stored_with_its_id_and_headers_and_what_no_queue_takes_is_given_up(node: Node) {
    let Connected { publisher, connections, .. } = publisher(&node);
    let mut event = message(&node.queue, "o-2");
    event.kind = Some("order.paid".into());
    event.source = Some("/orders".into());
    publisher.publish(&message(&node.queue, "o-1")).await.unwrap();
    let nobody = message("nobody has this", "o-3");
    let too_long = message(&"x".repeat(256), "o-4");
    let answers = publisher.publish_batch(&[nobody, event, too_long]).await.unwrap();
    let given_up: Vec<bool> =
        answers.iter().map(|answer| answer.as_ref().is_err_and(|error| error.is::<GiveUp>())).collect();
    assert_eq!((given_up, answers[1].is_ok()), (vec![true, false, true], true), "{answers:?}");
    assert_eq!(connections.load(Relaxed), 1);

    let source = node.source().await;
    let received = receive(&source, 2).await;
    assert_eq!(received.iter().map(|message| payload(message)).collect::<Vec<_>>(), ["o-1", "o-2"]);
    let first = &received[0];
    assert_eq!((first.id().as_deref(), first.header("tenant")), (Some(&b"o-1"[..]), Some("a")));
    assert_eq!((first.header("content-type"), first.header("CC")), (Some("text/plain"), None));
    assert_eq!(first.properties.delivery_mode(), &Some(2));
    let second = &received[1];
    let id = cloudevents::id("/orders", "o-2");
    assert_eq!((second.id().as_deref(), second.kind()), (Some(id.as_ref()), Some("order.paid")));
    assert!(source.receive(1).now_or_never().is_none(), "no more than two");
}

pub async fn a_full_queue_and_a_broken_connection_are_tried_again(node: Node) {
    let Connected { publisher, connections, close } = publisher(&node);
    // One place, and a broker that rejects what it has no place for.
    let mut full = lapin::types::FieldTable::default();
    full.insert("x-max-length".into(), lapin::types::AMQPValue::LongInt(1));
    full.insert("x-overflow".into(), lapin::types::AMQPValue::LongString("reject-publish".into()));
    let durable = lapin::options::QueueDeclareOptions { durable: true, ..Default::default() };
    node.channel.queue_declare("rejecting".into(), durable, full).await.unwrap();
    publisher.publish(&message("rejecting", "o-1")).await.unwrap();
    let error = publisher.publish(&message("rejecting", "o-2")).await.unwrap_err();
    assert!(!error.is::<GiveUp>() && error.to_string().contains("did not confirm"), "{error}");

    // A missing exchange closes the channel, a failure the connection.
    let elsewhere = publisher.exchange("no such exchange");
    let error = elsewhere.publish(&message(&node.queue, "o-3")).await.unwrap_err();
    assert!(!error.is::<GiveUp>(), "{error}");
    let publisher = elsewhere.exchange("");
    publisher.publish(&message(&node.queue, "o-4")).await.unwrap();
    let last = close.lock().unwrap().take().unwrap();
    // (The broker takes a frame of a method that it does not know for a fault of the connection.)
    let _ = last
        .exchange_declare(
            "".into(),
            lapin::ExchangeKind::Custom("no such kind".into()),
            Default::default(),
            Default::default(),
        )
        .await;
    publisher.publish(&message(&node.queue, "o-5")).await.unwrap();
    assert!(connections.load(Relaxed) >= 2, "{connections:?}");
    let received = receive(&node.source().await, 2).await;
    assert_eq!(received.iter().map(|message| payload(message)).collect::<Vec<_>>(), ["o-4", "o-5"]);
}
