//! One run of messages, by one handler, on a connection of its own.
//!
//! Each message takes two transactions: one of ours counts the attempt and makes its lease a whole one; that of the
//! handler locks the message, has the effect, and removes the message.
//!
//! Our limits come before the server's, whose are a safety net: a server that ends a transaction takes the connection
//! with it, and what the attempt failed with.

#[cfg(feature = "sqlx")]
mod sqlx_session;
mod tokio_session;

#[cfg(feature = "sqlx")]
pub(super) use sqlx_session::SqlxSession;
pub(super) use tokio_session::TokioSession;

use super::database::{Database, NET};
use super::meters::{Event, Meters};
use super::queue::{self, Claimed, Fate, Outcome, Run, Tried};
use super::retry::Retry;
use super::tables::{Queue, Tables};
use super::transaction::{Row, Value};
use super::trial::{Cause, Failed};
use super::{Message, statements};
use crate::store::StoreError;
use crate::sync::{Ordering, StdAtomicBool};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What could not be begun is put off for so long.
const PUT_OFF: Duration = Duration::from_millis(500);

/// What all runs of a worker have in common.
pub(super) struct Work<H> {
    pub database: Database,
    pub tables: Tables,
    pub retry: Retry,
    /// How long a handler may take.
    pub lease: Duration,
    pub handler: Arc<H>,
    /// What was claimed and not begun is to be given back.
    pub is_stopping: StdAtomicBool,
    pub meters: Meters,
}

/// What came of a run.
pub(super) struct Handled {
    /// None, if there is nothing to be said.
    pub outcome: Option<Outcome>,
    /// Messages that were begun.
    pub begun: usize,
    /// Why it did not go on, if no message is at fault.
    pub error: Option<StoreError>,
}

/// A connection for transactions of handlers of this kind. One that is dropped is closed.
pub(super) trait Session<H>: Send + Sized + 'static {
    fn connect(database: &Database) -> impl Future<Output = Result<Self, StoreError>> + Send;

    /// One call in a transaction of ours.
    fn call(
        &mut self,
        database: &Database,
        doing: &'static str,
        sql: &str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Result<Vec<Row>, StoreError>> + Send;

    /// One message, in a transaction of its own.
    fn handle(&mut self, case: &Case<'_, H>) -> impl Future<Output = Ended> + Send;

    /// The process that serves a transaction in which a handler was interrupted.
    fn interrupted(&self) -> Option<i32>;

    /// Nothing is open: it may be somebody else's.
    fn finish(self);
}

/// A message, and what is said to the server about it.
pub(super) struct Case<'c, H> {
    pub database: &'c Database,
    pub handler: &'c H,
    pub message: &'c Message,
    pub lease: Duration,
    /// Settings of the transaction: the safety net.
    pub settings: String,
    /// Locks the message, and says who serves the transaction.
    pub lock: String,
    pub held: [Value<'c>; 2],
    /// Removes the message.
    pub remove: String,
}

/// How a handler's transaction ended.
pub(super) enum Ended {
    Committed,
    /// Somebody else has the message.
    Lost,
    /// It was rolled back.
    Failed(Failed),
    /// It may be open still, or be committed.
    Broken(Failed),
    /// The handler was not called.
    NotBegun(StoreError),
}

impl<H> Case<'_, H> {
    /// An answer to a commit, which may take as long as a handler.
    async fn committed<A, E: Into<super::Failure>>(
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

/// What came of an attempt.
enum Attempt {
    Handled { attempts: u32 },
    Lost,
    Failed { attempts: u32, failed: Failed, is_broken: bool },
}

impl<H: Send + Sync + 'static> Work<H> {
    /// How long the server keeps a message for us: for as long as a handler may take, and a while to say what came of it.
    pub(super) fn leased(&self) -> Duration {
        self.lease + (self.lease / 2).clamp(Duration::from_millis(50), NET)
    }

    /// Handles messages one after the other, until one fails or the worker stops.
    pub(super) async fn run<S: Session<H>>(self: Arc<Self>, run: Run) -> Handled {
        let messages = run.messages.len();
        let handled = self.handled::<S>(run).await;
        let tried = handled.outcome.as_ref().map_or(messages, |outcome| outcome.fates.len());
        self.meters.happened(Event::Released, messages.saturating_sub(tried));
        handled
    }

    async fn handled<S: Session<H>>(&self, mut run: Run) -> Handled {
        let mut outcome = run.outcome();
        let messages = std::mem::take(&mut run.messages);
        let mut session = match S::connect(&self.database).await {
            Ok(session) => session,
            Err(error) => {
                outcome.put_off = PUT_OFF;
                return Handled { outcome: Some(outcome), begun: 0, error: Some(error) };
            }
        };
        let (count, mut begun) = (messages.len(), 0);
        for claimed in messages {
            if self.is_stopping.load(Ordering::Relaxed) {
                break;
            }
            let (position, is_expired, enqueued_at) =
                (claimed.position, claimed.is_expired, claimed.message.enqueued_at);
            match self.attempt(&mut session, &run, claimed).await {
                Ok(Attempt::Handled { attempts }) => {
                    begun += 1;
                    self.meters.happened(Event::Done, 1);
                    self.meters.lagged(enqueued_at);
                    outcome.fates.push(Tried { position, attempts, fate: Fate::Done });
                }
                Ok(Attempt::Lost) => {
                    self.meters.happened(Event::Lost, 1);
                    outcome.put_off = PUT_OFF;
                    break;
                }
                Ok(Attempt::Failed { attempts, failed, is_broken }) => {
                    begun += 1;
                    let fate = Fate::of_failure(&self.retry, attempts, &failed);
                    match (is_expired, &fate) {
                        (true, _) => self.meters.happened(Event::Expired, 1),
                        (false, fate) => self.meters.failed(failed.cause, fate),
                    }
                    outcome.fates.push(Tried { position, attempts, fate });
                    if is_broken {
                        self.discard(session);
                        return Handled { outcome: Some(outcome), begun, error: None };
                    }
                    break;
                }
                Err(error) => {
                    // Closed, since nobody knows what is open on it.
                    drop(session);
                    outcome.put_off = PUT_OFF;
                    return Handled { outcome: Some(outcome), begun, error: Some(error) };
                }
            }
        }
        session.finish();
        let is_gone = run.key.is_none() && outcome.fates.len() == count && is_done(&outcome.fates);
        Handled { outcome: (!is_gone).then_some(outcome), begun, error: None }
    }

    async fn attempt<S: Session<H>>(
        &self,
        session: &mut S,
        run: &Run,
        claimed: Claimed,
    ) -> Result<Attempt, StoreError> {
        if claimed.is_expired {
            let failed = Failed::new(Cause::GaveUp, "it expired before it was handled");
            let attempts = claimed.message.attempts;
            return Ok(Attempt::Failed { attempts, failed, is_broken: false });
        }
        let doing = "begin an attempt";
        let (sql, values) =
            (statements::begin(&self.tables, Queue::Inbox), queue::begin(run, claimed.position, self.leased()));
        let rows = self.database.in_time(doing, session.call(&self.database, doing, &sql, &values)).await?;
        let attempts = rows.first().map(|row| row.get::<Option<i32>>("begin")).transpose()?.flatten();
        let Some(attempts) = attempts.map(queue::attempts) else { return Ok(Attempt::Lost) };
        if attempts > 1 && self.retry.is_last(attempts - 1) {
            let attempts = attempts - 1;
            let what = format!("{attempts} attempts were begun, and the last ended neither well nor with an error");
            let failed = Failed::new(Cause::GaveUp, what);
            return Ok(Attempt::Failed { attempts, failed, is_broken: false });
        }
        let message = Message { attempts: attempts.saturating_sub(1), ..claimed.message };
        let began = Instant::now();
        let ended = session.handle(&self.case(&message, claimed.position, run.token)).await;
        self.meters.took(began.elapsed());
        let failed = |failed, is_broken| Ok(Attempt::Failed { attempts, failed, is_broken });
        match ended {
            Ended::Committed => Ok(Attempt::Handled { attempts }),
            Ended::Lost => Ok(Attempt::Lost),
            Ended::Failed(what) => failed(what, false),
            Ended::Broken(what) => failed(what, true),
            Ended::NotBegun(error) => Err(error),
        }
    }

    fn case<'c>(&'c self, message: &'c Message, position: i64, token: i64) -> Case<'c, H> {
        let net_ms = (self.lease + NET).as_millis();
        let settings =
            format!("SET LOCAL idle_in_transaction_session_timeout = {net_ms}; SET LOCAL statement_timeout = {net_ms}");
        Case {
            database: &self.database,
            handler: &self.handler,
            message,
            lease: self.lease,
            settings,
            lock: statements::lock(&self.tables, Queue::Inbox),
            held: [Value::Number(position), Value::Number(token)],
            remove: statements::remove(&self.tables, Queue::Inbox, position),
        }
    }

    /// Closes a connection whose handler may have left a statement at work, which is cancelled first: a server does not
    /// notice that nobody waits for it.
    fn discard(&self, session: impl Session<H>) {
        let database = self.database.clone();
        tokio::spawn(async move {
            if let Some(pid) = session.interrupted() {
                let cancel = "SELECT pg_catalog.pg_cancel_backend($1::bigint::int)";
                // If nobody can say so, the safety net ends it.
                let _ = database.call("cancel a statement", cancel, &[Value::Number(pid.into())]).await;
            }
            drop(session);
        });
    }
}

fn is_done(fates: &[Tried]) -> bool {
    fates.iter().all(|tried| tried.fate == Fate::Done)
}
