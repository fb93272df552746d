//! Groups of a FIFO queue.

use crate::server::{Server, receive};
use aws_sdk_sqs::types::MessageSystemAttributeName;
use hapax_message::Described;
use hapax_sqs::Message;
use hapax_store::{InMemoryStore, TieredDedup};
use hapax_stream::{Consumer, Delivery, Source};
use std::sync::{Arc, Mutex};
use std::time::Duration;

impl Server {
    async fn send_to(&self, group: &str, id: &str) {
        let send = self.client.send_message().queue_url(&self.queue).message_body(id);
        send.message_group_id(group).message_deduplication_id(id).send().await.expect("sent");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_waits_for_the_message_that_is_given_back() {
    let Some(server) = Server::start("sqs_fifo", ".fifo").await else { return };
    let source = server.source().await;
    for (group, id) in [("a", "a-1"), ("a", "a-2"), ("b", "b-1")] {
        server.send_to(group, id).await;
    }
    // What is sent again within five minutes is one message.
    server.send_to("a", "a-1").await;
    let first = receive(&source, 1).await.remove(0);
    let described = |message: &Message| {
        let key = message.key().map(|key| String::from_utf8(key.to_vec()).unwrap());
        (key, message.deduplication_id().map(str::to_owned))
    };
    assert_eq!(described(&first), (Some("a".into()), Some("a-1".into())));
    source.retry(&first, Duration::from_secs(3_600)).await.unwrap();
    let other = receive(&source, 1).await;
    assert_eq!(other[0].body(), Some("b-1"), "the group is blocked");
    source.acknowledge(&other).await.unwrap();
    source.retry(&first, Duration::ZERO).await.unwrap();
    let again = receive(&source, 1).await;
    assert_eq!((again[0].body(), source.deliveries(&again[0])), (Some("a-1"), Some(2)));
    source.acknowledge(&again).await.unwrap();
    let last = receive(&source, 1).await;
    assert_eq!(last[0].body(), Some("a-2"));
    source.acknowledge(&last).await.unwrap();
    assert_eq!(server.left().await, [0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_put_aside_twice_is_there_once_and_keeps_its_group() {
    let Some(server) = Server::start("sqs_fifo_dead", ".fifo").await else { return };
    let source = server.source().await;
    for id in ["a-1", "a-2"] {
        server.send_to("a", id).await;
    }
    for message in receive(&source, 2).await {
        source.dead_letter(&message, "it failed").await.unwrap();
        // The process has died before the deletion, and puts it aside again.
        source.dead_letter(&message, "it failed again").await.unwrap();
    }
    let dead = server.dead_letters().await;
    let bodies: Vec<_> = dead.iter().filter_map(|message| message.body()).collect();
    assert_eq!(bodies, ["a-1", "a-2"], "in order");
    let group = &dead[1].attributes().unwrap()[&MessageSystemAttributeName::MessageGroupId];
    let reason = dead[1].message_attributes().unwrap()["Dead-Letter-Reason"].string_value();
    assert_eq!((group.as_str(), reason), ("a", Some("it failed")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_handled_in_order_also_when_one_of_it_fails() {
    let Some(server) = Server::start("sqs_fifo_order", ".fifo").await else { return };
    let source = server.source().await;
    let ids = [("a", "a-1"), ("b", "b-1"), ("a", "a-2"), ("c", "c-1"), ("a", "a-3"), ("b", "b-2")];
    for (group, id) in ids {
        server.send_to(group, id).await;
    }
    let engine = TieredDedup::builder(InMemoryStore::new()).build().await.unwrap();
    let consumer = Consumer::builder("billing", engine, |order: &Message| order.body().map(str::to_owned))
        .in_order_by(|order: &Message| order.group_id().map(str::to_owned))
        .max_attempts(3)
        .retry_delay(Duration::from_millis(50), Duration::from_millis(100))
        .build()
        .unwrap();
    let handled = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&handled);
    let bill = move |order: Delivery<Message>| {
        let (all, id) = (Arc::clone(&all), order.body().unwrap().to_owned());
        async move {
            // The first one of a group takes longest, and fails at first; another one always.
            tokio::time::sleep(Duration::from_millis(if id == "a-1" { 300 } else { 1 })).await;
            if id == "b-1" || id == "a-1" && order.attempt() < 2 {
                return Err("not now");
            }
            all.lock().unwrap().push(id);
            Ok(())
        }
    };
    let is_done = async {
        while consumer.stats().acknowledged < ids.len() as u64 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    consumer.run(&source, bill, is_done).await.unwrap();
    let handled = handled.lock().unwrap().clone();
    let of = |group: &str| handled.iter().filter(|id| id.starts_with(group)).cloned().collect::<Vec<_>>();
    assert_eq!(
        (of("a"), of("b"), of("c")),
        (vec!["a-1".to_owned(), "a-2".into(), "a-3".into()], vec!["b-2".to_owned()], vec!["c-1".to_owned()],)
    );
    let dead = server.dead_letters().await;
    assert_eq!(dead.iter().filter_map(|message| message.body()).collect::<Vec<_>>(), ["b-1"]);
    assert_eq!(server.left().await, [0, 0]);
}
