//! A relay's publisher: accepted before it is done, and given up only when another attempt cannot
//! help.

use crate::server::{Server, client, receive};
use hapax_message::{Described, GiveUp, Message, Publisher};
use hapax_sqs::SqsPublisher;
use hapax_stream::Source;

fn message(id: &str) -> Message {
    let mut message = Message::new("orders", id, format!("payload of {id}"));
    message.key = Some(b"order-17".to_vec());
    message.headers.push(("tenant".into(), "a".into()));
    message
}

fn publisher(server: &Server) -> SqsPublisher {
    let queue = server.queue.clone();
    SqsPublisher::new(server.client.clone(), move |message| match message.name.as_str() {
        "orders" => queue.clone(),
        other => format!("{queue}{other}"),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn each_is_accepted_with_its_id_and_headers_and_what_sqs_never_takes_is_given_up() {
    let Some(server) = Server::start("published", "").await else { return };
    let publisher = publisher(&server);
    let mut batch: Vec<Message> = (0..12).map(|number| message(&format!("o-{number}"))).collect();
    batch.push(Message::new("elsewhere", "o-12", "x"));
    batch.push(Message::new("orders", "o-13", "x".repeat(2 << 20)));
    let answers = publisher.publish_batch(&batch).await.unwrap();
    for (place, answer) in answers.iter().enumerate() {
        assert_eq!(answer.is_ok(), place < 12, "{place}: {answer:?}");
        assert!(answer.as_ref().err().is_none_or(|error| error.is::<GiveUp>()), "{place}: {answer:?}");
    }
    let received = receive(&server.source().await, 12).await;
    let mut ids: Vec<Vec<u8>> = received.iter().map(|message| message.id().unwrap().into_owned()).collect();
    ids.sort();
    let mut expected: Vec<Vec<u8>> = (0..12).map(|number| format!("o-{number}").into_bytes()).collect();
    expected.sort();
    assert_eq!(ids, expected);
    assert!(received.iter().all(|message| message.header("tenant") == Some("a")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fifo_queue_drops_what_is_published_again_and_keeps_the_keys_order() {
    let Some(server) = Server::start("published", ".fifo").await else { return };
    let publisher = publisher(&server);
    for id in ["o-1", "o-2", "o-1"] {
        publisher.publish(&message(id)).await.unwrap();
    }
    let source = server.source().await;
    let received = receive(&source, 2).await;
    let seen: Vec<_> = received.iter().map(|message| (message.id().unwrap(), message.key().unwrap())).collect();
    assert_eq!(seen, [(b"o-1"[..].into(), &b"order-17"[..]), (b"o-2"[..].into(), &b"order-17"[..])]);
    source.acknowledge(&received).await.unwrap();
    assert_eq!(server.left().await, [0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_is_tried_again() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = client(&format!("http://{closed}"), aws_smithy_http_client::Builder::new().build_http());
    let publisher = SqsPublisher::new(nobody, move |_| format!("http://{closed}/1/orders"));
    let answers = publisher.publish_batch(&[message("o-1"), message("o-2")]).await.unwrap();
    assert!(answers.iter().all(|answer| answer.as_ref().is_err_and(|error| !error.is::<GiveUp>())), "{answers:?}");
}
