//! Every registered field, and fields of applications.

use super::*;
use field_names::{COUNT, FATES, Fate};
use proptest::prelude::*;

mod field_names;

fn name(name: &str) -> HeaderName {
    HeaderName::try_from(name).unwrap()
}

fn fields(fields: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (field, value) in fields {
        headers.append(name(field), HeaderValue::try_from(*value).unwrap());
    }
    headers
}

fn names(kept: &HeaderMap) -> Vec<&str> {
    kept.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn of_every_registered_field_it_is_decided_whether_it_is_kept() {
    let mut seen = HashSet::new();
    for (fate, names) in FATES {
        for text in names.split_ascii_whitespace() {
            let (name, one) = (name(text), fields(&[(text, "1")]));
            assert!(seen.insert(name.clone()), "{text} is here twice");
            let (in_headers, in_trailers) = match fate {
                Fate::Kept => (true, true),
                Fate::InHeaders => (true, false),
                Fate::NotKept(_) => (false, false),
            };
            // (`Connection` names itself nowhere.)
            assert_eq!(kept(one.clone()), if in_headers { one.clone() } else { HeaderMap::new() }, "{text}");
            assert_eq!(kept_trailers(one.clone()).is_empty(), !in_trailers, "{text} as a trailer");
            if let Fate::NotKept(expected) = fate {
                assert_eq!(kind(&name), Some(expected), "{text}");
            }
        }
    }
    assert_eq!(seen.len(), COUNT);
}

#[test]
fn fields_of_applications_are_kept() {
    let own =
        ["x-run", "x-request-id", "x-total-count", "ratelimit-limit", "grpc-status", "grpc-message", "stripe-version"];
    for text in own {
        let one = fields(&[(text, "1"), (text, "2")]);
        assert_eq!(kept(one.clone()), one);
        assert_eq!(kept_trailers(one.clone()), one);
    }
}

#[test]
fn unregistered_fields_that_are_known_to_harm_are_not_kept() {
    let harmful = "x-accel-redirect x-accel-buffering x-sendfile x-lighttpd-send-file x-reproxy-url x-forwarded-for \
                   x-forwarded-host report-to service-worker-allowed critical-ch traceresponse sec-ch-ua \
                   access-control-allow-private-network";
    for text in harmful.split_ascii_whitespace() {
        assert!(!keeps_header(&name(text)), "{text}");
    }
}

#[test]
fn fields_that_carry_a_secret_are_not_kept() {
    let secrets = "X-Api-Key Api-Key X-Apikey X-Goog-Api-Key X-Auth-Token X-Auth X-Auth-Key X-CSRF-Token X-CSRFToken \
         X-XSRF-Token X-Amz-Security-Token X-Vault-Token X-Access-Token X-Refresh-Token X-Id-Token Private-Token \
         Job-Token X-Subject-Token X-Shopify-Access-Token X-Session-Id Mcp-Session-Id X-Session-Token \
         X-Amzn-Remapped-Authorization X-Amzn-Remapped-WWW-Authenticate X-Amzn-Remapped-Set-Cookie \
         X-Amzn-Oidc-Accesstoken X-Goog-IAP-JWT-Assertion Cf-Access-Jwt-Assertion X-JWT X-Client-Secret \
         X-Password X-Functions-Key Ocp-Apim-Subscription-Key X-Amz-Server-Side-Encryption-Customer-Key \
         X-Secret-Key X-WP-Nonce X-GitHub-OTP X_Auth_Token x.auth.token X-Credentials";
    for text in secrets.split_ascii_whitespace() {
        let one = fields(&[(text, "1")]);
        assert!(kept(one.clone()).is_empty(), "{text}");
        assert!(kept_trailers(one).is_empty(), "{text} as a trailer");
    }
    // Names that only look like it.
    for text in "Surrogate-Key X-Cache-Key X-RateLimit-Remaining-Tokens X-Author X-Authority Lock-Token CMCD-Session \
         X-Keyboard X-Secretary Signature ETag"
        .split_ascii_whitespace()
    {
        assert!(keeps_header(&name(text)), "{text}");
    }
}

#[test]
fn what_a_connection_header_names_is_not_kept() {
    let headers = fields(&[
        ("connection", "close, X-Hop"),
        ("connection", "x-other ,"),
        ("x-hop", "1"),
        ("x-other", "1"),
        ("date", "today"),
        ("set-cookie", "session=1"),
        ("x-kept", "1"),
        ("x-kept", "2"),
    ]);
    let default = kept(headers.clone());
    assert_eq!(names(&default), ["x-kept", "x-kept"]);
    assert_eq!(default.get_all("x-kept").iter().collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!(names(&kept_trailers(headers)), ["x-kept", "x-kept"]);
}

#[test]
fn trailers_are_announced_by_their_names() {
    assert_eq!(announced(&HeaderMap::new()), None);
    let trailers = fields(&[("x-a", "1"), ("x-a", "2"), ("x-b", "3")]);
    assert_eq!(announced(&trailers).unwrap(), "x-a, x-b");
    assert_eq!(bytes(&trailers), 3 * (32 + 3 + 1));
}

proptest! {
    /// Checks that filtering twice gives the same as filtering once: a stored response is replayed
    /// whole.
    #[test]
    fn what_is_kept_stays_kept(picked in proptest::collection::vec((0..COUNT, "[a-z, -]{0,12}"), 0..20)) {
        let all: Vec<&str> = FATES.iter().flat_map(|(_, names)| names.split_ascii_whitespace()).collect();
        let picked: Vec<(&str, &str)> = picked.iter().map(|(i, value)| (all[*i], value.as_str())).collect();
        let once = kept(fields(&picked));
        prop_assert_eq!(kept(once.clone()), once);
        let once = kept_trailers(fields(&picked));
        prop_assert_eq!(kept_trailers(once.clone()), once);
    }
}
