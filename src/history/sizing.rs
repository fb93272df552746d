//! The number of blocks that a false-positive rate takes. Pure.
//!
//! Ids fall on blocks unevenly, and the full ones dominate the rate, so it is the mean over a
//! Poisson distribution of loads, not the rate of the mean load (Putze, Sanders and Singler,
//! Cache-, Hash- and Space-Efficient Bloom Filters, 2007).

#![allow(clippy::cast_possible_truncation, reason = "sizes that memory can have are checked where they are allocated")]

use super::block::{Shape, WORDS};
use crate::memory::LINE_BYTES;
use std::sync::OnceLock;

/// Bits in a word.
const BITS: usize = 64;

/// The largest mean number of ids per block: twice what a rate of 0.99 allows.
const LOAD_MAX: usize = 512;

/// The most ids that are considered per block, more than ever fall on one: LOAD_MAX and twelve
/// deviations.
const IDS_MAX: usize = 1024;

/// The rate from which down bits in all four words save a tenth of the memory; above it, they only
/// cost time.
const WORDS_4_RATE: f64 = 1e-4;

/// A history's dimensions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    pub(crate) shape: Shape,
    pub(crate) blocks: usize,
}

/// The number of ids that a block may hold on average at some false-positive rate, however many
/// blocks there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Density {
    shape: Shape,
    load: f64,
}

impl Density {
    /// Returns the largest load at which two generations have a false-positive rate of at most
    /// `rate` together. Takes some milliseconds.
    pub fn of(rate: f64) -> Self {
        // 1 - (1 - f)^2 = rate, without cancellation for small rates.
        let per_generation = rate / (1.0 + (1.0 - rate).sqrt());
        let words = if rate <= WORDS_4_RATE { 4 } else { 2 };
        let candidates = (1..=8).map(|bits| Shape { words, bits });
        let loads = candidates.map(|shape| (shape, load_at(shape, per_generation)));
        let (shape, load) = loads.max_by(|a, b| a.1.total_cmp(&b.1)).expect("eight candidates");
        Density { shape, load }
    }

    /// Returns the smallest size for this many ids in each generation.
    pub fn size(self, ids: usize) -> Size {
        Size { shape: self.shape, blocks: (ids as f64 / self.load).ceil() as usize }
    }
}

impl Size {
    /// Returns the smallest size at which two generations of `ids` ids each have a false-positive
    /// rate of at most `rate` together.
    pub fn of(rate: f64, ids: usize) -> Self {
        Density::of(rate).size(ids)
    }

    /// Returns the false-positive rate of one generation that holds this many ids.
    pub fn rate_with(&self, ids: f64) -> f64 {
        let load = ids / self.blocks as f64;
        if load > LOAD_MAX as f64 { 1.0 } else { rate_at(self.shape, load, known_full_words(self.shape.bits)) }
    }
}

/// Returns the least rate that a history of this many bytes can be made with, for `ids` per
/// horizon; 1 if there is no room for so many.
pub fn rate_in(bytes: u64, ids: usize) -> f64 {
    // For each 1024 blocks there is one more word; one block less makes up for what is rounded.
    let blocks = (bytes as f64 / (LINE_BYTES as f64 + 8.0 / 1024.0)).floor() - 1.0;
    let load = ids as f64 / blocks;
    if !(blocks >= 1.0 && load <= LOAD_MAX as f64) {
        return 1.0;
    }
    let with_words = |words: usize| {
        let shapes = (1..=8).map(|bits| Shape { words, bits });
        let least = shapes.map(|shape| rate_at(shape, load, known_full_words(shape.bits))).fold(1.0, f64::min);
        1.0 - (1.0 - least).powi(2)
    };
    match with_words(4) {
        rate if rate <= WORDS_4_RATE => rate,
        _ => with_words(2).max(WORDS_4_RATE),
    }
}

/// Returns the mean number of ids per block at which one generation has this false-positive rate.
fn load_at(shape: Shape, rate: f64) -> f64 {
    let full = known_full_words(shape.bits);
    let (mut low, mut high) = (0.0, LOAD_MAX as f64);
    // The bisection goes down to 2^-40 of the range: less than an id in a history of 10^12.
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if rate_at(shape, middle, full) < rate { low = middle } else { high = middle }
    }
    low
}

/// Returns the false-positive rate of one generation with `load` ids per block on average.
fn rate_at(shape: Shape, load: f64, full: &[f64]) -> f64 {
    if shape.words == WORDS {
        // All ids of a block have bits in all of its words.
        let rates = full.iter().map(|full| full.powi(WORDS as i32));
        return poisson(load).iter().zip(rates).map(|(p, rate)| p * rate).sum();
    }
    // An id has bits in one of six pairs of words. Of the ids that matter to a pair, some are of
    // the same pair and have bits in both words; those of two other pairs have bits in the one
    // word, those of two more in the other.
    let (same, other) = (poisson(load / 6.0), poisson(load / 3.0));
    let one_word = |both: usize| -> f64 { other.iter().zip(&full[both..]).map(|(p, full)| p * full).sum() };
    same.iter().enumerate().map(|(both, p)| p * one_word(both).powi(2)).sum()
}

/// Returns the probabilities of 0, 1, 2, … where `mean` are expected, as far as they matter.
fn poisson(mean: f64) -> Vec<f64> {
    let end = (mean + 12.0 * mean.sqrt() + 24.0) as usize;
    let next = |p: &f64, n: usize| p * mean / n as f64;
    let mut probabilities = vec![(-mean).exp()];
    for n in 1..end {
        probabilities.push(next(&probabilities[n - 1], n));
    }
    probabilities
}

/// Returns [`full_words`], computed once: it takes milliseconds.
fn known_full_words(bits: u32) -> &'static [f64] {
    static KNOWN: [OnceLock<Vec<f64>>; 8] = [const { OnceLock::new() }; 8];
    KNOWN[bits as usize - 1].get_or_init(|| full_words(bits))
}

/// Returns, for every number of ids with bits in a word, the probability that `bits` bits drawn at
/// random are all set there.
fn full_words(bits: u32) -> Vec<f64> {
    // The distribution of the number of set bits.
    let mut set = [0.0; BITS + 1];
    set[0] = 1.0;
    let all_set = |set: &[f64]| -> f64 {
        let share = |n: usize| (n as f64 / BITS as f64).powi(bits as i32);
        set.iter().enumerate().map(|(n, p)| p * share(n)).sum()
    };
    let mut full = vec![all_set(&set)];
    for _ in 0..IDS_MAX {
        for _ in 0..bits {
            for n in (0..=BITS).rev() {
                let grown = if n > 0 { set[n - 1] * (BITS - (n - 1)) as f64 / BITS as f64 } else { 0.0 };
                set[n] = set[n] * n as f64 / BITS as f64 + grown;
            }
        }
        full.push(all_set(&set));
    }
    full
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    const RATES: [f64; 6] = [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6];

    #[test]
    fn the_rate_of_a_budget_is_the_least_that_fits() {
        use crate::history::HistoryTier;
        use std::time::Duration;
        let ids = 100_000;
        for bits_an_id in [4, 10, 16, 30, 40, 52, 56, 60, 100, 160] {
            let bytes = ids * bits_an_id / 8;
            let rate = rate_in(bytes as u64, ids);
            let history = HistoryTier::new(Duration::from_secs(1), rate, ids).unwrap();
            let taken = history.stats().bytes;
            assert!(taken <= bytes + size_of::<HistoryTier>(), "{bits_an_id} bits: {taken} of {bytes} bytes at {rate}");
            // From one number of words to the other there is a step.
            assert!(taken as f64 > 0.9 * bytes as f64, "{bits_an_id} bits: {taken} of {bytes} bytes at {rate}");
        }
        assert_eq!(rate_in(0, ids), 1.0);
        assert_eq!(rate_in(100, ids), 1.0);
    }

    #[test]
    fn the_size_is_the_smallest_for_its_rate() {
        for rate in RATES.into_iter().chain([0.5, 0.99]) {
            let ids = 1_000_000;
            let size = Size::of(rate, ids);
            let full = full_words(size.shape.bits);
            let total = |blocks: usize| {
                let generation = rate_at(size.shape, ids as f64 / blocks as f64, &full);
                1.0 - (1.0 - generation).powi(2)
            };
            assert!(total(size.blocks) <= rate * (1.0 + 1e-6), "{rate}: {}", total(size.blocks));
            assert!(total(size.blocks * 99 / 100 - 1) > rate, "{rate}: {size:?} is too large");
        }
    }

    #[test]
    fn memory_is_what_the_documentation_says() {
        let bytes_an_id = RATES.map(|rate| Size::of(rate, 10_000_000).blocks as f64 * 64.0 / 1e7);
        for (bytes, documented) in bytes_an_id.into_iter().zip([1.6, 3.1, 5.0, 7.0, 10.0, 13.8]) {
            assert!((bytes - documented).abs() < 0.06, "{bytes_an_id:?}");
        }
    }

    #[test]
    fn a_word_fills_as_it_must() {
        // One bit per id: 1 - (63/64)^n, exactly.
        let full = full_words(1);
        for n in [0, 1, 2, 10, 100, IDS_MAX] {
            let exact = 1.0 - (63.0 / 64.0_f64).powi(n as i32);
            assert!((full[n] - exact).abs() < 1e-12);
        }
        // Two bits of one id against two of another: (E[X^2]) / 64^2 with X = 1 with 1/64, else 2.
        let exact = (1.0 / 64.0 + 63.0 / 64.0 * 4.0) / 64.0_f64.powi(2);
        assert!((full_words(2)[1] - exact).abs() < 1e-15);
    }

    #[test]
    fn probabilities_sum_to_one() {
        for mean in [0.01, 1.0, 37.5, 400.0] {
            assert!((poisson(mean).iter().sum::<f64>() - 1.0).abs() < 1e-9, "{mean}");
        }
    }
}
