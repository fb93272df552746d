//! What a check answers.

/// Whether an id is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Not seen within the window (or the history's horizon): handle it.
    Fresh,
    /// Seen: drop it.
    Duplicate,
}

/// The tier that decided, in the order in which an id passes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Tier {
    /// The exact, recent [`Window`](crate::Window).
    Window,
    /// The long [`History`](crate::History), a Bloom filter.
    History,
}

/// How far a verdict can be relied upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Certainty {
    /// The tier knows. (What "knows" is worth in numbers: see the guarantees in the crate's README.)
    Exact,
    /// The Bloom filter said "maybe", and the configured [`Unconfirmed`](crate::Unconfirmed) policy turned that into an
    /// outcome.
    Guess,
}

/// The answer to a check: fresh or duplicate, which tier decided, and whether that tier knows or guesses.
///
/// ```
/// use hapax::{Certainty, Dedup, Tier};
///
/// let dedup = Dedup::builder().build()?;
/// assert!(dedup.check("order-17").is_fresh());
///
/// let again = dedup.check("order-17");
/// assert!(again.is_duplicate());
/// assert_eq!((again.tier, again.certainty), (Tier::Window, Certainty::Exact));
/// # Ok::<(), hapax::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Verdict {
    /// Fresh or duplicate.
    pub outcome: Outcome,
    /// The tier that decided.
    pub tier: Tier,
    /// Whether that tier knows or guesses.
    pub certainty: Certainty,
}

impl Verdict {
    pub(crate) const fn exact(outcome: Outcome, tier: Tier) -> Self {
        Verdict { outcome, tier, certainty: Certainty::Exact }
    }

    pub(crate) const fn guess(outcome: Outcome) -> Self {
        Verdict { outcome, tier: Tier::History, certainty: Certainty::Guess }
    }

    /// Whether the id is to be handled.
    #[inline]
    pub const fn is_fresh(self) -> bool {
        matches!(self.outcome, Outcome::Fresh)
    }

    /// Whether the id was seen before.
    #[inline]
    pub const fn is_duplicate(self) -> bool {
        matches!(self.outcome, Outcome::Duplicate)
    }
}
