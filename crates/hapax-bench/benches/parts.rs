//! Measures the parts, each alone and with all of its memory in the cache: the time of a check that
//! never waits for memory.
//!
//! The answers are counted, so that a wrong one cannot be fast.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use hapax::{Dedup, Digest, Digester, History, Int, Outcome, Timestamp, Verdict, Window};
use std::hint::black_box;
use std::time::Duration;

/// Digests that are checked at one time: a twelfth of a window, so that time passes evenly.
const BATCH: usize = 256;

/// The length of a window and of a horizon; any would do.
const SPAN: Duration = Duration::from_secs(600);

/// Ids within a window: nearly as many as its smallest table is rated for. It has 64 KiB, more than
/// most innermost caches.
const WINDOW_LIVE: usize = 3_072;

/// Ids within a horizon: 50 KiB of history.
const HISTORY_LIVE: usize = 10_240;

/// The time if nothing is to expire.
const EPOCH: Timestamp = Timestamp::from_secs(0);

criterion_group!(parts, digest, window, dedup, history);
criterion_main!(parts);

fn digest(criterion: &mut Criterion) {
    let mut group = group(criterion, "digest");
    let integers: Vec<Int<8>> = numbers().map(Int::from).collect();
    let uuids: Vec<[u8; 16]> = numbers().map(|n| u128::from(n).wrapping_mul(u128::MAX / 5).to_le_bytes()).collect();
    let texts: Vec<String> = numbers().map(|n| format!("{n:08x}-0000-4000-8000-{n:012x}")).collect();
    let hashes: Vec<String> = numbers().map(|n| format!("{n:064x}")).collect();
    let long: Vec<String> = numbers().map(|n| format!("{n:01100}")).collect();
    digest_all(&mut group, "u64", &integers);
    digest_all(&mut group, "UUID, 16 bytes", &uuids);
    digest_all(&mut group, "UUID, text", &texts);
    digest_all(&mut group, "SHA-256, text", &hashes);
    digest_all(&mut group, "1,100 bytes", &long);
    group.finish();

    fn numbers() -> impl Iterator<Item = u64> {
        0..BATCH as u64
    }
}

fn digest_all<T: AsRef<[u8]>>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, ids: &[T]) {
    let digesters = [("keyed", Digester::with_seed(1)), ("trusted", Digester::trusted(1))];
    for (kind, digester) in digesters {
        group.bench_function(format!("{name}, {kind}"), |bencher| {
            bencher.iter(|| {
                for id in black_box(ids) {
                    black_box(digester.digest(id));
                }
            });
        });
    }
}

fn window(criterion: &mut Criterion) {
    let mut group = group(criterion, "window");
    let new = || Window::new(SPAN, WINDOW_LIVE).expect("it is small");
    let check = |window: &Window, digests: &[Digest], at, outcomes: &mut Vec<Outcome>| {
        outcomes.clear();
        outcomes.extend(digests.iter().map(|&digest| window.check(digest, at)));
    };
    checks(&mut group, "single", new(), WINDOW_LIVE, check);
    checks(&mut group, "batched", new(), WINDOW_LIVE, Window::check_batch);

    let window = new();
    let mut stream = Stream::of(WINDOW_LIVE);
    stream.fill(|digests, at| window.check_batch(digests, at, &mut Vec::new()));
    group.bench_function("contains, duplicate", |bencher| {
        bencher.iter(|| {
            let found = stream.again().iter().filter(|&&digest| window.contains(digest, EPOCH)).count();
            assert_eq!(found, BATCH);
        });
    });
    group.bench_function("contains, fresh", |bencher| {
        bencher.iter(|| {
            let found = stream.unknown().iter().filter(|&&digest| window.contains(digest, EPOCH)).count();
            assert_eq!(found, 0);
        });
    });
    group.finish();
}

fn history(criterion: &mut Criterion) {
    let mut group = group(criterion, "history");
    let new = || History::new(SPAN, 1e-3, HISTORY_LIVE).expect("it is small");
    let check = |history: &History, digests: &[Digest], at, outcomes: &mut Vec<Outcome>| {
        outcomes.clear();
        outcomes.extend(digests.iter().map(|&digest| history.check(digest, at)));
    };
    checks(&mut group, "single", new(), HISTORY_LIVE, check);
    checks(&mut group, "batched", new(), HISTORY_LIVE, History::check_batch);
    group.finish();
}

/// Measures whole calls, with digest, clock and counters. Duplicates only: nothing can advance the
/// clock faster.
fn dedup(criterion: &mut Criterion) {
    let mut group = group(criterion, "dedup");
    let ids: Vec<Int<8>> = (0..WINDOW_LIVE as u64).map(Int::from).collect();
    let dedup = Dedup::builder().window(SPAN).capacity(WINDOW_LIVE).build().expect("it is small");
    let mut verdicts = Vec::new();
    dedup.check_batch(&ids, &mut verdicts);
    let mut batches = ids.chunks(BATCH).cycle();
    group.bench_function("single, duplicate", |bencher| {
        bencher.iter(|| {
            let batch = batches.next().expect("it is a cycle");
            let duplicates = batch.iter().filter(|id| dedup.check(id).is_duplicate()).count();
            assert_eq!(duplicates, BATCH);
        });
    });
    group.bench_function("batched, duplicate", |bencher| {
        bencher.iter(|| {
            dedup.check_batch(batches.next().expect("it is a cycle"), &mut verdicts);
            assert_eq!(verdicts.iter().filter(|verdict: &&Verdict| verdict.is_duplicate()).count(), BATCH);
        });
    });
    group.finish();
}

/// Measures checks of digests that are all duplicates, and of digests that are all fresh, while as
/// many expire.
fn checks<T>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    tier: T,
    live: usize,
    check: impl Fn(&T, &[Digest], Timestamp, &mut Vec<Outcome>),
) {
    let mut outcomes = Vec::new();
    let mut stream = Stream::of(live);
    stream.fill(|digests, at| check(&tier, digests, at, &mut outcomes));
    let fresh = |outcomes: &[Outcome]| outcomes.iter().filter(|&&outcome| outcome == Outcome::Fresh).count();
    group.bench_function(format!("{name}, duplicate"), |bencher| {
        bencher.iter(|| {
            check(&tier, stream.again(), EPOCH, &mut outcomes);
            assert_eq!(fresh(&outcomes), 0);
        });
    });
    group.bench_function(format!("{name}, fresh"), |bencher| {
        bencher.iter(|| {
            let (digests, at) = stream.next();
            check(&tier, digests, at, &mut outcomes);
            // A history may guess wrong once in a thousand.
            assert!(fresh(&outcomes) > BATCH * 9 / 10);
        });
    });
}

/// Digests, and a clock that goes with them: in a span come as many as are to be live.
struct Stream {
    digests: Vec<Digest>,
    live: usize,
    /// Batches that were checked for the first time.
    given: usize,
    /// Batches that were checked otherwise.
    asked: usize,
}

impl Stream {
    fn of(live: usize) -> Self {
        let digester = Digester::with_seed(1);
        // A digest comes again after four spans; a history remembers it for two.
        let digests = (0..4 * live as u64).map(|n| digester.digest(n.to_le_bytes())).collect();
        Stream { digests, live, given: 0, asked: 0 }
    }

    /// Checks the digests of the first span, all at its beginning.
    fn fill(&mut self, mut check: impl FnMut(&[Digest], Timestamp)) {
        self.digests[..self.live].chunks(BATCH).for_each(|digests| check(digests, EPOCH));
        self.given = self.live / BATCH;
    }

    /// Returns a batch of digests that are fresh at this time.
    fn next(&mut self) -> (&[Digest], Timestamp) {
        let at = EPOCH + SPAN * 2 + SPAN * self.given as u32 / (self.live / BATCH) as u32;
        let start = self.given * BATCH % self.digests.len();
        self.given += 1;
        (&self.digests[start..start + BATCH], at)
    }

    /// Returns a batch of the first span.
    fn again(&mut self) -> &[Digest] {
        self.asked(0)
    }

    /// Returns a batch of the second span.
    fn unknown(&mut self) -> &[Digest] {
        self.asked(self.live)
    }

    fn asked(&mut self, first: usize) -> &[Digest] {
        let start = first + self.asked * BATCH % self.live;
        self.asked += 1;
        &self.digests[start..start + BATCH]
    }
}

/// Creates a group that takes a few seconds.
fn group<'a>(criterion: &'a mut Criterion, name: &str) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(BATCH as u64));
    group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(600)).sample_size(30);
    group
}
