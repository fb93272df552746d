//! The rules of outages, by name, so that a test can leave one out and show that it notices. In a
//! build all of them hold, and asking costs nothing.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code, reason = "only tests name the rules that they leave out"))]
pub(super) enum Rule {
    /// One message that fails again and again is one.
    Different,
    /// So many of them are an outage.
    Enough,
    /// Failures before a success are no longer counted together with those after it.
    Between,
    /// In an outage no failure counts as an attempt.
    NoneCounts,
    /// After an hour failures count again.
    Longest,
    /// Those whose failures made the outage known have one attempt more.
    Forgive,
    /// The last of them has not: its failure has not counted.
    NotTheLast,
    /// They have one more, and not two.
    Once,
    /// No more than so many are remembered.
    Bound,
    /// The first try waits, too.
    FirstWait,
    /// Each try in vain makes the next wait longer.
    LongerWaits,
    /// A success ends the outage.
    Ends,
}

#[cfg(not(test))]
#[inline(always)]
pub(super) fn obeys(_: Rule) -> bool {
    true
}

#[cfg(test)]
thread_local! {
    static LEFT_OUT: std::cell::Cell<Option<Rule>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
pub(super) fn obeys(rule: Rule) -> bool {
    LEFT_OUT.get() != Some(rule)
}

/// Calls a function in a world without a rule.
#[cfg(test)]
pub(super) fn without<T>(rule: Option<Rule>, call: impl FnOnce() -> T) -> T {
    LEFT_OUT.set(rule);
    let outcome = call();
    LEFT_OUT.set(None);
    outcome
}
