//! Random numbers: secret ones from the system, and ones that are the same for the same seed on
//! every machine.

use std::io;

/// Returns bytes from the operating system's generator.
pub(crate) fn system<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// Returns a number from the system's generator: another one in each process, also in two children
/// of one parent, which have copies of everything that the parent has drawn. For names, salts and
/// pauses: since it is no secret, it need not fail where the system has no randomness.
#[cfg(any(unix, feature = "journal", feature = "store"))]
pub(crate) fn any() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    // A process without a generator has at least an id, and a time.
    let unlike_others = || (std::process::id(), std::time::SystemTime::now());
    system().map_or_else(|_| RandomState::new().hash_one(unlike_others()), u64::from_le_bytes)
}

/// Mixes a number by the finalizer of splitmix64 (Steele, Lea and Flood, 2014): a permutation that
/// leaves no trace of its argument's pattern.
#[cfg(any(all(test, feature = "journal", not(modelled)), feature = "bench", feature = "store", feature = "testing"))]
pub(crate) fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(any(all(test, feature = "journal", not(modelled)), feature = "bench", feature = "testing"))]
pub(crate) use drawn::*;

#[cfg(any(all(test, feature = "journal", not(modelled)), feature = "bench", feature = "testing"))]
mod drawn {
    /// Returns a number that is determined by others.
    #[cfg(feature = "testing")]
    pub(crate) fn hash(parts: [u64; 3]) -> u64 {
        parts.iter().fold(0, |hash, &part| super::mix(hash ^ part))
    }

    /// The generator splitmix64.
    #[derive(Clone, Debug)]
    pub(crate) struct Random(u64);

    impl Random {
        pub(crate) fn new(seed: u64) -> Self {
            Random(super::mix(seed))
        }

        pub(crate) fn next(&mut self) -> u64 {
            let number = super::mix(self.0);
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            number
        }

        /// Returns a number below `bound`; 0 if there is none.
        pub(crate) fn below(&mut self, bound: u64) -> u64 {
            scale(self.next(), bound)
        }

        /// Returns a number from 0 to 1, without 1.
        #[cfg(feature = "bench")]
        pub(crate) fn unit(&mut self) -> f64 {
            (self.next() >> 11) as f64 / (1_u64 << 53) as f64
        }

        /// Returns true in `percent` of a hundred cases.
        #[cfg(feature = "testing")]
        pub(crate) fn chance(&mut self, percent: u8) -> bool {
            self.below(100) < u64::from(percent)
        }
    }

    /// Scales any number to a range that starts at 0.
    pub(crate) fn scale(number: u64, bound: u64) -> u64 {
        ((u128::from(number) * u128::from(bound)) >> 64) as u64
    }
}
