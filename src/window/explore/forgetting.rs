//! Forgetting, while others insert, relocate and refresh. F and G are the names that the brief's
//! model gives these scenarios.

use super::scenario::*;

/// Returns operations after which both buckets are full, and id 1 is the next to be displaced.
fn about_to_displace() -> Vec<Op> {
    vec![check(5, 1), check(6, 1), check(7, 1), check(1, 1), check(8, 1)]
}

scenarios! {
    forgetting_while_displaced: [long, short, refresh]
        Scenario::new(vec![check(1, 1), check(6, 1)], vec![vec![check(2, 1)], vec![forget(1, 1), check(1, 1)]]);
    forgetting_while_checked: [long, short, refresh]
        Scenario::new(vec![check(1, 1)], vec![vec![forget(1, 1), contains(1, 1)], vec![check(1, 1)], vec![check(1, 2)]]);
    /// At tick 0, which means: at the tick that others have agreed on (`SharedState::agreed`).
    forgetting_at_rest_while_checked: [long, short, refresh]
        Scenario::new(vec![check(1, 1)], vec![vec![forget(1, 0), contains(1, 0)], vec![check(1, 1)], vec![check(1, 2)]]);
    forgetting_at_rest_while_displaced: [long, short, refresh]
        Scenario::new(vec![check(1, 1), check(6, 1)], vec![vec![check(2, 2)], vec![forget(1, 0), check(1, 1)]]);
    forgetting_at_rest_while_time_goes_on: [long]
        Scenario::new(
            vec![check(1, 1), check(6, 1)],
            vec![vec![forget(1, 0), contains(1, 0)], vec![check(2, 490)], vec![check(1, 2)]],
        );
    forgetting_all_at_rest: [long, refresh]
        Scenario::new(vec![check(1, 1), check(6, 1)], vec![vec![forget_all(0), check(1, 1)], vec![check(2, 3)]]);
    forgetting_twice_at_once: [long, refresh]
        Scenario::new(
            vec![check(1, 1), check(6, 1)],
            vec![vec![forget(1, 1), check(1, 1)], vec![forget(1, 1), check(1, 1)]],
        );
    f_a_the_forgotten_stays_forgotten: [long, short, refresh]
        Scenario::new(about_to_displace(), vec![vec![check(2, 1), check(1, 1)], vec![forget(1, 1)]]);
    f_b_the_forgotten_is_fresh_at_once: [long, short, refresh]
        Scenario::new(about_to_displace(), vec![vec![check(2, 1)], vec![forget(1, 1), check(1, 1)]]);
    f_c_the_forgotten_slot_is_overwritten: [long, short, refresh]
        Scenario::new(
            about_to_displace(),
            vec![vec![check(2, 1), check(1, 1)], vec![forget(1, 1), check(3, 1)]],
        );
    f_d_the_forgotten_is_accepted_and_displaced_again: [long, refresh]
        Scenario::new(
            vec![check(1, 1), check(6, 1)],
            vec![vec![check(2, 1)], vec![forget(1, 1), check(1, 1), check(3, 1), check(4, 1), check(1, 1)]],
        )
        .large();
    f_e_refreshing_what_is_forgotten_and_away: [long, refresh, short_refresh]
        Scenario::new(
            vec![check(1, 1), check(6, 1), check(2, 1)],
            vec![vec![check(1, 2)], vec![forget(1, 2), check(1, 2)]],
        );
    f_f_two_callers_displace: [long]
        Scenario::new(
            about_to_displace(),
            vec![vec![check(2, 1)], vec![forget(1, 1), check(1, 1)], vec![check(3, 1)]],
        )
        .large();
    f_g_two_are_forgotten: [long]
        Scenario::new(
            about_to_displace(),
            vec![vec![check(2, 1)], vec![forget(1, 1), check(1, 1)], vec![forget(8, 1), check(9, 1)]],
        );
    /// G: an id that a chain moves is forgotten, and others of the chain are old enough to be
    /// dropped.
    g_a_chain_drops_while_it_is_forgotten: [long, short, refresh]
        Scenario::new(
            vec![
                check(11, 100),
                check(3, 101),
                check(12, 101),
                check(1, 101),
                check(13, 101),
                check(14, 103),
                check(15, 103),
            ],
            vec![vec![forget(1, 201), check(1, 200)], vec![check(16, 201)]],
        )
        .slots(3);
    what_is_away_is_refreshed_and_forgotten_twice_at_once: [refresh]
        Scenario::new(
            vec![check(1, 1), check(6, 1), check(2, 1)],
            vec![vec![check(1, 2)], vec![forget(1, 2), check(1, 2)], vec![forget(1, 2)]],
        )
        .large();
    what_is_forgotten_is_refreshed_and_checked: [long, refresh]
        Scenario::new(
            vec![check(2, 1), check(15, 1), check(7, 2)],
            vec![vec![forget(2, 3)], vec![check(9, 3), check(2, 3)]],
        );
    what_is_accepted_while_forgotten_is_displaced: [long, refresh]
        Scenario::new(
            vec![check(1, 1), check(6, 1)],
            vec![vec![forget(1, 1), check(1, 1)], vec![check(1, 1), check(2, 1), check(3, 1)]],
        );
    what_is_accepted_while_forgotten_is_displaced_by_another: [long]
        Scenario::new(
            vec![check(5, 1), check(6, 1), check(1, 1)],
            vec![vec![forget(1, 1), check(1, 1)], vec![check(1, 1)], vec![check(2, 1), check(3, 1)]],
        )
        .large();
    what_is_accepted_while_all_are_forgotten_is_displaced: [long, refresh]
        Scenario::new(
            vec![check(1, 1), check(6, 1)],
            vec![vec![forget_all(1), check(1, 1)], vec![check(1, 1), check(2, 1)]],
        );
    forgetting_all_while_displaced: [long, refresh]
        Scenario::new(
            vec![check(1, 1), check(6, 1), check(11, 1)],
            vec![vec![forget_all(1), check(1, 1), check(6, 1)], vec![check(2, 1), check(12, 1)]],
        );
    forgetting_all_while_both_buckets_are_full: [long, refresh]
        Scenario::new(
            about_to_displace(),
            vec![vec![forget_all(1), check(1, 1)], vec![check(2, 1)]],
        );
    forgetting_all_while_refreshed: [long, refresh, short_refresh]
        Scenario::new(
            vec![check(1, 1), check(6, 1), check(2, 1)],
            vec![vec![check(1, 2)], vec![forget_all(2), check(1, 2)]],
        );
    forgetting_all_while_what_is_away_is_refreshed: [long, refresh]
        Scenario::new(
            vec![check(12, 1), check(15, 1), check(11, 1)],
            vec![vec![check(11, 2)], vec![forget_all(2)]],
        );
    forgetting_all_and_one: [long, refresh]
        Scenario::new(
            vec![check(1, 1), check(6, 1), check(2, 1)],
            vec![vec![forget_all(1), check(1, 1)], vec![forget(6, 1), check(6, 1)]],
        );
}
