//! Threads that take turns, in every order that can make a difference: the protocol between a
//! window, its journal and its segments, as it is shipped (`src/long_memory/explored`).
//!
//! In tests, the locks of this crate that are held while a disk is waited for, and the atomics of
//! that protocol, are those of this file. Threads that take part in a scenario run one at a time.
//! Each access to one of these objects is a step, before which a thread gives the turn back; a
//! [`Search`] decides who gets it. So do other places, which are named there
//! ([`meanwhile`](crate::mutation::meanwhile)), and calls to the simulated disk. Threads that take
//! no part use them as those of the standard library.

mod objects;
mod search;

pub(crate) use self::objects::{AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, RwLock};
pub(crate) use self::search::Kind;
use self::search::{Search, Step, THREADS, Turn};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// The window.
pub(crate) const WINDOW: u64 = 1 << 60;
/// The disk. Calls commute, except for one that looks at all of it.
pub(crate) const DISK: u64 = WINDOW + 1;
/// The calls of a scenario, in their order.
pub(crate) const CALLS: u64 = WINDOW + 2;
/// The beginnings of threads.
const BEGINNINGS: u64 = WINDOW + 3;

thread_local! {
    /// The number that this thread's next object gets: the same in each execution.
    static NEXT_OBJECT: Cell<u64> = const { Cell::new(0) };
    static PART: RefCell<Option<(Arc<Stage>, usize)>> = const { RefCell::new(None) };
}

fn new_object() -> u64 {
    NEXT_OBJECT.replace(NEXT_OBJECT.get() + 1)
}

/// Gives the turn back before a step, and returns when the thread has it again.
pub(crate) fn step(object: u64, kind: Kind) {
    if let Some((stage, me)) = part() {
        stage.step(me, Step { object, kind });
    }
}

/// The part of this thread, if it takes one: the stage, and its number there.
fn part() -> Option<(Arc<Stage>, usize)> {
    PART.with_borrow(Clone::clone)
}

/// The reason why a thread leaves its call: the execution is over.
struct Over;

/// The threads of an execution.
struct Stage {
    state: std::sync::Mutex<State>,
    turns: [std::sync::Condvar; THREADS],
}

struct State {
    search: Search,
    next: [Option<Step>; THREADS],
    /// The locks that are held.
    held: Vec<u64>,
    turn: Option<usize>,
    /// True if nothing is searched any more: the threads are to come to their end.
    is_known: bool,
    /// True if they cannot.
    is_over: bool,
    failed: Option<String>,
}

impl Stage {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        super::unpoisoned(self.state.lock())
    }

    fn step(&self, me: usize, step: Step) {
        let mut state = self.state();
        if state.is_over {
            return;
        }
        state.next[me] = Some(step);
        state.decide(me);
        self.wait(me, state);
    }

    fn wait(&self, me: usize, mut state: std::sync::MutexGuard<'_, State>) {
        if state.turn != Some(me) {
            self.wake(&state);
        }
        while state.turn != Some(me) && !state.is_over {
            state = super::unpoisoned(self.turns[me].wait(state));
        }
        if state.is_over {
            drop(state);
            if !std::thread::panicking() {
                resume_unwind(Box::new(Over));
            }
            return;
        }
        if let Some(Step { object, kind: Kind::Lock }) = state.next[me] {
            state.held.push(object);
        }
    }

    fn wake(&self, state: &State) {
        match state.turn {
            Some(next) if !state.is_over => self.turns[next].notify_one(),
            _ => self.turns.iter().for_each(std::sync::Condvar::notify_one),
        }
    }

    fn unlock(&self, me: usize, object: u64) {
        let mut state = self.state();
        state.held.retain(|held| *held != object);
        state.search.unlock(me, object);
    }

    /// Does what a thread does, once it has its first turn.
    fn play(self: &Arc<Self>, me: usize, act: &dyn Fn()) {
        NEXT_OBJECT.set((me as u64 + 1) << 32);
        let result = catch_unwind(AssertUnwindSafe(|| {
            self.wait(me, self.state());
            PART.set(Some((Arc::clone(self), me)));
            act();
        }));
        PART.set(None);
        let mut state = self.state();
        if let Err(panic) = result
            && !panic.is::<Over>()
        {
            let what = panic.downcast_ref::<String>().cloned();
            let what = what.or_else(|| panic.downcast_ref::<&str>().map(|what| (*what).to_owned()));
            state.fail(format!("thread {me} panics: {}", what.unwrap_or_default()));
        }
        state.next[me] = None;
        if !state.is_over {
            state.decide(me);
        }
        self.wake(&state);
    }
}

impl State {
    /// Decides whose turn it is, after that of a thread.
    fn decide(&mut self, last: usize) {
        let is_free = |step: Step| step.kind != Kind::Lock || !self.held.contains(&step.object);
        let enabled = (0..THREADS).filter(|t| self.next[*t].is_some_and(is_free));
        let enabled = enabled.fold(0, |set, t| set | 1 << t);
        let turn = match self.is_known {
            false => self.search.turn(self.next, enabled, last),
            true if enabled != 0 => Turn::Of(enabled.trailing_zeros() as usize),
            true if self.next.iter().all(Option::is_none) => Turn::End,
            true => Turn::Deadlock,
        };
        self.turn = match turn {
            Turn::Of(thread) => Some(thread),
            Turn::End => None,
            Turn::Known => {
                self.is_known = true;
                return self.decide(last);
            }
            Turn::Deadlock => {
                self.fail("each thread waits for another".into());
                self.is_over = true;
                None
            }
        };
    }

    fn fail(&mut self, what: String) {
        if !self.is_known && self.failed.is_none() {
            let name = |object| match object {
                WINDOW => "window".into(),
                DISK => "disk".into(),
                CALLS => "call".into(),
                BEGINNINGS.. => "beginning".into(),
                object => format!("object {object:x}"),
            };
            self.failed = Some(format!("{what}\n{}", self.search.schedule(name)));
        }
    }
}

/// The result of a search: all orders that can make a difference were executed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Report {
    /// The executions that were judged.
    pub(crate) executions: u64,
    /// Those that were given up, since they were equal to one before them.
    pub(crate) known: u64,
    pub(crate) steps: u64,
}

/// Executes threads in every order that can make a difference, each execution in a world of its
/// own, and judges it. Returns the first that is wrong, with its steps; or an error if there are
/// more executions than `most`.
pub(crate) fn explore<W: Sync>(
    most: u64,
    world: impl Fn() -> W,
    threads: &[&(dyn Fn(&W) + Sync)],
    judge: impl Fn(&W) -> Result<(), String>,
) -> Result<Report, String> {
    assert!(threads.len() <= THREADS);
    let (mut search, mut report) = (Search::default(), Report::default());
    loop {
        NEXT_OBJECT.set(0);
        let world = world();
        search.begin();
        let mut state = State {
            search,
            next: [None; THREADS],
            held: Vec::new(),
            turn: None,
            is_known: false,
            is_over: false,
            failed: None,
        };
        let beginning = |t| Some(Step { object: BEGINNINGS + t as u64, kind: Kind::Read });
        (0..threads.len()).for_each(|t| state.next[t] = beginning(t));
        state.decide(0);
        let stage = Arc::new(Stage { state: std::sync::Mutex::new(state), turns: Default::default() });
        std::thread::scope(|scope| {
            for (me, act) in threads.iter().enumerate() {
                let (stage, world) = (Arc::clone(&stage), &world);
                scope.spawn(move || {
                    stage.play(me, &|| act(world));
                });
            }
        });
        let mut state = stage.state();
        let is_known = state.is_known;
        if !is_known && state.failed.is_none() {
            let judged = judge(&world);
            judged.unwrap_or_else(|what| state.fail(what));
        }
        if let Some(failed) = &state.failed {
            return Err(format!("after {report:?}: {failed}"));
        }
        search = std::mem::take(&mut state.search);
        report.steps += search.steps() as u64;
        *(if is_known { &mut report.known } else { &mut report.executions }) += 1;
        if !search.go_back() {
            return Ok(report);
        }
        if report.executions + report.known >= most {
            return Err(format!("there are more executions than {most}: {report:?}"));
        }
    }
}
