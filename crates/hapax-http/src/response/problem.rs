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
    /// Returns its status.
    pub fn status(self) -> StatusCode {
        self.said().0
    }

    /// Returns the address that identifies it, in every version of this crate.
    pub fn type_uri(self) -> String {
        format!("https://docs.rs/hapax-http/latest/hapax_http/enum.Problem.html#variant.{self:?}")
    }

    /// Returns its title, in a few words.
    pub fn title(self) -> &'static str {
        self.said().1
    }

    fn said(self) -> (StatusCode, &'static str) {
        match self {
            Problem::KeyMissing => (StatusCode::BAD_REQUEST, "Idempotency key missing"),
            Problem::KeyMalformed => (StatusCode::BAD_REQUEST, "Idempotency key malformed"),
            Problem::ScopeMissing => (StatusCode::BAD_REQUEST, "Who asks is unknown"),
            Problem::BodyUnreadable => (StatusCode::BAD_REQUEST, "Request body unreadable"),
            Problem::BodyTimeout => (StatusCode::REQUEST_TIMEOUT, "Request body too slow"),
            Problem::BodyTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "Request body too large"),
            Problem::InProgress => (StatusCode::CONFLICT, "A request with this idempotency key is in progress"),
            Problem::FingerprintMismatch => {
                (StatusCode::UNPROCESSABLE_ENTITY, "Idempotency key used for another request")
            }
            Problem::ResponseNotKept => (StatusCode::GONE, "The request was handled, its response was not kept"),
            Problem::KeyExpired => (StatusCode::GONE, "Idempotency key expired"),
            Problem::ResponseUnreadable => {
                (StatusCode::INTERNAL_SERVER_ERROR, "The request was handled, its response cannot be read")
            }
            Problem::StoreUnavailable => (StatusCode::SERVICE_UNAVAILABLE, "Idempotency keys cannot be checked now"),
            Problem::StoreFailed => (StatusCode::INTERNAL_SERVER_ERROR, "Idempotency keys cannot be checked"),
            Problem::Busy => (StatusCode::SERVICE_UNAVAILABLE, "Too many requests in progress"),
            Problem::QuotaExceeded => (StatusCode::TOO_MANY_REQUESTS, "Too many requests of yours in progress"),
            Problem::HandlerTimeout => (StatusCode::GATEWAY_TIMEOUT, "The request took too long"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}
