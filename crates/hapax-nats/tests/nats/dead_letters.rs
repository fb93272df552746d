//! Dead letters: each is stored once, with the reason, and its delivery is terminated.

use crate::server::{Server, receive};
use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::{HeaderMap, jetstream};
use futures_util::StreamExt;
use hapax_nats::NatsError;
use hapax_stream::Source;
use testkit::processes::PATIENCE;

async fn dead_letters(server: &Server) -> Vec<(jetstream::Message, HeaderMap)> {
    let dead = server.context.get_stream("DEAD").await.expect("a stream");
    let reader = pull::Config { ack_policy: AckPolicy::None, ..pull::Config::default() };
    let reader = dead.create_consumer(reader).await.expect("a consumer");
    // As many as are stored, so that it need not wait for more.
    let stored = dead.cached_info().state.messages as usize;
    let batch = reader.fetch().max_messages(stored).expires(PATIENCE).messages().await.expect("a batch");
    let messages: Vec<jetstream::Message> = batch.map(|message| message.expect("a message")).collect().await;
    let with_headers = |message: jetstream::Message| (message.clone(), message.headers.clone().expect("headers"));
    messages.into_iter().map(with_headers).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_has_the_reason_and_obeys_no_command_of_the_original() {
    let Some(server) = Server::start("nats_dead").await else { return };
    let source = server.source().await;
    server.publish(&[], "first").await;
    // The stream of dead letters is at another position when it gets this.
    let commands = [("Nats-Expected-Last-Sequence", "1"), ("Nats-Msg-Id", "o-1"), ("tenant", "a"), ("tenant", "b")];
    server.publish(&commands, "second").await;
    let messages = receive(&source, 2).await;
    for message in messages.iter().rev() {
        source.dead_letter(message, "it failed\r\ntwice").await.expect("put aside");
    }
    // The process has died before the acknowledgement, and puts it aside again.
    source.dead_letter(&messages[1], "it failed again").await.expect("put aside");

    let dead = dead_letters(&server).await;
    assert_eq!(dead.len(), 2, "each once");
    let (copy, headers) = &dead[0];
    let header = |name: &str| headers.get(name).map(|value| value.as_str().to_owned());
    assert_eq!((copy.subject.as_str(), &*copy.payload), ("dead.billing", &b"second"[..]));
    assert_eq!(header("Dead-Letter-Reason").as_deref(), Some("it failed  twice"));
    let place =
        ["Subject", "Stream", "Consumer", "Sequence", "Deliveries"].map(|name| header(&format!("Dead-Letter-{name}")));
    assert_eq!(place.map(Option::unwrap), ["orders.new", "ORDERS", "billing", "2", "1"]);
    assert_eq!(header("Dead-Letter-Original-Msg-Id").as_deref(), Some("o-1"));
    assert_eq!(header("Dead-Letter-Original-Expected-Last-Sequence").as_deref(), Some("1"));
    assert_eq!(header("Nats-Expected-Last-Sequence"), None);
    assert_eq!(headers.get_all("tenant").map(|value| value.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_ne!(headers.get(NATS_MESSAGE_ID), dead[1].1.get(NATS_MESSAGE_ID));
}

#[tokio::test(flavor = "multi_thread")]
async fn its_delivery_is_terminated_when_it_is_acknowledged() {
    let Some(server) = Server::start("nats_terminated").await else { return };
    let source = server.source().await;
    let client = server.context.client();
    let mut terminated = client.subscribe("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.ORDERS.billing").await.unwrap();
    client.flush().await.unwrap();
    for text in ["done", "failed"] {
        server.publish(&[], text).await;
    }
    let messages = receive(&source, 2).await;
    source.dead_letter(&messages[1], "it failed").await.unwrap();
    assert_eq!(server.unacknowledged().await, 2, "not yet");
    source.acknowledge(&messages).await.unwrap();
    assert_eq!(server.unacknowledged().await, 0);
    let next = tokio::time::timeout(PATIENCE, terminated.next()).await.expect("an advisory").unwrap();
    let advisory = String::from_utf8(next.payload.to_vec()).unwrap();
    assert!(advisory.contains("\"stream_seq\":2"), "{advisory}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_too_large_with_its_reason_is_an_error_and_stays() {
    let Some(server) = Server::start("nats_large").await else { return };
    let source = server.source().await;
    let max = server.context.client().max_payload();
    server.publish(&[], &"x".repeat(max)).await;
    let message = receive(&source, 1).await.remove(0);
    match source.dead_letter(&message, "it failed").await {
        Err(NatsError::DeadLetterTooLarge { max: limit, stream_sequence: 1 }) => assert_eq!(limit, max),
        other => panic!("{other:?}"),
    }
    assert_eq!(server.unacknowledged().await, 1);
}
