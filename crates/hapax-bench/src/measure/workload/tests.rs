//! Streams are what their settings say, and their truth is true.

use super::truth::{Certain, Ledger};
use super::*;
use crate::measure::{IdKind, Workload};
use crate::strategy::Id;
use std::collections::{HashMap, HashSet};

const WINDOWS: usize = 6;

fn setting(shape: Shape, duplicates: f64, distance_windows: f64) -> Setting {
    let workload = Workload { shape, duplicates, distance_windows };
    let (live, threads) = (3_003, 1);
    Setting { workload, ids: IdKind::U64, live, threads, batch: 1, rate: None }
}

const SHAPES: [Shape; 4] = [Shape::Uniform, Shape::Rebalance, Shape::RetryStorm, Shape::Prefixes];

fn streams_of(setting: &Setting, seed: u64) -> Vec<Stream<Vec<u64>>> {
    println!("seed {seed}, {:?}", setting.workload);
    streams(setting, seed, WINDOWS * WINDOW_TICKS).unwrap()
}

/// Returns how many new ids came since each redelivered one was new.
fn distances(stream: &Stream<Vec<u64>>) -> Vec<usize> {
    let mut new = HashMap::new();
    let checks = stream.ids.iter().zip(&stream.truth);
    checks
        .filter_map(|(id, truth)| match truth {
            Truth::New => {
                new.insert(*id, new.len());
                None
            }
            _ => Some(new.len() - new[id]),
        })
        .collect()
}

#[test]
fn every_window_brings_as_many_new_ids_as_are_live() {
    for (seed, shape) in (1..).zip(SHAPES) {
        for threads in [1, 2, 3] {
            let setting = Setting { threads, ..setting(shape.clone(), 0.3, 0.4) };
            let streams = streams_of(&setting, seed);
            for window in 0..WINDOWS {
                let ticks = window * WINDOW_TICKS..(window + 1) * WINDOW_TICKS;
                let new: usize = streams.iter().map(|stream| stream.fresh_ids(ticks.clone()).count()).sum();
                assert_eq!(new, setting.live);
            }
            let all: Vec<HashSet<u64>> = streams.iter().map(|stream| stream.ids.iter().copied().collect()).collect();
            let one_by_one = all.iter().map(HashSet::len).sum::<usize>();
            assert_eq!(one_by_one > WINDOWS * setting.live, threads > 1, "threads check each other's ids");
            assert_eq!(all.into_iter().flatten().collect::<HashSet<_>>().len(), WINDOWS * setting.live);
        }
    }
}

#[test]
fn duplicates_are_as_many_and_as_far_back_as_the_setting_says() {
    for (seed, shape) in (10..).zip(SHAPES) {
        for (share, distance) in [(0.0, 0.1), (0.02, 1.0), (0.1, 0.1), (0.5, 1.0), (0.95, 0.05)] {
            let setting = setting(shape.clone(), share, distance);
            let stream = &streams_of(&setting, seed)[0];
            let distances = distances(stream);
            let found = distances.len() as f64 / stream.truth.len() as f64;
            // One burst more or less; otherwise the deviation by chance.
            let burst = if shape == Shape::Rebalance { distance / WINDOWS as f64 } else { 0.015 };
            assert!((found - share).abs() <= burst * (1.0 - share) + 0.005, "{found} of {share}");
            assert!(stream.truth.iter().all(|truth| matches!(truth, Truth::New | Truth::Duplicate)));
            let reach = (distance * setting.live as f64).ceil() as usize;
            assert!(distances.iter().all(|far| *far <= reach), "{:?} of {reach}", distances.iter().max());
            if share >= 0.1 && matches!(shape, Shape::Uniform | Shape::Prefixes) {
                let mean = distances.iter().sum::<usize>() as f64 / distances.len() as f64;
                assert!((mean / reach as f64 - 0.5).abs() < 0.05, "{mean} on the average, of {reach}");
            }
            if share >= 0.1 {
                assert!(*distances.iter().max().unwrap() as f64 > 0.9 * reach as f64, "as far back as it goes");
            }
        }
    }
}

/// Computes the truth once more, from the ids alone, where threads check each other's ids.
fn confirm_shared<B: Ids>(streams: &[Stream<B>], seen: &mut [usize; 6]) {
    let mut all: HashMap<Vec<u8>, Vec<(usize, usize, Truth)>> = HashMap::new();
    for (thread, stream) in streams.iter().enumerate() {
        for tick in 0..WINDOWS * WINDOW_TICKS {
            for place in stream.tick(tick) {
                let id = stream.id(place).bytes().as_ref().to_vec();
                all.entry(id).or_default().push((tick, thread, stream.truth[place]));
                seen[stream.truth[place] as usize] += 1;
            }
        }
    }
    for (id, checks) in all {
        let is_new = |truth| matches!(truth, Truth::New | Truth::SharedNew);
        let new: Vec<_> = checks.iter().filter(|check| is_new(check.2)).collect();
        let [&(first, owner, new)] = new[..] else { panic!("{id:?}: {checks:?}") };
        let is_near = |tick, thread| thread != owner && tick <= first + LEAD_TICKS_MAX;
        let is_shared = checks.iter().any(|&(tick, thread, _)| is_near(tick, thread));
        assert_eq!(new == Truth::SharedNew, is_shared, "{id:?}: {checks:?}");
        for &(tick, thread, truth) in checks.iter().filter(|check| !is_new(check.2)) {
            let expected = match is_near(tick, thread) {
                true => Truth::SharedAgain,
                false => Certain::with_threads(streams.len()).after(tick - first),
            };
            assert_eq!(truth, expected, "{id:?}: {checks:?}");
        }
    }
}

/// Computes the truth once more, from the ids alone.
fn confirm<B: Ids>(streams: &[Stream<B>], seen: &mut [usize; 6]) {
    for stream in streams {
        let mut ledger = Ledger::new(Certain::with_threads(streams.len()));
        for tick in 0..WINDOWS * WINDOW_TICKS {
            for place in stream.tick(tick) {
                let truth = ledger.check(stream.id(place).bytes().as_ref().to_vec(), tick);
                assert_eq!(stream.truth[place], truth, "place {place}, tick {tick}");
                seen[truth as usize] += 1;
            }
        }
    }
}

#[test]
fn the_truth_follows_from_the_ids() {
    let mut seen = [0; 6];
    let shapes = SHAPES.into_iter().chain([0.0, 0.7, 1.0].map(|exponent| Shape::Zipf { exponent }));
    for (seed, shape) in (20..).zip(shapes) {
        for threads in [1, 2] {
            for distance in [0.1, 1.0] {
                let setting = Setting { threads, live: 800, ..setting(shape.clone(), 0.5, distance) };
                match (threads, &shape) {
                    (1, _) | (_, Shape::Zipf { .. }) => confirm(&streams_of(&setting, seed), &mut seen),
                    _ => confirm_shared(&streams_of(&setting, seed), &mut seen),
                }
            }
        }
    }
    assert!(seen.iter().all(|&times| times > 100), "all come: {seen:?}");
}

#[test]
fn all_kinds_of_ids_tell_the_same_story() {
    fn check<B: Ids>(ids: IdKind, shape: &Shape, expected: &[Truth]) {
        let setting = Setting { ids, live: 500, ..setting(shape.clone(), 0.5, 0.5) };
        let made = streams::<B>(&setting, 30, WINDOWS * WINDOW_TICKS).unwrap();
        assert_eq!(made[0].truth, expected, "{ids:?}");
        confirm(&made, &mut [0; 6]);
        let other = Setting { ids: if ids == IdKind::U64 { IdKind::Uuid } else { IdKind::U64 }, ..setting };
        assert!(streams::<B>(&other, 30, 1).is_err());
    }
    for shape in [Shape::Uniform, Shape::Prefixes, Shape::Zipf { exponent: 0.9 }] {
        let setting = Setting { live: 500, ..setting(shape.clone(), 0.5, 0.5) };
        let expected = &streams_of(&setting, 30)[0].truth;
        check::<Vec<u64>>(IdKind::U64, &shape, expected);
        check::<Vec<[u8; 16]>>(IdKind::Uuid, &shape, expected);
        for ids in [IdKind::UuidText, IdKind::Key200, IdKind::Bytes] {
            check::<Bytes>(ids, &shape, expected);
        }
    }
}

#[test]
fn the_seed_decides_everything() {
    for shape in SHAPES.into_iter().chain([Shape::Zipf { exponent: 0.9 }]) {
        let setting = Setting { threads: 2, ..setting(shape.clone(), 0.3, 0.4) };
        let ids = |seed| streams_of(&setting, seed).into_iter().map(|stream| stream.ids).collect::<Vec<_>>();
        assert_eq!(ids(40), ids(40));
        // Similar ids are the same at each seed; redeliveries are not, if they depend on chance.
        assert!(ids(40) != ids(41) || shape == Shape::Rebalance);
    }
}

#[test]
fn a_rebalance_brings_a_run_again_in_its_order() {
    let stream = &streams_of(&setting(Shape::Rebalance, 0.25, 0.2), 50)[0];
    let runs: Vec<&[Truth]> = stream.truth.chunk_by(|a, b| a == b).filter(|run| run[0] == Truth::Duplicate).collect();
    // There are three new ids for each redelivered one, after each 3 x 601 of 18,018.
    assert_eq!(runs.len(), 9);
    let mut place = 0;
    for run in stream.truth.chunk_by(|a, b| a == b) {
        if run[0] == Truth::Duplicate {
            assert_eq!(run.len(), 601);
            assert_eq!(stream.ids[place..place + 601], stream.ids[place - 601..place], "the last ones, in order");
        }
        place += run.len();
    }
}

#[test]
fn in_a_storm_few_ids_come_many_times_at_once() {
    let setting = Setting { live: 20_000, ..setting(Shape::RetryStorm, 0.2, 0.5) };
    let stream = &streams_of(&setting, 60)[0];
    let (mut place, mut storms) = (0, 0);
    for run in stream.truth.chunk_by(|a, b| a == b) {
        if run[0] == Truth::Duplicate {
            assert_eq!(run.len(), 256);
            let ids: HashSet<_> = stream.ids[place..place + 256].iter().collect();
            assert!(ids.len() <= 4, "{} ids", ids.len());
            storms += 1;
        }
        place += run.len();
    }
    // There are a quarter as many redeliveries as new ids.
    assert_eq!(storms, 20_000 * WINDOWS / 4 / 256);
}

#[test]
fn alike_means_alike() {
    let setting = setting(Shape::Prefixes, 0.1, 0.1);
    let stream = &streams_of(&setting, 70)[0];
    assert!(stream.ids.iter().all(|id| id.trailing_zeros() >= 24));
    let texts = streams::<Bytes>(&Setting { ids: IdKind::UuidText, ..setting.clone() }, 70, 100).unwrap();
    let first = texts[0].id(0)[..30].to_vec();
    assert!(texts[0].ids.range(0..texts[0].truth.len()).all(|id| id.len() == 36 && id.starts_with(&first)));
    assert_eq!(texts[0].id(0), b"01923a5c-7e00-7000-8000-000000000000");
    let keys = streams::<Bytes>(&Setting { ids: IdKind::Key200, ..setting }, 70, 100).unwrap();
    assert!(keys[0].ids.range(0..keys[0].truth.len()).all(|id| id.len() == 200 && id.starts_with(&[b'/'; 184])));
}

#[test]
fn as_many_distinct_ids_of_a_zipf_are_live() {
    for (seed, exponent) in [(80, 0.0), (81, 0.8), (82, 1.0), (83, 1.2)] {
        let setting = setting(Shape::Zipf { exponent }, 0.0, 0.1);
        let stream = &streams_of(&setting, seed)[0];
        for window in 0..WINDOWS {
            let places = stream.ticks(window * WINDOW_TICKS..(window + 1) * WINDOW_TICKS);
            let distinct = stream.ids[places].iter().collect::<HashSet<_>>().len();
            assert!((distinct as f64 / setting.live as f64 - 1.0).abs() < 0.06, "{distinct} in window {window}");
        }
    }
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let good = setting(Shape::Uniform, 0.1, 0.1);
    let message = |setting: Setting| streams::<Vec<u64>>(&setting, 1, 100).err().expect("it is refused").to_string();
    assert!(message(Setting { threads: 0, ..good.clone() }).contains("0 threads"));
    assert!(message(Setting { threads: 257, ..good.clone() }).contains("257 threads"));
    assert!(message(Setting { live: 1, threads: 2, ..good.clone() }).contains("1 live"));
    for wrong in [-0.1, 1.0, f64::NAN] {
        assert!(message(setting(Shape::Uniform, wrong, 0.1)).contains("share"));
        assert!(message(setting(Shape::Zipf { exponent: wrong - 1.0 - 1e-3 }, 0.1, 0.1)).contains("exponent"));
    }
    for wrong in [0.0, 1.1, f64::NAN] {
        assert!(message(setting(Shape::Uniform, 0.1, wrong)).contains("windows back"));
    }
    assert!(message(setting(Shape::Uniform, 1.0 - 1e-9, 0.1)).contains("GiB"));
    assert!(
        message(Setting { live: 1_000_000, ..setting(Shape::Zipf { exponent: 1.5 }, 0.0, 0.1) }).contains("smaller")
    );
    assert!(message(setting(Shape::Trace { path: "/nowhere".into() }, 0.0, 0.1)).contains("/nowhere"));
}
