//! The code of the documents under everything that brokers, stores and crashes do to it, with a
//! ledger of effects: what it loses and repeats is what the text beside it says, no more, no less.
//!
//! Two services get the same messages, each from a queue of its own; two processes of each share a
//! store, unless the document says that they cannot. Time is that of a paused runtime. Each run has
//! one [`Trouble`] besides copies, and a seed: `HAPAX_SEED` says the first one.

mod blocks;
mod broker;
mod consumers;
mod shown;
mod world;
mod wrong;

use crate::stream::TokioClock;
use broker::Broker;
use futures_util::future::{LocalBoxFuture, join_all};
use hapax_store::InMemoryStore;
use hapax_testing::store::FaultyStore;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::sleep;
use world::{Place, World};

tokio::task_local! {
    /// The process whose code runs.
    static CURRENT: Place;
}

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Store = Arc<FaultyStore<Arc<InMemoryStore>>>;

/// The trouble of a run. In all of them messages are sent twice, acknowledgements are missed, and
/// what fails again and again is put aside, and sent anew later.
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
            Some(Ok(done)) => received.iter().for_each(|message| {
                if done.contains(&message.id) { broker.done(message.place) } else { broker.failed(message.place) }
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

/// The fates of the messages of a run.
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
    // (A consumer claims as it likes.)
    let has_damage = block.instances > 1 && matches!(block.drive, Drive::Each(..));
    let world = World::new(trouble, seed, has_damage);
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
    /// The file of the code that runs here, and the beginning of that.
    shown: (&'static str, &'static str),
    drive: Drive,
    services: &'static [&'static str],
    /// The number of processes of a service at a time.
    instances: usize,
    troubles: &'static [Trouble],
    /// The document's own words about the two that follow.
    says: &'static [&'static str],
    /// The troubles in which a message may have no effect, though it was acknowledged.
    loses: &'static [Trouble],
    /// The troubles in which it may have several.
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
    first..first + testkit::long(2, 60)
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
