//! Ids of which some are far more frequent than others.

use hapax::seam::random::Random;

/// Draws ranks from 1 to a number, the rank r in proportion to r^-exponent, in constant time
/// (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
/// distributions", 1996).
pub(super) struct Zipf {
    ranks: u64,
    exponent: f64,
    /// The integral of x^-exponent up to half a rank before the first, and up to half a rank after
    /// the last.
    integrals: [f64; 2],
    /// The distance from the inverted value within which a rank is never rejected.
    sure: f64,
}

impl Zipf {
    pub fn new(ranks: u64, exponent: f64) -> Self {
        let integral = |x| integral(x, exponent);
        let integrals = [integral(1.5) - 1.0, integral(ranks as f64 + 0.5)];
        let sure = 2.0 - inverse(integral(2.5) - 2_f64.powf(-exponent), exponent);
        Zipf { ranks, exponent, integrals, sure }
    }

    pub fn draw(&self, random: &mut Random) -> u64 {
        let [first, last] = self.integrals;
        loop {
            let u = last + random.unit() * (first - last);
            let x = inverse(u, self.exponent);
            let rank = x.round().clamp(1.0, self.ranks as f64);
            let is_sure = rank - x <= self.sure;
            if is_sure || u >= integral(rank + 0.5, self.exponent) - rank.powf(-self.exponent) {
                return rank as u64;
            }
        }
    }
}

/// Returns the integral of x^-exponent from 1 to x: (x^(1 - exponent) - 1) / (1 - exponent), also
/// where that is ln x.
fn integral(x: f64, exponent: f64) -> f64 {
    let power = (1.0 - exponent) * x.ln();
    if power.abs() < 1e-9 { x.ln() } else { power.exp_m1() / power * x.ln() }
}

/// Returns the x up to which the integral is this.
fn inverse(integral: f64, exponent: f64) -> f64 {
    let power = (integral * (1.0 - exponent)).max(-1.0);
    let log = if power.abs() < 1e-9 { integral } else { power.ln_1p() / power * integral };
    log.exp()
}

/// Returns the expected number of draws that show this many distinct ranks.
pub(super) fn draws_for(distinct: f64, ranks: u64, exponent: f64) -> f64 {
    let groups = groups(ranks, exponent);
    let sum: f64 = groups.iter().map(|(count, weight)| count * weight).sum();
    let expected =
        |draws: f64| -> f64 { groups.iter().map(|(count, weight)| -count * (-draws * weight / sum).exp_m1()).sum() };
    let (mut low, mut high) = (distinct, 2.0 * distinct);
    while expected(high) < distinct && high.is_finite() {
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        *(if expected(middle) < distinct { &mut low } else { &mut high }) = middle;
    }
    high
}

/// Returns all ranks, in groups with about the same weight: how many, and which.
fn groups(ranks: u64, exponent: f64) -> Vec<(f64, f64)> {
    let mut groups = Vec::new();
    let mut first = 1;
    while first <= ranks {
        // Ranks are taken one by one where they differ; then a thousandth more each time.
        let end = (first + (first / 1_000).max(1)).min(ranks + 1);
        let middle = (first + end - 1) as f64 / 2.0;
        groups.push(((end - first) as f64, middle.powf(-exponent)));
        first = end;
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ranks_come_with_their_exact_probabilities() {
        const DRAWS: u64 = 50_000;
        for (seed, exponent) in [(1, 0.0), (2, 0.5), (3, 1.0), (4, 1.000_000_1), (5, 1.3), (6, 3.0)] {
            println!("seed {seed}, exponent {exponent}");
            for ranks in [1_u64, 2, 20] {
                let (zipf, mut random) = (Zipf::new(ranks, exponent), Random::new(seed));
                let mut counts = vec![0_u64; ranks as usize];
                (0..DRAWS).for_each(|_| counts[zipf.draw(&mut random) as usize - 1] += 1);
                let sum: f64 = (1..=ranks).map(|rank| (rank as f64).powf(-exponent)).sum();
                for (rank, &count) in (1..).zip(&counts) {
                    let p = f64::from(rank).powf(-exponent) / sum;
                    let (expected, deviation) = (p * DRAWS as f64, (p * (1.0 - p) * DRAWS as f64).sqrt());
                    let off = (count as f64 - expected).abs();
                    assert!(off <= 5.0 * deviation + 1.0, "rank {rank} of {ranks}: {count}, and not {expected}");
                }
            }
        }
    }

    #[test]
    fn so_many_draws_show_so_many_ranks() {
        for (seed, exponent) in [(7, 0.0), (8, 0.8), (9, 1.0), (10, 1.2)] {
            println!("seed {seed}, exponent {exponent}");
            let (distinct, ranks) = (2_000.0, 20_000);
            let draws = draws_for(distinct, ranks, exponent);
            let (zipf, mut random) = (Zipf::new(ranks, exponent), Random::new(seed));
            let drawn: HashSet<_> = (0..draws as u64).map(|_| zipf.draw(&mut random)).collect();
            assert!((drawn.len() as f64 / distinct - 1.0).abs() < 0.06, "{} in {draws} draws", drawn.len());
        }
    }
}
