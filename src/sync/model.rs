//! Runs of a model in every execution that there is.

pub(crate) use super::loomed::run_at_once;

use super::{Ordering, StdAtomicU64};
use crate::mutation::{self, Rule};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once};

/// The preemptions of an execution. Mutants must be noticed with one less, so that there is some to
/// spare.
pub(crate) const PREEMPTIONS: u64 = 3;

/// Runs a model, with looks that read forward and backward. Panics if the model does. Returns the
/// number of its executions.
pub(crate) fn explore(preemptions: u64, model: impl Fn() + Send + Sync + Clone + 'static) -> u64 {
    [false, true].map(|backward| explore_in_order(preemptions, backward, model.clone())).iter().sum()
}

/// Checks whether a model panics without a rule; returns the number of executions after which it
/// does.
pub(crate) fn rejects(rule: Rule, model: impl Fn() + Send + Sync + Clone + 'static) -> Option<u64> {
    let executions = Arc::new(StdAtomicU64::new(0));
    mutation::leave_out(Some(rule));
    let panics = [false, true].into_iter().any(|backward| {
        let (executions, model) = (executions.clone(), model.clone());
        let counted = move || {
            executions.fetch_add(1, Ordering::Relaxed);
            model();
        };
        quietly(|| catch_unwind(AssertUnwindSafe(|| explore_in_order(PREEMPTIONS - 1, backward, counted)))).is_err()
    });
    mutation::leave_out(None);
    panics.then(|| executions.load(Ordering::Relaxed))
}

fn explore_in_order(preemptions: u64, backward: bool, model: impl Fn() + Send + Sync + Clone + 'static) -> u64 {
    mutation::read_backward(backward);
    let executions = Arc::new(StdAtomicU64::new(0));
    let counter = executions.clone();
    run(preemptions, move || {
        counter.fetch_add(1, Ordering::Relaxed);
        model();
    });
    mutation::read_backward(false);
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

/// Runs every execution with at most so many preemptions, if the environment does not say how many.
fn run(preemptions: u64, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(setting("HAPAX_LOOM_PREEMPTIONS", preemptions) as usize);
    builder.max_branches = 100_000;
    assert!(builder.max_duration.is_none() && builder.max_permutations.is_none(), "or it may be cut off");
    builder.check(move || {
        super::loomed::begin();
        model();
    });
}

/// Explores a model, and prints how many executions it took.
pub(crate) fn check(name: &str, model: impl Fn() + Send + Sync + Clone + 'static) {
    check_up_to(PREEMPTIONS, name, model);
}

/// Explores a model with at most so many preemptions.
pub(crate) fn check_up_to(preemptions: u64, name: &str, model: impl Fn() + Send + Sync + Clone + 'static) {
    let executions = explore(preemptions, model);
    println!("{name}: complete after {executions} executions");
}

#[cfg(test)]
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
        explore(PREEMPTIONS, move || {
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
