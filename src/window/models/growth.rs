//! Scenarios of several tables: switches, forgetting and refreshing across them, retirement, tables
//! that are used again.

use super::scenario::Op::{Check, CheckBoth, Forget, ForgetAll, Look, Retire, RetireEarly, Start};
use super::scenario::scenario;
use super::scenarios;

scenarios! {
    a_table_is_started_between_two_callers: scenario(
        &[],
        &[&[Check(1, 1)], &[Start(1, 2), Check(1, 1)]],
    )
    .with_a_preemption_less();
    an_entry_of_the_older_table: scenario(&[Check(1, 1)], &[&[Start(1, 2)], &[Check(1, 2)]]);
    an_entry_of_the_older_table_is_looked_for: scenario(
        &[Check(1, 1)],
        &[&[Start(1, 2), Check(1, 2)], &[Look(1, 2)]],
    );
    two_callers_and_two_tables: scenario(&[Start(1, 2)], &[&[Check(1, 1)], &[Check(1, 2)]]);
    a_third_table_is_started: scenario(&[Start(1, 2)], &[&[Check(1, 1)], &[Start(2, 2)]]);
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
    .with_refresh()
    .with_a_preemption_less();
    refreshed_by_two_in_two_tables: scenario(&[Check(1, 1), Start(1, 2)], &[&[Check(1, 2)], &[Check(1, 4)]])
        .with_refresh();
    forgotten_while_a_table_is_started: scenario(
        &[Check(1, 1)],
        &[&[Forget(1, 1), Check(1, 1)], &[Start(1, 2)]],
    );
    all_are_forgotten_while_a_table_is_started: scenario(
        &[Check(1, 1)],
        &[&[ForgetAll(1), Check(1, 1)], &[Start(1, 2)]],
    );
    a_table_is_retired_while_it_is_looked_at: scenario(
        &[Check(1, 1), Start(1, 2), Check(5, 4)],
        &[&[Check(1, 4)], &[Check(6, 16), Retire]],
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
}
