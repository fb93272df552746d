//! The memory of an engine whose store hangs forever: as much as its queues are configured to hold,
//! however many callers come. Measured in a process of its own, this program once more.

use super::*;
use hapax_store::Ownership;
use hapax_testing::store::Fault;
use std::process::Command;
use tokio::task::JoinSet;

const CHILD: &str = "HAPAX_MEMORY_CHILD";
const MAX_WAITING: usize = 256;
const MAX_BEHIND: usize = 16 * MAX_WAITING;
/// The number of callers at a time: their futures are theirs, and there are as many before as
/// after.
const CALLERS: u64 = 512;

/// The memory that an engine may take besides its window: the requests that wait, a thousand of
/// which take less than a megabyte, and 65,536 attempts whose outcome is unknown, at 25 bytes and
/// as much again for growing.
const BOUND_KIB: u64 = 8 << 10;

/// More than the attempts whose outcome may be unknown at once: from there on nothing may grow.
fn at_once() -> u64 {
    testkit::long(67_000, 100_000)
}

/// Returns the resident memory of this process, in KiB.
fn resident_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

#[derive(Clone, Copy, Debug)]
enum What {
    Checks,
    Claims,
    /// Callers that are dropped while they wait.
    Dropped,
    /// Claims that are dropped, and cannot be released.
    DroppedClaims,
}

async fn attempt(engine: &Engine, what: What, id: u64) {
    let id = format!("{id}");
    match what {
        What::Checks => assert!(engine.check(id).await.is_err()),
        What::Claims => assert!(engine.claim(id).await.is_err()),
        What::Dropped => drop(tokio::time::timeout(Duration::from_millis(1), engine.claim(id)).await),
        What::DroppedClaims => unreachable!("that is done otherwise"),
    }
}

/// Makes this many attempts, this many at a time.
async fn attempts(engine: &Engine, what: What, first: u64) {
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let engine = engine.clone();
        callers.spawn(async move {
            for id in (first + caller..first + at_once()).step_by(CALLERS as usize) {
                attempt(&engine, what, id).await;
                if id % 64 != 0 {
                    continue;
                }
                let (waiting, behind) = (engine.stats().waiting, engine.stats().behind);
                assert!(
                    waiting <= 2 * MAX_WAITING && behind <= MAX_BEHIND as u64,
                    "{waiting} wait, {behind} are behind"
                );
            }
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended.unwrap();
    }
}

/// Claims many while the store answers; then it does not, and all are dropped at once.
async fn dropped_claims(world: &World, engine: &Engine, first: u64) {
    world.store.always(Fault::None);
    let ids: Vec<String> = (first..first + at_once()).map(|id| format!("{id}")).collect();
    let claims = engine.claim_batch(&ids).await;
    assert!(claims.iter().all(Result::is_ok));
    world.store.always(Fault::Hangs);
    drop((claims, ids));
    tokio::task::yield_now().await;
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert!(tasks <= MAX_WAITING + 16, "{tasks} tasks want to release claims");
}

/// Runs the child; this is no test.
#[tokio::test(start_paused = true)]
async fn child() {
    let Ok(asked) = std::env::var(CHILD) else { return };
    let (ownership, what) = match asked.as_str() {
        "shared checks" => (Ownership::Shared, What::Checks),
        "shared claims" => (Ownership::Shared, What::Claims),
        "shared dropped" => (Ownership::Shared, What::Dropped),
        "shared dropped claims" => (Ownership::Shared, What::DroppedClaims),
        "exclusive checks" => (Ownership::Exclusive, What::Checks),
        other => panic!("{CHILD}={other}"),
    };
    let world = World::new();
    world.store.be_private();
    let engine = world.engine().ownership(ownership).max_waiting(MAX_WAITING);
    let engine = engine.timeout(Duration::from_millis(5)).retries(0).circuit_breaker(u32::MAX, WINDOW);
    let engine = engine.build().await.unwrap();
    if let What::DroppedClaims = what {
        return dropped_claims(&world, &engine, 0).await;
    }
    world.store.always(Fault::Hangs);
    attempts(&engine, what, 0).await;
    let Some(before) = resident_kib() else { return testkit::skipped("memory is known on Linux only") };
    attempts(&engine, what, at_once()).await;
    let after = resident_kib().unwrap_or(u64::MAX);
    let unresolved = engine.stats().unresolved;
    println!(
        "{asked}: {before} KiB after {} attempts, {after} KiB after twice as many, {unresolved} unresolved",
        at_once()
    );
    assert!(after <= before + BOUND_KIB, "{asked}: {before} KiB have become {after} KiB");
}

#[test]
fn memory_is_bounded_while_a_store_hangs() {
    let all = ["shared dropped", "exclusive checks", "shared dropped claims", "shared checks", "shared claims"];
    for what in &all[..testkit::long(3, all.len())] {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tiered::memory::child", "--nocapture", "--test-threads=1"])
            .env(CHILD, what)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        said.lines()
            .filter(|line| line.starts_with(what) || line.contains("SKIPPED"))
            .for_each(|line| println!("{line}"));
        assert!(child.status.success(), "{what}: {said}{}", String::from_utf8_lossy(&child.stderr));
    }
}
