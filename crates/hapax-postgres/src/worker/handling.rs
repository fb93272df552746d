//! One run of messages, by one handler, on a connection of its own.
//!
//! Each message takes one transaction, which locks the message, has the handler's effect, and
//! removes the message. Where some of the claim's lease has passed, or a claim of the message was
//! lost, one of ours comes before it, which renews the lease, and counts the attempt.
//!
//! Our limits come before the server's, which are a safety net: a server that ends a transaction
//! takes the connection with it, and the error of the attempt.

use super::waiting::Waiting;
use crate::claims::attempt::{Cause, Failed};
use crate::claims::queue::{Claimed, Fate, Outcome, Run, Tried, Unfit, micros};
use crate::claims::retry::Retry;
use crate::database::{Database, NET};
use crate::schema::statements;
use crate::schema::tables::Tables;
use crate::telemetry::meters::{Event, Meters};
use crate::telemetry::spans;
use crate::transaction::{Row, Value};
use crate::worker::kept_records::Keep;
use crate::{BoxError, Message};
use hapax_store::StoreError;
use hapax_store::sync::{Ordering, StdAtomicBool};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

/// The time by which a run is put off that could not be begun.
const PUT_OFF: Duration = Duration::from_millis(500);

/// The parts that all runs of a worker have in common.
pub(super) struct Work<H> {
    pub database: Database,
    pub tables: Tables,
    pub retry: Retry,
    /// The time that a handler may take.
    pub lease: Duration,
    pub keep: Keep,
    pub processor: Option<String>,
    pub handler: Arc<H>,
    pub meters: Meters,
    /// True once the messages that were claimed and not begun are to be given back.
    pub is_stopping: StdAtomicBool,
    pub waiting: Waiting,
}

/// The end of a run.
pub(super) struct Handled {
    pub outcome: Outcome,
    /// Messages that were begun.
    pub begun: usize,
    /// The error for which the run did not go on, if no message is at fault.
    pub error: Option<StoreError>,
}

/// The name of a transaction that runs: the server's process, and when the transaction began.
pub(super) struct Running {
    pid: i32,
    began: String,
}

impl Running {
    /// Reads what `inbox_hold` has returned.
    pub(super) fn of(row: &Row) -> Result<Self, StoreError> {
        Ok(Running { pid: row.get("pid")?, began: row.get("began")? })
    }
}

/// A connection for transactions of handlers of this kind. Dropping it closes it.
pub(super) trait Session<H>: Send + Sized + 'static {
    fn connect(database: &Database) -> impl Future<Output = Result<Self, StoreError>> + Send;

    /// Begins an attempt, and handles the message in a transaction of its own. The lock on the
    /// message shows whether the attempt was begun: the message has the number of this attempt
    /// then.
    fn handle(&mut self, case: &Case<'_, H>) -> impl Future<Output = Ended> + Send;

    /// Returns the transaction in which a handler was interrupted.
    fn interrupted(&self) -> Option<&Running>;

    /// Rolls back a transaction in which a handler was interrupted.
    fn roll_back(&mut self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Gives the connection back. Nothing is open on it: it may be a shared one.
    fn finish(self);
}

/// A message, and the statements about it.
pub(super) struct Case<'c, H> {
    pub database: &'c Database,
    pub handler: &'c H,
    pub message: &'c Message,
    pub lease: Duration,
    /// The failure with which it is given up, unless somebody is still at work on it.
    pub hopeless: Option<Failed>,
    /// The statement that counts the attempt, and renews the lease, where that has to be.
    pub begin: Option<(String, [Value<'c>; 6])>,
    /// The statement that locks the message, if the attempt was begun, and returns the process that
    /// serves the transaction.
    pub lock: String,
    pub held: [Value<'c>; 6],
    /// The statement that removes the message, and keeps what is to be kept of it.
    pub remove: String,
}

/// The end of a handler's transaction.
pub(super) enum Ended {
    Committed,
    /// Lost: somebody else has the message.
    Lost,
    /// The handler was not called: the message has expired.
    Expired,
    /// Failed, and rolled back.
    Failed(Failed),
    /// Failed, and the transaction may be open still, or be committed.
    Broken(Failed),
    /// The handler was not called.
    NotBegun(StoreError),
}

impl Ended {
    /// Returns `Failed` if the rollback was answered, and `Broken` otherwise.
    pub(super) fn undone(failed: Failed, rolled_back: Result<(), StoreError>) -> Self {
        match rolled_back {
            Ok(()) => Ended::Failed(failed),
            Err(_) => Ended::Broken(failed),
        }
    }
}

impl<H> Case<'_, H> {
    /// Returns the end of the transaction if the handler is not to be called, once that is rolled
    /// back.
    pub(super) fn without_handler(&self, is_locked: bool) -> Option<Ended> {
        if is_locked { self.hopeless.clone().map(Ended::Failed) } else { Some(Ended::Lost) }
    }

    /// Waits for the answer to a commit, which may take as long as a handler.
    pub(super) async fn committed<A, E: Into<BoxError>>(
        &self,
        commit: impl Future<Output = Result<A, E>>,
    ) -> Result<(), Failed> {
        let limit = self.lease + NET + Duration::from_secs(1);
        match tokio::time::timeout(limit, commit).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(Failed::of(&error.into())),
            Err(_) => Err(Failed::new(Cause::TimeOut, format!("it was not committed within {limit:?}"))),
        }
    }
}

impl<H: Send + Sync + 'static> Work<H> {
    /// Returns how long the server keeps a message for us: as long as a handler may take, and a
    /// while to settle it.
    pub(super) fn leased(&self) -> Duration {
        self.lease + self.to_settle()
    }

    /// Returns how long it keeps it after a handler's time is over. Half of that is enough where
    /// the claim has just been made.
    fn to_settle(&self) -> Duration {
        (self.lease / 2).clamp(Duration::from_millis(50), NET)
    }

    /// Handles runs one after the other, as long as some wait.
    pub(super) async fn work_off<S: Session<H>>(self: Arc<Self>, ended: UnboundedSender<Handled>) {
        let mut session: Option<S> = None;
        while let Some(run) = self.waiting.next(&self.is_stopping) {
            let began = Instant::now();
            let handled = self.run(&mut session, run).await;
            self.waiting.took(began.elapsed());
            if ended.send(handled).is_err() {
                break;
            }
        }
        if let Some(session) = session {
            session.finish();
        }
    }

    /// Handles messages one after the other, until one fails or the worker stops.
    async fn run<S: Session<H>>(&self, session: &mut Option<S>, mut run: Run) -> Handled {
        let mut outcome = run.outcome();
        let messages = std::mem::take(&mut run.messages);
        let count = messages.len();
        let kinds: Vec<Option<String>> = messages.iter().map(|claimed| claimed.message.kind.clone()).collect();
        let error = match self.handle_all(session, &run, messages, &mut outcome).await {
            Ok(()) => None,
            Err(error) => {
                // The connection is closed, since nobody knows what is open on it.
                drop(session.take());
                outcome.put_off = PUT_OFF;
                Some(error)
            }
        };
        let begun = outcome.fates.len();
        self.meters.happened(Event::Released, kinds[begun..].iter().map(Option::as_deref));
        let is_done = |tried: &Tried| tried.fate == Fate::Done;
        if begun == count && outcome.fates.iter().all(is_done) {
            outcome.first = None;
        }
        // Each was removed together with its effect. If a failover has undone both, it is there
        // again, under the same claim, and is not done.
        outcome.fates.retain(|tried| !is_done(tried));
        Handled { outcome, begun, error }
    }

    async fn handle_all<S: Session<H>>(
        &self,
        session: &mut Option<S>,
        run: &Run,
        messages: Vec<Claimed>,
        outcome: &mut Outcome,
    ) -> Result<(), StoreError> {
        let mut current = match session.take() {
            Some(session) => session,
            None => S::connect(&self.database).await?,
        };
        for claimed in messages {
            if self.is_stopping.load(Ordering::Relaxed) {
                break;
            }
            let (attempts, ended) = self.attempt(&mut current, run, &claimed).await;
            let (kind, enqueued_at) = (claimed.message.kind.as_deref(), claimed.message.enqueued_at);
            let mut is_now = |fate| outcome.fates.push(Tried { position: claimed.position, attempts, fate });
            let is_broken = matches!(ended, Ended::Broken(_));
            match ended {
                Ended::Committed => {
                    is_now(Fate::Done);
                    self.meters.happened(Event::Done, [kind]);
                    self.meters.recorder.lagged(kind, enqueued_at);
                }
                Ended::Lost => {
                    outcome.put_off = PUT_OFF;
                    self.meters.happened(Event::Lost, [kind]);
                    break;
                }
                Ended::Expired => {
                    is_now(Fate::dead("it expired before it was handled"));
                    self.meters.happened(Event::Expired, [kind]);
                }
                Ended::Failed(failed) | Ended::Broken(failed) => {
                    let fate = Fate::of_failure(&self.retry, attempts, &failed);
                    self.meters.failed(kind, failed.cause, &fate);
                    is_now(fate);
                    if is_broken {
                        self.discard(current).await;
                        return Ok(());
                    }
                    break;
                }
                Ended::NotBegun(error) => return Err(error),
            }
        }
        *session = Some(current);
        Ok(())
    }

    /// Handles a message. Returns the number of its attempts, and how this one has ended.
    async fn attempt<S: Session<H>>(&self, session: &mut S, run: &Run, claimed: &Claimed) -> (u32, Ended) {
        let before = claimed.message.attempts;
        match &claimed.unfit {
            Some(Unfit::Expired) => return (before, Ended::Expired),
            Some(Unfit::Unreadable(what)) => {
                return (before, Ended::Failed(Failed::new(Cause::GaveUp, what.clone())));
            }
            None => {}
        }
        let hopeless = (before > 0 && self.retry.is_last(before)).then(|| {
            let what = format!("{before} attempts were begun, and the last ended neither well nor with an error");
            Failed::new(Cause::GaveUp, what)
        });
        // For a message that is given up untried no attempt is counted.
        let attempts = if hopeless.is_some() { before } else { before.saturating_add(1) };
        let began = Instant::now();
        let case = self.case(run, claimed, hopeless);
        let handling = session.handle(&case);
        let ended = spans::handling(&claimed.message, self.processor.as_deref(), handling).await;
        self.meters.recorder.took(claimed.message.kind.as_deref(), began.elapsed());
        (attempts, ended)
    }

    fn case<'c>(&'c self, run: &'c Run, claimed: &'c Claimed, hopeless: Option<Failed>) -> Case<'c, H> {
        let (position, token) = (Value::Number(claimed.position), Value::Number(run.token));
        let (name, key) = (Value::Text(&run.name), Value::OptionalBytes(run.key.as_deref()));
        let net_ms = i64::try_from((self.lease + NET).as_millis()).unwrap_or(i64::MAX);
        // An attempt that kills us is counted by nobody. So whatever a worker has lost is counted
        // when it is begun.
        let is_late = run.claimed_at.elapsed() >= self.to_settle() / 2;
        let begin = (claimed.was_lost || is_late).then(|| {
            let enough = Value::Real(micros(self.lease + self.to_settle() / 2));
            let begins = [name, key, position, token, Value::Real(micros(self.leased())), enough];
            (statements::ask(&self.tables, "inbox_begin", begins.len()), begins)
        });
        let counted = i64::from(claimed.message.attempts) + i64::from(begin.is_some());
        Case {
            database: &self.database,
            handler: &self.handler,
            message: &claimed.message,
            lease: self.lease,
            hopeless,
            begin,
            lock: statements::call(&self.tables, "inbox_hold", 6),
            held: [name, key, position, token, Value::Number(counted), Value::Number(net_ms)],
            remove: statements::finish(
                &self.tables,
                claimed.position,
                claimed.message.attempts.saturating_add(1),
                self.processor.as_deref(),
                self.keep.of(&claimed.message),
            ),
        }
    }

    /// Ends a transaction in which a handler was interrupted, so that its message is locked by
    /// nobody when it is settled, and closes the connection. Statements of the handler that still
    /// run are cancelled first: a server does not notice that nobody waits for them.
    async fn discard(&self, mut session: impl Session<H>) {
        let Some(Running { pid, began }) = session.interrupted() else { return };
        let named = [Value::Number((*pid).into()), Value::Text(began)];
        // If the cancellation does not arrive, or does not help, the safety net ends the
        // transaction.
        let _ = self.database.call("cancel a statement", &statements::cancel(), &named).await;
        let _ = self.database.in_time("roll back", session.roll_back()).await;
    }
}
