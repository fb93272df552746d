//! The suite passes right stores, and notices wrong ones.

use super::flaw::Flaw;
use super::flawed::Flawed;
use super::*;
use hapax::ManualClock;
use hapax_store::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
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
    runtime().block_on(verify_store(&InMemory { clock, store }));
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

        fn expires_by_record(&self) -> bool {
            true
        }
    }

    let clock = ManualClock::new();
    let store = DynStore::new(InMemoryStore::with_clock(clock.clone()));
    runtime().block_on(verify_store(&Chosen(clock, store)));
}

/// Returns the case that notices, and its message.
fn noticed(runtime: &tokio::runtime::Runtime, flaw: Flaw) -> Option<(String, String)> {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(1_000_000));
    let store = Arc::new(Flawed::new(InMemoryStore::with_clock(clock.clone()), flaw));
    let fixture = InMemory { clock, store };
    let bench = Bench::new(&fixture);
    let limited = async { tokio::time::timeout(Duration::from_secs(60), verify(&bench)).await };
    let run = AssertUnwindSafe(|| runtime.block_on(limited));
    match catch_unwind(run) {
        Ok(Ok(())) => None,
        Ok(Err(_)) => panic!("{flaw:?}: the suite comes to no end in the case {:?}", bench.current()),
        Err(panic) => {
            assert_ne!(bench.current(), "", "what panicked was not the suite");
            let says = panic.downcast_ref::<String>().cloned();
            let says = says.or_else(|| panic.downcast_ref::<&str>().map(|says| says.to_string()));
            Some((bench.current(), says.unwrap_or_default()))
        }
    }
}

#[test]
fn a_store_without_a_flaw_passes() {
    assert_eq!(noticed(&runtime(), Flaw::None), None);
}

#[test]
fn every_flaw_is_noticed() {
    let runtime = runtime();
    let noticed = Flaw::ALL.iter().map(|&flaw| (flaw, noticed(&runtime, flaw)));
    let (mut report, mut unnoticed) = (Vec::new(), Vec::new());
    for (flaw, noticed) in noticed {
        match noticed {
            Some((case, says)) => report.push(format!("{flaw:?}: {case}: {}", says.lines().next().unwrap_or_default())),
            None => unnoticed.push(flaw),
        }
    }
    println!("\n{} flaws were noticed\n{}", report.len(), report.join("\n"));
    assert!(unnoticed.is_empty(), "the suite passes stores with these flaws: {unnoticed:?}");
}
