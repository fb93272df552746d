//! Batches of writes: a conditional write for each request, several under way at a time.

use crate::DynamoDbStore;
use crate::errors::{self, Failure, error, failure};
use crate::item::{self, Item, RESULT_BYTES_MAX};
use crate::operations::Operation;
use crate::tries::Tries;
use crate::update::{Condition, Update, Written};
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure;
use futures_util::future::join_all;
use hapax::seam::random;
use hapax_store::backend::record::{Change, Moment, StoredRecord};
use hapax_store::backend::times::Timed;
use hapax_store::*;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// The number of times that a record may change between our look at it and our write.
const ROUNDS_MAX: usize = 8;

/// The outcome of a conditional write: done, or the record that was there instead.
type Outcome = Result<(), Option<StoredRecord>>;

impl DynamoDbStore {
    /// Answers a batch: requests for one id one after the other, ids next to each other.
    pub(crate) async fn each<R: Timed + Sync, A: Send>(
        &self,
        operation: &Operation<R, A>,
        requests: &[R],
    ) -> Answers<A> {
        let deadline = Instant::now() + self.options.timeout;
        let mut of_keys: BTreeMap<&RecordKey, Vec<usize>> = BTreeMap::new();
        for (at, request) in requests.iter().enumerate() {
            of_keys.entry((operation.key)(request)).or_default().push(at);
        }
        let in_turn = |places: Vec<usize>| async move {
            let mut answers = Vec::with_capacity(places.len());
            for at in places {
                answers.push((at, self.settle(operation, &requests[at], deadline).await));
            }
            answers
        };
        let settled = join_all(of_keys.into_values().map(in_turn)).await;
        let mut answers: Vec<_> = settled.into_iter().flatten().collect();
        answers.sort_unstable_by_key(|(at, _)| *at);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }

    /// Answers a request. Its first write takes the record to be as it mostly is: there is none for
    /// a mark or a claim, and the caller's own for the end of a claim. If it is not, the service
    /// returns the record with its refusal, and it is decided on that.
    async fn settle<R: Timed + Sync, A: Send>(
        &self,
        operation: &Operation<R, A>,
        request: &R,
        deadline: Instant,
    ) -> Result<A, StoreError> {
        request.check()?;
        let key = (operation.key)(request);
        let mut tries = Tries::new(operation.repeats);
        'again: loop {
            let (mut update, mut answer) = (operation.first)(request, self.clock.now());
            let bytes = update.result_bytes();
            if bytes > RESULT_BYTES_MAX {
                let what = format!("a result has at most {RESULT_BYTES_MAX} bytes here, this one has {bytes}");
                return Err(error(ErrorKind::Misconfigured, what));
            }
            for _ in 0..=ROUNDS_MAX {
                let stored = match self.write(operation.name, key, update, deadline).await {
                    Ok(Ok(())) => return Ok(answer),
                    Ok(Err(stored)) => stored,
                    Err(failure) => {
                        self.pause(&mut tries, failure, deadline).await?;
                        continue 'again;
                    }
                };
                let at = Moment::of_server(self.clock.now());
                let (decided, change) = (operation.decide)(stored.as_ref(), request, at);
                let Change::Put(next) = change else { return Ok(decided) };
                update = Written::whole(&next).only_if(Condition::Still(stored.as_ref()));
                answer = decided;
            }
            let what = format!("{}: the record of {key} has changed each of {ROUNDS_MAX} times", operation.name);
            return Err(error(ErrorKind::Unavailable, what));
        }
    }

    /// Waits before the next try of a request, or returns the error to end with.
    pub(crate) async fn pause(&self, tries: &mut Tries, failed: Failure, deadline: Instant) -> Result<(), StoreError> {
        let left = deadline.saturating_duration_since(Instant::now());
        let wait = tries.after(failed, left, random::any())?;
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// Makes one conditional write.
    async fn write(
        &self,
        doing: &'static str,
        key: &RecordKey,
        update: Update,
        deadline: Instant,
    ) -> Result<Outcome, Failure> {
        let table = &self.options.table;
        let request = self
            .client
            .update_item()
            .table_name(table)
            .set_key(Some(item::key(key)))
            .update_expression(update.expression)
            .condition_expression(update.condition)
            .set_expression_attribute_names(Some(update.names))
            .set_expression_attribute_values(Some(update.values))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let answered = self.in_time(doing, deadline, request.send()).await?;
        let refused = match answered {
            Ok(_) => return Ok(Ok(())),
            Err(refused) => refused,
        };
        match refused.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(failed)) => match failed.item().map(item::record) {
                None => Ok(Err(None)),
                Some(Ok(stored)) => Ok(Err(Some(stored))),
                Some(Err(error)) => Err(Failure::of(of_key(key, error))),
            },
            _ => Err(failure(refused, doing, table)),
        }
    }

    /// Makes one try: waits for its turn, and not longer than it may take.
    pub(crate) async fn in_time<A>(
        &self,
        doing: &'static str,
        deadline: Instant,
        call: impl Future<Output = A>,
    ) -> Result<A, Failure> {
        let left = || deadline.saturating_duration_since(Instant::now());
        let late = |limit: Duration| errors::late(doing, &self.options.table, limit);
        let busy = || {
            let what =
                format!("{doing}: expected a turn within {:?}, with so many requests under way", self.options.timeout);
            Failure::of(error(ErrorKind::Unavailable, what))
        };
        let Ok(Ok(_turn)) = tokio::time::timeout(left(), self.turns.acquire()).await else { return Err(busy()) };
        let limit = self.options.try_timeout.min(left());
        tokio::time::timeout(limit, call).await.map_err(|_| late(limit))
    }
}

/// Adds the record's name to an error of its content.
pub(crate) fn of_key(key: &RecordKey, error: StoreError) -> StoreError {
    StoreError::caused(error.kind(), errors::BACKEND, format!("the record of {key}"), error)
}

/// Returns the record of an item, with its name in errors.
pub(crate) fn record_of(item: &Item, key: &RecordKey) -> Result<StoredRecord, StoreError> {
    item::record(item).map_err(|error| of_key(key, error))
}
