//! Durable blocks that were lost while an engine ran, and whose loss somebody was told.

/// The numbers of such blocks: the first of them, and the first one after them. Segments of a long
/// memory that end among them go on with the blocks that are left: nobody is to be told again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) from: u64,
    pub(crate) upto: u64,
}

impl Gap {
    /// Adds what was lost later.
    ///
    /// If there are blocks between both, the earlier gap is given up: segments have those blocks by
    /// now, or they would be lost, too.
    pub(in crate::journal) fn and(self, later: Gap) -> Gap {
        match later {
            Gap { from, upto } if from >= upto => self,
            Gap { from, upto } if self.from < self.upto && from <= self.upto => Gap { from: from.min(self.from), upto },
            later => later,
        }
    }

    /// Returns true if nothing else is missing between segments that end with this block, and a
    /// journal that begins with that one.
    pub(crate) fn covers(self, sealed: u64, first: u64) -> bool {
        self.from <= sealed && first <= self.upto
    }
}

#[cfg(all(test, not(any(modelled, alone))))]
mod tests {
    use super::*;

    fn gap(from: u64, upto: u64) -> Gap {
        Gap { from, upto }
    }

    #[test]
    fn what_was_lost_one_after_another_is_one_gap() {
        let cases = [
            (gap(0, 0), gap(3, 7), gap(3, 7)),
            (gap(3, 7), gap(7, 7), gap(3, 7)),
            (gap(3, 7), gap(9, 5), gap(3, 7)),
            (gap(3, 7), gap(7, 9), gap(3, 9)),
            (gap(3, 7), gap(1, 9), gap(1, 9)),
            (gap(3, 7), gap(8, 9), gap(8, 9)),
        ];
        for (earlier, later, expected) in cases {
            assert_eq!(earlier.and(later), expected, "{earlier:?} {later:?}");
        }
    }

    #[test]
    fn it_covers_what_lies_within() {
        let covered = |sealed, first| gap(3, 7).covers(sealed, first);
        assert!(covered(3, 7) && covered(4, 6) && covered(7, 7));
        assert!(!covered(2, 7) && !covered(3, 8) && !Gap::default().covers(1, 2));
    }
}
