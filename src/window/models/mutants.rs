//! The rules of the protocols, left out one by one: a model that does not notice a missing rule
//! proves nothing.
//!
//! Only loom can notice rules about the order in which others see memory; shuttle and the explorer
//! know one order.

use super::scenario::Scenario;
use super::{buckets, growth, world};
use crate::rules::Rule::{self, *};
use crate::sync::model;

/// The rules whose absence only loom can notice.
const MISSED_BY_LOOM: &[(Rule, &str)] = &[
    (Acquire, "an_entry_is_displaced_while_it_is_checked"),
    (NewestInOrder, "a_table_is_started_between_two_callers"),
    (SweepAgain, "a_sweep_and_a_look"),
];

/// The rules whose scenarios take loom too long.
const MISSED_BY_SHUTTLE: &[(Rule, &str)] = &[
    (ValidView, "more_than_a_round_goes_by"),
    (FlagGrace, "a_flag_older_than_what_it_protects"),
    (SweepWhileDue, "a_sweep_and_an_insertion"),
    (ForgetNewestFirst, "forgotten_behind_the_back_of_a_late_caller"),
    (ForgetAgain, "forgotten_while_it_is_copied_into_a_table_just_started"),
    (VersionOfLife, "a_table_is_used_again"),
];

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
];

#[test]
fn rules_are_missed() {
    let mut unnoticed = Vec::new();
    let more = if cfg!(loom) { MISSED_BY_LOOM } else { MISSED_BY_SHUTTLE };
    for &(rule, name) in MISSED.iter().chain(more) {
        let named = |(other, _): &&(&str, Scenario)| *other == name;
        let (_, scenario) = buckets::SCENARIOS.iter().chain(growth::SCENARIOS).find(named).expect("a scenario's name");
        match model::rejects(rule, move || world::run(scenario)) {
            Some(after) => println!("{}: without {rule:?}: {name}, after {after} executions", model::CHECKER),
            None => unnoticed.push((rule, name)),
        }
    }
    assert!(unnoticed.is_empty(), "nobody misses {unnoticed:?}");
}
