//! Kafka as a source of [`hapax_stream`]: consumers that handle each message once, over
//! [rdkafka](https://docs.rs/rdkafka).
//!
//! ```no_run
//! use hapax_kafka::rdkafka::ClientConfig;
//! use hapax_kafka::{KafkaMessage, KafkaOptions, KafkaSource};
//! use hapax_message::Described;
//! use hapax_store::{InMemoryStore, TieredDedup};
//! use hapax_stream::{Consumer, Delivery};
//! use std::time::Duration;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let mut config = ClientConfig::new();
//! config.set("bootstrap.servers", "127.0.0.1:9092").set("group.id", "billing");
//! let orders = KafkaSource::subscribe(&config, &["orders"], KafkaOptions::new())?;
//!
//! // A store that all members share, such as `RedisStore` of `hapax-redis`, or `PostgresStore`.
//! let billed = TieredDedup::builder(InMemoryStore::new()).retention(Duration::from_secs(7 * 86_400)).build().await?;
//! let id_of = |order: &KafkaMessage| order.id().map(|id| id.into_owned()); // by CloudEvents
//! let consumer = Consumer::builder("billing", billed, id_of)
//!     .in_order_by(|order: &KafkaMessage| order.key().map(<[u8]>::to_vec))
//!     .max_in_flight(16)
//!     .build()?;
//! let bill = |order: Delivery<KafkaMessage>| async move {
//!     println!("{:?}, with fencing token {:?}", order.payload(), order.token());
//!     Ok::<(), std::io::Error>(())
//! };
//! let until_told = std::future::pending(); // Ctrl-C, for example
//! println!("{:?}", consumer.run(&orders, bill, until_told).await?);
//! orders.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! - [`KafkaSource`] is for a consumer of all partitions of a member.
//! - [`KafkaPartitions`] is for a consumer of each partition, with a memory that follows it.
//!
//! A dead letter that is sent to its topic again, or to one for retries that the same consumer
//! reads, with its key and headers, is handled again. A record that was put aside and is only read
//! again, since its offset was not committed, is tried once, and put aside again if it fails.
//!
//! Brokers, credentials and encryption are settings of the client, as
//! [librdkafka](https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md) names
//! them. What it is built with are features: `libz` (default) reads messages that were compressed
//! by gzip, `ssl` encrypts with the OpenSSL of the system. All others are those of `rdkafka`: name
//! that in your own `Cargo.toml`, with `zstd`, `gssapi`, `ssl-vendored`, `cmake-build` or
//! `dynamic-linking`, and Cargo builds one with all of them.
//!
//! Kafka's own transactions make reading, processing and writing within Kafka one; they do not
//! recognize a message that its producer has sent twice. `examples/brokers/src/bin/` has
//! `kafka_transactions.rs`, which does both.

mod client;
mod dead_letters;
mod error;
mod group;
mod health;
mod lag;
mod message;
mod offsets;
mod options;
mod partitions;
mod publisher;
mod settings;
mod source;

pub use error::KafkaSourceError;
pub use lag::PartitionLag;
pub use message::KafkaMessage;
pub use options::KafkaOptions;
pub use partitions::{AssignedPartition, KafkaPartitions};
pub use publisher::KafkaPublisher;
pub use publisher::transactional::TransactionalKafkaPublisher;
pub use source::KafkaSource;

pub use rdkafka;
