//! Checks the examples that verify what others deduplicate with: what is one atomic call passes,
//! and what looks first is caught.

#[path = "../../../hapax-testing/examples/verify_map.rs"]
#[allow(dead_code)]
mod verify_map;
#[path = "../../../hapax-testing/examples/verify_moka.rs"]
#[allow(dead_code)]
mod verify_moka;
#[path = "../../../hapax-testing/examples/verify_postgres.rs"]
#[allow(dead_code)]
mod verify_postgres;
#[path = "../../../hapax-testing/examples/verify_redis.rs"]
#[allow(dead_code)]
mod verify_redis;

use hapax_testing::{Report, Violation};
use testkit::{postgres_server, redis_server};

/// The number of runs of a subject that is wrong: its race shows in almost each.
const RUNS: u64 = 20;

/// Checks that the history of some run was rejected; nothing else may have failed.
fn is_caught(run: impl FnMut(u64) -> Result<Report, Box<dyn std::error::Error>>) -> bool {
    let caught = (0..RUNS).map(run).find_map(Result::err);
    caught.is_some_and(|error| match error.downcast_ref::<Box<Violation>>() {
        Some(violation) => {
            println!("{violation}");
            true
        }
        None => panic!("it should answer, and be wrong: {error}"),
    })
}

#[test]
fn a_map_by_entry_passes_and_a_look_before_is_caught() {
    verify_map::locked().unwrap();
    verify_map::sharded().unwrap();
    verify_map::with_its_own_clock().unwrap();
    verify_map::looked_into().unwrap_err();
}

#[test]
fn moka_passes_by_the_call_that_locks_the_key_and_or_insert_is_caught() {
    verify_moka::computed().unwrap();
    assert!(is_caught(|_| Ok(verify_moka::inserted()?)));
}

#[test]
fn redis_passes_by_one_command_and_two_are_caught() {
    if redis_server::is_missing("redis_passes_by_one_command_and_two_are_caught") {
        return;
    }
    let server = redis_server::Server::start(&[]);
    verify_redis::run(&server.url(), 1, verify_redis::set_nx).unwrap();
    assert!(is_caught(|run| verify_redis::run(&server.url(), 2 + run, verify_redis::exists_then_set)));
}

#[test]
fn postgres_passes_by_one_statement_and_two_are_caught() {
    let Some(server) = postgres_server::Server::start(&["fsync=off"]) else { return };
    verify_postgres::run(&server.address(), verify_postgres::on_conflict).unwrap();
    assert!(is_caught(|_| verify_postgres::run(&server.address(), verify_postgres::select_then_insert)));
}
