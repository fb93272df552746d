//! The holder of an id: a claim for any store, and its end.

use super::error::{self, ClaimError};
use super::options::{Done, TieredClaimOptions};
use super::patience::Patience;
use super::releasing::Releasing;
use crate::backend::times;
use crate::dyn_store::Answering;
use crate::tiered::batching::{Client, Completions, Failures, Records, Releases, Renewals};
use crate::tiered::engine::{Engine, Name, PolicyState, SideRecord};
use crate::tiered::observe::End;
use crate::{
    Before, ClaimFailure, Completion, Fingerprint, Held, HeldBy, Hold, Record, RecordKey, Renewal, StoreError,
};
use hapax::seam::Digest;
use hapax::{LostLease, Token};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The result of an attempt to claim an id.
pub(crate) enum Attempt {
    Claimed(Holder),
    InProgress { lease_left: Duration, held_by: Option<HeldBy> },
    Duplicate(Done),
    Mismatch,
    TooMany,
}

/// The content of [`TieredClaim`](super::TieredClaim) without the type of its store.
pub(crate) struct Holder {
    client: Arc<Client>,
    policy: Arc<PolicyState>,
    pub(super) key: RecordKey,
    id: Digest,
    fingerprint: Option<Fingerprint>,
    lease: Duration,
    retention: Duration,
    pub(super) held: Where,
    /// The first claim of the id that is in doubt.
    pub(super) before: Option<Box<Before>>,
    begun: Instant,
    /// The time from which its lease runs, at the latest.
    renewed: tokio::time::Instant,
    state: State,
}

/// The progress of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Dropping it releases it.
    Held,
    /// Its work is done, and it is unknown whether that is recorded. Dropping it leaves it to its
    /// lease: to release it would have the work done again at once.
    Done,
    Ended,
}

/// The place where a claim is held.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Where {
    /// In the store.
    Store { token: u64 },
    /// In this process, which is the only one.
    Here { token: u64 },
    /// Nowhere: the store could not be asked, and the policy admits messages then.
    Admitted,
    /// Nowhere: in shadow mode, or when everything passes, the id is not the caller's, and others
    /// must not notice.
    Nowhere,
}

/// A claim whose completion is not recorded, as far as is known.
pub(crate) struct Unfinished {
    pub(super) holder: Holder,
    pub(super) result: Option<Vec<u8>>,
    pub(super) error: ClaimError,
}

impl Holder {
    pub(super) fn new(
        engine: &Engine,
        (key, id): Name,
        options: &TieredClaimOptions,
        held: Where,
        before: Option<Box<Before>>,
    ) -> Self {
        Holder {
            client: Arc::clone(&engine.client),
            policy: Arc::clone(&engine.policy),
            key,
            id,
            fingerprint: options.fingerprint,
            lease: options.lease.unwrap_or(engine.policy.lease),
            retention: options.retention.unwrap_or(engine.policy.retention),
            held,
            before,
            begun: Instant::now(),
            renewed: tokio::time::Instant::now(),
            state: State::Held,
        }
    }

    pub(super) fn token(&self) -> Token {
        Token::from_u64(match self.held {
            // Stores count in microseconds, memory in nanoseconds: so tokens grow when an engine
            // becomes shared or exclusive.
            Where::Store { token } => token.saturating_mul(1_000),
            Where::Here { token } => token,
            Where::Admitted | Where::Nowhere => 0,
        })
    }

    pub(super) fn is_verified(&self) -> bool {
        matches!(self.held, Where::Store { .. } | Where::Here { .. })
    }

    /// Returns the record that is stored beside the id for its successive holders.
    pub(super) fn side_record(&self) -> Option<SideRecord> {
        self.is_verified().then(|| SideRecord::new(&self.client, &self.policy, &self.key))
    }

    /// Completes the claim: with one try, or with tries for as long as one lease; see [`Patience`].
    pub(crate) fn complete(
        mut self,
        result: Option<Vec<u8>>,
        is_patient: bool,
    ) -> Answering<'static, Result<(), Box<Unfinished>>> {
        Box::pin(async move {
            self.work_is_done();
            let mut patience = is_patient.then(|| Patience::new(tokio::time::Instant::now(), self.lease));
            loop {
                let completed = self.try_to_complete(result.clone()).await;
                let random = || self.client.caller.random.next();
                let pause = patience.as_mut().and_then(|patience| self.pause(&completed, patience, random()));
                let Some(pause) = pause else { return self.completed(completed, result) };
                // Before the pause: a store that has come back in the meantime is told at once.
                if self.is_to_be_renewed() {
                    // Only the completion tells whether the claim was lost: one whose answer was
                    // lost has ended it.
                    let _ = self.renew(self.lease).await;
                }
                tokio::time::sleep(pause).await;
            }
        })
    }

    /// Sets the time for which the id is remembered when it is completed.
    #[cfg(feature = "json")]
    pub(super) fn remembered_for(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Notes that the work is done: from here on dropping the claim does not release the id.
    pub(super) fn work_is_done(&mut self) {
        if self.state == State::Held {
            self.state = State::Done;
        }
    }

    /// Returns the pause before its completion is tried again, if that may help.
    pub(super) fn pause(
        &self,
        completed: &Result<(), ClaimError>,
        patience: &mut Patience,
        random: u64,
    ) -> Option<Duration> {
        let Err(ClaimError::Store(error)) = completed else { return None };
        // A claim that is not verified has no lease that could be lost.
        let may_help = error.kind().is_transient()
            && self.is_verified()
            && !self.client.nodes.node(&self.key).batcher::<Completions>().is_closed();
        if may_help { patience.pause(tokio::time::Instant::now(), random) } else { None }
    }

    /// Returns true if the lease is to be renewed while its completion is tried.
    pub(super) fn is_to_be_renewed(&self) -> bool {
        matches!(self.held, Where::Store { .. }) && self.renewed.elapsed() >= self.lease / 3
    }

    /// Ends a claim that is completed, or returns it to the caller.
    pub(super) fn completed(
        mut self,
        completed: Result<(), ClaimError>,
        result: Option<Vec<u8>>,
    ) -> Result<(), Box<Unfinished>> {
        // An uncertain answer is counted when there are no further tries.
        if !matches!(completed, Err(ClaimError::Store(_))) {
            self.end(End::Completed, &completed);
        }
        completed.map_err(|error| Box::new(Unfinished { holder: self, result, error }))
    }

    /// Counts the end of the claim, once.
    fn end(&mut self, end: End, ended: &Result<(), ClaimError>) {
        if self.state != State::Ended {
            self.state = State::Ended;
            self.count(error::actual_end(end, ended));
        }
    }

    async fn try_to_complete(&self, result: Option<Vec<u8>>) -> Result<(), ClaimError> {
        match self.held {
            Where::Nowhere => Ok(()),
            Where::Store { .. } => {
                let (completion, id) = self.completion(result);
                self.held(self.client.ask_one::<Completions>(&self.policy.memory, completion, id).await)
            }
            Where::Here { token } => {
                // So that no other caller takes it over while the store writes.
                self.check_held(self.policy.memory.extend(self.id, token, self.lease, false))?;
                self.record(result).await?;
                self.check_held(self.policy.memory.complete(self.id, token))?;
                if !self.policy.memory.may_learn(self.retention) {
                    // The store forgets it earlier than the window would, and is asked until then.
                    self.policy.memory.forget(self.id);
                }
                Ok(())
            }
            Where::Admitted => {
                let recorded = self.record(result).await;
                // Also if the store is away still: the next copy that comes here is a duplicate.
                if !matches!(&recorded, Err(ClaimError::Store(error)) if !error.kind().is_transient()) {
                    self.learn();
                }
                recorded
            }
        }
    }

    /// Teaches memory that the id is done, except where the store forgets it earlier than the
    /// window would.
    fn learn(&self) {
        let memory = &self.policy.memory;
        if memory.may_learn(self.retention) {
            memory.learn(&[self.id]);
        } else if memory.has_history() {
            // Otherwise the history takes it for new, and the store is not asked.
            memory.warm(&[self.id]);
        }
    }

    fn count(&self, end: End) {
        // An id that is not the caller's is not counted.
        if !matches!(self.held, Where::Nowhere) {
            self.policy.verdicts.ended(end, self.begun.elapsed());
        }
    }

    /// Returns the request that completes it.
    pub(super) fn completion(&self, result: Option<Vec<u8>>) -> (Completion, Digest) {
        (Completion { hold: self.hold(), retention: self.retention, result }, self.id)
    }

    fn hold(&self) -> Hold {
        let token = match self.held {
            Where::Store { token } | Where::Here { token } => token,
            Where::Admitted | Where::Nowhere => 0,
        };
        Hold { key: self.key.clone(), token }
    }

    async fn record(&self, result: Option<Vec<u8>>) -> Result<(), ClaimError> {
        let (key, retention) = (self.key.clone(), self.retention);
        let record = Record { key, retention, fingerprint: self.fingerprint, result };
        self.client.ask_one::<Records>(&self.policy.memory, record, self.id).await.map_err(ClaimError::Store)
    }

    /// Ends the claim, whose work was not done: another caller gets the id at once, or in a while.
    pub(super) fn give_up(mut self, retry_after: Option<Duration>) -> Answering<'static, Result<(), ClaimError>> {
        Box::pin(async move {
            // Otherwise it is dropped, which releases it: a wrong option must not burn the id.
            times::check_or_none("retry_after", retry_after.unwrap_or_default()).map_err(ClaimError::Store)?;
            let state = std::mem::replace(&mut self.state, State::Ended);
            let (memory, id, hold) = (&self.policy.memory, self.id, self.hold());
            let ended = match (self.held, retry_after) {
                (Where::Admitted, _) => {
                    if state == State::Done {
                        // Nobody has verified it, and its work is to be done again.
                        memory.forget(id);
                    }
                    Ok(())
                }
                (Where::Nowhere, _) => Ok(()),
                (Where::Here { token }, None) => self.check_held(memory.release(id, token)),
                (Where::Here { token }, Some(time)) => self.check_held(memory.extend(id, token, time, true)),
                (Where::Store { .. }, None) => self.held(self.client.ask_one::<Releases>(memory, hold, id).await),
                (Where::Store { .. }, Some(retry_after)) => {
                    let failure = ClaimFailure { hold, retry_after };
                    self.held(self.client.ask_one::<Failures>(memory, failure, id).await)
                }
            };
            let end = if retry_after.is_some() { End::Failed } else { End::Released };
            self.count(error::actual_end(end, &ended));
            ended
        })
    }

    pub(super) fn renew(&mut self, lease: Duration) -> Answering<'_, Result<(), ClaimError>> {
        Box::pin(async move {
            times::check("lease", lease).map_err(ClaimError::Store)?;
            self.lease = lease;
            let asked_at = tokio::time::Instant::now();
            let renewed = match self.held {
                Where::Admitted | Where::Nowhere => {
                    self.renewed = asked_at;
                    return Ok(());
                }
                Where::Here { token } => {
                    let is_held = self.policy.memory.extend(self.id, token, lease, false);
                    Ok(if is_held { Held::Done } else { Held::Lost })
                }
                Where::Store { .. } => {
                    let (renewal, id) = self.renewal();
                    self.client.ask_one::<Renewals>(&self.policy.memory, renewal, id).await
                }
            };
            self.renewed(asked_at, renewed)
        })
    }

    /// Returns the request that renews it.
    pub(super) fn renewal(&self) -> (Renewal, Digest) {
        (Renewal { hold: self.hold(), lease: self.lease }, self.id)
    }

    /// Notes the answer to a renewal that was requested at `asked_at`.
    pub(super) fn renewed(
        &mut self,
        asked_at: tokio::time::Instant,
        renewed: Result<Held, StoreError>,
    ) -> Result<(), ClaimError> {
        let renewed = self.held(renewed);
        if renewed.is_ok() {
            self.renewed = asked_at;
        }
        self.policy.verdicts.renewed(error::renewal(&renewed));
        renewed
    }

    pub(super) fn held(&self, held: Result<Held, StoreError>) -> Result<(), ClaimError> {
        self.check_held(held.map_err(ClaimError::Store)? == crate::Held::Done)
    }

    fn check_held(&self, held: bool) -> Result<(), ClaimError> {
        if held { Ok(()) } else { Err(ClaimError::LostLease(LostLease::new(self.token()))) }
    }

    /// Returns true if the store holds it for this engine, which completes many claims of one
    /// policy at a time.
    pub(super) fn is_in_store_of(&self, client: &Arc<Client>, policy: &Arc<PolicyState>) -> bool {
        let is_theirs = Arc::ptr_eq(&self.client, client) && Arc::ptr_eq(&self.policy, policy);
        is_theirs && matches!(self.held, Where::Store { .. })
    }

    pub(super) fn lease(&self) -> Duration {
        self.lease
    }

    /// Returns the time for which its lease has run.
    pub(super) fn age(&self) -> Duration {
        self.renewed.elapsed()
    }

    /// Returns a number for a wait, which differs from those of others.
    pub(super) fn random(&self) -> u64 {
        self.client.caller.random.next()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        match self.state {
            State::Held => {}
            State::Done => return self.count(End::Unknown),
            State::Ended => return,
        }
        // If the lease had expired, it was lost; no caller waits for an answer that would say so.
        self.count(End::Dropped);
        match self.held {
            Where::Admitted | Where::Nowhere => {}
            Where::Here { token } => {
                // If it was lost, there is nothing to release.
                self.policy.memory.release(self.id, token);
            }
            Where::Store { .. } => {
                // As many as may wait. If it fails, or there are more, the lease expires.
                let Some(permit) = self.client.may_give_back(1) else { return };
                let (client, policy, id) = (Arc::clone(&self.client), Arc::clone(&self.policy), self.id);
                let hold = self.hold();
                let releasing = (!client.caller.answers_at_once).then(|| Releasing::begin(&client, id));
                self.client.runtime.spawn(async move {
                    let (_permit, _releasing) = (permit, releasing);
                    let _ = client.ask_one::<Releases>(&policy.memory, hold, id).await;
                });
            }
        }
    }
}
