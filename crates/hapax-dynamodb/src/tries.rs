//! The decision whether a failed request is tried again, and after which wait: pure.

use crate::errors::{BACKEND, Effect, Failure};
use hapax_store::StoreError;
use hapax_store::back_off::BackOff;
use std::time::Duration;

/// The number of tries of one request.
pub(crate) const TRIES_MAX: u32 = 8;
/// The waits between tries: doubled and jittered. Throttling passes within a second, or not soon.
pub(crate) const BACK_OFF: BackOff = BackOff { first: Duration::from_millis(25), max: Duration::from_secs(1) };

/// The failures after which a request is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// After a lost answer, too: if the first try was carried out, the second one says so.
    Always,
    /// Only if it was certainly not carried out.
    IfNotDone,
}

/// The tries of one request so far.
#[derive(Debug)]
pub(crate) struct Tries {
    repeats: Repeats,
    failures: u32,
}

impl Tries {
    pub(crate) fn new(repeats: Repeats) -> Self {
        Tries { repeats, failures: 0 }
    }

    /// Counts tries from here on anew: something of the request was done.
    pub(crate) fn advanced(&mut self) {
        self.failures = 0;
    }

    /// Returns the wait before the next try, or the error to end with. `left` is the time that the
    /// request has left.
    pub(crate) fn after(&mut self, failure: Failure, left: Duration, random: u64) -> Result<Duration, StoreError> {
        self.failures += 1;
        let is_repeatable = failure.may_pass && (failure.effect == Effect::None || self.repeats == Repeats::Always);
        let wait = BACK_OFF.after(self.failures, random);
        if is_repeatable && self.failures < TRIES_MAX && wait < left {
            return Ok(wait);
        }
        Err(match self.failures {
            1 => failure.error,
            tries => {
                let (kind, what) = (failure.error.kind(), format!("the last of {tries} tries"));
                StoreError::caused(kind, BACKEND, what, failure.error)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_store::ErrorKind;

    const LONG: Duration = Duration::from_secs(60);

    fn failure(effect: Effect, may_pass: bool) -> Failure {
        Failure { error: crate::errors::error(ErrorKind::Unavailable, "throttled"), effect, may_pass }
    }

    #[test]
    fn what_may_have_been_done_is_repeated_only_where_that_is_noticed() {
        let goes_on = |repeats, effect, may_pass| Tries::new(repeats).after(failure(effect, may_pass), LONG, 0).is_ok();
        assert!(goes_on(Repeats::Always, Effect::Unknown, true) && goes_on(Repeats::Always, Effect::None, true));
        assert!(goes_on(Repeats::IfNotDone, Effect::None, true));
        assert!(!goes_on(Repeats::IfNotDone, Effect::Unknown, true));
        assert!(!goes_on(Repeats::Always, Effect::None, false));
    }

    #[test]
    fn tries_and_waits_are_bounded() {
        let mut tries = Tries::new(Repeats::Always);
        let mut waited = Duration::ZERO;
        let error = loop {
            match tries.after(failure(Effect::None, true), LONG, 0) {
                Ok(wait) => waited += wait,
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains(&format!("the last of {TRIES_MAX} tries")), "{error}");
        assert!(error.to_string().contains("throttled") && error.kind() == ErrorKind::Unavailable, "{error}");
        assert_eq!(waited.as_millis(), 25 + 50 + 100 + 200 + 400 + 800 + 1_000);
    }

    #[test]
    fn nobody_waits_beyond_the_time_of_the_request() {
        let after = |left| Tries::new(Repeats::Always).after(failure(Effect::None, true), left, 0);
        assert_eq!(after(Duration::from_millis(26)).unwrap(), Duration::from_millis(25));
        assert_eq!(after(Duration::from_millis(25)).unwrap_err().kind(), ErrorKind::Unavailable);
    }
}
