//! Random numbers: those that are the same for the same seed, on every machine, and those that
//! nobody can guess.

use std::hash::{BuildHasher, RandomState};

/// The finalizer of splitmix64 (Steele, Lea and Flood, 2014): a permutation that leaves no trace of its argument's pattern.
#[cfg(any(all(test, feature = "journal", not(modelled)), feature = "bench", feature = "store", feature = "testing"))]
pub(crate) fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number that nobody can guess, from the system's generator: another one in each process, also
/// in two children of one parent, which have copies of whatever that has drawn.
pub(crate) fn from_system() -> u64 {
    #[cfg(unix)]
    {
        let mut bytes = [0; 8];
        if fill(&mut bytes).is_ok() {
            return u64::from_ne_bytes(bytes);
        }
    }
    // std has its keys from the system, once a thread. A process that has no generator has at least
    // a number, and a time.
    RandomState::new().hash_one((std::process::id(), std::time::SystemTime::now()))
}

/// Fills bytes from the system's generator.
#[cfg(unix)]
fn fill(bytes: &mut [u8]) -> std::io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "openbsd"))]
    {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        // SAFETY: the bytes are ours, and as many as we say.
        let is_filled = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) } == bytes.len() as isize;
        #[cfg(any(target_os = "macos", target_os = "openbsd"))]
        // SAFETY: the bytes are ours, as many as we say, and fewer than 256.
        let is_filled = unsafe { libc::getentropy(bytes.as_mut_ptr().cast(), bytes.len()) } == 0;
        if is_filled {
            return Ok(());
        }
    }
    // An old kernel, or another system.
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, bytes)
}

#[cfg(any(all(test, feature = "journal", not(modelled)), feature = "bench", feature = "testing"))]
pub(crate) use drawn::*;

#[cfg(any(all(test, feature = "journal", not(modelled)), feature = "bench", feature = "testing"))]
mod drawn {
    /// A number that is determined by others.
    #[cfg(feature = "testing")]
    pub(crate) fn hash(parts: [u64; 3]) -> u64 {
        parts.iter().fold(0, |hash, &part| super::mix(hash ^ part))
    }

    /// splitmix64.
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

        /// A number below `bound`; 0 if there is none.
        pub(crate) fn below(&mut self, bound: u64) -> u64 {
            scale(self.next(), bound)
        }

        /// A number from 0 to 1, without 1.
        #[cfg(feature = "bench")]
        pub(crate) fn unit(&mut self) -> f64 {
            (self.next() >> 11) as f64 / (1_u64 << 53) as f64
        }

        /// True in `percent` of a hundred cases.
        #[cfg(feature = "testing")]
        pub(crate) fn chance(&mut self, percent: u8) -> bool {
            self.below(100) < u64::from(percent)
        }
    }

    /// Any number, scaled to a range that starts at 0.
    pub(crate) fn scale(number: u64, bound: u64) -> u64 {
        ((u128::from(number) * u128::from(bound)) >> 64) as u64
    }
}
