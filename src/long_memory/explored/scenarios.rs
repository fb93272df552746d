//! The scenarios.

use super::scenario::Op::{Batch, Check, Checkpoint, Claim, ClaimBatch, Clear, Die, Fail, Flush, Forget, Seal, Tidy};
use super::scenario::Scenario;

/// An id leaves the window while it is sealed, and asked for; nobody has written it before.
pub(super) fn leaves_the_window() -> Scenario {
    Scenario {
        name: "leaves the window",
        before: &[Check(1, 0)],
        threads: &[&[Check(1, 98)], &[Check(1, 103)], &[Seal(103)]],
        after: &[Check(1, 300)],
        known: &[1],
        ..Scenario::default()
    }
}

/// A window passes while a check is under way: it has left the window before it is recorded, and so
/// sealed. It is handled twice then, never not at all.
pub(super) fn outlives_its_window() -> Scenario {
    Scenario {
        name: "outlives its window",
        before: &[Check(2, 0)],
        threads: &[&[Check(1, 1)], &[Check(1, 104)]],
        after: &[Check(1, 105), Check(1, 300)],
        known: &[2],
        may_doubt: true,
        may_be_twice: true,
        ..Scenario::default()
    }
}

/// Two ask for an id that nobody has, while its file may be sealed.
pub(super) fn fresh_for_one() -> Scenario {
    Scenario {
        name: "fresh for one",
        before: &[Check(1, 0), Seal(5)],
        threads: &[&[Check(2, 10)], &[Check(2, 10)], &[Seal(10)]],
        after: &[Check(2, 20), Check(2, 150), Check(1, 151)],
        known: &[1],
        ..Scenario::default()
    }
}

/// An id is accepted while files are sealed, and asked for again when the window has forgotten it
/// and the disk fails.
pub(super) fn sealed_up_to() -> Scenario {
    Scenario {
        name: "sealed up to",
        before: &[Check(1, 0), Seal(9)],
        threads: &[&[Check(2, 30), Check(3, 58)], &[Seal(10)]],
        after: &[Fail, Check(2, 132)],
        known: &[1],
        may_doubt: true,
        ..Scenario::default()
    }
}

/// An id that waits for a checkpoint is in no file.
pub(super) fn held() -> Scenario {
    Scenario {
        name: "held",
        checkpoints: true,
        before: &[Check(1, 0)],
        threads: &[&[Seal(50)], &[Check(2, 10), Check(1, 103)]],
        after: &[Check(1, 104), Checkpoint, Check(2, 120)],
        known: &[1],
        may_doubt: true,
        ..Scenario::default()
    }
}

/// The first one that seals fails.
pub(super) fn fails_once() -> Scenario {
    Scenario {
        name: "fails once",
        before: &[Check(1, 0), Flush, Fail],
        threads: &[&[Check(1, 103)], &[Seal(103)], &[Check(1, 103)]],
        after: &[Check(1, 300)],
        known: &[1],
        may_doubt: true,
        ..Scenario::default()
    }
}

/// Segments are merged while another one comes, and ids of both are asked for.
pub(super) fn merged() -> Scenario {
    Scenario {
        name: "merged",
        before: &[Check(1, 0), Seal(5), Check(2, 10), Seal(15), Check(3, 20), Seal(25), Seal(130), Check(4, 130)],
        threads: &[&[Tidy(130)], &[Check(1, 130)], &[Seal(130)]],
        after: &[Check(4, 300), Check(2, 300)],
        known: &[1, 2, 3, 4],
        ..Scenario::default()
    }
}

/// An id of segments is forgotten while it is asked for.
pub(super) fn forgotten() -> Scenario {
    Scenario {
        name: "forgotten",
        before: &[Check(1, 0), Seal(5), Seal(130)],
        threads: &[&[Forget(1)], &[Check(1, 130), Check(1, 130)]],
        after: &[Check(1, 131)],
        known: &[1],
        ..Scenario::default()
    }
}

/// The same, and that is sealed meanwhile.
pub(super) fn forgotten_and_sealed() -> Scenario {
    Scenario {
        name: "forgotten and sealed",
        before: &[Check(1, 0), Seal(5), Seal(130)],
        threads: &[&[Forget(1), Seal(131)], &[Check(1, 130)]],
        after: &[Check(1, 132), Check(1, 300)],
        known: &[1],
        ..Scenario::default()
    }
}

/// An id of segments is forgotten while it is claimed.
pub(super) fn claimed() -> Scenario {
    Scenario {
        name: "claimed",
        before: &[Check(1, 0), Seal(5), Seal(130)],
        threads: &[&[Forget(1)], &[Claim(1, 130)]],
        after: &[Check(1, 131)],
        known: &[1],
        ..Scenario::default()
    }
}

/// An id leaves the window between the two looks of those that claim it.
pub(super) fn claimed_while_it_leaves() -> Scenario {
    Scenario {
        name: "claimed while it leaves",
        before: &[Check(1, 0), Seal(5), Check(2, 98)],
        threads: &[&[Claim(1, 98)], &[Check(3, 103)]],
        after: &[Claim(1, 104)],
        known: &[1, 2],
        ..Scenario::default()
    }
}

/// The same of many at once.
pub(super) fn claimed_as_a_batch_while_it_leaves() -> Scenario {
    Scenario {
        name: "claimed as a batch while it leaves",
        threads: &[&[ClaimBatch(&[2, 1, 4])], &[Check(3, 103)]],
        ..claimed_while_it_leaves()
    }
}

/// Everything is forgotten while an id is claimed.
pub(super) fn claimed_and_cleared() -> Scenario {
    Scenario { name: "claimed and cleared", threads: &[&[Clear], &[Claim(1, 130)]], ..claimed() }
}

/// A forgotten id is sealed while two ask for it.
pub(super) fn sealed_as_forgotten() -> Scenario {
    Scenario {
        name: "sealed as forgotten",
        before: &[Check(1, 0), Seal(5), Seal(130), Forget(1)],
        threads: &[&[Seal(131)], &[Check(1, 130)], &[Check(1, 130)]],
        after: &[Check(1, 132), Check(1, 300)],
        ..Scenario::default()
    }
}

/// A tombstone is merged with others, and not with the record that it undoes.
pub(super) fn tombstone_merged() -> Scenario {
    Scenario {
        name: "tombstone merged",
        before: &[
            Check(1, 0),
            Seal(5),
            Check(2, 10),
            Seal(15),
            Check(3, 20),
            Seal(25),
            Tidy(25),
            Seal(130),
            Forget(1),
            Seal(131),
            Check(4, 132),
            Seal(133),
            Check(5, 134),
            Seal(135),
        ],
        threads: &[&[Tidy(140)], &[Check(1, 140)], &[Check(1, 140), Check(2, 140)]],
        after: &[Check(1, 141), Check(5, 300)],
        known: &[2, 3, 4, 5],
        ..Scenario::default()
    }
}

/// Everything is forgotten, while it is asked for.
pub(super) fn cleared() -> Scenario {
    Scenario {
        name: "cleared",
        before: &[Check(1, 0), Seal(5), Seal(130), Check(2, 130)],
        threads: &[&[Clear], &[Check(1, 130)]],
        after: &[Check(1, 131), Check(2, 131)],
        known: &[1, 2],
        ..Scenario::default()
    }
}

/// An expired id is dropped while it is asked for.
pub(super) fn expired() -> Scenario {
    Scenario {
        name: "expired",
        before: &[Check(1, 0), Seal(5), Seal(900), Check(2, 901), Seal(995)],
        threads: &[&[Tidy(1006)], &[Check(1, 1006)], &[Check(1, 1006), Check(2, 1006)]],
        after: &[Check(1, 1007), Check(2, 1007)],
        known: &[2],
        ..Scenario::default()
    }
}

/// A batch beside a check.
pub(super) fn batches() -> Scenario {
    Scenario {
        name: "batches",
        before: &[Check(1, 0), Seal(5), Seal(130)],
        threads: &[&[Batch(&[2, 1], 130)], &[Check(2, 130)]],
        after: &[Check(1, 131), Check(2, 131)],
        known: &[1],
        ..Scenario::default()
    }
}

/// A process dies while it seals.
pub(super) fn dies_sealing() -> Scenario {
    Scenario {
        name: "dies sealing",
        before: &[Check(1, 0), Seal(5), Check(2, 10), Flush, Check(3, 20)],
        threads: &[&[Seal(30)], &[Die]],
        known: &[1, 2],
        ..Scenario::default()
    }
}

/// A process dies while it merges.
pub(super) fn dies_merging() -> Scenario {
    Scenario {
        name: "dies merging",
        before: &[Check(1, 0), Seal(5), Check(2, 10), Seal(15), Check(3, 20), Seal(25), Check(4, 26), Flush],
        threads: &[&[Tidy(30)], &[Die]],
        known: &[1, 2, 3, 4],
        ..Scenario::default()
    }
}

const ALL: [fn() -> Scenario; 20] = [
    outlives_its_window,
    leaves_the_window,
    fresh_for_one,
    sealed_up_to,
    held,
    fails_once,
    merged,
    forgotten,
    forgotten_and_sealed,
    sealed_as_forgotten,
    tombstone_merged,
    claimed,
    claimed_while_it_leaves,
    claimed_as_a_batch_while_it_leaves,
    claimed_and_cleared,
    cleared,
    expired,
    batches,
    dies_sealing,
    dies_merging,
];

/// The same with more threads: a hundred times as many orders.
const MORE: [fn() -> Scenario; 3] = [
    || Scenario { threads: &[&[Forget(1)], &[Check(1, 130)], &[Check(1, 130)]], ..forgotten() },
    || Scenario { threads: &[&[Forget(1)], &[Check(1, 130)], &[Seal(131)]], ..forgotten_and_sealed() },
    || Scenario { threads: &[&[Clear], &[Check(1, 130)], &[Seal(130)]], ..cleared() },
];

const MORE_DEATHS: [fn() -> Scenario; 2] = [
    || Scenario { threads: &[&[Batch(&[2, 1], 130)], &[Forget(1), Check(2, 130)]], ..batches() },
    || Scenario { threads: &[&[Tidy(30)], &[Die], &[Seal(30)]], ..dies_merging() },
];

#[test]
fn a_check_that_outlives_its_window_may_be_fresh_beside_another() {
    let once = Scenario { may_be_twice: false, ..outlives_its_window() };
    let found = once.explore().expect_err("it needs the condition that long_memory's documentation names");
    assert_eq!(found.matches("is_fresh: Some(true)").count(), 2, "{found}");
}

/// Explores scenarios, and says how many orders there are.
fn explore(scenarios: &[fn() -> Scenario]) {
    let mut executions = 0;
    for scenario in scenarios.iter().map(|scenario| scenario()) {
        let began = std::time::Instant::now();
        let report = scenario.explore().unwrap_or_else(|wrong| panic!("{wrong}"));
        println!("{}: {report:?} in {:.1?}", scenario.name, began.elapsed());
        assert!(report.executions > 1, "nothing of it can come in another order");
        executions += report.executions;
    }
    println!("{executions} orders of steps, each that can make a difference");
}

#[test]
fn each_order_of_steps_has_answers_that_one_after_another_could_have() {
    explore(&ALL);
}

#[test]
#[ignore = "minutes"]
fn so_has_each_of_more_threads() {
    explore(&MORE);
}

#[test]
#[ignore = "a minute"]
fn so_has_each_of_a_batch_and_of_a_death_beside_others() {
    explore(&MORE_DEATHS);
}
