//! Models of the protocol between claims and checks: under loom, every execution with at most three
//! preemptions and every reordering that the memory orderings allow.
//!
//! The scenarios below say what is done to one id, [`world`] does it, and [`judge`] says whether
//! the answers are right. The code is that of the shards; the window is one bit, which is forgotten
//! as the real one may forget: again, after another caller has inserted the id anew.

mod judge;
mod world;

use crate::mutation::Rule::{self, *};
use crate::sync::model;

/// A call. The first number is the caller's time, the second the end of its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Check(u64),
    /// A claim. If it is granted, the thread's next calls that concern a claim are about this one.
    /// A thread that has none goes by the last one that was granted before the threads began.
    Claim(u64, u64),
    Complete,
    Release,
    Renew(u64),
    Fail(u64),
    Forget(u64),
}
use Op::{Check, Claim, Complete, Fail, Forget, Release, Renew};

/// The calls of a run: first one thread calls, then several at once, then one again.
#[derive(Clone, Copy, Debug)]
struct Scenario {
    first: &'static [Op],
    threads: &'static [&'static [Op]],
    last: &'static [Op],
}

/// The calls at the end, unless a scenario says otherwise: a claim tells whether the id is free,
/// and if so, a check whether it is done.
const LAST: &[Op] = &[Claim(50, 60), Check(50)];

const fn scenario(first: &'static [Op], threads: &'static [&'static [Op]]) -> Scenario {
    Scenario { first, threads, last: LAST }
}

/// Makes each scenario a test of its own, so that they share the machine's cores.
macro_rules! scenarios {
    ($($name:ident: $scenario:expr;)*) => {
        const SCENARIOS: &[(&str, Scenario)] = &[$((stringify!($name), $scenario)),*];
        $(
            #[test]
            fn $name() {
                const SCENARIO: &Scenario = &$scenario;
                model::check(stringify!($name), || world::run(SCENARIO));
            }
        )*
    };
}

scenarios! {
    a_claim_and_a_check: scenario(&[], &[&[Claim(1, 100)], &[Check(1)]]);
    a_claim_and_a_check_later: scenario(&[Claim(0, 1), Release], &[&[Claim(1, 100)], &[Check(1)]]);
    a_claim_and_a_claim: scenario(&[], &[&[Claim(1, 100)], &[Claim(1, 100)]]);
    claimed_and_completed_beside_a_check: scenario(&[], &[&[Claim(1, 100), Complete], &[Check(1)]]);
    claimed_and_released_beside_a_check: scenario(&[], &[&[Claim(1, 100), Release], &[Check(1)]]);
    claimed_and_released_beside_a_claim: scenario(&[], &[&[Claim(1, 100), Release], &[Claim(1, 100)]]);
    completed_beside_two_checks: scenario(&[Claim(1, 100)], &[&[Complete], &[Check(1)], &[Check(1)]]);
    released_beside_two_checks: scenario(&[Claim(1, 100)], &[&[Release], &[Check(1)], &[Check(1)]]);
    released_and_checked_beside_two_checks: scenario(
        &[Claim(1, 100)],
        &[&[Release, Check(1)], &[Check(1)], &[Check(1)]],
    );
    completed_beside_a_check_and_a_claim: scenario(&[Claim(1, 100)], &[&[Complete], &[Check(1)], &[Claim(1, 100)]]);
    completed_beside_a_check_that_comes_again: scenario(&[Claim(1, 100)], &[&[Complete], &[Check(1), Check(1)]]);
    released_beside_a_check_that_comes_again: scenario(&[Claim(1, 100)], &[&[Release], &[Check(1), Check(1)]]);
    two_claims_take_over: scenario(&[Claim(1, 10)], &[&[Claim(20, 100)], &[Claim(20, 100)]]);
    a_claim_and_a_check_take_over: scenario(&[Claim(1, 10)], &[&[Claim(20, 100)], &[Check(20)]]);
    two_checks_take_over: scenario(&[Claim(1, 10)], &[&[Check(20)], &[Check(20)]]);
    completed_late: scenario(&[Claim(1, 10)], &[&[Complete], &[Claim(20, 100), Complete]]);
    completed_late_beside_a_check: scenario(&[Claim(1, 10)], &[&[Complete], &[Check(20)]]);
    released_late: scenario(&[Claim(1, 10)], &[&[Release], &[Claim(20, 100), Complete]]);
    released_late_beside_a_check: scenario(&[Claim(1, 10)], &[&[Release], &[Check(20), Check(20)]]);
    renewed_beside_a_claim: scenario(&[Claim(1, 10)], &[&[Renew(100), Complete], &[Claim(20, 100)]]);
    renewed_beside_a_check: scenario(&[Claim(1, 10)], &[&[Renew(100), Complete], &[Check(20)]]);
    fails_beside_a_check: scenario(&[Claim(1, 10)], &[&[Fail(30)], &[Check(20)]]);
    fails_beside_a_claim: scenario(&[Claim(1, 10)], &[&[Fail(30)], &[Claim(20, 100)]]);
    forgotten_beside_a_claim: scenario(&[Check(1)], &[&[Forget(1)], &[Claim(1, 100), Complete]]);
    forgotten_while_it_is_completed: scenario(&[Claim(1, 100)], &[&[Forget(1)], &[Complete, Check(1)]]);
    forgotten_while_it_is_accepted: scenario(
        &[Claim(1, 100)],
        &[&[Check(1), Release, Check(1), Forget(1)], &[Check(1)]],
    );
    forgotten_and_claimed_while_it_is_accepted: scenario(
        &[],
        &[&[Check(1)], &[Check(1), Forget(1), Claim(1, 100), Release]],
    );
}

/// The rules, each with the scenario that fails when the rule is left out.
const MISSED: &[(Rule, &str)] = &[
    (AnnounceFirst, "a_claim_and_a_check"),
    (FilterKeeps, "two_claims_take_over"),
    (ClaimLooks, "a_claim_and_a_check"),
    (ConfirmFresh, "a_claim_and_a_check"),
    (ConfirmDuplicate, "released_beside_two_checks"),
    (TakeBack, "claimed_and_released_beside_a_check"),
    (KeepTakenBack, "released_and_checked_beside_two_checks"),
    (KeepContested, "claimed_and_completed_beside_a_check"),
    (DoneFirst, "completed_beside_two_checks"),
    (ForgetLater, "forgotten_while_it_is_accepted"),
    (TokenHolds, "completed_late"),
    // About the order in which others see memory.
    (AnnounceInOrder, "a_claim_and_a_check"),
];

#[test]
fn rules_are_missed() {
    let mut unnoticed = Vec::new();
    for &(rule, name) in MISSED {
        let (_, scenario) = SCENARIOS.iter().find(|(other, _)| *other == name).expect("a scenario's name");
        match model::rejects(rule, move || world::run(scenario)) {
            Some(after) => println!("without {rule:?}: {name}, after {after} executions"),
            None => unnoticed.push((rule, name)),
        }
    }
    assert!(unnoticed.is_empty(), "nobody misses {unnoticed:?}");
}
