//! Deliveries, heartbeats, delays, acknowledgements.

use crate::server::{Server, good, options, payload, receive};
use async_nats::jetstream::consumer::pull::Config;
use hapax_message::{Described, cloudevents};
use hapax_stream::Source;
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::processes::PATIENCE;

const HOUR: Duration = Duration::from_secs(3_600);
/// The number of times that a machine may be too slow to show what a test is for.
const ROUNDS: u32 = 20;

#[tokio::test(flavor = "multi_thread")]
async fn no_more_messages_are_taken_than_there_is_room_for() {
    let Some(server) = Server::start("nats_room").await else { return };
    // Nothing comes again because a machine is slow.
    let source = server.source_of(Config { ack_wait: HOUR, ..good() }, options()).await.unwrap();
    // Whoever waits for more does so for five seconds, each time.
    for round in 0.. {
        for number in 0..5 {
            server.publish(&[], &number.to_string()).await;
        }
        let began = Instant::now();
        let two = receive(&source, 2).await;
        assert_eq!(two.iter().map(|message| payload(message)).collect::<Vec<_>>(), ["0", "1"]);
        assert_eq!(server.unacknowledged().await, 2, "what the client has taken is here");
        let rest: Vec<_> = source.receive(100).await.unwrap().unwrap().into_iter().map(Arc::new).collect();
        assert_eq!(rest.iter().map(|message| payload(message)).collect::<Vec<_>>(), ["2", "3", "4"]);

        // One that comes while it is awaited is delivered at once.
        let (received, ()) = tokio::join!(source.receive(100), async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            server.publish(&[], "5").await;
        });
        let received: Vec<_> = received.unwrap().unwrap().into_iter().map(Arc::new).collect();
        assert_eq!(received.len(), 1);
        let took = began.elapsed();
        if took < Duration::from_secs(4) {
            break;
        }
        // A busy machine may be slow, but not each time.
        assert!(round < ROUNDS, "it waits for more: {took:?}");
        source.acknowledge(&[two, rest, received].concat()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_comes_while_there_is_none() {
    let Some(server) = Server::start("nats_none").await else { return };
    let source = server.source_of(Config { max_expires: Duration::from_secs(1), ..good() }, options()).await.unwrap();
    // A busy machine may be slow, but not each time.
    let is_in_time = async || {
        let began = Instant::now();
        assert!(source.receive(1).await.unwrap().unwrap().is_empty());
        began.elapsed() < Duration::from_secs(4)
    };
    for round in 0.. {
        if is_in_time().await {
            break;
        }
        assert!(round < ROUNDS, "longer than the consumer's `max_expires`, the usual five seconds");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_reported_is_delivered_to_nobody_else() {
    let Some(server) = Server::start("nats_heartbeat").await else { return };
    let source = server.source().await;
    for text in ["reported", "forgotten"] {
        server.publish(&[], text).await;
    }
    let messages = receive(&source, 2).await;
    let every = source.heartbeat().unwrap();
    assert_eq!(every, Duration::from_secs(1) / 3);
    let reported = &messages[..1];
    let again = async { receive(&source, 1).await };
    let report = async {
        // Three times as long as the server waits.
        let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
        for _ in 0..9 {
            tokio::time::sleep(every).await;
            source.extend(reported).await.unwrap();
            longest = longest.max(last.elapsed());
            last = Instant::now();
        }
        longest
    };
    let (again, longest) = tokio::join!(again, report);
    // On a machine that has stood still for as long as the server waits, this says nothing.
    if longest > Duration::from_millis(900) {
        return println!("a report came after {longest:?}");
    }
    assert_eq!(payload(&again[0]), "forgotten");
    assert_eq!((source.deliveries(&messages[0]), source.deliveries(&again[0])), (Some(1), Some(2)));
    source.acknowledge(&messages).await.unwrap();
    // One that comes too late is no error.
    source.extend(&messages).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_given_back_for_as_long_as_is_asked() {
    let Some(server) = Server::start("nats_back").await else { return };
    let config = Config { ack_wait: HOUR, ..good() };
    let source = server.source_of(config, options()).await.unwrap();
    server.publish(&[], "order").await;
    let mut message = receive(&source, 1).await.remove(0);
    for (delay, deliveries) in [(Duration::from_millis(700), 2), (Duration::ZERO, 3)] {
        let began = Instant::now();
        source.retry(&message, delay).await.unwrap();
        message = receive(&source, 1).await.remove(0);
        let took = began.elapsed();
        // At once it would be now; by itself, an hour later.
        assert!((delay..PATIENCE).contains(&took), "{took:?} for {delay:?}");
        assert_eq!(source.deliveries(&message), Some(deliveries));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_acknowledged_is_so_when_the_call_returns() {
    let Some(server) = Server::start("nats_acknowledged").await else { return };
    let source = server.source().await;
    const MESSAGES: usize = 200;
    for number in 0..MESSAGES {
        server.publish(&[], &number.to_string()).await;
    }
    let messages = receive(&source, MESSAGES).await;
    let began = Instant::now();
    source.acknowledge(&messages).await.unwrap();
    println!("{MESSAGES} acknowledged and confirmed in {:?}", began.elapsed());
    assert_eq!(server.unacknowledged().await, 0);
    // A second time is no error: the first answer may have been lost.
    source.acknowledge(&messages).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_say_what_they_are() {
    let Some(server) = Server::start("nats_described").await else { return };
    let source = server.source().await;
    server.publish(&[("Nats-Msg-Id", "o-1"), ("tenant", "a")], "{}").await;
    let event = [("Nats-Msg-Id", "o-2"), ("ce-id", "17"), ("ce-source", "/shop%20a"), ("ce-type", "order.placed")];
    server.publish(&event, "{}").await;
    server.publish(&[], "{}").await;
    let messages: Vec<Arc<_>> = receive(&source, 3).await;
    let id = |place: usize| messages[place].id().map(|id| id.into_owned());
    assert_eq!((id(0), messages[0].kind()), (Some(b"o-1".to_vec()), None));
    assert_eq!(
        (id(1), messages[1].kind()),
        (Some(cloudevents::id("/shop a", "17").as_ref().to_vec()), Some("order.placed"))
    );
    assert_eq!(id(2), None);
    assert_eq!((messages[0].header("tenant"), messages[0].header("Tenant")), (Some("a"), None));
    // Names that no header of NATS can have.
    assert_eq!((messages[0].header("cloudEvents:id"), messages[0].header("")), (None, None));
    assert_eq!(Described::payload(&*messages[0]), b"{}");
}
