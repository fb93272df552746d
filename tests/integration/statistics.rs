//! Measures the rates that are promised. Seeds are fixed, so the figures are the same at every run.

use hapax::seam::Digester;
use hapax::seam::HistoryTier;
use hapax::{Dedup, Int, Outcome, Timestamp};
use std::time::Duration;
use testkit::long;

const HOUR: Duration = Duration::from_secs(3600);

/// Returns the plausible range of a count that is expected to be `mean`: six deviations more or
/// less.
fn plausible(mean: f64) -> std::ops::RangeInclusive<f64> {
    let margin = 6.0 * mean.sqrt() + 2.0;
    mean - margin..=mean + margin
}

/// Returns the false positives of a history that is as full as it may be: both generations hold as
/// many ids as it was made for.
fn false_positive_rate(rate: f64, ids: u64, asked: u64) -> f64 {
    let seed = 17;
    println!("rate {rate}, {ids} ids, seed {seed}");
    let digester = Digester::with_seed(seed);
    let digest = |id: u64| digester.digest(id.to_le_bytes());
    let history = HistoryTier::new(HOUR, rate, ids as usize).unwrap();
    // The second generation begins with the first insertion after the horizon and its slack.
    for (generation, at) in [Timestamp::from_secs(1_000_000), Timestamp::from_secs(1_004_000)].into_iter().enumerate() {
        let first = generation as u64 * ids;
        (first..first + ids).for_each(|id| history.insert(digest(id), at));
    }
    // No false negative, in either generation.
    assert!((0..2 * ids).step_by((ids / 500).max(1) as usize).all(|id| history.contains(digest(id))));
    let found = (0..asked).filter(|i| history.contains(digest(u64::MAX - i))).count();
    let measured = found as f64 / asked as f64;
    let estimated = history.stats().false_positive_rate;
    println!("  measured {measured:.3e}, estimated {estimated:.3e}");
    if found > 1_000 {
        assert!(
            (0.9..1.1).contains(&(estimated / measured)),
            "the history knows its rate: {estimated}, not {measured}"
        );
    }
    measured
}

#[test]
fn the_false_positive_rate_is_what_was_asked_for() {
    let rates = [
        (1e-1, long(30_000, 200_000)),
        (1e-2, long(60_000, 400_000)),
        (1e-3, long(120_000, 2_000_000)),
        (1e-4, long(200_000, 8_000_000)),
        (1e-5, long(300_000, 16_000_000)),
        (1e-6, long(600_000, 30_000_000)),
    ];
    for (rate, asked) in rates {
        // The smaller the history, the more its blocks differ from the mean, so the larger the
        // deviation by chance.
        let many = long(80_000, 1_000_000);
        for ids in [1_000, 30_000, many] {
            let measured = false_positive_rate(rate, ids, asked);
            let limit = *plausible(1.1 * rate * asked as f64).end() / asked as f64;
            assert!(measured <= limit, "{measured:.3e} at a configured {rate:e} with {ids} ids");
            if ids == many {
                assert!(
                    measured > 0.8 * rate - 3.0 * (rate / asked as f64).sqrt(),
                    "{measured:.3e}: larger than it must be"
                );
            }
        }
    }
}

#[test]
fn a_burst_of_all_ids_at_once_keeps_the_rate() {
    let digester = Digester::with_seed(23);
    let history = HistoryTier::new(HOUR, 1e-3, 100_000).unwrap();
    let at = Timestamp::from_secs(5);
    (0..100_000_u64).for_each(|id| history.insert(digester.digest(id.to_le_bytes()), at));
    let found = (0..1_000_000_u64).filter(|i| history.contains(digester.digest((u64::MAX - i).to_le_bytes()))).count();
    assert!(found <= 1_100, "{found} in a million");
}

#[test]
fn an_overfull_history_reports_the_rate_that_it_has() {
    let digester = Digester::with_seed(29);
    let history = HistoryTier::new(HOUR, 1e-3, 10_000).unwrap();
    (0..30_000_u64).for_each(|id| history.insert(digester.digest(id.to_le_bytes()), Timestamp::from_secs(5)));
    let asked = 100_000;
    let found = (0..asked).filter(|i| history.contains(digester.digest((u64::MAX - i).to_le_bytes()))).count();
    let (measured, reported) = (found as f64 / asked as f64, history.stats().false_positive_rate);
    assert!(measured > 5e-3 && (0.9..1.1).contains(&(reported / measured)), "{reported} reported, {measured} measured");
}

#[test]
fn generations_turn_without_forgetting() {
    // Runs twenty horizons of steady traffic: every id is found for a horizon, and none forever.
    // New ids are found no more often than the rate.
    let digester = Digester::with_seed(31);
    let digest = |id: u64| digester.digest(id.to_le_bytes());
    let per_second = long(10, 20);
    let history = HistoryTier::new(HOUR, 1e-4, 3_600 * per_second as usize).unwrap();
    let seconds = 20 * 3_600_u64;
    let mut inserted = vec![];
    for second in 0..seconds {
        let at = Timestamp::from_secs(second);
        let ids = second * per_second..(second + 1) * per_second;
        inserted.extend(ids.map(|id| history.check(digest(id), at) == Outcome::Fresh));
        for age in [1, 60, 1_800, 3_599, 3_600].into_iter().filter(|age| *age <= second) {
            let id = (second - age) * per_second;
            assert!(history.contains(digest(id)) || !inserted[id as usize], "{age} s old");
        }
    }
    let coincidences = inserted.iter().filter(|inserted| !**inserted).count();
    let limit = *plausible(1e-4 * (seconds * per_second) as f64).end();
    assert!(coincidences as f64 <= limit, "{coincidences} of {} were taken for known", seconds * per_second);
    let remembered =
        |age: u64| (0..1_000).filter(|i| history.contains(digest((seconds - age) * per_second - i))).count();
    assert!(remembered(3_600) >= 999);
    assert!(remembered(3 * 3_600) < 10);
}

#[test]
fn at_most_three_in_a_million_are_lost_at_the_rated_capacity() {
    let (capacity, windows, seed) = (long(200_000_u64, 500_000), long(4, 10), 41);
    let dedup = Dedup::builder().window(100 * HOUR).capacity(capacity as usize).seed(seed).build().unwrap();
    let hours = 100 * windows;
    let per_hour = capacity / 100;
    let mut verdicts = Vec::new();
    for hour in 0..hours {
        let ids = (hour * per_hour..(hour + 1) * per_hour).map(Int::from);
        dedup.check_batch_at(ids, Timestamp::from_secs(hour * 3_600), &mut verdicts);
    }
    let inserted = capacity * windows;
    // Ids that were counted as lost may have been expired for all but the slowest clock; missed ids
    // were truly lost.
    let evicted = dedup.stats().window.evicted_live;
    let live = (hours - 100) * per_hour..hours * per_hour;
    let missed = live.filter(|id| dedup.contains(Int::from(*id)).is_none()).count() as u64;
    println!("{inserted} inserted, {evicted} evicted, {missed} of the last window missed, seed {seed}");
    assert_eq!(dedup.stats().window.live, capacity - missed);
    assert!(evicted as f64 <= 1e-6 * inserted as f64, "{evicted} of {inserted}");
    assert!(missed <= evicted);
}

#[test]
fn memory_is_twenty_one_bytes_an_id() {
    for capacity in [50_000, 1_000_000, 10_000_000] {
        let bytes = Dedup::builder().capacity(capacity).build().unwrap().stats().bytes;
        let each = bytes as f64 / capacity as f64;
        // The memory of an engine without any id: counters, the claims' shards, round keys.
        assert!(each <= 21.2 + 28_500.0 / capacity as f64, "{each} bytes for each of {capacity}");
    }
}
