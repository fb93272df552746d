//! The decision when a window needs another table, and of what size: by a survey of the newest one.
//! Pure.

use super::sizes::{RATED_LOAD, Sizes, capacity_of};

/// The share of its slots at which a table is full if nothing may be lost until there is another
/// one: of ids that fill it for the first time, 3 in 10^9 have been lost by then.
const LOSSLESS_LOAD: f64 = 0.326;

/// The share of its capacity that this is.
pub const LOSSLESS_SHARE: f64 = LOSSLESS_LOAD / RATED_LOAD;

/// The conditions under which a table is full, unless there is a rush.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Full {
    /// The share of its slots that live entries take.
    load: f64,
    /// The sign that a look is worthwhile: the number of entries per bucket that were displaced
    /// since the last one.
    pub(crate) displaced_a_bucket: f64,
}

impl Full {
    /// The conditions a quarter beyond the rated capacity, so that a window whose capacity was
    /// chosen well keeps its table: there, 8 ids in a million are lost. (Half as many looks let a
    /// rush on a busy machine lose ids.)
    pub(crate) const RATED: Full = Full { load: 0.48, displaced_a_bucket: 1.0 / 128.0 };
    pub(crate) const LOSSLESS: Full = Full { load: LOSSLESS_LOAD, displaced_a_bucket: 1.0 / 512.0 };
}

/// The share of the window within which a table fills in a rush: at more than twice the rated rate.
pub(crate) const RUSH: f64 = 1.0 / 3.0;

/// The same sign if there may be a rush: ids that fill a table for the first time have displaced
/// this many when it is at three quarters of its rated capacity.
pub(crate) const DISPLACED_IN_A_RUSH: f64 = 1.0 / 2048.0;

/// The share of the window over which the rate of ids is measured, to decide whether less memory
/// would do. (A table that is replaced after this share of a window has expired before two windows
/// have passed.)
pub(crate) const RECENTLY: f64 = 0.75;

/// The results of a sample of the newest table's buckets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Survey {
    /// The number of its size.
    pub(crate) size: usize,
    /// The share of its slots that live entries take.
    pub(crate) load: f64,
    /// The share of its slots that were written within the last [`RECENTLY`] of the window.
    pub(crate) recent: f64,
    /// The share of its slots that were written within the last [`RUSH`] of the window.
    pub(crate) rushed: f64,
    /// The share of a window that has passed since it was started.
    pub(crate) age: f64,
}

impl Survey {
    /// Returns true if ids may be coming faster than the table is rated for.
    pub(crate) fn may_become_rush(&self) -> bool {
        !self.is_first() && self.rushed > LOSSLESS_LOAD * 0.67
    }

    /// Returns true if it is time to make the next table ready, in case of a rush.
    pub(crate) fn is_rush_ahead(&self) -> bool {
        !self.is_first() && self.rushed > LOSSLESS_LOAD * 0.87
    }

    /// Returns true if ids come so fast that the table will be overfull long before the first of
    /// them expire. Then there is no point in waiting until it loses some.
    pub(crate) fn is_rush(&self) -> bool {
        // As many ids as the capacity, at once, are what it was chosen for; of ids that fill a
        // table for the first time, 3 in ten million are lost until it is at a quarter more.
        let full = if self.is_first() { Full::RATED } else { Full::LOSSLESS };
        self.rushed > full.load
    }

    /// Returns true if the table has so much room that it would be full once in a thousand times,
    /// were this a quick survey.
    pub(crate) fn has_room(&self, full: Full) -> bool {
        self.load < full.load - 0.033
    }

    /// Returns true if the table is of the size that was asked for: it has room for the capacity.
    pub(crate) fn is_first(&self) -> bool {
        self.size == 0
    }

    /// Returns the size of the table to start now, if any.
    pub(crate) fn wants(&self, sizes: &Sizes, full: Full) -> Option<usize> {
        if self.load > full.load || self.is_rush() {
            return (self.size + 1 < sizes.count()).then_some(self.size + 1);
        }
        // As many as will be live if ids go on to come at this rate; and half of the table empty,
        // to begin with.
        let recent = self.recent / RATED_LOAD * capacity_of(sizes.buckets(self.size));
        let size = sizes.for_live(2.0 * recent / RECENTLY);
        (self.age >= RECENTLY && size < self.size).then_some(size)
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::window::growth::sizes::buckets_for;

    #[test]
    fn tables_grow_when_full_and_shrink_when_little_has_come_for_a_while() {
        let sizes = Sizes::new(buckets_for(1_000_000).unwrap(), 1 << 30);
        let wants =
            |size, load, recent, age| Survey { size, load, recent, rushed: 0.2, age }.wants(&sizes, Full::RATED);
        assert_eq!(wants(0, RATED_LOAD, RATED_LOAD * RECENTLY, 5.0), None);
        assert_eq!([wants(0, 0.47, 0.3, 5.0), wants(0, 0.481, 0.3, 5.0)], [None, Some(1)]);
        assert_eq!(wants(3, 0.481, 0.3, 0.01), Some(4));
        assert_eq!(wants(4, 0.9, 0.6, 0.5), None, "there is no larger one");
        assert_eq!(wants(4, 0.3, 0.001, 0.5), None, "too early to tell");
        assert_eq!(wants(4, 0.3, 0.0, 0.75), Some(0));
        assert_eq!(wants(4, 0.4, 0.4, 9.0), None);
        let rushed =
            |size, rushed| Survey { size, load: rushed, recent: rushed, rushed, age: 0.1 }.wants(&sizes, Full::RATED);
        assert_eq!([rushed(0, 0.47), rushed(0, 0.481)], [None, Some(1)], "the capacity is what it is made for");
        assert_eq!([rushed(1, 0.3), rushed(1, 0.33), rushed(4, 0.9)], [None, Some(2), None]);
        // A steady rate for which a size is large enough is not one for which it is too large, nor
        // the next one too small.
        for size in 1..sizes.count() {
            for load in 1..47 {
                let load = f64::from(load) / 100.0;
                let Some(smaller) = wants(size, load, load * RECENTLY, 3.0) else { continue };
                let load = load * sizes.buckets(size) as f64 / sizes.buckets(smaller) as f64;
                assert!(load <= RATED_LOAD / 1.99, "{load}");
                assert_eq!(wants(smaller, load, load * RECENTLY, 3.0), None);
            }
        }
    }
}
