#![doc = include_str!("../README.md")]
//!
//! # Guarantees
//!
//! - A message is acknowledged when it is done. AMQP does not confirm acknowledgements: one that is
//!   lost with its connection brings the message again, which is a duplicate.
//! - As long as the channel is open, a message that waits here is delivered to nobody else.
//! - A message that fails too often is published to the queue for dead letters, with its properties
//!   and the reason (`dead-letter-reason`), and acknowledged when the broker has confirmed that a
//!   queue has it. If the process dies in between, or a confirmation is lost, it is published a
//!   second time.
//! - When the broker closes the channel or cancels the consumer, another one is opened, for up to
//!   [`outage`](RabbitMqOptions::outage), with waits that grow. Messages of the old one come again
//!   and are duplicates, or in progress here. A connection that is closed ends the run with an
//!   error, unless it [recovers by itself](lapin::ConnectionProperties::enable_auto_recover).
//! - `redelivered` and `x-delivery-count` are hints, as [`Source::deliveries`] says: attempts are
//!   counted by the store.
//!
//! [`Source::deliveries`]: hapax_stream::Source::deliveries
//!
//! # Dead letters
//!
//! One that is published to its queue, as a shovel does it, is handled again; all properties and
//! headers may stay. RabbitMQ gives deliveries no names: one that a consumer had received and not
//! tried when it ended looks like a message that was put aside and is repeated, and is put aside
//! again. [`Consumer::redrive`](hapax_stream::Consumer::redrive) or `hapax store redrive` with its
//! id, before it is published, has it handled also then.
//!
//! # The broker's configuration
//!
//! - A message that is to be tried again is held back here until it is time, since RabbitMQ
//!   delivers at once what it gets back. It counts as prefetched meanwhile.
//! - `consumer_timeout`: the broker closes a channel that has not acknowledged a message for this
//!   long, half an hour by default. All that a message goes through here has to fit: waiting for a
//!   handler ([`prefetch`](RabbitMqOptions::prefetch) are received ahead),
//!   [`handler_timeout`](hapax_stream::ConsumerBuilder::handler_timeout), and
//!   [`retry_delay`](hapax_stream::ConsumerBuilder::retry_delay).
//! - `x-delivery-limit` of quorum queues (20 by default since RabbitMQ 4): each time that a message
//!   is given back counts, also when it was only in progress elsewhere, and then the broker drops
//!   it, or sends it to the queue's dead letter exchange. Set no limit (-1), or a high one and an
//!   exchange.
//! - Queues and messages that survive the broker are durable and persistent; those of the publisher
//!   are its own business, dead letters are persistent.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod calls;
mod dead_letter;
mod error;
mod message;
mod options;
mod publisher;
mod source;

pub use error::RabbitMqError;
pub use lapin;
pub use message::Message;
pub use options::RabbitMqOptions;
pub use publisher::RabbitMqPublisher;
pub use source::RabbitMq;
