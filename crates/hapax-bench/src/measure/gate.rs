//! A gate where threads wait for each other, and learn that one of them will never come.

use std::sync::{Condvar, Mutex, PoisonError};

/// A barrier that breaks: `std::sync::Barrier` lets the others wait forever when a thread panics.
pub(super) struct Gate {
    threads: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: usize,
    /// The number of times that all threads have passed.
    rounds: usize,
    broken: bool,
}

/// The error that a thread has panicked.
#[derive(Debug, PartialEq)]
pub(super) struct Broken;

impl Gate {
    pub fn new(threads: usize) -> Self {
        Gate { threads, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits until all threads wait here.
    pub fn wait(&self) -> Result<(), Broken> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.broken {
            return Err(Broken);
        }
        let round = state.rounds;
        state.waiting += 1;
        if state.waiting == self.threads {
            (state.waiting, state.rounds) = (0, round + 1);
            self.changed.notify_all();
        }
        while state.rounds == round && !state.broken {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.rounds == round { Err(Broken) } else { Ok(()) }
    }

    /// Breaks the gate: no thread waits here any more.
    pub fn break_down(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).broken = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_pass_together_and_are_let_go_when_one_does_not_come() {
        let gate = Gate::new(3);
        std::thread::scope(|scope| {
            let two = [0; 2].map(|_| scope.spawn(|| [gate.wait(), gate.wait(), gate.wait()]));
            assert_eq!([gate.wait(), gate.wait()], [Ok(()), Ok(())]);
            gate.break_down();
            for thread in two {
                assert_eq!(thread.join().expect("it does not panic"), [Ok(()), Ok(()), Err(Broken)]);
            }
        });
        assert_eq!(gate.wait(), Err(Broken));
    }
}
