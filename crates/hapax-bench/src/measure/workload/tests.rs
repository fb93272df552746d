//! Streams are what their settings say, and their truth is true.

use super::truth::{Certain, Ledger};
use super::*;
use crate::measure::{IdKind, Shape, Workload};
use crate::strategy::Id;
use std::collections::{HashMap, HashSet};

const WINDOWS: usize = 6;

fn setting(shape: Shape, duplicates: f64, distance_windows: f64) -> Setting {
    let workload = Workload { shape, duplicates, distance_windows };
    let (live, threads) = (3_003, 1);
    Setting { workload, live, threads, ..Setting::default() }
}

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
    for threads in [1, 2, 3] {
        let setting = Setting { threads, ..setting(Shape::Uniform, 0.3, 0.4) };
        let streams = streams_of(&setting, 1);
        for window in 0..WINDOWS {
            let ticks = window * WINDOW_TICKS..(window + 1) * WINDOW_TICKS;
            let of_window = streams.iter().flat_map(|stream| &stream.truth[stream.ticks(ticks.clone())]);
            assert_eq!(of_window.filter(|truth| **truth == Truth::New).count(), setting.live);
        }
        let all: Vec<HashSet<u64>> = streams.iter().map(|stream| stream.ids.iter().copied().collect()).collect();
        let one_by_one = all.iter().map(HashSet::len).sum::<usize>();
        assert_eq!(one_by_one > WINDOWS * setting.live, threads > 1, "threads check each other's ids");
        assert_eq!(all.into_iter().flatten().collect::<HashSet<_>>().len(), WINDOWS * setting.live);
    }
}

#[test]
fn duplicates_are_as_many_and_as_far_back_as_the_setting_says() {
    for (share, distance) in [(0.0, 0.1), (0.02, 1.0), (0.1, 0.1), (0.5, 1.0), (0.95, 0.05)] {
        let setting = setting(Shape::Uniform, share, distance);
        let stream = &streams_of(&setting, 10)[0];
        let distances = distances(stream);
        let found = distances.len() as f64 / stream.truth.len() as f64;
        assert!((found - share).abs() <= 0.015 * (1.0 - share) + 0.005, "{found} of {share}");
        assert!(stream.truth.iter().all(|truth| matches!(truth, Truth::New | Truth::Duplicate)));
        let reach = (distance * setting.live as f64).ceil() as usize;
        assert!(distances.iter().all(|far| *far <= reach), "{:?} of {reach}", distances.iter().max());
        if share >= 0.1 {
            let mean = distances.iter().sum::<usize>() as f64 / distances.len() as f64;
            assert!((mean / reach as f64 - 0.5).abs() < 0.05, "{mean} on the average, of {reach}");
            assert!(*distances.iter().max().unwrap() as f64 > 0.9 * reach as f64, "as far back as it goes");
        }
    }
}

/// Computes the truth once more, from the ids alone, where threads check each other's ids.
fn confirm_shared<B: Ids>(streams: &[Stream<B>], seen: &mut [usize; 5]) {
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
        let (new, known): (Vec<_>, Vec<_>) = checks.iter().partition(|check| check.2 == Truth::New);
        let [&(first, owner, _)] = new[..] else { panic!("{id:?}: {checks:?}") };
        for &(tick, thread, truth) in known {
            let expected = if thread != owner && tick <= first + LEAD_TICKS_MAX {
                Truth::Shared
            } else {
                Certain::with_threads(streams.len()).after(tick - first)
            };
            assert_eq!(truth, expected, "{id:?}: {checks:?}");
        }
    }
}

/// Computes the truth once more, from the ids alone.
fn confirm<B: Ids>(streams: &[Stream<B>], seen: &mut [usize; 5]) {
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
    let mut seen = [0; 5];
    let zipfs = [0.0, 0.7, 1.0].map(|exponent| Shape::Zipf { exponent });
    let shapes = [Shape::Uniform].into_iter().chain(zipfs);
    for (seed, shape) in (20..).zip(shapes) {
        for threads in [1, 2] {
            for distance in [0.1, 1.0] {
                let setting = Setting { threads, live: 800, ..setting(shape, 0.5, distance) };
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
    for shape in [Shape::Uniform, Shape::Zipf { exponent: 0.9 }] {
        let setting = Setting { live: 500, ..setting(shape, 0.5, 0.5) };
        let expected = &streams_of(&setting, 30)[0].truth;
        for (ids, length) in [(IdKind::UuidText, 36), (IdKind::Key200, 200)] {
            let made = streams::<Bytes>(&Setting { ids, ..setting.clone() }, 30, WINDOWS * WINDOW_TICKS).unwrap();
            assert_eq!(&made[0].truth, expected, "{ids:?}");
            confirm(&made, &mut [0; 5]);
            assert!(made[0].ids.range(0..made[0].truth.len()).all(|id| id.len() == length));
        }
        assert!(streams::<Bytes>(&setting, 30, 1).is_err());
        assert!(streams::<Vec<u64>>(&Setting { ids: IdKind::Key200, ..setting }, 30, 1).is_err());
    }
}

#[test]
fn the_seed_decides_everything() {
    for shape in [Shape::Uniform, Shape::Zipf { exponent: 0.9 }] {
        let setting = Setting { threads: 2, ..setting(shape, 0.3, 0.4) };
        let ids = |seed| streams_of(&setting, seed).into_iter().map(|stream| stream.ids).collect::<Vec<_>>();
        assert_eq!(ids(40), ids(40));
        assert_ne!(ids(40), ids(41));
    }
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
}
