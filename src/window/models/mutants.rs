//! The rules of the protocols, left out one by one: a model that does not notice a missing rule
//! proves nothing.
//!
//! Rules whose scenarios take loom too long are left to the explorer; only loom can notice those
//! about the order in which others see memory.

use super::scenario::Scenario;
use super::{buckets, growth, world};
use crate::mutation::Rule::{self, *};
use crate::sync::model;

/// The rules, each with the scenario that fails without it.
const MISSED: &[(Rule, &str)] = &[
    (VictimVersion, "a_full_bucket"),
    (Compare, "a_full_bucket"),
    (Ring, "a_slot_is_free_for_one_and_not_for_the_other"),
    (Relocate, "an_entry_is_displaced_while_it_is_checked"),
    (RelocateFirst, "an_entry_is_displaced_while_it_is_checked"),
    (SourceAgain, "an_entry_is_forgotten_while_it_is_displaced"),
    (Flag, "an_entry_is_displaced_while_it_is_checked"),
    (InheritFlag, "a_flag_is_displaced"),
    (AwayFlag, "a_flag_on_an_old_entry"),
    (HomeFirst, "an_entry_is_refreshed_while_it_is_displaced"),
    (KeepGrace, "live_for_one_and_dropped_by_the_other"),
    (CountKept, "live_for_one_and_counted_by_the_other"),
    (MatchPlace, "equal_tags_in_two_buckets"),
    (Overtaken, "a_caller_is_overtaken"),
    (RefreshLater, "an_entry_is_refreshed_by_two"),
    (ReserveFirst, "an_entry_is_forgotten_while_it_is_displaced"),
    (CancelReserved, "an_entry_is_forgotten_while_it_is_displaced"),
    (Repair, "a_broken_bucket"),
    (SweepFirst, "a_sweep_and_a_look"),
    (LookOlder, "an_entry_of_the_older_table"),
    (NewestAgain, "a_table_is_started_between_two_callers"),
    (OwnEntry, "a_third_table_is_started"),
    (SpareYoung, "accepted_and_refreshed_while_a_table_is_started"),
    (RetireLate, "a_table_is_retired_as_soon_as_it_may_be"),
    (SweepAgain, "a_sweep_and_a_look"),
    (AllSwept, "two_shards_are_swept"),
    // Only loom notices these.
    (Acquire, "an_entry_is_displaced_while_it_is_checked"),
    (NewestInOrder, "a_table_is_started_between_two_callers"),
    (SweptInOrder, "a_sweep_and_a_look_at_what_it_clears"),
];

#[test]
fn rules_are_missed() {
    let mut unnoticed = Vec::new();
    for &(rule, name) in MISSED {
        let named = |(other, _): &&(&str, Scenario)| *other == name;
        let (_, scenario) = buckets::SCENARIOS.iter().chain(growth::SCENARIOS).find(named).expect("a scenario's name");
        match model::rejects(rule, move || world::run(scenario)) {
            Some(after) => println!("without {rule:?}: {name}, after {after} executions"),
            None => unnoticed.push((rule, name)),
        }
    }
    assert!(unnoticed.is_empty(), "nobody misses {unnoticed:?}");
}
