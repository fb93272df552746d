//! The confidence interval of a share that was counted.

use serde::{Deserialize, Serialize};

/// The exact 95 % confidence interval of a share, after Clopper and Pearson (1934).
///
/// ```
/// use hapax_bench::measure::Interval;
///
/// let none_seen = Interval::of(0, 1_200_000);
/// assert_eq!(none_seen.lower, 0.0);
/// assert!(none_seen.upper < 3.1e-6);
/// ```
///
/// Whatever the true share is, of 100 such intervals at least 95 contain it. They are never too
/// narrow, and with few wrong answers noticeably too wide: that is the price of being right for
/// every share. The events that are counted have to be independent, which redeliveries of one id
/// are not.
///
/// The bounds are found by bisection of the binomial distribution's tails, which are added up from
/// Loader's saddle-point expansion (2000) of their first terms, to about ten digits. Beyond ten
/// million on both sides it is the score interval (Wilson 1927), which differs from it by less than
/// one in a million there.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower bound of the share.
    pub lower: f64,
    /// The upper bound of the share.
    pub upper: f64,
}

/// The probability outside the interval, on each side.
const TAIL: f64 = 0.025;

/// The normal distribution's quantile of 1 - `TAIL`.
const DEVIATIONS: f64 = 1.959_963_984_540_054;

/// The count on both sides from which on the normal distribution is as good, and does not take
/// longer with every id.
const MANY: u64 = 10_000_000;

impl Interval {
    /// Computes the interval for `wrong` of `asked`. More than were asked count as all. With
    /// nothing asked it is from 0 to 1.
    pub fn of(wrong: u64, asked: u64) -> Interval {
        let wrong = wrong.min(asked);
        let right = asked - wrong;
        if asked == 0 {
            return Interval { lower: 0.0, upper: 1.0 };
        }
        if wrong > right {
            // Shares near 0 have more digits than those near 1.
            let Interval { lower, upper } = Interval::of(right, asked);
            return Interval { lower: 1.0 - upper, upper: 1.0 - lower };
        }
        if wrong > MANY {
            return score(wrong as f64, asked as f64);
        }
        let (k, n) = (wrong as f64, asked as f64);
        let lower = match wrong {
            0 => 0.0,
            // The share at which k or more become as unlikely as the tail.
            _ => bisect(0.0, k / n, |share| at_least(k, n, share) < TAIL),
        };
        // The share at which k or fewer do.
        let upper = bisect(k / n, 1.0, |share| at_most(k, n, share) > TAIL);
        Interval { lower, upper }
    }
}

fn score(k: f64, n: f64) -> Interval {
    let square = DEVIATIONS * DEVIATIONS;
    let share = k / n;
    let middle = (share + square / (2.0 * n)) / (1.0 + square / n);
    let half = DEVIATIONS / (1.0 + square / n) * (share * (1.0 - share) / n + square / (4.0 * n * n)).sqrt();
    Interval { lower: middle - half, upper: middle + half }
}

/// Returns the point where a condition ends that holds from `low` on, and not at `high`. Halves the
/// exponent first, so that tiny shares get all their digits.
fn bisect(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..200 {
        let middle = match low {
            0.0 => high / 1024.0,
            _ => 0.5 * (low + high),
        };
        match holds(middle) {
            true => low = middle,
            false => high = middle,
        }
        if high - low <= 1e-13 * high {
            break;
        }
    }
    0.5 * (low + high)
}

/// Returns the probability of this many wrong or more, if each is wrong with probability `share`,
/// which is above 0 and below the observed share.
fn probability_of_at_least(wrong: u64, asked: u64, share: f64) -> f64 {
    let (k, n) = (wrong as f64, asked as f64);
    if wrong >= asked {
        return share.powf(n);
    }
    if wrong > MANY {
        let deviations = (k - n * share) / (n * share * (1.0 - share)).sqrt();
        return (-0.5 * deviations * deviations).exp();
    }
    at_least(k, n, share)
}

/// The probability with which a row is accused though it keeps its promise.
const CHANCE: f64 = 1e-6;

/// Returns true if this many are wrong beyond chance, where a share of `allowed` may be.
pub(super) fn is_beyond_chance(wrong: u64, of: u64, allowed: f64) -> bool {
    let share = wrong as f64 / of.max(1) as f64;
    share > allowed && (allowed == 0.0 || probability_of_at_least(wrong, of, allowed) < CHANCE)
}

/// Returns the probability of k or more of n, if each comes with this share, below k / n.
fn at_least(k: f64, n: f64, share: f64) -> f64 {
    let odds = share / (1.0 - share);
    binomial(k, n, share) * sum(|i| (n - k - i) / (k + i + 1.0) * odds)
}

/// Returns the probability of k or fewer of n, if each comes with this share, above k / n.
fn at_most(k: f64, n: f64, share: f64) -> f64 {
    let odds = (1.0 - share) / share;
    binomial(k, n, share) * sum(|i| (k - i) / (n - k + i + 1.0) * odds)
}

/// Returns the sum of 1 and the terms after it, each of which is the one before multiplied by a
/// factor below 1 that decreases. That takes some standard deviations of steps, so `MANY` bounds
/// it.
fn sum(times: impl Fn(f64) -> f64) -> f64 {
    let (mut sum, mut term, mut i) = (1.0, 1.0, 0.0);
    while term > 1e-17 * sum {
        term *= times(i);
        sum += term;
        i += 1.0;
    }
    sum
}

/// Returns the probability of exactly k of n, without the cancellation of factorials of millions.
fn binomial(k: f64, n: f64, share: f64) -> f64 {
    let rest = n - k;
    if k == 0.0 {
        return (n * (-share).ln_1p()).exp();
    }
    let more = k - n * share;
    let exponent =
        stirling_error(n) - stirling_error(k) - stirling_error(rest) - deviance(k, more) - deviance(rest, -more);
    exponent.exp() * (n / (std::f64::consts::TAU * k * rest)).sqrt()
}

/// Returns the logarithm of n! less Stirling's approximation of it, for whole numbers.
fn stirling_error(n: f64) -> f64 {
    if n < 16.0 {
        let ln_factorial: f64 = (2..=n as u32).map(|i| f64::from(i).ln()).sum();
        return ln_factorial - (0.5 * (std::f64::consts::TAU * n).ln() + n * n.ln() - n);
    }
    let square = n * n;
    (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - (1.0 / 1680.0 - 1.0 / 1188.0 / square) / square) / square) / square)
        / n
}

/// Returns x ln(x / mean) + mean - x, for the x that is by `more` above its mean.
fn deviance(x: f64, more: f64) -> f64 {
    let mean = x - more;
    if more.abs() >= 0.1 * (x + mean) {
        return x * (x / mean).ln() - more;
    }
    // The series of the logarithm in v, where the terms above would cancel.
    let v = more / (x + mean);
    let (mut sum, mut power) = (more * v, 2.0 * x * v);
    for j in 1..100 {
        power *= v * v;
        let next = sum + power / f64::from(2 * j + 1);
        if next == sum {
            break;
        }
        sum = next;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-8, "found {found:e}, expected {expected:e}");
    }

    /// None of n, and all of n, have a closed form.
    #[test]
    fn none_and_all_as_the_closed_form_has_them() {
        for n in [1_u64, 10, 1_200_000, 100_000_000, 1 << 40] {
            let upper = -(TAIL.ln() / n as f64).exp_m1();
            assert_close(Interval::of(0, n).upper, upper);
            assert_eq!(Interval::of(0, n).lower, 0.0);
            assert_eq!(Interval::of(n, n).upper, 1.0);
            assert!((Interval::of(n, n).lower - (1.0 - upper)).abs() < 1e-9);
        }
    }

    /// Clopper and Pearson's own tables, and those that medicine uses, to the digits that are
    /// printed.
    #[test]
    fn as_published() {
        for (wrong, asked, lower, upper) in [
            (1, 10, 0.0025, 0.4450),
            (3, 10, 0.0667, 0.6525),
            (5, 10, 0.1871, 0.8129),
            (10, 20, 0.2720, 0.7280),
            (4, 20, 0.0573, 0.4366),
            (10, 100, 0.0490, 0.1762),
            (50, 100, 0.3983, 0.6017),
        ] {
            let found = Interval::of(wrong, asked);
            assert!(
                (found.lower - lower).abs() < 6e-5 && (found.upper - upper).abs() < 6e-5,
                "{wrong}/{asked}: {found:?}"
            );
        }
    }

    /// The limit for rare events is Poisson's interval (Garwood 1936): so many expected, if k were
    /// seen.
    #[test]
    fn rare_events_as_poisson_has_them() {
        for (k, lower, upper) in [(1, 0.025318, 5.571643), (5, 1.623486, 11.668332), (10, 4.795389, 18.390356)] {
            let n = 100_000_000_000;
            let found = Interval::of(k, n);
            let scale = n as f64;
            assert!(
                (found.lower * scale - lower).abs() < 2e-6 && (found.upper * scale - upper).abs() < 2e-6,
                "{found:?}"
            );
        }
    }

    /// The definition itself, with the distribution added up term by term.
    #[test]
    fn tails_are_as_long_as_promised() {
        let cumulated = |k: u32, n: u32, share: f64| -> f64 {
            let mut term = (f64::from(n) * (-share).ln_1p()).exp();
            (0..=k)
                .map(|i| {
                    let now = term;
                    term *= f64::from(n - i) / f64::from(i + 1) * share / (1.0 - share);
                    now
                })
                .sum()
        };
        for (k, n) in [(1, 3), (2, 50), (17, 200), (150, 300), (28, 30), (40, 4000)] {
            let found = Interval::of(k.into(), n.into());
            assert!((cumulated(k, n, found.upper) - TAIL).abs() < 1e-9 || k == n, "{k}/{n}: {found:?}");
            assert!((1.0 - cumulated(k - 1, n, found.lower) - TAIL).abs() < 1e-9, "{k}/{n}: {found:?}");
        }
    }

    #[test]
    fn both_formulas_agree_where_they_meet() {
        let exact = Interval::of(MANY, 4 * MANY);
        let approximate = score(MANY as f64, 4.0 * MANY as f64);
        assert!((exact.lower / approximate.lower - 1.0).abs() < 1e-6, "{exact:?} {approximate:?}");
        assert!((exact.upper / approximate.upper - 1.0).abs() < 1e-6, "{exact:?} {approximate:?}");
    }

    #[test]
    fn whatever_was_counted_it_ends_and_is_in_order() {
        assert_eq!(Interval::of(0, 0), Interval { lower: 0.0, upper: 1.0 });
        for (wrong, asked) in [(7, 3), (u64::MAX / 2, u64::MAX), (1, u64::MAX), (u64::MAX, 1)] {
            let Interval { lower, upper } = Interval::of(wrong, asked);
            assert!(0.0 <= lower && lower < upper && upper <= 1.0, "{wrong}/{asked}: {lower:e} {upper:e}");
        }
    }
}
