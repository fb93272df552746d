//! Times in requests to stores. An invalid time is an error that names it: nothing is clamped, and
//! nothing overflows.

use super::option;
use crate::error::StoreError;
use crate::key::RecordKey;
use crate::request::*;
use std::borrow::Cow;
use std::time::Duration;

/// The longest time: 100 years.
pub const HUNDRED_YEARS: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// Returns an error if a time is longer than the longest, or zero.
pub fn check(option: &str, time: Duration) -> Result<(), StoreError> {
    let is_valid = !time.is_zero() && time <= HUNDRED_YEARS;
    option::check("hapax", is_valid, option, &time, "a duration of up to 100 years, not none")
}

/// Returns an error if a time is longer than the longest; it may be zero.
pub fn check_or_none(option: &str, time: Duration) -> Result<(), StoreError> {
    option::check("hapax", time <= HUNDRED_YEARS, option, &time, "a duration of up to 100 years, or none")
}

/// A request. Some have a time, which may be invalid.
pub trait Timed: Clone {
    /// Returns an error that names the request's time if it is invalid.
    fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

macro_rules! timed {
    ($($request:ty: $check:ident($time:ident);)*) => {
        $(impl Timed for $request {
            fn check(&self) -> Result<(), StoreError> {
                $check(stringify!($time), self.$time)
            }
        })*
    };
}

timed! {
    Mark: check(retention);
    Completion: check(retention);
    ClaimFailure: check_or_none(retry_after);
    Renewal: check(lease);
    Record: check(retention);
}

impl Timed for ClaimRequest {
    fn check(&self) -> Result<(), StoreError> {
        check("lease", self.lease).and_then(|()| check_or_none("doubt", self.doubt))
    }
}

impl Timed for Unmark {}
impl Timed for Hold {}
impl Timed for RecordKey {}

/// The requests of a batch: those with valid times, and the errors of the others.
pub struct Sound<'r, R: Timed> {
    sound: Cow<'r, [R]>,
    /// The errors; empty if nothing is wrong.
    wrong: Vec<Option<StoreError>>,
}

impl<'r, R: Timed> Sound<'r, R> {
    /// Divides the requests of a batch.
    pub fn of(requests: &'r [R]) -> Self {
        if requests.iter().all(|request| request.check().is_ok()) {
            return Sound { sound: Cow::Borrowed(requests), wrong: Vec::new() };
        }
        let wrong: Vec<Option<StoreError>> = requests.iter().map(|request| request.check().err()).collect();
        let sound = requests.iter().zip(&wrong).filter(|(_, wrong)| wrong.is_none());
        Sound { sound: sound.map(|(request, _)| request.clone()).collect(), wrong }
    }

    /// Returns the valid requests.
    pub fn requests(&self) -> &[R] {
        &self.sound
    }

    /// Returns the answers to all requests, given those to the valid ones.
    pub fn answers<A>(self, answers: Answers<A>) -> Answers<A> {
        if self.wrong.is_empty() {
            return answers;
        }
        let mut answers = answers?.into_iter();
        Ok(self.wrong.into_iter().filter_map(|wrong| wrong.map(Err).or_else(|| answers.next())).collect())
    }
}
