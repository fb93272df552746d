//! The fields of a response that are stored for retries: one list, for headers and trailers, when a
//! response is stored and when it is replayed. Pure.
//!
//! Fields of ten kinds ([`Kind`]) are not stored; all other fields, above all an
//! application's own, are part of its response and stored. `headers/tests/field_names.rs` has the
//! registered names, each with its fate.

use http::header::CONNECTION;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// The reason for which a field is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It belongs to one connection or to the framing of one message. (RFC 9110, 7.6.1 and 8.6; RFC
    /// 9112, 6.)
    Connection,
    /// It challenges, authenticates or authorizes one exchange.
    Authentication,
    /// It marks a replayed response.
    Replayed,
    /// It brings a session back, and its secret into the store.
    Cookie,
    /// It depends on the origin of the request. (The Fetch standard.)
    Origin,
    /// It describes when or how one message was made or cached, or traces it.
    Moment,
    /// It changes a client's state for the whole site, beyond this response.
    Site,
    /// It instructs proxies on the way.
    Proxy,
    /// It belongs to a request: its target, its sender or its conditions.
    Request,
    /// By its name it carries a secret, or what proves who somebody is.
    Secret,
}

/// Names that are not stored.
const NAMES: [(Kind, &str); 9] = [
    (
        Kind::Connection,
        "close connection content-length keep-alive proxy-connection te trailer transfer-encoding upgrade \
         http2-settings alpn early-data capsule-protocol",
    ),
    (
        Kind::Authentication,
        "authentication-control authentication-info authorization concealed-auth-export dpop dpop-nonce hobareg \
         include-referred-token-binding-id optional-www-authenticate proxy-authenticate proxy-authentication-info \
         proxy-authorization replay-nonce www-authenticate client-cert client-cert-chain cta-common-access-token \
         sec-token-binding",
    ),
    (Kind::Replayed, "idempotency-replayed"),
    (Kind::Cookie, "cookie cookie2 set-cookie set-cookie2 getprofile profileobject setprofile"),
    (Kind::Origin, "access-control method-check method-check-expires origin referer-root timing-allow-origin"),
    (
        Kind::Moment,
        "age cache-status date proxy-status server-timing traceparent traceresponse tracestate via warning baggage",
    ),
    (
        Kind::Site,
        "accept-ch activate-storage-access alt-svc alt-used cache-group-invalidation clear-site-data critical-ch \
         expect-ct nel observe-browsing-topics origin-agent-cluster public-key-pins public-key-pins-report-only \
         refresh report-to reporting-endpoints service-worker-allowed set-login set-txn strict-transport-security \
         use-as-dictionary",
    ),
    (
        Kind::Proxy,
        "cdn-loop forwarded max-forwards meter proxy-features proxy-instruction surrogate-capability x-sendfile \
         x-lighttpd-send-file x-lighttpd-send-tempfile x-litespeed-location x-reproxy-url",
    ),
    (Kind::Request, "host expect if range available-dictionary destination"),
];

/// Beginnings of names that are not stored; the first one counts.
const BEGINNINGS: [(&str, Kind); 6] = [
    ("sec-websocket-", Kind::Connection),
    ("sec-", Kind::Request),
    ("access-control-", Kind::Origin),
    ("x-accel-", Kind::Proxy),
    ("x-forwarded-", Kind::Proxy),
    ("if-", Kind::Request),
];

/// Registered names that are no secrets, though they look like it.
const NO_SECRETS: &str = "cmcd-session lock-token";

/// Words that say that a value is a secret, beside those that end with `token`.
const SECRETS: &str = "apikey assertion auth authenticate authentication authorization cookie credential credentials \
                       csrf jwt nonce otp passwd password secret session sessionid xsrf";

/// Words before `key` that say that it is a secret.
const KEYS: &str = "access account admin api auth client customer encryption functions master private secret session \
                    shared signing subscription";

/// Names that may not be in a trailer section, though they are stored.
const NO_TRAILERS: &str = "allow cache-control cdn-cache-control expires last-modified link link-template location \
    pragma preference-applied retry-after vary variant-vary delta-base im status status-uri tcn alternates \
    mime-version referrer-policy permissions-policy x-content-type-options x-frame-options no-vary-search \
    cache-groups surrogate-control user-agent from accept prefer priority";

fn has(words: &str, word: &str) -> bool {
    words.split_ascii_whitespace().any(|one| one == word)
}

/// Returns the kind of a field that is not stored; `None` for one that is.
pub(crate) fn kind(name: &HeaderName) -> Option<Kind> {
    static KINDS: LazyLock<HashMap<&str, Kind>> = LazyLock::new(|| {
        let of = |(kind, names): (Kind, &'static str)| names.split_ascii_whitespace().map(move |name| (name, kind));
        NAMES.into_iter().flat_map(of).collect()
    });
    let name = name.as_str();
    let by_beginning = || BEGINNINGS.into_iter().find_map(|(begins, kind)| name.starts_with(begins).then_some(kind));
    let is_secret = || names_a_secret(name) && !has(NO_SECRETS, name);
    KINDS.get(name).copied().or_else(by_beginning).or_else(|| is_secret().then_some(Kind::Secret))
}

/// Returns true for a name of which a word says that the value is a secret, such as `x-auth-token`,
/// or which ends with the name of a key that is one, such as `x-api-key`.
fn names_a_secret(name: &str) -> bool {
    let mut before = "";
    name.split(['-', '_', '.']).any(|word| {
        let is_key = word == "key" && has(KEYS, before);
        before = word;
        is_key || word.ends_with("token") || has(SECRETS, word)
    })
}

/// Returns true for the headers and trailers that are stored: all that belong to the
/// response, and none of one message, connection, session or origin, or with a secret.
///
/// ```
/// use hapax_http::keeps_header;
/// use http::HeaderName;
///
/// let kept = ["content-type", "location", "etag", "cache-control", "link", "x-request-id"];
/// let not_kept = ["date", "set-cookie", "www-authenticate", "access-control-allow-origin", "x-api-key", "age"];
/// assert!(kept.iter().all(|name| keeps_header(&HeaderName::from_static(name))));
/// assert!(!not_kept.iter().any(|name| keeps_header(&HeaderName::from_static(name))));
/// ```
///
/// | not kept | such as | since |
/// |---|---|---|
/// | connection, framing | `Connection` and what it names, `Keep-Alive`, `TE`, `Trailer`, `Transfer-Encoding`, `Upgrade`, `Content-Length` | the server makes them for each message |
/// | authentication | `WWW-Authenticate`, `Authentication-Info`, `Proxy-Authenticate`, `DPoP-Nonce`, `Replay-Nonce` | it is of one exchange |
/// | cookies | `Set-Cookie`, `Set-Cookie2` | an old session would come back, and its secret is in the store |
/// | origins | `Access-Control-*`, `Timing-Allow-Origin` | a retry may come from another origin: put the layer for CORS outside of this one |
/// | the message | `Date`, `Age`, `Warning`, `Via`, `Cache-Status`, `Server-Timing`, `traceparent` | they would be wrong |
/// | the site | `Alt-Svc`, `Clear-Site-Data`, `Strict-Transport-Security`, `NEL`, `Refresh` | they do more than answer: again, or from a store that another program has written into |
/// | proxies | `X-Accel-*`, `X-Sendfile`, `Forwarded`, `X-Forwarded-*` | the same |
/// | requests | `Host`, `Range`, `If-*`, `Sec-*` | no response has them |
/// | secrets | `X-Api-Key`, `X-Auth-Token`, `X-CSRF-Token`, `X-Amz-Security-Token`, `X-Session-Id`: names with a word such as token, secret, password, session, auth, csrf, jwt, nonce, or api-key | they would be in the store, and the old ones would come back |
///
/// Nor is `Idempotency-Replayed`. Of trailers, those that may not be in a trailer section are left
/// out, too (RFC 9110, 6.5.1): fields of content, caching and control, for example `Content-Type`,
/// `Location`, `Vary`.
pub fn keeps_header(name: &HeaderName) -> bool {
    kind(name).is_none()
}

/// Returns true for a field that may be in a trailer section: it is not needed to read, route,
/// authenticate, cache or act on the message.
pub(crate) fn may_trail(name: &HeaderName) -> bool {
    let is_of = |beginnings: &[&str]| beginnings.iter().any(|begins| name.as_str().starts_with(begins));
    match name.as_str() {
        _ if kind(name).is_some() => false,
        "content-digest" | "etag" => true,
        name => !has(NO_TRAILERS, name) && !is_of(&["content-", "accept-", "cross-origin-", "integrity-policy"]),
    }
}

/// Returns the headers that are stored.
pub(crate) fn kept(headers: HeaderMap) -> HeaderMap {
    let named: HashSet<String> = headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|&byte| byte == b','))
        .map(|option| String::from_utf8_lossy(option).trim().to_ascii_lowercase())
        .collect();
    only(headers, |name| !named.contains(name.as_str()) && keeps_header(name))
}

/// Returns the trailers that are stored, and are allowed in a trailer section at all.
pub(crate) fn kept_trailers(trailers: HeaderMap) -> HeaderMap {
    only(kept(trailers), may_trail)
}

fn only(headers: HeaderMap, keeps: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    if headers.keys().all(&keeps) {
        return headers;
    }
    let mut kept = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers.iter().filter(|(name, _)| keeps(name)) {
        kept.append(name, value.clone());
    }
    kept
}

/// Returns the header `Trailer` for these trailers: it is not stored, so that it always names
/// exactly the trailers that come.
pub(crate) fn announced(trailers: &HeaderMap) -> Option<HeaderValue> {
    let names: Vec<&str> = trailers.keys().map(HeaderName::as_str).collect();
    // Names and commas are a valid value.
    HeaderValue::try_from(names.join(", ")).ok().filter(|_| !names.is_empty())
}

/// Returns the size of fields: names, values, and 32 bytes each (as in RFC 9113, 6.5.2).
pub(crate) fn bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| 32 + name.as_str().len() + value.len()).sum()
}

#[cfg(test)]
mod tests;
