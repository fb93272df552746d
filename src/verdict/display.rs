//! Verdicts and their parts in words, for logs and tables: short, and in lower case.

use super::{Outcome, Refusal, Tier, Verdict};
use std::fmt;

/// Shows `fresh`, `duplicate`, `in progress`, `refused (ahead)` or `refused (late)`.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Outcome::Fresh => "fresh",
            Outcome::Duplicate => "duplicate",
            Outcome::InProgress => "in progress",
            Outcome::Refused(Refusal::Ahead) => "refused (ahead)",
            Outcome::Refused(Refusal::Late) => "refused (late)",
        })
    }
}

/// Shows `ahead` or `late`.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Refusal::Ahead => "ahead",
            Refusal::Late => "late",
        })
    }
}

/// Shows `window`, `history`, `claims`, `store` or `segments`.
impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Tier::Window => "window",
            Tier::History => "history",
            Tier::Claims => "claims",
            Tier::Store => "store",
            Tier::Segments => "segments",
        })
    }
}

/// Shows the outcome, the tier that decided, and its doubt, if it has any:
/// `duplicate by window`, `fresh by history (guess)`. A refused event shows the reason alone. In
/// shadow mode, the outcome that it would have been comes last: `fresh by store, not duplicate`.
///
/// ```
/// use hapax::{Dedup, Timestamp};
///
/// let dedup = Dedup::builder().build()?;
/// assert_eq!(dedup.check("order-17").to_string(), "fresh by window");
/// assert_eq!(dedup.check("order-17").to_string(), "duplicate by window");
///
/// let in_2100 = Timestamp::from_secs(4_102_444_800);
/// assert_eq!(dedup.check_at("order-18", in_2100).to_string(), "refused (ahead)");
/// # Ok::<(), hapax::Error>(())
/// ```
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = self.outcome();
        if self.is_refused() {
            return outcome.fmt(f);
        }
        let mut words = format!("{outcome} by {}", self.tier());
        if !self.is_certain() {
            words += if self.tier() == Tier::Store { " (unverified)" } else { " (guess)" };
        }
        if self.decided() != outcome {
            words += &format!(", not {}", self.decided());
        }
        f.pad(&words)
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    #[test]
    fn parts_are_short_words() {
        let outcomes = [
            Outcome::Fresh,
            Outcome::Duplicate,
            Outcome::InProgress,
            Outcome::Refused(Refusal::Ahead),
            Outcome::Refused(Refusal::Late),
        ];
        let words = outcomes.map(|outcome| outcome.to_string());
        assert_eq!(words, ["fresh", "duplicate", "in progress", "refused (ahead)", "refused (late)"]);
        assert_eq!([Refusal::Ahead, Refusal::Late].map(|refusal| refusal.to_string()), ["ahead", "late"]);
        let tiers = [Tier::Window, Tier::History, Tier::Claims, Tier::Store].map(|tier| tier.to_string());
        assert_eq!(tiers, ["window", "history", "claims", "store"]);
    }

    #[test]
    fn a_verdict_says_who_decided() {
        let words = |verdict: Verdict| verdict.to_string();
        assert_eq!(words(Verdict::exact(Outcome::Fresh, Tier::Window)), "fresh by window");
        assert_eq!(words(Verdict::exact(Outcome::InProgress, Tier::Claims)), "in progress by claims");
        assert_eq!(words(Verdict::guess(Outcome::Duplicate)), "duplicate by history (guess)");
        assert_eq!(words(Verdict::unverified()), "fresh by store (unverified)");
        assert_eq!(words(Verdict::refused(Refusal::Late)), "refused (late)");
    }

    #[test]
    fn a_verdict_in_a_shadow_says_what_it_is_not() {
        let shadowed = |outcome| Verdict::exact(outcome, Tier::Store).shadowed().to_string();
        assert_eq!(shadowed(Outcome::Fresh), "fresh by store");
        assert_eq!(shadowed(Outcome::Duplicate), "fresh by store, not duplicate");
        assert_eq!(shadowed(Outcome::InProgress), "fresh by store, not in progress");
    }

    #[test]
    fn words_fill_the_columns_of_a_table() {
        let verdict = Verdict::exact(Outcome::Fresh, Tier::Window);
        let row = format!("{:<10}|{:>8}|{:.3}|{verdict:<17}|", Outcome::Fresh, Tier::Store, Tier::Claims);
        assert_eq!(row, "fresh     |   store|cla|fresh by window  |");
    }
}
