//! Histories of a model that is right: each is accepted, and rejected when one answer is made
//! impossible.

use super::judged::long;
use crate::checker::check::{Given, effective_times};
use crate::{Checker, Event, Interval, Operation, Problem, Semantics, Time, check_history};
use hapax::Timestamp;
use hapax::seam::random::Random;
use proptest::prelude::*;
use std::collections::HashMap;
use std::time::Duration;

const WINDOW: u64 = 1_000;
const SLACK: u64 = 20;
const THREADS: usize = 6;

/// The unusual events that may happen.
#[derive(Clone, Copy, Debug)]
struct Unusual {
    refresh: bool,
    forgets: bool,
    evictions: bool,
    silence: bool,
    /// The model reads a clock of its own, which shows the moment of the operation.
    own_clock: bool,
}

fn semantics(refresh_on_duplicate: bool, own_clock: bool) -> Semantics {
    let (window, slack) = (Duration::from_nanos(WINDOW), Duration::from_nanos(SLACK));
    let time = if own_clock { Time::Own } else { Time::LargestSoFar };
    Semantics {
        window,
        slack,
        refresh_on_duplicate,
        forgets_meanwhile: false,
        accepts_meanwhile: false,
        time,
        lease: None,
    }
}

/// Returns the answers of a right subject to threads, each operation at a moment of its own within
/// a longer interval, and the number of evictions that it has counted.
fn history(seed: u64, len: u64, unusual: Unusual) -> (Vec<Operation>, u64) {
    let mut random = Random::new(seed);
    let mut accepted: HashMap<u64, u64> = HashMap::new();
    let mut free = [0; THREADS];
    let (mut operations, mut latest, mut evicted, mut now) = (Vec::new(), 0, 0, 0);
    while operations.len() < len as usize {
        now += 10;
        let thread = random.below(THREADS as u64) as usize;
        if free[thread] >= now {
            continue;
        }
        let invoked = (now - random.below(40).min(now)).max(free[thread]);
        let returned = now + random.below(40);
        free[thread] = returned;
        let id = random.below(5);
        // Clocks differ.
        let at = if unusual.own_clock { invoked * 2 } else { now * 2 + random.below(30) };
        let until = returned * 2;
        latest = if unusual.own_clock { now * 2 } else { latest.max(at) };
        let age = accepted.get(&id).map(|then| latest - then);
        if unusual.evictions && random.chance(3) && accepted.remove(&id).is_some() {
            evicted += 1;
            continue;
        }
        let known = age.is_some_and(|age| age < WINDOW || (age < WINDOW + SLACK && random.chance(50)));
        let mut event = if known { Event::Duplicate } else { Event::Fresh };
        let mut returned = returned;
        if unusual.forgets && random.chance(5) {
            event = Event::Forget;
            accepted.remove(&id);
        } else if unusual.silence && random.chance(2) {
            (event, returned) = (Event::Unanswered, Interval::NEVER);
            if random.chance(50) && (!known || unusual.refresh) {
                accepted.insert(id, latest);
            }
        } else if !known || unusual.refresh {
            accepted.insert(id, latest);
        }
        let interval = Interval { invoked, returned };
        let (at, until, thread) = (Timestamp::from_nanos(at), Timestamp::from_nanos(until), thread as u16);
        operations.push(Operation { id, at, until, interval, thread, event, ..Operation::default() });
    }
    (operations, evicted)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(long(150, 500)))]

    #[test]
    fn what_a_model_answers_is_right(
        seed: u64, refresh: bool, forgets: bool, evictions: bool, silence: bool, own_clock: bool,
        cut in 0..400_usize,
    ) {
        let unusual = Unusual { refresh, forgets, evictions, silence, own_clock };
        let (operations, evicted) = history(seed, 400, unusual);
        let report = check_history(&operations, &semantics(refresh, own_clock), evicted);
        // With this many operations that may have happened at any time the checker may give up,
        // which it reports.
        let may_give_up = silence && evictions;
        prop_assume!(!(may_give_up && report.as_ref().is_err_and(|violation| violation.problem == Problem::TooManyOrders)));
        prop_assert!(report.is_ok(), "{}", report.unwrap_err());
        let report = report.unwrap();
        prop_assert_eq!(report.operations, 400);
        prop_assert!(report.needed_evictions <= evicted);

        // In two pieces, if the history can be cut there.
        let (first, second) = operations.split_at(cut);
        let returned = first.iter().filter(|o| !o.is_optional()).map(|o| o.interval.returned).max();
        if second.iter().all(|operation| Some(operation.interval.invoked) > returned) {
            let mut checker = Checker::new(&semantics(refresh, own_clock));
            prop_assert!(checker.check(first, evicted).is_ok());
            prop_assert!(checker.check(second, evicted).is_ok());
            prop_assert_eq!(checker.report().fresh, report.fresh);
        }
    }

    #[test]
    fn one_impossible_answer_is_found(
        seed: u64, refresh: bool, own_clock: bool, which: prop::sample::Index, fresh: bool,
    ) {
        let unusual = Unusual { refresh, forgets: false, evictions: false, silence: false, own_clock };
        let (mut operations, _) = history(seed, 400, unusual);
        let times = effective_times(&operations, semantics(refresh, own_clock).time, &mut Given::default());
        let before = |i: usize, j: usize| operations[i].interval.returned < operations[j].interval.invoked;
        let same = |i: usize, j: usize| i != j && operations[i].id == operations[j].id;
        let all = || 0..operations.len();
        let impossible = |j: usize| if fresh {
            // Accepted before, and not yet expired at any possible time.
            all().any(|i| {
                let accepted = same(i, j) && before(i, j) && operations[i].event == Event::Fresh;
                accepted && times[j].latest - times[i].earliest < WINDOW
            })
        } else {
            // Not known to any operation that can have been first.
            all().filter(|&i| same(i, j)).all(|i| before(j, i))
        };
        let wrong = if fresh { Event::Fresh } else { Event::Duplicate };
        let candidates: Vec<_> = all().filter(|&j| operations[j].event != wrong && impossible(j)).collect();
        prop_assume!(!candidates.is_empty());
        let j = candidates[which.index(candidates.len())];
        operations[j].event = wrong;
        let violation = check_history(&operations, &semantics(refresh, own_clock), 0).unwrap_err();
        prop_assert_eq!(violation.id, operations[j].id);
        // It has a name, and what is shown was recorded, and is no longer than it must be.
        prop_assert!(violation.problem != Problem::NoOrder, "{}", violation);
        let shown = &violation.operations;
        prop_assert!(shown.iter().all(|one| one.id == violation.id && operations.contains(one)), "{}", violation);
        let most = if refresh { 40 } else { 2 };
        prop_assert!(!shown.is_empty() && shown.len() <= most, "{}", violation);
        let columns = violation.to_string().lines().map(|line| line.chars().count()).max();
        prop_assert!(columns <= Some(100), "{}", violation);
    }
}
