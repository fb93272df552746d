//! Digests look random, whatever the ids are.

use super::Random;
use hapax::seam::Digester;
use std::collections::HashSet;

/// The lengths of ids, at least one for each way of hashing.
const LENGTHS: [usize; 14] = [1, 4, 7, 8, 12, 15, 16, 17, 31, 36, 64, 79, 80, 200];

#[test]
fn each_bit_of_an_id_changes_each_bit_of_its_digest_half_the_time() {
    const IDS: u32 = 2_000;
    let mut random = Random::new("avalanche");
    let digester = Digester::with_seed(random.next());
    // Of shorter ones there are too few.
    for len in LENGTHS.into_iter().filter(|len| *len >= 4) {
        // Some bits, of those there are: the first, the last, and others.
        let bits: HashSet<usize> = [0, 8 * len - 1].into_iter().chain((0..14).map(|_| random.below(8 * len))).collect();
        for flipped in bits {
            let mut changed = [0_u32; 128];
            for _ in 0..IDS {
                let mut id = vec![0; len];
                random.fill(&mut id);
                let before = u128::from(digester.digest(&id));
                id[flipped / 8] ^= 1 << (flipped % 8);
                let after = u128::from(digester.digest(&id));
                (0..128).for_each(|bit| changed[bit] += ((before ^ after) >> bit) as u32 & 1);
            }
            // A bit in so many is off by six deviations in one run of 20,000.
            let half = f64::from(IDS) / 2.0;
            let off = changed.iter().map(|&n| (f64::from(n) - half).abs()).fold(0.0, f64::max);
            assert!(off < 6.5 * (f64::from(IDS) / 4.0).sqrt(), "{len} bytes, bit {flipped}: off by {off}");
        }
    }
}

#[test]
fn sparse_ids_have_uniform_digests() {
    let mut random = Random::new("sparse");
    let digester = Digester::with_seed(random.next());
    for len in LENGTHS {
        // All ids with one or two bits set, up to 2^15 of them.
        let bits = 8 * len;
        let two = (0..bits).flat_map(|a| (a..bits).map(move |b| [a, b]));
        let mut cells = [0_u32; 64];
        let mut digests = HashSet::new();
        for [a, b] in two.step_by((bits * bits / 2).div_ceil(1 << 15)) {
            let mut id = vec![0_u8; len];
            id[a / 8] |= 1 << (a % 8);
            id[b / 8] |= 1 << (b % 8);
            let digest = u128::from(digester.digest(&id));
            digests.insert(digest as u64);
            digests.insert((digest >> 64) as u64);
            // Three bits of each half.
            cells[(digest >> 125 << 3 | digest & 7) as usize] += 1;
        }
        let n = cells.iter().sum::<u32>();
        assert_eq!(digests.len(), 2 * n as usize, "{len} bytes: a half repeats itself");
        if n < 640 {
            continue;
        }
        let expected = f64::from(n) / 64.0;
        let chi_square: f64 = cells.iter().map(|&found| (f64::from(found) - expected).powi(2) / expected).sum();
        // 63 degrees of freedom: a deviation is 11.2.
        assert!(chi_square < 63.0 + 8.0 * 11.2, "{len} bytes: chi-square {chi_square}");
    }
}
