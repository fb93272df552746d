//! A worker at work: claims runs for handlers that are free, and says what came of them.

use super::database::Listening;
use super::handling::{Handled, Session, Work};
use super::meters::Event;
use super::outage::Outage;
use super::pace::Pace;
use super::queue::{self, BEHIND, Claimer, Outcome, Portion};
use super::tables::Queue;
use crate::back_off::BackOff;
use crate::random;
use crate::store::{ErrorKind, StoreError};
use crate::sync::Ordering;
use futures_util::FutureExt as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

/// Payload that one claim returns, at most.
const BYTES_MAX: usize = 16 << 20;
/// Between two tries to settle what somebody has locked.
const LOCKED: BackOff = BackOff { first: Duration::from_millis(10), max: Duration::from_secs(1) };

/// An outcome that the server does not know yet.
struct Unsettled {
    outcome: Outcome,
    /// Then the lease is over, and somebody else has it.
    until: Instant,
}

pub(super) struct Dispatcher<H> {
    work: Arc<Work<H>>,
    consumer: String,
    /// Runs at a time.
    handlers: usize,
    claimer: Claimer,
    runs: JoinSet<Handled>,
    unsettled: Vec<Unsettled>,
    /// Tries in a row in which something was locked.
    locked: u32,
    settle_at: Instant,
    /// Why runs did not go on, unless that passes.
    error: Option<StoreError>,
    begun: usize,
}

impl<H: Send + Sync + 'static> Dispatcher<H> {
    pub(super) fn new(work: Work<H>, consumer: &str, handlers: usize) -> Self {
        let claimer = Claimer::new(&work.tables, Queue::Inbox, Some(consumer));
        Dispatcher {
            work: Arc::new(work),
            consumer: consumer.into(),
            handlers,
            claimer,
            runs: JoinSet::new(),
            unsettled: Vec::new(),
            locked: 0,
            settle_at: Instant::now(),
            error: None,
            begun: 0,
        }
    }

    /// Works until it is told to stop, and what is at hand is done and settled.
    pub(super) async fn run<S: Session<H>>(
        &mut self,
        mut outage: Outage,
        poll: Duration,
        stop: impl Future<Output = ()>,
    ) -> Result<(), StoreError> {
        let stop = stop.fuse();
        tokio::pin!(stop);
        let mut pace = Pace::new(poll, Instant::now());
        let (mut listening, mut resume_at) = (None, Instant::now());
        let nobody = Arc::<Notify>::default();
        let (work, consumer) = (Arc::clone(&self.work), self.consumer.clone());
        let watching = work.meters.watch(&work.database, &work.tables, Queue::Inbox, Some(&consumer));
        tokio::pin!(watching);
        loop {
            let now = Instant::now();
            let is_stopping = self.work.is_stopping.load(Ordering::Relaxed);
            if now >= resume_at {
                match self.turn::<S>(&mut listening, &mut pace).await {
                    Ok(()) => outage.end(),
                    Err(error) => resume_at = Instant::now() + outage.failed(error, Instant::now())?,
                }
                if let Some(error) = self.error.take() {
                    return Err(error);
                }
            }
            if is_stopping && self.runs.is_empty() && self.unsettled.is_empty() {
                return Ok(());
            }
            let woken = listening.as_ref().map_or(&nobody, |listening: &Listening| &listening.woken);
            let is_up = Instant::now() >= resume_at;
            let has_room = self.runs.len() < self.handlers;
            tokio::select! {
                biased;
                () = &mut stop, if !is_stopping => self.work.is_stopping.store(true, Ordering::Relaxed),
                Some(ended) = self.runs.join_next() => self.ended(ended),
                () = tokio::time::sleep_until(resume_at), if !is_up => {}
                () = tokio::time::sleep_until(self.settle_at), if is_up && !self.unsettled.is_empty() => {}
                () = pace.is_due(woken), if is_up && has_room && !is_stopping => {}
                never = &mut watching => match never {},
            }
        }
    }

    /// Says what came of runs, and claims new ones if it is time to look.
    async fn turn<S: Session<H>>(
        &mut self,
        listening: &mut Option<Listening>,
        pace: &mut Pace,
    ) -> Result<(), StoreError> {
        let Work { database, tables, .. } = &*self.work;
        if listening.is_none() {
            database.check(tables).await?;
            *listening = Some(database.listen(tables, Queue::Inbox).await?);
        }
        self.settle().await?;
        let is_stopping = self.work.is_stopping.load(Ordering::Relaxed);
        if is_stopping || self.runs.len() >= self.handlers || Instant::now() < pace.look_at() {
            return Ok(());
        }
        let found = self.claim::<S>().await?;
        let now = Instant::now();
        if found == 0 {
            pace.found_nothing(now, random::any());
        } else if let Some(lasts) = pace.found(now) {
            let Work { database, tables, .. } = &*self.work;
            queue::awake(database, tables, Queue::Inbox, Some(&self.consumer), lasts).await?;
            pace.said(now);
        }
        Ok(())
    }

    /// Claims as many runs as there are free handlers, and begins them. How many.
    async fn claim<S: Session<H>>(&mut self) -> Result<usize, StoreError> {
        let first = self.handlers.saturating_sub(self.runs.len());
        let portion = Portion { first, behind: BEHIND, bytes: BYTES_MAX, lease: self.work.leased() };
        let runs = self.claimer.claim(&self.work.database, &portion).await?;
        let found = runs.len();
        self.work.meters.happened(Event::Claimed, runs.iter().map(|run| run.messages.len()).sum());
        for run in runs {
            self.runs.spawn(Arc::clone(&self.work).run::<S>(run));
        }
        self.work.meters.in_flight(self.runs.len());
        Ok(found)
    }

    /// Takes along all that have ended meanwhile.
    fn ended(&mut self, ended: Result<Handled, JoinError>) {
        let mut next = Some(ended);
        while let Some(ended) = next {
            // A task that has panicked or was aborted with the runtime leaves its run to its lease.
            if let Ok(Handled { outcome, begun, error }) = ended {
                self.begun += begun;
                let until = Instant::now() + self.work.leased();
                self.unsettled.extend(outcome.map(|outcome| Unsettled { outcome, until }));
                let passes = |error: &StoreError| error.kind().is_transient() || error.kind() == ErrorKind::Conflict;
                self.error = self.error.take().or(error.filter(|error| !passes(error)));
                self.settle_at = Instant::now();
            }
            next = self.runs.try_join_next();
        }
        self.work.meters.in_flight(self.runs.len());
    }

    /// Says what came of runs. What somebody has locked is said again later, as long as it is ours.
    async fn settle(&mut self) -> Result<(), StoreError> {
        let now = Instant::now();
        self.unsettled.retain(|unsettled| unsettled.until > now);
        if self.unsettled.is_empty() || now < self.settle_at {
            return Ok(());
        }
        let outcomes: Vec<Outcome> = self.unsettled.iter().map(|unsettled| unsettled.outcome.clone()).collect();
        let Work { database, tables, .. } = &*self.work;
        let again = queue::settle(database, tables, Queue::Inbox, &outcomes).await?;
        let mut at = 0;
        self.unsettled.retain(|_| {
            at += 1;
            again.contains(&(at - 1))
        });
        self.locked = if self.unsettled.is_empty() { 0 } else { self.locked.saturating_add(1) };
        self.settle_at = Instant::now() + LOCKED.after(self.locked, random::any());
        Ok(())
    }

    /// Claims once, handles that, and settles it. How many messages were begun.
    pub(super) async fn step<S: Session<H>>(&mut self) -> Result<usize, StoreError> {
        self.claim::<S>().await?;
        while let Some(ended) = self.runs.join_next().await {
            self.ended(ended);
        }
        loop {
            self.settle().await?;
            match (self.unsettled.is_empty(), self.error.take()) {
                (true, None) => return Ok(self.begun),
                (true, Some(error)) => return Err(error),
                (false, error) => self.error = error,
            }
            tokio::time::sleep_until(self.settle_at).await;
        }
    }
}
