#![doc = include_str!("../README.md")]
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

#![cfg_attr(docsrs, feature(doc_cfg))]

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
