//! An attack that learns an engine's seed from its answers: two ids that the attacker chooses
//! either collide or do not, and each collision reveals something about the keys.

use super::Random;
use super::xxh3::Words;
use hapax::Dedup;

const LEN: usize = 1_100;

/// The knowledge that the attacker begins with, so that a test can try the rest: all but some bits
/// of the low half. (Without that it takes half a minute longer.)
struct Known {
    low: u32,
    unknown_bits: u32,
}

/// An attacker that sends ids, and sees which are fresh.
struct Attacker<'e> {
    engine: &'e Dedup,
    random: Random,
    questions: usize,
    collisions: usize,
}

impl Attacker<'_> {
    fn collides(&mut self, words: Words, difference: u32, bit: u32) -> bool {
        let (mut id, mut other) = (vec![0; LEN], vec![0; LEN]);
        self.random.fill(&mut id);
        words.pair(&mut id, &mut other, difference, bit);
        self.questions += 1;
        assert!(self.engine.check(&id).is_fresh());
        let collides = self.engine.check(&other).is_duplicate();
        self.collisions += usize::from(collides);
        collides
    }

    /// Finds the low half of the seed: for each two words the keys differ by a value that depends
    /// on the low half alone, and ids of that difference collide if the candidate is right.
    fn low_half(&mut self, known: &Known) -> Option<u32> {
        let mut candidates: Vec<u32> = (0..1 << known.unknown_bits).map(|low| known.low ^ low).collect();
        for _ in 0..400 {
            if candidates.len() == 1 {
                return candidates.first().copied();
            }
            let words = Words::any(LEN, &mut self.random);
            let difference = |low: &u32| words.key_difference(u64::from(*low)) as u32;
            let likely = candidates[self.random.below(candidates.len())];
            let asked = difference(&likely);
            // The high bits of the keys agree by chance: of eight, some do.
            let collides = (0..8).any(|bit| self.collides(words, asked, 4 * bit + 1));
            if collides || candidates.iter().filter(|low| difference(low) == asked).count() < candidates.len() / 2 {
                candidates.retain(|low| (difference(low) == asked) == collides);
            }
            if candidates.is_empty() {
                return None;
            }
        }
        None
    }

    /// Finds the seeds with this low half that explain the answers, one more bit at a time: the
    /// answer whether the keys' bits agree reveals the carry into them.
    fn seeds(&mut self, low: u32) -> Vec<u64> {
        let mut candidates = vec![u64::from(low)];
        for bit in 0..32 {
            candidates = candidates.iter().flat_map(|seed| [*seed, seed | 1 << (32 + bit)]).collect();
            for _ in 0..40 {
                if candidates.len() == 1 || bit == 31 {
                    break;
                }
                let words = Words::any(LEN, &mut self.random);
                let agrees = |seed: &u64| words.key_difference(*seed) >> (33 + bit) & 1 == 0;
                if candidates.iter().all(agrees) || !candidates.iter().any(agrees) {
                    continue;
                }
                let difference = words.key_difference(u64::from(low)) as u32;
                let collides = self.collides(words, difference, bit + 1);
                candidates.retain(|seed| agrees(seed) == collides);
            }
        }
        candidates
    }

    fn attack(&mut self, known: &Known) -> Vec<u64> {
        self.low_half(known).map_or_else(Vec::new, |low| self.seeds(low))
    }
}

fn attacked(engine: &Dedup, seed: u64, random: Random) -> (Vec<u64>, usize, usize) {
    let known = Known { low: seed as u32 & !0xffff, unknown_bits: 16 };
    let mut attacker = Attacker { engine, random, questions: 0, collisions: 0 };
    let seeds = attacker.attack(&known);
    (seeds, attacker.questions, attacker.collisions)
}

/// Checks, as a control, that the attack finds the seed where there is only XXH3.
#[test]
fn answers_give_the_seed_away_if_ids_are_trusted() {
    let mut random = Random::new("recovery");
    let mut found = 0;
    let engines = testkit::long(2, 4);
    for _ in 0..engines {
        let seed = random.next();
        let engine = Dedup::builder().capacity(100_000).seed(seed).trusted_ids().build().unwrap();
        let (seeds, questions, collisions) = attacked(&engine, seed, Random::of(random.next()));
        println!("{questions} questions, {collisions} collisions, {} seeds", seeds.len());
        // The highest bit changes no key's difference.
        found += usize::from(seeds.len() <= 4 && seeds.contains(&seed));
    }
    assert!(found >= engines / 2, "{found} of {engines} seeds were found");
}

#[test]
fn answers_say_nothing_of_a_key() {
    let mut random = Random::new("no recovery");
    for _ in 0..testkit::long(2, 20) {
        let seed = random.next();
        let engine = Dedup::builder().capacity(100_000).seed(seed).build().unwrap();
        let (seeds, questions, collisions) = attacked(&engine, seed, Random::of(random.next()));
        assert!(questions > 100, "{questions}");
        assert_eq!((collisions, seeds.contains(&seed)), (0, false), "{questions} questions");
    }
}
