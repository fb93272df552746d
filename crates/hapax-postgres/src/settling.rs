//! Settles claims: tells the server what became of the claimed messages.

use super::queue::{Fate, Outcome, micros};
use super::tables::{Queue, Tables};
use super::transaction::Value;
use super::{Database, statements};
use hapax::tier::random;
use hapax_store::StoreError;
use std::time::Duration;

/// Keys that are given back in one transaction, each of which may take a lock.
const KEYS_MAX: usize = 128;

/// Settles claims. Claims that were lost to another worker or relay are left alone. Returns which
/// outcomes could not be settled yet, since somebody is still at work on a message that was given
/// up.
pub(super) async fn settle(
    database: &Database,
    tables: &Tables,
    queue: Queue,
    outcomes: &[Outcome],
) -> Result<Vec<usize>, StoreError> {
    let mut again = Vec::new();
    let mut at = 0;
    while at < outcomes.len() {
        let end = portion_of(outcomes, at);
        let some = &outcomes[at..end];
        let locked = settle_some(database, tables, queue, some).await?;
        let is_locked = |outcome: &Outcome| {
            let mut positions = outcome.fates.iter().map(|tried| tried.position);
            !locked.is_empty() && positions.any(|position| locked.contains(&position))
        };
        again.extend((at..end).filter(|&n| is_locked(&outcomes[n])));
        at = end;
    }
    Ok(again)
}

/// Returns the end of the outcomes that one transaction settles.
fn portion_of(outcomes: &[Outcome], from: usize) -> usize {
    let mut keys = 0;
    for (at, outcome) in outcomes.iter().enumerate().skip(from) {
        keys += usize::from(outcome.key.is_some());
        if keys > KEYS_MAX {
            return at;
        }
    }
    outcomes.len()
}

async fn settle_some(
    database: &Database,
    tables: &Tables,
    queue: Queue,
    outcomes: &[Outcome],
) -> Result<Vec<i64>, StoreError> {
    let mut columns = Columns::default();
    outcomes.iter().for_each(|outcome| columns.add(outcome));
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
    ];
    let rows = database.call("settle claims", &statements::settle(tables, queue), &values).await?;
    rows.iter().map(|row| row.get("settle")).collect()
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
}

impl Columns {
    fn add(&mut self, outcome: &Outcome) {
        let mut put_off = jittered(outcome.put_off);
        for tried in &outcome.fates {
            match &tried.fate {
                Fate::Done => {
                    self.done.push(tried.position);
                    self.done_tokens.push(outcome.token);
                }
                Fate::Failed { error, delay } => {
                    put_off = jittered(*delay);
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
    micros(hapax_store::back_off::jittered(delay, random::any()))
}
