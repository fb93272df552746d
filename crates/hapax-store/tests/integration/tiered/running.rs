//! Functions that run once, over a store that fails: with `running_unverified`, each line of "Who
//! meets whom" in `src/tiered/run/mod.rs`.

use hapax::{Clock, Timestamp};
use hapax_redis::{RedisOptions, RedisStore};
use hapax_store::{
    BudgetStore, ErrorKind, IdempotencyError, InMemoryStore, Ownership, RunError, RunOptions, TieredDedup,
};
use hapax_testing::store::{Fault, FaultyStore};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use testkit::redis_server;
use tokio::time::{Instant, sleep, timeout};

type Store = Arc<FaultyStore<InMemoryStore>>;
type Engine = TieredDedup<Store>;
type Result<T, E = String> = std::result::Result<T, E>;

const DOWN: Fault = Fault::Fails(ErrorKind::Unavailable);
pub(super) const LEASE: Duration = Duration::from_secs(5);
pub(super) const SECOND: Duration = Duration::from_secs(1);
const RETENTION: Duration = Duration::from_secs(3_600);

/// The runtime's clock, which is stopped and jumps.
#[derive(Clone, Copy)]
pub(super) struct TokioClock(pub(super) Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1_000_000) + self.0.elapsed()
    }
}

/// A store, two processes that share it, and the number of times that the function has begun and
/// ended.
#[derive(Clone)]
struct World {
    store: Store,
    here: Engine,
    there: Engine,
    begun: Arc<AtomicU32>,
    ended: Arc<AtomicU32>,
}

async fn engine(store: &Store, clock: TokioClock, ownership: Ownership) -> Engine {
    let engine = TieredDedup::builder(Arc::clone(store)).clock(clock).lease(LEASE).retention(RETENTION).expiry(None);
    let is_exclusive = ownership == Ownership::Exclusive;
    let engine = engine.window(SECOND * 60).capacity(1_000).ownership(ownership).build().await.unwrap();
    if is_exclusive {
        engine.warm().await.unwrap();
    }
    engine
}

impl World {
    async fn new() -> Self {
        let clock = TokioClock(Instant::now());
        let store = Arc::new(FaultyStore::new(InMemoryStore::with_clock(clock)));
        let here = engine(&store, clock, Ownership::Shared).await;
        let there = engine(&store, clock, Ownership::Shared).await;
        World { store, here, there, begun: Arc::default(), ended: Arc::default() }
    }

    /// Calls the function, which takes this long, and returns how often it has run.
    async fn call(&self, at: &Engine, takes: Duration) -> Result<u32, RunError<u32, String>> {
        self.call_with(at, RunOptions::new(), takes).await
    }

    async fn call_with(&self, at: &Engine, options: RunOptions, takes: Duration) -> Result<u32, RunError<u32, String>> {
        let function = || async {
            self.begun.fetch_add(1, Ordering::Relaxed);
            sleep(takes).await;
            Ok(self.ended.fetch_add(1, Ordering::Relaxed) + 1)
        };
        at.run_with("a", options, function).await
    }

    fn begun(&self) -> u32 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Changes the store's fate in a while, and back.
    fn away(&self, how: Fault, from: Duration, time: Duration) {
        let store = Arc::clone(&self.store);
        tokio::spawn(async move {
            sleep(from).await;
            store.always(how);
            sleep(time).await;
            store.always(Fault::None);
        });
    }
}

#[track_caller]
fn not_run<T: Debug>(result: Result<T, RunError<T, String>>) -> IdempotencyError {
    match result {
        Err(RunError::NotRun(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn not_stored(result: Result<u32, RunError<u32, String>>) -> (u32, IdempotencyError) {
    match result {
        Err(RunError::NotStored { output, error }) => (output, error),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn callers_at_once_in_one_process_and_in_two_share_one_run() {
    let world = World::new().await;
    // Longer than the lease, so it is renewed.
    let takes = 4 * LEASE;
    let (a, b, c) =
        tokio::join!(world.call(&world.here, takes), world.call(&world.here, takes), world.call(&world.there, takes));
    assert_eq!((a.unwrap(), b.unwrap(), c.unwrap(), world.begun()), (1, 1, 1, 1));
    // And so does who comes later, up to the end of the retention.
    sleep(RETENTION - SECOND).await;
    assert_eq!((world.call(&world.there, takes).await.unwrap(), world.begun()), (1, 1));
    sleep(2 * SECOND).await;
    assert_eq!((world.call(&world.there, SECOND).await.unwrap(), world.begun()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn who_waits_waits_for_as_long_as_it_is_told_to() {
    let world = World::new().await;
    let began = Instant::now();
    let waits = async {
        sleep(SECOND).await;
        let error = not_run(world.call_with(&world.there, RunOptions::new().wait(2 * SECOND), SECOND).await);
        assert!(matches!(error, IdempotencyError::InProgress { lease_left } if lease_left <= LEASE), "{error}");
        assert!((3 * SECOND..4 * SECOND).contains(&began.elapsed()), "{:?}", began.elapsed());
        let error = not_run(world.call_with(&world.there, RunOptions::new().wait(Duration::ZERO), SECOND).await);
        assert!(matches!(error, IdempotencyError::InProgress { .. }), "{error}");
    };
    let (ran, ()) = tokio::join!(world.call(&world.here, 10 * SECOND), waits);
    assert_eq!((ran.unwrap(), world.begun()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn another_fingerprint_is_a_mismatch_while_it_runs_and_afterwards() {
    let world = World::new().await;
    let [ten, other] = ["amount=10", "amount=99"].map(|content| RunOptions::new().fingerprint(content));
    let meets = async {
        sleep(SECOND).await;
        let error = not_run(world.call_with(&world.there, other, SECOND).await);
        assert!(matches!(error, IdempotencyError::Mismatch), "{error}");
    };
    let (ran, ()) = tokio::join!(world.call_with(&world.here, ten, 3 * SECOND), meets);
    assert_eq!(ran.unwrap(), 1);
    let error = not_run(world.here.run("a", "amount=99", || async { Ok::<_, String>(0) }).await);
    assert!(matches!(error, IdempotencyError::Mismatch), "{error}");
    assert_eq!(world.here.run("a", "amount=10", || async { Ok::<_, String>(0) }).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_is_dropped_while_it_runs_releases_it() {
    let world = World::new().await;
    assert!(timeout(SECOND, world.call(&world.here, LEASE)).await.is_err());
    let began = Instant::now();
    assert_eq!(world.call(&world.there, SECOND).await.unwrap(), 1);
    assert!(began.elapsed() < 2 * SECOND, "not the rest of the lease: {:?}", began.elapsed());
    assert_eq!(world.begun(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_panic_releases_it() {
    let world = World::new().await;
    let engine = world.here.clone();
    let panics =
        async move { engine.run_with("a", RunOptions::new(), || async { panic!("a function") as Result<u32> }).await };
    assert!(tokio::spawn(panics).await.unwrap_err().is_panic());
    let began = Instant::now();
    assert_eq!(world.call(&world.there, SECOND).await.unwrap(), 1);
    assert!(began.elapsed() < 2 * SECOND, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_is_dropped_while_the_result_is_stored_has_it_stored() {
    let world = World::new().await;
    world.away(Fault::Delays(SECOND), SECOND, SECOND);
    assert!(timeout(SECOND * 3 / 2, world.call(&world.here, SECOND * 11 / 10)).await.is_err());
    assert_eq!((world.call(&world.there, SECOND).await.unwrap(), world.begun()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_while_it_runs_for_less_than_the_lease_changes_nothing() {
    for how in [DOWN, Fault::Hangs, Fault::LosesAnswer(ErrorKind::Timeout)] {
        let world = World::new().await;
        world.away(how, SECOND, LEASE / 2);
        let (here, there) = tokio::join!(world.call(&world.here, 3 * LEASE), async {
            sleep(2 * LEASE).await;
            world.call(&world.there, SECOND).await
        });
        assert_eq!((here.unwrap(), there.unwrap(), world.begun()), (1, 1, 1), "{how:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_for_longer_loses_the_lease_and_that_is_said() {
    let world = World::new().await;
    world.away(DOWN, SECOND / 10, 2 * LEASE);
    let (here, there) = tokio::join!(world.call(&world.here, 4 * LEASE), async {
        sleep(3 * LEASE).await;
        world.call(&world.there, SECOND / 10).await
    });
    // There it ran first to its end.
    assert_eq!((there.unwrap(), world.begun()), (1, 2));
    let (output, error) = not_stored(here);
    assert_eq!(output, 2);
    assert!(matches!(error, IdempotencyError::LostLease(_)) && error.to_string().contains("may run again"), "{error}");
    assert_eq!(world.call(&world.here, SECOND).await.unwrap(), 1, "the result that was stored stays");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_when_the_result_is_to_be_stored() {
    // Shorter than a lease: nobody notices.
    let world = World::new().await;
    world.away(DOWN, SECOND / 2, LEASE / 2);
    assert_eq!(world.call(&world.here, SECOND).await.unwrap(), 1);
    assert_eq!((world.call(&world.there, SECOND).await.unwrap(), world.begun()), (1, 1));

    // Longer: the caller has the output, and the error; and it runs again when the lease is over.
    let world = World::new().await;
    world.away(DOWN, SECOND / 2, 4 * LEASE);
    let began = Instant::now();
    let (output, error) = not_stored(world.call(&world.here, SECOND).await);
    assert!(output == 1 && matches!(error, IdempotencyError::Complete(_)), "{error}");
    assert!(began.elapsed() < 2 * LEASE, "it is tried for a lease: {:?}", began.elapsed());
    let error = not_run(world.call(&world.there, SECOND).await);
    assert!(matches!(error, IdempotencyError::Claim(_)) && error.to_string().contains("nothing has run"), "{error}");
    sleep(4 * LEASE).await;
    assert_eq!((world.call(&world.there, SECOND).await.unwrap(), world.begun()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_killed_between_effect_and_result_has_it_run_again_after_its_lease() {
    let clock = TokioClock(Instant::now());
    let records = Arc::new(InMemoryStore::with_clock(clock));
    let process = async || {
        let connection = Arc::new(FaultyStore::new(Arc::clone(&records)));
        let engine = TieredDedup::builder(Arc::clone(&connection)).clock(clock).lease(LEASE).build().await.unwrap();
        (connection, engine)
    };
    let ((killed, here), (_, there)) = (process().await, process().await);
    let effects = AtomicU32::new(0);
    let function = || async { Ok::<_, String>(effects.fetch_add(1, Ordering::Relaxed) + 1) };
    let dies = || async {
        let effect = function().await;
        // Nothing that it would have done from here on arrives.
        killed.always(Fault::Hangs);
        effect
    };
    let died = Instant::now();
    assert!(timeout(SECOND, here.run("a", "", dies)).await.is_err());
    assert_eq!(there.run("a", "", function).await.unwrap(), 2);
    assert!((LEASE..LEASE + SECOND).contains(&died.elapsed()), "{:?}", died.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_error_releases_it_or_is_kept_for_a_while_also_by_an_exclusive_engine() {
    for ownership in [Ownership::Shared, Ownership::Exclusive] {
        let clock = TokioClock(Instant::now());
        let store = Arc::new(FaultyStore::new(InMemoryStore::with_clock(clock)));
        let engine = engine(&store, clock, ownership.clone()).await;
        let fails = |options| engine.run_with("a", options, || async { Err::<u32, _>("no".to_owned()) });
        for _ in 0..2 {
            assert!(matches!(fails(RunOptions::new()).await, Err(RunError::Function(error)) if error == "no"));
        }
        let keeping = RunOptions::new().keep_errors(10 * SECOND);
        assert!(matches!(fails(keeping).await, Err(RunError::Function(_))));
        match not_run(fails(keeping).await) {
            IdempotencyError::FailedBefore { error, expires_in } => {
                assert!(
                    error == "no" && expires_in <= 10 * SECOND && expires_in > 8 * SECOND,
                    "{error} {expires_in:?}"
                );
            }
            other => panic!("{ownership:?}: {other:?}"),
        }
        sleep(11 * SECOND).await;
        let runs = engine.run_with("a", keeping, || async { Ok::<_, String>(7) });
        assert_eq!(runs.await.unwrap(), 7, "{ownership:?}");
        assert_eq!(fails(keeping).await.unwrap(), 7);
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_too_large_does_not_run_again() {
    let world = World::new().await;
    let calls = AtomicU32::new(0);
    let large = || async {
        calls.fetch_add(1, Ordering::Relaxed);
        Ok::<_, String>("x".repeat(100))
    };
    let options = RunOptions::new().max_result_bytes(101);
    let is_too_large =
        |error: &IdempotencyError| matches!(error, IdempotencyError::TooLarge { bytes: 102, max: Some(101) });
    match world.here.run_with("a", options, large).await {
        Err(RunError::NotStored { output, error }) => assert!(output.len() == 100 && is_too_large(&error), "{error}"),
        other => panic!("{other:?}"),
    }
    assert!(is_too_large(&not_run(world.there.run_with("a", options, large).await)));
    assert_eq!(calls.load(Ordering::Relaxed), 1);

    // A store with a limit of its own.
    let engine = TieredDedup::builder(BudgetStore::new(64 << 10).unwrap()).build().await.unwrap();
    let larger = || async { Ok::<_, String>("x".repeat(100 << 10)) };
    match engine.run("a", "", larger).await {
        Err(RunError::NotStored { error: IdempotencyError::TooLarge { bytes: 102_402, max: None }, .. }) => {}
        other => panic!("{:?}", other.map(|_| ())),
    }
    let error = not_run(engine.run("a", "", larger).await);
    assert!(matches!(error, IdempotencyError::TooLarge { bytes: 102_402, max: None }), "{error}");
}

/// A result of which JSON has less than is needed to read it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Receipt {
    #[serde(skip_serializing)]
    _number: u64,
}

/// The first caller learns it, before anything is stored; later ones are told the same, and nothing
/// runs again: the effect is done.
async fn is_unwritable<T>(result: T, says: &str)
where
    T: Clone + Debug + Serialize + DeserializeOwned,
{
    let (world, calls) = (World::new().await, AtomicU32::new(0));
    let function = || async {
        calls.fetch_add(1, Ordering::Relaxed);
        Ok::<_, String>(result.clone())
    };
    let is_told = |error: &IdempotencyError| match error {
        IdempotencyError::Unwritable(why) => assert!(why.contains(says), "{why:?}, expected {says:?} in it"),
        other => panic!("{other}"),
    };
    match world.here.run("a", "", function).await {
        Err(RunError::NotStored { error, .. }) => is_told(&error),
        other => panic!("{other:?}"),
    }
    for engine in [&world.here, &world.there] {
        match engine.run("a", "", function).await {
            Err(RunError::NotRun(error)) => is_told(&error),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_cannot_be_read_back_is_an_error_before_it_is_stored() {
    is_unwritable(f64::NAN, "f64").await;
    is_unwritable(vec![1.0, f64::INFINITY], "expected f64").await;
    is_unwritable(BTreeMap::from([((1, 2), 3)]), "key must be a string").await;
    is_unwritable(Receipt { _number: 17 }, "Receipt: missing field `_number`").await;
}

#[tokio::test(start_paused = true)]
async fn what_is_no_result_of_the_function_is_an_error() {
    let world = World::new().await;
    assert!(world.here.check("checked").await.unwrap().is_fresh());
    world.here.claim("other").await.unwrap().claimed().unwrap().complete_with("paid").await.unwrap();
    assert_eq!(world.here.run("text", "", || async { Ok::<_, String>("text".to_owned()) }).await.unwrap(), "text");
    for key in ["checked", "other", "text"] {
        let error = not_run(world.here.run(key, "", || async { Ok::<u32, String>(0) }).await);
        assert!(matches!(error, IdempotencyError::Unreadable(_)), "{key}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_option_that_cannot_be_is_an_error_that_names_it() {
    let world = World::new().await;
    let wrong = [
        (RunOptions::new().wait(Duration::MAX), "wait"),
        (RunOptions::new().lease(Duration::ZERO), "lease"),
        (RunOptions::new().retention(Duration::ZERO), "retention"),
        (RunOptions::new().keep_errors(Duration::ZERO), "keep_errors"),
        (RunOptions::new().keep_errors(RETENTION + SECOND), "keep_errors"),
        (RunOptions::new().max_result_bytes(usize::MAX), "max_result_bytes"),
    ];
    for (options, names) in wrong {
        match not_run(world.call_with(&world.here, options, SECOND).await) {
            IdempotencyError::Claim(error) => {
                assert!(error.kind() == ErrorKind::Misconfigured && error.to_string().contains(names), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(world.begun(), 0);
    let short = RunOptions::new().retention(SECOND).lease(10 * SECOND);
    assert_eq!(world.call_with(&world.here, short, SECOND).await.unwrap(), 1);
    sleep(2 * SECOND).await;
    assert_eq!(world.call_with(&world.here, short, SECOND).await.unwrap(), 2);
}

#[tokio::test]
async fn over_a_real_redis() {
    if redis_server::is_missing() {
        return;
    }
    let server = redis_server::Server::start(&[]);
    let connect = async || {
        let store = RedisStore::connect(RedisOptions::single(server.url(), "test")).await.unwrap();
        TieredDedup::builder(store).build().await.unwrap()
    };
    let (here, there) = (connect().await, connect().await);
    let runs = AtomicU32::new(0);
    let function = || async { Ok::<_, String>(runs.fetch_add(1, Ordering::Relaxed)) };
    let (a, b) = tokio::join!(here.run("a", "1", function), there.run("a", "1", function));
    assert_eq!((a.unwrap(), b.unwrap(), runs.load(Ordering::Relaxed)), (0, 0, 1));
    let error = not_run(there.run("a", "2", function).await);
    assert!(matches!(error, IdempotencyError::Mismatch), "{error}");
}
