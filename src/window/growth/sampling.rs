//! The look at the newest table, and the time of the next one.

#![allow(clippy::cast_possible_truncation, reason = "shares of numbers of ticks and of buckets")]

use super::Growth;
use super::budget::size_at;
use crate::window::bits::slot::SLOTS;
use crate::window::checks::kernel::Kernel;
use crate::window::growth::survey::{DISPLACED_IN_A_RUSH, RECENTLY, RUSH, Survey};
use crate::window::table_set::trigger::GrowthTrigger;

/// The time of the next look at the newest table.
#[derive(Clone, Copy)]
pub(super) enum Again {
    /// Early enough for the next table to be ready in time if there is a rush. (The first table has
    /// room for that: a rush has to fill it beyond its capacity.)
    Soon,
    /// At the present rate of ids no table will be needed before that.
    Later,
    /// After a survey that has asked for a table in vain: it is not repeated before something has
    /// changed.
    InVain,
}

/// The number of entries per bucket that are displaced before it is tried again to get a table that
/// could not be had: far fewer than an overfull table displaces before it loses a noticeable part …
const DISPLACED_IN_VAIN: f64 = 1.0 / 16.0;
/// … and this many at least, in the sample: asking how much memory is available takes as long as
/// some hundred checks.
const DISPLACED_IN_VAIN_MIN: u64 = 256;

impl Growth {
    /// Looks at some of the newest table's buckets.
    pub(super) fn survey(&self, buckets: usize) -> Survey {
        let newest = self.tables.roster().newest();
        let (now, window_ticks) = (self.tables.shared.latest(), self.tables.shared.window_ticks);
        let ticks = [1.0, RECENTLY, RUSH].map(|share| (window_ticks as f64 * share) as u64);
        let (mut counts, mut slots, kernel) = ([0; 3], 0, Kernel::best());
        for (ages, buckets) in self.tables.table(newest).sample(buckets, now) {
            slots += buckets.len() * SLOTS;
            let younger = kernel.count_younger(buckets, ages, ticks);
            counts.iter_mut().zip(younger).for_each(|(count, younger)| *count += younger);
        }
        let [load, recent, rushed] = counts.map(|count| f64::from(count) / slots as f64);
        let started = self.tables.times(newest).started;
        Survey {
            size: size_at(newest),
            load,
            recent,
            rushed,
            age: now.saturating_sub(started) as f64 / window_ticks as f64,
        }
    }

    /// Sets the time of the next look.
    pub(super) fn set_trigger(&self, again: Again) {
        let roster = self.tables.roster();
        let (newest, now) = (roster.newest(), self.tables.shared.latest());
        let size = size_at(newest);
        let buckets = self.tables.table(newest).buckets();
        let sample = GrowthTrigger::sample(buckets);
        let sampled = |displaced_a_bucket: f64| (((buckets / sample) as f64 * displaced_a_bucket) as u64).max(1);
        let displaced_max = match again {
            _ if size + 1 == self.sizes.count() => u64::MAX,
            Again::Soon if size > 0 => sampled(DISPLACED_IN_A_RUSH),
            Again::Soon | Again::Later => sampled(self.full.displaced_a_bucket),
            Again::InVain => sampled(DISPLACED_IN_VAIN).max(DISPLACED_IN_VAIN_MIN),
        };
        let expires = (!roster.is_single()).then(|| self.tables.expires(roster.oldest()));
        // Often enough for memory to be given back before two windows are over.
        let (window_ticks, started) = (self.tables.shared.window_ticks, self.tables.times(newest).started);
        let recently = (window_ticks as f64 * RECENTLY).ceil() as u64;
        let may_shrink = (size > 0 || self.state().spare.is_some())
            .then(|| started.saturating_add(recently).max(now.saturating_add(window_ticks / 16)));
        let due = expires.into_iter().chain(may_shrink).min().unwrap_or(u64::MAX);
        self.tables.shared.trigger.set(sample, displaced_max, due.max(now + 1));
    }

    /// Returns true if a table was made ready for a rush that is over.
    pub(super) fn has_needless_spare(&self, survey: &Survey) -> bool {
        survey.age >= 1.0 && !survey.is_rush() && self.state().spare.is_some()
    }
}
