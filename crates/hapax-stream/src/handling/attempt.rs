//! Attempts at messages: counted, made together, and their results.

use super::counting::Counting;
use super::delivery::Delivery;
use super::handler::{FailureKind, Handle, call, failure_of};
use super::takeover::{Effect, OnTakeover, Probe};
use crate::telemetry::counts::Counts;
use crate::telemetry::event::Event;
use crate::telemetry::health::Standing;
use crate::telemetry::meters::KindMeters;
use hapax::Token;
use hapax::seam::random::mix;
use hapax_store::attempt_count::{AttemptCount, Sent};
use hapax_store::back_off::BackOff;
use hapax_store::{Before, SideRecord, StoreError, StoredId, join_all};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit};

/// The parameters of handling that all messages of a run share.
pub(crate) struct Terms<M> {
    pub(crate) handle: Handle<M>,
    pub(crate) on_takeover: OnTakeover<M>,
    pub(crate) max_attempts: u32,
    /// The handler's time-out.
    pub(crate) timeout: Duration,
    pub(crate) back_off: BackOff,
    pub(crate) store_back_off: BackOff,
    /// A permit for one: an attempt that may be the one that has killed its process is the only
    /// last attempt under way.
    pub(crate) alone: Semaphore,
    pub(crate) counts: Arc<Counts>,
    pub(crate) standing: Arc<Standing>,
}

/// A message, and the progress of the attempt at it.
pub(crate) struct Task<M> {
    pub(crate) message: Arc<M>,
    /// The id, or another name of the message, if it has none.
    pub(crate) id: StoredId,
    pub(crate) sent: Sent,
    pub(crate) token: Token,
    /// The first claim of the id that is in doubt.
    pub(crate) before: Option<Before>,
    pub(crate) counting: Counting,
    /// This message's number for waits, which differ from those of others.
    pub(crate) random: u64,
    /// The metrics of the message's kind, if it is told apart.
    pub(crate) kind: Option<Arc<KindMeters>>,
    pub(crate) progress: Progress,
}

/// The progress of an attempt, which is known even if it was interrupted.
#[derive(Default)]
pub(crate) struct Progress {
    /// The number of the attempt, once it may be made.
    attempt: Option<u32>,
    /// The count of attempts that the store has, or perhaps has, since this attempt began.
    begun: Option<AttemptCount>,
    /// True if it may have killed its process, and must not be handled together with others.
    is_alone: bool,
    worked: Option<Worked>,
}

/// The end that an attempt came to by itself.
pub(crate) enum Worked {
    Handled,
    Failed(Box<Failure>),
    Overdue(AttemptCount),
    Uncounted(StoreError),
}

pub(crate) struct Failure {
    pub(crate) why: String,
    pub(crate) how: FailureKind,
    pub(crate) attempt: u32,
    pub(crate) is_last: bool,
    /// True if it was an attempt.
    pub(crate) counts: bool,
    /// True if the message was put aside before.
    pub(crate) again: bool,
    pub(crate) count: AttemptCount,
}

/// The time that a handler takes, which is recorded when it ends or is dropped.
struct Timed<'t> {
    counts: &'t Counts,
    kinds: Vec<Option<Arc<KindMeters>>>,
    since: Instant,
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        let took = self.since.elapsed();
        self.kinds.iter().for_each(|kind| self.counts.of(kind.as_deref()).handled(took));
    }
}

/// Handles messages together. Returns the reason if several of them have failed, and it is unknown
/// which are to blame: nothing has become of these.
pub(crate) async fn work<M>(terms: &Terms<M>, mut tasks: Vec<&mut Task<M>>) -> Option<String> {
    let is_one = tasks.len() == 1;
    join_all(tasks.iter_mut().map(|task| task.ask(terms))).await;
    tasks.retain(|task| !task.has_worked());
    let _alone = join_all(tasks.iter_mut().map(|task| task.begin(terms, is_one))).await;
    tasks.retain(|task| task.progress.attempt.is_some());
    if tasks.is_empty() {
        return None;
    }
    let kinds = tasks.iter().map(|task| task.kind.clone()).collect();
    let timed = Timed { counts: &terms.counts, kinds, since: Instant::now() };
    let deliveries = tasks.iter().map(|task| task.delivery(terms)).collect();
    let handled = terms.handle.call(deliveries, terms.timeout).await;
    drop(timed);
    match handled {
        Ok(failures) => {
            if failures.len() < tasks.len() {
                terms.standing.outage().succeeded();
            }
            tasks.iter_mut().for_each(|task| task.progress.worked = Some(Worked::Handled));
            for (at, unhandled) in failures {
                let (why, how) = failure_of(unhandled);
                tasks[at].fails(why, how, terms);
            }
        }
        Err((why, how)) => {
            let is_about_all = match how {
                FailureKind::Later(_) => true,
                FailureKind::GaveUp => false,
                _ => terms.standing.outage().since().is_some(),
            };
            if tasks.len() > 1 && !is_about_all {
                return Some(why);
            }
            tasks.iter_mut().for_each(|task| task.fails(why.clone(), how, terms));
        }
    }
    join_all(tasks.into_iter().map(|task| task.count_failure(terms))).await;
    None
}

impl<M> Task<M> {
    /// Returns true if its attempt came to an end by itself.
    pub(crate) fn has_worked(&self) -> bool {
        self.progress.worked.is_some()
    }

    /// Takes the end that its attempt came to.
    pub(crate) fn worked(&mut self) -> Option<Worked> {
        self.progress.worked.take()
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.progress.is_alone
    }

    fn delivery(&self, terms: &Terms<M>) -> Delivery<M> {
        let attempt = self.attempt();
        let (message, token, before) = (Arc::clone(&self.message), self.token, self.before.clone());
        Delivery { message, token, before, attempt, is_last: attempt >= terms.max_attempts }
    }

    /// Returns the number of the attempt.
    fn attempt(&self) -> u32 {
        self.progress.attempt.unwrap_or(1)
    }

    /// Decides what becomes of a message of which an earlier claim is in doubt, before its attempt
    /// begins.
    async fn ask(&mut self, terms: &Terms<M>) {
        if self.before.is_none() || self.progress.attempt.is_some() {
            return;
        }
        let (why, how) = match &terms.on_takeover {
            OnTakeover::Run => return,
            OnTakeover::Leave => {
                ("an earlier claim of it is in doubt: its effect may be there".into(), FailureKind::GaveUp)
            }
            OnTakeover::Ask(Probe(ask)) => match call(ask, self.delivery(terms), terms.timeout).await {
                Ok(Effect::Missing) => return,
                Ok(Effect::There) => return self.progress.worked = Some(Worked::Handled),
                Ok(Effect::Unknown) => {
                    ("the probe cannot tell whether its effect is there".into(), FailureKind::Later(None))
                }
                Err((why, _)) => (format!("the probe for its effect: {why}"), FailureKind::Later(None)),
            },
        };
        self.fails(why, how, terms);
        self.count_failure(terms).await;
    }

    /// Begins an attempt, once its number is known, and the store knows that it has begun. It does
    /// not begin if no further one may, or if it must not be made beside others. Returns the permit
    /// with which it is made.
    async fn begin<'t>(&mut self, terms: &'t Terms<M>, is_one: bool) -> Option<SemaphorePermit<'t>> {
        if self.progress.attempt.is_some() {
            return None;
        }
        match self.begin_counted(terms, is_one).await {
            Ok((attempt, alone)) => {
                self.progress.attempt = Some(attempt);
                alone
            }
            Err(unbegun) => {
                self.progress.worked = unbegun;
                None
            }
        }
    }

    async fn begin_counted<'t>(
        &mut self,
        terms: &'t Terms<M>,
        is_one: bool,
    ) -> Result<(u32, Option<SemaphorePermit<'t>>), Option<Worked>> {
        let note = match &self.counting {
            Counting::Here(failures, _) => return Ok((failures.saturating_add(1), None)),
            Counting::WhenFailed(_) => return Ok((1, None)),
            Counting::Before(note) => note,
        };
        let uncounted = |error| Some(Worked::Uncounted(error));
        let tally = self.read(terms, note).await.map_err(uncounted)?.of(self.sent);
        if tally.is_put_aside(self.sent) || tally.began >= terms.max_attempts {
            return Err(Some(Worked::Overdue(tally)));
        }
        // Of the messages that were in progress when a process died, one may have killed it, and
        // would take the others with it: they must not all be convicted.
        self.progress.is_alone = tally.is_suspect() && !is_one;
        if self.progress.is_alone {
            return Err(None);
        }
        let begun = tally.with_one_begun();
        let is_tried = tally.is_suspect() && begun.began >= terms.max_attempts;
        let alone = if is_tried { terms.alone.acquire().await.ok() } else { None };
        self.progress.begun = Some(begun);
        self.write(terms, note, begun).await.map_err(uncounted)?;
        Ok((begun.began, alone))
    }

    /// Notes that the attempt has failed.
    fn fails(&mut self, why: String, how: FailureKind, terms: &Terms<M>) {
        let (attempt, count) = (self.attempt(), self.progress.begun.unwrap_or_default());
        let counts = how.is_attempt(&terms.standing, self.id, self.random);
        let is_last = counts && (attempt >= terms.max_attempts || how == FailureKind::GaveUp);
        let failure = Failure { why, how, attempt, is_last, counts, again: false, count };
        self.progress.worked = Some(Worked::Failed(Box::new(failure)));
    }

    /// Counts the failure, if it has failed; if that was no attempt, takes it back.
    async fn count_failure(&mut self, terms: &Terms<M>) {
        match &self.progress.worked {
            Some(Worked::Failed(failure)) if failure.counts => {}
            Some(Worked::Failed(_)) => return self.take_back(terms).await,
            _ => return,
        }
        let (count, again) = self.count_failed(terms).await;
        if let Some(Worked::Failed(failure)) = &mut self.progress.worked {
            (failure.count, failure.again) = (count, again);
            failure.is_last |= again || count.began >= terms.max_attempts;
        }
    }

    /// Counts a failure, in the store if that is done there. Returns the count, and true if the
    /// message was put aside before.
    async fn count_failed(&self, terms: &Terms<M>) -> (AttemptCount, bool) {
        let known = AttemptCount::failures(self.attempt());
        match (&self.counting, self.progress.begun) {
            (Counting::WhenFailed(note), _) => {
                // Copies of the message may have been tried, which the broker counts apart.
                let Ok(tally) = self.read(terms, note).await else { return (known, false) };
                let failed = tally.of(self.sent).with_one_begun().with_one_failed();
                // If the store cannot be told, there is one attempt more.
                let _ = self.write(terms, note, failed).await;
                (failed, false)
            }
            (Counting::Before(note), Some(begun)) => {
                // It is counted already; this only notes that it has not killed its process.
                let failed = begun.with_one_failed();
                let _ = note.write(failed.encode(), at_least(terms)).await;
                (failed, false)
            }
            // The first failure here may be of what was put aside.
            (Counting::Here(0, Some(note)), _) => {
                let again = self.read(terms, note).await.is_ok_and(|kept| kept.is_put_aside(self.sent));
                (known, again)
            }
            _ => (known, false),
        }
    }

    /// Takes back the count of an attempt that was stopped, if the store can be told.
    pub(crate) async fn take_back(&self, terms: &Terms<M>) {
        if let (Counting::Before(note), Some(begun)) = (&self.counting, self.progress.begun) {
            let _ = note.write(begun.with_one_taken_back().encode(), at_least(terms)).await;
        }
    }

    async fn read(&self, terms: &Terms<M>, note: &SideRecord) -> Result<AttemptCount, StoreError> {
        self.patiently(terms, move || note.read()).await.map(AttemptCount::decode)
    }

    async fn write(&self, terms: &Terms<M>, note: &SideRecord, tally: AttemptCount) -> Result<(), StoreError> {
        self.patiently(terms, move || note.write(tally.encode(), at_least(terms))).await
    }

    /// Asks the store until it answers: the claim is renewed meanwhile, and a stop or its loss ends
    /// the wait.
    async fn patiently<T, F>(&self, terms: &Terms<M>, ask: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        for failures in 1.. {
            match ask().await {
                Err(error) if error.kind().is_transient() => {
                    terms.counts.add_of(self.kind.as_deref(), Event::StoreError, 1);
                    let wait = terms.store_back_off.after(failures, mix(self.random ^ u64::from(failures)));
                    tokio::time::sleep(wait).await;
                }
                answer => return answer,
            }
        }
        unreachable!("there is always one more")
    }
}

/// Returns the least time that a count is kept: until the attempt after the next one that this
/// consumer itself delays.
fn at_least<M>(terms: &Terms<M>) -> Duration {
    terms.back_off.max.saturating_mul(2)
}
