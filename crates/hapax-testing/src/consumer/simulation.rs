//! The public face of the simulation.

use super::finding::{Finding, Problem};
use super::interface::Consumer;
use super::options::{Expect, Options};
use super::plan::{Chooser, Fault};
use super::report::Report;
use super::run::run;
use super::search::Search;
use super::story::story;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// A simulation of a consumer under faults: each single one, pairs of them, and many by chance.
///
/// ```
/// # use hapax_testing::consumer::{Consumer, Expect, Simulation};
/// fn try_it(consumer: impl Consumer) {
///     match Simulation::new(consumer).expect(Expect::AtLeastOnce).run() {
///         Ok(report) => println!("{report}"),
///         Err(finding) => panic!("{finding}"),
///     }
/// }
/// ```
pub struct Simulation<C> {
    consumer: C,
    options: Options,
}

impl<C: Consumer> Simulation<C> {
    /// Creates a simulation with two messages and two processes, of which each effect is expected
    /// once.
    pub fn new(consumer: C) -> Self {
        Simulation { consumer, options: Options::default() }
    }

    /// Sets the number of effects that each message must have. Default: [`Expect::Once`].
    pub fn expect(mut self, expect: Expect) -> Self {
        self.options.expect = expect;
        self
    }

    /// Sets the number of messages, at least one. Default: 2.
    pub fn messages(mut self, messages: usize) -> Self {
        self.options.messages = messages.max(1);
        self
    }

    /// Sets the number of processes that share the messages, at least one. Default: 2.
    pub fn processes(mut self, processes: usize) -> Self {
        self.options.processes = processes.max(1);
        self
    }

    /// Sets the time after which the broker delivers a message again that was not acknowledged.
    /// Default: 30 s.
    pub fn redelivery(mut self, after: Duration) -> Self {
        self.options.redelivery = after;
        self
    }

    /// Sets the time for which a process stands still, and for which an answer is late: longer than
    /// the consumer's leases, or these are not tried. Default: two minutes.
    pub fn freeze(mut self, freeze: Duration) -> Self {
        self.options.freeze = freeze;
        self
    }

    /// Sets the time for which something that is called is away. Default: 20 s.
    pub fn away(mut self, away: Duration) -> Self {
        self.options.away = away;
        self
    }

    /// Sets the time after which a message is sent a second time. Default: ten minutes.
    pub fn late(mut self, late: Duration) -> Self {
        self.options.late = late;
        self
    }

    /// Sets the virtual time in which all messages must be done, or a message is
    /// [never done](Problem::NeverDone). Default: one hour.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.options.patience = patience;
        self
    }

    /// Sets the number of schedules that are tried in order, before those that are drawn. Those
    /// with one fault are all tried; of those with more, some are left out evenly if there are too
    /// many. Default: 5,000.
    pub fn schedules_max(mut self, schedules: usize) -> Self {
        self.options.schedules_max = schedules;
        self
    }

    /// Sets the seeds of the schedules that are drawn. Default: 0 to 999.
    pub fn seeds(mut self, seeds: Range<u64>) -> Self {
        self.options.seeds = seeds;
        self
    }

    /// Sets the greatest number of faults of a schedule that is drawn. Default: 8.
    pub fn faults_max(mut self, faults: u32) -> Self {
        self.options.faults_max = faults;
        self
    }

    /// Leaves out faults that cannot happen, or that are known and accepted: a queue whose senders
    /// never send twice, for example.
    pub fn without(mut self, faults: &[Fault]) -> Self {
        self.options.without = faults.to_vec();
        self
    }

    /// Names the places of calls that must be reached. The [report](Report::never_reached) names
    /// those that were not.
    pub fn places(mut self, places: &[&'static str]) -> Self {
        self.options.places = places.to_vec();
        self
    }

    /// Tries all schedules, on a thread of its own.
    ///
    /// # Errors
    ///
    /// The first finding, shrunk.
    ///
    /// # Cost
    ///
    /// Some 20 to 200 µs a schedule: with the default options a second, or less.
    pub fn run(&self) -> Result<Report, Box<Finding>> {
        let options = Arc::new(self.options.clone());
        self.on_a_thread(|| Search::new(&self.consumer, options).go())
    }

    /// Returns the story of one drawn schedule: the same one each time, if the consumer is
    /// deterministic.
    ///
    /// # Errors
    ///
    /// If it could not be run.
    pub fn trace(&self, seed: u64) -> Result<String, Box<Finding>> {
        let options = Arc::new(self.options.clone());
        let not_run = |why: std::io::Error| Box::new(Finding::new(Problem::NotRun { why: why.to_string() }));
        self.on_a_thread(|| {
            let outcome = run(&self.consumer, &options, Chooser::of_seed(seed, options.faults_max)).map_err(not_run)?;
            let found = outcome.problem.map_or(String::new(), |problem| format!("\n{problem}"));
            Ok(story(&outcome.lines) + &found)
        })
    }

    /// Runs this on another thread: the caller may be in a tokio runtime, in which no other one may
    /// be started.
    fn on_a_thread<T: Send>(&self, work: impl FnOnce() -> Result<T, Box<Finding>> + Send) -> Result<T, Box<Finding>> {
        let not_run = |why: String| Box::new(Finding::new(Problem::NotRun { why }));
        std::thread::scope(|scope| {
            let builder = std::thread::Builder::new().name("hapax consumer".to_owned());
            let thread = builder.spawn_scoped(scope, work).map_err(|error| not_run(error.to_string()))?;
            match thread.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }
}
