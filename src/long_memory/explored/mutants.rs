//! Rules of the protocol that are left out, one by one: a scenario notices each.

use super::scenario::Scenario;
use super::scenarios::{
    claimed, claimed_as_a_batch_while_it_leaves, claimed_while_it_leaves, cleared, dies_merging, dies_sealing,
    fails_once, forgotten, held, leaves_the_window, merged, sealed_as_forgotten, sealed_up_to, tombstone_merged,
};
use crate::mutation::Rule;

const MUTANTS: [(Rule, fn() -> Scenario); 18] = [
    // The tail is given up before its segment is published.
    (Rule::PublishedFirst, leaves_the_window),
    (Rule::SealedUpTo, sealed_up_to),
    (Rule::ForgottenUntilSealed, sealed_as_forgotten),
    // Segments are asked before it is known what they must have.
    (Rule::LagFirst, fails_once),
    (Rule::BehindIsInDoubt, fails_once),
    (Rule::StateBefore, forgotten),
    (Rule::StateAgain, sealed_as_forgotten),
    (Rule::InsertAgain, forgotten),
    // The sources of a merge go before it is there.
    (Rule::PublishAsOne, merged),
    (Rule::ManifestFirst, dies_merging),
    (Rule::SegmentFirst, dies_sealing),
    (Rule::TombstoneStays, tombstone_merged),
    // What no checkpoint has counts as sealed.
    (Rule::HeldIsUnsealed, held),
    // What was forgotten stays.
    (Rule::SegmentsForgottenFirst, cleared),
    (Rule::KnownStillStays, claimed),
    (Rule::NewestRecord, tombstone_merged),
    // Segments were asked while the window had the id.
    (Rule::SegmentsAgain, claimed_while_it_leaves),
    (Rule::SegmentsAgain, claimed_as_a_batch_while_it_leaves),
];

#[test]
fn each_rule_is_missed_if_it_is_left_out() {
    let mut missing = Vec::new();
    for (rule, scenario) in MUTANTS {
        match scenario().explore_without(Some(rule)) {
            Err(wrong) => println!("without {rule:?}: {}", wrong.lines().next().unwrap_or_default()),
            Ok(report) => missing.push((rule, report)),
        }
    }
    assert!(missing.is_empty(), "nobody misses {missing:?}");
}
