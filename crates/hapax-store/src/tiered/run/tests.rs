//! Each rule is left out in turn, and some scenario notices. Time is the runtime's, which jumps.

use super::rules::{Rule, leaving_out};
use crate::{IdempotencyError, InMemoryStore, RunError, RunOptions, TieredDedup};
use hapax::{Clock, Timestamp};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const LEASE: Duration = Duration::from_secs(30);
const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Copy)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1_000_000) + self.0.elapsed()
    }
}

type Engine = TieredDedup<Arc<InMemoryStore>>;

/// Two processes, as far as the store can tell, and how often the function has begun.
struct World {
    engines: [Engine; 2],
    begun: Cell<u32>,
}

impl World {
    async fn new() -> Self {
        let clock = TokioClock(Instant::now());
        let store = Arc::new(InMemoryStore::with_clock(clock));
        let engine = || TieredDedup::builder(Arc::clone(&store)).clock(clock).lease(LEASE).capacity(1_000).build();
        World { engines: [engine().await.unwrap(), engine().await.unwrap()], begun: Cell::new(0) }
    }

    /// Calls the function, which takes this long.
    async fn call(
        &self,
        engine: usize,
        options: RunOptions,
        takes: Duration,
        result: Result<u32, &'static str>,
    ) -> Result<u32, RunError<u32, &'static str>> {
        let function = || async move {
            self.begun.set(self.begun.get() + 1);
            sleep(takes).await;
            result
        };
        self.engines[engine].run_with("a", options, function).await
    }
}

fn demand(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.into()) }
}

/// Runs a function that takes longer than its lease, and a caller who waits for it.
async fn slow_function() -> Result<(), String> {
    let world = World::new().await;
    let options = RunOptions::new().wait(10 * LEASE);
    let later = async {
        sleep(SECOND).await;
        world.call(1, options, SECOND, Ok(2)).await
    };
    let (first, second) = tokio::join!(world.call(0, options, 3 * LEASE, Ok(1)), later);
    demand(matches!((&first, &second), (Ok(1), Ok(1))), &format!("{first:?}, {second:?}"))?;
    demand(world.begun.get() == 1, "it has run twice")
}

/// Runs a function that fails, and calls it again at once.
async fn failing_function() -> Result<(), String> {
    let world = World::new().await;
    let options = RunOptions::new().wait(SECOND);
    let failed = world.call(0, options, SECOND, Err("no")).await;
    demand(matches!(failed, Err(RunError::Function("no"))), &format!("{failed:?}"))?;
    let again = world.call(1, options, SECOND, Ok(7)).await;
    demand(matches!(again, Ok(7)), &format!("{again:?}"))
}

/// Runs a function whose errors are kept.
async fn kept_error() -> Result<(), String> {
    let world = World::new().await;
    let options = RunOptions::new().keep_errors(10 * SECOND);
    let failed = world.call(0, options, SECOND, Err("no")).await;
    demand(matches!(failed, Err(RunError::Function("no"))), &format!("{failed:?}"))?;
    sleep(9 * SECOND).await;
    for engine in [0, 1] {
        match world.call(engine, options, SECOND, Ok(7)).await {
            Err(RunError::NotRun(IdempotencyError::FailedBefore { error, expires_in })) => {
                demand(error == "no" && expires_in <= SECOND, &format!("{error}, {expires_in:?}"))?;
            }
            other => return Err(format!("{other:?}")),
        }
    }
    sleep(2 * SECOND).await;
    let again = world.call(0, options, SECOND, Ok(7)).await;
    demand(matches!(again, Ok(7)), &format!("{again:?}"))
}

/// Calls a function again whose result this process has stored itself.
async fn replay() -> Result<(), String> {
    let world = World::new().await;
    for _ in 0..2 {
        let result = world.call(0, RunOptions::new(), SECOND, Ok(7)).await;
        demand(matches!(result, Ok(7)), &format!("{result:?}"))?;
    }
    demand(world.begun.get() == 1, "it has run twice")
}

async fn another_fingerprint() -> Result<(), String> {
    let world = World::new().await;
    let call = |content: &'static str| world.call(0, RunOptions::new().fingerprint(content), SECOND, Ok(7));
    demand(call("one").await.is_ok() && call("one").await.is_ok(), "it runs, and is replayed")?;
    let other = call("other").await;
    demand(matches!(other, Err(RunError::NotRun(IdempotencyError::Mismatch))), &format!("{other:?}"))
}

/// Plays all scenarios without a rule. Returns what was noticed.
fn play(rule: Option<Rule>) -> Vec<String> {
    leaving_out(rule, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let played = [
                slow_function().await,
                failing_function().await,
                kept_error().await,
                replay().await,
                another_fingerprint().await,
            ];
            played.into_iter().filter_map(Result::err).collect()
        })
    })
}

#[test]
fn each_rule_that_is_left_out_is_noticed() {
    assert_eq!(play(None), [""; 0]);
    let rules = [
        Rule::Renew,
        Rule::StoreUnderClaim,
        Rule::ReleaseFailed,
        Rule::ErrorsEnd,
        Rule::AskForResult,
        Rule::Fingerprint,
        Rule::Wait,
    ];
    for rule in rules {
        let noticed = play(Some(rule));
        eprintln!("{rule:?}: {noticed:?}");
        assert!(!noticed.is_empty(), "{rule:?} is left out, and nothing notices");
    }
}
