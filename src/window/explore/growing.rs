//! Scenarios of several tables: one is started, or retired, while others insert, forget and look.

use super::scenario::*;
use Op::{Retire, Revive, Start};

scenarios! {
    two_check_an_id_while_a_table_is_started: [long, short, refresh, short_refresh]
        Scenario::new(vec![], vec![vec![check(1, 1)], vec![check(1, 1)], vec![Start(1)]]).spares(&[2]);
    two_check_an_id_while_two_tables_are_started: [long, short, refresh]
        Scenario::new(vec![], vec![vec![check(1, 1)], vec![check(1, 1)], vec![Start(1), Start(2)]]).spares(&[2, 4]);
    /// An event that is a window ahead comes while a table is started: the first caller finds the
    /// id accepted for the next window, after others were told that it is handling it.
    the_next_window_comes_while_a_table_is_started: [long, short, refresh]
        Scenario::new(vec![], vec![vec![check(1, 1)], vec![Start(1), check(1, 1), check(1, 101)]]).spares(&[2]);
    two_windows_come_while_two_tables_are_started: [long]
        Scenario::new(
            vec![],
            vec![vec![check(1, 1)], vec![Start(1), check(1, 1), check(1, 101), Start(2), check(1, 201)]],
        )
        .spares(&[2, 2]);
    /// The same, if it is forgotten and accepted by another caller.
    what_the_first_has_accepted_is_forgotten_while_a_table_is_started: [long, short, refresh]
        Scenario::new(vec![], vec![vec![check(1, 1)], vec![Start(1), check(1, 1), forget(1, 1), check(1, 1)]])
            .spares(&[2]);
    what_the_first_has_accepted_is_displaced_while_a_table_is_started: [long]
        Scenario::new(
            vec![check(6, 1)],
            vec![vec![check(1, 1)], vec![check(2, 1)], vec![Start(1), check(1, 1), check(1, 101)]],
        )
        .spares(&[2]);
    an_id_is_checked_again_while_a_table_is_started: [long, short, refresh]
        Scenario::new(
            vec![check(1, 1), check(6, 1)],
            vec![vec![check(1, 50), check(1, 100)], vec![check(2, 50), check(2, 50)], vec![Start(1)]],
        )
        .spares(&[2]);
    entries_are_displaced_while_a_table_is_started: [long, short, refresh]
        Scenario::new(
            vec![check(1, 1), check(6, 1)],
            vec![vec![check(2, 1)], vec![check(1, 1)], vec![Start(1)]],
        )
        .spares(&[2]);
    a_caller_inserts_into_the_table_before_late: [long, short, refresh]
        Scenario::new(
            vec![],
            vec![vec![check(1, 1)], vec![Start(1)], vec![check(1, 1), check(1, 2)]],
        )
        .spares(&[4]);
    an_id_of_an_older_table_expires: [long, refresh]
        Scenario::new(
            vec![check(1, 1), Start(1)],
            vec![vec![check(1, 100)], vec![check(1, 101)], vec![check(1, 101)]],
        )
        .spares(&[2]);
    an_id_is_forgotten_while_a_table_is_started: [long, short, refresh]
        Scenario::new(
            vec![check(1, 1)],
            vec![vec![forget(1, 1), check(1, 1)], vec![check(1, 1)], vec![Start(1)]],
        )
        .spares(&[2]);
    a_new_id_is_forgotten_while_a_table_is_started: [long, short]
        Scenario::new(vec![], vec![vec![check(1, 1)], vec![forget(1, 1), check(1, 1)], vec![Start(1)]]).spares(&[2]);
    an_id_of_an_older_table_is_forgotten_while_checked: [long, refresh, short_refresh]
        Scenario::new(
            vec![check(1, 1), Start(1)],
            vec![vec![forget(1, 2), check(1, 2)], vec![check(1, 2)]],
        )
        .spares(&[2]);
    an_id_of_an_older_table_is_forgotten_while_refreshed_twice: [refresh]
        Scenario::new(
            vec![check(1, 1), Start(1)],
            vec![vec![forget(1, 2), check(1, 2)], vec![check(1, 2), check(1, 3)]],
        )
        .spares(&[2]);
    an_id_of_the_oldest_of_three_tables_is_forgotten: [long]
        Scenario::new(
            vec![check(1, 1), Start(1)],
            vec![vec![forget(1, 2), check(1, 2)], vec![check(1, 2)], vec![Start(2)]],
        )
        .spares(&[2, 2]);
    all_are_forgotten_while_a_table_is_started: [long]
        Scenario::new(
            vec![check(1, 1), check(6, 1)],
            vec![vec![forget_all(1), check(1, 1)], vec![check(1, 1)], vec![Start(1)]],
        )
        .spares(&[2]);
    a_table_is_retired_while_it_is_looked_at: [long, short, refresh]
        Scenario::new(
            vec![check(1, 1), Start(1), check(2, 50)],
            vec![vec![check(1, 111), check(2, 111)], vec![Retire], vec![check(1, 109)]],
        )
        .spares(&[2]);
    a_table_is_retired_as_soon_as_it_may_be: [long, refresh]
        Scenario::new(
            vec![check(1, 1), Start(1)],
            vec![vec![contains(2, 103), Retire], vec![check(1, 100)], vec![contains(3, 111), Retire]],
        )
        .spares(&[2]);
    a_table_is_retired_no_earlier_than_those_that_are_behind_allow: [long, refresh]
        Scenario::new(
            vec![check_within(1, 1), Start(1)],
            vec![vec![check(1, 101)], vec![contains(2, 103), Retire]],
        )
        .spares(&[2]);
    a_caller_inserts_into_the_older_table_while_the_id_is_forgotten: [long, short]
        Scenario::new(vec![], vec![vec![check(1, 1)], vec![Start(1), check(1, 1), forget(1, 1), check(1, 1)]])
            .spares(&[2]);
    a_copy_is_made_in_a_table_that_forgetting_has_not_seen: [refresh]
        Scenario::new(vec![check(1, 1)], vec![vec![forget(1, 10), check(1, 10)], vec![Start(1), check(1, 10)]])
            .spares(&[2]);
    /// And alone: the other table is gone when the id is checked, so that nothing in it, which such
    /// a caller may have written just as late, looks young.
    a_caller_stalls_until_its_table_is_used_again_and_ticks_have_wrapped: [long]
        Scenario::new(
            vec![],
            vec![
                vec![check(1, 1)],
                vec![
                    Start(1),
                    contains(3, 111),
                    Retire,
                    contains(3, 950),
                    Revive(0),
                    Start(0),
                    contains(3, 1060),
                    Retire,
                    check(1, 1060),
                ],
            ],
        )
        .spares(&[2])
        .breaks();
    a_table_is_used_again: [long, short, refresh]
        Scenario::new(
            vec![check(1, 1), Start(1), check(2, 100)],
            vec![vec![contains(3, 211), Retire, Revive(0), Start(0), check(1, 211)], vec![check(1, 102), check(2, 211)]],
        )
        .spares(&[2]);
    a_caller_stalls_while_its_table_is_retired_and_used_again: [long, refresh]
        Scenario::new(
            vec![],
            vec![vec![Start(1), contains(3, 111), Retire, Revive(0), Start(0), check(1, 111)], vec![check(1, 1)]],
        )
        .spares(&[2]);
    the_whole_window_two_check_an_id_while_a_table_is_started: [long, refresh]
        Scenario::new(vec![], vec![vec![check(1, 1)], vec![check(1, 1)], vec![Start(1)]]).spares(&[2]).whole();
    the_whole_window_a_batch_while_a_table_is_started: [long, refresh]
        Scenario::new(vec![check(2, 1)], vec![vec![batch(&[1, 2, 1], 1)], vec![check(1, 1)], vec![Start(1)]])
            .spares(&[2])
            .whole();
    the_whole_window_two_batches_while_a_table_is_started: [long]
        Scenario::new(vec![], vec![vec![batch(&[1, 2], 1)], vec![batch(&[2, 1], 1), Start(1)]])
            .spares(&[2])
            .whole();
    the_whole_window_a_batch_over_two_tables: [long, refresh]
        Scenario::new(
            vec![check(1, 1), Start(1), check(2, 1)],
            vec![vec![batch(&[1, 2, 3], 1), check(3, 1)], vec![check(3, 1)]],
        )
        .spares(&[2])
        .whole();
    the_whole_window_a_batch_is_overtaken: [long]
        Scenario::new(
            vec![check(1, 1), check(2, 1)],
            vec![vec![batch(&[1, 2, 3], 100)], vec![check(1, 103)], vec![check(3, 101)]],
        )
        .whole();
    the_whole_window_a_batch_and_forgetting: [long, refresh]
        Scenario::new(
            vec![check(1, 1), Start(1)],
            vec![vec![batch(&[1, 2], 1)], vec![forget(1, 1), check(1, 1)]],
        )
        .spares(&[2])
        .whole();
}
