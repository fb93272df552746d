//! The search for a schedule that shows something: first in order, by the number of faults, and
//! then by chance.

use super::finding::{Finding, Problem};
use super::interface::Consumer;
use super::options::Options;
use super::plan::{Chooser, Decision, Fault, Plan, plan_of};
use super::report::Report;
use super::run::{Outcome, run};
use super::shrink::shrunk;
use std::sync::Arc;

/// The number of schedules that are tried after the first finding, for one with a shorter story.
const FURTHER: usize = 300;

/// Runs schedules until one shows something.
pub(super) struct Search<'c, C> {
    consumer: &'c C,
    options: Arc<Options>,
    report: Report,
}

/// A schedule, and its children: those with one more fault, at a later moment.
struct Tried {
    plan: Plan,
    decisions: Vec<Decision>,
}

impl<'c, C: Consumer> Search<'c, C> {
    pub(super) fn new(consumer: &'c C, options: Arc<Options>) -> Self {
        let report = Report { seeds: options.seeds.clone(), expected: options.places.clone(), ..Report::default() };
        Search { consumer, options, report }
    }

    /// Returns the report, or what was found first.
    pub(super) fn go(mut self) -> Result<Report, Box<Finding>> {
        self.in_order()?;
        for seed in self.options.seeds.clone() {
            let outcome = self.run(Chooser::of_seed(seed, self.options.faults_max))?;
            self.report.drawn += 1;
            self.judge(outcome, Some(seed))?;
        }
        Ok(self.report)
    }

    fn run(&mut self, chooser: Chooser) -> Result<Outcome, Box<Finding>> {
        let not_run = |error: std::io::Error| Box::new(Finding::new(Problem::NotRun { why: error.to_string() }));
        let outcome = run(self.consumer, &self.options, chooser).map_err(not_run)?;
        self.report.count(&outcome.decisions, &outcome.places);
        Ok(outcome)
    }

    /// Returns a finding, as short as it can be made.
    fn judge(&self, outcome: Outcome, seed: Option<u64>) -> Result<(), Box<Finding>> {
        let Outcome { problem, decisions, lines, .. } = outcome;
        let Some(problem) = problem else { return Ok(()) };
        let faults = decisions.iter().filter(|decision| decision.fault.is_some()).count();
        let found = Finding { problem, faults, seed, lines };
        Err(Box::new(shrunk(self.consumer, &self.options, plan_of(&decisions), found)))
    }

    /// Tries no fault, each fault, and pairs of faults; where a message is handled twice at once,
    /// triples, since two interruptions make an interleaving.
    fn in_order(&mut self) -> Result<(), Box<Finding>> {
        let mut level = self.level(vec![Plan::new()])?;
        self.report.systematic[0] = 1;
        let mut left = self.options.schedules_max.saturating_sub(1);
        let without = self.options.without.clone();
        for faults in 1..self.report.systematic.len() {
            let plans: Vec<Plan> = level
                .iter()
                .filter(|tried| tried.may_have(faults))
                .flat_map(|tried| tried.children(&without))
                .collect();
            // Single faults are all tried.
            let most = match faults {
                1 => plans.len(),
                2 => left * 2 / 3,
                _ => left,
            };
            let chosen = evenly(plans, most, &mut self.report.left_out);
            left = left.saturating_sub(chosen.len());
            self.report.systematic[faults] = chosen.len() as u64;
            level = self.level(chosen)?;
        }
        Ok(())
    }

    /// Tries schedules with equally many faults, and returns the finding with the shortest story.
    fn level(&mut self, plans: Vec<Plan>) -> Result<Vec<Tried>, Box<Finding>> {
        let mut shortest: Option<Outcome> = None;
        let (mut level, mut since_found) = (Vec::new(), 0);
        for plan in plans {
            let outcome = self.run(Chooser::Planned(plan.clone()))?;
            if outcome.problem.is_none() {
                level.push(Tried { plan, decisions: outcome.decisions });
            } else if shortest.as_ref().is_none_or(|shortest| length(&outcome) < length(shortest)) {
                shortest = Some(outcome);
            }
            since_found += usize::from(shortest.is_some());
            if since_found > FURTHER {
                break;
            }
        }
        shortest.map_or(Ok(()), |outcome| self.judge(outcome, None))?;
        Ok(level)
    }
}

/// Returns the length of a story, and its faults, by which those of one length are ordered.
fn length(outcome: &Outcome) -> (usize, Vec<Fault>) {
    (outcome.lines.len(), outcome.decisions.iter().filter_map(|decision| decision.fault).collect())
}

/// Returns this many of some plans, at equal distances, and counts the others.
fn evenly(plans: Vec<Plan>, most: usize, left_out: &mut u64) -> Vec<Plan> {
    let count = plans.len();
    *left_out += count.saturating_sub(most) as u64;
    let is_chosen = |index: usize| count <= most || (index + 1) * most / count > index * most / count;
    plans.into_iter().enumerate().filter(|(index, _)| is_chosen(*index)).map(|(_, plan)| plan).collect()
}

impl Tried {
    /// Returns true if children with this many faults are tried.
    fn may_have(&self, faults: usize) -> bool {
        let has = |is: fn(Fault) -> bool| self.plan.values().any(|&fault| is(fault));
        faults < 3 || has(Fault::is_at_once) && has(|fault| fault == Fault::Interrupt)
    }

    fn children(&self, without: &[Fault]) -> Vec<Plan> {
        let last = self.decisions.iter().rposition(|decision| decision.fault.is_some());
        let later = last.map_or(0, |last| last + 1);
        let mut children = Vec::new();
        for decision in &self.decisions[later..] {
            for &fault in decision.offered.iter().filter(|fault| !without.contains(fault)) {
                let mut child = self.plan.clone();
                child.insert(decision.spot, fault);
                children.push(child);
            }
        }
        children
    }
}
