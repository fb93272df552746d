//! Ids that webhooks have.

use crate::described::Described;
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
    let found = ["webhook-id", "svix-id"].into_iter().find_map(|name| message.header(name));
    found.map(str::trim).filter(|id| !id.is_empty())
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
        for name in ["webhook-id", "svix-id"] {
            assert_eq!(webhook(&Header(name, " 17 ")), Some("17"), "{name}");
            assert_eq!(webhook(&Header(name, " ")), None, "{name}");
        }
        assert_eq!(webhook(&Header("other", "17")), None);
    }
}
