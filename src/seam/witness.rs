//! A second window over other bits of the digests: an id that both know is known, with one
//! exception in 4 x 10^26 checks.

use crate::clock::Reading;
use crate::digest::Digest;
use crate::id_set::IdSet;
use crate::window::Window;
use crate::{Error, Outcome};
use std::time::Duration;

/// Everything that memory has learned, by the bits of a digest that the window does not compare.
///
/// The window compares 46 bits of one half and, by an id's bucket, the first of the other. An id
/// that the store does not have agrees in these with one that the window knows once in 2 x 10^13
/// checks; here it must agree in other bits as well, of another bucket. So a duplicate by memory
/// alone is one of a digest of 128 bits, as good as the id itself. Without a store, nothing could
/// resolve a disagreement; with one, it is asked.
pub(super) struct Witness {
    window: Window,
}

impl Witness {
    /// Creates a witness that remembers as long as the window of this length does, and may grow as
    /// far.
    pub(super) fn new(
        window: Duration,
        capacity: Option<usize>,
        max_memory_bytes: Option<usize>,
    ) -> Result<Self, Error> {
        Ok(Witness { window: Window::with_growth(window, capacity, max_memory_bytes, true)? })
    }

    /// Returns true if exactly this id was learned.
    #[inline]
    pub(super) fn knows(&self, id: Digest, at: Reading) -> bool {
        self.window.advance(at);
        self.window.contains(other_bits(id), at.time)
    }

    /// Returns the same for many ids, in order.
    pub(super) fn knows_all(&self, ids: &[Digest], at: Reading) -> Vec<bool> {
        self.window.contains_chunks(ids.iter().map(|id| other_bits(*id)), at)
    }

    /// Remembers an id. It is called after the window has remembered it: a check in between takes
    /// it for an id that only agrees with it, for as long as that takes.
    #[inline]
    pub(super) fn learn(&self, id: Digest, at: Reading) -> Outcome {
        self.window.check_at(other_bits(id), at)
    }

    pub(super) fn learn_all(&self, ids: &[Digest], at: Reading) {
        self.window.check_chunks(ids.iter().map(|id| other_bits(*id)), at, |_| IdSet::EMPTY, |_, _, _| ());
    }

    pub(super) fn forget(&self, id: Digest) {
        self.window.forget_at_rest(other_bits(id));
    }

    /// Returns its size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.window.bytes()
    }
}

/// Returns the same 128 bits in another order: first those that the window does not compare.
///
/// The window has the first bits of `place` (10 to 30, its buckets) and the first 46 of `mark`.
/// Here the bucket comes from the last 18 of `mark`, the tag from the last 46 of `place`. Together
/// these are all but a few bits.
#[inline]
fn other_bits(id: Digest) -> Digest {
    Digest { place: id.mark.rotate_left(46), mark: id.place.rotate_left(18) }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    #[test]
    fn what_two_ids_have_in_common_for_the_window_they_do_not_have_here() {
        let id = Digest { place: 0x0123_4567_89ab_cdef, mark: 0xfedc_ba98_7654_3210 };
        // The window's tag is the first 46 bits of `mark`, its bucket follows from the first of
        // `place`.
        let here = other_bits(id);
        assert_eq!(here.place >> 46, id.mark & 0x3_ffff, "the bucket: bits that are in no tag");
        assert_eq!(here.mark >> 18, id.place & 0x3fff_ffff_ffff, "the tag: bits that choose no bucket");
        assert_eq!((here.place.count_ones(), here.mark.count_ones()), (id.mark.count_ones(), id.place.count_ones()));
    }

    #[test]
    fn it_forgets_when_the_window_does() {
        let witness = Witness::new(Duration::from_secs(60), Some(1_000), None).unwrap();
        let at = |seconds| Reading::from(crate::Timestamp::from_secs(seconds));
        let digester = crate::digest::Digester::with_seed(7);
        let many: Vec<Digest> = (0_u64..200).map(|i| digester.digest(i.to_le_bytes())).collect();
        let (id, other) = (many[17], many[18]);
        assert!(!witness.knows(id, at(0)));
        assert_eq!(witness.learn(id, at(0)), Outcome::Fresh);
        witness.learn_all(&[other], at(0));
        assert!(witness.knows(id, at(59)) && witness.knows(other, at(59)));
        let known = witness.knows_all(&many, at(59));
        let known: Vec<usize> = (0..200).filter(|&i| known[i]).collect();
        assert_eq!(known, [17, 18]);
        witness.forget(id);
        assert!(!witness.knows(id, at(59)) && !witness.knows(other, at(62)));
    }
}
