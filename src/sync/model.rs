//! Runs of a model: in every execution that there is (loom), or by many schedules drawn at random
//! (shuttle).

#[cfg(loom)]
pub(crate) use super::loomed::run_at_once;

use super::{Ordering, StdAtomicU64};
use crate::rules::{self, Rule};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once};

/// Runs a model, with looks that read forward and backward. Panics if the model does. Returns the
/// number of its executions.
pub(crate) fn explore(model: impl Fn() + Send + Sync + Clone + 'static) -> u64 {
    [false, true].map(|backward| explore_in_order(backward, 1, model.clone())).iter().sum()
}

/// Checks whether a model panics without a rule; returns the number of executions after which it
/// does.
pub(crate) fn rejects(rule: Rule, model: impl Fn() + Send + Sync + Clone + 'static) -> Option<u64> {
    /// The factors by which more schedules may be drawn than for a sound model.
    const MORE: [u64; 4] = [1, 4, 16, 96];
    let executions = Arc::new(StdAtomicU64::new(0));
    rules::leave_out(Some(rule));
    let parts = MORE.iter().take(if cfg!(loom) { 1 } else { MORE.len() });
    let mut parts = parts.flat_map(|more| [(false, *more), (true, *more)]);
    let panics = parts.any(|(backward, more)| {
        let (executions, model) = (executions.clone(), model.clone());
        let counted = move || {
            executions.fetch_add(1, Ordering::Relaxed);
            model();
        };
        quietly(|| catch_unwind(AssertUnwindSafe(|| explore_in_order(backward, more, counted)))).is_err()
    });
    rules::leave_out(None);
    panics.then(|| executions.load(Ordering::Relaxed))
}

fn explore_in_order(backward: bool, more: u64, model: impl Fn() + Send + Sync + Clone + 'static) -> u64 {
    rules::read_backward(backward);
    let executions = Arc::new(StdAtomicU64::new(0));
    let counter = executions.clone();
    run(more, move || {
        counter.fetch_add(1, Ordering::Relaxed);
        model();
    });
    rules::read_backward(false);
    executions.load(Ordering::Relaxed)
}

/// Does the work without printing the reason if it panics.
fn quietly<T>(work: impl FnOnce() -> T) -> T {
    thread_local! {
        static QUIET: Cell<bool> = const { Cell::new(false) };
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                hook(info);
            }
        }));
    });
    QUIET.set(true);
    let result = work();
    QUIET.set(false);
    result
}

/// Returns a number that campaigns set in the environment, or the usual one.
pub(crate) fn setting(name: &str, usual: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")),
        Err(_) => usual,
    }
}

#[cfg(loom)]
pub(crate) const CHECKER: &str = "loom";

/// Runs every execution with at most three preemptions.
#[cfg(loom)]
fn run(_more: u64, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(setting("HAPAX_LOOM_PREEMPTIONS", 3) as usize);
    builder.max_branches = 100_000;
    assert!(builder.max_duration.is_none() && builder.max_permutations.is_none(), "or it may be cut off");
    builder.check(move || {
        super::loomed::begin();
        model();
    });
}

#[cfg(shuttle)]
pub(crate) const CHECKER: &str = "shuttle";

/// Runs threads at once, the first of them on this one.
#[cfg(shuttle)]
pub(crate) fn run_at_once(threads: Vec<Box<dyn FnOnce() + Send>>) {
    let mut threads = threads.into_iter();
    let first = threads.next().expect("a model has a thread");
    let others: Vec<_> = threads.map(shuttle::thread::spawn).collect();
    first();
    others.into_iter().for_each(|other| other.join().unwrap());
}

/// Returns the number of a model's schedules: half of them drawn at random at each step, half by
/// PCT (Burckhardt et al., ASPLOS 2010) at depth 3.
#[cfg(shuttle)]
pub(crate) fn schedules() -> u64 {
    crate::long::long(5_000, 30_000) * setting("HAPAX_SHUTTLE_SCHEDULES", 1)
}

#[cfg(shuttle)]
fn run(more: u64, model: impl Fn() + Send + Sync + Clone + 'static) {
    use shuttle::scheduler::{PctScheduler, RandomScheduler};
    use shuttle::{Config, FailurePersistence, Runner};
    const DEPTH: usize = 3;
    // One of four parts: forward or backward, at random or by PCT.
    let part = (schedules() / 4 * more) as usize;
    let config = || {
        let mut config = Config::new();
        config.failure_persistence = FailurePersistence::None;
        config.stack_size = 1 << 17;
        config.silence_warnings = true;
        config
    };
    Runner::new(RandomScheduler::new_from_seed(seed(), part), config()).run(model.clone());
    Runner::new(PctScheduler::new_from_seed(seed(), DEPTH, part), config()).run(model);
}

/// Returns the seed of all schedules, which each test prints: `HAPAX_SHUTTLE_SEED`, or one drawn
/// for this process.
#[cfg(shuttle)]
pub(crate) fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    use std::sync::OnceLock;
    static DRAWN: OnceLock<u64> = OnceLock::new();
    *DRAWN.get_or_init(|| setting("HAPAX_SHUTTLE_SEED", RandomState::new().hash_one(0_u64)))
}

/// Explores a model, and prints how many executions it took.
pub(crate) fn check(name: &str, model: impl Fn() + Send + Sync + Clone + 'static) {
    let executions = explore(model);
    #[cfg(loom)]
    println!("{name}: complete after {executions} executions");
    #[cfg(shuttle)]
    {
        println!("{name}: {executions} schedules, HAPAX_SHUTTLE_SEED={}", seed());
        assert_eq!(executions, schedules());
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::super::AtomicU64;
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    /// Two loads of one thread, and what another thread loads before it raises the word.
    type Outcome = [u64; 3];

    fn outcomes() -> BTreeSet<Outcome> {
        let seen = Arc::new(Mutex::new(BTreeSet::new()));
        let all = seen.clone();
        explore(move || {
            let word = Arc::new(AtomicU64::new(1));
            let loads = Arc::new(Mutex::new([0; 3]));
            let (others, others_loads) = (word.clone(), loads.clone());
            run_at_once(vec![
                Box::new({
                    let loads = loads.clone();
                    move || {
                        let first = word.load(Ordering::Relaxed);
                        let second = word.load(Ordering::Relaxed);
                        loads.lock().unwrap()[..2].copy_from_slice(&[first, second]);
                    }
                }),
                Box::new(move || {
                    others_loads.lock().unwrap()[2] = others.load(Ordering::Relaxed);
                    others.fetch_max(2, Ordering::Relaxed);
                }),
            ]);
            all.lock().unwrap().insert(*loads.lock().unwrap());
        });
        seen.lock().unwrap().clone()
    }

    #[test]
    fn a_load_hides_no_execution() {
        assert_eq!(outcomes(), BTreeSet::from([[1, 1, 1], [1, 2, 1], [2, 2, 1]]));
    }
}
