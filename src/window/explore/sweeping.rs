//! Scenarios of sweeps while others insert: after a window's first use at tick 1 its buckets are
//! due at tick 481, and entries that are 512 ticks old go.

use super::scenario::*;

scenarios! {
    a_sweep_and_inserters: [long]
        Scenario::new(
            vec![check(1, 1), check(6, 1)],
            vec![vec![sweep(0, 600)], vec![check(1, 600)], vec![check(2, 600)]],
        );
    two_sweep_at_once: [long, short]
        Scenario::new(
            vec![check(1, 1), check(6, 1)],
            vec![vec![sweep(0, 600), check(2, 600)], vec![sweep(1, 601), check(1, 601)]],
        );
    a_sweep_is_beaten_by_one_for_a_time_long_past: [long, short]
        Scenario::new(vec![], vec![vec![check(2, 1)], vec![check(1, 1000), check(1, 1001)]]);
    /// An entry that is younger than 512 ticks stays; nothing else tells live entries from dead
    /// ones later.
    a_sweep_leaves_what_is_young: [long, short, refresh]
        Scenario::new(
            vec![check(1, 90), check(6, 450), check(2, 450)],
            vec![vec![check(6, 540)], vec![sweep(0, 540), check(3, 540)]],
        );
    an_entry_looks_young_after_ticks_have_wrapped: [long, short, refresh]
        Scenario::new(vec![check(1, 1), check(6, 1)], vec![vec![check(1, 1026)], vec![check(6, 1027)]]);
    /// Buckets 0 and 2 of four are in shards of their own.
    one_shard_is_swept_and_another_is_due: [long, short]
        Scenario::new(
            vec![check(1, 1), check(21, 1)],
            vec![vec![check(21, 1026), check(1, 1026)], vec![check(1, 1027), check(21, 1027)]],
        )
        .buckets(4);
    two_shards_are_swept_by_three: [long, short]
        Scenario::new(
            vec![check(1, 1), check(21, 1)],
            vec![vec![sweep(0, 1026), check(21, 1026)], vec![sweep(2, 1027)], vec![check(1, 1026)]],
        )
        .buckets(4);
    a_sweep_that_stalls_until_its_ticks_have_wrapped: [long, short, refresh]
        Scenario::new(
            vec![check(1, 1), check(6, 1)],
            vec![vec![sweep(0, 1000)], vec![check(2, 1030), check(2, 1031)]],
        );
    a_flag_is_swept_when_nothing_is_left_that_it_protects: [long, short, refresh]
        Scenario::new(
            vec![check(1, 1), check(6, 1), check(2, 1), check(3, 90)],
            vec![vec![sweep(1, 601), check(1, 601)], vec![check(2, 601), check(3, 601)]],
        );
}
