//! Models of threads that bring versions of one id: under loom (every execution with at most three
//! preemptions) and shuttle (schedules drawn at random).

use super::judge::{Call, judge};
use super::shards::Shards;
use crate::Timestamp;
use crate::digest::Digest;
use crate::rules::Rule;
use crate::sync::{Ordering, StdAtomicU64, model};
use std::sync::{Arc, Mutex};

/// The versions that each thread brings, one after another.
type Scenario = &'static [&'static [u64]];

const SCENARIOS: &[Scenario] = &[&[&[5], &[6]], &[&[5, 6], &[6, 5]], &[&[6], &[6], &[5]], &[&[5, 7], &[6], &[7]]];

fn run(scenario: Scenario) {
    let shards = Arc::new(Shards::new(1, 1_000).unwrap());
    let calls = Arc::new(Mutex::new(Vec::new()));
    // No part of the model: it orders nothing.
    let count = Arc::new(StdAtomicU64::new(0));
    let id = Digest::from(17);
    let thread = |versions: &&'static [u64]| {
        let (versions, shards, calls, count) = (*versions, shards.clone(), calls.clone(), count.clone());
        Box::new(move || {
            for &version in versions {
                let began = count.fetch_add(1, Ordering::SeqCst);
                let verdict = shards.advance(id, version, Timestamp::from_nanos(1).into());
                let ended = count.fetch_add(1, Ordering::SeqCst);
                calls.lock().unwrap().push(Call { version, began, ended, verdict });
            }
        }) as Box<dyn FnOnce() + Send>
    };
    model::run_at_once(scenario.iter().map(thread).collect());
    let known = shards.known(id, Timestamp::from_nanos(1));
    judge(&calls.lock().unwrap(), known).unwrap();
}

#[test]
fn of_versions_at_the_same_time_each_passes_once_and_the_highest_is_known() {
    for &scenario in SCENARIOS {
        let executions = model::explore(move || run(scenario));
        println!("{}: {scenario:?}: {executions} executions", model::CHECKER);
    }
}

#[test]
fn it_is_noticed_when_a_rule_is_left_out() {
    for (rule, scenario) in [(Rule::AdvanceAsOne, SCENARIOS[0]), (Rule::VersionRises, SCENARIOS[1])] {
        let after = model::rejects(rule, move || run(scenario));
        assert!(after.is_some(), "nobody misses {rule:?}");
    }
}
