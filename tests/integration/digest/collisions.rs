//! Pairs of ids that are made to collide.

use super::Random;
use super::xxh3::Likely;
use hapax::Dedup;
use hapax::seam::Digester;
use std::thread;
use testkit::long;

/// Returns the number of pairs, of all kinds.
fn pairs() -> usize {
    let given = std::env::var("HAPAX_PAIRS").ok().and_then(|pairs| pairs.parse().ok());
    given.unwrap_or_else(|| long(600_000, 10_000_000))
}

/// Pairs under a key.
const UNDER_ONE_KEY: usize = 2_000;

/// A generator of pairs, of chosen lengths and kinds.
struct Pairs {
    random: Random,
    id: Vec<u8>,
    other: Vec<u8>,
}

impl Pairs {
    fn new(random: Random) -> Self {
        Pairs { random, id: Vec::new(), other: Vec::new() }
    }

    fn begin(&mut self, len: usize) {
        self.id.resize(len, 0);
        self.random.fill(&mut self.id);
    }

    /// Makes a pair that collides under XXH3 for some seeds.
    fn of_xxh3(&mut self, len: usize, is_text: bool) {
        self.begin(len);
        self.other.resize(len, 0);
        let likely = Likely::of(len, is_text, &mut self.random);
        likely.pair(&mut self.id, &mut self.other, is_text, &mut self.random);
    }

    /// Makes ids of any length that differ as little, or as regularly, as ids can.
    fn alike(&mut self) {
        let len = match self.random.below(8) {
            0 => self.random.below(18),
            1..6 => 17 + self.random.below(80),
            _ => 80 + self.random.below(300),
        };
        self.begin(len);
        self.other.clone_from(&self.id);
        let random = &mut self.random;
        let (size, at) = ([1, 4, 8, 12, 16, 64][random.below(6)], random.below(len.max(1)));
        match random.below(5) {
            // One byte more, of no value, at either end.
            0 => self.other.push(0),
            1 => self.other.insert(0, 0),
            // Two pieces change places.
            2 if at / size * size + 2 * size <= len => {
                let at = at / size * size;
                self.other[at..at + 2 * size].rotate_left(size);
            }
            // One bit flips in two pieces, or what one gets is taken from the other.
            3 if at + size < len => {
                let bit = 1 << random.below(8);
                self.other[at] ^= bit;
                self.other[at + size] ^= bit;
            }
            4 if at + size < len => {
                let added = 1 + random.below(255) as u8;
                self.other[at] = self.other[at].wrapping_add(added);
                self.other[at + size] = self.other[at + size].wrapping_sub(added);
            }
            _ if len > 0 => self.other[at] ^= 1 << random.below(8),
            _ => self.other.push(0),
        }
    }

    fn next(&mut self, number: usize) {
        match number % 16 {
            0 => self.of_xxh3(1_100, false),
            1 => self.of_xxh3(1_100, true),
            2 => self.of_xxh3(250, false),
            _ => self.alike(),
        }
    }
}

/// Returns the number of pairs that collide.
fn colliding(random: Random, pairs: usize, digester: impl Fn(u64) -> Digester) -> usize {
    let mut all = Pairs::new(random);
    let mut collided = 0;
    let mut under = digester(all.random.next());
    for number in 0..pairs {
        if number % UNDER_ONE_KEY == 0 {
            under = digester(all.random.next());
        }
        all.next(number);
        if all.id == all.other {
            continue;
        }
        let [one, other] = [&all.id, &all.other].map(|id| u128::from(under.digest(id)));
        // Either half alone has 64 bits: nor must these ever be equal.
        let halves = [(one ^ other) as u64, ((one ^ other) >> 64) as u64];
        collided += usize::from(halves.contains(&0));
    }
    collided
}

#[test]
fn of_millions_of_chosen_pairs_none_collides() {
    let mut random = Random::new("millions of pairs");
    let seeds = [random.next(), random.next()];
    let half = |seed| move || colliding(Random::of(seed), pairs() / 2, Digester::with_seed);
    let halves = seeds.map(|seed| thread::spawn(half(seed)));
    assert_eq!(halves.map(|half| half.join().expect("it ends")), [0, 0]);
}

/// Checks, as a control, that of the same pairs some collide where there is only XXH3.
#[test]
fn of_the_same_pairs_some_collide_if_ids_are_trusted() {
    let random = Random::new("the same pairs");
    let collided = colliding(random, 100_000, Digester::trusted);
    println!("{collided} of 100,000 pairs");
    assert!(collided >= 3, "{collided}");
}

/// Makes 4,000 pairs of long ids, as an attacker would who knows the program, and not its key.
fn long_pairs(is_text: bool) -> Vec<Vec<u8>> {
    let mut pairs = Pairs::new(Random::new("long pairs"));
    let mut ids = Vec::new();
    for _ in 0..4_000 {
        pairs.of_xxh3(1_100, is_text);
        if pairs.id != pairs.other {
            ids.extend([pairs.id.clone(), pairs.other.clone()]);
        }
    }
    ids.sort();
    ids.dedup();
    ids
}

/// Returns how many of ten engines lose an id.
fn engines_that_lose_one(ids: &[Vec<u8>], build: impl Fn() -> Dedup) -> usize {
    let loses = |_: &usize| {
        let (dedup, mut verdicts) = (build(), Vec::new());
        dedup.check_batch(ids, &mut verdicts);
        verdicts.iter().any(|verdict| !verdict.is_fresh())
    };
    (0..10).filter(loses).count()
}

#[test]
fn no_engine_loses_an_id_to_a_chosen_one() {
    let builder = || Dedup::builder().capacity(10_000);
    for ids in [long_pairs(false), long_pairs(true)] {
        assert_eq!(engines_that_lose_one(&ids, || builder().build().unwrap()), 0);
        let trusting = engines_that_lose_one(&ids, || builder().trusted_ids().build().unwrap());
        println!("{trusting} of 10 engines that trust these {} ids lose some", ids.len());
        // Seven of ten, on average: none in six of a million runs.
        assert!(trusting > 0);
    }
}
