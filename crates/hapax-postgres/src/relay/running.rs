//! Runs a relay: claims, publications and settlements go on concurrently.

mod probing;

use super::Relay;
use super::publishing::{OpenRun, Publishing};
use crate::Publisher;
use crate::claims::claimer::Claimer;
use crate::claims::queue::{self, Outcome, Portion, Run};
use crate::claims::settlement::{self, Locked, Open};
use crate::database::Listening;
use crate::polling::outage::Outage;
use crate::polling::schedule::Pace;
use crate::schema::tables::Queue;
use crate::telemetry::meters::Event;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use hapax::seam::random;
use hapax_store::StoreError;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Messages of a key that are claimed after its first.
const BEHIND: usize = 31;
/// The part of a batch below which a claim or a settlement waits for more, but not for longer than
/// this.
const PART: usize = 8;
const GATHER: Duration = Duration::from_millis(2);
/// Publications of one task: a task for each would cost as much as the rest.
const A_TASK: usize = 32;
/// The longest wait for anything: a safety net for events that were missed.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// An answer of the server.
enum Said {
    /// A claim's runs, and the time until which they may be begun.
    Claimed(Box<Claimer>, Result<Vec<Run>, StoreError>, Instant),
    /// The topics that were to be probed, the runs that do so, and the time until which they may be
    /// begun.
    Probed(Vec<String>, Result<Vec<Run>, StoreError>, Instant),
    /// Outcomes, and of each whether it is locked, or the error for which all are still to be
    /// settled.
    Settled(Vec<Outcome>, Result<Vec<bool>, StoreError>),
    /// The answer to an announcement that a relay is awake.
    Awake(bool),
}

pub(super) struct Running<'r, P> {
    relay: &'r Relay,
    publishing: Arc<Publishing<P>>,
    calls: FuturesUnordered<BoxFuture<'static, Said>>,
    /// The claimer; none while it is claiming.
    claimer: Option<Box<Claimer>>,
    is_probing: bool,
    /// The topics that paused when we last looked.
    paused: usize,
    pace: Pace,
    claimed_at: Instant,
    claims: Outage,
    publications: JoinSet<()>,
    says: UnboundedSender<Vec<Outcome>>,
    said: UnboundedReceiver<Vec<Outcome>>,
    unsettled: Vec<Outcome>,
    open: Open,
    /// Outcomes that somebody's locks keep from being settled.
    locked: Locked,
    is_settling: bool,
    /// The time since which there is something to settle.
    unsettled_since: Instant,
    settlements: Outage,
    /// The earliest time of the next settlement.
    settle_at: Instant,
    claim_at: Instant,
    is_stopping: bool,
    /// The time at which it does not wait any more for locks to be released, once it stops.
    stop_at: Instant,
}

impl<'r, P: Publisher> Running<'r, P> {
    pub(super) fn new(relay: &'r Relay, publishing: Arc<Publishing<P>>) -> Self {
        let (now, (says, said)) = (Instant::now(), unbounded_channel());
        Running {
            relay,
            publishing,
            calls: FuturesUnordered::new(),
            claimer: Some(Box::new(Claimer::new(&relay.tables, Queue::Outbox, relay.topic.as_deref()))),
            is_probing: false,
            paused: 0,
            pace: Pace::new(relay.poll, now),
            claimed_at: now,
            claims: Outage::new(relay.longest_outage),
            publications: JoinSet::new(),
            says,
            said,
            unsettled: Vec::new(),
            open: Open::default(),
            locked: Locked::new(now),
            is_settling: false,
            unsettled_since: now,
            settlements: Outage::new(relay.longest_outage),
            settle_at: now,
            claim_at: now,
            is_stopping: false,
            stop_at: now,
        }
    }

    pub(super) async fn run(mut self, stop: impl Future<Output = ()>) -> Result<(), StoreError> {
        let stop = stop.fuse();
        tokio::pin!(stop);
        let listening = tokio::select! {
            biased;
            () = &mut stop => return Ok(()),
            listening = self.listen() => listening?,
        };
        let (meters, Relay { database, tables, topic, .. }) = (Arc::clone(&self.publishing.meters), self.relay);
        let watching = meters.watch(database, tables, Queue::Outbox, topic.as_deref());
        tokio::pin!(watching);
        loop {
            let again_at = self.ask();
            if self.is_stopping && self.is_over() {
                return Ok(());
            }
            let may_claim = self.portion(Instant::now()).is_ok();
            tokio::select! {
                biased;
                () = &mut stop, if !self.is_stopping => self.stop(),
                Some(said) = self.calls.next() => self.heard(said)?,
                Some(ended) = self.said.recv() => self.ended(ended),
                Some(_) = self.publications.join_next() => {}
                () = self.pace.is_due(&listening.woken), if may_claim => {}
                () = tokio::time::sleep_until(again_at) => {}
                never = &mut watching => match never {},
            }
        }
    }

    /// Checks the tables' version, and listens.
    async fn listen(&mut self) -> Result<Listening, StoreError> {
        loop {
            let database = &self.relay.database;
            let listening = async {
                database.check(&self.relay.tables).await?;
                database.listen(&self.relay.tables, Queue::Outbox).await
            };
            match listening.await {
                Ok(listening) => {
                    self.claims.end();
                    return Ok(listening);
                }
                Err(error) => tokio::time::sleep(self.claims.failed(error, Instant::now())?).await,
            }
        }
    }

    fn stop(&mut self) {
        self.is_stopping = true;
        self.stop_at = Instant::now() + self.relay.window();
        self.publishing.stop();
    }

    fn is_over(&self) -> bool {
        self.unsettled.is_empty()
            && (self.locked.is_empty() || Instant::now() >= self.stop_at)
            && !self.is_settling
            && self.has_published()
            && self.claimer.is_some()
            && !self.is_probing
    }

    /// Returns true if no publication is in flight, nor its outcome on the way.
    fn has_published(&self) -> bool {
        self.publications.is_empty() && self.said.is_empty()
    }

    /// Makes the calls of the server that are due. Returns when to look again, whatever happens
    /// until then.
    fn ask(&mut self) -> Instant {
        let now = Instant::now();
        let settle_at = self.settle_when(now);
        if settle_at.is_some_and(|at| at <= now) {
            self.settle();
        }
        let portion = self.portion(now);
        if let Ok(portion) = portion
            && self.pace.look_at() <= now
        {
            self.claim(portion, now);
        }
        let probe_at = self.probe_when();
        if probe_at.is_some_and(|at| at <= now) {
            self.probe(now);
        }
        let times = [settle_at, portion.err().flatten(), self.probe_when()].map(|at| at.filter(|at| *at > now));
        times.into_iter().flatten().min().unwrap_or(now + LONGEST_WAIT)
    }

    /// Returns the portion that may be claimed now; or the time to look again, if it does not wait
    /// for an answer.
    fn portion(&self, now: Instant) -> Result<Portion, Option<Instant>> {
        if self.is_stopping || self.claimer.is_none() {
            return Err(None);
        }
        if self.claim_at > now {
            return Err(Some(self.claim_at));
        }
        let Relay { batch, bytes, ref topic, .. } = *self.relay;
        let batch = batch * self.publishing.batches();
        if topic.as_deref().is_some_and(|topic| self.publishing.breakers().is_paused(topic)) {
            return Err(None);
        }
        let (runs, bytes_in_flight) = self.publishing.in_flight();
        // Outcomes take little memory, but they should not pile up.
        let room = batch.saturating_sub(runs).min((4 * batch).saturating_sub(self.unsettled.len()));
        let room_bytes = bytes.saturating_sub(bytes_in_flight);
        if room == 0 || room_bytes == 0 {
            return Err(None);
        }
        let is_little = runs > 0 && (room < batch.div_ceil(PART) || room_bytes < bytes.div_ceil(PART));
        if is_little && now < self.claimed_at + GATHER {
            return Err(Some(self.claimed_at + GATHER));
        }
        // The other half is claimed while these are being published.
        let first = room.min(batch.div_ceil(2));
        Ok(Portion { first, behind: BEHIND, bytes: room_bytes, lease: self.relay.lease() })
    }

    fn claim(&mut self, portion: Portion, now: Instant) {
        let Some(mut claimer) = self.claimer.take() else { return };
        // The time is taken before the server reads its clock, so that by our clock the lease is
        // never over later than by the server's.
        let begin_until = now + self.relay.window();
        let (database, publishing) = (self.relay.database.clone(), Arc::clone(&self.publishing));
        let claim = async move {
            let is_paused = |topic: &str| publishing.breakers().is_paused(topic);
            let runs = claimer.claim(&database, &portion, is_paused).await;
            Said::Claimed(claimer, runs, begin_until)
        };
        self.calls.push(claim.boxed());
    }

    /// Returns the time to settle the publications that have ended, if there are any.
    fn settle_when(&self, now: Instant) -> Option<Instant> {
        if self.is_settling {
            return None;
        }
        let is_enough = self.has_published() || self.unsettled.len() >= self.relay.batch.div_ceil(PART);
        let at = if is_enough { now } else { self.unsettled_since + GATHER };
        let at = (!self.unsettled.is_empty()).then_some(at);
        let at = at.into_iter().chain(self.locked.again_at()).min()?;
        Some(at.max(self.settle_at))
    }

    fn settle(&mut self) {
        self.is_settling = true;
        let mut outcomes = std::mem::take(&mut self.unsettled);
        outcomes.extend(self.locked.due(Instant::now()).into_iter().map(|(outcome, _)| outcome));
        let (database, tables, lease) = (self.relay.database.clone(), self.relay.tables.clone(), self.relay.lease());
        let over = self.open.over(&outcomes);
        let settle = async move {
            let locked = settlement::settle(&database, &tables, Queue::Outbox, lease, &outcomes, over).await;
            Said::Settled(outcomes, locked)
        };
        self.calls.push(settle.boxed());
    }

    /// Announces that a relay is awake.
    fn awake(&mut self, lasts: Duration) {
        let Relay { database, tables, topic, .. } = self.relay.clone();
        let awake = async move {
            let said = queue::awake(&database, &tables, Queue::Outbox, topic.as_deref(), lasts).await;
            Said::Awake(said.is_ok())
        };
        self.calls.push(awake.boxed());
    }

    fn heard(&mut self, said: Said) -> Result<(), StoreError> {
        let now = Instant::now();
        match said {
            Said::Claimed(claimer, runs, begin_until) => {
                (self.claimer, self.claimed_at) = (Some(claimer), now);
                match runs {
                    Ok(runs) => self.found(runs, begin_until, now),
                    Err(error) => self.claim_at = now + self.claims.failed(error, now)?,
                }
            }
            Said::Probed(topics, runs, begin_until) => {
                self.is_probing = false;
                self.probed(&topics, runs, begin_until, now)?;
            }
            Said::Settled(outcomes, locked) => {
                self.is_settling = false;
                match locked {
                    Ok(locked) => {
                        self.settlements.end();
                        self.settle_at = now;
                        self.open.settled(&outcomes, &locked);
                        let left = outcomes.into_iter().zip(locked).filter(|(_, is_locked)| *is_locked);
                        self.locked.keep(left.map(|(outcome, _)| (outcome, None)), now);
                    }
                    Err(error) => {
                        self.keep(outcomes, now);
                        self.settle_at = now + self.settlements.failed(error, now)?;
                    }
                }
            }
            Said::Awake(is_said) => {
                if is_said {
                    self.pace.said(now);
                }
            }
        }
        Ok(())
    }

    /// Begins to publish the claimed messages.
    fn found(&mut self, runs: Vec<Run>, begin_until: Instant, now: Instant) {
        self.claims.end();
        if runs.is_empty() {
            return self.pace.found_nothing(now, random::any());
        }
        if let Some(lasts) = self.pace.found(now) {
            self.awake(lasts);
        }
        self.begin(runs, false, begin_until);
    }

    fn begin(&mut self, runs: Vec<Run>, is_probe: bool, begin_until: Instant) {
        self.publishing.meters.happened(Event::Claimed, runs.iter().flat_map(Run::kinds));
        self.open.claimed(&runs);
        let open = |run| self.publishing.open(run, is_probe, begin_until);
        let runs: Vec<OpenRun> = runs.into_iter().map(open).collect();
        let (is_batching, mut runs) = (self.publishing.is_batching(), runs.into_iter());
        let a_task = if is_batching { runs.len() } else { A_TASK };
        while !runs.as_slice().is_empty() {
            let some = runs.by_ref().take(a_task).collect();
            let (publishing, says) = (Arc::clone(&self.publishing), self.says.clone());
            self.publications.spawn(async move {
                let singly = if is_batching {
                    publishing.together(some).await.map(|outcomes| says.send(outcomes)).err()
                } else {
                    Some(some)
                };
                let each = singly.into_iter().flatten().map(|run| publishing.singly(run));
                let mut each = each.collect::<FuturesUnordered<_>>().ready_chunks(A_TASK);
                while let Some(outcomes) = each.next().await {
                    // Nobody hears it when the relay is dropped, which ends this task, too.
                    let _ = says.send(outcomes);
                }
            });
        }
        self.publishing.meters.recorder.in_flight(self.publishing.in_flight().0);
    }

    /// Collects all publications that have ended meanwhile.
    fn ended(&mut self, mut outcomes: Vec<Outcome>) {
        let now = Instant::now();
        while let Ok(more) = self.said.try_recv() {
            outcomes.extend(more);
        }
        while self.publications.try_join_next().is_some() {}
        self.keep(outcomes, now);
        let paused = std::mem::replace(&mut self.paused, self.publishing.breakers().paused());
        if self.paused < paused {
            // A topic goes on.
            self.pace.woken(now);
        }
        self.publishing.meters.recorder.in_flight(self.publishing.in_flight().0);
    }

    fn keep(&mut self, outcomes: Vec<Outcome>, now: Instant) {
        if self.unsettled.is_empty() {
            self.unsettled_since = now;
        }
        self.unsettled.extend(outcomes);
    }
}
