//! The form of problems: `application/problem+json` (RFC 9457), unless an application chooses
//! another one.

use super::body::Body;
use super::problem::Problem;
use bytes::Bytes;
use hapax_store::{StoreError, option};
use http::header::{CONTENT_TYPE, LINK, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body::Body as HttpBody;
use std::collections::HashMap;
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
///     *response.body_mut() = format!(r#"{{"error":"{}"}}"#, problem.problem.slug()).into();
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
    /// The status of its response.
    pub status: StatusCode,
    /// The address that identifies it.
    pub type_uri: String,
    /// The error in this request: what was expected, and what was found. No secrets of the server.
    pub detail: String,
    /// The pause after which a retry may succeed.
    pub retry_after: Option<Duration>,
    /// The address of a page that describes it.
    pub documentation: Option<String>,
}

impl ProblemDetails {
    /// Returns the layer's default response: with `Link` and, if there is a pause, `Retry-After`.
    pub fn response(&self) -> Response<Bytes> {
        let body = serde_json::json!({
            "type": self.type_uri,
            "title": self.problem.title(),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        let mut response = Response::new(Bytes::from(body.to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(pause) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(pause)));
        }
        if let Some(link) = self.documentation.as_deref().and_then(link) {
            headers.insert(LINK, link);
        }
        response
    }
}

/// Returns the header that links to a page; `None` if it is not an address.
fn link(page: &str) -> Option<HeaderValue> {
    let is_address = page.bytes().all(|byte| matches!(byte, b'!'..=b'~') && !matches!(byte, b'<' | b'>' | b'"'));
    let link = format!("<{page}>; rel=\"describedby\"; type=\"text/html\"");
    HeaderValue::try_from(link).ok().filter(|_| is_address && !page.is_empty())
}

/// Returns the pause in seconds, rounded up, and never zero.
fn whole_seconds(pause: Duration) -> u64 {
    pause.as_secs().saturating_add(u64::from(pause.subsec_nanos() > 0)).max(1)
}

/// A problem that has come up.
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
}

type TypeFn = Arc<dyn Fn(Problem) -> String + Send + Sync>;
type ResponseFn = Arc<dyn Fn(&ProblemDetails) -> Response<Bytes> + Send + Sync>;

/// An application's choices for problems.
#[derive(Default)]
pub(super) struct ProblemFormat {
    pub(super) statuses: HashMap<Problem, StatusCode>,
    pub(super) type_uri: Option<TypeFn>,
    pub(super) documentation: Option<String>,
    pub(super) response: Option<ResponseFn>,
}

impl ProblemFormat {
    pub(super) fn validate(&self) -> Result<(), StoreError> {
        for (problem, status) in &self.statuses {
            let is_error = status.is_client_error() || status.is_server_error();
            option::check("http", is_error, "status", &(problem, status), "a status of 400 to 599")?;
        }
        if let Some(page) = &self.documentation {
            let expected = "an address of printable ASCII characters without spaces, quotes, < and >";
            option::check("http", link(page).is_some(), "documentation", page, expected)?;
        }
        Ok(())
    }

    pub(super) fn respond<B: HttpBody>(&self, refusal: Refusal) -> Response<Body<B>> {
        let Refusal { problem, detail, retry_after } = refusal;
        let status = self.statuses.get(&problem).copied().unwrap_or(problem.status());
        let type_uri = self.type_uri.as_ref().map_or_else(|| problem.type_uri(), |type_of| type_of(problem));
        let is_page = type_uri.starts_with("https://") || type_uri.starts_with("http://");
        let documentation = self.documentation.clone().or_else(|| is_page.then(|| type_uri.clone()));
        let details = ProblemDetails { problem, status, type_uri, detail, retry_after, documentation };
        let response = self.response.as_ref().map_or_else(|| details.response(), |response| response(&details));
        response.map(Body::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_whole_seconds_rounded_up() {
        let millis = |millis| whole_seconds(Duration::from_millis(millis));
        assert_eq!([millis(0), millis(1), millis(1_000), millis(1_001), millis(29_999)], [1, 1, 1, 2, 30]);
        assert_eq!(whole_seconds(Duration::MAX), u64::MAX);
    }

    #[test]
    fn a_link_is_an_address_and_nothing_else() {
        assert_eq!(link("/docs#a").unwrap(), "</docs#a>; rel=\"describedby\"; type=\"text/html\"");
        for wrong in ["", "a b", "a>; rel=\"next", "a\r\nset-cookie: x", "käse"] {
            assert_eq!(link(wrong), None, "{wrong}");
        }
    }
}
