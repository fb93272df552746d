//! Ids of messages: those that brokers, envelopes and webhooks give, and those that are made where
//! there is none.
//!
//! | from | id | detects |
//! |---|---|---|
//! | CloudEvents | [`cloudevents::id`](crate::cloudevents::id): source and id | whatever the producer repeats |
//! | Amazon EventBridge | the envelope's `id`: `EventBridge` (feature `json`) | deliveries that the bus repeats |
//! | Standard Webhooks, Svix | [`webhook`]: `webhook-id`, `svix-id` | whatever the sender repeats |
//! | GitHub | the header `X-GitHub-Delivery` | redeliveries, also those asked for by hand |
//! | Shopify | the header `X-Shopify-Event-Id` | whatever the sender repeats |
//! | Twilio | the header `I-Twilio-Idempotency-Token` | retries of one request |
//! | Stripe | the body's `id`, `evt_…` | whatever the sender repeats |
//! | Slack | the body's `event_id` | whatever the sender repeats |
//! | any log | [`offset`]: topic, partition, offset | deliveries that the broker repeats |
//! | anything | the SHA-256 of the content | whatever has the same content |
//!
//! Ids of different senders may be the same: give each sender a scope of its own, or put its name
//! into a [`Key`] before the id. An id says nothing about who has sent it: check a webhook's
//! signature first, or anybody can have an id taken for done.

#[cfg(feature = "json")]
mod event_bridge;
mod sqs;
mod webhooks;

#[cfg(feature = "json")]
pub use event_bridge::{EventBridge, NotAnEnvelope};
pub use sqs::sqs_deduplication_id;
pub use webhooks::webhook;

use hapax::Key;

/// Returns the id of a message by its place: topic, partition and offset, which no other message
/// has.
///
/// ```
/// use hapax_message::ids;
///
/// assert_eq!(ids::offset("orders", 3, 17), ids::offset("orders", 3, 17));
/// assert_ne!(ids::offset("orders", 3, 17), ids::offset("orders", 31, 7));
/// ```
///
/// This detects deliveries that a broker repeats, and none that a producer repeats: those have
/// another offset. The topic must not be one that was deleted and made again within the retention.
pub fn offset(topic: &str, partition: u32, offset: u64) -> Vec<u8> {
    Key::new().text(topic).int(partition).int(offset).as_ref().to_vec()
}
