//! The identity of a request, besides its key.

pub(super) mod canonical;
mod multipart;

use canonical::canonical;
use hapax::Key;
use hapax_store::Fingerprint;
use http::HeaderValue;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use sha2::{Digest as _, Sha256};

/// Returns the default fingerprint: of method, path with query, the headers that determine how the
/// body is read (`Content-Type`, `Content-Encoding`), and the body, byte for byte; of a multipart
/// body its parts, byte for byte, whatever their boundary is.
///
/// ```
/// use hapax_http::fingerprint;
///
/// let parts = |path| http::Request::post(path).body(()).unwrap().into_parts().0;
/// assert_eq!(fingerprint::exact(&parts("/a"), b"1"), fingerprint::exact(&parts("/a"), b"1"));
/// assert_ne!(fingerprint::exact(&parts("/a"), b"1"), fingerprint::exact(&parts("/b"), b"1"));
/// assert_ne!(fingerprint::exact(&parts("/a"), b"1"), fingerprint::exact(&parts("/a"), b"2"));
/// ```
///
/// It is exact, because a client that retries sends the same bytes as before, and because no client
/// can then send two requests that differ only in something that it overlooks. A client that writes
/// its body anew for each attempt, with its fields in another order, needs [`json`]. A boundary is
/// made up for each attempt. No other header counts: they change on the way and from one attempt to
/// the next.
///
/// The path is the one that this layer sees: within a router that strips a prefix, without it. The
/// host is not part of it: a server of several hosts that share clients has the host in its scope.
pub fn exact(parts: &Parts, body: &[u8]) -> Fingerprint {
    match multipart::canonical(parts.headers.get(CONTENT_TYPE), body) {
        Some(form) => of(parts, Some(&form.content_type), 2, &form.parts),
        None => of(parts, content_type(parts), 0, body),
    }
}

/// Returns the fingerprint of [`exact`], except that a JSON body counts by its content: neither the
/// order of fields nor spaces nor escapes matter.
///
/// ```
/// use hapax_http::fingerprint;
///
/// let (parts, _) = http::Request::post("/").header("content-type", "application/json").body(()).unwrap().into_parts();
/// assert_eq!(fingerprint::json(&parts, br#"{"a":1,"b":2}"#), fingerprint::json(&parts, br#"{ "b": 2, "a": 1 }"#));
/// assert_ne!(fingerprint::json(&parts, br#"{"a":1}"#), fingerprint::json(&parts, br#"{"a":1.0}"#));
/// ```
///
/// Numbers count as they are written, so that no amount is taken for another one. A body that is
/// not JSON, is nested deeper than 100, or names a field twice counts as [`exact`] says. Idea: RFC
/// 8785, without its rounding of numbers to double precision.
pub fn json(parts: &Parts, body: &[u8]) -> Fingerprint {
    match canonical(body) {
        Some(canonical) => of(parts, content_type(parts), 1, &canonical),
        None => exact(parts, body),
    }
}

fn content_type(parts: &Parts) -> Option<&[u8]> {
    parts.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes)
}

fn of(parts: &Parts, content_type: Option<&[u8]>, form: u8, body: &[u8]) -> Fingerprint {
    let mut head = Key::new();
    head.text(parts.method.as_str()).text(parts.uri.path());
    match parts.uri.query() {
        Some(query) => head.text(query),
        None => head.null(),
    };
    for value in [content_type, parts.headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes)] {
        match value {
            Some(value) => head.bytes(value),
            None => head.null(),
        };
    }
    head.int(form);
    let hash = Sha256::new().chain_update(&head).chain_update(body).finalize();
    let mut fingerprint = [0; 16];
    fingerprint.copy_from_slice(&hash[..16]);
    Fingerprint(fingerprint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn parts(method: &str, uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn whatever_changes_a_request_changes_it() {
        let json_type = [("content-type", "application/json")];
        let all = [
            exact(&parts("POST", "/a", &[]), b""),
            exact(&parts("PATCH", "/a", &[]), b""),
            exact(&parts("POST", "/a?", &[]), b""),
            exact(&parts("POST", "/a?b", &[]), b""),
            exact(&parts("POST", "/ab", &[]), b""),
            exact(&parts("POST", "/a", &json_type), b""),
            exact(&parts("POST", "/a", &[("content-encoding", "application/json")]), b""),
            exact(&parts("POST", "/a", &[]), b"{}"),
            json(&parts("POST", "/a", &[]), b"{}"),
            json(&parts("POST", "/a", &[]), b"{"),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(!all[..i].contains(a), "{i}");
        }
    }

    #[test]
    fn what_changes_underway_does_not() {
        let here = parts("POST", "/a", &[("user-agent", "x"), ("traceparent", "1")]);
        let there = parts("POST", "http://host/a", &[("via", "y")]);
        assert_eq!(exact(&here, b"x"), exact(&there, b"x"));
    }
}
