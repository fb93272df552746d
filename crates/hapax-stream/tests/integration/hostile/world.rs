//! A run: its ledger, its weather, and its processes.

use super::{Failure, IDS, Store, TROUBLE, TokioClock, Trouble, mortal};
use hapax_store::{ErrorKind, InMemoryStore, RecordKey, Scope};
use hapax_testing::store::{Fault, FaultyStore};
use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::directory::Directory;
use testkit::random::Random;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

/// One run: what all its processes share.
pub struct World {
    pub trouble: Trouble,
    /// True if some ids cannot be claimed by the first process.
    has_damage: bool,
    pub begun: Instant,
    inner: Arc<InMemoryStore>,
    /// The ways of processes to the store.
    stores: Mutex<Vec<Store>>,
    random: Mutex<Random>,
    pub effects: Mutex<HashMap<(&'static str, String), u32>>,
    failures: Mutex<HashMap<(&'static str, String), u32>>,
    /// Is told of some effects, so that the store is away before they are recorded.
    storm: Notify,
    /// The place of files that survive processes.
    pub directory: Directory,
}

impl World {
    pub fn new(trouble: Trouble, seed: u64, has_damage: bool) -> Arc<Self> {
        let begun = Instant::now();
        Arc::new(World {
            trouble,
            has_damage,
            begun,
            inner: Arc::new(InMemoryStore::with_clock(TokioClock(begun))),
            stores: Mutex::default(),
            random: Mutex::new(Random(seed)),
            effects: Mutex::default(),
            failures: Mutex::default(),
            storm: Notify::new(),
            directory: Directory::new("hostile"),
        })
    }

    pub fn below(&self, end: u64) -> u64 {
        self.random.lock().unwrap().below(end)
    }

    pub fn is_trouble(&self, trouble: Trouble) -> bool {
        self.trouble == trouble && self.begun.elapsed() < TROUBLE
    }

    /// Returns after how many polls a delivery's worker dies, if it does.
    pub fn death(&self, polls_max: u64) -> Option<u64> {
        let dies = self.is_trouble(Trouble::WorkerDies) || self.is_trouble(Trouble::ProcessDies);
        (dies && self.below(3) == 0).then(|| 1 + self.below(polls_max))
    }

    /// Returns a way to the store for a new process.
    pub fn store(&self) -> Store {
        let store = Arc::new(FaultyStore::new(Arc::clone(&self.inner)));
        self.stores.lock().unwrap().push(Arc::clone(&store));
        store
    }

    /// Returns true if this attempt fails: one id in four does so until it is mended, another one
    /// two times.
    pub fn fails(&self, service: &'static str, id: &str) -> bool {
        if self.trouble != Trouble::Failing {
            return false;
        }
        let number: u64 = id.rsplit('-').next().expect("there is a last part").parse().expect("a number");
        let mut failures = self.failures.lock().unwrap();
        let failed = failures.entry((service, id.to_owned())).or_default();
        let fails = match number % 4 {
            0 => self.begun.elapsed() < Duration::from_secs(600),
            1 => *failed < 2,
            _ => false,
        };
        *failed += u32::from(fails);
        fails
    }

    pub fn note(&self, service: &'static str, id: &str) {
        *self.effects.lock().unwrap().entry((service, id.to_owned())).or_default() += 1;
    }

    /// Makes the store fail, as the trouble is, until there is none any more.
    pub async fn weather(&self) {
        let kind = ErrorKind::Unavailable;
        let away = match self.trouble {
            Trouble::AwayForSeconds => (1_000, 8_000),
            Trouble::AwayForMinutes => (90_000, 240_000),
            Trouble::Stumbles => {
                sleep(TROUBLE).await;
                return self.stores.lock().unwrap().iter().for_each(|store| store.at_random(0, []));
            }
            _ => return,
        };
        let time = |(from, to)| Duration::from_millis(from + self.below(to - from));
        while self.begun.elapsed() < TROUBLE {
            sleep(time((5_000, 15_000))).await;
            let _ = timeout(Duration::from_secs(60), self.storm.notified()).await;
            let fault = [Fault::Fails(kind), Fault::LosesAnswer(kind), Fault::Hangs][self.below(3) as usize];
            self.set(fault);
            sleep(time(away)).await;
            self.set(Fault::None);
        }
    }

    pub fn set(&self, fault: Fault) {
        self.stores.lock().unwrap().iter().for_each(|store| store.always(fault));
    }
}

/// A process of a service, and its way to the store.
#[derive(Clone)]
pub struct Place {
    pub world: Arc<World>,
    pub service: &'static str,
    pub store: Store,
    /// A number for what is random in this process.
    pub number: u64,
}

impl Place {
    pub fn new(world: &Arc<World>, service: &'static str) -> Self {
        let store = world.store();
        let number = world.below(u64::MAX);
        if world.is_trouble(Trouble::Stumbles) {
            let (kind, late) = (ErrorKind::Unavailable, Duration::from_millis(300));
            let faults = [Fault::Fails(kind), Fault::LosesAnswer(kind), Fault::FailsOne(kind)];
            let faults = faults.into_iter().chain([Fault::Delays(late), Fault::AnswersLate(late)]);
            store.at_random(number, faults.map(|fault| (60, fault)).collect::<Vec<_>>());
        }
        if world.is_trouble(Trouble::Stumbles) && world.has_damage && world.stores.lock().unwrap().len() == 1 {
            // For this process some ids cannot be claimed: errors in the midst of a batch.
            let scope = Scope::new(service).expect("it is a name");
            (0..IDS).filter(|n| n % 4 == 2).for_each(|n| store.damage(RecordKey::new(&scope, format!("m-{n}"))));
        }
        Place { world: Arc::clone(world), service, store, number }
    }

    /// Ends the process: nothing that it has begun arrives any more.
    pub fn cut_off(&self) {
        self.store.always(Fault::Hangs);
        self.world.stores.lock().unwrap().retain(|store| !Arc::ptr_eq(store, &self.store));
    }

    /// Does the work of a message: it takes some time before its effect, and after it.
    pub async fn work(&self, id: &str) -> Result<(), Failure> {
        let pause = || sleep(Duration::from_millis(1 + self.world.below(1_500)));
        pause().await;
        if self.world.fails(self.service, id) {
            return Err("the other side is down".into());
        }
        self.world.note(self.service, id);
        if self.world.below(4) == 0 {
            self.world.storm.notify_one();
        }
        pause().await;
        Ok(())
    }

    /// Does the work of a message in a task of its own, which may die.
    pub async fn work_in_task(self, id: String) -> Result<(), Failure> {
        let polls = self.world.death(4).filter(|_| self.world.trouble == Trouble::WorkerDies);
        mortal(self.work(&id), polls).await.unwrap_or_else(|| resume_unwind(Box::new("it dies")))
    }

    /// Does the work of a message at once. Its thread may die before or after that.
    pub fn work_now(&self, id: &str) -> Result<(), Failure> {
        let may_die = || {
            if self.world.death(1).is_some() && self.world.below(2) == 0 {
                resume_unwind(Box::new("it dies"));
            }
        };
        may_die();
        if self.world.fails(self.service, id) {
            return Err("the other side is down".into());
        }
        self.world.note(self.service, id);
        may_die();
        Ok(())
    }
}
