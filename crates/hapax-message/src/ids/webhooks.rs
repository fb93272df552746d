//! Ids that webhooks have, in headers or in their body.

use crate::described::Described;
#[cfg(feature = "json")]
use serde::Deserialize;

/// Returns the id of a webhook by [Standard Webhooks](https://www.standardwebhooks.com): the header
/// `webhook-id`, or Svix's `svix-id`. It is the same for each attempt to deliver a message.
///
/// ```
/// use hapax_message::{Described, ids};
///
/// struct Request;
///
/// impl Described for Request {
///     fn header(&self, name: &str) -> Option<&str> {
///         name.eq_ignore_ascii_case("Webhook-Id").then_some("msg_2KWPBgLlAfxdpx2AI54pPJ85f4W")
///     }
///
///     fn payload(&self) -> &[u8] {
///         b"{}"
///     }
/// }
///
/// assert_eq!(ids::webhook(&Request), Some("msg_2KWPBgLlAfxdpx2AI54pPJ85f4W"));
/// ```
pub fn webhook<M: Described + ?Sized>(message: &M) -> Option<&str> {
    first(message, &["webhook-id", "svix-id"])
}

/// Returns the id of a delivery of GitHub: the header `X-GitHub-Delivery`. A delivery that is sent
/// again, also by hand, has the same.
pub fn github_delivery<M: Described + ?Sized>(message: &M) -> Option<&str> {
    first(message, &["x-github-delivery", "X-GitHub-Delivery"])
}

/// Returns the id of an event of Shopify: the header `X-Shopify-Event-Id`.
pub fn shopify_event<M: Described + ?Sized>(message: &M) -> Option<&str> {
    first(message, &["x-shopify-event-id", "X-Shopify-Event-Id"])
}

/// Returns the id of a request of Twilio: the header `I-Twilio-Idempotency-Token`.
pub fn twilio<M: Described + ?Sized>(message: &M) -> Option<&str> {
    first(message, &["i-twilio-idempotency-token", "I-Twilio-Idempotency-Token"])
}

/// Returns the first of these headers that is not blank.
fn first<'m, M: Described + ?Sized>(message: &'m M, names: &[&str]) -> Option<&'m str> {
    names.iter().find_map(|name| message.header(name)).map(str::trim).filter(|id| !id.is_empty())
}

/// Returns the id of an event of Stripe, `evt_…`, from its body; none if the body is no event.
///
/// ```
/// use hapax_message::ids;
///
/// let body = br#"{"id": "evt_1", "object": "event", "type": "charge.succeeded", "data": {}}"#;
/// assert_eq!(ids::stripe_event(body).as_deref(), Some("evt_1"));
/// assert_eq!(ids::stripe_event(br#"{"id": "ch_1", "object": "charge"}"#), None);
/// ```
///
/// An event that is sent again has the same. Stripe may also make two events of one change: those
/// differ here, and are the same by `data.object.id` and `type`.
#[cfg(feature = "json")]
pub fn stripe_event(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Body {
        id: String,
        object: String,
    }

    let Body { id, object } = serde_json::from_slice(body).ok()?;
    let is_event = matches!(&*object, "event" | "v2.core.event") && id.strip_prefix("evt_")?.trim() != "";
    is_event.then_some(id)
}

/// Returns the id of an event of Slack, `event_id`, from its body; none if the body is no event. A
/// retry has the same.
#[cfg(feature = "json")]
pub fn slack_event(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Body {
        #[serde(rename = "type")]
        kind: String,
        event_id: String,
    }

    let Body { kind, event_id } = serde_json::from_slice(body).ok()?;
    (kind == "event_callback" && !event_id.trim().is_empty()).then_some(event_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Header(&'static str, &'static str);

    impl Described for Header {
        fn header(&self, name: &str) -> Option<&str> {
            (name == self.0).then_some(self.1)
        }

        fn payload(&self) -> &[u8] {
            &[]
        }
    }

    #[test]
    fn each_sender_has_its_header() {
        type IdOf = fn(&Header) -> Option<&str>;
        let all: [(IdOf, &[&'static str]); 4] = [
            (webhook, &["webhook-id", "svix-id"]),
            (github_delivery, &["x-github-delivery", "X-GitHub-Delivery"]),
            (shopify_event, &["x-shopify-event-id", "X-Shopify-Event-Id"]),
            (twilio, &["i-twilio-idempotency-token", "I-Twilio-Idempotency-Token"]),
        ];
        for (id_of, names) in all {
            for name in names {
                assert_eq!(id_of(&Header(name, " 17 ")), Some("17"), "{name}");
                assert_eq!(id_of(&Header(name, " ")), None, "{name}");
            }
            assert_eq!(id_of(&Header("other", "17")), None);
        }
    }

    #[cfg(feature = "json")]
    #[test]
    fn bodies_that_are_no_events_have_no_id() {
        for body in [
            "",
            "null",
            "[]",
            r#"{"id":"evt_1"}"#,
            r#"{"id":1,"object":"event"}"#,
            r#"{"id":"evt_","object":"event"}"#,
            r#"{"id":"evt_1","id":"evt_2","object":"event"}"#,
        ] {
            assert_eq!(stripe_event(body.as_bytes()), None, "{body}");
        }
        assert_eq!(stripe_event(br#"{"object":"v2.core.event","id":"evt_1"}"#).as_deref(), Some("evt_1"));
        assert_eq!(slack_event(br#"{"type":"event_callback","event_id":"Ev1"}"#).as_deref(), Some("Ev1"));
        for body in
            [r#"{"type":"url_verification","event_id":"Ev1"}"#, r#"{"type":"event_callback","event_id":" "}"#, "x"]
        {
            assert_eq!(slack_event(body.as_bytes()), None, "{body}");
        }
    }
}
