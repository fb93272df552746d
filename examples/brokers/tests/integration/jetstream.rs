//! JetStream drops copies that a publisher sends within its window. Here the copies come after it,
//! and each message comes again when a consumer dies with it.

use crate::directory::Directory;
use crate::killed::{Consumer, POISON, check_healed, seed};
use crate::servers::Redis;
use async_nats::HeaderMap;
use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::{self, stream};
use std::collections::BTreeSet;
use std::time::Duration;
use testkit::brokers::Nats;
use tokio::runtime::Runtime;

const ORDERS: usize = 200;
const KILLS: usize = 5;
/// Eight are handled, and as many are being completed.
const IN_FLIGHT: usize = 16;
/// The time within which JetStream drops what has the `Nats-Msg-Id` of another message.
pub const WINDOW: Duration = Duration::from_millis(100);

async fn publish(context: &jetstream::Context, ids: &[String]) {
    for id in ids {
        let mut headers = HeaderMap::new();
        headers.insert(NATS_MESSAGE_ID, id.as_str());
        // One that comes too soon is not stored, and sent again.
        let is_stored = async || {
            let sent = context.publish_with_headers("orders.new", headers.clone(), "an order".into());
            let sent = sent.await.expect("sent");
            !sent.await.expect("stored").duplicate
        };
        let mut tries = 0;
        while !is_stored().await {
            tries += 1;
            assert!(tries < 1_000, "{id} comes too soon, {tries} times");
            tokio::time::sleep(WINDOW).await;
        }
    }
}

/// Makes the streams of orders and of what is put aside, and the consumer of the former, to which a
/// message comes again after `wait`.
pub async fn billing(context: &jetstream::Context, wait: Duration) -> PullConsumer {
    let orders = stream::Config {
        name: "ORDERS".into(),
        subjects: vec!["orders.*".into()],
        duplicate_window: WINDOW,
        ..stream::Config::default()
    };
    let orders = context.create_stream(orders).await.expect("a stream");
    let dead = stream::Config { name: "DEAD".into(), subjects: vec!["dead.>".into()], ..stream::Config::default() };
    context.create_stream(dead).await.expect("a stream for what is put aside");
    let billing = pull::Config {
        durable_name: Some("billing".into()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: wait,
        ..pull::Config::default()
    };
    orders.create_consumer(billing).await.expect("a consumer")
}

async fn orders_twice(url: &str, ids: &[String]) -> PullConsumer {
    let context = jetstream::new(async_nats::connect(url).await.expect("a connection"));
    let billing = billing(&context, Duration::from_secs(1)).await;
    publish(&context, ids).await;
    tokio::time::sleep(2 * WINDOW).await;
    publish(&context, ids).await;
    publish(&context, &[POISON.into()]).await;
    // This message has no id.
    context.publish("orders.new", "an order".into()).await.expect("sent").await.expect("stored");
    billing
}

/// Returns the ids of messages that were put aside.
async fn put_aside(url: &str) -> Vec<String> {
    let context = jetstream::new(async_nats::connect(url).await.expect("a connection"));
    let dead = context.get_stream("DEAD").await.expect("a stream");
    let last = dead.cached_info().state.last_sequence;
    let mut ids = Vec::new();
    for sequence in 1..=last {
        let message = dead.get_raw_message(sequence).await.expect("a message");
        ids.push(
            message.headers.get("Dead-Letter-Original-Msg-Id").map_or_else(String::new, |id| id.as_str().to_owned()),
        );
    }
    ids
}

#[test]
fn each_order_is_billed_once_also_after_the_brokers_own_window() {
    let (Some(nats), Some(redis)) = (Nats::start("jetstream"), Redis::start("jetstream")) else { return };
    let (directory, seed, runtime) =
        (Directory::new("jetstream"), seed("jetstream"), Runtime::new().expect("a runtime"));
    let ids: Vec<String> = (0..ORDERS).map(|number| format!("o-{number}")).collect();
    let mut orders = runtime.block_on(orders_twice(&nats.url(), &ids));

    let ledger = directory.file("ledger");
    let arguments = vec![nats.url(), redis.url(), ledger.clone()];
    let log = directory.path().join("billing.log");
    let mut billing = Consumer::start(env!("CARGO_BIN_EXE_jetstream"), arguments, &log, seed);
    billing.kill_at_random_and_in_an_outage(KILLS, ORDERS, &ledger);
    let mut all_is_done = |billing: &mut Consumer| {
        billing.await_until(|| {
            let info = runtime.block_on(orders.info()).expect("what is left");
            info.num_pending == 0 && info.num_ack_pending == 0
        });
        runtime.block_on(orders.info()).expect("what is left").clone()
    };
    all_is_done(&mut billing);
    let dead = runtime.block_on(put_aside(&nats.url()));
    let expected = BTreeSet::from([POISON.to_owned(), String::new()]);
    assert_eq!(BTreeSet::from_iter(dead.clone()), expected, "what fails is put aside, and what has no id");
    billing.heal(&ledger, || {
        runtime.block_on(async {
            let context = jetstream::new(async_nats::connect(nats.url()).await.expect("a connection"));
            publish(&context, &[POISON.into()]).await;
        });
    });
    let info = all_is_done(&mut billing);
    billing.stop();
    assert_eq!(info.ack_floor.stream_sequence, 2 * ORDERS as u64 + 3, "all copies are acknowledged");
    assert_eq!(runtime.block_on(put_aside(&nats.url())), dead, "nothing is put aside any more");
    println!("jetstream: {} deliveries of {} messages", info.delivered.consumer_sequence, 2 * ORDERS);
    check_healed("jetstream", &ids, &ledger, billing.kills, IN_FLIGHT);
}
