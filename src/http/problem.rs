//! The answers that are the layer's own: problems (RFC 9457).

use super::body::Body;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body::Body as HttpBody;
use std::fmt;
use std::time::Duration;

/// What the layer answers itself, as `application/problem+json`: the `type` is the address of the line below.
///
/// ```
/// use hapax::http::Problem;
/// use http::StatusCode;
///
/// assert_eq!(Problem::InProgress.status(), StatusCode::CONFLICT);
/// assert_eq!(Problem::InProgress.type_uri(), "https://docs.rs/hapax/latest/hapax/http/enum.Problem.html#variant.InProgress");
/// ```
///
/// None of these is ever stored. Other statuses: [`status`](super::LayerBuilder::status) of the builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Problem {
    /// Status 400: the request has no key, and its method requires one. The handler was not run.
    KeyMissing,
    /// Status 400: the key is no string or token of 1 to 255 characters, or there are several. The handler was not run.
    KeyMalformed,
    /// Status 400: who asks is not known, so the key is nobody's. The handler was not run.
    ScopeMissing,
    /// Status 400: the request's body broke off. The handler was not run.
    BodyUnreadable,
    /// Status 408: the request's body did not come in time. The handler was not run.
    BodyTimeout,
    /// Status 413: the request's body is too large to be compared. The handler was not run.
    BodyTooLarge,
    /// Status 409, with `Retry-After`: a request with this key is being handled, or was a moment ago. Ask again.
    InProgress,
    /// Status 422: the key was used for another request. The handler was not run; this request needs a key of its own.
    FingerprintMismatch,
    /// Status 410: the request was handled, but its response was too large to be kept, or was completed by something else than this layer. The handler is not
    /// run again; asking again does not help.
    ResponseNotKept,
    /// Status 500: the request was handled, but what was kept of it cannot be read. The handler is not run again.
    ResponseUnreadable,
    /// Status 503, with `Retry-After`: the store of keys cannot be asked. The handler was not run.
    StoreUnavailable,
    /// Status 500: the store of keys answers what it should not, or is not configured. The handler was not run.
    StoreFailed,
    /// Status 503, with `Retry-After`: too many requests are being handled, of all who ask
    /// together. The handler was not run.
    Busy,
    /// Status 429, with `Retry-After`: whoever asks has as many requests being received or in
    /// flight, or as many bytes of them in memory, as one scope may have. The handler was not run;
    /// nobody else is refused for it.
    QuotaExceeded,
    /// Status 504: the handler took too long and was stopped; what it has done, it has done. The key is free again.
    HandlerTimeout,
}

impl Problem {
    /// All of them.
    pub const ALL: [Problem; 15] = [
        Problem::KeyMissing,
        Problem::KeyMalformed,
        Problem::ScopeMissing,
        Problem::BodyUnreadable,
        Problem::BodyTimeout,
        Problem::BodyTooLarge,
        Problem::InProgress,
        Problem::FingerprintMismatch,
        Problem::ResponseNotKept,
        Problem::ResponseUnreadable,
        Problem::StoreUnavailable,
        Problem::StoreFailed,
        Problem::Busy,
        Problem::QuotaExceeded,
        Problem::HandlerTimeout,
    ];

    /// Its status, unless the layer was given another one.
    pub fn status(self) -> StatusCode {
        match self {
            Problem::KeyMissing | Problem::KeyMalformed | Problem::ScopeMissing | Problem::BodyUnreadable => {
                StatusCode::BAD_REQUEST
            }
            Problem::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Problem::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Problem::InProgress => StatusCode::CONFLICT,
            Problem::FingerprintMismatch => StatusCode::UNPROCESSABLE_ENTITY,
            Problem::ResponseNotKept => StatusCode::GONE,
            Problem::ResponseUnreadable | Problem::StoreFailed => StatusCode::INTERNAL_SERVER_ERROR,
            Problem::StoreUnavailable | Problem::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Problem::QuotaExceeded => StatusCode::TOO_MANY_REQUESTS,
            Problem::HandlerTimeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// What identifies it, in every version of this crate.
    pub fn type_uri(self) -> String {
        format!("https://docs.rs/hapax/latest/hapax/http/enum.Problem.html#variant.{self:?}")
    }

    /// What it is, in a few words.
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

/// A problem with what is to be said about it.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) problem: Problem,
    pub(super) detail: String,
    pub(super) retry_after: Option<Duration>,
}

impl Refusal {
    pub(super) fn new(problem: Problem, detail: impl Into<String>) -> Self {
        Refusal { problem, detail: detail.into(), retry_after: None }
    }

    pub(super) fn retry_after(self, pause: Duration) -> Self {
        Refusal { retry_after: Some(pause), ..self }
    }

    pub(super) fn response<B: HttpBody>(&self, status: StatusCode) -> Response<Body<B>> {
        let body = serde_json::json!({
            "type": self.problem.type_uri(),
            "title": self.problem.title(),
            "status": status.as_u16(),
            "detail": self.detail,
        });
        let mut response = Response::new(Body::from(Bytes::from(body.to_string())));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(pause) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(whole_seconds(pause)));
        }
        response
    }
}

/// Rounded up, and never at once.
fn whole_seconds(pause: Duration) -> u64 {
    pause.as_secs().saturating_add(u64::from(pause.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_problem_has_a_type_of_its_own_and_an_error_status() {
        let types: HashSet<String> = Problem::ALL.iter().map(|problem| problem.type_uri()).collect();
        let titles: HashSet<&str> = Problem::ALL.iter().map(|problem| problem.title()).collect();
        assert_eq!((types.len(), titles.len()), (Problem::ALL.len(), Problem::ALL.len()));
        assert!(Problem::ALL.iter().all(|it| it.status().is_client_error() || it.status().is_server_error()));
    }

    #[test]
    fn pauses_are_whole_seconds_rounded_up() {
        let millis = |millis| whole_seconds(Duration::from_millis(millis));
        assert_eq!([millis(0), millis(1), millis(1_000), millis(1_001), millis(29_999)], [1, 1, 1, 2, 30]);
        assert_eq!(whole_seconds(Duration::MAX), u64::MAX);
    }
}
