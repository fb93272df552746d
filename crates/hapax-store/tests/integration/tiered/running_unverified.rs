//! Functions that run once where that cannot be promised: a policy that admits calls or is a
//! shadow, and a process that the store has lost sight of.

use super::admitting;
use super::running::{LEASE, SECOND, TokioClock};
use hapax_store::{ErrorKind, IdempotencyError, InMemoryStore, RunError, TieredBuilder, TieredDedup};
use hapax_testing::store::{Fault, FaultyStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A process's connection to the records.
type Connection = Arc<FaultyStore<Arc<InMemoryStore>>>;

fn records() -> (TokioClock, Arc<InMemoryStore>) {
    let clock = TokioClock(Instant::now());
    (clock, Arc::new(InMemoryStore::with_clock(clock)))
}

fn connect((clock, records): &(TokioClock, Arc<InMemoryStore>)) -> (Connection, TieredBuilder<Connection>) {
    let connection = Arc::new(FaultyStore::new(Arc::clone(records)));
    (Arc::clone(&connection), TieredDedup::builder(connection).clock(*clock).lease(LEASE))
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_admits_runs_it_without_a_store_and_returns_its_output() {
    let (connection, builder) = connect(&records());
    let engine = admitting(builder).build().await.unwrap();
    let runs = AtomicU32::new(0);
    let run = || engine.run("a", "", || async { Ok::<_, String>(runs.fetch_add(1, Ordering::Relaxed)) });
    connection.always(Fault::Fails(ErrorKind::Unavailable));
    assert_eq!((run().await.unwrap(), run().await.unwrap()), (0, 1), "nothing is known of the first one");
    connection.always(Fault::None);
    // The engine asks a store that was away again after a while.
    sleep(60 * SECOND).await;
    assert_eq!((run().await.unwrap(), run().await.unwrap()), (2, 2));
    // An error that is no outage is told.
    connection.always(Fault::Fails(ErrorKind::Corrupt));
    let refused = engine.run("b", "", || async { Ok::<_, String>(0) }).await;
    assert!(matches!(refused, Err(RunError::NotRun(IdempotencyError::Claim(_)))), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_shadow_runs_it_each_time() {
    let (_, builder) = connect(&records());
    let engine = builder.policy("*", hapax_store::Policy::new().shadow(true)).build().await.unwrap();
    for call in 0..3 {
        assert_eq!(engine.run("a", "", || async { Ok::<_, String>(call) }).await.unwrap(), call);
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_told_that_the_store_is_away_and_who_runs_goes_on() {
    let records = records();
    let ((_, here), (connection, there)) = (connect(&records), connect(&records));
    let (here, there) = (here.build().await.unwrap(), there.build().await.unwrap());
    let runs = here.run("a", "", || async {
        sleep(LEASE).await;
        Ok::<_, String>(1)
    });
    let waits = async {
        sleep(SECOND).await;
        let goes_away = async {
            sleep(SECOND).await;
            connection.always(Fault::Fails(ErrorKind::Unavailable));
        };
        tokio::join!(there.run("a", "", || async { Ok::<_, String>(2) }), goes_away).0
    };
    let (ran, told) = tokio::join!(runs, waits);
    assert_eq!(ran.unwrap(), 1);
    assert!(matches!(told, Err(RunError::NotRun(IdempotencyError::Claim(_)))), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn who_waits_takes_over_when_the_lease_is_lost_and_its_result_stays() {
    let records = records();
    let ((connection, here), (_, there)) = (connect(&records), connect(&records));
    let (here, there) = (here.build().await.unwrap(), there.build().await.unwrap());
    let begun = AtomicU32::new(0);
    let function = |takes: Duration| {
        let begun = &begun;
        move || async move {
            let number = begun.fetch_add(1, Ordering::Relaxed);
            sleep(takes).await;
            Ok::<_, String>(number)
        }
    };
    let began = Instant::now();
    let waits = async {
        sleep(SECOND).await;
        // From here on its renewals do not arrive.
        connection.always(Fault::Hangs);
        let taken_over = there.run("a", "", function(SECOND)).await;
        connection.always(Fault::None);
        (taken_over, began.elapsed())
    };
    let (lost, (taken_over, after)) = tokio::join!(here.run("a", "", function(4 * LEASE)), waits);
    assert_eq!((taken_over.unwrap(), begun.load(Ordering::Relaxed)), (1, 2));
    assert!(after < LEASE + 4 * SECOND, "a lease, a look and the function: {after:?}");
    assert!(matches!(lost, Err(RunError::NotStored { output: 0, error: IdempotencyError::LostLease(_) })), "{lost:?}");
    for engine in [here, there] {
        assert_eq!(engine.run("a", "", function(SECOND)).await.unwrap(), 1, "what was stored stays");
    }
}
