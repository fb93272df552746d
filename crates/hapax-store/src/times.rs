//! Times in requests to stores. An invalid time is an error that names it: nothing is clamped, and
//! nothing overflows.

use super::error::StoreError;
use super::option;
use super::request::*;
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

/// A request with a time.
pub trait Timed: Clone {
    fn check(&self) -> Result<(), StoreError>;
}

impl Timed for Mark {
    fn check(&self) -> Result<(), StoreError> {
        check("retention", self.retention)
    }
}

impl Timed for ClaimRequest {
    fn check(&self) -> Result<(), StoreError> {
        check("lease", self.lease)
    }
}

impl Timed for Completion {
    fn check(&self) -> Result<(), StoreError> {
        check("retention", self.retention)
    }
}

impl Timed for ClaimFailure {
    fn check(&self) -> Result<(), StoreError> {
        check_or_none("retry_after", self.retry_after)
    }
}

impl Timed for Renewal {
    fn check(&self) -> Result<(), StoreError> {
        check("lease", self.lease)
    }
}

impl Timed for Record {
    fn check(&self) -> Result<(), StoreError> {
        check("retention", self.retention)
    }
}

/// The requests of a batch: those with valid times, and the errors of the others.
pub struct Sound<'r, R: Timed> {
    sound: Cow<'r, [R]>,
    /// The errors; empty if nothing is wrong.
    wrong: Vec<Option<StoreError>>,
}

impl<'r, R: Timed> Sound<'r, R> {
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
