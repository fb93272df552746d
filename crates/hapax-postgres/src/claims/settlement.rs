//! Settles claims: tells the server what became of the claimed messages.

use super::queue::{Fate, Outcome, Run, micros};
use crate::Database;
use crate::errors::is_untranslatable;
use crate::message::kept_error;
use crate::schema::statements;
use crate::schema::tables::{Queue, Tables};
use crate::transaction::{Row, Value};
use hapax::seam::random;
use hapax_store::StoreError;
use hapax_store::back_off::BackOff;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::time::Instant;

/// Keys that are given back in one transaction, each of which may take a lock.
const KEYS_MAX: usize = 128;

/// The waits between two tries to settle what somebody has locked.
const LOCKED: BackOff = BackOff { first: Duration::from_millis(10), max: Duration::from_secs(1) };
/// The outcomes of locked rows that are remembered. Whatever is forgotten comes again after its
/// lease.
const LOCKED_MAX: usize = 4_096;

/// Outcomes that could not be settled yet since somebody has locked their rows. They are tried
/// again by themselves, so nothing else waits for them.
pub(crate) struct Locked {
    outcomes: Vec<(Outcome, Option<Instant>)>,
    tries: u32,
    again_at: Instant,
}

impl Locked {
    pub(crate) fn new(now: Instant) -> Self {
        Locked { outcomes: Vec::new(), tries: 0, again_at: now }
    }

    /// Keeps outcomes that were locked just now, each until a time, if there is one. Those that
    /// have been kept for longest go first if there are too many.
    pub(crate) fn keep(&mut self, outcomes: impl IntoIterator<Item = (Outcome, Option<Instant>)>, now: Instant) {
        self.outcomes.extend(outcomes);
        self.outcomes.retain(|(_, until)| until.is_none_or(|until| until > now));
        self.outcomes.drain(..self.outcomes.len().saturating_sub(LOCKED_MAX));
        if self.outcomes.is_empty() {
            self.tries = 0;
        } else if now >= self.again_at {
            self.tries = self.tries.saturating_add(1);
            self.again_at = now + LOCKED.after(self.tries, random::any());
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.outcomes.is_empty()
    }

    /// Returns the time at which to try again, if there is anything.
    pub(crate) fn again_at(&self) -> Option<Instant> {
        (!self.outcomes.is_empty()).then_some(self.again_at)
    }

    /// Takes all of them, if it is time.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<(Outcome, Option<Instant>)> {
        if now >= self.again_at { std::mem::take(&mut self.outcomes) } else { Vec::new() }
    }
}

/// Claims that are remembered. One that is forgotten ends with its lease.
const OPEN_MAX: usize = 4_096;

/// Claims of messages without a key, and how many of these are not settled yet.
#[derive(Debug, Default)]
pub(crate) struct Open(HashMap<i64, usize>);

impl Open {
    pub(crate) fn claimed(&mut self, runs: &[Run]) {
        if self.0.len() >= OPEN_MAX {
            self.0.clear();
        }
        for run in runs.iter().filter(|run| run.key.is_none()) {
            *self.0.entry(run.token).or_default() += 1;
        }
    }

    /// Returns the claims of which nothing is left but these outcomes.
    pub(crate) fn over(&self, outcomes: &[Outcome]) -> Vec<i64> {
        let mut open = Open(self.0.clone());
        open.count_down(outcomes.iter());
        open.0.into_iter().filter(|(_, left)| *left == 0).map(|(token, _)| token).collect()
    }

    /// Records outcomes that were settled, except for those that are locked.
    pub(crate) fn settled(&mut self, outcomes: &[Outcome], locked: &[bool]) {
        let settled = outcomes.iter().zip(locked).filter(|(_, is_locked)| !**is_locked);
        self.count_down(settled.map(|(outcome, _)| outcome));
        self.0.retain(|_, left| *left > 0);
    }

    fn count_down<'o>(&mut self, outcomes: impl Iterator<Item = &'o Outcome>) {
        for outcome in outcomes.filter(|outcome| outcome.key.is_none()) {
            self.0.entry(outcome.token).and_modify(|left| *left = left.saturating_sub(1));
        }
    }
}

/// Settles claims, and ends those that are over. Claims that were lost to another worker or relay
/// are left alone. Returns of each outcome whether it could not be settled, since somebody has
/// locked its row: whoever is still at work on a message that was given up, or an operator. Its key
/// is kept for another `lease`.
pub(crate) async fn settle(
    database: &Database,
    tables: &Tables,
    queue: Queue,
    lease: Duration,
    outcomes: &[Outcome],
    mut over: Vec<i64>,
) -> Result<Vec<bool>, StoreError> {
    let mut locked: Vec<bool> = Vec::with_capacity(outcomes.len());
    while locked.len() < outcomes.len() {
        let rest = &outcomes[locked.len()..];
        let some = &rest[..portion_of(rest)];
        // A claim is over with the last of its messages.
        let ends = if some.len() == rest.len() { &over[..] } else { &[] };
        let are_locked = settle_some(database, tables, queue, lease, some, ends).await?;
        for (outcome, _) in some.iter().zip(&are_locked).filter(|(_, is_locked)| **is_locked) {
            over.retain(|token| *token != outcome.token);
        }
        locked.extend(are_locked);
    }
    Ok(locked)
}

/// Returns how many of the outcomes one transaction settles.
fn portion_of(outcomes: &[Outcome]) -> usize {
    let mut keys = 0;
    let is_too_many = |outcome: &Outcome| {
        keys += usize::from(outcome.key.is_some());
        keys > KEYS_MAX
    };
    outcomes.iter().position(is_too_many).unwrap_or(outcomes.len())
}

/// Settles these outcomes in one transaction. Returns of each whether it is locked.
async fn settle_some(
    database: &Database,
    tables: &Tables,
    queue: Queue,
    lease: Duration,
    outcomes: &[Outcome],
    over: &[i64],
) -> Result<Vec<bool>, StoreError> {
    let mut columns = Columns { over: over.to_vec(), ..Columns::default() };
    outcomes.iter().for_each(|outcome| columns.add(outcome));
    if columns.is_empty() {
        return Ok(vec![false; outcomes.len()]);
    }
    let sent = send(database, tables, queue, lease, &columns).await;
    let rows = match sent {
        // The texts of errors are the only ones that did not come from the database.
        Err(error) if is_untranslatable(&error) => {
            columns.errors.iter_mut().flatten().for_each(|error| *error = kept_error(&escaped(error)));
            send(database, tables, queue, lease, &columns).await?
        }
        sent => sent?,
    };
    let (mut positions, mut keys) = (HashSet::new(), HashSet::new());
    for row in &rows {
        positions.extend(row.get::<Option<i64>>("locked_position")?);
        keys.extend(row.get::<Option<i64>>("locked_key")?);
    }
    // The server counts keys from one.
    let mut key = 0;
    let is_locked = |outcome: &Outcome| {
        key += i64::from(outcome.key.is_some());
        let is_key_locked = outcome.key.is_some() && keys.contains(&key);
        is_key_locked || outcome.positions().any(|position| positions.contains(&position))
    };
    Ok(outcomes.iter().map(is_locked).collect())
}

/// Returns a text in ASCII, which every database can keep.
fn escaped(text: &str) -> String {
    let escape = |c: char| if c.is_ascii() { c.to_string() } else { c.escape_unicode().to_string() };
    text.chars().map(escape).collect()
}

async fn send(
    database: &Database,
    tables: &Tables,
    queue: Queue,
    lease: Duration,
    columns: &Columns,
) -> Result<Vec<Row>, StoreError> {
    let values = [
        Value::Numbers(&columns.done),
        Value::Numbers(&columns.done_tokens),
        Value::Numbers(&columns.positions),
        Value::Numbers(&columns.tokens),
        Value::Numbers(&columns.attempts),
        Value::OptionalTextEach(&columns.errors),
        Value::Numbers(&columns.dead),
        Value::Reals(&columns.delays),
        Value::Texts(&columns.names),
        Value::BytesEach(&columns.keys),
        Value::Numbers(&columns.key_tokens),
        Value::Reals(&columns.key_delays),
        Value::Numbers(&columns.over),
        Value::Real(micros(lease)),
    ];
    let sql = statements::call(tables, &queue.function("settle"), values.len());
    database.call("settle claims", &sql, &values).await
}

/// Outcomes, as they are sent to the server: column by column.
#[derive(Default)]
struct Columns {
    done: Vec<i64>,
    done_tokens: Vec<i64>,
    positions: Vec<i64>,
    tokens: Vec<i64>,
    attempts: Vec<i64>,
    errors: Vec<Option<String>>,
    dead: Vec<i64>,
    delays: Vec<f64>,
    names: Vec<String>,
    keys: Vec<Vec<u8>>,
    key_tokens: Vec<i64>,
    key_delays: Vec<f64>,
    /// Claims that end.
    over: Vec<i64>,
}

impl Columns {
    fn is_empty(&self) -> bool {
        self.done.is_empty() && self.positions.is_empty() && self.names.is_empty() && self.over.is_empty()
    }

    fn add(&mut self, outcome: &Outcome) {
        let mut put_off = jittered(outcome.put_off);
        for tried in &outcome.fates {
            match &tried.fate {
                Fate::Done => {
                    self.done.push(tried.position);
                    self.done_tokens.push(outcome.token);
                }
                Fate::Failed { error, delay } => {
                    put_off = -jittered(*delay);
                    self.tried(outcome.token, tried.position, tried.attempts, Some(error), false, put_off);
                }
                Fate::Later { error, delay } => {
                    put_off = -micros(*delay);
                    self.tried(outcome.token, tried.position, tried.attempts, Some(error), false, put_off);
                }
                Fate::Dead { error } => {
                    self.tried(outcome.token, tried.position, tried.attempts, Some(error), true, 0.0);
                }
            }
        }
        match (&outcome.key, outcome.first) {
            (Some(key), _) => {
                self.names.push(outcome.name.clone());
                self.keys.push(key.clone());
                self.key_tokens.push(outcome.token);
                self.key_delays.push(put_off);
            }
            (None, Some((position, attempts))) if outcome.fates.is_empty() => {
                self.tried(outcome.token, position, attempts, None, false, put_off);
            }
            (None, _) => {}
        }
    }

    fn tried(&mut self, token: i64, position: i64, attempts: u32, error: Option<&String>, is_dead: bool, delay: f64) {
        self.positions.push(position);
        self.tokens.push(token);
        self.attempts.push(attempts.into());
        self.errors.push(error.cloned());
        self.dead.push(is_dead.into());
        self.delays.push(delay);
    }
}

/// Returns a random part of a delay, between half and all of it, in microseconds: messages that
/// failed together do not come back together.
fn jittered(delay: Duration) -> f64 {
    // Most have none, and a random number takes a call of the system.
    if delay.is_zero() { 0.0 } else { micros(hapax_store::back_off::jittered(delay, random::any())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(token: i64) -> Outcome {
        let put_off = Duration::ZERO;
        Outcome { name: "c".into(), key: None, token, first: None, fates: Vec::new(), put_off }
    }

    #[test]
    fn a_claim_is_over_with_the_last_of_its_messages() {
        let run = |token, key| Run { name: "c".into(), key, token, claimed_at: Instant::now(), messages: Vec::new() };
        let mut open = Open::default();
        open.claimed(&[run(1, None), run(1, None), run(1, Some(vec![7])), run(2, None)]);
        assert!(open.over(&[outcome(1), outcome(3)]).is_empty());
        assert_eq!(open.over(&[outcome(1), outcome(1)]), [1]);
        open.settled(&[outcome(1), outcome(2)], &[false, true]);
        assert_eq!((open.over(&[outcome(1)]), open.over(&[outcome(2)])), (vec![1], vec![2]));
        open.settled(&[outcome(1), outcome(2)], &[false, false]);
        assert!(open.0.is_empty());
    }

    #[test]
    fn what_is_locked_is_tried_again_ever_later_and_not_for_ever() {
        let now = Instant::now();
        let mut locked = Locked::new(now);
        assert!(locked.is_empty() && locked.again_at().is_none());
        let until = now + Duration::from_secs(9);
        locked.keep([(outcome(1), Some(until)), (outcome(2), None)], now);
        let (mut at, mut waits) = (now, Vec::new());
        for _ in 0..12 {
            let again_at = locked.again_at().unwrap();
            assert!(locked.due(at).is_empty(), "not yet");
            waits.push(again_at - at);
            at = again_at;
            let due = locked.due(at);
            assert_eq!(due.len(), 2);
            locked.keep(due, at);
        }
        assert!(waits[0] <= LOCKED.first && waits[11] >= LOCKED.max / 2, "{waits:?}");
        let due = locked.due(locked.again_at);
        locked.keep(due, until);
        assert_eq!(locked.outcomes.len(), 1, "the other is over");
        locked.keep((0..LOCKED_MAX as i64).map(|token| (outcome(token), None)), until);
        assert_eq!(locked.outcomes.len(), LOCKED_MAX);
    }
}
