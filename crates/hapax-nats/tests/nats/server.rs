//! A server of a test's own, with a stream and a consumer.

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer};
use async_nats::jetstream::{self, Context, stream};
use hapax_nats::{JetStream, JetStreamOptions, Message, NatsError};
use hapax_stream::Source;
use std::sync::Arc;
use std::time::Duration;
use testkit::brokers::Nats;

pub struct Server {
    pub nats: Nats,
    pub context: Context,
    pub orders: stream::Stream,
}

/// Returns the configuration of a consumer that is accepted.
pub fn good() -> Config {
    Config {
        durable_name: Some("billing".into()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: Duration::from_secs(1),
        ..Config::default()
    }
}

pub fn options() -> JetStreamOptions {
    JetStreamOptions::new("dead.billing").outage(Duration::from_secs(3))
}

impl Server {
    /// Starts a server with streams `ORDERS` and `DEAD`; none, loudly, if it is not installed.
    pub async fn start(test: &str) -> Option<Server> {
        let nats = Nats::start(test)?;
        let context = jetstream::new(async_nats::connect(nats.url()).await.expect("a connection"));
        let orders = stream::Config {
            name: "ORDERS".into(),
            subjects: vec!["orders.*".into(), "dead-orders".into()],
            ..stream::Config::default()
        };
        let orders = context.create_stream(orders).await.expect("a stream");
        let dead = stream::Config { name: "DEAD".into(), subjects: vec!["dead.>".into()], ..stream::Config::default() };
        context.create_stream(dead).await.expect("a stream for what is put aside");
        Some(Server { nats, context, orders })
    }

    pub async fn consumer(&self, config: Config) -> PullConsumer {
        self.orders.create_consumer(config).await.expect("a consumer")
    }

    pub async fn source_of(&self, config: Config, options: JetStreamOptions) -> Result<JetStream, NatsError> {
        JetStream::new(self.context.clone(), self.consumer(config).await, options).await
    }

    pub async fn source(&self) -> JetStream {
        self.source_of(good(), options()).await.expect("a source")
    }

    pub async fn publish(&self, headers: &[(&str, &str)], payload: &str) {
        let mut map = HeaderMap::new();
        headers.iter().for_each(|(name, value)| map.append(*name, *value));
        let sent = self.context.publish_with_headers("orders.new", map, payload.to_owned().into()).await.expect("sent");
        sent.await.expect("stored");
    }

    /// Returns the number of messages that are delivered and not acknowledged.
    pub async fn unacknowledged(&self) -> usize {
        let consumer: PullConsumer = self.orders.get_consumer("billing").await.expect("a consumer");
        consumer.cached_info().num_ack_pending
    }
}

/// Receives until there are this many messages.
pub async fn receive(source: &JetStream, messages: usize) -> Vec<Arc<Message>> {
    let mut received = Vec::new();
    while received.len() < messages {
        let more = source.receive(messages - received.len()).await.expect("received").expect("more");
        received.extend(more.into_iter().map(Arc::new));
    }
    received
}

pub fn payload(message: &Message) -> &str {
    std::str::from_utf8(&message.payload).expect("text")
}
