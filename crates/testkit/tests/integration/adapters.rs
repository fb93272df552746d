//! Checks the examples that verify the servers that others deduplicate with: what is one atomic
//! call passes, and what looks first is caught. (Maps:
//! `crates/hapax-testing/tests/integration/maps.rs`.)

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
fn redis_passes_by_one_command_and_two_are_caught() {
    if redis_server::is_missing() {
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
