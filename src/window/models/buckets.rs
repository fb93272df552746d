//! Scenarios of one table: insertions, displacements, time, refreshing, forgetting.

use super::scenario::Op::{Check, CheckBoth, Forget, ForgetAll, Look};
use super::scenario::scenario;
use super::scenarios;

scenarios! {
    an_empty_bucket: scenario(&[], &[&[Check(1, 1)], &[Check(1, 1)]]);
    a_full_bucket: scenario(&[Check(5, 1), Check(6, 1)], &[&[Check(1, 1)], &[Check(1, 2)]]);
    a_bucket_of_expired_entries: scenario(&[Check(5, 1), Check(6, 1)], &[&[Check(1, 7)], &[Check(1, 8)]]);
    a_round_goes_by: scenario(&[], &[&[Check(1, 1)], &[Check(2, 1), Check(1, 1)]]);
    an_entry_is_displaced_while_it_is_checked: scenario(
        &[Check(1, 1), Check(6, 1)],
        &[&[Check(2, 1)], &[Check(1, 2)]],
    );
    an_entry_is_displaced_while_two_check_it: scenario(
        &[Check(1, 1), Check(6, 1)],
        &[&[Check(2, 1)], &[Check(1, 1)], &[Check(1, 1)]],
    );
    an_entry_is_displaced_while_it_is_looked_for: scenario(
        &[Check(1, 1), Check(6, 1)],
        &[&[Check(2, 1)], &[Look(1, 2)]],
    );
    two_are_displaced: scenario(
        &[Check(1, 1), Check(6, 1)],
        &[&[Check(2, 1), Check(3, 1)], &[Check(1, 2)]],
    );
    two_buckets_displaced_in_both_directions: scenario(
        &[Check(1, 1), Check(2, 1), Check(111, 1), Check(112, 1)],
        &[&[Check(3, 1)], &[Check(113, 1)]],
    );
    two_buckets_and_the_displaced_are_checked: scenario(
        &[Check(1, 1), Check(2, 1), Check(111, 1)],
        &[&[Check(3, 1), Check(1, 1)], &[Check(112, 1), Check(111, 1)]],
    );
    a_chain_of_displacements: scenario(
        &[Check(1, 1), Check(2, 1), Check(251, 1), Check(252, 1)],
        &[&[Check(3, 1)], &[Check(251, 1), Check(1, 1)]],
    )
    .with_buckets(4);
    two_equal_ids_in_a_batch: scenario(&[Check(5, 1)], &[&[CheckBoth(1, 1, 1)], &[Check(1, 1)]]);
    two_ids_in_a_batch_one_of_them_displaced: scenario(
        &[Check(1, 1), Check(6, 1)],
        &[&[CheckBoth(2, 1, 1)], &[Check(2, 1)]],
    );
    equal_tags_in_two_buckets: scenario(
        &[Check(101, 1), Check(112, 1)],
        &[&[Check(113, 1)], &[Check(1, 1), Check(1, 2)]],
    );
    a_slot_is_free_for_one_and_not_for_the_other: scenario(
        &[Check(5, 1), Check(6, 1), Forget(6, 1)],
        &[&[Check(1, 6)], &[Check(1, 7)]],
    );
    an_expired_entry_clocks_a_tick_apart: scenario(
        &[Check(1, 1), Check(6, 3)],
        &[&[Check(1, 5)], &[Check(1, 4)]],
    );
    live_for_one_and_dropped_by_the_other: scenario(
        &[Check(1, 1), Check(6, 1), Forget(6, 1)],
        &[&[Check(1, 4), Check(1, 8)], &[Check(2, 5)]],
    );
    live_for_one_and_counted_by_the_other: scenario(
        &[Check(1, 1), Check(6, 1), Forget(6, 1), Check(2, 1), Check(111, 1)],
        &[&[Check(1, 4), Check(1, 8)], &[Check(112, 5)]],
    );
    a_caller_is_overtaken: scenario(
        &[Check(1, 1), Check(6, 1), Forget(6, 1)],
        &[&[Check(1, 2), Check(1, 8)], &[Check(2, 7)]],
    );
    a_flag_is_displaced: scenario(
        &[Check(1, 1), Check(6, 1), Forget(6, 1), Check(2, 1), Forget(2, 1), Check(3, 1)],
        &[&[Check(4, 1)], &[Check(1, 1)]],
    );
    a_flag_on_an_old_entry: scenario(
        &[Check(1, 1), Check(2, 1), Check(251, 6), Check(3, 6), Check(4, 6), Check(221, 9)],
        &[&[Check(222, 9)], &[Check(251, 9)]],
    )
    .with_buckets(4);
    an_entry_is_refreshed_by_two: scenario(&[Check(1, 1)], &[&[Check(1, 2)], &[Check(1, 4), Check(1, 7)]])
        .with_refresh();
    an_entry_is_refreshed_while_it_is_displaced: scenario(
        &[Check(1, 1), Check(6, 1)],
        &[&[Check(2, 2)], &[Check(1, 4)]],
    )
    .with_refresh();
    an_away_entry_is_refreshed_by_two: scenario(
        &[Check(1, 1), Check(6, 1), Check(2, 1)],
        &[&[Check(1, 2)], &[Check(1, 3)]],
    )
    .with_refresh()
    .with_a_preemption_less();
    an_entry_is_forgotten_and_checked: scenario(
        &[Check(1, 1)],
        &[&[Forget(1, 1), Check(1, 1)], &[Check(1, 1)]],
    );
    an_entry_is_forgotten_while_it_is_displaced: scenario(
        &[Check(5, 1), Check(6, 1), Check(1, 1), Check(8, 1)],
        &[&[Check(2, 1)], &[Forget(1, 1), Check(1, 1)]],
    );
    an_entry_is_forgotten_while_another_goes_its_way: scenario(
        &[Check(1, 1), Check(6, 1)],
        &[&[Check(2, 1), Check(1, 1)], &[Forget(1, 1)]],
    );
    all_are_forgotten_while_one_is_displaced: scenario(
        &[Check(1, 1), Check(6, 1)],
        &[&[Check(2, 1)], &[ForgetAll(1), Check(1, 1)]],
    );
    a_sweep_and_a_look: scenario(&[Check(1, 1)], &[&[Look(1, 1026)], &[Look(2, 1026)]]);
    a_sweep_and_a_look_at_what_it_clears: scenario(&[Check(1, 1)], &[&[Look(1, 1026)], &[Look(1, 1026)]]);
    two_shards_are_swept: scenario(
        &[Check(1, 1), Check(101, 1)],
        &[&[Look(1, 1026)], &[Look(101, 1026), Look(1, 1026)]],
    )
    .with_buckets(4);
    a_sweep_and_a_displacement: scenario(
        &[Check(1, 1), Check(5, 479), Check(6, 479)],
        &[&[Check(5, 482)], &[Check(2, 481), Check(6, 482)]],
    );
    a_broken_bucket: scenario(&[], &[&[Check(1, 1)], &[Check(1, 1)]]).broken();
}
