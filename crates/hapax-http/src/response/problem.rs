//! The layer's own answers: problems (RFC 9457).

use http::StatusCode;
use std::fmt;

/// An answer of the layer itself, as `application/problem+json`: the `type` is the address of the
/// line below. [`problem_response`](crate::LayerBuilder::problem_response) makes another of it.
///
/// ```
/// use hapax_http::Problem;
/// use http::StatusCode;
///
/// assert_eq!(Problem::InProgress.status(), StatusCode::CONFLICT);
/// assert_eq!(Problem::InProgress.type_uri(), "https://docs.rs/hapax-http/latest/hapax_http/enum.Problem.html#variant.InProgress");
/// ```
///
/// None of these is ever stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Problem {
    /// Status 400: the request has no key, and its method requires one. The handler was not run.
    KeyMissing,
    /// Status 400: the key is not a string or token of 1 to 255 characters, or there are several.
    /// The handler was not run.
    KeyMalformed,
    /// Status 400: the scope of the request is not known, so its key has no owner. The handler was
    /// not run.
    ScopeMissing,
    /// Status 400: the request's body broke off. The handler was not run.
    BodyUnreadable,
    /// Status 408: the request's body did not come in time. The handler was not run.
    BodyTimeout,
    /// Status 413: the request's body is too large to be compared. The handler was not run.
    BodyTooLarge,
    /// Status 409, with `Retry-After`: a request with this key is being handled, or was a moment
    /// ago. Ask again.
    InProgress,
    /// Status 422: the key was used for another request. The handler was not run; this request
    /// needs a key of its own.
    FingerprintMismatch,
    /// Status 410: the request was handled, but its response was too large to be stored, or it was
    /// completed by other means than this layer. The handler is not run again; asking again does
    /// not help.
    ResponseNotKept,
    /// Status 410: the request was handled, and its response is no longer sent again
    /// ([`gone_for`](crate::LayerBuilder::gone_for)). The handler is not run again; a new request
    /// needs a key of its own.
    KeyExpired,
    /// Status 500: the request was handled, but its stored response cannot be read. The handler is
    /// not run again.
    ResponseUnreadable,
    /// Status 503, with `Retry-After`: the store of keys cannot be asked. The handler was not run.
    StoreUnavailable,
    /// Status 500: the store of keys answers wrongly, or is not configured. The handler was not
    /// run.
    StoreFailed,
    /// Status 503, with `Retry-After`: too many requests are being handled, of all scopes together.
    /// The handler was not run.
    Busy,
    /// Status 429, with `Retry-After`: the scope has as many requests being received or in flight,
    /// as many bytes of them in memory, or as many keys or bytes stored, as one scope may have. The
    /// handler was not run; no other scope is refused because of it.
    QuotaExceeded,
    /// Status 504: the handler took too long and was stopped; its effects so far remain. The key is
    /// free again.
    HandlerTimeout,
}

impl Problem {
    /// All problems.
    pub const ALL: [Problem; 16] = [
        Problem::KeyMissing,
        Problem::KeyMalformed,
        Problem::ScopeMissing,
        Problem::BodyUnreadable,
        Problem::BodyTimeout,
        Problem::BodyTooLarge,
        Problem::InProgress,
        Problem::FingerprintMismatch,
        Problem::ResponseNotKept,
        Problem::KeyExpired,
        Problem::ResponseUnreadable,
        Problem::StoreUnavailable,
        Problem::StoreFailed,
        Problem::Busy,
        Problem::QuotaExceeded,
        Problem::HandlerTimeout,
    ];

    /// Returns its status.
    pub fn status(self) -> StatusCode {
        match self {
            Problem::KeyMissing | Problem::KeyMalformed | Problem::ScopeMissing | Problem::BodyUnreadable => {
                StatusCode::BAD_REQUEST
            }
            Problem::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Problem::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Problem::InProgress => StatusCode::CONFLICT,
            Problem::FingerprintMismatch => StatusCode::UNPROCESSABLE_ENTITY,
            Problem::ResponseNotKept | Problem::KeyExpired => StatusCode::GONE,
            Problem::ResponseUnreadable | Problem::StoreFailed => StatusCode::INTERNAL_SERVER_ERROR,
            Problem::StoreUnavailable | Problem::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Problem::QuotaExceeded => StatusCode::TOO_MANY_REQUESTS,
            Problem::HandlerTimeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// Returns its name for an address, for example `key-missing`.
    ///
    /// ```
    /// # use hapax_http::Problem;
    /// assert_eq!(Problem::KeyMissing.slug(), "key-missing");
    /// ```
    pub fn slug(self) -> String {
        let mut slug = String::new();
        for c in format!("{self:?}").chars() {
            if c.is_ascii_uppercase() && !slug.is_empty() {
                slug.push('-');
            }
            slug.push(c.to_ascii_lowercase());
        }
        slug
    }

    /// Returns the address that identifies it, in every version of this crate.
    pub fn type_uri(self) -> String {
        format!("https://docs.rs/hapax-http/latest/hapax_http/enum.Problem.html#variant.{self:?}")
    }

    /// Returns its title, in a few words.
    pub fn title(self) -> &'static str {
        match self {
            Problem::KeyMissing => "Idempotency key missing",
            Problem::KeyMalformed => "Idempotency key malformed",
            Problem::ScopeMissing => "Who asks is unknown",
            Problem::BodyUnreadable => "Request body unreadable",
            Problem::BodyTimeout => "Request body too slow",
            Problem::BodyTooLarge => "Request body too large",
            Problem::InProgress => "A request with this idempotency key is in progress",
            Problem::FingerprintMismatch => "Idempotency key used for another request",
            Problem::ResponseNotKept => "The request was handled, its response was not kept",
            Problem::KeyExpired => "Idempotency key expired",
            Problem::ResponseUnreadable => "The request was handled, its response cannot be read",
            Problem::StoreUnavailable => "Idempotency keys cannot be checked now",
            Problem::StoreFailed => "Idempotency keys cannot be checked",
            Problem::Busy => "Too many requests in progress",
            Problem::QuotaExceeded => "Too many requests of yours in progress",
            Problem::HandlerTimeout => "The request took too long",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_problem_has_a_type_of_its_own_and_an_error_status() {
        let types: HashSet<String> = Problem::ALL.iter().map(|problem| problem.type_uri()).collect();
        let titles: HashSet<&str> = Problem::ALL.iter().map(|problem| problem.title()).collect();
        let slugs: HashSet<String> = Problem::ALL.iter().map(|problem| problem.slug()).collect();
        assert_eq!([types.len(), titles.len(), slugs.len()], [Problem::ALL.len(); 3]);
        assert!(Problem::ALL.iter().all(|it| it.status().is_client_error() || it.status().is_server_error()));
    }
}
