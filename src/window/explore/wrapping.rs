//! The worst that a caller can do that stalls until a version has wrapped: with one version bit and
//! two slots, three insertions later; with two bits, seven; in a window, with six bits and eight
//! slots, 505.

use super::run::{STATES_MAX, explain, explore};
use super::scenario::*;
use super::search::Order;
use crate::mutation::Rule;

/// Returns the number of insertions after which the head of the ring looks as it did before.
fn wrap(version_bits: u32) -> u16 {
    ((1 << version_bits) - 1) * 2 + 1
}

/// Returns a scenario in which two callers check id 1; one of them after so many other insertions
/// that its own one makes `insertions`. The inserted ids are forgotten, so that nothing moves.
fn two_callers(version_bits: u32, insertions: u16) -> Scenario {
    let mut others: Vec<Op> = (2..=insertions).flat_map(|id| [check(id, 1), forget(id, 1)]).collect();
    others.push(check(1, 1));
    Scenario::new(vec![], vec![vec![check(1, 1)], others]).version_bits(version_bits).breaks()
}

#[test]
fn both_of_two_callers_win_only_if_one_stalls_until_the_version_has_wrapped() {
    for version_bits in [1, 2] {
        for insertions in 1..=wrap(version_bits) {
            for scenario in variants(two_callers(version_bits, insertions), &["long"]) {
                let report = explore(&scenario, None, STATES_MAX, Order::DepthFirst);
                println!("{version_bits} version bits, {insertions} insertions: {} states", report.states);
                assert!(!report.capped);
                let both_win = insertions == wrap(version_bits);
                assert_eq!(report.violation.is_some(), both_win, "{}", explain(&scenario, None));
            }
        }
    }
}

/// Returns a scenario in which the stalled caller breaks the bucket, and the others find it broken.
fn a_bucket_that_breaks(version_bits: u32, insertions: u16) -> Scenario {
    let others = (2..=insertions).flat_map(|id| [check(id, 1), forget(id, 1)]).chain([check(9, 1)]).collect();
    Scenario::new(vec![], vec![vec![check(1, 1)], others]).version_bits(version_bits).breaks()
}

#[test]
fn a_bucket_that_a_wrapped_version_has_broken_is_repaired_and_counted_and_nobody_spins() {
    // With one version bit and two slots, every bucket is a state of a ring.
    let version_bits = 2;
    for insertions in wrap(version_bits) - 1..=wrap(version_bits) {
        let scenario = a_bucket_that_breaks(version_bits, insertions);
        let report = explore(&scenario, None, STATES_MAX, Order::DepthFirst);
        println!("{insertions} insertions: {} states, {} repairs", report.states, report.repairs);
        assert!(!report.capped && report.violation.is_none(), "{}", explain(&scenario, None));
        assert_eq!(report.repairs > 0, insertions == wrap(version_bits));
    }
    let broken = a_bucket_that_breaks(version_bits, wrap(version_bits));
    let what =
        explore(&broken, Some(Rule::Repair), STATES_MAX, Order::DepthFirst).violation.expect("nobody repairs it").what;
    assert!(what.contains("spins"), "{what}");
}
