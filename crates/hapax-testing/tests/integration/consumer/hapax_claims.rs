//! hapax's own claims, on a store that all processes share: claim, work, complete.

use crate::long;
use hapax_store::{InMemoryStore, TieredAttempt, TieredDedup};
use hapax_testing::consumer::{Consumer, Expect, Failed, Message, Problem, SimulatedStore, Simulation, World};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The store of the ids, and the ledger, to which the work is an entry.
struct Durable {
    store: Arc<InMemoryStore>,
    /// The token of each entry.
    ledger: Mutex<BTreeMap<String, u64>>,
    processes: Mutex<u64>,
}

/// The engine of a process.
struct Process {
    billed: TieredDedup<SimulatedStore<Arc<InMemoryStore>>>,
    durable: Arc<Durable>,
}

/// A consumer that claims, works and completes.
struct Claims {
    /// True if the ledger keeps one entry for an id, and refuses tokens of claims that are over.
    is_fenced: bool,
}

impl Claims {
    fn work(&self, durable: &Durable, id: &str, token: u64, world: &World) -> Result<(), Failed> {
        let mut ledger = durable.ledger.lock().unwrap();
        let last = ledger.get(id).copied();
        if self.is_fenced && last.is_some_and(|last| token < last) {
            return Err("a later claim has written".into());
        }
        if !self.is_fenced || last.is_none() {
            world.effect(id);
        }
        ledger.insert(id.to_owned(), token);
        Ok(())
    }
}

impl Consumer for Claims {
    type Durable = Durable;
    type Process = Process;

    fn durable(&self, world: &World) -> Durable {
        let store = Arc::new(InMemoryStore::with_clock(world.clock()));
        Durable { store, ledger: Mutex::default(), processes: Mutex::default() }
    }

    async fn start(&self, durable: &Arc<Durable>, world: &World) -> Result<Process, Failed> {
        let number = {
            let mut processes = durable.processes.lock().unwrap();
            *processes += 1;
            *processes
        };
        let billed = TieredDedup::builder(world.store(Arc::clone(&durable.store)))
            .clock(world.clock())
            .lease(Duration::from_secs(60))
            .retention(Duration::from_secs(24 * 3600))
            .capacity(64)
            .max_memory_bytes(1 << 20)
            .expiry(None)
            .seed(1)
            .attempt_seed(number)
            .build()
            .await?;
        Ok(Process { billed, durable: Arc::clone(durable) })
    }

    async fn handle(&self, process: &Process, message: &Message, world: &World) -> Result<(), Failed> {
        match process.billed.claim(&message.id).await? {
            TieredAttempt::Claimed(claim) => {
                let work = || self.work(&process.durable, &message.id, claim.token().as_u64(), world);
                world.call("ledger: write", work).await??;
                claim.complete().await?;
                Ok(())
            }
            TieredAttempt::Duplicate(_) => Ok(()),
            _ => Err("it is in progress".into()),
        }
    }
}

const PLACES: [&str; 4] = ["store: claim", "store: complete", "store: release", "ledger: write"];

#[test]
fn claim_work_complete_loses_nothing() {
    let simulation = Simulation::new(Claims { is_fenced: false }).expect(Expect::AtLeastOnce).places(&PLACES);
    let report = simulation
        .schedules_max(long(100, 600))
        .seeds(0..long(25, 150))
        .run()
        .unwrap_or_else(|finding| panic!("{finding}"));
    println!("{report}");
    assert!(report.never_reached().is_empty(), "{report}");
}

#[test]
fn claims_whose_ledger_knows_ids_and_tokens_are_exactly_once() {
    let simulation = Simulation::new(Claims { is_fenced: true }).places(&PLACES);
    let report = simulation
        .schedules_max(long(100, 600))
        .seeds(0..long(25, 150))
        .run()
        .unwrap_or_else(|finding| panic!("{finding}"));
    println!("{report}");
    assert!(report.never_reached().is_empty(), "{report}");
}

#[test]
fn claims_alone_are_not_exactly_once() {
    let finding = *Simulation::new(Claims { is_fenced: false }).run().unwrap_err();
    println!("{finding}");
    assert!(matches!(finding.problem, Problem::Doubled { .. }) && finding.faults == 1);
}

#[test]
fn a_seed_stands_for_one_story_of_engines() {
    let simulation = Simulation::new(Claims { is_fenced: true });
    for seed in 0..long(15, 50) {
        assert_eq!(simulation.trace(seed).unwrap(), simulation.trace(seed).unwrap(), "seed {seed}");
    }
}
