//! The options of a hand-over.

use crate::HandoverError;
use hapax::seam::back_off::BackOff;
use std::time::Duration;

/// The options of a [`Handover`](crate::Handover).
///
/// ```
/// use hapax_handover::HandoverOptions;
/// use std::time::Duration;
///
/// let options = HandoverOptions::new().lease(Duration::from_secs(5)).attempts(3);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandoverOptions {
    pub(crate) lease: Duration,
    pub(crate) part_bytes: u64,
    pub(crate) request_timeout: Duration,
    pub(crate) read_timeout: Duration,
    pub(crate) attempts: u32,
    pub(crate) back_off: BackOff,
    pub(crate) orphan_age: Duration,
}

impl Default for HandoverOptions {
    fn default() -> Self {
        HandoverOptions {
            lease: Duration::from_secs(15),
            part_bytes: 16 << 20,
            request_timeout: Duration::from_secs(30),
            read_timeout: Duration::from_secs(2),
            attempts: 5,
            back_off: BackOff { first: Duration::from_millis(100), max: Duration::from_secs(5) },
            orphan_age: Duration::from_secs(24 * 3600),
        }
    }
}

impl HandoverOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the time for which an owner answers checks without the store's confirmation that it
    /// still is the owner. It is asked for three times in that. Default: 15 seconds.
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        HandoverOptions { lease, ..self }
    }

    /// Sets the largest part of a file that is one object. Eight are uploaded or downloaded at a
    /// time, each with memory for its part. Default: 16 MiB.
    #[must_use]
    pub fn part_bytes(self, part_bytes: u64) -> Self {
        HandoverOptions { part_bytes, ..self }
    }

    /// Sets the time that one request may take. Default: 30 seconds.
    #[must_use]
    pub fn request_timeout(self, request_timeout: Duration) -> Self {
        HandoverOptions { request_timeout, ..self }
    }

    /// Sets the time for which a check waits for a page of a segment that is not here yet, in which
    /// it is asked for twice. Then the id is in doubt: fresh, as a guess. After that the store is
    /// left alone for a second, and all that is there is in doubt. Default: 2 seconds.
    #[must_use]
    pub fn read_timeout(self, read_timeout: Duration) -> Self {
        HandoverOptions { read_timeout, ..self }
    }

    /// Sets the number of times that a request is made. Default: 5.
    #[must_use]
    pub fn attempts(self, attempts: u32) -> Self {
        HandoverOptions { attempts, ..self }
    }

    /// Sets the wait before a request is made again: twice as long each time, up to a limit, and
    /// shortened at random by up to a half. Default: a tenth of a second, 5 seconds.
    #[must_use]
    pub fn back_off(self, first: Duration, max: Duration) -> Self {
        HandoverOptions { back_off: BackOff { first, max }, ..self }
    }

    /// Sets the age, by the store's clock, from which on an object that an earlier owner has left,
    /// and no manifest names, is deleted. Default: a day.
    #[must_use]
    pub fn orphan_age(self, orphan_age: Duration) -> Self {
        HandoverOptions { orphan_age, ..self }
    }

    pub(crate) fn validate(&self) -> Result<(), HandoverError> {
        let wrong = |option, got: String, expected| Err(HandoverError::InvalidOption { option, got, expected });
        let BackOff { first, max } = self.back_off;
        match self {
            _ if self.lease < Duration::from_millis(10) => wrong("lease", format!("{:?}", self.lease), "10 ms or more"),
            _ if !(1 << 10..=1 << 30).contains(&self.part_bytes) => {
                wrong("part_bytes", self.part_bytes.to_string(), "1 KiB to 1 GiB")
            }
            _ if self.request_timeout.is_zero() => wrong("request_timeout", "0".into(), "a duration above 0"),
            _ if self.read_timeout.is_zero() => wrong("read_timeout", "0".into(), "a duration above 0"),
            _ if !(1..=100).contains(&self.attempts) => wrong("attempts", self.attempts.to_string(), "1 to 100"),
            _ if first > max => wrong("back_off", format!("{first:?}, {max:?}"), "a first wait within the limit"),
            _ => Ok(()),
        }
    }
}
