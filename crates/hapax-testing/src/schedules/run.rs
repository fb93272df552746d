//! Running the schedules, one after another, until one is wrong.

use super::calls::Schedules;
use super::found::{Explored, FailedSchedule, Failure};
use crate::check::Checker;
use crate::follow::follow;
use crate::operation::Operation;
use crate::recorder::Stamps;
use crate::subject::{Semantics, Subject, Time};
use crate::violation::Violation;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Schedule, Scheduler, Task, TaskId};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Tries schedules on new subjects, and judges the history of each.
///
/// # Errors
///
/// [`FailedSchedule`]: the first one with wrong answers, a panic, a deadlock, or too many steps.
///
/// # Panics
///
/// If the specification's time is [`Time::Own`]: a schedule takes no real time.
pub fn verify_schedules<S: Subject + 'static>(
    subject: impl Fn() -> S + Send + Sync + 'static,
    schedules: &Schedules,
    semantics: &Semantics,
) -> Result<Explored, Box<FailedSchedule>> {
    assert!(semantics.time != Time::Own, "a subject that reads a clock of its own cannot be scheduled: give it times");
    let all = schedules.schedules as usize;
    let evenly = all / 2;
    let session = Session::new(subject, schedules, semantics);
    session.run(RandomScheduler::new_from_seed(schedules.seed, evenly))?;
    session.run(PctScheduler::new_from_seed(schedules.seed, CHANGES, all - evenly))?;
    Ok(session.explored())
}

/// The number of times that priorities change in a schedule: most races need one or two.
pub(super) const CHANGES: usize = 3;

/// A subject, its specification, and what came of the schedules so far.
pub(super) struct Session {
    one: Arc<dyn Fn() + Send + Sync>,
    progress: Arc<Mutex<Progress>>,
    seed: u64,
    steps_max: u32,
}

impl Session {
    pub(super) fn new<S: Subject + 'static>(
        subject: impl Fn() -> S + Send + Sync + 'static,
        schedules: &Schedules,
        semantics: &Semantics,
    ) -> Self {
        let progress = Arc::new(Mutex::new(Progress::default()));
        let (shared, schedules, semantics) = (Arc::clone(&progress), schedules.clone(), *semantics);
        let (seed, steps_max) = (schedules.seed, schedules.steps_max);
        let one = Arc::new(move || try_one(&subject(), &schedules, &semantics, &shared));
        Session { one, progress, seed, steps_max }
    }

    /// Runs schedules until one is wrong, or the scheduler has no more.
    pub(super) fn run(&self, scheduler: impl Scheduler + 'static) -> Result<(), Box<FailedSchedule>> {
        let scheduler = UntilWrong { scheduler, progress: Arc::clone(&self.progress) };
        let one = Arc::clone(&self.one);
        let runner = Runner::new(scheduler, config(self.steps_max));
        let ended = catch_unwind(AssertUnwindSafe(|| runner.run(move || one())));
        let mut progress = lock(&self.progress);
        let failure = match (progress.violation.take(), ended) {
            (Some(violation), _) => Failure::Wrong(violation),
            (None, Err(panic)) => Failure::Stopped(message(&*panic)),
            (None, Ok(_)) => return Ok(()),
        };
        Err(Box::new(FailedSchedule { seed: self.seed, schedule: progress.explored.schedules, failure }))
    }

    pub(super) fn explored(&self) -> Explored {
        lock(&self.progress).explored
    }
}

/// The schedules so far.
#[derive(Default)]
struct Progress {
    /// With the schedule under way.
    explored: Explored,
    violation: Option<Box<Violation>>,
}

fn lock(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs one schedule, in a thread of shuttle's.
fn try_one<S: Subject>(subject: &S, schedules: &Schedules, semantics: &Semantics, progress: &Mutex<Progress>) {
    let number = {
        let explored = &mut lock(progress).explored;
        explored.schedules += 1;
        explored.schedules
    };
    let operations = record(subject, schedules, number);
    let mut checker = Checker::new(semantics);
    let checked = checker.check(&operations, subject.evicted());
    let report = checker.report();
    let mut progress = lock(progress);
    progress.explored.operations += report.operations;
    progress.explored.overlapping += report.overlapping;
    progress.violation = checked.err();
}

fn record<S: Subject>(subject: &S, schedules: &Schedules, number: u32) -> Vec<Operation> {
    let stamps = Stamps::exact();
    let stamps = &stamps;
    shuttle::thread::scope(|scope| {
        let run = |thread| {
            scope.spawn(move || {
                let mut recorder = stamps.recorder(thread);
                follow(subject, schedules.script(number, thread).into_iter(), &mut recorder);
                recorder.into_operations()
            })
        };
        let threads: Vec<_> = (0..schedules.threads).map(run).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

fn config(steps_max: u32) -> Config {
    let mut config = Config::new();
    // A thread has as much as a small thread of the system, for subjects that are no models.
    config.stack_size = 256 << 10;
    config.max_steps = MaxSteps::FailAfter(steps_max as usize);
    // The seed and the number say all.
    config.failure_persistence = FailurePersistence::None;
    config.silence_warnings = true;
    config
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a thread panicked".to_string())
}

/// A scheduler that begins no schedule after one that was wrong.
struct UntilWrong<S> {
    scheduler: S,
    progress: Arc<Mutex<Progress>>,
}

impl<S: Scheduler> Scheduler for UntilWrong<S> {
    fn new_execution(&mut self) -> Option<Schedule> {
        if lock(&self.progress).violation.is_none() {
            return self.scheduler.new_execution();
        }
        // A scheduler that is dropped before its end takes that for a panic, and says so.
        while self.scheduler.new_execution().is_some() {}
        None
    }

    fn next_task(&mut self, runnable: &[&Task], current: Option<TaskId>, is_yielding: bool) -> Option<TaskId> {
        self.scheduler.next_task(runnable, current, is_yielding)
    }

    fn next_u64(&mut self) -> u64 {
        self.scheduler.next_u64()
    }
}
