//! Measures what each adapter gains over checks one by one: iterators that read ahead or check
//! ahead, and `retain_fresh`, beside the batches that they consist of.
//!
//! `cargo bench -p hapax-bench --bench adapters [-- LIVE [HISTORY]]`. Each round fills an empty
//! engine with LIVE ids of 8 bytes (by default 100,000, 1 and 10 million), a tenth more of which
//! are duplicates, once by each way, in turns; HISTORY, if it is not 0, adds a history. The answers
//! are counted, so that a wrong one cannot be fast.

use hapax::{Dedup, DedupIterator, Int, Prepared, Verdict};
use std::time::{Duration, Instant};

const BATCH: usize = 1_024;
const WINDOW: Duration = Duration::from_secs(3_600);
/// The number of ids that all rounds of one way check together.
const IDS: usize = 20_000_000;
/// The reach of duplicates: one of the last so many new ids.
const REACH: u64 = 10_000;

/// A way to check ids; returns the number of fresh ones.
type Check = fn(&Dedup, Vec<u64>) -> usize;

const WAYS: [(&str, Check); 6] = [
    ("check, one by one", |dedup, ids| ids.iter().filter(|id| dedup.check(Int::from(**id)).is_fresh()).count()),
    ("dedup_by, read_ahead(0)", |dedup, ids| {
        looped(ids.into_iter().dedup_by(dedup, |id| prepared(dedup, *id)).read_ahead(0))
    }),
    ("dedup_by", |dedup, ids| looped(ids.into_iter().dedup_by(dedup, |id| prepared(dedup, *id)))),
    ("dedup_by, check_ahead(255)", |dedup, ids| {
        looped(ids.into_iter().dedup_by(dedup, |id| prepared(dedup, *id)).check_ahead(255))
    }),
    ("retain_fresh_by", |dedup, mut ids| {
        dedup.retain_fresh_by(&mut ids, |id| prepared(dedup, *id));
        ids.len()
    }),
    ("check_batch", |dedup, ids| {
        let mut verdicts: Vec<Verdict> = Vec::new();
        let of_batch = |ids: &[u64]| {
            dedup.check_batch(ids.iter().map(|id| prepared(dedup, *id)), &mut verdicts);
            verdicts.iter().filter(|verdict| verdict.is_fresh()).count()
        };
        ids.chunks(BATCH).map(of_batch).sum()
    }),
];

fn main() {
    let args: Vec<usize> = std::env::args().skip(1).filter_map(|arg| arg.replace('_', "").parse().ok()).collect();
    let with_history = args.get(1).is_some_and(|history| *history > 0);
    let lives = args.first().map_or_else(|| vec![100_000, 1_000_000, 10_000_000], |live| vec![*live]);
    lives.into_iter().for_each(|live| measure(live, with_history));
}

fn measure(live: usize, with_history: bool) {
    let ids = ids(live);
    let rounds = (IDS / live).clamp(3, 31);
    let mut times = WAYS.map(|_| Vec::new());
    for _ in 0..rounds {
        for ((name, check), times) in WAYS.iter().zip(&mut times) {
            let (dedup, ids) = (engine(live, with_history), ids.clone());
            let (began, checked) = (Instant::now(), ids.len());
            let fresh = check(&dedup, ids);
            times.push(began.elapsed().as_nanos() as f64 / checked as f64);
            // A history takes some new ids for old ones.
            let allowed = if with_history { live / 200 } else { 0 };
            assert!(fresh.abs_diff(live) <= allowed, "{name}: {fresh} of {live} are fresh");
        }
    }
    println!("{live} live ids{}, {rounds} rounds", if with_history { ", with a history" } else { "" });
    for ((name, _), mut times) in WAYS.iter().zip(times) {
        times.sort_by(f64::total_cmp);
        let (least, median, most) = (times[0], times[rounds / 2], times[rounds - 1]);
        println!("{name:36} {median:6.1} ({least:.1} to {most:.1}) ns an id");
    }
}

/// Returns an engine that loses none of these ids.
fn engine(live: usize, with_history: bool) -> Dedup {
    let builder = Dedup::builder().window(WINDOW).capacity(live * 3 / 2);
    let builder = if with_history { builder.history(2 * WINDOW, 1e-3, 2 * live) } else { builder };
    builder.build().expect("there is memory for it")
}

/// Returns so many different ids, and one that comes again after each nine of them.
fn ids(live: usize) -> Vec<u64> {
    let mix = hapax::tier::random::mix;
    let with_duplicate = |n: u64| [Some(n), (n % 9 == 8).then(|| n - mix(n) % REACH.min(n))];
    (0..live as u64).flat_map(with_duplicate).flatten().map(mix).collect()
}

fn prepared(dedup: &Dedup, id: u64) -> Prepared {
    dedup.prepare(Int::from(id))
}

/// Counts as a loop does, with `next`.
fn looped(fresh: impl Iterator<Item = u64>) -> usize {
    let mut count = 0;
    for _ in fresh {
        count += 1;
    }
    count
}
