//! What is tested, and what it has to do.

use hapax::{Dedup, Digester, Forgotten, Int, Outcome, Timestamp, Verdict, Window};
use std::cell::RefCell;
use std::fmt;
use std::time::Duration;

/// A way to deduplicate that is to be tested: hapax, or one of your own.
///
/// ```
/// use hapax_testing::Subject;
/// use hapax::{Outcome, Timestamp};
/// use std::collections::HashMap;
/// use std::sync::Mutex;
/// use std::time::Duration;
///
/// struct Map(Mutex<HashMap<u64, Timestamp>>, Duration);
///
/// impl Subject for Map {
///     fn check(&self, id: u64, at: Timestamp) -> Option<Outcome> {
///         let mut accepted = self.0.lock().unwrap();
///         if accepted.get(&id).is_some_and(|&then| at < then + self.1) {
///             return Some(Outcome::Duplicate);
///         }
///         accepted.insert(id, at);
///         Some(Outcome::Fresh)
///     }
/// }
/// ```
pub trait Subject: Sync {
    /// Whether the id is fresh; if so, it is remembered from now on. `None` if there was no answer (a store that did not answer in
    /// time, say): the checker then takes it that the check may or may not have happened.
    fn check(&self, id: u64, at: Timestamp) -> Option<Outcome>;

    /// Checks many ids, in order; `answers` is empty, and then holds one for each.
    fn check_batch(&self, ids: &[u64], at: Timestamp, answers: &mut Vec<Option<Outcome>>) {
        answers.extend(ids.iter().map(|&id| self.check(id, at)));
    }

    /// Forgets an id, so that its next check is fresh. False if the subject cannot: then nothing is recorded.
    fn forget(&self, id: u64, at: Timestamp) -> bool {
        let _ = (id, at);
        false
    }

    /// Tries to claim an id. `None` if the subject has no claims: then nothing is recorded.
    fn claim(&self, id: u64, at: Timestamp) -> Option<Attempt<'_>> {
        let _ = (id, at);
        None
    }

    /// How many ids had to go before their time, so far, if that is counted. As many answers may be fresh without reason.
    fn evicted(&self) -> u64 {
        0
    }
}

/// What came of an attempt to claim an id.
pub enum Attempt<'s> {
    /// It is the caller's.
    Claimed(End<'s>),
    /// It is somebody else's.
    InProgress,
    /// It is done.
    Duplicate,
}

/// Ends a claim at a time: completes it if true, otherwise releases it. Whether it was still the caller's: if not, nothing is recorded, so leases must
/// last.
pub type End<'s> = Box<dyn FnOnce(bool, Timestamp) -> bool + 's>;

impl fmt::Debug for Attempt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Attempt::Claimed(_) => "Claimed",
            Attempt::InProgress => "InProgress",
            Attempt::Duplicate => "Duplicate",
        })
    }
}

/// What a subject has to do: remember an id for a time.
///
/// An id that was accepted at time a is a duplicate at every time e with e - a < window, and fresh at every e with e - a >= window + slack.
/// In between, either is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Semantics {
    /// How long an id is remembered, from when it was accepted.
    pub window: Duration,
    /// For how much longer it may be remembered.
    pub slack: Duration,
    /// Whether a duplicate extends its id's stay.
    pub refresh_on_duplicate: bool,
    /// Whether forgetting an id may also forget what is accepted while it is under way, so that the id is fresh more than once.
    pub forgets_meanwhile: bool,
    /// Which time counts.
    pub time: Time,
}

/// Which time counts for an operation whose caller's clock differs from others'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// Nobody's time runs backwards: the largest time that anybody has given so far. That is hapax's rule.
    LargestSoFar,
    /// The time that the caller gave, whatever others have given.
    AsGiven,
}

impl Semantics {
    /// hapax's semantics with a window: up to a 50th of it (two ticks) longer, no refresh.
    pub fn of_window(window: Duration) -> Self {
        Semantics {
            window,
            slack: window / 50,
            refresh_on_duplicate: false,
            forgets_meanwhile: true,
            time: Time::LargestSoFar,
        }
    }
}

impl Subject for Dedup {
    fn check(&self, id: u64, at: Timestamp) -> Option<Outcome> {
        Some(self.check_at(Int::from(id), at).outcome())
    }

    fn check_batch(&self, ids: &[u64], at: Timestamp, answers: &mut Vec<Option<Outcome>>) {
        // What a thread keeps from one batch to the next.
        thread_local! {
            static VERDICTS: RefCell<Vec<Verdict>> = const { RefCell::new(Vec::new()) };
        }
        VERDICTS.with_borrow_mut(|verdicts| {
            self.check_batch_at(ids.iter().copied().map(Int::from), at, verdicts);
            answers.extend(verdicts.iter().map(|verdict| Some(verdict.outcome())));
        });
    }

    /// With a history that decides, what is forgotten may still be a duplicate: then do not let a workload forget.
    fn forget(&self, id: u64, at: Timestamp) -> bool {
        tell(self, at);
        Dedup::forget(self, Int::from(id)) != Forgotten::InProgress
    }

    fn claim(&self, id: u64, at: Timestamp) -> Option<Attempt<'_>> {
        tell(self, at);
        Some(match Dedup::claim(self, Int::from(id)) {
            hapax::Attempt::Claimed(claim) => Attempt::Claimed(Box::new(move |completes, at| {
                tell(self, at);
                if completes { claim.complete().is_ok() } else { claim.release().is_ok() }
            })),
            hapax::Attempt::Duplicate(_) => Attempt::Duplicate,
            _ => Attempt::InProgress,
        })
    }

    fn evicted(&self) -> u64 {
        self.evicted_live()
    }
}

/// Forgetting and claiming take no time, so an engine that was not told one yet would read its clock.
fn tell(dedup: &Dedup, at: Timestamp) {
    dedup.check_batch_at([] as [&str; 0], at, &mut Vec::new());
}

/// A window needs somebody to digest the ids.
impl Subject for (Digester, Window) {
    fn check(&self, id: u64, at: Timestamp) -> Option<Outcome> {
        Some(self.1.check(self.0.digest(Int::from(id)), at))
    }

    fn check_batch(&self, ids: &[u64], at: Timestamp, answers: &mut Vec<Option<Outcome>>) {
        let digests: Vec<_> = ids.iter().map(|&id| self.0.digest(Int::from(id))).collect();
        let mut outcomes = Vec::new();
        self.1.check_batch(&digests, at, &mut outcomes);
        answers.extend(outcomes.into_iter().map(Some));
    }

    fn forget(&self, id: u64, at: Timestamp) -> bool {
        self.1.forget(self.0.digest(Int::from(id)), at);
        true
    }

    fn evicted(&self) -> u64 {
        self.1.evicted_live()
    }
}
