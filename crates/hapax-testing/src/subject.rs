//! The interface of a tested strategy, and its specification.

use hapax::seam::Digester;
use hapax::seam::Window;
use hapax::{Dedup, Forgotten, Int, Outcome, Timestamp, Verdict};
use std::cell::RefCell;
use std::fmt;
use std::time::Duration;

/// A tested way to deduplicate: hapax, or one of your own.
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
    /// Checks whether the id is fresh; if so, it is remembered from now on. `None` if there was no
    /// answer (for example from a store that did not answer in time): the checker then assumes that
    /// the check may or may not have happened.
    fn check(&self, id: u64, at: Timestamp) -> Option<Outcome>;

    /// Checks many ids, in order; `answers` is empty at the call, and has one for each afterwards.
    fn check_batch(&self, ids: &[u64], at: Timestamp, answers: &mut Vec<Option<Outcome>>) {
        answers.extend(ids.iter().map(|&id| self.check(id, at)));
    }

    /// Forgets an id, so that its next check is fresh. Returns false if the subject cannot: then
    /// nothing is recorded.
    fn forget(&self, id: u64, at: Timestamp) -> bool {
        let _ = (id, at);
        false
    }

    /// Tries to claim an id. `None` if the subject has no claims: then nothing is recorded.
    fn claim(&self, id: u64, at: Timestamp) -> Option<Attempt<'_>> {
        let _ = (id, at);
        None
    }

    /// Tries to claim an id for a message whose content has the number `fingerprint`, from 1.
    /// `None` if the subject has no fingerprints: then nothing is recorded.
    fn claim_with(&self, id: u64, fingerprint: u8, at: Timestamp) -> Option<Attempt<'_>> {
        let _ = (id, fingerprint, at);
        None
    }

    /// Stops the subject and starts it again from what it has stored: what it has acknowledged it
    /// must still know. Called while no other call is under way and nobody holds a claim. Returns
    /// false if the subject does not outlive its process: then nothing has happened.
    fn restart(&self) -> bool {
        false
    }

    /// Returns the number of ids that had to go before their time, so far, if that is counted. As
    /// many answers may be fresh without reason.
    fn evicted(&self) -> u64 {
        0
    }
}

/// The result of an attempt to claim an id.
pub enum Attempt<'s> {
    /// The id is the caller's.
    Claimed(Box<dyn Lease + 's>),
    /// The id is another caller's.
    InProgress,
    /// The id is done.
    Duplicate,
    /// The id is in progress or done with another fingerprint.
    Mismatch,
}

/// A claim. Where it has a lease, it ends by itself, unless that is renewed.
pub trait Lease {
    /// Returns the claim's fencing token, from 1, if it has one: a later claim of the id must have
    /// a larger one.
    fn token(&self) -> Option<u64> {
        None
    }

    /// Renews the lease, so that it begins anew. Returns false if the claim is no longer the
    /// caller's; `None` if leases cannot be renewed: then nothing is recorded.
    fn renew(&mut self, at: Timestamp) -> Option<bool> {
        let _ = at;
        None
    }

    /// Completes the claim if the flag is true, otherwise releases it. Returns false if the claim
    /// is no longer the caller's: then nothing is recorded for a
    /// [`Call::Claim`](crate::Call::Claim), whose lease must last.
    fn end(self: Box<Self>, completes: bool, at: Timestamp) -> bool;
}

impl fmt::Debug for Attempt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Attempt::Claimed(_) => "Claimed",
            Attempt::InProgress => "InProgress",
            Attempt::Duplicate => "Duplicate",
            Attempt::Mismatch => "Mismatch",
        })
    }
}

/// The specification of a subject: it remembers an id for a time.
///
/// An id that was accepted at time a is a duplicate at every time e with e - a < window, and fresh
/// at every e with e - a >= window + slack. In between, either is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Semantics {
    /// The time for which an id is remembered, from its acceptance.
    pub window: Duration,
    /// The additional time for which it may be remembered.
    pub slack: Duration,
    /// True if a duplicate extends its id's stay.
    pub refresh_on_duplicate: bool,
    /// True if forgetting an id may also forget it when it is accepted meanwhile, so that the id is
    /// fresh more than once.
    pub forgets_meanwhile: bool,
    /// True if a check that has accepted an id may accept it once more, until it returns, when the
    /// id was forgotten since: others may have found it known before that, and do so afterwards.
    /// And if a check that finds an id claimed may have accepted it before, when the id was
    /// forgotten since, and then claimed: others may have found it known before that. (Attempts to
    /// claim give the same answer, and are not told from checks here.)
    pub accepts_meanwhile: bool,
    /// The rule for the time that counts.
    pub time: Time,
    /// The time for which a claim belongs to its holder, from the attempt that got it or its last
    /// renewal; `None` if claims last until they are ended.
    ///
    /// A lease of length l that began at time b keeps others out at every e with e - b < l, and at
    /// none with e - b >= l + slack. From then on one other may take the id over. Until somebody
    /// has, a late holder may be refused, or may complete, release or renew; afterwards it must be
    /// refused.
    pub lease: Option<Duration>,
}

/// The rule for the time that counts for an operation whose caller's clock differs from others'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// Time never runs backwards: the largest time that any caller has given so far counts. That is
    /// hapax's rule.
    LargestSoFar,
    /// The time that the caller gave, whatever others have given.
    AsGiven,
    /// The time that the subject reads from a clock of its own, at any moment between the call and
    /// its return, by the recorder's monotonic clock: see
    /// [`Stamps::with_clock`](crate::Stamps::with_clock).
    ///
    /// A clock that is coarser than the recorder's makes an id up to one of its steps older or
    /// younger: subtract a step from the window, and add two to the slack.
    Own,
}

impl Semantics {
    /// Returns exact semantics with a window: a duplicate until one nanosecond before its end,
    /// fresh from its end on; no refresh.
    pub fn of_window(window: Duration) -> Self {
        Semantics {
            window,
            slack: Duration::ZERO,
            refresh_on_duplicate: false,
            forgets_meanwhile: false,
            accepts_meanwhile: false,
            time: Time::LargestSoFar,
            lease: None,
        }
    }

    /// Returns hapax's semantics with a window: up to a 50th of it (two ticks) longer, and an id
    /// that is accepted while it is being forgotten may be forgotten again, or accepted again; no
    /// refresh.
    pub fn of_hapax(window: Duration) -> Self {
        Semantics { slack: window / 50, forgets_meanwhile: true, accepts_meanwhile: true, ..Self::of_window(window) }
    }

    /// Returns the semantics of a subject that reads a clock of its own, with the slack that hapax
    /// has: for [`Workload::of_own_clock`](crate::Workload::of_own_clock).
    pub fn of_own_clock(window: Duration) -> Self {
        Semantics { time: Time::Own, ..Self::of_hapax(window) }
    }

    /// Returns the same with leases of half a window, and duplicates that extend their id's stay:
    /// for [`Workload::of_everything`](crate::Workload::of_everything).
    pub fn of_everything(window: Duration) -> Self {
        Semantics { refresh_on_duplicate: true, lease: Some(window / 2), ..Self::of_own_clock(window) }
    }
}

impl Subject for Dedup {
    fn check(&self, id: u64, at: Timestamp) -> Option<Outcome> {
        Some(self.check_at(Int::from(id), at).outcome())
    }

    fn check_batch(&self, ids: &[u64], at: Timestamp, answers: &mut Vec<Option<Outcome>>) {
        // The buffers that a thread keeps from one batch to the next.
        thread_local! {
            static VERDICTS: RefCell<Vec<Verdict>> = const { RefCell::new(Vec::new()) };
        }
        VERDICTS.with_borrow_mut(|verdicts| {
            self.check_batch_at(ids.iter().copied().map(Int::from), at, verdicts);
            answers.extend(verdicts.iter().map(|verdict| Some(verdict.outcome())));
        });
    }

    /// Forgets an id. With a history that decides, a forgotten id may still be a duplicate: then do
    /// not let a workload forget.
    fn forget(&self, id: u64, at: Timestamp) -> bool {
        tell(self, at);
        Dedup::forget(self, Int::from(id)) != Forgotten::InProgress
    }

    fn claim(&self, id: u64, at: Timestamp) -> Option<Attempt<'_>> {
        tell(self, at);
        Some(match Dedup::claim(self, Int::from(id)) {
            hapax::Attempt::Claimed(claim) => Attempt::Claimed(Box::new(OfEngine(self, claim))),
            hapax::Attempt::Duplicate(_) => Attempt::Duplicate,
            _ => Attempt::InProgress,
        })
    }

    fn evicted(&self) -> u64 {
        self.evicted_live()
    }
}

/// A claim of an engine.
struct OfEngine<'e>(&'e Dedup, hapax::Claim<'e>);

impl Lease for OfEngine<'_> {
    fn end(self: Box<Self>, completes: bool, at: Timestamp) -> bool {
        tell(self.0, at);
        if completes { self.1.complete().is_ok() } else { self.1.release().is_ok() }
    }
}

/// Tells the engine a time: forgetting and claiming take none, so an engine that was not told one
/// yet would read its clock.
fn tell(dedup: &Dedup, at: Timestamp) {
    dedup.check_batch_at([] as [&str; 0], at, &mut Vec::new());
}

/// A window needs a digester for the ids.
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
