//! The judge of recorded histories of one id: each version passes once, none after a higher one,
//! and every answer has a reason.

use super::verdict::VersionVerdict;

/// A call and its answer, between two moments of a count that all threads share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) version: u64,
    pub(super) began: u64,
    pub(super) ended: u64,
    pub(super) verdict: VersionVerdict,
}

impl Call {
    /// Returns the version that is known when the call is over.
    fn known(&self) -> Option<u64> {
        match self.verdict {
            VersionVerdict::Newer | VersionVerdict::Duplicate => Some(self.version),
            VersionVerdict::Stale { known } => Some(known),
            VersionVerdict::Refused(_) => None,
        }
    }
}

/// Judges the calls about one id, which nothing has forgotten; `known` is what is known at the end.
pub(super) fn judge(calls: &[Call], known: Option<u64>) -> Result<(), String> {
    let highest = calls.iter().map(|call| call.version).max();
    if known != highest {
        return Err(format!("{known:?} is known after all, {highest:?} was the highest"));
    }
    let passed = |version: u64| calls.iter().filter(move |call| call.version == version && call.verdict.is_newer());
    for call in calls {
        if passed(call.version).count() > 1 {
            return Err(format!("version {} has passed more than once: {calls:?}", call.version));
        }
        // What was known before the call began.
        let before = calls.iter().filter(|other| other.ended < call.began).filter_map(Call::known).max();
        let is_wrong = match call.verdict {
            VersionVerdict::Newer => before >= Some(call.version),
            VersionVerdict::Duplicate => {
                before > Some(call.version) || !passed(call.version).any(|other| other.began < call.ended)
            }
            VersionVerdict::Stale { known } => {
                before > Some(known) || known <= call.version || !passed(known).any(|other| other.began < call.ended)
            }
            VersionVerdict::Refused(_) => true,
        };
        if is_wrong {
            return Err(format!("{call:?}, when {before:?} was known: {calls:?}"));
        }
    }
    Ok(())
}

#[cfg(not(modelled))]
mod tests {
    use super::*;
    use VersionVerdict::{Duplicate, Newer, Stale};

    fn call(version: u64, began: u64, ended: u64, verdict: VersionVerdict) -> Call {
        Call { version, began, ended, verdict }
    }

    #[test]
    fn the_judge_takes_what_is_right_and_nothing_else() {
        let six = call(6, 0, 3, Newer);
        let judged = |other: Call, known| judge(&[six, other], Some(known)).is_ok();
        // At the same time:
        assert!(judged(call(5, 1, 2, Newer), 6) && judged(call(5, 1, 2, Stale { known: 6 }), 6));
        assert!(judged(call(6, 1, 2, Duplicate), 6) && judged(call(7, 1, 2, Newer), 7));
        assert!(!judged(call(6, 1, 2, Newer), 6), "twice");
        assert!(!judged(call(5, 1, 2, Newer), 5), "six is lost");
        assert!(!judged(call(5, 1, 2, Duplicate), 6), "nobody was told to handle it");
        assert!(!judged(call(5, 1, 2, Stale { known: 9 }), 6), "nobody has come with it");
        assert!(!judged(call(7, 1, 2, Stale { known: 6 }), 7), "it is none");
        // One after another:
        assert!(judged(call(5, 4, 5, Stale { known: 6 }), 6));
        assert!(!judged(call(5, 4, 5, Newer), 6), "after a higher one");
        let seven = [six, call(7, 4, 5, Newer)];
        assert!(judge(&[seven[0], seven[1], call(5, 6, 7, Stale { known: 7 })], Some(7)).is_ok());
        assert!(judge(&[seven[0], seven[1], call(5, 6, 7, Stale { known: 6 })], Some(7)).is_err(), "not any more");
        assert!(judge(&[seven[0], seven[1], call(6, 6, 7, Duplicate)], Some(7)).is_err(), "not any more");
    }
}
