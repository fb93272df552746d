//! A client: an engine, and consumers that handle deliveries with it.

use crate::simulation::broker::{Broker, now};
use crate::simulation::judge::{Asked, End};
use crate::simulation::remote::RemoteStore;
use crate::simulation::scenario::{LEASE, Manners, RETENTION, Scenario};
use crate::simulation::wrong::Wrong;
use hapax::{Clock, Timestamp, Verdict};
use hapax_store::{ClaimError, StoreError, TieredAttempt, TieredClaim, TieredDedup};
use std::sync::Arc;
use std::time::Duration;
use testkit::random::Random;
use tokio::time::{sleep, timeout};

type Engine = TieredDedup<RemoteStore>;
type Claim = TieredClaim<RemoteStore>;

/// A client's clock: it is wrong by an offset, and faster or slower than time.
pub struct Skewed {
    pub by: Duration,
    pub per_mille: u32,
}

impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        Timestamp::default() + self.by + now() * self.per_mille / 1_000
    }
}

/// One of a client's consumers.
struct Consumer {
    broker: Arc<Broker>,
    engine: Engine,
    client: usize,
    life: u64,
    takes_timeouts_for_fresh: bool,
    manners: Manners,
    impatient_percent: u64,
    random: Random,
}

/// The requests that were made for deliveries, and not answered.
type Open = Vec<(usize, String)>;

/// Runs a life of a client: until it is killed.
pub async fn live(scenario: Arc<Scenario>, broker: Arc<Broker>, client: usize) -> turmoil::Result {
    let life = broker.starts(client);
    let mut random = Random(scenario.seed ^ (client as u64 + 1) << 32 ^ life << 48);
    let attempts = match scenario.wrong {
        Some(Wrong::NumbersAttemptsAlike) => scenario.seed,
        _ => random.next(),
    };
    let engine = loop {
        let clock = Skewed { by: scenario.skews[client].0, per_mille: scenario.skews[client].1 };
        let engine = TieredDedup::builder(RemoteStore::new(scenario.nodes, scenario.batch))
            .window(scenario.window)
            .retention(RETENTION)
            .capacity(64)
            .lease(LEASE)
            .clock(clock)
            .seed(scenario.seed)
            .attempt_seed(attempts)
            .timeout(Duration::from_millis(60))
            .retries(scenario.retries)
            .circuit_breaker(4, Duration::from_millis(80))
            .expiry(scenario.expires.then_some((Duration::from_millis(100), 3)));
        match engine.build().await {
            Ok(engine) => break engine,
            // The store cannot be reached.
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    };
    let mut consumers = tokio::task::JoinSet::new();
    for _ in 0..scenario.consumers {
        let consumer = Consumer {
            broker: Arc::clone(&broker),
            engine: engine.clone(),
            client,
            life,
            takes_timeouts_for_fresh: scenario.wrong == Some(Wrong::TakesTimeoutsForFresh),
            manners: scenario.manners,
            impatient_percent: scenario.impatient_percent,
            random: random.fork(),
        };
        consumers.spawn(consumer.consume());
    }
    while let Some(ended) = consumers.join_next().await {
        ended?;
    }
    Ok(())
}

impl Consumer {
    async fn consume(mut self) {
        loop {
            let most = if self.random.percent(30) { self.random.within(2, 4) } else { 1 };
            let taken = self.broker.take(self.client, most as usize);
            if taken.is_empty() {
                sleep(Duration::from_millis(10)).await;
            }
            let (checks, claims): (Vec<String>, Vec<String>) =
                taken.into_iter().partition(|id| id.starts_with("check"));
            self.check(checks).await;
            self.claim(claims).await;
        }
    }

    fn begin(&self, ids: Vec<String>, asked: Asked) -> Open {
        ids.into_iter().map(|id| (self.broker.begin(self.client, self.life, &id, asked), id)).collect()
    }

    /// Returns how long this consumer waits, now and then not long enough.
    fn patience(&mut self) -> Duration {
        if self.random.percent(self.impatient_percent) { self.random.millis(1, 60) } else { Duration::from_secs(30) }
    }

    /// Returns the answers, unless it has waited long enough. Then they may be dropped although
    /// they are there.
    async fn wait<T>(&mut self, open: &Open, answers: impl Future<Output = Vec<T>>) -> Vec<Option<T>> {
        let (patience, goes_first) = (self.patience(), self.random.percent(50));
        let given_up = || open.iter().map(|_| None).collect();
        tokio::select! {
            biased;
            () = sleep(patience), if goes_first => given_up(),
            answers = answers => answers.into_iter().map(Some).collect(),
            () = sleep(patience) => given_up(),
        }
    }

    /// Handles requests that were not answered: each is repeated, if the caller insists, or is
    /// delivered again.
    async fn again(&mut self, unanswered: Open, times: u32) -> Open {
        if self.manners == Manners::LetGo {
            unanswered.iter().for_each(|(number, _)| self.broker.end(*number, End::Unknown));
            return Vec::new();
        }
        // A breaker that is open answers without waiting, and time must pass.
        if times % 4 == 3 {
            sleep(self.random.millis(1, 20)).await;
        }
        unanswered
    }

    async fn check(&mut self, ids: Vec<String>) {
        let (mut open, engine) = (self.begin(ids, Asked::Check), self.engine.clone());
        for times in 0.. {
            if open.is_empty() {
                return;
            }
            let asked = async {
                match &open[..] {
                    [(_, id)] => vec![engine.check(id).await],
                    several => engine.check_batch(several.iter().map(|(_, id)| id)).await,
                }
            };
            let verdicts = self.wait(&open, asked).await;
            let mut unanswered = Open::new();
            for ((number, id), verdict) in std::mem::take(&mut open).into_iter().zip(verdicts) {
                match self.end_of_check(number, verdict) {
                    End::Unknown => unanswered.push((number, id)),
                    end => self.broker.end(number, end),
                }
            }
            open = self.again(unanswered, times).await;
        }
    }

    fn end_of_check(&self, number: usize, verdict: Option<Result<Verdict, StoreError>>) -> End {
        match verdict {
            Some(Ok(verdict)) if verdict.is_fresh() => End::Fresh,
            Some(Ok(verdict)) if verdict.is_duplicate() => End::Duplicate,
            Some(Ok(_)) => End::InProgress,
            Some(Err(_)) if self.takes_timeouts_for_fresh => End::Fresh,
            Some(Err(_)) => {
                self.broker.failed(number);
                End::Unknown
            }
            None => {
                self.broker.gave_up(number);
                End::Unknown
            }
        }
    }

    async fn claim(&mut self, ids: Vec<String>) {
        let (mut open, engine) = (self.begin(ids, Asked::Claim), self.engine.clone());
        let mut held = Vec::new();
        for times in 0.. {
            if open.is_empty() {
                break;
            }
            let asked = async {
                match &open[..] {
                    [(_, id)] => vec![engine.claim(id).await],
                    several => engine.claim_batch(several.iter().map(|(_, id)| id)).await,
                }
            };
            let attempts = self.wait(&open, asked).await;
            let mut unanswered = Open::new();
            for ((number, id), attempt) in std::mem::take(&mut open).into_iter().zip(attempts) {
                match attempt {
                    Some(Ok(TieredAttempt::Claimed(claim))) => {
                        self.broker.granted(number, claim.token().as_u64());
                        held.push((number, claim));
                    }
                    Some(Ok(TieredAttempt::Duplicate(_))) => self.broker.end(number, End::Duplicate),
                    Some(Ok(_)) => self.broker.end(number, End::InProgress),
                    Some(Err(_)) => {
                        self.broker.failed(number);
                        unanswered.push((number, id));
                    }
                    None => {
                        self.broker.gave_up(number);
                        unanswered.push((number, id));
                    }
                }
            }
            open = self.again(unanswered, times).await;
        }
        if !held.is_empty() {
            self.handle(held).await;
        }
    }

    /// Does the work of the claims that it holds, and ends them.
    async fn handle(&mut self, mut held: Vec<(usize, Claim)>) {
        sleep(if self.random.percent(80) { self.random.millis(0, 60) } else { self.random.millis(100, 400) }).await;
        if self.random.percent(10) {
            for (_, claim) in &mut held {
                // If that fails, so will the completion.
                let _ = claim.renew(LEASE).await;
            }
            sleep(self.random.millis(50, 200)).await;
        }
        if self.random.percent(12) {
            for (number, claim) in held {
                self.give_up(number, claim).await;
            }
            return;
        }
        held.iter().for_each(|(number, _)| self.broker.ending(*number, true));
        let (numbers, claims): (Vec<usize>, Vec<Claim>) = held.into_iter().unzip();
        let (patience, engine) = (self.patience(), self.engine.clone());
        let single = claims.len() == 1 && self.random.percent(70);
        let ended = timeout(patience, async {
            match (single, claims) {
                (true, mut claims) => match claims.pop() {
                    Some(claim) => vec![claim.complete().await],
                    None => Vec::new(),
                },
                (false, claims) => engine.complete_batch(claims).await,
            }
        });
        let Ok(ended) = ended.await else {
            return numbers.into_iter().for_each(|number| self.broker.end(number, End::Unknown));
        };
        for (number, ended) in numbers.into_iter().zip(ended) {
            let end = match ended.map_err(ClaimError::from) {
                Ok(()) => End::Completed,
                Err(ClaimError::LostLease(_)) => End::LostLease,
                Err(_) => End::Unknown,
            };
            self.broker.end(number, end);
        }
    }

    async fn give_up(&mut self, number: usize, claim: Claim) {
        self.broker.ending(number, false);
        // If the store cannot be told, the lease expires.
        match self.random.below(3) {
            0 => drop(claim),
            1 => drop(claim.release().await),
            _ => drop(claim.fail(Duration::from_millis(40)).await),
        }
        self.broker.end(number, End::GivenUp);
    }
}
