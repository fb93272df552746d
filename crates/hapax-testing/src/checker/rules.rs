//! The rules of the specification that a history can exercise, and those that it never did.

use std::fmt;

/// A rule of the specification that a history may never have exercised: then nothing is known of
/// it.
///
/// It displays as what never happened, and what to change in the [`Workload`](crate::Workload).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// Of calls on one id that overlap, one is fresh.
    Overlap,
    /// An id is fresh again after its window.
    Expiry,
    /// An id is a duplicate one nanosecond before the end of its window, and may be fresh from its
    /// end on. Nobody can ask at these times where the subject reads a clock of its own.
    Edges,
    /// Of two equal ids of one batch the second is a duplicate.
    TwiceInABatch,
    /// Time never runs backwards, though callers' clocks differ.
    ClocksThatDiffer,
    /// A duplicate extends its id's stay.
    Extension,
    /// An id that was forgotten is fresh.
    Forgetting,
    /// An id is forgotten while it is checked.
    ForgettingMeanwhile,
    /// An id that is claimed is nobody else's.
    Claims,
    /// A lease that has ended is taken over.
    TakeOver,
    /// A lease that is renewed begins anew.
    Renewal,
    /// A holder whose claim somebody has taken over is refused.
    LateHolder,
    /// Another fingerprint is a mismatch.
    Mismatch,
    /// A restarted subject knows what it had acknowledged.
    Restart,
    /// A subject that has no more room counts what it drops.
    Eviction,
}

impl Rule {
    const ALL: [Rule; 15] = [
        Rule::Overlap,
        Rule::Expiry,
        Rule::Edges,
        Rule::TwiceInABatch,
        Rule::ClocksThatDiffer,
        Rule::Extension,
        Rule::Forgetting,
        Rule::ForgettingMeanwhile,
        Rule::Claims,
        Rule::TakeOver,
        Rule::Renewal,
        Rule::LateHolder,
        Rule::Mismatch,
        Rule::Restart,
        Rule::Eviction,
    ];

    /// Returns what never happened, and what to change so that it happens.
    fn texts(self) -> (&'static str, &'static str) {
        match self {
            Rule::Overlap => ("no two calls of one id overlapped", "more `threads`, a smaller `meet_every`"),
            Rule::Expiry => ("no id was asked for after its window", "more `operations` than `operations_per_window`"),
            Rule::Edges => (
                "no id was asked for 1 ns before its window's end, and at its end",
                "a subject that takes the time as an argument, and a `slack` that ends",
            ),
            Rule::TwiceInABatch => ("no batch had an id twice", "more `batches`, a larger `batch_max`"),
            Rule::ClocksThatDiffer => ("no caller gave an earlier time than others had given", "`skew`"),
            Rule::Extension => ("no duplicate was one because of an earlier duplicate", "more `operations`"),
            Rule::Forgetting => ("no id was forgotten", "`forgets`, if the subject can forget"),
            Rule::ForgettingMeanwhile => ("no id was forgotten during another call of it", "more `forgets`"),
            Rule::Claims => ("no id was claimed", "`claims` or `leases`, if the subject has claims"),
            Rule::TakeOver => ("no lease was taken over", "`leases`, and more `operations`"),
            Rule::Renewal => ("no lease was renewed", "`leases`, if the subject can renew them"),
            Rule::LateHolder => ("no late holder wanted to go on", "`leases`, and more `operations`"),
            Rule::Mismatch => ("no fingerprint differed", "`fingerprints`, if the subject has them"),
            Rule::Restart => ("the subject was not restarted", "`restart_every`, if it outlives its process"),
            Rule::Eviction => (
                "no id had to go before its time, that was counted",
                "more `ids` in a window than the subject has room for",
            ),
        }
    }

    /// Returns what never happened, without advice about a [`Workload`](crate::Workload): for a
    /// history that was recorded elsewhere.
    pub fn never(self) -> &'static str {
        self.texts().0
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (never, change) = self.texts();
        write!(f, "{never} (to change that: {change})")
    }
}

/// A set of rules.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rules(u16);

impl Rules {
    pub(crate) fn add_if(&mut self, rule: Rule, holds: bool) {
        if holds {
            self.0 |= rule.bit();
        }
    }

    pub(crate) fn has(self, rule: Rule) -> bool {
        self.0 & rule.bit() != 0
    }

    /// Returns the members that the other set does not have.
    pub(crate) fn without(self, other: Rules) -> impl Iterator<Item = Rule> {
        Rule::ALL.into_iter().filter(move |&rule| self.has(rule) && !other.has(rule))
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.without(Rules::default())).finish()
    }
}
