//! Deliveries, delays, acknowledgements, dead letters.

use crate::node::{Node, is_silent, payload, receive};
use hapax_message::Described;
use hapax_rabbitmq::{Message, RabbitMq, RabbitMqError, RabbitMqOptions};
use hapax_store::{InMemoryStore, TieredDedup};
use hapax_stream::{Consumer, Delivery, Source};
use lapin::BasicProperties;
use lapin::options::QueueDeleteOptions;
use lapin::types::{AMQPValue, FieldTable};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn plain() -> BasicProperties {
    BasicProperties::default()
}

pub async fn no_more_is_sent_ahead_than_asked(node: Node) {
    let source = RabbitMq::new(Arc::clone(&node.connection), node.options().prefetch(3)).await.unwrap();
    for number in 0..5 {
        node.publish(&number.to_string(), plain()).await;
    }
    let first = receive(&source, 3).await;
    assert_eq!(first.iter().map(|message| payload(message)).collect::<Vec<_>>(), ["0", "1", "2"]);
    assert!(is_silent(&source).await, "more than the prefetch");
    source.acknowledge(&first[..1]).await.unwrap();
    assert_eq!(payload(&receive(&source, 1).await[0]), "3");
    assert!(is_silent(&source).await);
}

pub async fn a_message_is_held_back_for_as_long_as_is_asked(node: Node) {
    let source = node.source().await;
    node.publish("order", plain()).await;
    let mut message = receive(&source, 1).await.remove(0);
    assert_eq!(source.deliveries(&message), Some(1));
    for delay in [Duration::from_millis(700), Duration::ZERO] {
        let began = Instant::now();
        source.retry(&message, delay).await.unwrap();
        message = receive(&source, 1).await.remove(0);
        let took = began.elapsed();
        assert!((delay..testkit::processes::PATIENCE).contains(&took), "{took:?} for {delay:?}");
        // A classic queue knows that it was delivered before, and not how often.
        assert_eq!(source.deliveries(&message), Some(2));
    }
}

pub async fn a_quorum_queue_counts_deliveries(node: Node) {
    node.declare("counting", &[("x-queue-type", "quorum")]).await;
    let options = RabbitMqOptions::new("counting", &node.dead);
    let source = RabbitMq::new(Arc::clone(&node.connection), options).await.unwrap();
    node.publish_to("counting", "order", plain()).await;
    for deliveries in 1..=4 {
        let message = receive(&source, 1).await.remove(0);
        assert_eq!(source.deliveries(&message), Some(deliveries));
        source.retry(&message, Duration::ZERO).await.unwrap();
    }
}

pub async fn what_is_put_aside_is_confirmed_and_has_the_reason(node: Node) {
    let source = node.source().await;
    // With a copy of these, the broker would close the channel, drop the copy, and copy it again.
    let mut headers = FieldTable::default();
    headers.insert("tenant".into(), AMQPValue::LongString("a".into()));
    let properties = plain().with_user_id("guest".into()).with_expiration("60000".into()).with_headers(headers);
    node.publish("order", properties.with_message_id("o-1".into())).await;
    let message = receive(&source, 1).await.remove(0);
    source.dead_letter(&message, "it failed").await.unwrap();
    // It is there when the call returns.
    let dead: Message = node.dead_letter().await.expect("a dead letter").delivery.into();
    assert_eq!((payload(&dead), dead.id().as_deref()), ("order", Some(&b"o-1"[..])));
    for (name, value) in [
        ("tenant", "a"),
        ("dead-letter-reason", "it failed"),
        ("dead-letter-queue", node.queue.as_str()),
        ("dead-letter-routing-key", node.queue.as_str()),
        ("dead-letter-user-id", "guest"),
        ("dead-letter-expiration", "60000"),
    ] {
        assert_eq!(dead.header(name), Some(value), "{name}");
    }
    assert_eq!(dead.properties.expiration(), &None);
    source.acknowledge(&[message]).await.unwrap();
}

pub async fn what_no_queue_takes_is_not_put_aside(node: Node) {
    let source = node.source().await;
    node.publish("order", plain()).await;
    let message = receive(&source, 1).await.remove(0);
    node.channel.queue_delete(node.dead.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
    match source.dead_letter(&message, "it failed").await {
        Err(RabbitMqError::NotPutAside { queue }) => assert_eq!(queue, node.dead),
        other => panic!("{other:?}"),
    }
    // The operator declares it again.
    node.declare(&node.dead, &[]).await;
    source.dead_letter(&message, "it failed").await.unwrap();
    assert!(node.dead_letter().await.is_some());
}

pub async fn a_missing_queue_is_named(node: Node) {
    let of = |queue: &str, dead: &str| RabbitMq::new(Arc::clone(&node.connection), RabbitMqOptions::new(queue, dead));
    for result in [of("nothing", &node.dead).await, of(&node.queue, "nothing").await] {
        match result {
            Err(RabbitMqError::QueueNotFound { queue }) => assert_eq!(queue, "nothing"),
            other => panic!("{other:?}"),
        }
    }
}

pub async fn what_is_not_acknowledged_is_taken_back_at_once(node: Node) {
    let source = node.source().await;
    for text in ["done", "open", "held back"] {
        node.publish(text, plain()).await;
    }
    let messages = receive(&source, 3).await;
    source.acknowledge(&messages[..1]).await.unwrap();
    source.retry(&messages[2], Duration::from_secs(3_600)).await.unwrap();
    source.close().await.unwrap();
    let next = node.source().await;
    let again = receive(&next, 2).await;
    assert_eq!(again.iter().map(|message| payload(message)).collect::<Vec<_>>(), ["open", "held back"]);
    assert!(node.connection.status().connected(), "it is the program's");
}

pub async fn a_consumer_handles_each_order_once_and_puts_aside_what_fails(node: Node) {
    let source = node.source().await;
    for id in ["1", "2", "1", "poison", "2", "3"] {
        node.publish("order", plain().with_message_id(id.into())).await;
    }
    node.publish("without an id", plain()).await;
    let engine = TieredDedup::builder(InMemoryStore::new()).build().await.unwrap();
    let id = |order: &Message| order.id().map(|id| id.into_owned());
    let consumer = Consumer::builder("billing", engine, id).max_attempts(2);
    let consumer = consumer.retry_delay(Duration::from_millis(50), Duration::from_millis(100)).build().unwrap();
    let bill = |order: Delivery<Message>| async move {
        match order.id().as_deref() {
            Some(b"poison") => Err("it cannot be billed"),
            _ => Ok(()),
        }
    };
    let is_done = async {
        while consumer.stats().acknowledged < 7 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let stats = consumer.run(&source, bill, is_done).await.unwrap();
    assert_eq!((stats.handled, stats.duplicate, stats.dead_lettered, stats.failed), (3, 2, 2, 2), "{stats:?}");
    let reasons = [node.dead_letter().await.unwrap(), node.dead_letter().await.unwrap()];
    let reasons = reasons.map(|dead| Message::from(dead.delivery).header("dead-letter-reason").unwrap().to_owned());
    assert!(reasons.iter().any(|reason| reason.contains("it cannot be billed")), "{reasons:?}");
    source.close().await.unwrap();
    assert!(is_silent(&node.source().await).await, "all are acknowledged");
}
