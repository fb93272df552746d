//! The brokers of a campaign: what is sent, what is put aside and sent anew, and what is left.

use super::effects::{Bookings, Effects, Ledger};
use super::sqs::Sqs;
use crate::directory::Directory;
use crate::jetstream::{WINDOW, billing};
use crate::kafka::{PARTITIONS, SESSION_MS, committed, producer, send};
use crate::rabbitmq;
use crate::servers::Redis;
use async_nats::HeaderMap;
use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream;
use async_nats::jetstream::consumer::PullConsumer;
use hapax_kafka::KafkaMessage;
use hapax_message::Described as _;
use lapin::options::{BasicGetOptions, BasicPublishOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{DefaultProducerContext, FutureProducer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use redis::{TypedCommands, cmd};
use std::time::Duration;
use testkit::brokers::{Nats, Rabbit};
use testkit::moto_server::MotoServer;
use tokio::runtime::Runtime;

pub trait Queue {
    /// Returns the example that consumes it.
    fn program(&self) -> &'static str;

    fn arguments(&self, number: usize, directory: &Directory) -> Vec<String>;

    fn effects(&self, directory: &Directory) -> Box<dyn Effects> {
        Box::new(Ledger::new(directory.file("ledger")))
    }

    fn send(&mut self, ids: &[String]);

    /// Sends all dead letters anew. Returns their ids.
    fn redrive(&mut self) -> Vec<String>;

    /// Returns how many messages are not acknowledged.
    fn left(&mut self) -> usize;

    /// Returns the longest time between two faults.
    fn pause(&self) -> Duration {
        Duration::from_secs(5)
    }
}

/// Starts a broker of this name; `None` if it is not installed.
pub fn start(name: &str) -> Option<Box<dyn Queue>> {
    let runtime = Runtime::new().expect("a runtime");
    Some(match name {
        "streams" => Box::new(Streams(Redis::start("campaign")?)),
        "nats" => Box::new(JetStream::new(Nats::start("campaign")?, Redis::start("campaign-nats")?, runtime)),
        "rabbitmq" => Box::new(RabbitMq::new(Rabbit::start("campaign")?, runtime)),
        "sqs" => Box::new(Sqs::new(MotoServer::start()?, Redis::start("campaign-sqs")?, runtime)),
        "kafka" => Box::new(Kafka::new()),
        _ => panic!("expected streams, nats, rabbitmq, sqs or kafka, got {name}"),
    })
}

struct Streams(Redis);

impl Queue for Streams {
    fn program(&self) -> &'static str {
        env!("CARGO_BIN_EXE_redis_streams")
    }

    fn arguments(&self, number: usize, directory: &Directory) -> Vec<String> {
        vec![self.0.url(), format!("billing-{number}"), directory.file("ledger")]
    }

    fn send(&mut self, ids: &[String]) {
        let mut connection = self.0.connection().expect("a connection");
        for id in ids {
            connection.xadd("orders", "*", &[("id", id)]).expect("added");
        }
    }

    /// As an operator does, by `XADD` and `XDEL`.
    fn redrive(&mut self) -> Vec<String> {
        let mut connection = self.0.connection().expect("a connection");
        let dead = connection.xrange_all("orders:dead").expect("what was put aside").ids;
        let redriven = dead.iter().map(|entry| {
            let field = |name: &String| (name.clone(), entry.get::<String>(name).expect("text"));
            let fields: Vec<_> = entry.map.keys().map(field).collect();
            connection.xadd("orders", "*", &fields).expect("added anew");
            cmd("XDEL").arg(&["orders:dead", &entry.id]).exec(&mut connection).expect("removed");
            entry.get("id").expect("an id")
        });
        redriven.collect()
    }

    fn left(&mut self) -> usize {
        let (pending, unread) = crate::redis_streams::left(&mut self.0.connection().expect("a connection"), "orders");
        pending + unread.unwrap_or_default()
    }
}

struct JetStream {
    context: jetstream::Context,
    billing: PullConsumer,
    /// The last dead letter that was sent anew.
    redriven: u64,
    runtime: Runtime,
    redis: Redis,
    nats: Nats,
}

impl JetStream {
    fn new(nats: Nats, redis: Redis, runtime: Runtime) -> Self {
        let (context, billing) = runtime.block_on(async {
            let context = jetstream::new(async_nats::connect(nats.url()).await.expect("a connection"));
            let billing = billing(&context, Duration::from_secs(2)).await;
            (context, billing)
        });
        JetStream { context, billing, redriven: 0, runtime, redis, nats }
    }

    /// Publishes an order, again for as long as the stream takes it for a copy.
    async fn publish(context: &jetstream::Context, id: &str) {
        let headers = HeaderMap::from_iter([(NATS_MESSAGE_ID, id.into())]);
        loop {
            let sent = context.publish_with_headers("orders.new", headers.clone(), "an order".into());
            if !sent.await.expect("sent").await.expect("stored").duplicate {
                return;
            }
            tokio::time::sleep(WINDOW).await;
        }
    }
}

impl Queue for JetStream {
    fn program(&self) -> &'static str {
        env!("CARGO_BIN_EXE_jetstream")
    }

    fn arguments(&self, _: usize, directory: &Directory) -> Vec<String> {
        vec![self.nats.url(), self.redis.url(), directory.file("ledger")]
    }

    fn send(&mut self, ids: &[String]) {
        self.runtime.block_on(async {
            for id in ids {
                Self::publish(&self.context, id).await;
            }
        });
    }

    /// By publishing each to its subject, with its own `Nats-Msg-Id`.
    fn redrive(&mut self) -> Vec<String> {
        self.runtime.block_on(async {
            let mut dead = self.context.get_stream("DEAD").await.expect("a stream");
            let last = dead.info().await.expect("what it has").state.last_sequence;
            let mut ids = Vec::new();
            for sequence in self.redriven + 1..=last {
                let letter = dead.get_raw_message(sequence).await.expect("a message");
                let id = letter.headers.get("Dead-Letter-Original-Msg-Id").expect("an id").as_str().to_owned();
                Self::publish(&self.context, &id).await;
                ids.push(id);
            }
            self.redriven = last;
            ids
        })
    }

    fn left(&mut self) -> usize {
        let info = self.runtime.block_on(self.billing.info()).expect("what is left");
        info.num_pending as usize + info.num_ack_pending
    }
}

struct RabbitMq {
    channel: Channel,
    _connection: Connection,
    runtime: Runtime,
    rabbit: Rabbit,
}

impl RabbitMq {
    fn new(rabbit: Rabbit, runtime: Runtime) -> Self {
        let (connection, channel) = runtime.block_on(rabbitmq::queues(&rabbit.url()));
        RabbitMq { channel, _connection: connection, runtime, rabbit }
    }

    fn publish(&self, properties: BasicProperties) {
        let options = BasicPublishOptions::default();
        let sent = self.channel.basic_publish("".into(), "orders".into(), options, b"an order", properties);
        self.runtime.block_on(async { sent.await.expect("sent").await.expect("stored") });
    }
}

impl Queue for RabbitMq {
    fn program(&self) -> &'static str {
        env!("CARGO_BIN_EXE_rabbitmq")
    }

    fn arguments(&self, _: usize, directory: &Directory) -> Vec<String> {
        vec![self.rabbit.url(), directory.file("billing.db"), directory.file("ledger")]
    }

    fn send(&mut self, ids: &[String]) {
        for id in ids {
            self.publish(BasicProperties::default().with_message_id(id.as_str().into()).with_delivery_mode(2));
        }
    }

    /// From the queue of the dead-letter exchange, as a shovel does: each as it is, with its
    /// headers.
    fn redrive(&mut self) -> Vec<String> {
        let take = || self.runtime.block_on(self.channel.basic_get("dead".into(), BasicGetOptions { no_ack: true }));
        let letters = std::iter::from_fn(|| take().expect("an answer"));
        let redriven = letters.map(|letter| {
            let properties = letter.delivery.properties;
            let id = properties.message_id().clone().expect("an id").to_string();
            self.publish(properties);
            id
        });
        redriven.collect()
    }

    /// (The queue does not report what is not acknowledged.)
    fn left(&mut self) -> usize {
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let queue = self.runtime.block_on(self.channel.queue_declare("orders".into(), passive, FieldTable::default()));
        queue.expect("the queue").message_count() as usize
    }
}

const TOPICS: [&str; 2] = ["payments", "payments.retry"];

/// (Its clients end before their cluster, or wait for it.)
struct Kafka {
    dead: BaseConsumer,
    producer: FutureProducer,
    cluster: MockCluster<'static, DefaultProducerContext>,
    sent: usize,
}

impl Kafka {
    fn new() -> Self {
        let cluster = MockCluster::new(1).expect("a cluster");
        let brokers = cluster.bootstrap_servers();
        let dead = ClientConfig::new().set("bootstrap.servers", &brokers).set("group.id", "operator").create();
        let (dead, mut all): (BaseConsumer, _) = (dead.expect("a reader"), TopicPartitionList::new());
        for topic in TOPICS {
            let aside = format!("{topic}.dead");
            cluster.create_topic(topic, PARTITIONS, 1).expect("a topic");
            cluster.create_topic(&aside, 1, 1).expect("a topic");
            all.add_partition_offset(&aside, 0, Offset::Beginning).expect("a partition");
        }
        dead.assign(&all).expect("an assignment");
        let producer = producer(&brokers);
        Kafka { dead, producer, cluster, sent: 0 }
    }

    fn send_to(&mut self, topic: &str, ids: &[String]) {
        let from = self.sent;
        self.sent += ids.len();
        send(&self.producer, topic, ids.iter().enumerate().map(|(number, id)| (from + number, id)));
    }
}

impl Queue for Kafka {
    fn program(&self) -> &'static str {
        env!("CARGO_BIN_EXE_kafka")
    }

    fn arguments(&self, _: usize, directory: &Directory) -> Vec<String> {
        let topics = r"^payments(\.retry)?$".to_owned();
        vec![self.cluster.bootstrap_servers(), topics, SESSION_MS.into(), directory.file("books.db")]
    }

    fn effects(&self, directory: &Directory) -> Box<dyn Effects> {
        Box::new(Bookings::new(&directory.file("books.db")))
    }

    fn send(&mut self, ids: &[String]) {
        self.send_to(TOPICS[0], ids);
    }

    /// By the topic for retries.
    fn redrive(&mut self) -> Vec<String> {
        let letters = std::iter::from_fn(|| self.dead.poll(Duration::from_millis(500)));
        let id = |letter: KafkaMessage| letter.header("id").expect("an id").to_owned();
        let ids: Vec<String> = letters.map(|letter| id(letter.expect("a letter").detach().into())).collect();
        self.send_to(TOPICS[1], &ids);
        ids
    }

    fn left(&mut self) -> usize {
        let brokers = self.cluster.bootstrap_servers();
        let done: i64 = TOPICS.iter().map(|topic| committed(&brokers, topic, "books")).sum();
        self.sent - done as usize
    }

    /// A group takes seconds to notice that a member is gone.
    fn pause(&self) -> Duration {
        Duration::from_secs(15)
    }
}
