//! Messages that wait: how they are claimed, and what becomes of them.

use super::errors::{corrupt, failed};
use super::message::kept_error;
use super::retry::Retry;
use super::tables::{Queue, Tables};
use super::trial::{Cause, Failed};
use super::{Message, statements};
use crate::store::StoreError;
use std::time::Duration;
use tokio_postgres::types::{FromSql, ToSql, Type};
use tokio_postgres::{Client, Row};

/// Messages of a key that are claimed behind its first.
pub(super) const BEHIND: usize = 15;

/// How many are claimed at a time, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Portion {
    /// First messages of keys, and messages without one.
    pub first: usize,
    /// Messages behind each first one.
    pub behind: usize,
    pub lease: Duration,
}

/// A message that is claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claimed {
    pub position: i64,
    pub token: i64,
    pub message: Message,
}

/// Messages of one key, in order; or one that has none.
pub(super) type Run = Vec<Claimed>;

/// What becomes of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is removed.
    Done,
    /// Tried again after a while, at most that long.
    Failed {
        error: String,
        delay: Duration,
    },
    Dead {
        error: String,
    },
    /// Nobody has tried.
    Released,
}

impl Fate {
    /// What an attempt that failed leads to, if it was that many.
    pub(super) fn of_failure(retry: &Retry, attempts: u32, failed: &Failed) -> Self {
        let error = kept_error(&failed.error);
        match failed.cause == Cause::GaveUp || retry.is_last(attempts) {
            true => Fate::Dead { error },
            false => Fate::Failed { error, delay: retry.delay(attempts) },
        }
    }

    /// As `statements::settle` has it.
    fn number(&self) -> i16 {
        match self {
            Fate::Done => 0,
            Fate::Failed { .. } => 1,
            Fate::Dead { .. } => 2,
            Fate::Released => 3,
        }
    }
}

/// What came of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    position: i64,
    token: i64,
    attempts: u32,
    fate: Fate,
}

impl Outcome {
    pub(super) fn new(claimed: &Claimed, attempts: u32, fate: Fate) -> Self {
        Outcome { position: claimed.position, token: claimed.token, attempts, fate }
    }

    /// Those that nobody has tried.
    pub(super) fn released(claimed: &[Claimed]) -> impl Iterator<Item = Self> {
        claimed.iter().map(|claimed| Outcome::new(claimed, claimed.message.attempts, Fate::Released))
    }
}

/// Claims what is due.
pub(super) async fn claim(
    client: &Client,
    tables: &Tables,
    queue: Queue,
    name: Option<&str>,
    portion: Portion,
) -> Result<Vec<Run>, StoreError> {
    let doing = "claim messages";
    let (first, behind) = (portion.first as i64, portion.behind as i64);
    let lease = micros(portion.lease);
    let values: [(&(dyn ToSql + Sync), Type); 4] =
        [(&name, Type::TEXT), (&first, Type::INT8), (&behind, Type::INT8), (&lease, Type::FLOAT8)];
    let rows = client.query_typed(&statements::claim(tables, queue), &values).await;
    let claimed = |row: &Row| {
        Ok(Claimed { position: column(row, "position")?, token: column(row, "token")?, message: message(row)? })
    };
    let claimed = rows.map_err(|error| failed(doing, error))?.iter().map(claimed).collect::<Result<_, _>>()?;
    Ok(runs(claimed))
}

/// Says what came of claims. Those that were lost to somebody else are left alone.
pub(super) async fn settle(
    client: &Client,
    tables: &Tables,
    queue: Queue,
    outcomes: &[Outcome],
) -> Result<(), StoreError> {
    if outcomes.is_empty() {
        return Ok(());
    }
    let positions: Vec<i64> = outcomes.iter().map(|outcome| outcome.position).collect();
    let tokens: Vec<i64> = outcomes.iter().map(|outcome| outcome.token).collect();
    let fates: Vec<i16> = outcomes.iter().map(|outcome| outcome.fate.number()).collect();
    let error = |outcome: &Outcome| match &outcome.fate {
        Fate::Failed { error, .. } | Fate::Dead { error } => Some(error.clone()),
        Fate::Done | Fate::Released => None,
    };
    let errors: Vec<Option<String>> = outcomes.iter().map(error).collect();
    let attempts: Vec<i32> =
        outcomes.iter().map(|outcome| i32::try_from(outcome.attempts).unwrap_or(i32::MAX)).collect();
    let delay = |outcome: &Outcome| match outcome.fate {
        Fate::Failed { delay, .. } => micros(delay),
        Fate::Done | Fate::Dead { .. } | Fate::Released => 0.0,
    };
    let delays: Vec<f64> = outcomes.iter().map(delay).collect();
    let values: [(&(dyn ToSql + Sync), Type); 6] = [
        (&positions, Type::INT8_ARRAY),
        (&tokens, Type::INT8_ARRAY),
        (&fates, Type::INT2_ARRAY),
        (&errors, Type::TEXT_ARRAY),
        (&attempts, Type::INT4_ARRAY),
        (&delays, Type::FLOAT8_ARRAY),
    ];
    let settled = client.query_typed(&statements::settle(tables, queue), &values).await;
    settled.map(|_| ()).map_err(|error| failed("settle claims", error))
}

/// Messages of one key together, in their order; the rest one by one.
fn runs(mut claimed: Vec<Claimed>) -> Vec<Run> {
    claimed.sort_by_key(|claimed| claimed.position);
    let mut runs: Vec<Run> = Vec::new();
    let mut of_key = std::collections::HashMap::new();
    for claimed in claimed {
        let next = runs.len();
        let run = match &claimed.message.key {
            Some(key) => *of_key.entry((claimed.message.name.clone(), key.clone())).or_insert(next),
            None => next,
        };
        match runs.get_mut(run) {
            Some(run) => run.push(claimed),
            None => runs.push(vec![claimed]),
        }
    }
    runs
}

pub(super) fn message(row: &Row) -> Result<Message, StoreError> {
    Ok(Message {
        name: column(row, "name")?,
        id: column(row, "id")?,
        key: column(row, "key")?,
        payload: column(row, "payload")?,
        attempts: attempts(column(row, "attempts")?),
    })
}

/// Attempts as the server has them, which has no unsigned numbers: none, if it has a negative one.
pub(super) fn attempts(kept: i32) -> u32 {
    kept.try_into().unwrap_or(0)
}

pub(super) fn column<'r, T: FromSql<'r>>(row: &'r Row, name: &str) -> Result<T, StoreError> {
    row.try_get(name).map_err(|error| corrupt(format!("expected a column {name}: {error}")))
}

pub(super) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimed(position: i64, name: &str, key: Option<&str>) -> Claimed {
        let key = key.map(|key| key.as_bytes().to_vec());
        let message = Message { name: name.into(), id: vec![], key, payload: vec![], attempts: 0 };
        Claimed { position, token: 1, message }
    }

    #[test]
    fn a_run_has_one_key_of_one_name_in_order() {
        let all = vec![
            claimed(5, "a", Some("k")),
            claimed(1, "a", None),
            claimed(4, "b", Some("k")),
            claimed(2, "a", Some("k")),
            claimed(3, "a", None),
            claimed(6, "a", Some("l")),
        ];
        let positions: Vec<Vec<i64>> =
            runs(all).iter().map(|run| run.iter().map(|claimed| claimed.position).collect()).collect();
        assert_eq!(positions, [vec![1], vec![2, 5], vec![3], vec![4], vec![6]]);
    }

    #[test]
    fn the_last_attempt_that_fails_makes_a_dead_letter() {
        let second = Duration::from_secs(1);
        let retry = Retry::new(second, 2 * second).unwrap().attempts_max(Some(3)).unwrap();
        let failed = |cause, error| Failed::new(cause, error);
        let delays = [1, 2].map(|attempts| Fate::of_failure(&retry, attempts, &failed(Cause::Error, "no")));
        assert_eq!(delays, [second, 2 * second].map(|delay| Fate::Failed { error: "no".into(), delay }));
        let dead = |error: &str| Fate::Dead { error: error.into() };
        assert_eq!(Fate::of_failure(&retry, 3, &failed(Cause::Panic, "a\0")), dead("a\u{fffd}"));
        assert_eq!(Fate::of_failure(&retry, 1, &failed(Cause::GaveUp, "no")), dead("no"));
    }
}
