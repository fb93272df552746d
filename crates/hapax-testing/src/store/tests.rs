//! The suite passes right stores, and notices wrong ones.

use super::flawed::{Flaw, Flawed};
use super::*;
use crate::tests::judged::timed;
use hapax::ManualClock;
use hapax_store::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

struct InMemory<S> {
    clock: ManualClock,
    store: Arc<S>,
}

impl<S: Store> Fixture for InMemory<S> {
    type Store = Arc<S>;

    async fn open(&self) -> Arc<S> {
        Arc::clone(&self.store)
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn time(&self) -> StoreTime {
        StoreTime::EXACT
    }

    fn expires_by_record(&self) -> bool {
        true
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn the_reference_passes() {
    let clock = ManualClock::new();
    let store = Arc::new(InMemoryStore::with_clock(clock.clone()));
    let report = runtime().block_on(verify_store(&InMemory { clock, store })).unwrap();
    println!("{report}");
    assert!(report.cases.len() > 35 && report.time == StoreTime::EXACT, "{report:?}");
}

#[test]
fn a_store_that_is_chosen_at_run_time_passes() {
    struct Chosen(ManualClock, DynStore);

    impl Fixture for Chosen {
        type Store = DynStore;

        async fn open(&self) -> DynStore {
            self.1.clone()
        }

        async fn advance(&self, by: Duration) {
            self.0.advance(by);
        }

        fn time(&self) -> StoreTime {
            StoreTime::EXACT
        }

        fn expires_by_record(&self) -> bool {
            true
        }
    }

    let clock = ManualClock::new();
    let store = DynStore::new(InMemoryStore::with_clock(clock.clone()));
    runtime().block_on(verify_store(&Chosen(clock, store))).unwrap();
}

/// Returns the failure that the suite reports.
fn noticed(runtime: &tokio::runtime::Runtime, flaw: Flaw) -> Option<Failure> {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(1_000_000));
    let store = Arc::new(Flawed::new(clock.clone(), flaw));
    let fixture = InMemory { clock, store };
    let limited = async { tokio::time::timeout(Duration::from_secs(60), verify_store(&fixture)).await };
    let verified = runtime.block_on(limited);
    verified.unwrap_or_else(|_| panic!("{flaw:?}: the suite comes to no end")).err()
}

#[test]
fn a_store_without_a_flaw_passes() {
    assert_eq!(noticed(&runtime(), Flaw::None), None);
}

#[test]
fn every_flaw_is_noticed_and_by_the_case_that_is_meant_for_it() {
    let runtime = runtime();
    let (mut report, mut unnoticed, mut elsewhere) = (Vec::new(), Vec::new(), Vec::new());
    for &flaw in Flaw::ALL {
        let verdict = |failure: &Option<Failure>| match failure {
            Some(failure) => failure.case.to_owned(),
            None => "not noticed".to_owned(),
        };
        let Some(failure) = timed(flaw, || noticed(&runtime, flaw), verdict) else {
            unnoticed.push(flaw);
            continue;
        };
        if flaw.meant().is_some_and(|case| case != failure.case) {
            elsewhere.push(format!("{flaw:?}: {failure}"));
        }
        report.push(format!("{flaw:?}: {failure}"));
    }
    println!("\n{} flaws were noticed\n{}", report.len(), report.join("\n"));
    assert!(unnoticed.is_empty(), "the suite passes stores with these flaws: {unnoticed:?}");
    assert!(elsewhere.is_empty(), "not noticed by the case that was written for it:\n{}", elsewhere.join("\n"));
}

/// Servers have a clock of their own: the suite leaves them their slack, and misses less.
#[test]
fn with_slack_a_flaw_of_a_second_is_not_noticed() {
    struct Server(InMemory<Flawed>);

    impl Fixture for Server {
        type Store = Arc<Flawed>;

        async fn open(&self) -> Arc<Flawed> {
            self.0.open().await
        }

        async fn advance(&self, by: Duration) {
            self.0.advance(by).await;
        }
    }

    for (flaw, is_noticed) in [(Flaw::LeasesEndASecondEarly, false), (Flaw::LeasesDoNotEnd, true)] {
        let clock = ManualClock::new();
        let store = Arc::new(Flawed::new(clock.clone(), flaw));
        let verified = runtime().block_on(verify_store(&Server(InMemory { clock, store })));
        assert_eq!(verified.is_err(), is_noticed, "{verified:?}");
    }
}

/// A machine that stands still for longer than a case's distance to the end of a lease.
#[test]
fn a_server_whose_machine_stands_still_meanwhile_passes_and_a_flawed_one_does_not() {
    const SLACK: Duration = Duration::from_millis(200);

    struct Busy {
        server: InMemory<Flawed>,
        /// The number of times that the machine will yet stand still.
        stalls: AtomicU32,
    }

    impl Fixture for Busy {
        type Store = Arc<Flawed>;

        async fn open(&self) -> Arc<Flawed> {
            self.server.open().await
        }

        async fn advance(&self, by: Duration) {
            self.server.advance(by).await;
            let is_near_an_end = by == fixture::LEASE - SLACK;
            if is_near_an_end && self.stalls.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
                std::thread::sleep(SLACK * 2);
                self.server.advance(SLACK * 2).await;
            }
        }

        fn time(&self) -> StoreTime {
            StoreTime::Passes { slack: SLACK }
        }
    }

    let verified = |flaw, stalls| {
        let clock = ManualClock::new();
        let store = Arc::new(Flawed::new(clock.clone(), flaw));
        let fixture = Busy { server: InMemory { clock, store }, stalls: AtomicU32::new(stalls) };
        let report = runtime().block_on(verify_store(&fixture))?;
        assert_eq!(fixture.stalls.into_inner(), 0);
        Ok::<_, Failure>(report)
    };
    let (quiet, busy) = (verified(Flaw::None, 0).unwrap(), verified(Flaw::None, 3).unwrap());
    assert_eq!(quiet.cases, busy.cases);
    assert!(verified(Flaw::LeasesDoNotEnd, 3).is_err());
}
