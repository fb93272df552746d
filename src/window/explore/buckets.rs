//! Scenarios of one bucket, and of buckets that are each other's alternate.

use super::scenario::*;

scenarios! {
    an_empty_bucket: [long, short, refresh, short_refresh]
        Scenario::new(vec![], vec![vec![check(1, 1)], vec![check(1, 1)]]);
    an_empty_bucket_three_callers_a_clock_ahead: [long, short, refresh]
        Scenario::new(vec![], vec![vec![check(1, 1)], vec![check(1, 2)], vec![check(1, 1)]]);
    an_empty_bucket_times_within_ticks: [long, short, refresh]
        Scenario::new(vec![], vec![vec![check_within(1, 1)], vec![check(1, 2), check(1, 101)]]);
    expired_entries_clocks_a_tick_apart: [long, short, refresh]
        Scenario::new(
            vec![check(1, 1), check(6, 2)],
            vec![vec![check(1, 101)], vec![check(1, 100)], vec![check(2, 101)]],
        )
        .large();
    expired_entries_clocks_a_grace_apart: [long, short, refresh]
        Scenario::new(
            vec![check(1, 1), check(6, 2)],
            vec![vec![check(1, 102)], vec![check(1, 101)], vec![check(2, 102)]],
        )
        .large();
    expired_entries_times_within_ticks: [long, short, refresh]
        Scenario::new(
            vec![check_within(1, 1), check(6, 2)],
            vec![vec![check(1, 102)], vec![check_within(1, 101)], vec![check(2, 102)]],
        )
        .large();
    a_full_bucket: [long, short, refresh]
        Scenario::new(
            vec![check(5, 1), check(6, 1)],
            vec![vec![check(1, 1)], vec![check(1, 2)], vec![check(2, 1)]],
        )
        .large();
    a_full_bucket_two_callers: [long, short, refresh]
        Scenario::new(vec![check(5, 1), check(6, 1)], vec![vec![check(1, 1)], vec![check(1, 2)]]);
    a_full_bucket_two_ids: [long, short, refresh]
        Scenario::new(vec![check(5, 1), check(6, 1)], vec![vec![check(1, 1)], vec![check(2, 1)]]);
    expired_entries_two_callers: [long, short, refresh]
        Scenario::new(vec![check(1, 1), check(6, 2)], vec![vec![check(1, 102)], vec![check(1, 101)]]);
    an_entry_is_displaced_while_one_checks_it: [long, short, refresh]
        Scenario::new(vec![check(1, 1), check(6, 1)], vec![vec![check(2, 1)], vec![check(1, 2)]]);
    two_buckets_displaced_in_both_directions: [long, short, refresh]
        Scenario::new(
            vec![check(1, 1), check(2, 1), check(11, 1), check(12, 1)],
            vec![vec![check(3, 1)], vec![check(13, 1)]],
        );
    a_full_bucket_more_than_a_round_goes_by: [long, short, refresh]
        Scenario::new(
            vec![check(5, 1), check(6, 1)],
            vec![vec![check(1, 1), check(1, 2)], vec![check(2, 1), check(3, 1), check(1, 1)]],
        )
        .large();
    an_entry_is_displaced_while_it_is_checked: [long, short, refresh]
        Scenario::new(
            vec![check(1, 1), check(6, 1)],
            vec![vec![check(2, 1)], vec![check(1, 2)], vec![check(3, 1)]],
        )
        .large();
    an_entry_is_displaced_twice_while_it_is_checked_twice: [long, short, refresh]
        Scenario::new(
            vec![check(1, 1), check(6, 1)],
            vec![vec![check(2, 1), check(3, 1)], vec![check(1, 2), check(1, 2)]],
        );
    buckets_of_three_slots: [long, short, refresh]
        Scenario::new(
            vec![check(1, 1), check(6, 1), check(7, 1)],
            vec![vec![check(2, 1)], vec![check(1, 2)], vec![check(3, 1)]],
        )
        .slots(3)
        .large();
    both_buckets_full_displaced_in_both_directions: [long, short, refresh]
        Scenario::new(
            vec![check(1, 1), check(2, 1), check(11, 1), check(12, 1)],
            vec![vec![check(3, 1)], vec![check(13, 1)], vec![check(1, 1)]],
        )
        .large();
    the_displaced_are_checked_in_both_directions: [long, short, refresh]
        Scenario::new(
            vec![check(1, 1), check(2, 1), check(11, 1), check(12, 1)],
            vec![vec![check(3, 1), check(1, 1)], vec![check(13, 1), check(11, 1)]],
        );
    a_chain_that_comes_back: [long, short, refresh]
        Scenario::new(
            vec![check(1, 1), check(2, 1), check(11, 1), check(12, 1)],
            vec![vec![check(3, 1)], vec![check(11, 2)], vec![check(1, 2)]],
        )
        .large();
    a_chain_through_three_buckets: [long, short, refresh]
        Scenario::new(
            vec![check(1, 1), check(2, 1), check(111, 1), check(112, 1)],
            vec![vec![check(3, 1)], vec![check(111, 1)], vec![check(1, 1)]],
        )
        .buckets(4);
    a_chain_and_another_that_begins_in_its_middle: [long]
        Scenario::new(
            vec![check(1, 1), check(2, 1), check(111, 1), check(112, 1)],
            vec![vec![check(3, 1), check(1, 1)], vec![check(113, 1), check(111, 1)]],
        )
        .buckets(4);
    a_caller_that_stalled_is_overtaken: [long, short, refresh]
        Scenario::new(
            vec![check(1, 1), check(6, 1)],
            vec![vec![check(2, 103)], vec![check(1, 100)], vec![check(1, 101)]],
        );
    a_caller_that_stalled_a_window_is_overtaken: [long, short, refresh]
        Scenario::new(
            vec![check(1, 150), check(6, 150)],
            vec![vec![check_late(1, 40), check(1, 151)], vec![check(2, 151), check(3, 151)]],
        );
    /// D1: a flag on an away entry, which is older than what the flag protects, outlives it.
    a_flag_on_an_away_entry_counts_at_any_age: [long, short, refresh]
        Scenario::new(
            vec![check(1, 1), check(2, 1), check(111, 100), check(3, 100), check(4, 100)],
            vec![vec![check(14, 105), check(15, 105)], vec![check(111, 105)]],
        )
        .buckets(4);
    /// D2: a caller that is a grace behind still finds an entry that a flag protects, when others
    /// find that the carrier need not be kept.
    a_flag_counts_a_grace_longer_than_its_carrier: [long, short, refresh]
        Scenario::new(
            vec![check(1, 3), check_late(5, 1), check_late(2, 1)],
            vec![vec![check(3, 103), check(4, 103)], vec![check(1, 102)]],
        );
    /// D3: a lost entry is counted by every caller that must keep it, not only by those that find
    /// it live.
    what_is_lost_is_counted_while_others_may_find_it_live: [long, short, refresh]
        Scenario::new(
            vec![check(1, 1), check(2, 1), check(3, 1), check(11, 100)],
            vec![vec![check(12, 101)], vec![check(1, 100)]],
        );
    /// D4: two ids with one tag, each in the other's alternate bucket.
    equal_tags_are_told_apart_by_place: [long, short, refresh]
        Scenario::new(
            vec![check(1001, 1), check(2, 1), check(1011, 1), check(12, 1), check(3, 1), check(13, 1)],
            vec![vec![check(1001, 2)], vec![check(1011, 2)]],
        );
    equal_tags_are_told_apart_by_place_in_one_bucket: [long, short, refresh]
        Scenario::new(vec![check(1001, 1), check(6, 1)], vec![vec![check(2, 1)], vec![check(1011, 1)]]);
    a_batch_of_equal_ids: [long, refresh]
        Scenario::new(vec![], vec![vec![batch(&[1, 1, 2], 1)], vec![check(1, 1)]]);
    a_batch_of_neighbours_and_another_in_another_order: [long]
        Scenario::new(vec![check(5, 1)], vec![vec![batch(&[1, 2, 1], 1)], vec![batch(&[2, 1], 1)]]);
    a_batch_of_which_some_are_displaced: [long, refresh]
        Scenario::new(
            vec![check(5, 1), check(6, 1)],
            vec![vec![batch(&[5, 1, 5], 1)], vec![check(5, 1), check(7, 1)]],
        );
    a_batch_that_is_overtaken: [long, refresh]
        Scenario::new(
            vec![check(1, 1), check(6, 1)],
            vec![vec![batch(&[2, 1, 11], 100)], vec![check(3, 103), check(11, 103)]],
        );
    refreshing_never_makes_an_entry_older: [refresh, short_refresh]
        Scenario::new(vec![check(1, 1)], vec![vec![check(1, 50)], vec![check(1, 51), check(1, 150)]]);
    refreshing_while_displaced: [refresh, short_refresh]
        Scenario::new(
            vec![check(1, 1), check(6, 1)],
            vec![vec![check(1, 50), check(1, 149)], vec![check(2, 50), check(3, 50)]],
        );
    refreshing_what_is_away: [refresh, short_refresh]
        Scenario::new(
            vec![check(1, 1), check(6, 1), check(2, 1)],
            vec![vec![check(1, 50)], vec![check(1, 51)], vec![check(3, 50)]],
        )
        .large();
    /// Found by random scenarios: an entry comes home when it is refreshed, while another caller
    /// looks for it in its old place.
    looking_for_what_comes_home: [long, refresh]
        Scenario::new(
            vec![check(1, 1), check(6, 1), check(7, 1)],
            vec![vec![contains(1, 2)], vec![check(1, 2), check(9, 2), check(11, 2)]],
        );
    looking_changes_nothing: [long, short]
        Scenario::new(
            vec![check(1, 1), check(6, 1)],
            vec![vec![contains(1, 1), contains(2, 1)], vec![check(2, 1), contains(1, 101)], vec![contains(1, 101)]],
        );
}
