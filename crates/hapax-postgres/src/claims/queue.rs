//! Messages that wait: how they are claimed, and the outcomes of claims.

use super::attempt::{Cause, Failed};
use super::retry::Retry;
use crate::Database;
use crate::Message;
use crate::mark_result::time;
use crate::message::kept_error;
use crate::schema::statements;
use crate::schema::tables::{Queue, Tables};
use crate::transaction::{Row, Value};
use hapax::seam::random;
use hapax_store::StoreError;
use std::time::Duration;
use tokio::time::Instant;

/// Messages of a key that are claimed after its first.
pub(crate) const BEHIND: usize = 15;

/// The size of a claim, and its lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portion {
    /// Runs: keys, and messages without one.
    pub first: usize,
    /// Messages of a key after its first.
    pub behind: usize,
    /// Payload of all of them together. At least one message of each name is claimed, whatever its
    /// size.
    pub bytes: usize,
    pub lease: Duration,
}

/// A message that is claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claimed {
    pub position: i64,
    pub message: Message,
    /// The reason for which it becomes a dead letter untried.
    pub unfit: Option<Unfit>,
    /// True if an attempt has failed, or a claim was lost: whoever had it may have died of it.
    pub was_lost: bool,
}

/// The reason for which a message is not tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// It is of no use any more.
    Expired,
    /// Its row has something that hapax has not written. What it is, in words.
    Unreadable(String),
}

/// Messages of one key, in order, or one that has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub name: String,
    pub key: Option<Vec<u8>>,
    pub token: i64,
    /// The time at which it was claimed, or a moment before.
    pub claimed_at: Instant,
    pub messages: Vec<Claimed>,
}

/// The fate of a message after an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Done: it is removed.
    Done,
    /// Failed: tried again after a while, at most that long.
    Failed {
        error: String,
        delay: Duration,
    },
    /// Not tried, as its handler said: tried again after that long.
    Later {
        error: String,
        delay: Duration,
    },
    Dead {
        error: String,
    },
}

impl Fate {
    /// Returns the fate after a failed attempt, which was attempt number `attempts`.
    pub(crate) fn of_failure(retry: &Retry, attempts: u32, failed: &Failed) -> Self {
        let error = kept_error(&failed.error);
        match failed.cause {
            Cause::Later(after) => Fate::Later { error, delay: after.unwrap_or_else(|| retry.delay(attempts)) },
            Cause::GaveUp => Fate::Dead { error },
            _ if retry.is_last(attempts) => Fate::Dead { error },
            _ => Fate::Failed { error, delay: retry.delay(attempts) },
        }
    }

    pub(crate) fn dead(error: &str) -> Self {
        Fate::Dead { error: kept_error(error) }
    }
}

/// The outcome of a run: the fates of its first messages, in their order. The others are given
/// back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub name: String,
    pub key: Option<Vec<u8>>,
    pub token: i64,
    /// The message that is given back if nothing was tried, and the run has no key.
    pub first: Option<(i64, u32)>,
    pub fates: Vec<Tried>,
    /// The time by which the messages given back are put off: zero by default.
    pub put_off: Duration,
}

impl Outcome {
    /// Returns the positions of the messages whose rows are to be changed.
    pub(crate) fn positions(&self) -> impl Iterator<Item = i64> {
        let given_back = self.first.filter(|_| self.fates.is_empty() && self.key.is_none());
        self.fates.iter().map(|tried| tried.position).chain(given_back.map(|(position, _)| position))
    }
}

/// A message that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tried {
    pub position: i64,
    pub attempts: u32,
    pub fate: Fate,
}

impl Tried {
    /// Returns what becomes of a message whose attempt of this number has failed, or was none.
    pub(crate) fn failed(retry: &Retry, position: i64, attempts: u32, failed: &Failed) -> Self {
        let is_none = matches!(failed.cause, Cause::Later(_));
        let fate = Fate::of_failure(retry, attempts, failed);
        Tried { position, attempts: attempts.saturating_sub(is_none.into()), fate }
    }
}

impl Run {
    /// Returns the kind of each message.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = Option<&str>> {
        self.messages.iter().map(|claimed| claimed.message.kind.as_deref())
    }

    /// Returns the outcome of a run of which nothing is tried yet.
    pub(crate) fn outcome(&self) -> Outcome {
        Outcome {
            name: self.name.clone(),
            key: self.key.clone(),
            token: self.token,
            first: self.messages.first().map(|first| (first.position, first.message.attempts)),
            fates: Vec::new(),
            put_off: Duration::ZERO,
        }
    }
}

/// Claims messages of these names to probe whether they can be published: of each up to `first`
/// without a key, and the first messages of as many keys, with up to `bytes` of payload each time.
pub(crate) async fn probe(
    database: &Database,
    tables: &Tables,
    names: &[String],
    portion: &Portion,
) -> Result<Vec<Run>, StoreError> {
    let (token, began) = (token(), Instant::now());
    let values = [
        Value::Texts(names),
        whole(portion.first),
        whole(portion.bytes),
        Value::Real(micros(portion.lease)),
        Value::Number(token),
    ];
    let rows = database.call("probe", &statements::call(tables, "outbox_probe", values.len()), &values).await?;
    runs(&rows, token, began)
}

/// Returns a random token, which belongs to no other claim: one that was lost in a server's crash
/// is not given out again.
pub(crate) fn token() -> i64 {
    (random::any() >> 1) as i64 | 1
}

pub(crate) fn whole(number: usize) -> Value<'static> {
    Value::Number(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Groups rows into runs: messages of a key come one after the other.
pub(crate) fn runs<'r>(
    rows: impl IntoIterator<Item = &'r Row>,
    token: i64,
    claimed_at: Instant,
) -> Result<Vec<Run>, StoreError> {
    let mut runs: Vec<Run> = Vec::new();
    for row in rows {
        let (message, unreadable) = read(row)?;
        let unfit = match unreadable {
            Some(what) => Some(Unfit::Unreadable(what)),
            None => row.get::<bool>("is_expired")?.then_some(Unfit::Expired),
        };
        let claimed = Claimed { position: row.get("position")?, message, unfit, was_lost: row.get("was_lost")? };
        match runs.last_mut() {
            Some(run) if run.key.is_some() && run.key == claimed.message.key && run.name == claimed.message.name => {
                run.messages.push(claimed);
            }
            _ => {
                let (name, key) = (claimed.message.name.clone(), claimed.message.key.clone());
                runs.push(Run { name, key, token, claimed_at, messages: vec![claimed] });
            }
        }
    }
    Ok(runs)
}

/// Announces that messages of this name (or of all) are looked for every few milliseconds for this
/// long, so that transactions that enqueue need not notify.
pub(crate) async fn awake(
    database: &Database,
    tables: &Tables,
    queue: Queue,
    name: Option<&str>,
    lasts: Duration,
) -> Result<(), StoreError> {
    let values = [Value::Text(name.unwrap_or_default()), Value::Real(lasts.as_secs_f64() * 1e3)];
    let sql = statements::call(tables, &queue.function("awake"), values.len());
    database.call("say that somebody is awake", &sql, &values).await.map(drop)
}

/// Reads headers: names and values in turn.
pub(crate) fn headers(row: &Row) -> Result<Vec<(String, String)>, StoreError> {
    let headers = row.get::<Option<Vec<String>>>("headers")?.unwrap_or_default();
    Ok(headers.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
}

/// Reads a message, without the parts that cannot be read.
pub(crate) fn message(row: &Row) -> Result<Message, StoreError> {
    Ok(read(row)?.0)
}

/// Reads a message. What only somebody else can have written is left out, and said.
fn read(row: &Row) -> Result<(Message, Option<String>), StoreError> {
    let (headers, error) = match headers(row) {
        Ok(headers) => (headers, None),
        Err(error) => (Vec::new(), Some(format!("its row cannot be read: {error}"))),
    };
    let attempts: i32 = row.get("attempts")?;
    let uncounted = || format!("its row cannot be read: expected attempts from 0 to {}, got {attempts}", i32::MAX - 1);
    let unreadable = error.or_else(|| (!(0..i32::MAX).contains(&attempts)).then(uncounted));
    let id: Vec<u8> = row.get("id")?;
    let payload: Vec<u8> = row.get("payload")?;
    let mut message = Message::new(row.get::<String>("name")?, id, payload);
    message.key = row.get("key")?;
    message.kind = row.get("kind")?;
    message.source = row.get("source")?;
    message.subject = row.get("subject")?;
    message.headers = headers;
    message.attempts = self::attempts(attempts);
    message.enqueued_at = time(row.get("enqueued_at")?);
    Ok((message, unreadable))
}

/// Returns the number of attempts that the server has, which has no unsigned numbers: zero for a
/// negative one.
pub(crate) fn attempts(kept: i32) -> u32 {
    kept.try_into().unwrap_or(0)
}

pub(crate) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_attempt_that_fails_makes_a_dead_letter() {
        let second = Duration::from_secs(1);
        let retry = Retry::new(second, 2 * second).unwrap().attempts_max(Some(3)).unwrap();
        let failed = |cause, error| Failed::new(cause, error);
        let delays = [1, 2].map(|attempts| Fate::of_failure(&retry, attempts, &failed(Cause::Error, "no")));
        assert_eq!(delays, [second, 2 * second].map(|delay| Fate::Failed { error: "no".into(), delay }));
        assert_eq!(Fate::of_failure(&retry, 3, &failed(Cause::Panic, "a\0")), Fate::dead("a\u{fffd}"));
        assert_eq!(Fate::of_failure(&retry, 1, &failed(Cause::GaveUp, "no")), Fate::dead("no"));
        let later = |after| Tried::failed(&retry, 7, 3, &failed(Cause::Later(after), "no"));
        let waits = |delay| Tried { position: 7, attempts: 2, fate: Fate::Later { error: "no".into(), delay } };
        assert_eq!([None, Some(second)].map(later), [2 * second, second].map(waits));
    }
}
