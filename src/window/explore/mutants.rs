//! The mutants: every rule whose absence shows under sequential consistency has a scenario that
//! fails without it.
//!
//! Left to loom, since only weak orderings show them: `Acquire`, `NewestInOrder`, `SweptInOrder`.
//! `Repair` is in `wrapping`; `ClearFirst` and `ClearOnce` are the history's.

use super::run::explore;
use super::search::Order;
use super::{buckets, forgetting, growing, sweeping};
use crate::mutation::Rule;

/// Each rule with a scenario that needs it.
const MUTANTS: [(Rule, &str); 34] = [
    (Rule::ValidView, "what_is_accepted_while_forgotten_is_displaced_by_another"),
    (Rule::VictimVersion, "an_empty_bucket"),
    (Rule::Compare, "an_empty_bucket"),
    (Rule::Ring, "an_empty_bucket"),
    (Rule::Relocate, "a_full_bucket"),
    (Rule::RelocateFirst, "an_entry_is_displaced_while_it_is_checked"),
    (Rule::SourceAgain, "f_b_the_forgotten_is_fresh_at_once"),
    (Rule::Flag, "a_full_bucket"),
    (Rule::InheritFlag, "the_displaced_are_checked_in_both_directions"),
    (Rule::AwayFlag, "a_flag_on_an_away_entry_counts_at_any_age"),
    (Rule::FlagGrace, "a_flag_counts_a_grace_longer_than_its_carrier"),
    (Rule::HomeFirst, "an_entry_is_displaced_while_it_is_checked"),
    (Rule::KeepGrace, "expired_entries_clocks_a_tick_apart"),
    (Rule::CountKept, "what_is_lost_is_counted_while_others_may_find_it_live"),
    (Rule::MatchPlace, "equal_tags_are_told_apart_by_place_in_one_bucket"),
    (Rule::Overtaken, "a_caller_that_stalled_is_overtaken"),
    (Rule::RefreshLater, "refreshing_never_makes_an_entry_older"),
    (Rule::ReserveFirst, "f_b_the_forgotten_is_fresh_at_once"),
    (Rule::CancelReserved, "f_b_the_forgotten_is_fresh_at_once"),
    (Rule::RestWhileCleared, "forgetting_all_while_refreshed"),
    (Rule::SweepFirst, "an_entry_looks_young_after_ticks_have_wrapped"),
    (Rule::SweepWhileDue, "two_sweep_at_once"),
    (Rule::SweepAgain, "a_sweep_is_beaten_by_one_for_a_time_long_past"),
    (Rule::AllSwept, "one_shard_is_swept_and_another_is_due"),
    (Rule::LookOlder, "two_check_an_id_while_a_table_is_started"),
    (Rule::NewestAgain, "two_check_an_id_while_a_table_is_started"),
    (Rule::OwnStillThere, "the_next_window_comes_while_a_table_is_started"),
    (Rule::OwnStillThere, "what_the_first_has_accepted_is_forgotten_while_a_table_is_started"),
    (Rule::OwnEntry, "two_check_an_id_while_a_table_is_started"),
    (Rule::RetireLate, "a_table_is_retired_no_earlier_than_those_that_are_behind_allow"),
    (Rule::ForgetNewestFirst, "a_caller_inserts_into_the_older_table_while_the_id_is_forgotten"),
    (Rule::ForgetAgain, "a_copy_is_made_in_a_table_that_forgetting_has_not_seen"),
    (Rule::VersionOfLife, "a_caller_stalls_until_its_table_is_used_again_and_ticks_have_wrapped"),
    (Rule::SpareYoung, "two_check_an_id_while_a_table_is_started"),
];

#[test]
fn every_mutant_is_noticed() {
    let scenarios = [buckets::ALL, forgetting::ALL, sweeping::ALL, growing::ALL].concat();
    let mut missed = Vec::new();
    for (rule, name) in MUTANTS {
        let (_, variants) = scenarios.iter().find(|(other, _)| *other == name).expect("there is such a scenario");
        let reports = variants().into_iter().map(|scenario| explore(&scenario, Some(rule), 500_000, Order::DepthFirst));
        match reports.filter_map(|report| Some((report.states, report.violation?.what))).next() {
            Some((states, what)) => println!("without {rule:?}, after {states} states of {name}: {what}"),
            None => missed.push((rule, name)),
        }
    }
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}
