//! Random numbers: the system's, which are secret, and those that are the same for the same seed on
//! every machine.

use std::io;

/// Bytes from the operating system's generator.
pub(crate) fn system<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// A number from the system's generator: another one in each process, also in two children of one
/// parent, which have copies of whatever that has drawn. For names, salts and pauses: it need not
/// fail where the system has no randomness, since it is no secret.
pub fn any() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    // A process that has no generator has at least a number, and a time.
    let unlike_others = || (std::process::id(), std::time::SystemTime::now());
    system().map_or_else(|_| RandomState::new().hash_one(unlike_others()), u64::from_le_bytes)
}

/// The finalizer of splitmix64 (Steele, Lea and Flood, 2014): a permutation that leaves no trace of
/// its argument's pattern.
pub fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number that is determined by others.
pub fn hash(parts: [u64; 3]) -> u64 {
    parts.iter().fold(0, |hash, &part| mix(hash ^ part))
}

/// splitmix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Numbers that are determined by a seed.
    pub fn new(seed: u64) -> Self {
        Random(mix(seed))
    }

    /// Returns the next number.
    #[expect(clippy::should_implement_trait, reason = "it has no end, and is no iterator")]
    pub fn next(&mut self) -> u64 {
        let number = mix(self.0);
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        number
    }

    /// A number below `bound`; 0 if there is none.
    pub fn below(&mut self, bound: u64) -> u64 {
        scale(self.next(), bound)
    }

    /// A number from 0 to 1, without 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: u8) -> bool {
        self.below(100) < u64::from(percent)
    }
}

/// Any number, scaled to a range that starts at 0.
pub fn scale(number: u64, bound: u64) -> u64 {
    ((u128::from(number) * u128::from(bound)) >> 64) as u64
}
