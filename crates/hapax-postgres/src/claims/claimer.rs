//! Claims messages of one name, or of all in turn.

use super::places::{Looked, Places};
use super::queue::{Portion, Run, micros, runs, token, whole};
use crate::Database;
use crate::schema::statements;
use crate::schema::tables::{Queue, Tables};
use crate::transaction::{Row, Value};
use hapax_store::{ErrorKind, StoreError};
use std::collections::{HashSet, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// The most names that one look finds (as `queue.sql` has it), and the most that one claim visits:
/// where there are more names than one look finds, as many as it finds.
const NAMES_SEEN: usize = 64;
const NAMES_CLAIMED: usize = 16;
/// The most runs that a claim takes of more names than one look finds.
const FIRST_OF_MANY: usize = 256;
/// The time for which a list of names is used, while some of them are left, but not too many.
const LIST_LASTS: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Claimer {
    tables: Tables,
    queue: Queue,
    name: Option<String>,
    names: Names,
    /// The name after which to look for more.
    behind: String,
    listed: Option<Instant>,
    places: Places,
}

/// Names that had something due.
#[derive(Debug, Default)]
struct Names {
    /// Those that were found to have something, in the order in which they are visited.
    fresh: VecDeque<String>,
    /// Those that were visited, and had something.
    busy: VecDeque<String>,
    all: HashSet<String>,
}

impl Names {
    fn add(&mut self, name: String) {
        if self.all.insert(name.clone()) {
            self.fresh.push_back(name);
        }
    }

    /// Takes the next names. Those that were just found do not wait for all that have more, nor the
    /// other way round.
    fn take(&mut self, most: usize) -> Vec<String> {
        let of_fresh = self.fresh.len().min(most - self.busy.len().min(most / 4));
        let mut taken: Vec<String> = self.fresh.drain(..of_fresh).collect();
        let of_busy = self.busy.len().min(most - of_fresh);
        taken.extend(self.busy.drain(..of_busy));
        for name in &taken {
            self.all.remove(name);
        }
        taken
    }

    /// Puts a name that may have more behind the others.
    fn again(&mut self, name: String) {
        if self.all.insert(name.clone()) {
            self.busy.push_back(name);
        }
    }

    fn retain(&mut self, keeps: impl Fn(&str) -> bool) {
        if self.all.iter().any(|name| !keeps(name)) {
            for names in [&mut self.fresh, &mut self.busy] {
                names.retain(|name| keeps(name));
            }
            self.all.retain(|name| keeps(name));
        }
    }
}

impl Claimer {
    pub(crate) fn new(tables: &Tables, queue: Queue, name: Option<&str>) -> Self {
        Claimer {
            tables: tables.clone(),
            queue,
            name: name.map(str::to_owned),
            names: Names::default(),
            behind: String::new(),
            listed: None,
            places: Places::default(),
        }
    }

    /// Claims the messages that are due, up to a portion; of all names, but none of those that are
    /// paused. Returns none if nothing is due.
    pub(crate) async fn claim(
        &mut self,
        database: &Database,
        portion: &Portion,
        is_paused: impl Fn(&str) -> bool + Send,
    ) -> Result<Vec<Run>, StoreError> {
        if let Some(name) = self.name.clone() {
            return self.claim_of(database, &[name], portion).await;
        }
        self.names.retain(|name| !is_paused(name));
        // With many names, each claim looks for others, or a name would be found after all of these
        // had their turns, again and again.
        let is_due = self.listed.is_none_or(|listed| listed.elapsed() >= LIST_LASTS);
        if is_due || self.names.all.is_empty() || self.names.all.len() >= NAMES_SEEN {
            self.list(database, &is_paused).await?;
        }
        while !self.names.all.is_empty() {
            let are_many = self.names.all.len() > NAMES_SEEN;
            let most = if are_many { NAMES_SEEN } else { NAMES_CLAIMED };
            let names = self.names.take(portion.first.clamp(1, most));
            // Each of many names waits for the claims of all others: it takes less at once.
            let first = if are_many { portion.first.min(FIRST_OF_MANY) } else { portion.first };
            let runs = self.claim_of(database, &names, &Portion { first, ..*portion }).await?;
            // A name that had something may have more: it is visited again after the others.
            let has_some: HashSet<&str> = runs.iter().map(|run| run.name.as_str()).collect();
            names
                .iter()
                .filter(|name| has_some.contains(name.as_str()))
                .for_each(|name| self.names.again(name.clone()));
            if !runs.is_empty() {
                return Ok(runs);
            }
        }
        Ok(Vec::new())
    }

    async fn claim_of(
        &mut self,
        database: &Database,
        names: &[String],
        portion: &Portion,
    ) -> Result<Vec<Run>, StoreError> {
        let began = Instant::now();
        let places = names.iter().map(|name| self.places.of(name, began));
        let (since, since_positions): (Vec<i64>, Vec<i64>) = places.map(|[since, position]| (since, position)).unzip();
        let (open, open_since) = self.places.open();
        let token = token();
        let values = [
            Value::Texts(names),
            Value::Numbers(&since),
            Value::Numbers(&since_positions),
            Value::Numbers(&open),
            Value::Numbers(&open_since),
            Value::Bool(self.places.is_to_mark(began)),
            whole(portion.first),
            whole(portion.behind),
            whole(portion.bytes),
            Value::Real(micros(portion.lease)),
            Value::Number(token),
        ];
        let sql = statements::call(&self.tables, &self.queue.function("take"), values.len());
        let claimed = database.call("claim messages", &sql, &values).await;
        let rows = claimed.inspect_err(|error| {
            self.places.failed(names, error.kind() == ErrorKind::Timeout, Instant::now());
        })?;
        let mut looked = Looked::default();
        let mut messages: Vec<&Row> = Vec::with_capacity(rows.len());
        for row in &rows {
            if row.get::<Option<i64>>("position")?.is_some() {
                messages.push(row);
                continue;
            }
            (looked.at, looked.backend) = (row.get("looked_at")?, row.get("backend")?);
            looked.open = row.get("transactions")?;
            looked.ended = row.get("ended")?;
            looked.places.push((row.get("name")?, [row.get("since")?, row.get("since_position")?]));
        }
        self.places.looked(looked, began, Instant::now());
        runs(messages, token, began)
    }

    /// Looks for names that have something due: for the next of them, and at most once round.
    async fn list(&mut self, database: &Database, is_paused: impl Fn(&str) -> bool) -> Result<(), StoreError> {
        let mut is_second = false;
        loop {
            let began = Instant::now();
            let (known, since) = self.places.behind(&self.behind, NAMES_SEEN, began);
            let (open, open_since) = self.places.open();
            let values = [
                Value::Text(&self.behind),
                Value::Texts(&known),
                Value::Numbers(&since),
                Value::Numbers(&open),
                Value::Numbers(&open_since),
                Value::Bool(self.places.is_to_mark(began)),
            ];
            let sql = statements::call(&self.tables, &self.queue.function("names"), values.len());
            let rows = database.call("look for names", &sql, &values).await;
            let rows = rows.inspect_err(|error| {
                self.places.failed(&known, error.kind() == ErrorKind::Timeout, Instant::now());
            })?;
            let is_last = rows.len() < NAMES_SEEN;
            let mut looked = Looked::default();
            for row in &rows {
                let name: String = row.get("name")?;
                if row.get("is_due")? && !is_paused(&name) {
                    self.names.add(name.clone());
                }
                (looked.at, looked.backend) = (row.get("looked_at")?, row.get("backend")?);
                looked.open = row.get("transactions")?;
                looked.ended = row.get("ended")?;
                looked.places.push((name.clone(), [row.get("since")?, 0]));
                self.behind = name;
            }
            if !rows.is_empty() {
                self.places.looked(looked, began, Instant::now());
            }
            if is_last {
                self.behind.clear();
            }
            self.listed = Some(Instant::now());
            if !self.names.all.is_empty() || (is_last && is_second) {
                return Ok(());
            }
            is_second |= is_last;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_was_just_found_waits_for_no_round_of_the_others() {
        let mut names = Names::default();
        (0..10_000).for_each(|n| names.again(format!("{n}")));
        names.add("rare".into());
        assert!(names.take(16).contains(&"rare".to_owned()));
        // Nor do the others wait for those that were just found.
        (0..100).for_each(|n| names.add(format!("new {n}")));
        let taken = names.take(16);
        assert_eq!(taken.iter().filter(|name| name.starts_with("new")).count(), 12);
        names.add(taken[0].clone());
        names.retain(|name| !name.starts_with("new"));
        assert!(names.fresh.is_empty() && names.all.len() == names.busy.len());
        assert_eq!(names.take(1 << 20).len(), 10_000 - 15 - 4);
    }
}
