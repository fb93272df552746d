//! Batches: sorted, inserted, looked at, changed.
//!
//! A request that creates is first *inserted*, which does nothing where there is a record. Existing
//! records are then *looked at*; that answers most duplicates. A record that has to change is
//! *locked*, decided by the same functions as in every other backend, and written back. Each of the
//! three is a transaction of its own and takes its locks in the order of keys. Insertions wait for
//! insertions only, and changes for changes, so there is no deadlock.

use super::entries::*;
use super::errors::{corrupt, misconfigured};
use super::keys::Keys;
use super::operations::Operation;
use super::rows::*;
use super::session::{Session, Values};
use super::{BACKEND, Layout, PostgresStore, SHARED, statements};
use hapax::Timestamp;
use hapax_store::backend::record::{Change, Moment, StoredRecord};
use hapax_store::*;
use tokio_postgres::types::Type;

/// The largest result. The server's own limit is a gigabyte for a whole row.
const RESULT_BYTES_MAX: usize = 64 << 20;
/// The total size of the results that one transaction carries.
const RESULTS_BYTES_MAX: usize = 64 << 20;
/// The number of passes over a batch for ids that were in another partition at each look-up. An id
/// is moved by the first write to it in a new partition, so even one repetition is rare.
const ROUNDS_MAX: usize = 8;
/// The number of passes for requests that create nothing: an id that was found neither time is
/// nowhere.
const ROUNDS_OF_CHANGES: usize = 2;

/// A batch under way.
pub(super) struct Batch<'r, R, A> {
    pub(super) operation: &'r Operation<R, A>,
    requests: &'r [R],
    order: Vec<usize>,
    answers: Vec<Option<Result<A, StoreError>>>,
}

impl<R, A> Batch<'_, R, A> {
    /// Returns the first request for an id that has no answer yet.
    pub(super) fn first(&self, entry: &Entry) -> &R {
        &self.requests[self.order[entry.asking.start]]
    }

    /// Answers the first request for an id that has no answer yet.
    pub(super) fn answer_first(&mut self, entry: &mut Entry, answer: A) {
        self.answers[self.order[entry.asking.start]] = Some(Ok(answer));
        entry.asking.start += 1;
    }

    /// Decides all requests for an id, one after the other. Returns the answers, and the record if
    /// it has changed.
    fn decide(&self, entry: &Entry, kept: Option<StoredRecord>, now: Timestamp) -> (Vec<A>, Option<StoredRecord>) {
        let (mut kept, mut changed) = (kept, false);
        let asking = self.order[entry.asking.clone()].iter().map(|&position| &self.requests[position]);
        let answers = asking
            .map(|request| {
                let (answer, change) = (self.operation.decide)(kept.as_ref(), request, Moment::of_server(now));
                if let Change::Put(put) = change {
                    (kept, changed) = (Some(put), true);
                }
                answer
            })
            .collect();
        (answers, kept.filter(|_| changed))
    }

    fn answer_all(&mut self, entry: &Entry, answers: Vec<A>) {
        for (&position, answer) in self.order[entry.asking.clone()].iter().zip(answers) {
            self.answers[position] = Some(Ok(answer));
        }
    }

    /// Answers requests for an id that has no record, where none is created.
    fn answer_absent(&mut self, entry: &Entry) {
        let (answers, _) = self.decide(entry, None, Timestamp::default());
        self.answer_all(entry, answers);
    }

    fn fail(&mut self, entry: &Entry, error: &StoreError) {
        for &position in &self.order[entry.asking.clone()] {
            self.answers[position] = Some(Err(error.clone()));
        }
    }
}

impl PostgresStore {
    /// Answers a batch.
    pub(super) async fn run<R, A>(&self, operation: &Operation<R, A>, requests: &[R]) -> Answers<A> {
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let session = self.session().await?;
        let scopes = requests.iter().map(|request| &(operation.key)(request).scope);
        let creates = operation.creation.is_some();
        let numbers = self.scopes.numbers(&session, &self.names, self.options.layout, scopes, creates).await?;

        let mut batch = Batch { operation, requests, order: Vec::new(), answers: Vec::new() };
        let mut wanted = Vec::with_capacity(requests.len());
        for (position, (request, scope)) in requests.iter().zip(numbers).enumerate() {
            let bytes = (operation.result)(request).map_or(0, Vec::len);
            batch.answers.push(match scope {
                Some(scope) if bytes <= RESULT_BYTES_MAX => {
                    wanted.push((scope, (operation.key)(request).id, position));
                    None
                }
                Some(_) => Some(Err(too_large(bytes))),
                // Nothing was ever written to this scope.
                None => Some(Ok((operation.decide)(None, request, Moment::of_server(Timestamp::default())).0)),
            });
        }
        let (order, entries) = sort(wanted);
        batch.order = order;
        for (family, entries) in self.parts(&batch, entries) {
            self.settle(&session, family, &mut batch, entries).await?;
        }
        session.finish();
        let unanswered = || Err(corrupt("a request was left without an answer"));
        Ok(batch.answers.into_iter().map(|answer| answer.unwrap_or_else(unanswered)).collect())
    }

    /// Returns the parts of a batch, each of which goes into one transaction.
    fn parts<R, A>(&self, batch: &Batch<'_, R, A>, entries: Vec<Entry>) -> Vec<(i32, Vec<Entry>)> {
        let family = |scope| match self.options.layout {
            Layout::Shared => SHARED,
            Layout::PerScope => scope,
        };
        let bytes = |entry: &Entry| {
            let asking = batch.order[entry.asking.clone()].iter().map(|&position| &batch.requests[position]);
            asking.map(|request| (batch.operation.result)(request).map_or(0, Vec::len)).sum()
        };
        cut(entries, family, bytes, RESULTS_BYTES_MAX)
    }

    /// Answers the requests for the ids of one table.
    async fn settle<R, A>(
        &self,
        session: &Session<'_>,
        family: i32,
        batch: &mut Batch<'_, R, A>,
        mut rest: Vec<Entry>,
    ) -> Result<(), StoreError> {
        let operation = batch.operation;
        for round in 1..=ROUNDS_MAX {
            if let Some(creation) = &operation.creation {
                rest = self.insert(session, family, batch, creation, rest).await?;
            }
            if operation.looks && !rest.is_empty() {
                rest = self.look(session, family, batch, rest).await?;
            }
            if operation.changes && !rest.is_empty() {
                rest = self.change(session, family, batch, rest).await?;
            }
            let nowhere = operation.creation.is_none() && (!operation.changes || round == ROUNDS_OF_CHANGES);
            if rest.is_empty() || nowhere {
                break;
            }
        }
        let moved = StoreError::new(ErrorKind::Unavailable, BACKEND, "the id was moved each time it was looked for");
        for entry in rest {
            match operation.creation {
                Some(_) => batch.fail(&entry, &moved),
                None => batch.answer_absent(&entry),
            }
        }
        Ok(())
    }

    /// Answers the requests that change nothing. The remaining entries have to be changed, or were
    /// not found.
    async fn look<R, A>(
        &self,
        session: &Session<'_>,
        family: i32,
        batch: &mut Batch<'_, R, A>,
        entries: Vec<Entry>,
    ) -> Result<Vec<Entry>, StoreError> {
        let keys = Keys::of(&entries);
        let sql = statements::look(&self.names, family);
        let results = batch.operation.answers_results;
        let values: Values<'_> = &[(&keys, Type::BYTEA_ARRAY), (&results, Type::BOOL)];
        let rows = session.query(batch.operation.name, &sql, values).await?;
        let mut answered = vec![false; entries.len()];
        for row in &rows {
            let found = found(row)?;
            let entry = entries.get(found.at).ok_or_else(|| corrupt("found what was not asked for"))?;
            if answered[found.at] {
                return Err(in_two(entry));
            }
            if let (answers, None) = batch.decide(entry, Some(found.kept), found.now) {
                batch.answer_all(entry, answers);
                answered[found.at] = true;
            }
        }
        Ok(unanswered(entries, &answered))
    }

    /// Locks, decides, writes back: two round trips. The remaining entries were not found.
    async fn change<R, A>(
        &self,
        session: &Session<'_>,
        family: i32,
        batch: &mut Batch<'_, R, A>,
        entries: Vec<Entry>,
    ) -> Result<Vec<Entry>, StoreError> {
        let (names, name) = (&self.names, batch.operation.name);
        let (lock, put) = (statements::lock(names, family), statements::put(names, family));
        // Prepared before any lock is taken, so that no other call waits for a lock meanwhile.
        session.prepare(&put).await?;
        let keys = Keys::of(&entries);
        let results = batch.operation.answers_results;
        let values: Values<'_> = &[(&keys, Type::BYTEA_ARRAY), (&results, Type::BOOL)];
        let begin = statements::begin(session.settings(), names, family);
        let rows = session.between(name, &begin, (&lock, values), "").await?;

        let mut found_any = vec![false; entries.len()];
        let (mut decided, mut puts) = (Vec::new(), Vec::new());
        // The records that are to be removed from older partitions.
        let (mut buckets, mut moved) = (Vec::new(), Keys(Vec::new()));
        for row in &rows {
            let found = found(row)?;
            let entry = entries.get(found.at).ok_or_else(|| corrupt("locked what was not asked for"))?;
            if std::mem::replace(&mut found_any[found.at], true) {
                return Err(in_two(entry));
            }
            let (answers, kept) = batch.decide(entry, Some(found.kept), found.now);
            decided.push((entry, answers));
            if let Some(kept) = kept {
                if found.bucket != found.current {
                    buckets.push(found.bucket);
                    moved.0.push(entry);
                }
                puts.push((entry, kept));
            }
        }
        if !buckets.is_empty() {
            let remove = statements::remove(names, family);
            let values: Values<'_> = &[(&buckets, Type::INT4_ARRAY), (&moved, Type::BYTEA_ARRAY)];
            session.between(name, "", (&remove, values), "").await?;
        }
        let columns = Columns::of(puts.iter().map(|(entry, kept)| (*entry, kept)));
        let Columns { keys, states, tokens, attempts, fingerprints, times, results } = &columns;
        if puts.is_empty() {
            session.batch(name, "COMMIT").await?;
        } else {
            let values: Values<'_> = &[
                (keys, Type::BYTEA_ARRAY),
                (states, Type::INT2_ARRAY),
                (tokens, Type::INT8_ARRAY),
                (attempts, Type::INT8_ARRAY),
                (fingerprints, Type::BYTEA_ARRAY),
                (times, Type::TIMESTAMPTZ_ARRAY),
                (results, Type::BYTEA_ARRAY),
            ];
            session.between(name, "", (&put, values), "COMMIT").await?;
        }
        // Answered only once the changes are committed.
        for (entry, answers) in decided {
            batch.answer_all(entry, answers);
        }
        Ok(unanswered(entries, &found_any))
    }
}

fn unanswered(entries: Vec<Entry>, answered: &[bool]) -> Vec<Entry> {
    entries.into_iter().zip(answered).filter(|(_, answered)| !**answered).map(|(entry, _)| entry).collect()
}

fn in_two(entry: &Entry) -> StoreError {
    corrupt(format!("the id {} of scope {} is in two partitions", entry.id, entry.scope))
}

fn too_large(bytes: usize) -> StoreError {
    misconfigured(format!("a result has at most {RESULT_BYTES_MAX} bytes, this one has {bytes}"))
}
