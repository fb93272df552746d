//! Which headers of a response are kept for those who ask again.

use super::outgoing_layer::REPLAYED;
use http::header::*;
use http::{HeaderMap, HeaderName};
use std::collections::HashSet;

/// The default of what is kept: all but `Date`, which says when a message was sent, and `Set-Cookie`, which would bring an old session back, and put its
/// secret into the store.
///
/// ```
/// use hapax::http::keeps_header;
/// use http::header::{CONTENT_TYPE, DATE, LOCATION, SET_COOKIE};
///
/// assert!(keeps_header(&CONTENT_TYPE) && keeps_header(&LOCATION));
/// assert!(!keeps_header(&DATE) && !keeps_header(&SET_COOKIE));
/// ```
///
/// Headers of one connection are never kept, whatever a function says: `Connection` and those that it names, `Keep-Alive`, `Proxy-Authenticate`,
/// `Proxy-Connection`, `TE`, `Transfer-Encoding`, `Upgrade` (RFC 9110, 7.6.1).
pub fn keeps_header(name: &HeaderName) -> bool {
    !matches!(*name, DATE | SET_COOKIE)
}

/// Those that go no further than one connection.
fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(*name, CONNECTION | PROXY_AUTHENTICATE | PROXY_AUTHORIZATION | TE | TRANSFER_ENCODING | UPGRADE)
        || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

/// What is kept of these.
pub(super) fn kept(headers: &HeaderMap, keeps: &dyn Fn(&HeaderName) -> bool) -> HeaderMap {
    let named: HashSet<String> = headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|&byte| byte == b','))
        .map(|option| String::from_utf8_lossy(option).trim().to_ascii_lowercase())
        .collect();
    let mut kept = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        if !is_hop_by_hop(name) && !named.contains(name.as_str()) && *name != REPLAYED && keeps(name) {
            kept.append(name, value.clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn headers_of_the_connection_are_not_kept_whatever_is_asked_for() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Hop"),
            ("connection", "x-other ,"),
            ("x-hop", "1"),
            ("x-other", "1"),
            ("keep-alive", "1"),
            ("proxy-connection", "1"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("idempotency-replayed", "true"),
            ("date", "today"),
            ("set-cookie", "session=1"),
            ("x-kept", "1"),
            ("x-kept", "2"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let names = |kept: &HeaderMap| kept.iter().map(|(name, _)| name.as_str().to_owned()).collect::<Vec<_>>();
        let default = kept(&headers, &keeps_header);
        assert_eq!(names(&default), ["x-kept", "x-kept"]);
        assert_eq!(default.get_all("x-kept").iter().collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(names(&kept(&headers, &|_| true)), ["date", "set-cookie", "x-kept", "x-kept"]);
    }
}
