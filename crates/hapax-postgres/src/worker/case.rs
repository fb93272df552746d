//! A batch in a transaction: its statements, and its end.
//!
//! Our limits come before the server's, which are a safety net: a server that ends a transaction
//! takes the connection with it, and the error of the attempt.

use super::lane::Columns;
use super::work::Work;
use crate::claims::attempt::{self, Cause, Failed};
use crate::claims::queue::{Claimed, micros};
use crate::database::{Database, NET};
use crate::errors::corrupt;
use crate::schema::statements;
use crate::transaction::{Row, Value, answer};
use crate::{BoxError, Message};
use hapax_message::Answers;
use hapax_store::StoreError;
use std::collections::HashSet;
use std::time::Duration;

/// The name of a transaction that runs: the server's process, and when the transaction began, in
/// microseconds since 1970.
pub(super) struct Running {
    pub pid: i64,
    pub began: i64,
}

/// A connection for transactions of handlers of this kind. Dropping it closes it.
pub(super) trait Session<H>: Send + Sized + 'static {
    fn connect(database: &Database) -> impl Future<Output = Result<Self, StoreError>> + Send;

    /// Begins an attempt, and handles the messages in a transaction of their own. The locks on the
    /// messages show whether the attempt was begun: a message has the number of this attempt then.
    fn handle(&mut self, case: &Case<'_, H>) -> impl Future<Output = Ended> + Send;

    /// Rolls back a transaction in which a handler was interrupted.
    fn roll_back(&mut self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Gives the connection back. Nothing is open on it: it may be a shared one.
    fn finish(self);
}

/// Messages that are handled together, and the statements about them.
pub(super) struct Case<'c, H> {
    pub work: &'c Work<H>,
    pub messages: Vec<&'c Message>,
    /// The statement that counts the attempt, and renews leases, where that has to be.
    pub begin: Option<(String, [Value<'c>; 6])>,
    /// The statement that locks the messages whose attempts were begun, and returns what names the
    /// transaction.
    pub lock: String,
    pub held: [Value<'c>; 7],
    positions: &'c [i64],
    /// True if that removes them, too: nothing is kept of any.
    removes: bool,
    /// True if the attempt is counted as it begins.
    counts: bool,
    /// The failure with which a message is given up, unless somebody is still at work on it.
    hopeless: Option<Failed>,
}

/// The end of a handler's transaction.
pub(super) enum Ended {
    /// The handler has answered, and the transaction is committed: the failure of each message, or
    /// none. If all have failed, it is rolled back.
    Answered(Vec<Option<Failed>>),
    /// The handler was not called: somebody else has the messages at these places.
    Lost(Vec<usize>),
    /// Failed, and rolled back.
    Failed(Failed),
    /// Failed, and the transaction may be open still, or be committed. Which it is, if its handler
    /// was interrupted.
    Broken(Failed, Option<Running>),
    /// The handler was not called.
    NotBegun(StoreError),
}

impl Ended {
    /// Returns `Failed` if the rollback was answered, and `Broken` otherwise.
    pub(super) fn undone(failed: Failed, rolled_back: Result<(), StoreError>) -> Self {
        match rolled_back {
            Ok(()) => Ended::Failed(failed),
            Err(_) => Ended::Broken(failed, None),
        }
    }
}

impl<'c, H> Case<'c, H> {
    /// Returns the case of these messages of a consumer. One that was lost is alone.
    pub(super) fn new(
        work: &'c Work<H>,
        name: &'c str,
        heads: &[&'c Claimed],
        columns: &'c Columns,
        renews: bool,
    ) -> Self {
        let (name, keys) = (Value::Text(name), Value::OptionalBytesEach(&columns.keys));
        let (tokens, positions) = (Value::Numbers(&columns.tokens), Value::Numbers(&columns.positions));
        // An attempt that kills us is counted by nobody. So whatever a worker has lost is counted
        // when it is begun.
        let lost = heads.iter().find(|head| head.was_lost);
        let begin = (lost.is_some() || renews).then(|| {
            let counted = if lost.is_some() { positions } else { Value::Numbers(&[]) };
            let enough = Value::Real(micros(work.lease + work.to_settle() / 2));
            let begins = [name, keys, tokens, counted, Value::Real(micros(work.leased())), enough];
            (statements::ask(&work.tables, "inbox_begin", begins.len()), begins)
        });
        let hopeless = lost.filter(|head| work.is_hopeless(&head.message)).map(|head| {
            let attempts = head.message.attempts;
            let what = format!("{attempts} attempts were begun, and the last ended neither well nor with an error");
            Failed::new(Cause::GaveUp, what)
        });
        let net_ms = i64::try_from((work.lease + NET).as_millis()).unwrap_or(i64::MAX);
        let removes = heads.iter().all(|head| work.keep.of(&head.message).is_none());
        let attempts = Value::Numbers(&columns.attempts);
        let held = [name, keys, tokens, positions, attempts, Value::Number(net_ms), Value::Bool(removes)];
        Case {
            work,
            messages: heads.iter().map(|head| &head.message).collect(),
            begin,
            lock: statements::ask(&work.tables, "inbox_hold", held.len()),
            held,
            positions: &columns.positions,
            removes,
            counts: lost.is_some(),
            hopeless,
        }
    }

    /// Reads what the lock has returned: the transaction, or its end, once it is rolled back, if
    /// the handler is not to be called.
    pub(super) fn locked(&self, rows: &[Row]) -> Result<Result<Running, Ended>, StoreError> {
        let answer: Vec<i64> = answer(rows)?;
        let [pid, began, ref held @ ..] = answer[..] else {
            return Err(corrupt(format!("expected a process and when it began, got {answer:?}")));
        };
        let held: HashSet<&i64> = held.iter().collect();
        let places = self.positions.iter().enumerate();
        let lost: Vec<usize> = places.filter(|(_, position)| !held.contains(position)).map(|(at, _)| at).collect();
        Ok(match &self.hopeless {
            _ if !lost.is_empty() => Err(Ended::Lost(lost)),
            Some(hopeless) => Err(Ended::Failed(hopeless.clone())),
            None => Ok(Running { pid, began }),
        })
    }

    /// Waits for the handler's answers. Returns the failure of each message, or none.
    pub(super) async fn answers(
        &self,
        handling: impl Future<Output = Result<Answers, BoxError>>,
    ) -> Result<Vec<Option<Failed>>, Failed> {
        let answers = attempt::run(self.work.lease, handling).await?;
        let each = answers.each(self.messages.len()).map_err(|why| Failed::new(Cause::Error, why))?;
        Ok(each.into_iter().map(|answer| answer.err().map(|error| Failed::of(&error))).collect())
    }

    /// Returns the statement that removes the messages that are done, and keeps what is to be kept
    /// of them, or puts back those that are not; none if all have failed. It fails if the handler
    /// has ignored an error, as a commit would not.
    pub(super) fn remove(&self, failures: &[Option<Failed>]) -> Option<String> {
        let (work, places) = (self.work, 0..failures.len());
        let (done, failed): (Vec<usize>, Vec<usize>) = places.partition(|&at| failures[at].is_none());
        let positions = |places: &[usize]| places.iter().map(|&at| self.positions[at]).collect::<Vec<i64>>();
        Some(match (self.removes, &done[..], &failed[..]) {
            (_, [], _) => return None,
            (true, _, []) => "SELECT".into(),
            (true, _, failed) => statements::put_back(&work.tables, &positions(failed)),
            (false, done, _) => {
                let more = u8::from(!self.counts);
                let record = done.iter().find_map(|&at| work.keep.of(self.messages[at]));
                statements::finish(&work.tables, &positions(done), more, work.processor.as_deref(), record)
            }
        })
    }

    /// Waits for the answer to a commit, which may take as long as a handler.
    pub(super) async fn committed<A, E: Into<BoxError>>(
        &self,
        commit: impl Future<Output = Result<A, E>>,
    ) -> Result<(), Failed> {
        let limit = self.work.lease + NET + Duration::from_secs(1);
        match tokio::time::timeout(limit, commit).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(Failed::of(&error.into())),
            Err(_) => Err(Failed::new(Cause::TimeOut, format!("it was not committed within {limit:?}"))),
        }
    }
}
