//! Faulty stores and clients that the simulation must reject.

use hapax::{ManualClock, Timestamp};
use hapax_store::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use testkit::random::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A store: a caller that asks again, since the answer was lost, counts as another one.
    IgnoresAttempts,
    /// A store: a claim that is in progress is granted to the next caller.
    GrantsTwice,
    /// A store: a former holder of a claim may complete it.
    CompletesUnderStaleTokens,
    /// A store: the last changes are gone after a restart.
    ForgetsAtRestart,
    /// A store: leases are judged by the clocks of clients.
    TrustsTheClocksOfClients,
    /// A store: leases are half as long as requested.
    ShortensLeases,
    /// A client: no answer counts as fresh.
    TakesTimeoutsForFresh,
    /// Clients: all of them number their attempts alike.
    NumbersAttemptsAlike,
}

impl Wrong {
    pub const ALL: [Wrong; 8] = [
        Wrong::IgnoresAttempts,
        Wrong::GrantsTwice,
        Wrong::CompletesUnderStaleTokens,
        Wrong::ForgetsAtRestart,
        Wrong::TrustsTheClocksOfClients,
        Wrong::ShortensLeases,
        Wrong::TakesTimeoutsForFresh,
        Wrong::NumbersAttemptsAlike,
    ];
}

/// The server's store: records that survive its death. It is right, unless it is to be wrong. It
/// may hang, and lose some of a call's answers.
pub struct ServerStore {
    hangs_until: Mutex<Duration>,
    loses: Mutex<(u64, Random)>,
    pub records: InMemoryStore,
    pub clock: ManualClock,
    wrong: Option<Wrong>,
    asked: AtomicU64,
    last_done: Mutex<Vec<RecordKey>>,
}

impl ServerStore {
    /// Creates a store. `loses`: how many of a hundred answers are lost.
    pub fn new(wrong: Option<Wrong>, starts_at: Duration, loses: u64, random: Random) -> Self {
        let clock = ManualClock::new();
        clock.set(Timestamp::default() + starts_at);
        let records = InMemoryStore::with_clock(clock.clone());
        let loses = Mutex::new((loses, random));
        let (asked, last_done) = (AtomicU64::new(1), Mutex::default());
        ServerStore { hangs_until: Mutex::default(), loses, records, clock, wrong, asked, last_done }
    }

    /// Makes it do nothing until then.
    pub fn hang(&self, until: Duration) {
        *self.hangs_until.lock().unwrap() = until;
    }

    pub fn hangs_until(&self) -> Duration {
        *self.hangs_until.lock().unwrap()
    }

    /// Loses some answers. Each request was done; of some nobody learns.
    fn lose_some<T>(&self, answers: &mut [Result<T, StoreError>]) {
        let mut loses = self.loses.lock().unwrap();
        let (percent, random) = &mut *loses;
        if *percent > 0 {
            for answer in answers.iter_mut().filter(|_| random.percent(*percent)) {
                *answer = Err(StoreError::new(ErrorKind::Unavailable, "simulated", "this answer was lost"));
            }
        }
    }

    /// Restarts the server after its death.
    pub async fn restarted(&self) {
        if self.wrong == Some(Wrong::ForgetsAtRestart) {
            let last = std::mem::take(&mut *self.last_done.lock().unwrap());
            self.records.forget(&last).await.unwrap();
        }
    }

    fn done<'k>(&self, keys: impl Iterator<Item = &'k RecordKey>) {
        let mut last = self.last_done.lock().unwrap();
        last.extend(keys.cloned());
        let too_many = last.len().saturating_sub(8);
        last.drain(..too_many);
    }

    fn attempt(&self, attempt: u64) -> u64 {
        match self.wrong {
            Some(Wrong::IgnoresAttempts) => self.asked.fetch_add(1, Ordering::Relaxed),
            _ => attempt,
        }
    }
}

impl Store for ServerStore {
    fn backend(&self) -> &'static str {
        "the server's"
    }

    async fn mark(&self, marks: &[Mark]) -> Answers<Marked> {
        self.done(marks.iter().map(|mark| &mark.key));
        let marks: Vec<Mark> =
            marks.iter().map(|mark| Mark { attempt: self.attempt(mark.attempt), ..mark.clone() }).collect();
        let mut marked = self.records.mark(&marks).await?;
        self.lose_some(&mut marked);
        Ok(marked)
    }

    async fn unmark(&self, marks: &[Unmark]) -> Answers<Unmarked> {
        self.records.unmark(marks).await
    }

    async fn claim(&self, claims: &[ClaimRequest]) -> Answers<Claimed> {
        let mut claims = claims.to_vec();
        let now = hapax::Clock::now(&self.clock);
        for claim in &mut claims {
            claim.attempt = self.attempt(claim.attempt);
            match self.wrong {
                Some(Wrong::GrantsTwice) => {
                    let keys = [claim.key.clone()];
                    if matches!(self.records.look_up(&keys).await?[0], Ok(Known::InProgress { .. })) {
                        self.records.forget(&keys).await?;
                    }
                }
                Some(Wrong::ShortensLeases) => claim.lease /= 2,
                // Every other client is an hour ahead.
                Some(Wrong::TrustsTheClocksOfClients) if claim.attempt % 2 == 1 => {
                    self.clock.set(now + Duration::from_secs(3_600));
                }
                _ => {}
            }
        }
        let claimed = self.records.claim(&claims).await;
        self.clock.set(now);
        let mut claimed = claimed?;
        self.lose_some(&mut claimed);
        Ok(claimed)
    }

    async fn complete(&self, completions: &[Completion]) -> Answers<Held> {
        let mut held = self.records.complete(completions).await?;
        if self.wrong == Some(Wrong::CompletesUnderStaleTokens) {
            for (completion, held) in completions.iter().zip(&mut held) {
                let (key, retention) = (completion.hold.key.clone(), completion.retention);
                let record = Record { key, retention, fingerprint: None, result: None };
                self.records.record(&[record]).await?;
                *held = Ok(Held::Done);
            }
        }
        self.done(completions.iter().map(|completion| &completion.hold.key));
        Ok(held)
    }

    async fn release(&self, holds: &[Hold]) -> Answers<Held> {
        self.records.release(holds).await
    }

    async fn fail(&self, failures: &[ClaimFailure]) -> Answers<Held> {
        self.records.fail(failures).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Answers<Held> {
        self.records.renew(renewals).await
    }

    async fn look_up(&self, keys: &[RecordKey]) -> Answers<Known> {
        self.records.look_up(keys).await
    }

    async fn record(&self, records: &[Record]) -> Answers<()> {
        self.records.record(records).await
    }

    async fn forget(&self, keys: &[RecordKey]) -> Answers<bool> {
        self.records.forget(keys).await
    }

    async fn expire(&self, limit: usize) -> Result<Expired, StoreError> {
        self.records.expire(limit).await
    }

    async fn scan(&self, from: Option<&Cursor>, limit: usize) -> Result<Page, StoreError> {
        self.records.scan(from, limit).await
    }
}
