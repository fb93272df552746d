//! Runs a worker: claims runs for handlers that are free, and settles them.

use super::case::Session;
use super::handling::Handled;
use super::work::Work;
use crate::claims::claimer::Claimer;
use crate::claims::queue::{self, BEHIND, Outcome, Portion, Run};
use crate::claims::settlement::{self, Locked, Open};
use crate::database::Listening;
use crate::polling::outage::Outage;
use crate::polling::schedule::Pace;
use crate::schema::tables::Queue;
use crate::telemetry::meters::Event;
use futures_util::FutureExt as _;
use hapax::seam::random;
use hapax_store::sync::Ordering;
use hapax_store::{ErrorKind, StoreError};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The largest payload that one claim returns.
const BYTES_MAX: usize = 16 << 20;
/// The time for which an outcome waits for others.
const TOGETHER: Duration = Duration::from_millis(5);

/// The task that claims runs and settles them.
pub(super) struct Dispatcher<H> {
    work: Arc<Work<H>>,
    consumer: String,
    /// The largest number of handlers at a time.
    concurrency: usize,
    claimer: Claimer,
    /// The handlers that are at work, and what they report.
    handlers: JoinSet<()>,
    says: UnboundedSender<Handled>,
    said: UnboundedReceiver<Handled>,
    /// Outcomes that the server does not know yet, and when their leases are over: then somebody
    /// else has the message.
    unsettled: Vec<(Outcome, Option<Instant>)>,
    open: Open,
    /// Outcomes that somebody's locks keep from being settled.
    locked: Locked,
    settle_at: Instant,
    /// The error for which runs did not go on, unless that passes.
    error: Option<StoreError>,
    begun: usize,
}

impl<H: Send + Sync + 'static> Dispatcher<H> {
    pub(super) fn new(work: Work<H>, consumer: &str, concurrency: usize) -> Self {
        let (says, said) = unbounded_channel();
        let claimer = Claimer::new(&work.tables, Queue::Inbox, Some(consumer));
        Dispatcher {
            work: Arc::new(work),
            consumer: consumer.into(),
            concurrency,
            claimer,
            handlers: JoinSet::new(),
            says,
            said,
            unsettled: Vec::new(),
            open: Open::default(),
            locked: Locked::new(Instant::now()),
            settle_at: Instant::now(),
            error: None,
            begun: 0,
        }
    }

    /// Works until it is told to stop, and the messages at hand are done and settled.
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
            self.begin::<S>();
            let is_idle = self.handlers.is_empty() && self.said.is_empty() && self.work.waiting.len() == 0;
            if is_stopping && is_idle && self.settle_when().is_none() {
                return Ok(());
            }
            let woken = listening.as_ref().map_or(&nobody, |listening: &Listening| &listening.woken);
            let is_up = Instant::now() >= resume_at;
            let has_room = self.room() > 0;
            let (late_at, settle_at) = (self.work.waiting.until(Instant::now()), self.settle_when());
            tokio::select! {
                biased;
                () = &mut stop, if !is_stopping => self.work.is_stopping.store(true, Ordering::Relaxed),
                Some(handled) = self.said.recv() => self.handled(handled),
                Some(_) = self.handlers.join_next() => {}
                () = tokio::time::sleep_until(resume_at), if !is_up => {}
                () = tokio::time::sleep_until(settle_at.unwrap_or(now)), if is_up && settle_at.is_some() => {}
                () = tokio::time::sleep_until(late_at.unwrap_or(now)), if late_at.is_some() => {}
                () = pace.is_due(woken), if is_up && has_room && !is_stopping => {}
                never = &mut watching => match never {},
            }
            self.give_back();
        }
    }

    /// Returns the number of handlers that there are connections for.
    fn concurrency(&self) -> usize {
        self.concurrency.min(self.work.database.connections_max().saturating_sub(1)).max(1)
    }

    /// Returns the number of runs to claim now: as many as handlers are free, and where they are
    /// quick, half of what they may have waiting or more.
    fn room(&self) -> usize {
        let waiting = &self.work.waiting;
        let (of_each, size) = (waiting.of_each(), waiting.size());
        let most = self.concurrency() * of_each * size;
        let free = most.saturating_sub(self.handlers.len() * size + waiting.len());
        if of_each == 1 || 2 * free >= most { free } else { 0 }
    }

    /// Lets free handlers begin the runs that wait, unless these wait for others.
    fn begin<S: Session<H>>(&mut self) {
        while self.handlers.try_join_next().is_some() {}
        let free = self.concurrency().saturating_sub(self.handlers.len());
        for _ in 0..free.min(self.work.waiting.batches()) {
            self.handlers.spawn(Arc::clone(&self.work).work_off::<S>(self.says.clone()));
        }
        self.work.meters.recorder.in_flight(self.handlers.len());
    }

    /// Gives back runs that wait behind something slow; or all of them, if the worker is to stop.
    fn give_back(&mut self) {
        let all = self.work.is_stopping.load(Ordering::Relaxed);
        for run in self.work.waiting.give_back(Instant::now(), all) {
            self.work.meters.happened(Event::Released, run.kinds());
            self.handled(Handled { outcome: run.outcome(), begun: 0, error: None });
        }
    }

    /// Settles runs, and claims new ones if it is time to look.
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
        let room = self.room();
        if is_stopping || room == 0 || Instant::now() < pace.look_at() {
            return Ok(());
        }
        let found = self.claim(room).await?;
        self.begin::<S>();
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

    /// Claims at most this many runs. Returns how many it has claimed.
    async fn claim(&mut self, first: usize) -> Result<usize, StoreError> {
        let portion = Portion { first, behind: BEHIND, bytes: BYTES_MAX, lease: self.work.leased() };
        let runs = self.claimer.claim(&self.work.database, &portion, |_| false).await?;
        let found = runs.len();
        self.work.meters.happened(Event::Claimed, runs.iter().flat_map(Run::kinds));
        self.open.claimed(&runs);
        self.work.waiting.push(runs);
        Ok(found)
    }

    /// Records a report, and collects the others that came meanwhile.
    fn handled(&mut self, handled: Handled) {
        let mut next = Some(handled);
        while let Some(Handled { outcome, begun, error }) = next {
            self.begun += begun;
            let until = Instant::now() + self.work.leased();
            // With more runs at hand, it is settled together with the next ones.
            match self.work.waiting.len() {
                0 => self.settle_at = Instant::now(),
                _ if self.unsettled.is_empty() => self.settle_at = Instant::now() + TOGETHER,
                _ => {}
            }
            self.unsettled.push((outcome, Some(until)));
            let passes = |error: &StoreError| error.kind().is_transient() || error.kind() == ErrorKind::Conflict;
            self.error = self.error.take().or(error.filter(|error| !passes(error)));
            next = self.said.try_recv().ok();
        }
    }

    /// Returns the time to settle what has ended, if there is anything.
    fn settle_when(&self) -> Option<Instant> {
        let unsettled = (!self.unsettled.is_empty()).then_some(self.settle_at);
        unsettled.into_iter().chain(self.locked.again_at()).min()
    }

    /// Settles runs. An outcome whose message somebody has locked is sent again later, as long as
    /// its lease is ours.
    async fn settle(&mut self) -> Result<(), StoreError> {
        let now = Instant::now();
        self.unsettled.retain(|(_, until)| until.is_none_or(|until| until > now));
        if self.settle_when().is_none_or(|at| at > now) {
            return Ok(());
        }
        // After an error all of them are settled together.
        self.unsettled.extend(self.locked.due(now));
        let outcomes: Vec<Outcome> = self.unsettled.iter().map(|(outcome, _)| outcome.clone()).collect();
        let Work { database, tables, .. } = &*self.work;
        let over = self.open.over(&outcomes);
        let locked = settlement::settle(database, tables, Queue::Inbox, self.work.leased(), &outcomes, over).await?;
        self.open.settled(&outcomes, &locked);
        let left = std::mem::take(&mut self.unsettled).into_iter().zip(locked).filter(|(_, is_locked)| *is_locked);
        self.locked.keep(left.map(|(unsettled, _)| unsettled), Instant::now());
        Ok(())
    }

    /// Claims once, handles the runs, and settles them. Returns how many messages were begun.
    pub(super) async fn step<S: Session<H>>(&mut self) -> Result<usize, StoreError> {
        self.claim(self.concurrency * self.work.waiting.size()).await?;
        self.begin::<S>();
        // A handler's panic is caught, so a task reports all it has done through the channel.
        while self.handlers.join_next().await.is_some() {}
        while let Ok(handled) = self.said.try_recv() {
            self.handled(handled);
        }
        loop {
            self.settle().await?;
            let Some(again_at) = self.settle_when() else {
                return self.error.take().map_or(Ok(self.begun), Err);
            };
            tokio::time::sleep_until(again_at).await;
        }
    }
}
