//! Ids chosen to harm: one or ten million that share prefixes, suffixes and lengths, count, have
//! few bits set, or collide under XXH3 without a seed. Under a key they fall on buckets as random
//! ones do; where ids are trusted and the seed is known they do not.

use hapax::seam::Digester;
use hapax::{Builder, Dedup, WindowStats};
use std::time::Duration;
use testkit::long;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// Returns the number of ids of each kind.
fn each() -> u64 {
    long(100_000, 1_000_000)
}

/// Seeds that were not known when the ids were chosen.
const SEEDS: [u64; 3] = [0x1e8b_51c7_90d2_4a6f, 0x93f0_6c5e_2b7d_a841, 0xc2d9_7f34_0e6a_85b3];

/// An id of up to 256 bytes.
#[derive(Clone)]
struct Id {
    bytes: [u8; 256],
    len: usize,
}

impl AsRef<[u8]> for Id {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Id {
    fn of(parts: &[&[u8]]) -> Self {
        let mut id = Id { bytes: [0; 256], len: 0 };
        for part in parts {
            id.bytes[id.len..id.len + part.len()].copy_from_slice(part);
            id.len += part.len();
        }
        id
    }

    fn of_words(words: &[u64]) -> Self {
        let mut id = Id::of(&[]);
        words.iter().for_each(|word| id = Id::of(&[id.as_ref(), &word.to_le_bytes()]));
        id
    }
}

/// The words that XXH3 mixes its input with at seed 0, from the beginning. For each pair of an id's
/// words it computes the product, both xored with a word of these: if one of them is that word, the
/// product is 0, and the other does not matter. (In XXH3-128 their sum is xored to the other half.)
const SECRET: [u64; 8] = [
    0xbe4b_a423_396c_feb8,
    0x1cad_21f7_2c81_017c,
    0xdb97_9083_e96d_d4de,
    0x1f67_b3b7_a4a4_4072,
    0x78e5_c0cc_4ee6_79cb,
    0x2172_ffcc_7dd0_5a82,
    0x8e24_43f7_7446_08b8,
    0x4c26_3a81_e690_35e0,
];

type Ids = Box<dyn Iterator<Item = Id>>;

/// Returns ids of 32 bytes with one XXH3-64: 2^64 of them.
fn of_one_64_bit_hash() -> Ids {
    Box::new((0..each()).map(|i| Id::of_words(&[SECRET[0], i, 0x1234, 0x5678])))
}

/// Returns ids of 64 bytes with one XXH3-128, all 128 bits: 2^128 of them. The outer pairs subtract
/// what the inner ones add.
fn of_one_digest() -> Ids {
    Box::new((0..each()).map(|i| {
        let (a, b) = (i, i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let sum = |pair: usize, added: u64| added.wrapping_sub(SECRET[2 * pair]);
        Id::of_words(&[SECRET[0], sum(0, b), SECRET[4], sum(2, b), SECRET[6], sum(3, a), SECRET[2], sum(1, a)])
    }))
}

/// Returns ids whose digest without a seed is in one 64th of the buckets: found by trying.
fn of_few_buckets() -> Ids {
    let bytes = |i: u64| (u128::from(i) << 64 | 1).to_le_bytes();
    let are_there = (0..).filter(move |&i| xxh3_128(&bytes(i)) >> 122 == 0x15);
    Box::new(are_there.take(each() as usize).map(move |i| Id::of(&[&bytes(i)])))
}

/// Returns words with few bits set, from none on.
fn few_bits() -> impl Iterator<Item = u64> {
    let next =
        |word: &u64| {
            // The next larger word with as many bits (Gosper), or the first with one more.
            let lowest = word & word.wrapping_neg();
            let ripple = word.checked_add(lowest).filter(|_| *word != 0);
            Some(ripple.map_or_else(
                || (1 << (word.count_ones() + 1)) - 1,
                |ripple| ripple | (((word ^ ripple) / lowest) >> 2),
            ))
        };
    std::iter::successors(Some(0_u64), next)
}

/// Returns each kind of ids with its name; all ids differ.
fn kinds() -> [(&'static str, Ids); 10] {
    let prefix = b"urn:tenant:7f3a9c21:orders:2026-11-21T20:";
    let counted = move |i: u64| Id::of(&[prefix, format!("{i:09}").as_bytes()]);
    let suffixed = |i: u64| Id::of(&[&(i as u32).to_be_bytes(), &[b'x'; 197]]);
    // Longer than 240 bytes: hashed in another way.
    let infixed = |i: u64| Id::of(&[&[b'a'; 120], &(i as u32).to_le_bytes(), &[b'b'; 132]]);
    [
        ("counted", Box::new((0..each()).map(|i| Id::of_words(&[i])))),
        ("counted in large steps", Box::new((0..each()).map(|i| Id::of_words(&[i << 40, 0])))),
        ("few bits set", Box::new(few_bits().take(each() as usize).map(|word| Id::of_words(&[word, 0, 0])))),
        ("all but few bits set", Box::new(few_bits().take(each() as usize).map(|word| Id::of_words(&[!0, !word])))),
        ("with one prefix", Box::new((0..each()).map(counted))),
        ("with one suffix", Box::new((0..each()).map(suffixed))),
        ("with one prefix and one suffix", Box::new((0..each()).map(infixed))),
        ("of one 64-bit hash", of_one_64_bit_hash()),
        ("of one 128-bit hash", of_one_digest()),
        ("of few buckets", of_few_buckets()),
    ]
}

/// The number of ids of each bucket, in a window that has room for `capacity` ids. (An id's bucket
/// is not public. It is computed here; `where_ids_are_trusted_a_known_seed_is_no_defence` shows
/// that the computation is right.)
struct Occupancy {
    buckets: Vec<u32>,
    digester: Digester,
}

impl Occupancy {
    fn new(capacity: u64, digester: Digester) -> Self {
        Occupancy { buckets: vec![0; buckets(capacity)], digester }
    }

    fn add(&mut self, id: &Id) {
        let place = u128::from(self.digester.digest(id)) >> 64;
        let bucket = (place * self.buckets.len() as u128) >> 64;
        self.buckets[bucket as usize] += 1;
    }

    /// Returns the number of ids of the fullest bucket, if buckets are occupied as if by chance; if
    /// not, why. Chance crosses a bound less than once in a billion runs.
    fn fullest(&self) -> Result<usize, String> {
        let buckets = self.buckets.len() as f64;
        let mean = self.buckets.iter().map(|&n| f64::from(n)).sum::<f64>() / buckets;
        // With so many degrees of freedom it is distributed nearly normally.
        let chi_square: f64 = self.buckets.iter().map(|&n| (f64::from(n) - mean).powi(2) / mean).sum();
        if (chi_square - buckets).abs() > 8.0 * (2.0 * buckets).sqrt() {
            return Err(format!("chi-square is {chi_square:.0} for {buckets} buckets"));
        }
        // Of n ids or more, for every n: the number of buckets, and the number expected after
        // Poisson.
        let fullest = self.buckets.iter().copied().max().unwrap_or(0) as usize;
        let mut found = vec![0.0; fullest + 1];
        self.buckets.iter().for_each(|&n| found[n as usize] += 1.0);
        let next = |(n, p): &(u32, f64)| Some((n + 1, p * mean / f64::from(n + 1)));
        let mut expected: Vec<f64> = std::iter::successors(Some((0, buckets * (-mean).exp())), next)
            .map(|(_, p)| p)
            .take(fullest + 64)
            .collect();
        for counts in [&mut found, &mut expected] {
            (1..counts.len()).rev().for_each(|n| counts[n - 1] += counts[n]);
        }
        for (n, (&found, &expected)) in found.iter().zip(&expected).enumerate() {
            let margin = if expected < 1e-9 { 0.0 } else { 8.0 * expected.sqrt() + 8.0 };
            if (found - expected).abs() > margin {
                return Err(format!("{found} buckets have {n} ids or more, {expected:.3e} should"));
            }
        }
        Ok(fullest)
    }
}

/// Returns the buckets for this many ids: 3.02 for each.
fn buckets(capacity: u64) -> usize {
    ((capacity as f64 / (8.0 * 0.378)).ceil() as usize).next_multiple_of(2)
}

/// Builds an engine with room for this many ids, which cannot grow.
fn engine(capacity: u64, seed: u64) -> Builder {
    let builder = Dedup::builder().window(Duration::from_secs(3600)).capacity(capacity as usize);
    builder.max_memory_bytes(buckets(capacity) * 64).seed(seed)
}

/// Returns how many of the ids are fresh.
fn check(dedup: &Dedup, ids: Ids) -> u64 {
    let mut verdicts = Vec::new();
    dedup.check_batch(ids, &mut verdicts);
    verdicts.iter().filter(|verdict| verdict.is_fresh()).count() as u64
}

#[test]
fn chosen_ids_fall_on_buckets_as_if_by_chance() {
    let mut all = SEEDS.map(|seed| Occupancy::new(10 * each(), Digester::with_seed(seed)));
    for (kind, ids) in kinds() {
        let mut alone = SEEDS.map(|seed| Occupancy::new(each(), Digester::with_seed(seed)));
        for id in ids {
            all.iter_mut().chain(&mut alone).for_each(|occupancy| occupancy.add(&id));
        }
        for occupancy in alone {
            let fullest = occupancy.fullest();
            println!("{kind}: the fullest bucket has {fullest:?}");
            assert!(fullest.is_ok(), "{kind}: {fullest:?}");
        }
    }
    for occupancy in all {
        let fullest = occupancy.fullest();
        println!("all: the fullest bucket has {fullest:?}");
        assert!(fullest.is_ok(), "{fullest:?}");
    }
}

#[test]
fn millions_of_chosen_ids_are_told_apart_and_kept() {
    let seed = SEEDS[0];
    let dedup = engine(10 * each(), seed).build().unwrap();
    for (kind, ids) in kinds() {
        assert_eq!(check(&dedup, ids), each(), "{kind}, seed {seed:#x}");
    }
    let WindowStats { live, evicted_live, .. } = dedup.stats().window;
    println!("{evicted_live} evicted, seed {seed:#x}");
    assert_eq!(live, 10 * each() - evicted_live);
    assert!(evicted_live as f64 <= 3e-6 * 10.0 * each() as f64, "{evicted_live}");
}

#[test]
fn where_ids_are_trusted_a_known_seed_is_no_defence() {
    let first = of_one_64_bit_hash().next().expect("there are some");
    assert!(of_one_64_bit_hash().all(|id| xxh3_64(id.as_ref()) == xxh3_64(first.as_ref())));

    // All ids are taken for one.
    let dedup = engine(each(), 0).trusted_ids().build().unwrap();
    assert_eq!(check(&dedup, of_one_digest()), 1);

    // They share a 64th of the buckets, and entries that must move find no room.
    let mut occupancy = Occupancy::new(each(), Digester::trusted(0));
    of_few_buckets().for_each(|id| occupancy.add(&id));
    let refused = occupancy.fullest();
    assert!(refused.is_err(), "{refused:?}");
    let dedup = engine(each(), 0).trusted_ids().build().unwrap();
    check(&dedup, of_few_buckets());
    let evicted_live = dedup.stats().window.evicted_live;
    println!("{evicted_live} evicted; {refused:?}");
    assert!(evicted_live as f64 > 1e-3 * each() as f64, "{evicted_live}");
}
