#![doc = include_str!("../README.md")]
//!
//! # The id
//!
//! [`Message::id`](hapax_message::Described::id) is SQS's `MessageId`, unless the message is an
//! event of CloudEvents. It differs each time that a producer sends: repetitions of producers are
//! detected only by a key of the business, or by a FIFO queue's [deduplication
//! id](Message::deduplication_id) that producers set, for which SQS itself looks for five minutes.
//!
//! # Guarantees
//!
//! - A message is deleted when it is done. Each entry of a batch is looked at: one that fails is
//!   tried again for up to [`outage`](SqsOptions::outage). One whose delivery is over, since the
//!   receipt has expired, comes again, and is a duplicate.
//! - As long as a message waits here or is handled, it is hidden from others, for up to 12 hours
//!   after its delivery: SQS allows no more. Then another consumer has it, and finds that it is in
//!   progress, as long as the lease of the store is renewed.
//! - A message that fails too often is sent to the queue for dead letters, with its attributes and
//!   the reason (`Dead-Letter-Reason`, `Dead-Letter-Message-Id`), before it is deleted. If the
//!   process dies in between, or an answer is lost, it is sent a second time; to a FIFO queue only
//!   if that is more than five minutes later. A message that has ten attributes, as many as SQS
//!   allows, is sent without the reason.
//! - `ApproximateReceiveCount` is a hint, as [`Source::deliveries`] says: attempts are counted by
//!   the store.
//!
//! [`Source::deliveries`]: hapax_stream::Source::deliveries
//!
//! # The queue's configuration
//!
//! - A redrive policy of the queue itself counts deliveries, and a message that is in progress
//!   elsewhere is delivered several times without being tried. Let its `maxReceiveCount` be a
//!   multiple of [`max_attempts`](hapax_stream::ConsumerBuilder::max_attempts): it is a safety net
//!   for what this crate cannot put aside.
//! - `VisibilityTimeout` and `ReceiveMessageWaitTimeSeconds` of the queue do not matter: each
//!   request says its own.
//! - The store must remember ids for longer than the queue keeps messages
//!   (`MessageRetentionPeriod`, up to 14 days).
//!
//! # FIFO queues
//!
//! SQS keeps the order of a message group: it delivers none of a group while another one of it is
//! hidden, but several at once, which handlers would handle side by side.
//! [`in_order_by`](hapax_stream::ConsumerBuilder::in_order_by) with [`Message::group_id`] has them
//! handled one after the other. A message that fails is then tried again here, and the rest of its
//! group waits for it; when it is put aside, the group goes on without it. Without `in_order_by`, a
//! message that fails is given back, and those of its group that came with it do not wait.
//!
//! What is put aside into a FIFO queue keeps its group; its deduplication id is the `MessageId`.
//!
//! # Dead letters
//!
//! One that is sent to its queue, and deleted from that for dead letters, is handled again. Send it
//! to a FIFO queue with its group, and with another deduplication id than the first time, such as
//! the dead letter's `MessageId`: SQS accepts one that it has seen within five minutes, and
//! delivers nothing. (A consumer that takes this id for its own needs the same one, five minutes
//! later.)

#![cfg_attr(docsrs, feature(doc_cfg))]

mod dead_letter;
mod error;
mod hidden;
mod message;
mod options;
mod publisher;
mod source;

pub use aws_sdk_sqs;
pub use error::SqsError;
pub use message::Message;
pub use options::SqsOptions;
pub use publisher::SqsPublisher;
pub use source::Sqs;
