//! A server that is away, and a consumer that is deleted.

use crate::server::{Server, options, payload, receive};
use hapax_nats::NatsError;
use hapax_store::{InMemoryStore, TieredDedup};
use hapax_stream::{Consumer, ConsumerError, Delivery, Source};
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_is_waited_for() {
    let Some(mut server) = Server::start("nats_back_again").await else { return };
    let source = server.source_of(crate::server::good(), options().outage(Duration::from_secs(60))).await.unwrap();
    server.publish(&[], "before").await;
    let before = receive(&source, 1).await;
    server.nats.kill();
    let (acknowledged, ()) = tokio::join!(source.acknowledge(&before), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        server.nats.start_again();
    });
    acknowledged.expect("acknowledged when the server is back");
    server.publish(&[], "after").await;
    // (The server may have lost the acknowledgement on its disk: then the first one comes again.)
    let mut after = receive(&source, 1).await;
    if payload(&after[0]) == "before" {
        after = receive(&source, 1).await;
    }
    assert_eq!(payload(&after[0]), "after");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stays_away_is_an_error_after_the_limit() {
    let Some(mut server) = Server::start("nats_away").await else { return };
    let source = server.source().await;
    server.publish(&[], "order").await;
    let messages = receive(&source, 1).await;
    server.nats.kill();
    let began = Instant::now();
    let error = source.receive(1).await.expect_err("nobody answers");
    assert!(matches!(error, NatsError::Disconnected | NatsError::Call { .. } | NatsError::TimedOut { .. }), "{error}");
    // The limit, and the time that one poll takes.
    assert!(began.elapsed() < testkit::processes::PATIENCE, "{:?}", began.elapsed());
    let error = source.acknowledge(&messages).await.expect_err("nobody answers");
    assert!(matches!(error, NatsError::Call { .. } | NatsError::TimedOut { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_is_deleted_ends_the_run() {
    let Some(server) = Server::start("nats_deleted").await else { return };
    let source = server.source().await;
    let engine = TieredDedup::builder(InMemoryStore::new()).build().await.unwrap();
    let consumer =
        Consumer::builder("billing", engine, |message: &hapax_nats::Message| Some(message.payload.to_vec())).build();
    let handle = |_: Delivery<hapax_nats::Message>| async { Ok::<(), std::io::Error>(()) };
    let delete = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        server.orders.delete_consumer("billing").await.unwrap();
    };
    let consumer = consumer.unwrap();
    let (ended, ()) = tokio::join!(consumer.run(&source, handle, std::future::pending()), delete);
    match ended {
        Err(ConsumerError::Source(NatsError::ConsumerDeleted { stream, consumer })) => {
            assert_eq!((&*stream, &*consumer), ("ORDERS", "billing"));
        }
        other => panic!("{other:?}"),
    }
}

/// The server has nobody who would hear of the message: that is no confirmation.
#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_hears_of_is_not_acknowledged() {
    let Some(server) = Server::start("nats_unheard").await else { return };
    let source = server.source().await;
    server.publish(&[], "order").await;
    let messages = receive(&source, 1).await;
    server.orders.delete_consumer("billing").await.unwrap();
    match source.acknowledge(&messages).await {
        Err(NatsError::ConsumerDeleted { stream, consumer }) => {
            assert_eq!((&*stream, &*consumer), ("ORDERS", "billing"));
        }
        other => panic!("{other:?}"),
    }
}
