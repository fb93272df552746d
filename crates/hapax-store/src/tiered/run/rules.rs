//! The rules of a run, by name, so that a test can leave one out and show that it would be noticed.
//! In a build all of them hold, and asking costs nothing.

/// A rule that some answer depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The claim is renewed while the function runs.
    Renew,
    /// The result is stored while the claim is held, not after it has ended.
    StoreUnderClaim,
    /// The claim of a function that has failed is released.
    ReleaseFailed,
    /// An error that is kept has a retention of its own.
    ErrorsEnd,
    /// The store is asked for the result, even if memory knows that there is one.
    AskForResult,
    /// A call with another fingerprint is another call.
    Fingerprint,
    /// A caller that meets another one waits.
    Wait,
}

/// Returns true if a rule holds.
#[cfg(not(test))]
pub(super) const fn obeys(_: Rule) -> bool {
    true
}

#[cfg(test)]
pub(super) use left_out::{leaving_out, obeys};

#[cfg(test)]
mod left_out {
    use super::Rule;
    use std::cell::Cell;

    thread_local! {
        static LEFT_OUT: Cell<Option<Rule>> = const { Cell::new(None) };
    }

    pub(in super::super) fn obeys(rule: Rule) -> bool {
        LEFT_OUT.get() != Some(rule)
    }

    /// Calls a function on this thread without a rule.
    pub(in super::super) fn leaving_out<T>(rule: Option<Rule>, function: impl FnOnce() -> T) -> T {
        LEFT_OUT.set(rule);
        let result = function();
        LEFT_OUT.set(None);
        result
    }
}
