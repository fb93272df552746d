//! Attacks on the digest by chosen ids: pairs that are made to collide, an attack that learns the
//! seed of a faster function from an engine's answers, and statistics. XXH3 is the control: each of
//! them succeeds if ids are trusted that an attacker has chosen.

mod collisions;
mod recovery;
mod statistics;
mod xxh3;

/// A generator of random numbers and bytes.
pub(crate) struct Random(testkit::random::Random);

impl Random {
    /// Creates a generator, and prints its seed.
    pub(crate) fn new(test: &str) -> Self {
        let given = std::env::var("HAPAX_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| u64::from(std::process::id()) << 20);
        println!("{test}: HAPAX_SEED={seed}");
        Random::of(seed)
    }

    pub(crate) fn of(seed: u64) -> Self {
        Random(testkit::random::Random(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next()
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}
