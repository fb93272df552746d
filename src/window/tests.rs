//! Tests of the window against a model, in both ways of looking at buckets, with tables so small
//! that everything happens.

use super::look::sweep;
use super::protocol::bucket_memory::{BucketMemory, Overtaken};
use super::table_set::{roster, tables};
use super::*;
use crate::long::long;
use crate::mutation;
use crate::sync::Ordering;
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::LazyLock;

mod growing;
mod stalls;

const SECOND: u64 = 1_000_000_000;

/// Returns a window of 100 ticks of a second, with this many buckets.
fn small(buckets: usize, kernel: Kernel, refresh: bool) -> Window {
    let duration = Duration::from_secs(100);
    let ticks = Ticks::of_window(duration).unwrap();
    let growth = Growth::new(Table::new(buckets).unwrap(), ticks.window, 0, false);
    Window { growth, ticks, duration, refresh_on_duplicate: refresh, kernel }
}

fn kernels() -> Vec<Kernel> {
    let kernels: Vec<_> = Kernel::all().collect();
    #[cfg(all(target_arch = "x86_64", not(alone)))]
    if kernels.len() < 3 {
        testkit::skipped(format_args!("this processor has not all of AVX2 and AVX-512; tested: {kernels:?}"));
    }
    kernels
}

fn digest(id: u64) -> Digest {
    static DIGESTER: LazyLock<crate::digest::Digester> = LazyLock::new(|| crate::digest::Digester::with_seed(99));
    DIGESTER.digest(id.to_le_bytes())
}

/// The model: ids that must be remembered, and ids that may be.
#[derive(Default)]
struct Model {
    /// The time when each id was accepted, in nanoseconds of stream time.
    accepted: HashMap<u64, u64>,
    now: u64,
    /// The number of ids that were fresh although they must have been remembered.
    missed: u64,
}

impl Model {
    fn advance(&mut self, at: u64) {
        self.now = self.now.max(at);
    }

    fn check(&mut self, id: u64, outcome: Outcome, refresh: bool) {
        let age = self.accepted.get(&id).map(|accepted| self.now - accepted);
        match outcome {
            Outcome::Fresh => self.missed += u64::from(age.is_some_and(|age| age < 100 * SECOND)),
            Outcome::Duplicate => {
                assert!(age.is_some_and(|age| age < 102 * SECOND), "{id}: a duplicate of age {age:?}");
            }
            Outcome::InProgress => panic!("{id}: nobody claims"),
            Outcome::Refused(_) => panic!("{id}: a window takes every time"),
        }
        if outcome == Outcome::Fresh || refresh {
            self.accepted.insert(id, self.now);
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Check(u64),
    Batch(Vec<u64>),
    Contains(u64),
    Forget(u64),
    Clear,
    /// A step of time, by nanoseconds; backwards, too.
    Advance(i64),
    /// The start of a table at an index, if there is room.
    Start(usize),
    /// The retirement of the oldest table, if it has expired.
    Retire,
}

fn ops(ids: u64) -> impl Strategy<Value = Vec<Op>> {
    let id = 0..ids;
    let second = SECOND as i64;
    let advance = prop_oneof![
        8 => 0..3 * second,
        4 => -5 * second..0,
        2 => 90 * second..110 * second,
        1 => 0..2_000 * second,
        1 => 0..1_000_000 * second,
    ];
    let op = prop_oneof![
        20 => id.clone().prop_map(Op::Check),
        6 => proptest::collection::vec(id.clone(), 0..150).prop_map(Op::Batch),
        4 => id.clone().prop_map(Op::Contains),
        3 => id.prop_map(Op::Forget),
        8 => advance.prop_map(Op::Advance),
        1 => Just(Op::Clear),
        3 => (0..roster::INDICES).prop_map(Op::Start),
        3 => Just(Op::Retire),
    ];
    proptest::collection::vec(op, 1..200)
}

fn run(window: &Window, ops: &[Op], refresh: bool) {
    let mut model = Model::default();
    let mut outcomes = Vec::new();
    let mut given = 0_u64;
    for op in ops {
        let at = Timestamp::from_nanos(given);
        match op {
            Op::Advance(by) => {
                given = given.saturating_add_signed(*by);
                continue;
            }
            Op::Check(id) => {
                model.advance(given);
                model.check(*id, window.check(digest(*id), at), refresh);
            }
            Op::Batch(ids) => {
                let digests: Vec<_> = ids.iter().map(|&id| digest(id)).collect();
                window.check_batch(&digests, at, &mut outcomes);
                assert_eq!(outcomes.len(), ids.len());
                if !ids.is_empty() {
                    model.advance(given);
                }
                for (&id, &outcome) in ids.iter().zip(&outcomes) {
                    model.check(id, outcome, refresh);
                }
            }
            Op::Contains(id) => {
                // A look sets no time: later operations may have an earlier one.
                let age = model.accepted.get(id).map(|accepted| model.now.max(given) - accepted);
                if window.contains(digest(*id), at) {
                    assert!(age.is_some_and(|age| age < 102 * SECOND));
                } else {
                    // An id that was evicted is missing here and shows as missed when it is
                    // checked.
                    assert!(
                        age.is_none_or(|age| age >= 100 * SECOND) || window.tables().shared.counters.evicted_live() > 0
                    );
                }
            }
            Op::Forget(id) => {
                model.advance(given);
                window.forget(digest(*id), at);
                model.accepted.remove(id);
                assert!(!window.contains(digest(*id), at));
            }
            Op::Start(index) => {
                let tables = window.tables();
                if tables.roster().started(*index).is_some() {
                    tables.prepare(*index, tables.table(0).buckets() + 2 * (index % 3)).unwrap();
                    assert!(tables.start(*index));
                }
            }
            Op::Retire => {
                let tables = window.tables();
                let retired = tables.retire(tables.shared.latest(), false);
                retired.into_iter().for_each(|index| tables.table(index).release());
            }
            Op::Clear => {
                model.advance(given);
                window.clear(at);
                model.accepted.clear();
                assert_eq!(window.stats(at).live, 0);
            }
        }
        assert_eq!(window.tables().shared.counters.repaired_buckets(), 0);
        assert!(
            model.missed <= window.tables().shared.counters.evicted_live(),
            "{} were missed, not all of them counted",
            model.missed
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(long(25, 200)))]

    #[test]
    fn a_tiny_window_agrees_with_the_model(ops in ops(24), half in 1..4_usize, refresh: bool) {
        for kernel in kernels() {
            run(&small(2 * half, kernel, refresh), &ops, refresh);
        }
    }

    #[test]
    fn a_roomy_window_agrees_with_the_model_and_loses_nothing(ops in ops(60), refresh: bool) {
        for kernel in kernels() {
            // Two shards, so that one can be idle while the other is not.
            let window = small(2 * sweep::SHARD_BUCKETS, kernel, refresh);
            run(&window, &ops, refresh);
            prop_assert_eq!(window.tables().shared.counters.evicted_live(), 0);
        }
    }

    #[test]
    fn a_batch_answers_as_one_by_one(
        batches in proptest::collection::vec((proptest::collection::vec(0..50_u64, 0..200), 0..60_u64), 1..8),
        refresh: bool,
    ) {
        for kernel in kernels() {
            let batched = small(2 * sweep::SHARD_BUCKETS, kernel, refresh);
            let single = small(2 * sweep::SHARD_BUCKETS, Kernel::Portable, refresh);
            let (mut outcomes, mut now) = (Vec::new(), 0);
            for (ids, elapsed) in &batches {
                now += elapsed;
                let at = Timestamp::from_secs(now);
                let digests: Vec<_> = ids.iter().map(|&id| digest(id)).collect();
                batched.check_batch(&digests, at, &mut outcomes);
                let one_by_one: Vec<_> = digests.iter().map(|&digest| single.check(digest, at)).collect();
                prop_assert_eq!(&outcomes, &one_by_one);
            }
        }
    }
}

/// Sets a slot's content behind the protocol's back.
fn set(window: &Window, bucket: usize, slot: usize, content: u64) {
    window.tables().memory(0).bucket(bucket)[slot].store(content, Ordering::Relaxed);
}

#[test]
fn a_broken_bucket_is_repaired_counted_and_remembers() {
    for kernel in kernels() {
        let window = small(2, kernel, false);
        let at = Timestamp::from_secs(1_000);
        (0..12).for_each(|id| assert_eq!(window.check(digest(id), at), Outcome::Fresh));
        // The entry that a caller leaves that wrote where the ring was 64 versions ago.
        for bucket in 0..2 {
            let slot = 5;
            let entry = window.tables().memory(0).load(bucket, slot);
            set(&window, bucket, slot, entry.with_version(entry.version(63) ^ 0b10_0000).0);
        }
        (0..12).for_each(|id| assert_eq!(window.check(digest(id), at), Outcome::Duplicate));
        assert_eq!(window.stats(at).repaired_buckets, 0, "duplicates need no valid ring");
        // New ids repair the bucket.
        assert_eq!(window.check(digest(100), at), Outcome::Fresh);
        assert_eq!(window.check(digest(101), at), Outcome::Fresh);
        (102..106).for_each(|id| assert_eq!(window.check(digest(id), at), Outcome::Fresh));
        assert_eq!(window.stats(at).repaired_buckets, 2);
        (100..106).for_each(|id| assert_eq!(window.check(digest(id), at), Outcome::Duplicate));
    }
}

#[test]
fn a_caller_that_was_overtaken_starts_over_with_the_others_time() {
    for kernel in kernels() {
        let window = small(2, kernel, false);
        let stalled = window.ticks.at(Timestamp::from_secs(1_000).into());
        window.tables().shared.agree(stalled);
        // Time goes on while the caller stalls: one id is accepted soon, another when the first has
        // expired.
        assert_eq!(window.check(digest(1), Timestamp::from_secs(1_010)), Outcome::Fresh);
        assert_eq!(window.check(digest(2), Timestamp::from_secs(1_200)), Outcome::Fresh);
        let memory = window.tables().memory(0);
        let check = |id| memory.check_thoroughly(tables::place(&memory, digest(id)), stalled, false);
        assert_eq!(check(1), Ok(Outcome::Duplicate));
        assert_eq!(check(2), Err(Overtaken), "its tick is too far ahead to be read, which must not make it fresh");
        assert_eq!(check(3), Err(Overtaken));
        let mut chunk = Chunk::new();
        chunk.stage(&memory, (1..=3).map(digest));
        let all = chunk.all();
        let decided = kernel.check_chunk(memory, &mut chunk, all, stalled, false, &mut || ());
        assert!(decided.fresh.is_empty() && decided.overtaken.iter().eq([1, 2]));
        // As a caller would: with the time that the others have.
        assert_eq!(window.check(digest(3), Timestamp::from_secs(1_000)), Outcome::Fresh);
        assert_eq!(window.check(digest(3), Timestamp::from_secs(1_299)), Outcome::Duplicate);
        assert_eq!(window.check(digest(3), Timestamp::from_secs(1_302)), Outcome::Fresh);
    }
}

#[test]
fn an_idle_window_comes_to_rest() {
    let window = Window::new(Duration::from_secs(100), 100_000).unwrap();
    for second in 0..200 {
        (0..500).for_each(|id| {
            assert_eq!(window.check(digest(second * 500 + id), Timestamp::from_secs(second)), Outcome::Fresh);
        });
    }
    assert_eq!(window.stats(Timestamp::from_secs(199)).live, 100 * 500);
    assert_eq!(window.stats(Timestamp::from_secs(249)).live, 50 * 500);
    // However long it was idle: ticks have wrapped some thousand times in between.
    for later in [299, 1_223, 1_224, 1_300, 2_000_000] {
        assert_eq!(window.stats(Timestamp::from_secs(later)).live, 0, "after {later} s");
        assert!((0..500).all(|id| !window.contains(digest(199 * 500 + id), Timestamp::from_secs(later))));
    }
}

#[test]
fn forgetting_says_whether_there_was_something_to_forget() {
    let window = Window::new(Duration::from_secs(100), 1_000).unwrap();
    let at = Timestamp::from_secs(1);
    assert!(!window.forget(digest(1), at));
    window.check(digest(1), at);
    assert!(window.forget(digest(1), at));
    assert!(!window.forget(digest(1), at));
}

#[test]
fn too_many_ids_are_forgotten_oldest_first_and_counted() {
    for kernel in kernels() {
        let window = small(1024, kernel, false);
        // Twice as many per window as the table has slots.
        let per_second = 2 * 1024 * 8 / 100;
        let last = 300;
        for second in 0..=last {
            let digests: Vec<_> = (0..per_second).map(|i| digest(second * per_second + i)).collect();
            let mut outcomes = Vec::new();
            window.check_batch(&digests, Timestamp::from_secs(second), &mut outcomes);
            assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Fresh));
        }
        let at = Timestamp::from_secs(last);
        let stats = window.stats(at);
        assert!(stats.evicted_live > 30_000, "{stats:?}");
        let remembered =
            |second: u64| (0..per_second).filter(|i| window.contains(digest(second * per_second + i), at)).count();
        let whole_seconds = stats.effective_window.as_secs();
        assert!((1..50).contains(&whole_seconds), "{stats:?}");
        for age in 0..=whole_seconds {
            assert_eq!(remembered(last - age), per_second as usize, "all of age {age} s: {stats:?}");
        }
        assert!(remembered(last - 90) < per_second as usize / 10);
    }
}

#[test]
fn bad_options_are_refused_by_name() {
    let option = |window, capacity| match Window::new(window, capacity) {
        Err(Error::InvalidOption { option, got, .. }) => (option, got),
        other => panic!("{other:?}"),
    };
    assert_eq!(option(Duration::ZERO, 1), ("window", "0ns".to_string()));
    assert_eq!(option(Duration::MAX, 1).0, "window");
    assert_eq!(option(Duration::from_secs(1), 0), ("capacity", "0".to_string()));
    assert!(matches!(Window::new(Duration::from_secs(1), 1 << 50), Err(Error::OutOfMemory { tier: "window", .. })));
    assert_eq!(option(Duration::from_secs(1), usize::MAX).0, "capacity");
}

/// Returns the time that a thread is told that stalls between reading the time and the bucket, for
/// so long that the bits of ticks wrap around.
fn first_seen_after_a_stall(rule: Option<crate::mutation::Rule>) -> Option<(Timestamp, Timestamp)> {
    use crate::mutation::{Place, at, leave_out};
    let window = std::sync::Arc::new(Window::new(Duration::from_secs(100), 1_000).unwrap());
    let id = Digest::from(u128::MAX / 3);
    let secs = Timestamp::from_secs;
    assert_eq!(window.check(id, secs(1_000)), Outcome::Fresh);
    leave_out(rule);
    let other = window.clone();
    // A tick is a second, and 1,024 of them wrap around.
    at(Place::AboutToStamp, move || {
        assert_eq!(other.check(id, secs(1_000 + 7 * 1_024 + 40)), Outcome::Fresh);
    });
    let told = window.first_seen(id, secs(1_050), 0);
    leave_out(None);
    told
}

#[test]
fn a_stall_while_ticks_wrap_around_tells_no_wrong_time() {
    let accepted = Timestamp::from_secs(1_000 + 7 * 1_024 + 40);
    let is_right = |told: Option<(Timestamp, Timestamp)>| {
        told.is_some_and(|(earliest, latest)| earliest <= accepted && accepted <= latest)
    };
    assert!(is_right(first_seen_after_a_stall(None)));
    assert!(!is_right(first_seen_after_a_stall(Some(crate::mutation::Rule::Overtaken))), "nobody noticed");
}
