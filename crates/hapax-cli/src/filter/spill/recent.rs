//! The digests of some recent lines, so that repetitions that are close together need no disk.
//! Pure.

/// The number of digests, which fit into a core's cache.
const DIGESTS: usize = 1 << 15;

/// A digest has one place, where the last one of that place is.
pub struct Recent(Box<[u128]>);

impl Recent {
    pub fn new() -> Self {
        // Each place begins with a digest that belongs to another one.
        Recent((0..DIGESTS as u128).map(|place| place ^ 1).collect())
    }

    /// Returns true if this digest was the last one of its place, and makes it that.
    #[inline]
    pub fn has(&mut self, digest: u128) -> bool {
        let place = &mut self.0[digest as usize % DIGESTS];
        std::mem::replace(place, digest) == digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_came_before_is_known() {
        let mut recent = Recent::new();
        let digests = (0..4 * DIGESTS as u128).chain([u128::MAX, 1 << 64, 1 << 127]);
        for digest in digests {
            assert_eq!((recent.has(digest), recent.has(digest)), (false, true), "{digest}");
        }
        assert!(!recent.has(0), "another one has taken its place");
    }
}
