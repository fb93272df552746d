//! Scenarios of several tables: switches, forgetting and refreshing across them, retirement, tables
//! that are used again.

use super::scenario::Op::{Check, CheckBoth, Forget, ForgetAll, Look, Retire, RetireEarly, Start};
use super::scenario::scenario;
use super::scenarios;

scenarios! {
    a_table_is_started_between_two_callers: scenario(&[], &[&[Check(1, 1)], &[Start(1, 2), Check(1, 1)]]);
    an_entry_of_the_older_table: scenario(&[Check(1, 1)], &[&[Start(1, 2)], &[Check(1, 2)]]);
    an_entry_of_the_older_table_is_looked_for: scenario(
        &[Check(1, 1)],
        &[&[Start(1, 2), Check(1, 2)], &[Look(1, 2)]],
    );
    two_callers_and_two_tables: scenario(&[Start(1, 2)], &[&[Check(1, 1)], &[Check(1, 2)]]);
    #[cfg(shuttle)]
    two_callers_and_a_third_starts_a_table: scenario(&[], &[&[Check(1, 1)], &[Check(1, 2)], &[Start(1, 2)]]);
    a_third_table_is_started: scenario(&[Start(1, 2)], &[&[Check(1, 1)], &[Start(2, 2)]]);
    #[cfg(shuttle)]
    two_tables_are_started: scenario(&[], &[&[Check(1, 1)], &[Start(1, 2), Start(2, 4), Check(1, 1)]]);
    #[cfg(shuttle)]
    two_tables_are_started_between_three_callers: scenario(
        &[],
        &[&[Check(1, 1)], &[Start(1, 2), Check(1, 1), Start(2, 4)], &[Check(1, 2)]],
    );
    a_batch_and_a_table_that_is_started: scenario(
        &[Check(1, 1)],
        &[&[CheckBoth(1, 2, 1)], &[Start(1, 2), Check(2, 1)]],
    );
    an_entry_expires_in_the_older_table: scenario(
        &[Check(1, 1), Start(1, 2)],
        &[&[Check(1, 4)], &[Check(1, 5), Check(1, 8)]],
    );
    refreshed_while_a_table_is_started: scenario(
        &[Check(1, 1)],
        &[&[Check(1, 3), Check(1, 6)], &[Start(1, 2)]],
    )
    .with_refresh();
    accepted_and_refreshed_while_a_table_is_started: scenario(
        &[],
        &[&[Check(1, 1)], &[Start(1, 2), Check(1, 1)]],
    )
    .with_refresh();
    refreshed_by_two_in_two_tables: scenario(&[Check(1, 1), Start(1, 2)], &[&[Check(1, 2)], &[Check(1, 4)]])
        .with_refresh();
    #[cfg(shuttle)]
    refreshed_by_two_in_two_tables_and_checked: scenario(
        &[Check(1, 1), Start(1, 2), Check(5, 8)],
        &[&[Check(1, 9)], &[Check(1, 11), Check(1, 14)]],
    )
    .with_refresh();
    forgotten_while_a_table_is_started: scenario(
        &[Check(1, 1)],
        &[&[Forget(1, 1), Check(1, 1)], &[Start(1, 2)]],
    );
    #[cfg(shuttle)]
    forgotten_behind_the_back_of_a_late_caller: scenario(
        &[],
        &[&[Check(1, 1)], &[Start(1, 2), Check(1, 1), Forget(1, 1), Check(1, 1)]],
    );
    #[cfg(shuttle)]
    forgotten_while_it_is_refreshed_into_a_new_table: scenario(
        &[Check(1, 1)],
        &[&[Forget(1, 2), Check(1, 2)], &[Start(1, 2), Check(1, 2)]],
    )
    .with_refresh();
    #[cfg(shuttle)]
    forgotten_while_it_is_refreshed_into_the_newest_table: scenario(
        &[Check(1, 1), Start(1, 2), Check(5, 6), Check(1, 8)],
        &[&[Forget(1, 10), Check(1, 10)], &[Check(1, 10)]],
    )
    .with_refresh();
    #[cfg(shuttle)]
    forgotten_while_it_is_copied_into_a_table_just_started: scenario(
        &[Check(1, 1)],
        &[&[Forget(1, 1), Check(1, 7)], &[Start(1, 2), Check(1, 3), Check(1, 6)]],
    )
    .with_refresh();
    all_are_forgotten_while_a_table_is_started: scenario(
        &[Check(1, 1)],
        &[&[ForgetAll(1), Check(1, 1)], &[Start(1, 2)]],
    );
    a_table_is_retired_while_it_is_looked_at: scenario(
        &[Check(1, 1), Start(1, 2), Check(5, 4)],
        &[&[Check(1, 4)], &[Check(6, 16), Retire]],
    );
    #[cfg(shuttle)]
    a_table_is_retired_while_it_is_looked_at_twice: scenario(
        &[Check(1, 1), Start(1, 2), Check(5, 4)],
        &[&[Check(1, 4), Check(1, 8)], &[Check(6, 7), Retire, Check(7, 16), Retire]],
    );
    a_table_is_retired_early_while_it_is_looked_at: scenario(
        &[Check(1, 1), Start(1, 2)],
        &[&[Check(1, 2), Check(1, 2)], &[RetireEarly]],
    );
    a_table_is_retired_as_soon_as_it_may_be: scenario(
        &[Check(1, 1), Start(1, 2), Check(5, 4)],
        &[&[Check(1, 6), Check(1, 12)], &[Check(6, 7), Retire]],
    )
    .stamped_ahead();
    #[cfg(shuttle)]
    a_table_is_retired_as_soon_as_it_may_be_with_refresh: scenario(
        &[Check(1, 1), Start(1, 2), Check(1, 5)],
        &[&[Check(1, 8), Check(1, 13)], &[Check(6, 9), Retire]],
    )
    .stamped_ahead()
    .with_refresh();
    #[cfg(shuttle)]
    an_insertion_into_a_table_that_is_retired: scenario(
        &[],
        &[&[Check(1, 1)], &[Start(1, 2), Check(5, 16), Retire]],
    );
    #[cfg(shuttle)]
    an_insertion_into_a_table_that_is_retired_and_a_later_one: scenario(
        &[],
        &[&[Check(1, 1), Check(1, 16)], &[Start(1, 2), Check(5, 16), Retire, Check(1, 16)]],
    );
    #[cfg(shuttle)]
    a_table_is_used_again: scenario(
        &[],
        &[&[Check(1, 1)], &[Start(1, 2), RetireEarly, Check(5, 4), Start(0, 2), Check(1, 4)]],
    );
}
