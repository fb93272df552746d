//! A consumer whose configuration would lose messages is refused, by the name of the option.

use crate::server::{Server, good, options};
use async_nats::jetstream::consumer::AckPolicy;
use async_nats::jetstream::consumer::pull::Config;
use hapax_nats::{JetStreamOptions, NatsError};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_would_lose_messages_is_refused() {
    let Some(server) = Server::start("nats_refused").await else { return };
    let named = |name: &str| Config { durable_name: Some(name.into()), ..good() };
    let cases = [
        (Config { max_deliver: 3, ..named("a") }, options(), "max_deliver"),
        (Config { ack_policy: AckPolicy::None, ..named("b") }, options(), "ack_policy"),
        (Config { ack_wait: Duration::from_millis(300), ..named("c") }, options(), "ack_wait"),
        (Config { max_ack_pending: 10, ..named("d") }, options().ack_pending_min(11), "max_ack_pending"),
        (Config { headers_only: true, ..named("e") }, options(), "headers_only"),
        (Config { durable_name: None, ..good() }, options(), "durable_name"),
        (named("f"), JetStreamOptions::new("nowhere"), "dead_letters"),
        (named("g"), JetStreamOptions::new("dead.*"), "dead_letters"),
        // The consumer would get its dead letters.
        (named("h"), JetStreamOptions::new("dead-orders"), "dead_letters"),
    ];
    for (config, options, expected) in cases {
        match server.source_of(config, options).await {
            Err(NatsError::Misconfigured(error)) => {
                assert!(error.to_string().contains(&format!("`{expected}`")), "{error}")
            }
            other => panic!("{expected}: {other:?}"),
        }
    }
    let filtered = Config { filter_subject: "orders.*".into(), ..named("i") };
    for (config, options) in [
        // The server's own defaults.
        (Config { ack_wait: Duration::ZERO, ..named("j") }, options()),
        (Config { max_ack_pending: 10, ..named("k") }, options().ack_pending_min(10)),
        (filtered, JetStreamOptions::new("dead-orders")),
    ] {
        let accepted = server.source_of(config.clone(), options).await;
        assert!(accepted.is_ok(), "{config:?}: {accepted:?}");
    }
}
