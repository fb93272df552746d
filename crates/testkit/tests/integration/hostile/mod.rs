//! The code of the documents under everything that brokers, stores and crashes do to it, with a
//! ledger of effects: what it loses and repeats is what the text beside it says, no more, no less.
//!
//! Two services get the same messages, each from a queue of its own; two processes of each share a
//! store, unless the document says that they cannot. Time is that of a paused runtime. Each run has
//! one [`Trouble`] besides copies, and a seed: `HAPAX_SEED` says the first one.

mod blocks;
mod broker;
mod shown;
mod wrong;

use crate::common::Directory;
use crate::random::Random;
use broker::Broker;
use futures_util::future::{LocalBoxFuture, join_all};
use hapax::{Clock, Timestamp};
use hapax_store::{ErrorKind, InMemoryStore, RecordKey, Scope};
use hapax_testing::store::{Fault, FaultyStore};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

tokio::task_local! {
    /// The process whose code runs.
    static CURRENT: Place;
}

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Store = Arc<FaultyStore<Arc<InMemoryStore>>>;

/// What goes wrong in a run. In all of them messages are sent twice, acknowledgements are missed,
/// and what fails again and again is put aside, and sent anew later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// Nothing else.
    Copies,
    /// Handlers fail, some of them for ten minutes.
    Failing,
    /// Handlers are dropped, or panic, at any await; their process goes on.
    WorkerDies,
    /// Processes are killed at any await.
    ProcessDies,
    /// Single calls of the store fail, lose their answers, or are late, or one request of them.
    Stumbles,
    /// The store fails, loses its answers or hangs, for some seconds, again and again.
    AwayForSeconds,
    /// It does so for some minutes.
    AwayForMinutes,
}

/// Until then there is trouble.
const TROUBLE: Duration = Duration::from_secs(900);
/// Until then all is done.
const PATIENCE: Duration = Duration::from_secs(12 * 3_600);
/// The number of ids that each service gets.
const IDS: u64 = 24;

/// The runtime's clock.
#[derive(Clone, Copy)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1_000_000) + self.0.elapsed()
    }
}

/// One run: what all its processes share.
struct World {
    trouble: Trouble,
    /// The number of processes of a service.
    instances: usize,
    begun: Instant,
    inner: Arc<InMemoryStore>,
    /// What stands between each process and the store.
    stores: Mutex<Vec<Store>>,
    random: Mutex<Random>,
    effects: Mutex<HashMap<(&'static str, String), u32>>,
    failures: Mutex<HashMap<(&'static str, String), u32>>,
    /// Is told of some effects, so that the store is away before they are recorded.
    storm: Notify,
    /// Where processes keep files that survive them.
    directory: Directory,
}

impl World {
    fn new(trouble: Trouble, seed: u64, instances: usize) -> Arc<Self> {
        let begun = Instant::now();
        Arc::new(World {
            trouble,
            instances,
            begun,
            inner: Arc::new(InMemoryStore::with_clock(TokioClock(begun))),
            stores: Mutex::default(),
            random: Mutex::new(Random(seed)),
            effects: Mutex::default(),
            failures: Mutex::default(),
            storm: Notify::new(),
            directory: Directory::made("hostile"),
        })
    }

    fn below(&self, end: u64) -> u64 {
        self.random.lock().unwrap().below(end)
    }

    fn is_trouble(&self, trouble: Trouble) -> bool {
        self.trouble == trouble && self.begun.elapsed() < TROUBLE
    }

    /// Returns after how many polls a delivery's worker dies, if it does.
    fn death(&self, polls_max: u64) -> Option<u64> {
        let dies = self.is_trouble(Trouble::WorkerDies) || self.is_trouble(Trouble::ProcessDies);
        (dies && self.below(3) == 0).then(|| 1 + self.below(polls_max))
    }

    /// Returns a way to the store for a new process.
    fn store(&self) -> Store {
        let store = Arc::new(FaultyStore::new(Arc::clone(&self.inner)));
        self.stores.lock().unwrap().push(Arc::clone(&store));
        store
    }

    /// Returns true if this attempt fails: one id in four does so until it is mended, another one
    /// two times.
    fn fails(&self, service: &'static str, id: &str) -> bool {
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

    fn note(&self, service: &'static str, id: &str) {
        *self.effects.lock().unwrap().entry((service, id.to_owned())).or_default() += 1;
    }

    /// Makes the store fail, as the trouble is, until there is none any more.
    async fn weather(&self) {
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

    fn set(&self, fault: Fault) {
        self.stores.lock().unwrap().iter().for_each(|store| store.always(fault));
    }
}

/// A process of a service, and its way to the store.
#[derive(Clone)]
struct Place {
    world: Arc<World>,
    service: &'static str,
    store: Store,
    /// A number for what is random in this process.
    number: u64,
}

impl Place {
    fn new(world: &Arc<World>, service: &'static str) -> Self {
        let store = world.store();
        let number = world.below(u64::MAX);
        if world.is_trouble(Trouble::Stumbles) {
            let (kind, late) = (ErrorKind::Unavailable, Duration::from_millis(300));
            let faults = [Fault::Fails(kind), Fault::LosesAnswer(kind), Fault::FailsOne(kind)];
            let faults = faults.into_iter().chain([Fault::Delays(late), Fault::AnswersLate(late)]);
            store.at_random(number, faults.map(|fault| (60, fault)).collect::<Vec<_>>());
        }
        if world.is_trouble(Trouble::Stumbles) && world.instances > 1 && world.stores.lock().unwrap().len() == 1 {
            // For this process some ids cannot be claimed: errors in the midst of a batch.
            let scope = Scope::new(service).expect("it is a name");
            (0..IDS).filter(|n| n % 4 == 2).for_each(|n| store.damage(RecordKey::new(&scope, &format!("m-{n}"))));
        }
        Place { world: Arc::clone(world), service, store, number }
    }

    /// Ends the process: nothing that it has begun arrives any more.
    fn cut_off(&self) {
        self.store.always(Fault::Hangs);
        self.world.stores.lock().unwrap().retain(|store| !Arc::ptr_eq(store, &self.store));
    }

    /// Does the work of a message: it takes some time before its effect, and after it.
    async fn work(&self, id: &str) -> Result<(), Failure> {
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
    async fn work_in_task(self, id: String) -> Result<(), Failure> {
        let polls = self.world.death(4).filter(|_| self.world.trouble == Trouble::WorkerDies);
        mortal(self.work(&id), polls).await.unwrap_or_else(|| resume_unwind(Box::new("it dies")))
    }

    /// Does the work of a message at once. Its thread may die before or after that.
    fn work_now(&self, id: &str) -> Result<(), Failure> {
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

/// Polls a future so often, and drops it then, unless it has ended. Returns nothing if it was.
async fn mortal<F: Future>(future: F, polls: Option<u64>) -> Option<F::Output> {
    let (mut future, mut polls) = (pin!(future), polls);
    poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        polls = polls.map(|left| left - 1);
        if polls == Some(0) { Poll::Ready(None) } else { Poll::Pending }
    })
    .await
}

/// Takes a batch of ids, and returns those that may be acknowledged.
type Deliver = Box<dyn Fn(Vec<String>) -> LocalBoxFuture<'static, Result<Vec<String>, Failure>>>;

/// The way in which a block is driven.
#[derive(Clone, Copy)]
enum Drive {
    /// Deliveries by the harness, so many in a batch, to what a process has built.
    Each(usize, fn(Place) -> LocalBoxFuture<'static, Result<Deliver, Failure>>),
    /// The block receives by itself until the end.
    Runs(fn(Place, Broker) -> LocalBoxFuture<'static, Result<(), Failure>>),
}

/// Hands batches to what was built, until its process dies or there are no more.
async fn deliveries(place: &Place, broker: &Broker, batch: usize, deliver: &Deliver) {
    let world = &place.world;
    while let Some(received) = broker.take(batch).await {
        let ids = received.iter().map(|message| message.id.clone()).collect();
        let answer = mortal(deliver(ids), world.death(9)).await;
        let has_died = match &answer {
            None => true,
            Some(Err(error)) => error.is::<Died>(),
            Some(Ok(_)) => false,
        };
        match answer {
            _ if has_died && world.trouble == Trouble::ProcessDies => return,
            _ if has_died => {} // its messages come again, when the broker has waited for them
            Some(Ok(done)) => received.iter().for_each(|message| match done.contains(&message.id) {
                true => broker.done(message.place),
                false => broker.failed(message.place),
            }),
            _ => received.iter().for_each(|message| broker.failed(message.place)),
        }
    }
}

/// Runs one process after the other, until all is done.
async fn processes(world: Arc<World>, service: &'static str, broker: Broker, drive: Drive) {
    while !broker.is_finished() {
        let place = Place::new(&world, service);
        match drive {
            Drive::Each(batch, start) => {
                if let Ok(deliver) = start(place.clone()).await {
                    deliveries(&place, &broker, batch, &deliver).await;
                    place.cut_off();
                }
            }
            Drive::Runs(run) => {
                let polls = world.is_trouble(Trouble::ProcessDies).then(|| 1 + world.below(60));
                let mut run = Box::pin(mortal(run(place.clone(), broker.clone()), polls));
                let _ = run.as_mut().await;
                place.cut_off();
            }
        }
        sleep(Duration::from_millis(1 + world.below(5_000))).await;
    }
}

/// What has become of the messages of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    driven: u64,
    lost: u64,
    repeated: u64,
}

impl World {
    fn outcome(&self, services: &[&'static str]) -> Outcome {
        let effects = self.effects.lock().unwrap();
        let mut outcome = Outcome::default();
        for (service, id) in services.iter().flat_map(|service| (0..IDS).map(move |n| (*service, format!("m-{n}")))) {
            let effects = effects.get(&(service, id)).copied().unwrap_or_default();
            outcome.driven += 1;
            outcome.lost += u64::from(effects == 0);
            outcome.repeated += u64::from(effects.saturating_sub(1));
        }
        outcome
    }
}

/// Drives a block once. Returns an error if it does not come to an end.
async fn run(block: &Block, trouble: Trouble, seed: u64) -> Result<Outcome, String> {
    let world = World::new(trouble, seed, block.instances);
    let brokers: Vec<_> = block.services.iter().map(|_| Broker::new(&world)).collect();
    let each = block.services.iter().zip(&brokers);
    let all = each.flat_map(|(service, broker)| (0..block.instances).map(move |_| (service, broker)));
    let all = all.map(|(service, broker)| processes(Arc::clone(&world), service, broker.clone(), block.drive));
    let operator = async {
        world.weather().await;
        std::future::pending().await
    };
    tokio::select! {
        _ = join_all(all) => Ok(world.outcome(block.services)),
        () = operator => unreachable!("it has no end"),
        () = sleep(PATIENCE) => Err("it stands still".into()),
    }
}

/// A block of code in a document, and what the text beside it says of it.
#[derive(Clone)]
struct Block {
    document: &'static str,
    heading: &'static str,
    /// Where the code is that runs here, and how it begins.
    shown: (&'static str, &'static str),
    drive: Drive,
    services: &'static [&'static str],
    /// The number of processes of a service at a time.
    instances: usize,
    troubles: &'static [Trouble],
    /// The document's own words about the two that follow.
    says: &'static [&'static str],
    /// In which trouble a message may have no effect, though it was acknowledged.
    loses: &'static [Trouble],
    /// In which trouble it may have several.
    repeats: &'static [Trouble],
}

/// Returns what a block has lost and repeated in a trouble, or what it should not have.
fn judge(block: &Block, trouble: Trouble, seeds: std::ops::Range<u64>) -> Result<Outcome, String> {
    let mut all = Outcome::default();
    let (may_lose, may_repeat) = (block.loses.contains(&trouble), block.repeats.contains(&trouble));
    let place = format!("{}, {:?}, {trouble:?}", block.document, block.heading);
    for seed in seeds {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let outcome = runtime.block_on(run(block, trouble, seed));
        let outcome = outcome.map_err(|error| format!("{place}, HAPAX_SEED={seed}: {error}"))?;
        let (lost, repeated) = (outcome.lost, outcome.repeated);
        if lost > 0 && !may_lose || repeated > 0 && !may_repeat {
            return Err(format!("{place}, HAPAX_SEED={seed}: {lost} lost, {repeated} repeated"));
        }
        all.driven += outcome.driven;
        all.lost += lost;
        all.repeated += repeated;
    }
    if may_lose && all.lost == 0 || may_repeat && all.repeated == 0 {
        return Err(format!("{place}: what the text admits does not happen: {all:?}"));
    }
    Ok(all)
}

fn seeds() -> std::ops::Range<u64> {
    let first = std::env::var("HAPAX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    first..first + testkit::long(6, 60)
}

/// The error of a delivery whose thread has died.
#[derive(Debug)]
struct Died;

impl std::fmt::Display for Died {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it has died")
    }
}

impl std::error::Error for Died {}
