//! The answers that are not the handler's own: problems, and stored responses.

use super::body::{self, Body};
use super::options::RETRY_AFTER;
use super::shared::Shared;
use super::stats::Event;
use crate::limits::permits::Permit;
use crate::limits::quota::Full;
use crate::outgoing::layer::REPLAYED;
use crate::response::headers;
use crate::response::problem::Problem;
use crate::response::problem_details::ProblemDetails;
use crate::response::record::{Content, StoredResponse};
use hapax_store::{Store, StoreError};
use http::header::TRAILER;
use http::{HeaderValue, Response};
use http_body::Body as HttpBody;

impl<S: Store> Shared<S> {
    /// Returns the problem for an exhausted quota: of one scope, if the scope is at its limit, and
    /// otherwise of all.
    pub(super) fn full(&self, full: Full) -> ProblemDetails {
        let problem = match full {
            Full::Scope(..) => {
                self.counters.add(Event::OverQuota, 1);
                Problem::QuotaExceeded
            }
            Full::All(..) | Full::Closing => Problem::Busy,
        };
        ProblemDetails::new(problem, full.to_string()).retry_after(RETRY_AFTER)
    }

    /// Returns the problem for a store's error. Clients are told only its kind: addresses and names
    /// of servers are not for them.
    pub(super) fn store_refusal(&self, error: &StoreError) -> ProblemDetails {
        let detail = format!("the store of keys: {}", error.kind());
        if error.kind().is_transient() {
            ProblemDetails::new(Problem::StoreUnavailable, detail).retry_after(RETRY_AFTER)
        } else {
            ProblemDetails::new(Problem::StoreFailed, detail)
        }
    }

    /// Returns one of the layer's own answers.
    pub(super) fn refuse<R: HttpBody>(&self, refusal: ProblemDetails) -> Response<Body<R>> {
        self.counters.add(Event::Refused, 1);
        let response = match &self.options.problem_response {
            Some(response) => response(&refusal),
            None => refusal.response(),
        };
        response.map(Body::from)
    }

    /// Returns a stored response.
    pub(super) fn replay<R: HttpBody>(&self, stored: StoredResponse, bytes: Permit) -> Response<Body<R>> {
        let status = stored.status;
        let Some(Content { headers, trailers, body }) = stored.content else {
            let detail = format!("its status was {}, its body was too large to be kept, or a stream", status.as_u16());
            return self.refuse(ProblemDetails::new(Problem::ResponseNotKept, detail));
        };
        self.counters.add(Event::Replayed, 1);
        // The record may be written by another program, or under other rules: a header that is not
        // stored is not sent either.
        let (mut headers, trailers) = (headers::kept(headers), headers::kept_trailers(trailers));
        if let Some(names) = headers::announced(&trailers) {
            headers.insert(TRAILER, names);
        }
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
        let trailers = Some(trailers).filter(|trailers| !trailers.is_empty());
        let body = Body::from(body::Read { data: body, trailers }).holding(bytes);
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }
}
