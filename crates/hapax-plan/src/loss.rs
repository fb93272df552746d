//! The share of ids that a table of the window loses before their time. Pure.
//!
//! A bucket is a ring of eight slots, so an entry stays in its home bucket until eight more have
//! been inserted there. Then it moves to its alternate bucket, if it is still to be kept, and stays
//! there until eight more have been inserted *there*. Ids fall on buckets at random, so the
//! insertions into a bucket are a Poisson process, also as seen by an entry that is in the bucket;
//! and the two buckets are independent. So an id is lost if sixteen come within the time for which
//! it is kept. Entries that move are inserted once more, which makes the rate of insertions the
//! solution of an equation.

use hapax::seam::sizing::window::{GRACE, SLOTS};

/// Returns the share of accepted ids that are lost before their time, in a table that always has
/// this share of its slots live.
pub(super) fn share_lost(load: f64, window_ticks: u64) -> f64 {
    at_least(2 * SLOTS, inserted(load, window_ticks))
}

/// Returns how many entries are inserted into a bucket while an entry is to be kept, on average.
fn inserted(load: f64, window_ticks: u64) -> f64 {
    // Entries are kept for callers with slower clocks, too; and they are stamped with the end of
    // the tick in which they come.
    let kept = (window_ticks + GRACE) as f64 + 0.5;
    let accepted = SLOTS as f64 * load * kept / window_ticks as f64;
    // Each round adds the insertions that the round before moves: from below towards the least
    // solution, which a bucket that begins empty reaches.
    (0..200).fold(accepted, |inserted, _| accepted * (1.0 + at_least(SLOTS, inserted)))
}

/// Returns the probability that at least n come where `mean` are expected (Poisson).
fn at_least(n: usize, mean: f64) -> f64 {
    // The sum goes upwards from n where that is the small side, which loses no digits.
    let log_term = |k: usize| k as f64 * mean.ln() - mean - (1..=k).map(|i| (i as f64).ln()).sum::<f64>();
    let next = |term: f64, k: usize| term * mean / k as f64;
    if mean <= 0.0 {
        return 0.0;
    }
    if mean < n as f64 {
        let terms = std::iter::successors(Some((log_term(n).exp(), n)), |&(term, k)| Some((next(term, k + 1), k + 1)));
        return terms.map(|(term, _)| term).take_while(|term| *term > 0.0).take(1_000).sum::<f64>().min(1.0);
    }
    let fewer: f64 = (0..n).map(|k| log_term(k).exp()).sum();
    (1.0 - fewer).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_poisson() {
        assert!((at_least(1, 0.5) - (1.0 - (-0.5_f64).exp())).abs() < 1e-12);
        assert!((at_least(2, 3.0) - (1.0 - 4.0 * (-3.0_f64).exp())).abs() < 1e-12);
        assert_eq!((at_least(8, 0.0), at_least(16, 1e4)), (0.0, 1.0));
        // Both ways to compute it agree.
        assert!((at_least(8, 7.999_999) - at_least(8, 8.000_001)).abs() < 1e-6);
    }

    #[test]
    fn at_the_rated_load_two_in_ten_million() {
        let load = hapax::seam::sizing::window::capacity_of(1_000) / (1_000 * SLOTS) as f64;
        for ticks in [100, 120, 250] {
            let lost = share_lost(load, ticks);
            assert!((1.5e-7..2.5e-7).contains(&lost), "{ticks}: {lost}");
        }
        assert!(share_lost(0.05, 100) < 1e-15 && share_lost(4.0, 100) > 0.99);
    }

    #[test]
    fn it_grows_with_the_load() {
        let lost: Vec<_> = (1..400).map(|load| share_lost(f64::from(load) / 100.0, 120)).collect();
        assert!(lost.is_sorted(), "{lost:?}");
    }
}
