//! A relay's publisher: stored before it is done, dropped by the stream when it comes again, and
//! given up only when another attempt cannot help.

use crate::server::{Server, good, options, payload, receive};
use async_nats::jetstream::stream;
use hapax_message::{BoxError, Described, GiveUp, Message, Publisher, cloudevents};
use hapax_nats::JetStreamPublisher;
use std::time::Duration;
use testkit::processes::PATIENCE;

fn message(id: &str, payload: &str) -> Message {
    let mut message = Message::new("orders.new", id, payload);
    message.headers.push(("tenant".into(), "a".into()));
    message
}

fn gave_up(answer: Result<(), BoxError>) -> bool {
    answer.is_err_and(|error| error.is::<GiveUp>())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_is_stored_once_with_its_id_and_headers() {
    let Some(server) = Server::start("nats_published").await else { return };
    let source = server.source_of(good(), options()).await.unwrap();
    let publisher = JetStreamPublisher::new(server.context.clone());
    let mut event = message("o-2", "second");
    event.kind = Some("order.paid".into());
    event.source = Some("/orders".into());
    publisher.publish(&message("o-1", "first")).await.unwrap();
    // The relay has died before it heard of the first.
    let answers = publisher.publish_batch(&[message("o-1", "first"), event]).await.unwrap();
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");

    let received = receive(&source, 2).await;
    assert_eq!(received.iter().map(|message| payload(message)).collect::<Vec<_>>(), ["first", "second"]);
    assert_eq!((received[0].id().as_deref(), received[0].header("tenant")), (Some(&b"o-1"[..]), Some("a")));
    let id = cloudevents::id("/orders", "o-2");
    assert_eq!((received[1].id().as_deref(), received[1].kind()), (Some(id.as_ref()), Some("order.paid")));
    assert_eq!(server.orders.get_info().await.unwrap().state.messages, 2, "stored once");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_never_be_stored_is_given_up_and_stops_none_of_its_batch() {
    let Some(server) = Server::start("nats_refused").await else { return };
    let small = stream::Config {
        name: "SMALL".into(),
        subjects: vec!["small".into()],
        max_message_size: 500,
        ..stream::Config::default()
    };
    server.context.create_stream(small).await.unwrap();
    let publisher = JetStreamPublisher::new(server.context.clone());
    let to = |subject: &str, bytes| Message::new(subject, "o-1", vec![0; bytes]);
    let max = server.context.client().max_payload();
    let batch = [
        to("orders.new", max + 1),
        to("small", 600),
        to("nobody.has.this", 1),
        to("", 1),
        to("a b", 1),
        to("orders.new", 1),
    ];
    let mut answers = publisher.publish_batch(&batch).await.unwrap();
    assert!(answers.pop().unwrap().is_ok());
    for (answer, message) in answers.into_iter().zip(&batch) {
        assert!(gave_up(answer), "{:?}", message.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_stream_and_a_server_that_is_away_are_tried_again() {
    let Some(mut server) = Server::start("nats_away").await else { return };
    let full = stream::Config {
        name: "FULL".into(),
        subjects: vec!["full".into()],
        max_messages: 1,
        discard: stream::DiscardPolicy::New,
        ..stream::Config::default()
    };
    server.context.create_stream(full).await.unwrap();
    let mut context = server.context.clone();
    context.set_timeout(Duration::from_millis(300));
    let publisher = JetStreamPublisher::new(context).subject_by(|message| message.name.replace("filled", "full"));
    publisher.publish(&Message::new("filled", "o-1", "x")).await.unwrap();
    let error = publisher.publish(&Message::new("filled", "o-2", "x")).await.unwrap_err();
    assert!(!error.is::<GiveUp>() && error.to_string().contains("full"), "{error}");

    server.nats.kill();
    assert!(!gave_up(publisher.publish(&message("o-3", "x")).await));
    server.nats.start_again();
    let published = async {
        while publisher.publish(&message("o-3", "x")).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, published).await.expect("published, since the server is there again");
    assert_eq!(server.orders.get_info().await.unwrap().state.messages, 1, "once");
}
