//! Errors of the service and of the way to it, by kind.

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use hapax_store::{ErrorKind, StoreError};
use std::error::Error;

/// The backend's name.
pub(crate) const BACKEND: &str = "dynamodb";

pub(crate) fn error(kind: ErrorKind, what: impl Into<String>) -> StoreError {
    StoreError::new(kind, BACKEND, what)
}

pub(crate) fn corrupt(what: impl Into<String>) -> StoreError {
    error(ErrorKind::Corrupt, what)
}

/// A try that has failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) error: StoreError,
    pub(crate) effect: Effect,
    /// True if another try may succeed.
    pub(crate) may_pass: bool,
}

impl Failure {
    /// An error of a try that had no effect, and that another try would get as well.
    pub(crate) fn of(error: StoreError) -> Self {
        Failure { error, effect: Effect::None, may_pass: false }
    }
}

/// The effect that a failed try may have had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It was not carried out.
    None,
    /// It may have been carried out: the answer was lost.
    Unknown,
}

/// Returns the failure that an error of the client is.
pub(crate) fn failure<E>(error: SdkError<E, HttpResponse>, doing: &str, table: &str) -> Failure
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    use ErrorKind::{Misconfigured, Timeout, Unavailable};
    let (kind, effect, may_pass) = match &error {
        SdkError::ConstructionFailure(_) => (Misconfigured, Effect::None, false),
        SdkError::TimeoutError(_) => (Timeout, Effect::Unknown, true),
        SdkError::DispatchFailure(failed) if failed.is_timeout() => (Timeout, Effect::Unknown, true),
        SdkError::DispatchFailure(failed) if failed.is_user() => (Misconfigured, Effect::None, false),
        SdkError::ServiceError(answer) => {
            of_answer(answer.err().code().unwrap_or_default(), answer.raw().status().as_u16())
        }
        _ => (Unavailable, Effect::Unknown, true),
    };
    let code = error.as_service_error().and_then(|error| error.code()).unwrap_or("no answer");
    let what = format!("{doing} in table {table}: {code}");
    Failure { error: StoreError::caused(kind, BACKEND, what, error), effect, may_pass }
}

/// Returns the failure of a try that was not answered in time.
pub(crate) fn late(doing: &str, table: &str, limit: std::time::Duration) -> Failure {
    let what = format!("{doing} in table {table}: expected an answer within {limit:?}");
    Failure { error: error(ErrorKind::Timeout, what), effect: Effect::Unknown, may_pass: true }
}

/// Returns the failure of requests that a batch has left out.
pub(crate) fn left_out(doing: &str, table: &str) -> Failure {
    let what = format!("{doing} in table {table}: the service has left keys out, since it is throttled");
    Failure { error: error(ErrorKind::Unavailable, what), effect: Effect::None, may_pass: true }
}

/// Returns the kind of an answer, by its code and its HTTP status.
fn of_answer(code: &str, status: u16) -> (ErrorKind, Effect, bool) {
    match code {
        "ProvisionedThroughputExceededException"
        | "ThrottlingException"
        | "Throttling"
        | "RequestLimitExceeded"
        | "TooManyRequestsException" => (ErrorKind::Unavailable, Effect::None, true),
        "TransactionConflictException" | "TransactionInProgressException" | "ReplicatedWriteConflictException" => {
            (ErrorKind::Conflict, Effect::None, true)
        }
        "ResourceInUseException" => (ErrorKind::Conflict, Effect::None, false),
        // The client gets other credentials by itself, or does not.
        "ExpiredTokenException" | "ExpiredToken" | "RequestExpired" => (ErrorKind::Unavailable, Effect::None, false),
        "LimitExceededException" => (ErrorKind::Unavailable, Effect::None, false),
        _ if status >= 500 => (ErrorKind::Unavailable, Effect::Unknown, true),
        _ if status == 429 => (ErrorKind::Unavailable, Effect::None, true),
        _ => (ErrorKind::Misconfigured, Effect::None, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_the_kind_that_says_whether_to_ask_again() {
        use ErrorKind::{Conflict, Misconfigured, Unavailable};
        for (code, status, kind, effect, may_pass) in [
            ("ProvisionedThroughputExceededException", 400, Unavailable, Effect::None, true),
            ("ThrottlingException", 400, Unavailable, Effect::None, true),
            ("RequestLimitExceeded", 400, Unavailable, Effect::None, true),
            ("InternalServerError", 500, Unavailable, Effect::Unknown, true),
            ("ServiceUnavailable", 503, Unavailable, Effect::Unknown, true),
            ("", 502, Unavailable, Effect::Unknown, true),
            ("TransactionConflictException", 400, Conflict, Effect::None, true),
            ("ResourceNotFoundException", 400, Misconfigured, Effect::None, false),
            ("AccessDeniedException", 400, Misconfigured, Effect::None, false),
            ("ValidationException", 400, Misconfigured, Effect::None, false),
            ("ExpiredTokenException", 400, Unavailable, Effect::None, false),
        ] {
            assert_eq!(of_answer(code, status), (kind, effect, may_pass), "{code}");
        }
    }
}
