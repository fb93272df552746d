//! Shorter schedules that show the same.

use super::finding::Finding;
use super::interface::Consumer;
use super::options::Options;
use super::plan::{Actor, Chooser, Plan, plan_of};
use super::run::run;
use std::mem::discriminant;
use std::sync::Arc;

/// Returns the shortest schedule that can be found for the same problem: with fewer messages, and
/// without each fault that is not needed.
pub(super) fn shrunk<C: Consumer>(consumer: &C, options: &Arc<Options>, plan: Plan, found: Finding) -> Finding {
    let (mut best, mut plan, mut options) = (found, plan, Arc::clone(options));
    while options.messages > 1 {
        let fewer = Arc::new(Options { messages: options.messages - 1, ..Options::clone(&options) });
        // The problem may be the last message's: then its faults are the first one's.
        let candidates = [plan.clone(), renumbered(&plan)];
        let shorter = candidates.into_iter().find_map(|plan| attempt(consumer, &fewer, plan, &best));
        let Some((shorter, its_plan)) = shorter else { break };
        (best, plan, options) = (shorter, its_plan, fewer);
    }
    loop {
        let spots: Vec<_> = plan.keys().copied().collect();
        let without = |spot| {
            let mut fewer = plan.clone();
            fewer.remove(spot);
            attempt(consumer, &options, fewer, &best)
        };
        let Some((shorter, its_plan)) = spots.iter().find_map(without) else { return best };
        (best, plan) = (shorter, its_plan);
    }
}

/// Runs a schedule, and returns it if it shows the same problem.
fn attempt<C: Consumer>(consumer: &C, options: &Arc<Options>, plan: Plan, found: &Finding) -> Option<(Finding, Plan)> {
    let outcome = run(consumer, options, Chooser::Planned(plan)).ok()?;
    let problem = outcome.problem.filter(|problem| discriminant(problem) == discriminant(&found.problem))?;
    let plan = plan_of(&outcome.decisions);
    Some((Finding { problem, faults: plan.len(), seed: found.seed, lines: outcome.lines }, plan))
}

/// Returns a plan for one message less: that of the second message is the first one's.
fn renumbered(plan: &Plan) -> Plan {
    let mut less = Plan::new();
    for (&spot, &fault) in plan {
        let mut spot = spot;
        match &mut spot.actor {
            Actor::Message(number) | Actor::Delivery(number) | Actor::Process(number) => {
                *number = number.saturating_sub(1);
            }
        }
        less.entry(spot).or_insert(fault);
    }
    less
}
