use super::*;
use crate::measure::workload::{Bytes, Truth};
use hapax::tier::random::Random;
use std::collections::HashSet;

fn trace(window_seconds: Option<u64>, events: &[(u64, &str)]) -> Trace {
    let mut trace = Trace::new(window_seconds.map(Duration::from_secs));
    events.iter().for_each(|(second, id)| trace.push(id.as_bytes(), Some(Timestamp::from_secs(*second))).unwrap());
    trace
}

fn ticks(trace: &Trace) -> Vec<usize> {
    trace.events.iter().map(|(tick, _)| *tick as usize).collect()
}

#[test]
fn ticks_are_hundredths_of_a_window_since_the_first_time() {
    let trace = trace(Some(200), &[(7, "a"), (8, "b"), (9, "c"), (8, "d"), (0, "e"), (107, "f")]);
    assert_eq!(ticks(&trace), [0, 0, 1, 1, 1, 50]);
    assert_eq!((trace.ticks(), trace.events(), trace.live()), (51, 6, 6));
}

#[test]
fn a_long_time_without_ids_is_shortened() {
    let far = 1_000_000_000;
    let trace = trace(Some(1), &[(0, "a"), (far, "a"), (far + 1, "a"), (far + 3, "b")]);
    assert_eq!(ticks(&trace), [0, 200, 300, 500]);
}

#[test]
fn without_a_window_nothing_expires() {
    let trace = trace(None, &[(0, "a"), (1_000_000, "b"), (2_000_000, "a")]);
    assert_eq!((trace.ticks(), trace.events(), trace.live()), (1, 3, 2));
    let streams = trace.streams::<Bytes>(IdKind::Bytes, 1, 1).unwrap();
    assert_eq!(streams[0].truth, [Truth::New, Truth::New, Truth::Duplicate]);
}

#[test]
fn limits_are_said() {
    let mut long = Trace::new(Some(Duration::from_nanos(100)));
    let mut pushed = (0..TICKS_MAX).step_by(200).map(|tick| long.push(b"x", Some(Timestamp::from_nanos(tick))));
    assert!(pushed.all(|pushed| pushed.is_ok()));
    let error = long.push(b"x", Some(Timestamp::from_nanos(TICKS_MAX + 200))).unwrap_err();
    assert!(error.to_string().contains("windows"), "{error}");
    assert!(trace(None, &[]).streams::<Bytes>(IdKind::Bytes, 0, 1).is_err());
    let error = trace(None, &[(0, "a")]).streams::<Vec<u64>>(IdKind::U64, 1, 1).err().unwrap();
    assert!(error.to_string().contains("1 bytes"), "{error}");
}

/// Makes events of a few ids, often together, sometimes far apart.
fn random_trace(seed: u64) -> Trace {
    println!("seed {seed}");
    let (mut random, mut second) = (Random::new(seed), 0);
    let mut trace = Trace::new(Some(Duration::from_secs(100)));
    for _ in 0..3_000 {
        second += [0, random.below(3), random.below(60)][random.below(3) as usize];
        let id = format!("id {}", random.below(40) * random.below(40));
        trace.push(id.as_bytes(), Some(Timestamp::from_secs(second))).unwrap();
    }
    trace
}

#[test]
fn live_is_the_most_distinct_ids_in_a_window() {
    for seed in 0..3 {
        let trace = random_trace(seed);
        let events: Vec<_> = trace.events.iter().map(|(tick, id)| (id, *tick as usize)).collect();
        let within = |end: usize| {
            // (Ticks do not go back.)
            let begin = events.partition_point(|(_, tick)| tick + WINDOW_TICKS <= end);
            let window = events[begin..].iter().take_while(|(_, tick)| *tick <= end);
            window.map(|(id, _)| id).collect::<HashSet<_>>().len()
        };
        let brute_force = (0..trace.ticks()).step_by(1 + seed as usize).map(within).max().unwrap();
        assert!(brute_force <= trace.live() && (seed > 0 || brute_force == trace.live()));
    }
}

#[test]
fn threads_share_the_ids_and_know_the_truth() {
    let trace = random_trace(17);
    let ticks = trace.ticks();
    let whole = &trace.streams::<Bytes>(IdKind::Bytes, 1, ticks).unwrap()[0];
    assert_eq!(whole.truth.len(), 3_000);
    for truth in [Truth::New, Truth::Expired, Truth::Duplicate, Truth::Undecided] {
        assert!(whole.truth.contains(&truth), "{truth:?} comes");
    }
    let parts = trace.streams::<Bytes>(IdKind::Bytes, 3, ticks + 10).unwrap();
    let ids = |part: &Stream<Bytes>| part.ids.range(0..part.truth.len()).map(<[u8]>::to_vec).collect::<HashSet<_>>();
    let [a, b, c] = [ids(&parts[0]), ids(&parts[1]), ids(&parts[2])];
    assert!(a.is_disjoint(&b) && b.is_disjoint(&c) && c.is_disjoint(&a));
    for tick in 0..ticks + 10 {
        let here = parts.iter().map(|part| part.tick(tick).len()).sum::<usize>();
        let expected = if tick < ticks { whole.tick(tick).len() } else { 0 };
        assert_eq!(here, expected, "tick {tick}");
    }
    let new = |streams: &[Stream<Bytes>]| {
        streams.iter().flat_map(|stream| &stream.truth).filter(|&&truth| truth == Truth::New).count()
    };
    assert_eq!(new(&parts), new(std::slice::from_ref(whole)));
    let cut = trace.streams::<Bytes>(IdKind::Bytes, 1, 50).unwrap();
    assert_eq!(cut[0].truth.len(), whole.ticks(0..50).len());
}

#[test]
fn what_was_written_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace");
    for trace in [random_trace(5), Trace::new(None), trace(Some(1), &[(0, ""), (0, "a")])] {
        trace.write(&path).unwrap();
        assert_eq!(Trace::read(&path).unwrap(), trace);
    }
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    assert!(Trace::read(&path).unwrap_err().to_string().starts_with(path.to_str().unwrap()));
}
