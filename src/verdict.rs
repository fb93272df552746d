//! What a check answers.

use std::fmt;

/// Whether an id is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Not seen within the window (or the history's horizon): handle it.
    Fresh,
    /// Seen: drop it.
    Duplicate,
    /// [Claimed](crate::Dedup::claim), and not yet done: nothing is decided, so it must come again. Only from an engine that claims are made
    /// of, never from a [`Window`](crate::Window) alone.
    InProgress,
}

/// The tier that decided, in the order in which an id passes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Tier {
    /// The exact, recent [`Window`](crate::Window).
    Window,
    /// The long [`History`](crate::History), a Bloom filter.
    History,
    /// The [claims](crate::Dedup::claim) in flight.
    Claims,
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

/// The answer to a check: fresh or duplicate, which tier decided, and whether that tier knows or guesses. One byte.
///
/// ```
/// use hapax::{Certainty, Dedup, Tier};
///
/// let dedup = Dedup::builder().build()?;
/// assert!(dedup.check("order-17").is_fresh());
///
/// let again = dedup.check("order-17");
/// assert!(again.is_duplicate());
/// assert_eq!((again.tier(), again.certainty()), (Tier::Window, Certainty::Exact));
/// # Ok::<(), hapax::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Verdict(u8);

impl Verdict {
    const DUPLICATE: u8 = 1;
    const HISTORY: u8 = 2;
    const GUESS: u8 = 4;
    const IN_PROGRESS: u8 = 8;

    pub(crate) const fn exact(outcome: Outcome, tier: Tier) -> Self {
        let outcome = match outcome {
            Outcome::Fresh => 0,
            Outcome::Duplicate => Self::DUPLICATE,
            Outcome::InProgress => Self::IN_PROGRESS,
        };
        let tier = match tier {
            Tier::Window | Tier::Claims => 0,
            Tier::History => Self::HISTORY,
        };
        Verdict(outcome | tier)
    }

    pub(crate) const fn guess(outcome: Outcome) -> Self {
        Verdict(Self::exact(outcome, Tier::History).0 | Self::GUESS)
    }

    /// Fresh or duplicate.
    #[inline]
    pub const fn outcome(self) -> Outcome {
        match self.0 & (Self::DUPLICATE | Self::IN_PROGRESS) {
            0 => Outcome::Fresh,
            Self::DUPLICATE => Outcome::Duplicate,
            _ => Outcome::InProgress,
        }
    }

    /// The tier that decided.
    #[inline]
    pub const fn tier(self) -> Tier {
        match self.0 & (Self::HISTORY | Self::IN_PROGRESS) {
            0 => Tier::Window,
            Self::HISTORY => Tier::History,
            _ => Tier::Claims,
        }
    }

    /// Whether that tier knows or guesses.
    #[inline]
    pub const fn certainty(self) -> Certainty {
        if self.0 & Self::GUESS == 0 { Certainty::Exact } else { Certainty::Guess }
    }

    /// Whether the id is to be handled.
    #[inline]
    pub const fn is_fresh(self) -> bool {
        self.0 & (Self::DUPLICATE | Self::IN_PROGRESS) == 0
    }

    /// Whether the id was seen before, and is done with.
    #[inline]
    pub const fn is_duplicate(self) -> bool {
        self.0 & Self::DUPLICATE != 0
    }

    /// Whether somebody has claimed the id, and is not done with it.
    #[inline]
    pub const fn is_in_progress(self) -> bool {
        self.0 & Self::IN_PROGRESS != 0
    }

    /// Counters have a place for each verdict.
    pub(crate) const VALUES: usize = 16;

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} by {:?} ({:?})", self.outcome(), self.tier(), self.certainty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_what_it_was_made_of() {
        for outcome in [Outcome::Fresh, Outcome::Duplicate] {
            for tier in [Tier::Window, Tier::History] {
                let verdict = Verdict::exact(outcome, tier);
                assert_eq!((verdict.outcome(), verdict.tier()), (outcome, tier));
                assert_eq!(verdict.certainty(), Certainty::Exact);
            }
            let verdict = Verdict::guess(outcome);
            assert_eq!((verdict.outcome(), verdict.tier()), (outcome, Tier::History));
            assert_eq!(verdict.certainty(), Certainty::Guess);
        }
        let claimed = Verdict::exact(Outcome::InProgress, Tier::Claims);
        assert_eq!((claimed.outcome(), claimed.tier()), (Outcome::InProgress, Tier::Claims));
        assert!(claimed.is_in_progress() && !claimed.is_fresh() && !claimed.is_duplicate());
        assert_eq!(format!("{:?}", Verdict::guess(Outcome::Fresh)), "Fresh by History (Guess)");
    }
}
