//! The options of a layer.

use super::{IDEMPOTENCY_KEY, fingerprint};
use crate::limits::quota::{Amounts, Limits};
use crate::response::problem_details::ResponseFn;
use hapax_store::backend::option;
use hapax_store::backend::times::HUNDRED_YEARS;
use hapax_store::{Fingerprint, StoreError};
use http::request::Parts;
use http::{HeaderName, Method, StatusCode};
use std::sync::Arc;
use std::time::Duration;

/// A function that returns the owner of a request's key.
pub(super) type ScopeFn = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

type RetentionFn = Arc<dyn Fn(&Parts) -> Option<Duration> + Send + Sync>;

type FingerprintFn = Arc<dyn Fn(&Parts, &[u8]) -> Fingerprint + Send + Sync>;

/// The treatment of a request without a key, where one is expected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum OnMissing {
    /// It is refused: [`Problem::KeyMissing`](super::Problem::KeyMissing).
    #[default]
    Reject,
    /// It is handled, as often as it comes.
    Pass,
}

/// The time that a response waits for the store to have recorded it, or released its key.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// The pause to advise where nothing says how long one has to wait.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);

pub(super) struct Options {
    pub(super) header: HeaderName,
    pub(super) methods: Vec<Method>,
    pub(super) on_missing: OnMissing,
    pub(super) fingerprint: FingerprintFn,
    pub(super) stores: Arc<dyn Fn(StatusCode) -> bool + Send + Sync>,
    pub(super) max_body_bytes: usize,
    pub(super) handler_timeout: Duration,
    pub(super) wait: Duration,
    pub(super) max_in_flight: usize,
    pub(super) max_buffered_bytes: Option<usize>,
    pub(super) max_kept_bytes_per_scope: Option<u64>,
    pub(super) retention: Option<RetentionFn>,
    pub(super) gone_for: Duration,
    pub(super) names_holder: bool,
    pub(super) problem_response: Option<ResponseFn>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            header: IDEMPOTENCY_KEY,
            methods: vec![Method::POST, Method::PATCH],
            on_missing: OnMissing::Reject,
            fingerprint: Arc::new(fingerprint::exact),
            stores: Arc::new(stores_status),
            max_body_bytes: 1 << 20,
            handler_timeout: Duration::from_secs(600),
            wait: Duration::ZERO,
            max_in_flight: 4_096,
            max_buffered_bytes: None,
            max_kept_bytes_per_scope: None,
            retention: None,
            gone_for: Duration::ZERO,
            names_holder: false,
            problem_response: None,
        }
    }
}

/// Returns true for the statuses that are stored by default: all but 1xx, 5xx, 401, 403, 408 and
/// 429, after which a retry may succeed.
///
/// ```
/// use hapax_http::stores_status;
/// use http::StatusCode;
///
/// assert!(stores_status(StatusCode::CREATED) && stores_status(StatusCode::NOT_FOUND));
/// assert!(!stores_status(StatusCode::BAD_GATEWAY) && !stores_status(StatusCode::TOO_MANY_REQUESTS));
/// ```
pub fn stores_status(status: StatusCode) -> bool {
    !status.is_informational() && !status.is_server_error() && !matches!(status.as_u16(), 401 | 403 | 408 | 429)
}

/// Returns true for the statuses by which routers and extractors refuse a request before anything
/// begins.
pub(super) fn refuses_status(status: StatusCode) -> bool {
    matches!(status.as_u16(), 400 | 404..=406 | 411 | 413..=415 | 417 | 422 | 431)
}

impl Options {
    /// Returns the time within which a request's whole body must arrive, however slowly it
    /// trickles: 30 seconds for each MiB that it may have.
    pub(super) fn body_timeout(&self) -> Duration {
        let mebibytes = self.max_body_bytes.div_ceil(1 << 20).max(1);
        Duration::from_secs(30).saturating_mul(mebibytes.try_into().unwrap_or(u32::MAX))
    }

    /// Returns the limits of all scopes together. A scope alone may always send one request, the
    /// largest.
    pub(super) fn limits(&self) -> Limits {
        let bytes = self.max_buffered_bytes.unwrap_or((256 << 20).max(4 * self.max_body_bytes));
        Limits {
            max: Amounts { reading: self.max_in_flight, in_flight: self.max_in_flight, bytes },
            least_per_scope: Amounts { reading: 1, in_flight: 1, bytes: self.max_body_bytes.max(1) },
        }
    }

    pub(super) fn validate(&self, is_scoped: bool) -> Result<(), StoreError> {
        check(!self.methods.is_empty(), "methods", &self.methods, "at least one")?;
        let time = self.handler_timeout;
        let expected = "a duration of up to 100 years, not none";
        check(!time.is_zero() && time <= HUNDRED_YEARS, "handler_timeout", &time, expected)?;
        for (option, time) in [("wait", self.wait), ("gone_for", self.gone_for)] {
            check(time <= HUNDRED_YEARS, option, &time, "at most 100 years")?;
        }
        let kept = self.max_kept_bytes_per_scope;
        let is_valid = kept.is_none_or(|kept| is_scoped && kept > 0);
        check(is_valid, "max_kept_bytes_per_scope", &kept, "at least 1, and a layer with scopes")?;
        check(self.max_body_bytes <= 1 << 30, "max_body_bytes", &self.max_body_bytes, "at most 1 GiB")?;
        check((1..=1 << 28).contains(&self.max_in_flight), "max_in_flight", &self.max_in_flight, "1 to 2^28")?;
        let (least, bytes) = (self.max_body_bytes.max(1), self.limits().max.bytes);
        let expected = format!("`max_body_bytes`, {least}, to 2^48");
        check((least..=1 << 48).contains(&bytes), "max_buffered_bytes", &bytes, &expected)
    }

    /// Checks the retention: an exclusive engine's history is made for its own retention.
    pub(super) fn validate_retention(&self, is_exclusive: bool) -> Result<(), StoreError> {
        let fits = self.gone_for.is_zero() || !is_exclusive || self.retention.is_some();
        let expected = "with an exclusive engine also `retention`, so that both are its own at most";
        check(fits, "gone_for", &self.gone_for, expected)
    }
}

fn check(valid: bool, option: &str, got: &dyn std::fmt::Debug, expected: &str) -> Result<(), StoreError> {
    option::check("http", valid, option, got, expected)
}

#[cfg(all(test, feature = "serde"))]
mod tests {
    use super::*;

    #[test]
    fn on_missing_is_read_as_it_was_written() {
        for option in [OnMissing::Reject, OnMissing::Pass] {
            let written = serde_json::to_string(&option).unwrap();
            assert_eq!(serde_json::from_str::<OnMissing>(&written).unwrap(), option, "{written}");
        }
        assert!(serde_json::from_str::<OnMissing>(r#""something""#).is_err());
    }
}
