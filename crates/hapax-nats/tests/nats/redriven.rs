//! Dead letters that are published anew, and deliveries that were put aside, and come again.

use crate::server::{Server, good, options};
use async_nats::HeaderMap;
use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream;
use hapax_message::Described;
use hapax_nats::{JetStream, Message};
use std::time::Duration;
use testkit::redriven::{Billing, POISON, ids};

/// The time within which the stream drops what has the `Nats-Msg-Id` of another message.
const WINDOW: Duration = Duration::from_millis(100);

fn id(message: &Message) -> Option<String> {
    message.id().and_then(|id| String::from_utf8(id.into_owned()).ok())
}

/// Returns a source from which nothing comes again because a machine is slow.
async fn source(server: &Server) -> JetStream {
    let config = Config { ack_wait: Duration::from_secs(3_600), ..good() };
    server.source_of(config, options()).await.expect("a source")
}

async fn dead_letters(server: &Server) -> Vec<StreamMessage> {
    let mut dead = server.context.get_stream("DEAD").await.expect("a stream");
    let mut letters = Vec::new();
    for sequence in 1..=dead.info().await.expect("what it has").state.last_sequence {
        letters.push(dead.get_raw_message(sequence).await.expect("a message"));
    }
    letters
}

/// Publishes a dead letter anew, as an operator has to: to its subject, with its own
/// `Nats-Msg-Id`, and again for as long as the stream takes that for a copy.
async fn publish_anew(server: &Server, letter: &StreamMessage) {
    let header = |name: &str| letter.headers.get(name).expect("a header").as_str().to_owned();
    let mut headers = HeaderMap::new();
    headers.insert(NATS_MESSAGE_ID, header("Dead-Letter-Original-Msg-Id"));
    loop {
        let (subject, payload) = (header("Dead-Letter-Subject"), letter.payload.clone());
        let sent = server.context.publish_with_headers(subject, headers.clone(), payload).await.expect("sent");
        if !sent.await.expect("stored").duplicate {
            return;
        }
        tokio::time::sleep(WINDOW).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn poison_in_a_batch_is_put_aside_alone() {
    let Some(server) = Server::start("nats_batches").await else { return };
    for id in ids() {
        server.publish(&[("Nats-Msg-Id", &id)], "an order").await;
    }
    Billing::new(id).await.handles_batches(&source(&server).await).await;
    assert_eq!((dead_letters(&server).await.len(), server.unacknowledged().await), (POISON.len(), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_that_is_published_anew_is_handled_by_the_same_consumer() {
    let Some(server) = Server::start("nats_redriven").await else { return };
    let shorter = stream::Config { duplicate_window: WINDOW, ..server.orders.cached_info().config.clone() };
    server.context.update_stream(shorter).await.expect("a shorter window");
    for id in ids() {
        server.publish(&[("Nats-Msg-Id", &id)], "an order").await;
    }
    let (source, billing) = (source(&server).await, Billing::new(id).await);
    let replay = async {
        for letter in dead_letters(&server).await {
            publish_anew(&server, &letter).await;
        }
    };
    billing.handles_what_is_sent_anew(&source, replay).await;
    assert_eq!((dead_letters(&server).await.len(), server.unacknowledged().await), (POISON.len(), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_was_put_aside_and_not_terminated_is_put_aside_again_unhandled() {
    let Some(server) = Server::start("nats_aside_again").await else { return };
    server.publish(&[("Nats-Msg-Id", POISON[0])], "an order").await;
    let source = source(&server).await;
    Billing::new(id).await.puts_aside_again_what_is_repeated(&source, 1).await;
    assert_eq!((dead_letters(&server).await.len(), server.unacknowledged().await), (1, 0), "it is there once");
}
