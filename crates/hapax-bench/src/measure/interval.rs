//! The confidence interval of a share that was counted.

use serde::{Deserialize, Serialize};

/// The 95 % confidence interval of a share: the score interval (Wilson, 1927).
///
/// ```
/// use hapax_bench::measure::Interval;
///
/// let none_seen = Interval::of(0, 1_200_000);
/// assert_eq!(none_seen.lower, 0.0);
/// assert!(none_seen.upper < 3.3e-6);
/// ```
///
/// The events that are counted have to be independent, which redeliveries of one id are not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower bound of the share.
    pub lower: f64,
    /// The upper bound of the share.
    pub upper: f64,
}

/// The normal distribution's quantile of 0.975.
const DEVIATIONS: f64 = 1.959_963_984_540_054;

impl Interval {
    /// Computes the interval for `wrong` of `asked`. More than were asked count as all. With
    /// nothing asked it is from 0 to 1.
    pub fn of(wrong: u64, asked: u64) -> Interval {
        if asked == 0 {
            return Interval { lower: 0.0, upper: 1.0 };
        }
        let (k, n, square) = (wrong.min(asked) as f64, asked as f64, DEVIATIONS * DEVIATIONS);
        let middle = (k + square / 2.0) / (n + square);
        let half = DEVIATIONS / (n + square) * (k * (n - k) / n + square / 4.0).sqrt();
        Interval { lower: if wrong == 0 { 0.0 } else { middle - half }, upper: (middle + half).min(1.0) }
    }
}

/// The probability with which a row is accused at most, though it keeps its promise.
const CHANCE: f64 = 1e-6;

/// Returns true if this many are wrong beyond chance, where a share of `allowed` may be.
///
/// So many of n or more are at most as probable as exp(-n D) (Chernoff, 1952), where D is the
/// divergence of the share that was seen from the one that is allowed.
pub(super) fn is_beyond_chance(wrong: u64, of: u64, allowed: f64) -> bool {
    let share = wrong as f64 / of.max(1) as f64;
    let term = |seen: f64, expected: f64| if seen <= 0.0 { 0.0 } else { seen * (seen / expected).ln() };
    let divergence = || term(share, allowed) + term(1.0 - share, 1.0 - allowed);
    share > allowed && (allowed == 0.0 || of as f64 * divergence() > -CHANCE.ln())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of Newcombe's comparison of intervals (1998), and what must be so at the ends.
    #[test]
    fn as_published() {
        for (wrong, asked, lower, upper) in
            [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)]
        {
            let found = Interval::of(wrong, asked);
            assert!((found.lower - lower).abs() < 6e-5 && (found.upper - upper).abs() < 6e-5, "{found:?}");
        }
        assert_eq!(Interval::of(0, 0), Interval { lower: 0.0, upper: 1.0 });
        for (wrong, asked) in [(7, 3), (u64::MAX / 2, u64::MAX), (1, u64::MAX), (u64::MAX, 1)] {
            let Interval { lower, upper } = Interval::of(wrong, asked);
            assert!(0.0 <= lower && lower < upper && upper <= 1.0, "{wrong}/{asked}: {lower:e} {upper:e}");
        }
    }

    #[test]
    fn who_is_accused_is_wrong_beyond_chance() {
        // The tail itself, added up term by term.
        let at_least = |k: u64, n: u64, share: f64| {
            let mut term = (n as f64 * (-share).ln_1p()).exp();
            let mut below = 0.0;
            for i in 0..k {
                below += term;
                term *= (n - i) as f64 / (i + 1) as f64 * share / (1.0 - share);
            }
            1.0 - below
        };
        for (n, allowed) in [(300, 0.01), (2_000, 0.05), (400, 0.2)] {
            let accused = (0..n).find(|&k| is_beyond_chance(k, n, allowed)).expect("all of them are too many");
            let (of_accused, far_less) = (at_least(accused, n, allowed), at_least(accused * 4 / 5, n, allowed));
            assert!(of_accused < CHANCE && far_less > CHANCE, "{accused} of {n}: {of_accused:e}, {far_less:e}");
        }
        assert!(is_beyond_chance(1, u64::MAX, 0.0) && !is_beyond_chance(0, 1, 0.0) && !is_beyond_chance(7, 7, 1.0));
    }
}
