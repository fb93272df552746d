//! Decides what is merged and what has expired, and says what all of it takes. Pure.

use super::encoding::filter::lines_for;
use super::encoding::format::{INDEX_BYTES, LINE_BYTES};
use super::encoding::key::{MARK_BITS, PLACE_BITS};
use super::encoding::page::PAGE_BYTES;
use crate::Timestamp;
use crate::mutation::{Rule, obeys};
use std::ops::Range;
use std::time::Duration;

/// The most segments that are live while merges keep pace.
pub const LIVE_MAX: usize = 10;

/// The most spans that may be sealed in one retention, so that no more than [`LIVE_MAX`] segments
/// are live and no id is written more than three times.
pub const SPANS_PER_RETENTION_MAX: u64 = 36;

/// The number of segments of a level that become one of the next level.
const FAN_IN: usize = 3;

/// The level from which segments are merged only if there are too many: an id that is there was
/// written three times.
const TOP_LEVEL: u64 = 2;

/// A live segment, as the plan sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Live {
    /// The number of its records.
    pub(super) records: u64,
    /// The number of times that they were merged.
    pub(super) level: u64,
}

/// Returns the segments to be merged next, of all that are live, the oldest first; `None` if none
/// need be.
///
/// Three neighbours of a level become one of the next, twice. So at 36 spans in a retention there
/// are four of the top level and one that expires, two of the level below, and three of the spans
/// themselves. Where there are more spans than that, those segments are merged that cost least.
pub(super) fn plan_merge(live: &[Live]) -> Option<Range<usize>> {
    for level in 0..TOP_LEVEL {
        if let Some(run) = run_of(live, level) {
            return Some(run);
        }
    }
    // One is sealed while the others are merged.
    if live.len() + 1 < LIVE_MAX {
        return None;
    }
    let ranges = (0..live.len()).flat_map(|start| (start + 2..=live.len()).map(move |end| start..end));
    ranges.min_by_key(|range| cost(&live[range.clone()]))
}

/// Returns what a merge costs for each segment that is gone then. It counts for more, the larger
/// one of them is beside all others: that one would be written again and again for little.
fn cost(sources: &[Live]) -> u128 {
    let records = || sources.iter().map(|source| u128::from(source.records) + 1);
    let (sum, most) = (records().sum::<u128>(), records().max().unwrap_or(0));
    sum.saturating_mul(most) / (sum - most).max(1) / (sources.len() as u128 - 1).max(1)
}

/// Returns the neighbours of a level, if there are enough to be merged.
fn run_of(live: &[Live], level: u64) -> Option<Range<usize>> {
    let mut start = 0;
    for end in 0..=live.len() {
        if live.get(end).is_some_and(|live| live.level == level) {
            continue;
        }
        if end - start >= FAN_IN {
            return Some(start..end);
        }
        start = end + 1;
    }
    None
}

/// Returns true if an id that was accepted at a time is out of retention.
pub(super) fn is_out(time: Timestamp, now: Timestamp, retention: Duration) -> bool {
    let passed = now.since(time);
    if obeys(Rule::WholeRetention) { passed >= retention } else { passed + Duration::from_nanos(1) >= retention }
}

/// Returns how many of the oldest segments have expired, by the last time of each (`None`: it has
/// tombstones alone).
///
/// A segment goes only if all older ones do: it may have what undoes their records.
pub(super) fn plan_expiry(lasts: &[Option<Timestamp>], now: Timestamp, retention: Duration) -> Vec<usize> {
    let has_expired = |last: &Option<Timestamp>| last.is_none_or(|last| is_out(last, now, retention));
    if obeys(Rule::OldestFirst) {
        (0..lasts.iter().take_while(|last| has_expired(last)).count()).collect()
    } else {
        (0..lasts.len()).filter(|i| has_expired(&lasts[*i])).collect()
    }
}

/// The memory and the disk that segments take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Needs {
    /// The bytes of filters and tables of pages.
    pub memory_bytes: u64,
    /// The bytes of files.
    pub disk_bytes: u64,
    /// The memory on average, with ids of the oldest segment that are out of retention.
    pub memory_bytes_mean: u64,
    /// The disk on average, with these ids, too.
    pub disk_bytes_mean: u64,
    /// The memory while the largest merge is under way.
    pub memory_bytes_max: u64,
    /// The disk while the largest merge is under way, with ids of the oldest segment that are out
    /// of retention.
    pub disk_bytes_max: u64,
}

impl Needs {
    /// Returns what takes to know `ids` for a retention, if so many spans are sealed in it.
    ///
    /// ```
    /// use hapax::segments::Needs;
    ///
    /// let needs = Needs::of(1_000_000_000, 36);
    /// assert!(needs.memory_bytes < 1_800 << 20 && needs.disk_bytes < 14_000_000_000);
    /// ```
    pub fn of(ids: u64, spans: u64) -> Self {
        // (More spans than these change nothing any more, and take long to go through.)
        let spans = spans.clamp(1, 1 << 12);
        let each = ids.div_ceil(spans);
        let mut needs = Needs::default();
        let (mut memory_mean, mut disk_mean) = (0, 0);
        // As many as three retentions, of segments by records, level, and the last span in each.
        let mut live: Vec<(Live, u64)> = Vec::new();
        let total = |live: &[(Live, u64)], size: fn(u64) -> u64| -> u64 {
            live.iter().map(|(live, _)| size(live.records)).fold(0, u64::saturating_add)
        };
        for span in 0..3 * spans {
            live.push((Live { records: each, level: 0 }, span));
            live.retain(|(_, last)| last + spans > span);
            while let Some(range) = plan_merge(&live.iter().map(|live| live.0).collect::<Vec<_>>()) {
                let (sources, last) = (&live[range.clone()], live[range.end - 1].1);
                let records = sources.iter().map(|source| source.0.records).fold(0, u64::saturating_add);
                let level = sources.iter().map(|source| source.0.level).max().unwrap_or(0) + 1;
                let merged = (Live { records, level }, last);
                let [memory, disk] = [total(&live, memory_bytes), total(&live, disk_bytes)];
                needs.memory_bytes_max = needs.memory_bytes_max.max(memory.saturating_add(memory_bytes(records)));
                needs.disk_bytes_max = needs.disk_bytes_max.max(disk.saturating_add(disk_bytes(records)));
                live.splice(range, [merged]);
            }
            if span >= spans {
                memory_mean += u128::from(total(&live, memory_bytes));
                disk_mean += u128::from(total(&live, disk_bytes));
            }
        }
        let mean = |sum: u128| u64::try_from(sum / (2 * u128::from(spans))).unwrap_or(u64::MAX);
        (needs.memory_bytes_mean, needs.disk_bytes_mean) = (mean(memory_mean), mean(disk_mean));
        let share = |bytes: u64| {
            let records = total(&live, |records| records).max(1);
            u64::try_from(u128::from(bytes) * u128::from(ids) / u128::from(records)).unwrap_or(u64::MAX)
        };
        needs.memory_bytes = share(total(&live, memory_bytes));
        needs.disk_bytes = share(total(&live, disk_bytes));
        needs.memory_bytes_max = needs.memory_bytes_max.max(needs.memory_bytes);
        needs.disk_bytes_max = needs.disk_bytes_max.max(needs.disk_bytes);
        needs
    }
}

/// Returns the number of records in a page of a segment of so many.
fn records_per_page(records: u64) -> u64 {
    // The width is about the bits of the range of a page, and one more.
    let pages = (records / 340).max(1);
    let width = u64::from(PLACE_BITS).saturating_sub(u64::from(pages.ilog2())) + 1;
    (8 * (PAGE_BYTES as u64 - 16) / (width.min(u64::from(PLACE_BITS)) + u64::from(MARK_BITS) + 16)).max(1)
}

/// Returns the bytes of memory of a segment.
fn memory_bytes(records: u64) -> u64 {
    let pages = records.div_ceil(records_per_page(records));
    lines_for(records).saturating_mul(LINE_BYTES as u64).saturating_add(pages.saturating_mul(INDEX_BYTES as u64))
}

/// Returns the bytes of a segment's file.
fn disk_bytes(records: u64) -> u64 {
    let pages = records.div_ceil(records_per_page(records));
    memory_bytes(records).saturating_add(pages.saturating_mul(PAGE_BYTES as u64))
}

#[cfg(all(test, not(any(modelled, alone))))]
mod tests {
    use super::*;
    use crate::random::Random;

    /// The life of a load: spans of random sizes.
    fn live(random: &mut Random, spans: u64, sizes: impl Fn(&mut Random) -> u64) -> (usize, f64) {
        let (mut live, mut most, mut sealed, mut written): (Vec<(Live, u64)>, _, _, _) = (vec![], 0, 0, 0);
        for span in 0..12 * spans {
            let records = sizes(random);
            sealed += records;
            written += records;
            live.push((Live { records, level: 0 }, span));
            live.retain(|(_, last)| last + spans > span);
            most = most.max(live.len());
            while let Some(range) = plan_merge(&live.iter().map(|live| live.0).collect::<Vec<_>>()) {
                assert!(range.len() > 1);
                let sources = &live[range.clone()];
                let records = sources.iter().map(|source| source.0.records).sum();
                let level = sources.iter().map(|source| source.0.level).max().unwrap() + 1;
                let merged = (Live { records, level }, live[range.end - 1].1);
                written += records;
                live.splice(range, [merged]);
            }
        }
        (most, written as f64 / sealed as f64)
    }

    #[test]
    fn ten_are_live_at_most_and_an_id_is_written_three_times() {
        let seed = 31;
        println!("seed {seed}");
        let mut random = Random::new(seed);
        for spans in 1..=SPANS_PER_RETENTION_MAX {
            for shape in 0..4 {
                let sizes = move |random: &mut Random| match shape {
                    0 => 1_000,
                    1 => 500 + random.below(1_000),
                    2 => 1 + random.below(2_000),
                    _ => {
                        if random.chance(20) {
                            1 + random.below(20)
                        } else {
                            1_000
                        }
                    }
                };
                let (most, amplification) = live(&mut random, spans, sizes);
                assert!(most <= LIVE_MAX, "{most} are live, at {spans} spans of shape {shape}");
                let most = if shape == 0 { 3.0 } else { 3.15 };
                assert!(amplification <= most, "{amplification} at {spans} spans of shape {shape}");
            }
        }
        // Beyond that as many are live, and ids are written more often.
        for spans in [50, 100, 300] {
            let (most, amplification) = live(&mut random, spans, |random| 1 + random.below(2_000));
            println!("{spans} spans: written {amplification:.2} times");
            assert!(most <= LIVE_MAX && amplification < 6.0, "{most}, {amplification}");
        }
    }

    #[test]
    fn a_segment_expires_to_the_nanosecond_and_not_before_those_that_are_older() {
        let [at, retention] = [Timestamp::from_secs(100), Timestamp::from_secs(60)];
        let retention = Duration::from_nanos(retention.as_nanos());
        let last = Timestamp::from_secs(40);
        assert!(is_out(last, at, retention));
        assert!(!is_out(Timestamp::from_nanos(last.as_nanos() + 1), at, retention));
        let [old, new] = [Some(last), Some(at)];
        assert_eq!(plan_expiry(&[old, old, new, old, None], at, retention), [0, 1]);
        assert_eq!(plan_expiry(&[None, old, None], at, retention), [0, 1, 2]);
        assert!(plan_expiry(&[new, old], at, retention).is_empty());
    }

    #[test]
    fn a_billion_ids_take_less_than_two_and_a_quarter_gigabytes_of_memory_and_eighteen_of_disk() {
        let needs = Needs::of(1_000_000_000, SPANS_PER_RETENTION_MAX);
        println!("{needs:?}");
        assert!(needs.memory_bytes <= needs.memory_bytes_max && needs.memory_bytes_max <= 2_250_000_000);
        assert!(needs.disk_bytes <= needs.disk_bytes_max && needs.disk_bytes_max <= 18_000_000_000);
        for (ids, spans) in [(0, 0), (1, 1), (u64::MAX, 1), (u64::MAX, u64::MAX), (7, 40)] {
            let needs = Needs::of(ids, spans);
            assert!(needs.memory_bytes <= needs.memory_bytes_max && needs.disk_bytes <= needs.disk_bytes_max);
        }
    }
}
