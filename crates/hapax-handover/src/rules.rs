//! The rules of the protocol, by name, so that the explorer can leave one out and show that it
//! notices. In a build all of them hold, and asking costs nothing.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code, reason = "only the explorer names the rules that it leaves out"))]
pub(crate) enum Rule {
    /// A manifest replaces exactly the one that its owner has seen. (The explorer's store obeys.)
    Conditional,
    /// Nothing is deleted before a manifest without it is published.
    DeleteAfterPublish,
    /// A manifest is written when all files that it names are there.
    FilesFirst,
    /// An object's name has the epoch of its owner.
    EpochInName,
    /// The writer of the manifest decides what is done after a lost answer.
    LostAnswer,
    /// Orphans are those of an earlier epoch. (Their age is asked besides.)
    OrphansByEpoch,
}

#[cfg(not(test))]
#[inline(always)]
pub(crate) fn obeys(_: Rule) -> bool {
    true
}

#[cfg(test)]
thread_local! {
    static LEFT_OUT: std::cell::Cell<Option<Rule>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
pub(crate) fn obeys(rule: Rule) -> bool {
    LEFT_OUT.get() != Some(rule)
}

/// Calls a function in a world without a rule.
#[cfg(test)]
pub(crate) fn without<T>(rule: Option<Rule>, call: impl FnOnce() -> T) -> T {
    LEFT_OUT.set(rule);
    let outcome = call();
    LEFT_OUT.set(None);
    outcome
}
