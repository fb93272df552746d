//! The answers of a check.

mod display;

use crate::id_set::BYTES;
use std::fmt;

/// The answer to the question whether an id is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Not seen within the window (or the history's horizon): handle it.
    Fresh,
    /// Seen: drop it.
    Duplicate,
    /// [Claimed](crate::Dedup::claim), and not yet done: nothing is decided, so the message must
    /// come again. Only from an engine that claims are made of.
    InProgress,
    /// Not accepted, since its time cannot be right: nothing was decided, and nothing has changed.
    /// Neither handle it nor count it as done: put it aside, or give it another time. Only where
    /// the caller gives the time; see [`EventTime`](crate::EventTime).
    Refused(Refusal),
}

/// A reason to refuse an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// Its time is too far ahead, of the wall clock or of the latest event.
    Ahead,
    /// Its time is too long before that of the latest event.
    Late,
}

/// The tier that decided, in the order in which an id passes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Tier {
    /// The exact, recent window.
    Window,
    /// The long [history](crate::History), a Bloom filter.
    History,
    /// The [claims](crate::Dedup::claim) in flight.
    Claims,
    /// The durable store, behind an asynchronous engine (`hapax-store`).
    Store,
    /// The segments of a long memory, on the disk, behind the window.
    Segments,
}

/// The answer to a check: fresh or duplicate, which tier decided, and whether that tier knows or
/// guesses. One byte.
///
/// ```
/// use hapax::{Dedup, Tier};
///
/// let dedup = Dedup::builder().build()?;
/// assert!(dedup.check("order-17").is_fresh());
///
/// let again = dedup.check("order-17");
/// assert!(again.is_duplicate());
/// assert_eq!((again.tier(), again.is_certain()), (Tier::Window, true));
/// # Ok::<(), hapax::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a message whose verdict nobody looks at is handled twice, or not at all"]
pub struct Verdict(u8);

impl Verdict {
    const DUPLICATE: u8 = 1;
    const HISTORY: u8 = 2;
    const GUESS: u8 = 4;
    const GUESS_BITS: u8 = Self::HISTORY | Self::GUESS;
    /// A guess is the history's, so this bit is free without that one.
    const SEGMENTS: u8 = Self::GUESS;
    const IN_PROGRESS: u8 = 8;
    /// The bits that no other verdict has. With [`HISTORY`](Self::HISTORY): late.
    const REFUSED: u8 = Self::DUPLICATE | Self::IN_PROGRESS;
    const STORE: u8 = 16;
    const UNVERIFIED: u8 = 32;
    /// The outcome that a verdict in shadow mode would have had: shifted here, so that the verdict
    /// itself is fresh.
    const WOULD_BE_DUPLICATE: u8 = 64;
    const WOULD_BE_IN_PROGRESS: u8 = 128;

    #[doc(hidden)]
    pub const fn exact(outcome: Outcome, tier: Tier) -> Self {
        let outcome = match outcome {
            Outcome::Fresh => 0,
            Outcome::Duplicate => Self::DUPLICATE,
            Outcome::InProgress => Self::IN_PROGRESS,
            Outcome::Refused(refusal) => return Self::refused(refusal),
        };
        let tier = match tier {
            Tier::Window | Tier::Claims => 0,
            Tier::History => Self::HISTORY,
            Tier::Store => Self::STORE,
            Tier::Segments => Self::SEGMENTS,
        };
        Verdict(outcome | tier)
    }

    /// Returns the verdict on an event that is not accepted, decided by the window's time.
    pub(crate) const fn refused(refusal: Refusal) -> Self {
        Verdict(match refusal {
            Refusal::Ahead => Self::REFUSED,
            Refusal::Late => Self::REFUSED | Self::HISTORY,
        })
    }

    #[doc(hidden)]
    pub const fn guess(outcome: Outcome) -> Self {
        Verdict(Self::exact(outcome, Tier::Window).0 | Self::GUESS_BITS)
    }

    /// Returns the verdict fresh, for an id that could not be verified with the store.
    #[doc(hidden)]
    pub const fn unverified() -> Self {
        Verdict(Self::exact(Outcome::Fresh, Tier::Store).0 | Self::UNVERIFIED)
    }

    /// Returns the same verdict, but fresh. A refused event stays refused: it is unknown whether it
    /// is fresh.
    #[doc(hidden)]
    pub const fn shadowed(self) -> Self {
        if self.is_refused() {
            return self;
        }
        let decided = self.0 & (Self::DUPLICATE | Self::IN_PROGRESS);
        let would_be = match decided {
            Self::DUPLICATE => Self::WOULD_BE_DUPLICATE,
            Self::IN_PROGRESS => Self::WOULD_BE_IN_PROGRESS,
            _ => 0,
        };
        Verdict(self.0 & !decided | would_be)
    }

    /// Returns the decision: the [`outcome`](Verdict::outcome), except for an engine in shadow
    /// mode, which answers fresh to everything.
    pub const fn decided(self) -> Outcome {
        match self.0 & (Self::WOULD_BE_DUPLICATE | Self::WOULD_BE_IN_PROGRESS) {
            0 => self.outcome(),
            Self::WOULD_BE_DUPLICATE => Outcome::Duplicate,
            _ => Outcome::InProgress,
        }
    }

    /// Returns the outcome: fresh, duplicate, in progress or refused.
    #[inline]
    pub const fn outcome(self) -> Outcome {
        match self.0 & (Self::DUPLICATE | Self::IN_PROGRESS) {
            0 => Outcome::Fresh,
            Self::DUPLICATE => Outcome::Duplicate,
            Self::IN_PROGRESS => Outcome::InProgress,
            _ if self.0 & Self::HISTORY != 0 => Outcome::Refused(Refusal::Late),
            _ => Outcome::Refused(Refusal::Ahead),
        }
    }

    /// Returns the tier that decided. The [`Window`](Tier::Window) refuses events, by its time.
    #[inline]
    pub const fn tier(self) -> Tier {
        if self.is_refused() {
            return Tier::Window;
        }
        match self.0 & (Self::HISTORY | Self::STORE) {
            0 if self.0 & Self::SEGMENTS != 0 => Tier::Segments,
            Self::HISTORY => Tier::History,
            Self::STORE => Tier::Store,
            _ if self.0 & (Self::IN_PROGRESS | Self::WOULD_BE_IN_PROGRESS) != 0 => Tier::Claims,
            _ => Tier::Window,
        }
    }

    /// Returns true if that tier knows. (For what "knows" is worth in numbers, see the guarantees
    /// in the crate's README.) Otherwise it is a guess:
    ///
    /// - by [`Tier::History`]: the Bloom filter said "maybe", and
    ///   [`Unconfirmed`](crate::Unconfirmed) turned that into an outcome; or a long memory could
    ///   not be read, and the message is let through, perhaps once more;
    /// - by [`Tier::Store`]: the store was not available, and the engine was told to admit messages
    ///   in that case; a duplicate, perhaps.
    #[inline]
    pub const fn is_certain(self) -> bool {
        let bits = self.0 & (Self::HISTORY | Self::GUESS | Self::UNVERIFIED);
        bits != Self::GUESS_BITS && bits & Self::UNVERIFIED == 0
    }

    /// Returns eight verdicts: one of two for each byte, the first for 1, the other for 0.
    #[inline(always)]
    pub(crate) fn eight(ones: u64, one: Self, other: Self) -> [Self; 8] {
        debug_assert!(ones & !BYTES == 0);
        let bytes = (u64::from(other.0) * BYTES) ^ (ones * u64::from(one.0 ^ other.0));
        bytes.to_le_bytes().map(Verdict)
    }

    /// Returns true if the id is to be handled.
    #[inline]
    pub const fn is_fresh(self) -> bool {
        self.0 & (Self::DUPLICATE | Self::IN_PROGRESS) == 0
    }

    /// Returns true if the id was seen before, and is done with.
    #[inline]
    pub const fn is_duplicate(self) -> bool {
        self.0 & Self::REFUSED == Self::DUPLICATE
    }

    /// Returns true if another caller has claimed the id, and is not done with it.
    #[inline]
    pub const fn is_in_progress(self) -> bool {
        self.0 & Self::REFUSED == Self::IN_PROGRESS
    }

    /// Returns true if the event was refused, since its time cannot be right.
    #[inline]
    pub const fn is_refused(self) -> bool {
        self.0 & Self::REFUSED == Self::REFUSED
    }

    /// Returns the reason for which the event was refused, if it was.
    ///
    /// ```
    /// use hapax::{Dedup, Refusal, Timestamp};
    ///
    /// let dedup = Dedup::builder().build()?;
    /// let in_2100 = Timestamp::from_secs(4_102_444_800);
    /// assert_eq!(dedup.check_at("a", in_2100).refusal(), Some(Refusal::Ahead));
    /// # Ok::<(), hapax::Error>(())
    /// ```
    #[inline]
    pub const fn refusal(self) -> Option<Refusal> {
        match self.outcome() {
            Outcome::Refused(refusal) => Some(refusal),
            Outcome::Fresh | Outcome::Duplicate | Outcome::InProgress => None,
        }
    }

    /// The number of places in a memory engine's counters: one for each verdict of its own.
    pub(crate) const VALUES: usize = 16;

    #[doc(hidden)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let certainty = if self.is_certain() { "" } else { " (guess)" };
        write!(f, "{:?} by {:?}{certainty}", self.outcome(), self.tier())
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    #[test]
    fn eight_verdicts_are_chosen_by_eight_bytes() {
        let all: Vec<_> = (0..Verdict::VALUES as u8).map(Verdict).collect();
        for (one, other) in all.iter().flat_map(|one| all.iter().map(move |other| (*one, *other))) {
            for bits in 0..=255_u64 {
                let ones = (0..8).fold(0, |ones, i| ones | (bits >> i & 1) << (8 * i));
                let expected = std::array::from_fn(|i| if bits >> i & 1 == 1 { one } else { other });
                assert_eq!(Verdict::eight(ones, one, other), expected);
            }
        }
    }

    #[test]
    fn a_verdict_is_what_it_was_made_of() {
        for outcome in [Outcome::Fresh, Outcome::Duplicate] {
            for tier in [Tier::Window, Tier::History] {
                let verdict = Verdict::exact(outcome, tier);
                assert_eq!((verdict.outcome(), verdict.tier()), (outcome, tier));
                assert!(verdict.is_certain());
            }
            let verdict = Verdict::guess(outcome);
            assert_eq!((verdict.outcome(), verdict.tier()), (outcome, Tier::History));
            assert!(!verdict.is_certain());
        }
        let claimed = Verdict::exact(Outcome::InProgress, Tier::Claims);
        assert_eq!((claimed.outcome(), claimed.tier()), (Outcome::InProgress, Tier::Claims));
        assert!(claimed.is_in_progress() && !claimed.is_fresh() && !claimed.is_duplicate());
        for outcome in [Outcome::Fresh, Outcome::Duplicate, Outcome::InProgress] {
            let verdict = Verdict::exact(outcome, Tier::Store);
            assert_eq!((verdict.outcome(), verdict.tier(), verdict.decided()), (outcome, Tier::Store, outcome));
        }
        assert_eq!(format!("{:?}", Verdict::guess(Outcome::Fresh)), "Fresh by History (guess)");
    }

    #[test]
    fn what_is_refused_is_nothing_else() {
        for refusal in [Refusal::Ahead, Refusal::Late] {
            let verdict = Verdict::refused(refusal);
            assert_eq!((verdict.outcome(), verdict.refusal()), (Outcome::Refused(refusal), Some(refusal)));
            assert_eq!((verdict.tier(), verdict.is_certain()), (Tier::Window, true));
            assert!(verdict.is_refused() && !verdict.is_fresh());
            assert!(!verdict.is_duplicate() && !verdict.is_in_progress());
            assert!(verdict.index() < Verdict::VALUES);
            for tier in [Tier::Window, Tier::History, Tier::Claims, Tier::Store] {
                assert_eq!(Verdict::exact(Outcome::Refused(refusal), tier), verdict);
            }
            assert_eq!(verdict.shadowed(), verdict);
        }
        for byte in 0..=u8::MAX {
            let verdict = Verdict(byte);
            let is = [verdict.is_fresh(), verdict.is_duplicate(), verdict.is_in_progress(), verdict.is_refused()];
            assert_eq!(is.iter().filter(|is| **is).count(), 1, "{byte:#b}");
            assert_eq!(verdict.is_refused(), verdict.refusal().is_some());
        }
    }

    #[test]
    fn in_a_shadow_everything_is_fresh_and_says_what_it_would_have_been() {
        for outcome in [Outcome::Fresh, Outcome::Duplicate, Outcome::InProgress] {
            for tier in [Tier::Store, Tier::Window] {
                let shadowed = Verdict::exact(outcome, tier).shadowed();
                assert!(shadowed.is_fresh() && !shadowed.is_duplicate() && !shadowed.is_in_progress());
                assert_eq!((shadowed.outcome(), shadowed.decided()), (Outcome::Fresh, outcome));
            }
            assert_eq!(Verdict::exact(outcome, Tier::Store).shadowed().tier(), Tier::Store);
        }
        assert_eq!(Verdict::exact(Outcome::InProgress, Tier::Claims).shadowed().tier(), Tier::Claims);
        let unverified = Verdict::unverified();
        assert!(unverified.is_fresh());
        assert_eq!((unverified.tier(), unverified.is_certain()), (Tier::Store, false));
    }
}
