//! The options of a layer.

use super::headers::keeps_header;
use super::ledger::Charge;
use super::problem_details::ProblemFormat;
use super::quota::{Amounts, Limits};
use super::{IDEMPOTENCY_KEY, fingerprint};
use hapax_store::times::HUNDRED_YEARS;
use hapax_store::{Fingerprint, StoreError, option};
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

pub(super) struct Options {
    pub(super) header: HeaderName,
    pub(super) methods: Vec<Method>,
    pub(super) on_missing: OnMissing,
    pub(super) fingerprint: FingerprintFn,
    pub(super) stores: Arc<dyn Fn(StatusCode) -> bool + Send + Sync>,
    pub(super) refuses: Arc<dyn Fn(StatusCode) -> bool + Send + Sync>,
    pub(super) keeps_header: Arc<dyn Fn(&HeaderName) -> bool + Send + Sync>,
    pub(super) max_request_bytes: usize,
    pub(super) max_response_bytes: usize,
    pub(super) body_timeout: Duration,
    pub(super) handler_timeout: Duration,
    pub(super) lease: Duration,
    pub(super) wait: Duration,
    pub(super) retry_after: Duration,
    pub(super) max_in_flight: usize,
    pub(super) max_in_flight_per_scope: Option<usize>,
    pub(super) max_reading: usize,
    pub(super) max_reading_per_scope: Option<usize>,
    pub(super) max_buffered_bytes: Option<usize>,
    pub(super) max_buffered_bytes_per_scope: Option<usize>,
    pub(super) max_kept_keys_per_scope: Option<u64>,
    pub(super) max_kept_bytes_per_scope: Option<u64>,
    pub(super) retention: Option<RetentionFn>,
    pub(super) gone_for: Duration,
    pub(super) answer_within: Duration,
    pub(super) problem_format: ProblemFormat,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            header: IDEMPOTENCY_KEY,
            methods: vec![Method::POST, Method::PATCH],
            on_missing: OnMissing::Reject,
            fingerprint: Arc::new(fingerprint::exact),
            stores: Arc::new(stores_status),
            refuses: Arc::new(refuses_status),
            keeps_header: Arc::new(keeps_header),
            max_request_bytes: 1 << 20,
            max_response_bytes: 1 << 20,
            body_timeout: Duration::from_secs(30),
            handler_timeout: Duration::from_secs(600),
            lease: Duration::from_secs(30),
            wait: Duration::ZERO,
            retry_after: Duration::from_secs(1),
            max_in_flight: 4_096,
            max_in_flight_per_scope: None,
            max_reading: 4_096,
            max_reading_per_scope: None,
            max_buffered_bytes: None,
            max_buffered_bytes_per_scope: None,
            max_kept_keys_per_scope: None,
            max_kept_bytes_per_scope: None,
            retention: None,
            gone_for: Duration::ZERO,
            answer_within: Duration::from_secs(1),
            problem_format: ProblemFormat::default(),
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

/// Returns true for the statuses by which requests are refused before anything begins, by default,
/// as routers and extractors do: 400, 404, 405, 406, 411, 413, 414, 415, 417, 422 and 431.
///
/// ```
/// use hapax_http::refuses_status;
/// use http::StatusCode;
///
/// assert!(refuses_status(StatusCode::UNPROCESSABLE_ENTITY) && refuses_status(StatusCode::NOT_FOUND));
/// assert!(!refuses_status(StatusCode::PAYMENT_REQUIRED) && !refuses_status(StatusCode::CONFLICT));
/// ```
pub fn refuses_status(status: StatusCode) -> bool {
    matches!(status.as_u16(), 400 | 404..=406 | 411 | 413..=415 | 417 | 422 | 431)
}

impl Options {
    /// Returns the limit of what one scope may have stored; `None` if there is no limit.
    pub(super) fn max_kept(&self) -> Option<Charge> {
        let (keys, bytes) = (self.max_kept_keys_per_scope, self.max_kept_bytes_per_scope);
        (keys.is_some() || bytes.is_some())
            .then(|| Charge { keys: keys.unwrap_or(u64::MAX), bytes: bytes.unwrap_or(u64::MAX) })
    }

    /// Returns the limits of all scopes together.
    pub(super) fn max(&self) -> Amounts {
        let bytes = self.max_buffered_bytes.unwrap_or((256 << 20).max(4 * self.max_request_bytes));
        Amounts { reading: self.max_reading, in_flight: self.max_in_flight, bytes }
    }

    /// Returns the limits of one scope and of all.
    pub(super) fn limits(&self) -> Limits {
        let max = self.max();
        let max_per_scope = Amounts {
            reading: self.max_reading_per_scope.unwrap_or(max.reading),
            in_flight: self.max_in_flight_per_scope.unwrap_or(max.in_flight),
            bytes: self.max_buffered_bytes_per_scope.unwrap_or(max.bytes),
        };
        // A scope alone may always send one request, the largest.
        let least_per_scope = Amounts { reading: 1, in_flight: 1, bytes: self.max_request_bytes.max(1) };
        Limits { max, max_per_scope, least_per_scope }
    }

    pub(super) fn validate(&self, is_scoped: bool) -> Result<(), StoreError> {
        check(!self.methods.is_empty(), "methods", &self.methods, "at least one")?;
        for (option, time) in [
            ("body_timeout", self.body_timeout),
            ("handler_timeout", self.handler_timeout),
            ("lease", self.lease),
            ("retry_after", self.retry_after),
        ] {
            check(!time.is_zero() && time <= HUNDRED_YEARS, option, &time, "a duration of up to 100 years, not none")?;
        }
        for (option, time) in [("wait", self.wait), ("gone_for", self.gone_for), ("answer_within", self.answer_within)]
        {
            check(time <= HUNDRED_YEARS, option, &time, "at most 100 years")?;
        }
        for (option, got) in [
            ("max_kept_keys_per_scope", self.max_kept_keys_per_scope),
            ("max_kept_bytes_per_scope", self.max_kept_bytes_per_scope),
        ] {
            check(got.is_none_or(|got| is_scoped && got > 0), option, &got, "at least 1, and a layer with scopes")?;
        }
        for (option, bytes) in
            [("max_request_bytes", self.max_request_bytes), ("max_response_bytes", self.max_response_bytes)]
        {
            check(bytes <= 1 << 30, option, &bytes, "at most 1 GiB")?;
        }
        self.validate_quotas(is_scoped)?;
        self.problem_format.validate()
    }

    /// Checks the retention: an exclusive engine's history is made for its own retention.
    pub(super) fn validate_retention(&self, is_exclusive: bool) -> Result<(), StoreError> {
        let fits = self.gone_for.is_zero() || !is_exclusive || self.retention.is_some();
        let expected = "with an exclusive engine also `retention`, so that both are its own at most";
        check(fits, "gone_for", &self.gone_for, expected)
    }

    fn validate_quotas(&self, is_scoped: bool) -> Result<(), StoreError> {
        let max = self.max();
        for (option, got) in [("max_in_flight", max.in_flight), ("max_reading", max.reading)] {
            check((1..=1 << 28).contains(&got), option, &got, "1 to 2^28")?;
        }
        let least = self.max_request_bytes.max(1);
        let expected = format!("`max_request_bytes`, {least}, to 2^48");
        check((least..=1 << 48).contains(&max.bytes), "max_buffered_bytes", &max.bytes, &expected)?;
        for (option, given, least, max) in [
            ("max_in_flight_per_scope", self.max_in_flight_per_scope, 1, max.in_flight),
            ("max_reading_per_scope", self.max_reading_per_scope, 1, max.reading),
            ("max_buffered_bytes_per_scope", self.max_buffered_bytes_per_scope, least, max.bytes),
        ] {
            let Some(got) = given else { continue };
            check(is_scoped, option, &got, "none: with `global_scope` there is one scope, which has all")?;
            let expected = format!("{least} to {max}, which is what all have together");
            check((least..=max).contains(&got), option, &got, &expected)?;
        }
        Ok(())
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
