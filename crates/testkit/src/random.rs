//! Random numbers from a seed.

use std::time::Duration;

/// The generator SplitMix64: Steele, Lea and Flood, 2014.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    #[expect(clippy::should_implement_trait, reason = "it has no end, and is no iterator")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let n = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        n ^ n >> 31
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.within(from, to))
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }

    /// Returns a number from 0 to 1, without 1.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a generator of numbers that are independent of these.
    pub fn fork(&mut self) -> Random {
        Random(self.next())
    }
}

/// Returns random numbers from `HAPAX_STORE_SEED`, or from another seed every time; it is printed.
pub fn seeded() -> Random {
    let seed = std::env::var("HAPAX_STORE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(|| {
        u64::from(std::process::id()) << 32 | u64::from(std::time::UNIX_EPOCH.elapsed().unwrap().subsec_nanos())
    });
    println!("HAPAX_STORE_SEED={seed}");
    Random(seed)
}
