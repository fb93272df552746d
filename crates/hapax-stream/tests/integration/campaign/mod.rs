//! Random faults of all kinds, on every backend, with a ledger of effects: servers that are killed,
//! stopped, silent, cut off or lose answers, workers that are killed or stopped, handlers that
//! hang, fail, or take longer than the queue hides a message, callers that do not wait and ask
//! again at once. No message is lost; an effect is there twice only where a process was killed
//! after it; nothing stands still.
//!
//! `HAPAX_CAMPAIGN_SECONDS=n` sets the length, `HAPAX_CAMPAIGN_BACKENDS=a,b` the backends,
//! `HAPAX_STORE_SEED=n` the faults: `scripts/campaign`.

mod backend;
mod broker;
mod ledger;
mod plan;
mod worker;

use backend::{ALL, Backend, CHILD, Worker};
use broker::Broker;
use ledger::Tally;
use plan::{Part, Plan};
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::processes::PATIENCE;
use testkit::random::Random;
use testkit::random::seeded;
use tokio::time::sleep;

/// Messages that a campaign has to see for each of its seconds, in whatever time.
const PER_SECOND: u64 = 20;

fn variable(name: &str, usual: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| usual.to_owned())
}

/// Runs the child; this is no test.
#[test]
fn child() {
    let Ok(asked) = std::env::var(CHILD) else { return };
    let part = Part::parse(&asked).expect("a part");
    let ended = testkit::stores::runtime().block_on(backend::work_on(part));
    // The broker is gone, with the process that has started this; otherwise the broker reports it.
    eprintln!("a worker has ended: {ended}");
}

#[test]
fn every_fault_at_random() {
    let seconds = variable("HAPAX_CAMPAIGN_SECONDS", "3").parse().expect("HAPAX_CAMPAIGN_SECONDS is a number");
    let backends = match variable("HAPAX_CAMPAIGN_BACKENDS", "memory,redis").as_str() {
        "all" => ALL.join(","),
        backends => backends.to_owned(),
    };
    let mut random = seeded();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2 + ALL.len()).enable_all().build();
    let tallies = runtime.expect("a runtime").block_on(async {
        let mut campaigns = Vec::new();
        for backend in backends.split(',') {
            let (backend, seed, is_short) = (backend.to_owned(), random.next() >> 16, seconds < 60);
            campaigns.push(tokio::spawn(campaign(Plan { backend, seed, is_short }, Duration::from_secs(seconds))));
        }
        let mut tallies = Vec::new();
        for campaign in campaigns {
            tallies.extend(campaign.await.expect("a campaign"));
        }
        tallies
    });
    println!("{}", Tally::heading());
    tallies.iter().for_each(|(backend, tally)| println!("{}", tally.line(backend)));
    let violations: Vec<String> = tallies
        .iter()
        .flat_map(|(backend, tally)| tally.violations.iter().map(move |what| format!("{backend}: {what}")))
        .collect();
    println!("{}", violations.join("\n"));
    // Leases of a short campaign are so short that a busy machine may pause a worker for longer.
    let is_excused = |what: &String| seconds < 60 && what.contains(" effects, and ");
    assert!(violations.iter().all(is_excused), "{}", violations.join("\n"));
    for (backend, tally) in &tallies {
        assert!(
            tally.messages > PER_SECOND * seconds && tally.faults > seconds / 10,
            "{backend}: hardly anything has happened"
        );
    }
}

/// The workers of a campaign.
struct Workers<'b> {
    backend: &'b Backend,
    part: Part,
    workers: Vec<Worker>,
    broker: Arc<Broker>,
}

impl Workers<'_> {
    fn start(&mut self, worker: usize) -> Worker {
        self.part.life += 1;
        self.backend.spawn(Part { worker, ..self.part.clone() })
    }

    async fn kill(&mut self, worker: usize) {
        self.workers.remove(worker).kill();
        self.broker.died(worker).await;
        let started = self.start(worker);
        self.workers.insert(worker, started);
    }

    /// Restarts those that have ended, which they must not.
    async fn look_after(&mut self) {
        for worker in 0..self.workers.len() {
            if self.workers[worker].has_ended() {
                self.broker.violated(format!("worker {worker} has ended by itself"));
                self.kill(worker).await;
            }
        }
    }
}

async fn campaign(plan: Plan, time: Duration) -> Option<(String, Tally)> {
    let mut random = Random(plan.seed);
    let backend = Backend::start(&plan).await?;
    let (broker, address) = Broker::start(plan.clone(), random.fork()).await;
    let part = Part { plan: plan.clone(), worker: 0, life: 0, broker: address, store: String::new() };
    let mut workers = Workers { backend: &backend, part, workers: Vec::new(), broker: Arc::clone(&broker) };
    for worker in 0..backend.workers {
        let started = workers.start(worker);
        workers.workers.push(started);
    }
    let ticking = {
        let broker = Arc::clone(&broker);
        tokio::spawn(async move {
            loop {
                broker.tick();
                sleep(Duration::from_millis(10)).await;
            }
        })
    };
    let began = Instant::now();
    // On a busy machine it takes longer until enough has happened to be judged.
    let has_happened = || {
        let (messages, faults) = broker.progress();
        messages > PER_SECOND * time.as_secs() && faults > time.as_secs() / 10
    };
    while began.elapsed() < time || !has_happened() && began.elapsed() < time + PATIENCE {
        sleep(plan.pause(&mut random)).await;
        let worker = random.below(backend.workers as u64) as usize;
        let from = broker.since();
        let what = match random.below(8) {
            0 => {
                workers.kill(worker).await;
                format!("worker {worker} killed")
            }
            1 => {
                workers.workers[worker].stop(plan.fault(&mut random)).await;
                format!("worker {worker} stopped")
            }
            _ => backend.harm(&mut random).await,
        };
        broker.injected(from, what);
        workers.look_after().await;
    }
    // Nothing goes wrong any more.
    broker.stop_sending();
    let ending = Instant::now();
    while broker.open() > 0 && ending.elapsed() < 2 * plan.lease() + PATIENCE {
        sleep(Duration::from_millis(10)).await;
        workers.look_after().await;
    }
    ticking.abort();
    // This pause catches events that come too late.
    sleep(Duration::from_millis(200)).await;
    workers.workers.drain(..).for_each(Worker::kill);
    Some((plan.backend, broker.end()))
}
