//! The form of problems: `application/problem+json` (RFC 9457), unless an application chooses
//! another one.

use super::problem::Problem;
use bytes::Bytes;
use hapax_store::HeldBy;
use http::header::{CONTENT_TYPE, LINK, RETRY_AFTER};
use http::{HeaderValue, Response};
use std::sync::Arc;
use std::time::Duration;

/// A problem with its details.
///
/// ```
/// # use hapax_http::IdempotencyLayer;
/// # use hapax_store::{InMemoryStore, TieredDedup};
/// # fn example(dedup: TieredDedup<InMemoryStore>) {
/// let layer = IdempotencyLayer::builder(dedup).global_scope().problem_response(|problem| {
///     let mut response = problem.response(); // as it would be
///     *response.body_mut() = format!(r#"{{"error":"{}"}}"#, problem.problem).into();
///     response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
///     response
/// });
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProblemDetails {
    /// The problem.
    pub problem: Problem,
    /// The error in this request: what was expected, and what was found. No secrets of the server.
    pub detail: String,
    /// The pause after which a retry may succeed.
    pub retry_after: Option<Duration>,
    /// The holder of a key that is in progress, if the layer
    /// [names](crate::LayerBuilder::names_holder) it, and it has a name.
    pub held_by: Option<HeldBy>,
}

impl ProblemDetails {
    pub(crate) fn new(problem: Problem, detail: impl Into<String>) -> Self {
        ProblemDetails { problem, detail: detail.into(), retry_after: None, held_by: None }
    }

    pub(crate) fn retry_after(self, pause: Duration) -> Self {
        ProblemDetails { retry_after: Some(pause), ..self }
    }

    /// Returns the layer's default response: with a `Link` to the problem's description, and if
    /// there is a pause, `Retry-After`.
    pub fn response(&self) -> Response<Bytes> {
        let (status, page) = (self.problem.status(), self.problem.type_uri());
        let mut body = serde_json::json!({
            "type": page,
            "title": self.problem.title(),
            "status": status.as_u16(),
            "detail": self.detail,
        });
        if let Some(held_by) = &self.held_by {
            body["held_by"] = held_by.as_str().into();
        }
        let mut response = Response::new(Bytes::from(body.to_string()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(pause) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(pause)));
        }
        let link = HeaderValue::try_from(format!("<{page}>; rel=\"describedby\"; type=\"text/html\""));
        headers.extend(link.ok().map(|link| (LINK, link)));
        response
    }
}

/// Returns the pause in seconds, rounded up, and never zero.
fn whole_seconds(pause: Duration) -> u64 {
    pause.as_secs().saturating_add(u64::from(pause.subsec_nanos() > 0)).max(1)
}

/// An application's form of problems.
pub(crate) type ResponseFn = Arc<dyn Fn(&ProblemDetails) -> Response<Bytes> + Send + Sync>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_whole_seconds_rounded_up() {
        let millis = |millis| whole_seconds(Duration::from_millis(millis));
        assert_eq!([millis(0), millis(1), millis(1_000), millis(1_001), millis(29_999)], [1, 1, 1, 2, 30]);
        assert_eq!(whole_seconds(Duration::MAX), u64::MAX);
    }
}
